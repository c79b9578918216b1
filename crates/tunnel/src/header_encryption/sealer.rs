//! Transmission to one peer: epochs, PNs, headers.
//!
//! Two packets with the same P2 under one key would show that they belong together, and the receiver would
//! reject a repeated PN. So an SA that restarts takes the next epoch into use, for all SAs. The peer has
//! acknowledged that epoch before.
//!
//! Frames behind different VLAN tags have PNs of their own, as stations of several VLANs may have one SCI. P2 is then the same
//! if the first four encrypted octets are, as those of a frame that a switch copies into two VLANs. P1 holds the number of the flow,
//! so C1 differs; C2 shows that the two are copies.
//!
//! | PN of an SA in this epoch | what becomes of the frame |
//! |---|---|
//! | the first | sent; an SA has a window of its own, so a changed AN needs no epoch. No room for one more: the next epoch |
//! | not sent yet | sent |
//! | far ahead, while others keep coming and the window is full of such | not sent |
//! | below what is remembered | the next epoch, then sent |
//! | sent already, low, and far below the newest | the next epoch, then sent |
//! | sent already | not sent; at the fourth without a higher PN between, the next epoch, then sent |
//!
//! An epoch also ends after an hour.
//!
//! The last two rows are ours. Without them, both ends of an SA that restart before it has filled a window
//! would have nothing delivered until they pass the highest PN. Copies that a network makes arrive soon, with
//! higher PNs between them. A late copy is taken for a restart only among the first PNs of an SA. It then
//! costs an epoch, which harms nobody, and goes to a station that rejects it. An attacker who sends such
//! copies gains no more than by restarts: an epoch a second.

use core::ops::Range;
use core::time::Duration;

use arrayvec::ArrayVec;
use suite::tunnel::HeaderKey;
use wire::Instant;
use wire::tunnel::{FlowIndex, OuterTags, ParsedFrame};

use super::associations::{Association, Associations, Standing};
use super::header::{
    FOLDED_OCTETS, HEADER_OCTETS, PREFIX_OCTETS, SAMPLE_OCTETS, add_fold, carries, compose, is_folded,
};
use super::window::{FragmentKind, Freshness, PnWindow};
use crate::counters::OutDiscard;
use crate::packet::Packet;
use crate::settings::FrameKinds;

/// Minimum time between the starts of two epochs.
pub(crate) const EPOCH_INTERVAL: Duration = Duration::from_secs(1);
/// Lifetime of an epoch, if the next one is ready. It also ends whatever an attacker did to its windows.
const EPOCH_LIFE: Duration = Duration::from_secs(3600);
/// Repeated PNs without a higher one between that indicate a restart of the SA, not copies.
const REPEATS_OF_A_RESTART: u8 = 4;
/// First PNs of an SA: a repeated one of these ...
const FIRST_PNS: u32 = 1024;
/// ... this far below the newest indicates a restart too.
const FALL_OF_A_RESTART: u32 = 64;

#[derive(Debug)]
struct InUse {
    epoch: u32,
    key: HeaderKey,
    since: Instant,
    /// End of its lifetime.
    ends: Instant,
}

/// Sender of header encryption.
#[derive(Debug)]
pub(crate) struct Sealer {
    current: Option<InUse>,
    /// The next epoch, acknowledged and not yet needed.
    next: Option<(u32, HeaderKey)>,
    sent: Associations,
}

impl Sealer {
    /// Without an epoch. All memory that is ever used.
    pub(crate) fn new() -> Self {
        Self { current: None, next: None, sent: Associations::new() }
    }

    /// Begins a generation: forgets all epochs.
    pub(crate) fn begin(&mut self) {
        (self.current, self.next) = (None, None);
        self.sent.clear();
    }

    /// Installs an epoch that the peer has acknowledged. Uses the first one at once. Ignores one that is not
    /// newer than the known ones.
    pub(crate) fn install(&mut self, now: Instant, epoch: u32, key: HeaderKey) {
        let newest = self.next.as_ref().map(|&(epoch, _)| epoch).or(self.epoch());
        if newest.is_some_and(|newest| epoch <= newest) {
            return;
        }
        if self.current.is_none() {
            self.current = Some(InUse { epoch, key, since: now, ends: now + EPOCH_LIFE });
        } else {
            self.next = Some((epoch, key));
        }
    }

    /// The epoch in use.
    pub(crate) fn epoch(&self) -> Option<u32> {
        self.current.as_ref().map(|current| current.epoch)
    }

    /// The newest epoch, if the next one is wanted because none is in reserve.
    pub(crate) fn wants_epoch_after(&self) -> Option<u32> {
        if self.next.is_none() { self.epoch() } else { None }
    }

    /// Checks that this mode can carry the frame to a peer that takes these kinds.
    ///
    /// # Errors
    /// [`OutDiscard::NoSci`], [`OutDiscard::NotEncrypted`], [`OutDiscard::Extended`],
    /// [`OutDiscard::TooShort`].
    pub(crate) fn admit(taken: &ParsedFrame, frames: FrameKinds, frame: &[u8]) -> Result<(), OutDiscard> {
        if !carries(taken) {
            return Err(if taken.flow.cyclic().is_some() {
                OutDiscard::Cyclic
            } else if taken.flow.relay().is_some() {
                OutDiscard::NotRelayed
            } else if taken.flow.sci().is_none() {
                OutDiscard::NoSci
            } else {
                OutDiscard::NotEncrypted
            });
        }
        if taken.fields.extended() && !frames.has(FrameKinds::EXTENDED) {
            return Err(OutDiscard::Extended);
        }
        if frame.len() < HEADER_OCTETS + taken.flow.tags.octets() {
            Err(OutDiscard::TooShort)
        } else {
            Ok(())
        }
    }

    /// Uses up the PN of a frame, in the frames' order on the LAN. Begins the next epoch if this one cannot
    /// use it. Returns the epoch. `standing`: whether the peer knows its flow.
    ///
    /// # Errors
    /// [`OutDiscard::NoSci`], [`OutDiscard::NoEpoch`], [`OutDiscard::EpochAwaited`],
    /// [`OutDiscard::Repeated`], [`OutDiscard::Crowded`].
    pub(crate) fn take_pn(
        &mut self,
        now: Instant,
        taken: &ParsedFrame,
        standing: Standing,
    ) -> Result<u32, OutDiscard> {
        let (of, pn) = association(taken)?;
        let current = self.current.as_ref().ok_or(OutDiscard::NoEpoch)?;
        let is_old = now >= current.ends && self.next.is_some();
        let epoch = if is_old { self.start_next(now)? } else { current.epoch };
        let full = self.sent.is_full(standing);
        let epoch = match self.sent.window(of) {
            Some(window) => match window.admit(pn) {
                Freshness::New => return Ok(epoch),
                Freshness::Crowded => return Err(OutDiscard::Crowded),
                Freshness::Seen if window.repeat() < REPEATS_OF_A_RESTART && !begins_again(window, pn) => {
                    return Err(OutDiscard::Repeated);
                }
                Freshness::Seen | Freshness::Late => self.start_next(now)?,
            },
            None if full => self.start_next(now)?,
            None => epoch,
        };
        if let Some((_, window)) = self.sent.find_or_open(of, standing) {
            window.admit(pn);
        }
        Ok(epoch)
    }

    /// Packets of a frame whose flow the peer knows and whose PN was taken in `epoch`: one, or two if it
    /// exceeds `path_payload` octets. Two AES blocks for each packet.
    ///
    /// # Errors
    /// [`OutDiscard`]: nothing is sent. [`OutDiscard::Overtaken`] only if another epoch has begun since.
    pub(crate) fn seal(
        &mut self,
        taken: &ParsedFrame,
        index: FlowIndex,
        epoch: u32,
        frame: &[u8],
        path_payload: usize,
    ) -> Result<ArrayVec<Packet, 2>, OutDiscard> {
        let untagged;
        let (frame_in_clear, number) = if taken.flow.tags.is_empty() {
            (ClearFrame { prefix: frame.first_chunk().ok_or(OutDiscard::TooShort)?, frame, tags: 0 }, None)
        } else {
            untagged = untagged_prefix(taken);
            (ClearFrame { prefix: &untagged, frame, tags: taken.flow.tags.octets() }, Some(index))
        };
        let octets = frame.len() - frame_in_clear.tags;
        let fragments = split_frame(octets, path_payload).ok_or(OutDiscard::TooLong)?;
        let current = self.current.as_ref().ok_or(OutDiscard::NoEpoch)?;
        if current.epoch != epoch {
            Self::take_again(&mut self.sent, taken)?;
        }
        let seal = |(kind, octets): (_, Range<usize>)| {
            let folded = is_folded(taken, kind);
            // Of a fragment this short nothing but extension headers might be left.
            if folded && kind == FragmentKind::First && octets.len() < HEADER_OCTETS + FOLDED_OCTETS {
                return Err(OutDiscard::TooLong);
            }
            seal_fragment(&current.key, frame_in_clear, (kind, number, folded), octets)
        };
        fragments.into_iter().map(seal).collect()
    }

    /// Uses up a PN in an epoch that began after the PN was taken. The frame is older than later ones already
    /// sent, so its PN never indicates a restart. Its SA still counts as a newcomer although the flow is
    /// known by now: otherwise a flood of new flows would take the room of known ones when their frames are
    /// released.
    fn take_again(sent: &mut Associations, taken: &ParsedFrame) -> Result<(), OutDiscard> {
        let (of, pn) = association(taken)?;
        let (_, window) = sent.find_or_open(of, Standing::Newcomer).ok_or(OutDiscard::Overtaken)?;
        let freshness = window.admit(pn);
        if freshness == Freshness::New { Ok(()) } else { Err(OutDiscard::Overtaken) }
    }

    /// Begins the next epoch, in which no SA has sent anything.
    ///
    /// # Errors
    /// [`OutDiscard::EpochAwaited`].
    pub(crate) fn start_next(&mut self, now: Instant) -> Result<u32, OutDiscard> {
        let too_soon = self.current.as_ref().is_some_and(|current| now.since(current.since) < EPOCH_INTERVAL);
        if too_soon {
            return Err(OutDiscard::EpochAwaited);
        }
        let (epoch, key) = self.next.take().ok_or(OutDiscard::EpochAwaited)?;
        self.current = Some(InUse { epoch, key, since: now, ends: now + EPOCH_LIFE });
        self.sent.clear();
        Ok(epoch)
    }
}

/// True if a repeated PN alone indicates a restart of its SA.
fn begins_again(window: &PnWindow, pn: u32) -> bool {
    pn < FIRST_PNS && window.below_newest(pn) >= FALL_OF_A_RESTART
}

fn association(taken: &ParsedFrame) -> Result<(Association, u32), OutDiscard> {
    Ok((Association::of(taken).ok_or(OutDiscard::NoSci)?, taken.fields.pn))
}

impl Default for Sealer {
    fn default() -> Self {
        Self::new()
    }
}

/// Splits a frame into the octets of each packet; `None` if two packets do not hold it. The second packet
/// repeats addresses and SecTAG. Both have one size, as in identifier mode: the kernel accepts a stream of
/// them in one call.
fn split_frame(octets: usize, path_payload: usize) -> Option<ArrayVec<(FragmentKind, Range<usize>), 2>> {
    if octets <= path_payload {
        return Some(ArrayVec::from_iter([(FragmentKind::Whole, 0..octets)]));
    }
    let first = (octets + PREFIX_OCTETS).div_ceil(2);
    // A fragment has at least as many octets as its header takes.
    if first > path_payload || octets < first + SAMPLE_OCTETS {
        return None;
    }
    Some(ArrayVec::from([(FragmentKind::First, 0..first), (FragmentKind::Second, first..octets)]))
}

/// A frame of the LAN, whose VLAN tags stay here.
#[derive(Clone, Copy)]
struct ClearFrame<'f> {
    /// Its addresses and SecTAG.
    prefix: &'f [u8; PREFIX_OCTETS],
    frame: &'f [u8],
    /// Octets of the VLAN tags between those.
    tags: usize,
}

/// Addresses and SecTAG of a frame with VLAN tags and SCI.
#[cold]
#[inline(never)]
fn untagged_prefix(taken: &ParsedFrame) -> [u8; PREFIX_OCTETS] {
    let mut prefix = [0; PREFIX_OCTETS];
    let flow = taken.flow.with_tags(OuterTags::default());
    ParsedFrame { flow, ..*taken }.encode_prefix(&mut prefix);
    prefix
}

/// One packet of a frame: `octets` of it without its VLAN tags.
fn seal_fragment(
    key: &HeaderKey,
    ClearFrame { prefix, frame, tags }: ClearFrame<'_>,
    (kind, number, folded): (FragmentKind, Option<FlowIndex>, bool),
    octets: Range<usize>,
) -> Result<Packet, OutDiscard> {
    let sample_at = octets.start.max(PREFIX_OCTETS) + tags;
    let sample = frame.get(sample_at..).and_then(<[u8]>::first_chunk).ok_or(OutDiscard::TooShort)?;
    let mut header = compose(prefix, sample, kind, number);
    let body = sample_at + SAMPLE_OCTETS..octets.end + tags;
    if folded {
        add_fold(&mut header, frame.get(body.clone()).ok_or(OutDiscard::TooShort)?);
    }
    key.encrypt(&mut header);
    let mut packet = Packet { header: ArrayVec::new(), body };
    // There is room.
    let _ = packet.header.try_extend_from_slice(&header);
    Ok(packet)
}
