//! Carrying out a plan of [`secy::fragment`]: SDUs from their chunks into frames of their own.
//!
//! ```text
//!  burst ──▶ hold? ──▶ plan ──▶ assemble: up to a burst of frames ──▶ protect, transmit ──▶ assemble … ──▶ finish
//! ```
//!
//! An SDU that stays whole stays in its chunk. All others are copied once, into chunks of the same pool.
//!
//! Work for a burst: that of the plan, and one copy of each octet that is fragmented or put together.

use std::time::Duration;

use arrayvec::ArrayVec;
use secy::fragment::{Fragment, Plan, PlannedFrame, Rules, Sdu};
use secy::{ExpressClasses, FrameLayout, FrameSizes, Settings};
use wire::Instant;
use wire::ethernet::ADDRESSES_OCTETS;

use netdev::burst::{BURST_FRAMES, Burst};
use netdev::pool::{Pool, Slot};

use crate::cover::Cover;

/// The longest that an SDU may be held.
pub const LONGEST_HOLD: Duration = Duration::from_millis(10);

/// Fragmenting and concatenating, as a link is configured.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FragmentConfig {
    /// An SDU may span frames.
    pub fragment: bool,
    /// A frame may hold several SDUs.
    pub concatenate: bool,
    /// Sizes to which frames are padded, if they are. SDUs that do not fit the largest one then span frames. With cover
    /// ([`crate::cover`]) SDUs share frames and span them whatever the other fields say, and leave in the order in which they
    /// came.
    pub padding: FrameSizes,
    /// Longest wait of an SDU for others to share its frame, at most [`LONGEST_HOLD`].
    pub hold: Duration,
    /// SDUs that precede all others and share no frame.
    pub express: ExpressClasses,
}

wire::counters! {
    /// Counters of SDUs before they are protected.
    FragmenterCounters {
        /// Sent in more than one frame.
        out_sdus_fragmented = "OutSdusFragmented",
        /// Sent in a frame together with others, whole or in part.
        out_sdus_concatenated = "OutSdusConcatenated",
        /// Octets of padding in the frames that were planned, sent or not.
        out_octets_padding = "OutOctetsPadding",
        /// Held for others to share their frame.
        out_sdus_held = "OutSdusHeld",
        /// Frames that left at their tick, with cover.
        out_pkts_cover = "OutPktsCover",
        /// The same, with nothing but padding: nothing waited.
        out_pkts_cover_empty = "OutPktsCoverEmpty",
        /// Ticks without a frame, with cover: the worker was late, there was no PN, or no chunk.
        out_ticks_missed = "OutTicksMissed",
        /// Discarded: with cover, more waited than the queue holds.
        out_sdus_cover_overrun = "OutSdusCoverOverrun" [discard],
        /// Discarded: with cover, they waited while no frame left for [`crate::cover::QUEUE_TIME`].
        out_sdus_cover_expired = "OutSdusCoverExpired" [discard],
        /// Discarded: longer than any receiver takes, or than a frame.
        out_sdus_too_long = "OutSdusTooLong" [discard],
        /// Frames discarded, and with them their SDUs: no chunk was free to assemble them in.
        out_pkts_no_chunk = "OutPktsNoChunk" [discard],
    }
}

/// Fragments the SDUs of a link.
#[derive(Debug)]
pub struct Fragmenter {
    rules: Rules,
    express: ExpressClasses,
    hold: Duration,
    /// Arrival of the oldest SDU that is held.
    held_since: Option<Instant>,
    plan: Plan,
    /// The SDUs that are planned, until they are in their last frame.
    sdus: ArrayVec<Option<Slot>, BURST_FRAMES>,
    /// SDUs that must not be fragmented nor put together with others.
    alone: Burst,
    /// The frame of the plan that is next.
    next: usize,
    /// A frame of a chain is missing: what continues it must not be sent.
    broken: bool,
    frames: Burst,
    layouts: ArrayVec<Option<FrameLayout>, BURST_FRAMES>,
    counters: FragmenterCounters,
    /// Frames leave at a constant rate, and all SDUs go there.
    cover: Option<Cover>,
}

impl Fragmenter {
    /// For receivers that take SDUs of up to `longest` octets.
    pub fn new(settings: &Settings, fragmentation: FragmentConfig, longest: usize) -> Self {
        let rules = Rules::new(settings, fragmentation.fragment, fragmentation.concatenate);
        let rules = rules.padded(settings, &fragmentation.padding);
        let cover = fragmentation.padding.cover_rate().map(|rate| {
            let rules = Rules::new(settings, true, true).padded(settings, &fragmentation.padding);
            Cover::new(&rules, rate.get(), longest)
        });
        let rules = Rules { longest: longest.min(rules.longest), ..rules };
        Self {
            rules,
            cover,
            express: fragmentation.express,
            hold: if fragmentation.concatenate {
                fragmentation.hold.min(LONGEST_HOLD)
            } else {
                Duration::ZERO
            },
            held_since: None,
            plan: Plan::new(BURST_FRAMES, &rules),
            sdus: ArrayVec::new(),
            alone: Burst::new(),
            next: 0,
            broken: false,
            frames: Burst::new(),
            layouts: ArrayVec::new(),
            counters: FragmenterCounters::default(),
        }
    }

    pub(crate) const fn counters(&self) -> &FragmenterCounters {
        &self.counters
    }

    /// Until when SDUs are held at most, if any are; with cover, the next tick.
    pub(crate) fn held_until(&self) -> Option<Instant> {
        match &self.cover {
            None => self.held_since.map(|since| since + self.hold),
            Some(cover) => Some(cover.due()),
        }
    }

    /// Its cover, and its counters.
    pub(crate) const fn cover_mut(&mut self) -> Option<(&mut Cover, &mut FragmenterCounters)> {
        match &mut self.cover {
            Some(cover) => Some((cover, &mut self.counters)),
            None => None,
        }
    }

    /// Its cover.
    pub(crate) const fn cover(&self) -> Option<&Cover> {
        self.cover.as_ref()
    }

    /// Arrival of the oldest SDU that is held.
    pub(crate) const fn held_since(&self) -> Option<Instant> {
        self.held_since
    }

    /// Continues the hold of the fragmenter before, with its time.
    pub(crate) const fn resume_holding(&mut self, since: Option<Instant>) {
        self.held_since = since;
    }

    /// Forgets the SDUs that were held: their memory is gone. Returns the number of those that waited for a tick.
    pub(crate) fn discard_held(&mut self) -> u64 {
        self.held_since = None;
        self.cover.as_mut().map_or(0, Cover::discard)
    }

    /// Takes from `burst` what is to go now, and leaves what is held: others than express ones, as long as they fill
    /// no frame and their time has not come.
    pub(crate) fn hold(&mut self, now: Instant, pool: &Pool, burst: &mut Burst) {
        let express = self.express;
        let sdu = |slot: &Slot| Sdu::of(pool.frame(slot), &express);
        let held = || burst.slots().iter().filter_map(sdu).filter(|sdu| !sdu.is_express());
        let octets: usize = held().map(|sdu| sdu.octets()).sum();
        let due = self.held_until().is_some_and(|until| now >= until);
        let hold = !self.hold.is_zero() && !due && !burst.is_full() && octets < self.rules.capacity;
        let before = if self.held_since.is_some() { held().count() } else { 0 };
        let mut kept = Burst::new();
        for slot in burst.drain() {
            let keep = hold && sdu(&slot).is_some_and(|sdu| !sdu.is_express());
            // Both have room for a whole burst.
            let refused = if keep { kept.push(slot).err() } else { self.take(slot) };
            debug_assert!(refused.is_none(), "a burst fits a burst");
        }
        self.held_since = if kept.is_empty() { None } else { self.held_since.or(Some(now)) };
        self.counters.out_sdus_held += (kept.len().saturating_sub(before)) as u64;
        *burst = kept;
    }

    fn take(&mut self, slot: Slot) -> Option<Slot> {
        self.sdus.try_push(Some(slot)).err().and_then(|full| full.element())
    }

    /// Plans the frames for what goes now. `alone` tells frames that are not to be touched.
    pub(crate) fn plan(&mut self, pool: &Pool, alone: impl Fn(&[u8]) -> bool) {
        let mut descriptions: ArrayVec<Sdu, BURST_FRAMES> = ArrayVec::new();
        let mut planned: ArrayVec<Option<Slot>, BURST_FRAMES> = ArrayVec::new();
        for slot in self.sdus.drain(..).flatten() {
            match Sdu::of(pool.frame(&slot), &self.express).filter(|_| !alone(pool.frame(&slot))) {
                Some(sdu) => {
                    descriptions.push(sdu);
                    planned.push(Some(slot));
                }
                None => {
                    let refused = self.alone.push(slot);
                    debug_assert!(refused.is_ok(), "a burst fits a burst");
                }
            }
        }
        self.sdus = planned;
        self.plan.make(&self.rules, &descriptions);
        (self.next, self.broken) = (0, false);
        self.counters.out_sdus_fragmented += self.plan.fragmented() as u64;
        self.counters.out_sdus_concatenated += self.plan.concatenated() as u64;
        self.counters.out_sdus_too_long += self.plan.too_long() as u64;
        self.counters.out_octets_padding += self.plan.padding() as u64;
    }

    /// Assembles the next burst of frames; false if there is none.
    pub(crate) fn assemble(&mut self, pool: &mut Pool) -> bool {
        self.layouts.clear();
        for slot in self.alone.drain() {
            self.layouts.push(None);
            let refused = self.frames.push(slot);
            debug_assert!(refused.is_ok(), "a burst fits a burst");
        }
        while !self.frames.is_full() && self.next < self.plan.frames().len() {
            let frame = self.plan.frames()[self.next].clone();
            self.next += 1;
            let continues = frame.layout.is_some_and(|layout| layout.segments.continues());
            if self.broken && continues {
                self.counters.out_pkts_no_chunk += 1;
                continue;
            }
            match self.assemble_one(&frame, pool) {
                Some(slot) => {
                    self.layouts.push(frame.layout);
                    let refused = self.frames.push(slot);
                    debug_assert!(refused.is_ok(), "there is room");
                    self.broken = false;
                }
                None => {
                    self.counters.out_pkts_no_chunk += 1;
                    self.broken = true;
                }
            }
        }
        !self.frames.is_empty()
    }

    /// The frames that were assembled, and their layouts.
    pub(crate) fn assembled(&mut self) -> (&mut Burst, &[Option<FrameLayout>]) {
        (&mut self.frames, &self.layouts)
    }

    /// Gives the SDUs back that are in their frames now.
    pub(crate) fn finish(&mut self, pool: &mut Pool) {
        for slot in self.sdus.drain(..).flatten() {
            pool.give(slot);
        }
    }

    fn assemble_one(&mut self, frame: &PlannedFrame, pool: &mut Pool) -> Option<Slot> {
        let parts = self.plan.fragments(frame);
        let first = parts.first()?.sdu;
        if frame.layout.is_none() {
            return self.sdus.get_mut(first)?.take();
        }
        let mut slot = pool.take()?;
        // Where frames are padded they may have marks, for the tunnel that they go into.
        let is_padded = frame.layout.is_some_and(|layout| layout.padding.is_some());
        if let Some(sdu) = self.sdus.get(first).and_then(Option::as_ref).filter(|_| is_padded) {
            let mark = pool.mark(sdu);
            pool.set_mark(&slot, mark);
        }
        if self.copy_parts(parts, &mut slot, pool).is_some() {
            return Some(slot);
        }
        pool.give(slot);
        None
    }

    /// DA and SA, and then the parts; `None` if the chunk has not room for them all.
    fn copy_parts(&self, parts: &[Fragment], slot: &mut Slot, pool: &mut Pool) -> Option<()> {
        let sdu = |number: usize| self.sdus.get(number)?.as_ref();
        pool.append_from(slot, sdu(parts.first()?.sdu)?, 0..ADDRESSES_OCTETS).then_some(())?;
        for part in parts {
            let octets = part.octets.start + ADDRESSES_OCTETS..part.octets.end + ADDRESSES_OCTETS;
            pool.append_from(slot, sdu(part.sdu)?, octets).then_some(())?;
        }
        Some(())
    }
}
