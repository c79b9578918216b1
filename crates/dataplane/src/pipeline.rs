//! A frame's way through a link: classified, protected or verified, and out on the other side.
//!
//! ```text
//!  plain port     ──▶ outward: MAC control? ──no──▶ [fragment] ──▶ bypass? ──no──▶ SecY protect ──▶ ToProtected ──▶ protected port
//!  protected port ──▶ inward:  MAC control? bypass? EAPOL? ──no──▶ SecY verify ──▶ [separate] ──▶ ToPlain ──▶ plain port
//! ```
//!
//! EtherTypes mean something on the protected side only: whatever enters the plain port is an SDU, also a frame
//! of EtherType 0x88E5 or 0x888E, and whatever its destination address. The exception is MAC control (IEEE 802.3
//! clause 31: PAUSE, priority-based flow control): it speaks to the other end of one cable and never goes further. At
//! the far end, later and by an authenticated way, it would stop a queue that nobody asked to be stopped. What leaves is
//! collected with the proof that it may go there (`proven.rs`): no way around the SecY but the configured bypass.
//!
//! Where the link has a cell, frames of its relations go through that instead, before all others (`cyclic.rs`).
//!
//! Where keys are agreed on, EAPOL of the protected side goes to the KaY through a mailbox (`kay.rs`), and what the KaY
//! says leaves in clear, by a way of its own.
//!
//! Work for a burst: one classification, one protection or verification a frame. No allocation, no lock, no log.

mod cover;
mod cyclic;
mod kay;
mod proven;

use std::mem;
use std::time;

use arrayvec::ArrayVec;
use secy::passed_on::{PassedOnError, Words};
use secy::{
    CarryOver, Delivered, Frame, FrameLayout, Incoming, NextAction, Outgoing, SDU_OCTETS, SduBuffer, SecY,
    Settings, UnmatchedFrame,
};
use wire::ethernet::{ADDRESSES_OCTETS, HEADER_OCTETS};
use wire::{EtherType, Instant};

use crate::cell::Cell;
use crate::fragmenter::{FragmentConfig, Fragmenter, FragmenterCounters};
pub use kay::KayMailbox;
use netdev::burst::{BURST_FRAMES, Burst};
use netdev::pool::{FrameView, Pool};
use netdev::port::Port;
pub(crate) use proven::give_refused;
use proven::{MayEnter, MayLeave};
pub use proven::{ToPlain, ToProtected};

wire::counters! {
    /// Frames that were counted outside the SecY.
    PipelineCounters {
        /// Sent in clear, because their EtherType is in `bypass`.
        out_pkts_bypass = "OutPktsBypass",
        /// Delivered though in clear, because their EtherType is in `bypass`.
        in_pkts_bypass = "InPktsBypass",
        /// Discarded: MAC control from the machine, such as PAUSE, which never goes further than one hop.
        out_pkts_mac_control = "OutPktsMacControl" [discard],
        /// Discarded: MAC control from the network.
        in_pkts_mac_control = "InPktsMacControl" [discard],
        /// MACsec frames of SCIs that the SecY does not know, which pass to stations of the LAN. Counted inside of a site alone;
        /// elsewhere `InPktsNoSAError` counts such frames.
        in_pkts_other_sci = "InPktsOtherSci",
        /// Discarded: EAPOL frames, which are for a KaY; a link with static keys has none.
        in_pkts_eapol = "InPktsEapol" [discard],
        /// EAPOL frames received and given to the KaY.
        in_pkts_kay = "InPktsKay",
        /// Discarded: EAPOL frames, since so many waited for the KaY already that there was no room.
        in_pkts_kay_overrun = "InPktsKayOverrun" [discard],
        /// Discarded: EAPOL frames that are longer than any MKPDU.
        in_pkts_kay_too_long = "InPktsKayTooLong" [discard],
        /// MKPDUs sent.
        out_pkts_kay = "OutPktsKay",
        /// Discarded: MKPDUs for which no chunk was free; a link without ports has none.
        out_pkts_kay_no_chunk = "OutPktsKayNoChunk" [discard],
        /// Frames that were verified and held nothing but padding: there was nothing to deliver.
        in_pkts_padding = "InPktsPadding",
        /// SDUs put together or separated, but no chunk was free for them, or none is long enough.
        in_sdus_no_chunk = "InSdusNoChunk" [discard],
    }
}

/// A link's SecY and what goes around it.
#[derive(Debug)]
pub struct Pipeline {
    /// The SecY.
    pub secy: SecY,
    /// EtherTypes that pass in clear, both ways; short, and mostly empty.
    bypass: ArrayVec<EtherType, { Pipeline::BYPASS }>,
    fragmenter: Option<Box<Fragmenter>>,
    /// The fragmenter before, if SDUs wait for its ticks: they go before all others.
    before_cover: Option<Box<Fragmenter>>,
    /// SDUs that are not a frame of their own, on their way to the plain side.
    sdu_buffer: SduBuffer,
    counters: PipelineCounters,
    /// The last frame of an SCI that the SecY does not know, which passed to stations.
    last_passed: Option<UnmatchedFrame>,
    /// Of the pipelines that this one took over from, and of fragmenters that others followed.
    fragmented_before: FragmenterCounters,
    /// To and from the KaY, if keys are agreed on.
    kay: Option<KayMailbox>,
    /// Whose relations do not go through the SecY.
    cell: Option<Box<Cell>>,
}

impl Pipeline {
    /// The most EtherTypes that can be bypassed.
    pub const BYPASS: usize = 8;

    /// A pipeline through `secy`, past which the EtherTypes of `bypass` go (at most [`Pipeline::BYPASS`]; more are cut). SDUs
    /// are fragmented and put together as `fragmentation` says.
    pub fn new(secy: SecY, bypass: &[EtherType], fragmentation: Option<FragmentConfig>) -> Self {
        let bypass = bypass.iter().copied().take(Self::BYPASS).collect();
        // An unprotected SDU must leave as it came: no station could tell its parts.
        let fragmentation = fragmentation.filter(|_| secy.settings().protect_frames);
        let fragmenter = fragmentation
            .map(|fragmentation| Box::new(Fragmenter::new(secy.settings(), fragmentation, SDU_OCTETS)));
        let sdu_buffer = match secy.settings() {
            Settings { reassemble: true, mtu, .. } => SduBuffer::new(BURST_FRAMES, mtu + HEADER_OCTETS),
            _ => SduBuffer::none(),
        };
        Self {
            secy,
            bypass,
            fragmenter,
            before_cover: None,
            sdu_buffer,
            counters: PipelineCounters::default(),
            last_passed: None,
            fragmented_before: FragmenterCounters::default(),
            kay: None,
            cell: None,
        }
    }

    /// Whether SDUs are fragmented.
    pub const fn is_fragmenting(&self) -> bool {
        self.fragmenter.is_some()
    }

    /// Counters of fragmenting and concatenating.
    pub fn fragmenter_counters(&self) -> FragmenterCounters {
        let mut sum = self.fragmented_before;
        if let Some(fragmenter) = &self.fragmenter {
            sum.add(fragmenter.counters());
        }
        sum
    }

    /// Appends what it has counted and received ([`crate::link::Link::pass_on`]).
    pub(crate) fn pass_on(&self, into: &mut Vec<u64>) {
        into.extend(self.counters.values());
        into.extend(self.fragmenter_counters().values());
        self.secy.pass_on(into);
        self.pass_on_cover(into);
    }

    /// Goes on where a pipeline of the same configuration was.
    pub(crate) fn go_on(&mut self, words: &mut Words<'_>) -> Result<(), PassedOnError> {
        self.counters = PipelineCounters::from_values(words.take()?);
        self.fragmented_before = FragmenterCounters::from_values(words.take()?);
        self.secy.go_on(words)?;
        self.go_on_with_cover(words)
    }

    /// Counters outside the SecY.
    pub const fn counters(&self) -> &PipelineCounters {
        &self.counters
    }

    /// The last MACsec frame that passed to stations, because the SecY does not know its SCI.
    pub const fn last_passed(&self) -> Option<UnmatchedFrame> {
        self.last_passed
    }

    /// Counts a MACsec frame that passes to stations, and notes whose it is: perhaps a peer's whose SCI is another one here.
    pub(crate) fn note_passed(&mut self, frame: &[u8]) {
        self.counters.in_pkts_other_sci += 1;
        self.last_passed = UnmatchedFrame::of(frame);
    }

    /// Takes a burst from the plain port to the protected one; what may not leave goes back to the pool. Leaves
    /// `burst` empty, but for what is held until [`Pipeline::held_until`] so that it shares a frame with what comes.
    pub fn outward(
        &mut self,
        now: Instant,
        pool: &mut Pool,
        burst: &mut Burst,
        out: &mut ToProtected,
        port: &mut dyn Port,
    ) -> NextAction {
        self.drop_mac_control(pool, burst);
        self.cyclic_outward(pool, burst, out, port);
        if burst.is_empty() {
            return NextAction::Continue;
        }
        let next = self.rest_outward(now, pool, burst, out, port);
        // The other port is asked later by as much as that took.
        if self.cell.is_some() {
            self.mark_poll_time(time::Instant::now());
        }
        next
    }

    /// Takes frames of no relation through the SecY, or past it.
    fn rest_outward(
        &mut self,
        now: Instant,
        pool: &mut Pool,
        burst: &mut Burst,
        out: &mut ToProtected,
        port: &mut dyn Port,
    ) -> NextAction {
        let Some(mut fragmenter) = self.fragmenter.take() else {
            let next = self.protect(pool, burst, &[], out);
            out.transmit(port, pool);
            return next;
        };
        if let Some((cover, counters)) = fragmenter.cover_mut() {
            // They leave at the ticks ([`Pipeline::send_ticks`]).
            cover.queue(pool, burst, counters);
            self.fragmenter = Some(fragmenter);
            return NextAction::Continue;
        }
        let mut next = NextAction::Continue;
        fragmenter.hold(now, pool, burst);
        fragmenter.plan(pool, |frame| self.is_bypassed(frame));
        while fragmenter.assemble(pool) {
            let (frames, layouts) = fragmenter.assembled();
            next = next.max(self.protect(pool, frames, layouts, out));
            out.transmit(port, pool);
        }
        fragmenter.finish(pool);
        self.fragmenter = Some(fragmenter);
        next
    }

    /// Gives the MAC control frames of a burst back to the pool. Before SDUs are fragmented, since a part tells no
    /// EtherType.
    fn drop_mac_control(&mut self, pool: &mut Pool, burst: &mut Burst) {
        if !burst.slots().iter().any(|slot| is_mac_control(pool.frame(slot))) {
            return;
        }
        let mut kept = Burst::new();
        for slot in burst.drain() {
            if is_mac_control(pool.frame(&slot)) {
                self.counters.out_pkts_mac_control += 1;
                pool.give(slot);
            } else {
                give_refused(kept.push(slot), pool);
            }
        }
        for slot in kept.drain() {
            give_refused(burst.push(slot), pool);
        }
    }

    /// Until when SDUs are held at most, if any are; with cover, the next tick.
    pub fn held_until(&self) -> Option<Instant> {
        if self.before_cover.is_some() && self.waits_before_cover() {
            return Some(Instant::START);
        }
        self.fragmenter.as_ref().and_then(|fragmenter| fragmenter.held_until())
    }

    /// Takes over from `predecessor`, as [`SecY::take_over`] says; what is held goes on waiting, at most as long as it
    /// would have.
    pub fn take_over(&mut self, predecessor: &mut Self, carry_over: &CarryOver) {
        self.secy.take_over(&mut predecessor.secy, carry_over);
        self.counters.add(&mem::take(&mut predecessor.counters));
        self.last_passed = predecessor.last_passed;
        self.fragmented_before.add(&predecessor.fragmenter_counters());
        if let Some(kay) = predecessor.kay.take() {
            self.set_kay(kay);
        }
        self.cell = predecessor.cell.take();
        let held_since = predecessor.fragmenter.as_ref().and_then(|fragmenter| fragmenter.held_since());
        if let Some(fragmenter) = &mut self.fragmenter {
            fragmenter.resume_holding(held_since);
        }
        self.take_over_cover(predecessor);
    }

    /// Fragments SDUs with `fragmenter` from the next turn on, or not at all; returns the one before. What is held goes on
    /// waiting, at most as long as it would have; without a fragmenter it goes in the next turn.
    pub fn replace_fragmenter(&mut self, mut fragmenter: Option<Box<Fragmenter>>) -> Option<Box<Fragmenter>> {
        let mut before = self.fragmenter.take();
        if let Some(before) = &before {
            self.fragmented_before.add(before.counters());
        }
        if let Some(fragmenter) = &mut fragmenter {
            fragmenter.resume_holding(before.as_ref().and_then(|before| before.held_since()));
        }
        self.fragmenter = fragmenter;
        self.keep_cover(&mut before);
        before
    }

    /// Forgets the SDUs that were held: their memory is gone. Returns the number of those that waited for a tick.
    pub(crate) fn discard_held(&mut self) -> u64 {
        let fragmenters = [&mut self.before_cover, &mut self.fragmenter];
        fragmenters.into_iter().flatten().map(|fragmenter| fragmenter.discard_held()).sum()
    }

    /// Protects frames, each with its layout in `layouts` (none: each is an SDU), and takes them to `out`.
    fn protect(
        &mut self,
        pool: &mut Pool,
        burst: &mut Burst,
        layouts: &[Option<FrameLayout>],
        out: &mut ToProtected,
    ) -> NextAction {
        let mut proofs: ArrayVec<Option<MayLeave>, BURST_FRAMES> = ArrayVec::new();
        let next = {
            let mut sdus: ArrayVec<Outgoing<'_>, BURST_FRAMES> = ArrayVec::new();
            let mut places: ArrayVec<(usize, &mut usize, &mut usize), BURST_FRAMES> = ArrayVec::new();
            for (index, FrameView { chunk, start, len }) in pool.views(burst.slots_mut()).enumerate() {
                let frame = Frame::new(chunk, *start, *len);
                let layout = layouts.get(index).copied().flatten();
                // A fragment begins with any octets of an SDU: they are no EtherType, and must not pass for one.
                let bypass =
                    layout.is_none() && frame.as_ref().is_some_and(|frame| self.is_bypassed(frame.octets()));
                proofs.push(bypass.then_some(MayLeave::Bypass));
                self.counters.out_pkts_bypass += u64::from(bypass);
                if let (Some(frame), false) = (frame, bypass) {
                    sdus.push(match layout {
                        None => Outgoing::new(frame),
                        Some(layout) => Outgoing::with_layout(frame, layout),
                    });
                    places.push((index, start, len));
                }
            }
            let next = self.secy.protect(&mut sdus);
            // Drained, not consumed: what is consumed is moved, all the kilobytes that a burst has room for.
            for (sdu, (index, start, len)) in sdus.drain(..).zip(places.drain(..)) {
                (*start, *len) = (sdu.frame().start(), sdu.frame().len());
                proofs[index] = sdu.into_outcome().ok().map(MayLeave::Protected);
            }
            next
        };
        for (slot, proof) in burst.drain().zip(proofs.drain(..)) {
            match proof {
                Some(proof) => out.push(slot, proof, pool),
                None => pool.give(slot),
            }
        }
        next
    }

    /// Takes a burst from the protected port to the plain one; what may not enter goes back to the pool. Leaves
    /// `burst` empty.
    pub fn inward(
        &mut self,
        now: Instant,
        pool: &mut Pool,
        burst: &mut Burst,
        out: &mut ToPlain,
        port: &mut dyn Port,
    ) {
        self.cyclic_inward(pool, burst, out, port);
        if burst.is_empty() {
            return;
        }
        // A pass that only reads: another CPU wrote these frames, and so this one waits for all of them at once instead
        // of for one after the other.
        let ethertypes: ArrayVec<Option<EtherType>, BURST_FRAMES> =
            burst.slots().iter().map(|slot| untagged_ethertype(pool.frame(slot))).collect();
        let mut proofs: ArrayVec<Option<MayEnter>, BURST_FRAMES> = ArrayVec::new();
        {
            let mut frames: ArrayVec<Incoming<'_>, BURST_FRAMES> = ArrayVec::new();
            let mut places: ArrayVec<(usize, &mut usize, &mut usize), BURST_FRAMES> = ArrayVec::new();
            let views = pool.views(burst.slots_mut()).zip(&ethertypes).enumerate();
            for (index, (FrameView { chunk, start, len }, &ethertype)) in views {
                let Some(frame) = Frame::new(chunk, *start, *len) else {
                    proofs.push(None);
                    continue;
                };
                let control = ethertype == Some(EtherType::MAC_CONTROL);
                let bypass = !control && ethertype.is_some_and(|ethertype| self.bypass.contains(&ethertype));
                proofs.push(bypass.then_some(MayEnter::Bypass));
                if control {
                    self.counters.in_pkts_mac_control += 1;
                } else if bypass {
                    self.counters.in_pkts_bypass += 1;
                } else if ethertype == Some(EtherType::EAPOL) {
                    kay::take(self.kay.as_mut(), frame.octets(), &mut self.counters);
                } else {
                    frames.push(Incoming::new(frame));
                    places.push((index, start, len));
                }
            }
            self.secy.verify(now, &mut frames, &mut self.sdu_buffer);
            self.counters.in_pkts_padding += self.sdu_buffer.padding();
            for (frame, (index, start, len)) in frames.drain(..).zip(places.drain(..)) {
                (*start, *len) = (frame.frame().start(), frame.frame().len());
                proofs[index] = frame.into_outcome().ok().map(MayEnter::Verified);
            }
        }
        for (slot, proof) in burst.drain().zip(proofs.drain(..)) {
            match proof {
                Some(MayEnter::Verified(Delivered::Separated(sdus, _proof))) => {
                    let mark = pool.mark(&slot);
                    pool.give(slot);
                    for sdu in self.sdu_buffer.sdus(sdus) {
                        if !is_kept(&mut self.cell, sdu) {
                            self.counters.in_sdus_no_chunk += u64::from(!out.copy(sdu, mark, pool, port));
                        }
                    }
                }
                Some(_) if is_kept(&mut self.cell, pool.frame(&slot)) => pool.give(slot),
                Some(proof) => {
                    if out.is_full() {
                        out.transmit(port, pool);
                    }
                    out.push(slot, proof, pool);
                }
                None => pool.give(slot),
            }
        }
        out.transmit(port, pool);
    }

    fn is_bypassed(&self, frame: &[u8]) -> bool {
        !self.bypass.is_empty()
            && untagged_ethertype(frame).is_some_and(|ethertype| self.bypass.contains(&ethertype))
    }
}

/// Whether an SDU that came through the SecY is cyclic data of a relation, for which that is no way; counts it then.
fn is_kept(cell: &mut Option<Box<Cell>>, sdu: &[u8]) -> bool {
    let Some(cell) = cell.as_mut().filter(|cell| cell.relations.is_kept_for_relation(sdu)) else {
        return false;
    };
    cell.counters.in_pkts_cyclic_by_link += 1;
    true
}

/// Whether a frame is MAC control, which has no VLAN tag; whatever its address, opcode and length.
fn is_mac_control(frame: &[u8]) -> bool {
    untagged_ethertype(frame) == Some(EtherType::MAC_CONTROL)
}

/// The EtherType of a frame without VLAN tags. A tagged frame is none of ours: it is verified, or not delivered.
fn untagged_ethertype(frame: &[u8]) -> Option<EtherType> {
    let octets = frame.get(ADDRESSES_OCTETS..HEADER_OCTETS)?.first_chunk()?;
    Some(EtherType(u16::from_be_bytes(*octets))).filter(|ethertype| !ethertype.is_vlan())
}
