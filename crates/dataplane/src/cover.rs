//! Cover at a constant rate: one protected frame of one size at each tick, whatever there is to send (the aims of IEEE Std
//! 802.1AEdk-2023, in the format of [`wire::extension::padded`]).
//!
//! ```text
//!  SDUs ──▶ queue ──▶ at each tick: as much as one frame holds, and padding ──▶ protect, transmit
//! ```
//!
//! SDUs are copied into the queue, whole and in order, and leave with the ticks alone: several in a frame, in parts, or none.
//! SDUs that find no room in the queue are discarded. Each has its addresses inside; those of the frame are the same in all.
//!
//! Ticks have a grid of their own. The number of frames that leave in a turn depends on the time alone, never on the queue.
//! A worker that was late sends the ticks of the last [`LATEST`]; ticks before those are left out, so that what was kept up
//! does not leave in a burst that tells for how long. A tick without a PN or a free chunk is left out too.
//! The frames of ticks leave before anything that came is taken, and a worker takes nothing shortly before a tick
//! ([`crate::worker::TICK_LEAD`]): so the moment does not depend on what came.
//!
//! What waits while no frame leaves for [`QUEUE_TIME`] is discarded: machines would get it before what is true by then.
//!
//! An SDU whose parts would be under two SAs, or under PNs with a gap, begins anew: no receiver would join them.
//!
//! Work for a turn: one copy of each octet that comes, and at most [`BURST_FRAMES`] frames, each assembled with one copy.

use std::time::Duration;

use secy::fragment::{MOST_FRAGMENTS, Rules};
use secy::passed_on::{PassedOnError, Words, in_words};
use secy::{FrameLayout, SDU_OCTETS};
use wire::ethernet::{ADDRESSES_OCTETS, HEADER_OCTETS};
use wire::extension::padded::{COVER_DESTINATION, MARK, SEGMENT_OCTETS};
use wire::extension::{EXTENSION_OCTETS, SEGMENTS};
use wire::{An, Instant, Pn, Sci, Segments};

use netdev::burst::{BURST_FRAMES, Burst};
use netdev::pool::{Pool, Slot};

use crate::fragmenter::FragmenterCounters;

/// The oldest tick that a late worker still sends a frame for.
pub const LATEST: Duration = Duration::from_millis(10);
/// Octets that the longest queue holds, with two more for each SDU.
const QUEUE_OCTETS: usize = 256 * 1024;
/// Octets that the shortest queue holds: some of the longest SDUs.
const LEAST_QUEUE_OCTETS: usize = 32 * 1024;
/// Time in which a full queue leaves, between these bounds. What waits while no frame leaves for so long is too old.
pub const QUEUE_TIME: Duration = Duration::from_millis(200);
/// Octets of an SDU's length in the queue.
const LENGTH_OCTETS: usize = 2;
/// Minimum octets of an SDU that a cut puts into a shared frame. Below, header and work cost more than the octets.
const LEAST_CUT: usize = 64;

/// Octets that wait at most, where frames of this size leave at this rate.
pub fn queue_octets(size: u16, rate: u16) -> usize {
    let octets = usize::from(size) * usize::from(rate) * QUEUE_TIME.as_millis() as usize / 1000;
    octets.clamp(LEAST_QUEUE_OCTETS, QUEUE_OCTETS)
}

/// Number and PN of the transmit SA under which a frame goes.
pub(crate) type NextPn = (An, Pn);

/// The cover of a link.
#[derive(Debug)]
pub(crate) struct Cover {
    rate: u64,
    /// Octets of secure data in a frame.
    capacity: usize,
    /// Octets of the longest SDU, from its destination address.
    longest: usize,
    /// Octets that may wait.
    most: usize,
    /// The first tick, and how many are behind.
    ticks: Option<(Instant, u64)>,
    queue: Queue,
    /// Octets of the first SDU that have been sent.
    sent: usize,
    /// Destination of the rest of the first SDU.
    next: Option<NextPn>,
    /// The first SDU has shared a frame, and is counted.
    shared: bool,
    /// The last moment at which a frame left, or the first tick.
    left: Option<Instant>,
}

/// A frame that is assembled, and what is off the queue with it.
pub(crate) struct Filled {
    pub(crate) layout: FrameLayout,
    /// Octets of the queue, of SDUs that are complete with this frame.
    done: usize,
    /// Octets sent of the SDU behind those.
    sent: usize,
    fragmented: u64,
    concatenated: u64,
    shared: bool,
}

impl Cover {
    /// For frames of the largest size of `rules`, so many a second, and receivers that take SDUs of up to `longest` octets.
    pub(crate) fn new(rules: &Rules, rate: u16, longest: usize) -> Self {
        let size = (rules.capacity + rules.around) as u16;
        // The parts of an SDU hold its addresses as well.
        let parts = rules.longest_of(MOST_FRAGMENTS) - ADDRESSES_OCTETS;
        Self {
            rate: rate.into(),
            capacity: rules.capacity.saturating_sub(MARK.len()),
            longest: longest.min(SDU_OCTETS).min(parts),
            most: queue_octets(size, rate),
            ticks: None,
            queue: Queue::new(),
            sent: 0,
            next: None,
            shared: false,
            left: None,
        }
    }

    /// Takes over from the cover before: what waits there goes first.
    pub(crate) fn take_over(&mut self, before: &mut Self) {
        std::mem::swap(&mut self.queue, &mut before.queue);
        (self.sent, self.next, self.shared) = (before.sent, before.next, before.shared);
        self.left = before.left;
        if self.rate == before.rate {
            self.ticks = before.ticks;
        }
        if self.capacity != before.capacity {
            self.begin_anew();
        }
    }

    /// Whether SDUs wait.
    pub(crate) const fn is_empty(&self) -> bool {
        self.queue.len == 0
    }

    /// Moment of the next tick.
    pub(crate) fn due(&self) -> Instant {
        self.ticks.map_or(Instant::START, |(first, behind)| first + self.after(behind))
    }

    fn after(&self, ticks: u64) -> Duration {
        Duration::from_micros((u128::from(ticks) * 1_000_000 / u128::from(self.rate)) as u64)
    }

    /// Number of frames that are due now, at most a burst.
    pub(crate) fn take_ticks(&mut self, now: Instant, counters: &mut FragmenterCounters) -> usize {
        let (first, behind) = self.ticks.unwrap_or((now, 0));
        let until = |time: Duration| (time.as_micros() * u128::from(self.rate) / 1_000_000) as u64;
        // The grid's tick n is at n/rate; of two that fall into one microsecond both are due.
        let mut through = until(now.since(first)) + 1;
        while first + self.after(through) <= now {
            through += 1;
        }
        // No frame of a size that the network does not carry.
        let fits = self.capacity > EXTENSION_OCTETS;
        let most = if fits { until(LATEST).clamp(1, BURST_FRAMES as u64) } else { 0 };
        let due = through.saturating_sub(behind);
        let sent = due.min(most);
        counters.out_ticks_missed += due - sent;
        self.ticks = Some((first, through.max(behind)));
        sent as usize
    }

    /// Takes a burst of SDUs into the queue, in order; leaves it empty.
    pub(crate) fn queue(&mut self, pool: &mut Pool, burst: &mut Burst, counters: &mut FragmenterCounters) {
        for slot in burst.drain() {
            let sdu = pool.frame(&slot);
            if !(HEADER_OCTETS..=self.longest).contains(&sdu.len()) {
                counters.out_sdus_too_long += 1;
            } else if !self.queue.push(sdu, self.most) {
                counters.out_sdus_cover_overrun += 1;
            }
            pool.give(slot);
        }
    }

    /// Takes SDUs out of the queue again, as far as `burst` has room and `pool` chunks: there is no cover any more.
    pub(crate) fn give_back(&mut self, pool: &mut Pool, burst: &mut Burst) {
        self.begin_anew();
        while !burst.is_full()
            && let Some(octets) = self.queue.length(0)
            && let Some(mut slot) = pool.take()
        {
            for part in self.queue.octets(LENGTH_OCTETS, octets) {
                let fits = pool.append(&mut slot, part);
                debug_assert!(fits, "it was in a chunk of its own");
            }
            self.queue.pop(LENGTH_OCTETS + octets);
            crate::pipeline::give_refused(burst.push(slot), pool);
        }
    }

    /// Discards all that waits, if no frame has left for [`QUEUE_TIME`]. To be called at each tick, behind its frames.
    pub(crate) fn discard_expired(&mut self, now: Instant, counters: &mut FragmenterCounters) {
        if now.since(*self.left.get_or_insert(now)) >= QUEUE_TIME {
            counters.out_sdus_cover_expired += self.discard();
        }
    }

    /// Discards the first SDUs, if they are longer than receivers take by now.
    fn discard_too_long(&mut self, counters: &mut FragmenterCounters) {
        while let Some(octets) = self.queue.length(0).filter(|&octets| octets > self.longest) {
            self.queue.pop(LENGTH_OCTETS + octets);
            self.begin_anew();
            counters.out_sdus_too_long += 1;
        }
    }

    /// Discards all that waits. Returns the number of SDUs.
    pub(crate) fn discard(&mut self) -> u64 {
        let mut discarded = 0;
        while let Some(octets) = self.queue.length(0) {
            self.queue.pop(LENGTH_OCTETS + octets);
            discarded += 1;
        }
        self.begin_anew();
        discarded
    }

    /// The first SDU is sent from its beginning: the frame with its last part did not leave.
    pub(crate) const fn begin_anew(&mut self) {
        (self.sent, self.next) = (0, None);
    }

    /// Assembles the next frame of `sci`, which goes under `next`. `None` if no chunk is free.
    pub(crate) fn fill(
        &mut self,
        pool: &mut Pool,
        sci: Sci,
        next: NextPn,
        counters: &mut FragmenterCounters,
    ) -> Option<(Slot, Filled)> {
        self.discard_too_long(counters);
        if self.sent > 0 && self.next != Some(next) {
            self.begin_anew();
        }
        let mut slot = pool.take()?;
        let fits = pool.append(&mut slot, &COVER_DESTINATION.0) && pool.append(&mut slot, &sci.system().0);
        let filled = if fits { self.fill_segments(pool, &mut slot) } else { None };
        if filled.is_none() {
            pool.give(slot);
            return None;
        }
        filled.map(|filled| (slot, filled))
    }

    fn fill_segments(&self, pool: &mut Pool, slot: &mut Slot) -> Option<Filled> {
        let continues = self.sent > 0;
        let mut segments = Segments::one(0, false);
        let (mut room, mut count, mut chain) = (self.capacity, 0, 0);
        let (mut at, mut sent, mut fragmented) = (0, self.sent, 0);
        while let Some(octets) = self.queue.length(at) {
            let free = room.saturating_sub(EXTENSION_OCTETS).min(SEGMENT_OCTETS);
            let rest = octets - sent;
            let part = rest.min(free);
            let is_too_long = octets > self.longest;
            if is_too_long || count == SEGMENTS || (part < rest && part < LEAST_CUT) {
                break;
            }
            // Below 2^13.
            let length = part as u16;
            if count == 0 {
                segments = Segments::one(length, continues);
            } else {
                segments.push_up_to(length, SEGMENT_OCTETS).ok()?;
            }
            for octets in self.queue.octets(at + LENGTH_OCTETS + sent, part) {
                pool.append(slot, octets).then_some(())?;
            }
            (count, room) = (count + 1, room - EXTENSION_OCTETS - part);
            if part < rest {
                fragmented += u64::from(sent == 0);
                sent += part;
                let each = self.capacity.saturating_sub(EXTENSION_OCTETS).clamp(1, SEGMENT_OCTETS);
                chain = (rest - part).div_ceil(each) as u16;
                break;
            }
            (at, sent) = (at + LENGTH_OCTETS + octets, 0);
        }
        // Padding alone has a header too.
        let padding = room - if count == 0 { EXTENSION_OCTETS } else { 0 };
        let counted = continues && self.shared;
        let shares = count > 1;
        Some(Filled {
            layout: FrameLayout { segments, chain, padding: Some(padding as u16), with_addresses: true },
            done: at,
            sent,
            fragmented,
            concatenated: if shares { (count - usize::from(counted)) as u64 } else { 0 },
            shared: chain > 0 && (shares || counted),
        })
    }

    /// The frame has left, and `next` is where the next one goes, if there is a PN for it.
    pub(crate) fn settle(
        &mut self,
        now: Instant,
        filled: &Filled,
        next: Option<NextPn>,
        counters: &mut FragmenterCounters,
    ) {
        let Filled { layout, done, sent, fragmented, concatenated, shared } = filled;
        self.left = Some(now);
        self.queue.pop(*done);
        (self.sent, self.next, self.shared) = (*sent, next, *shared);
        counters.out_pkts_cover += 1;
        counters.out_pkts_cover_empty += u64::from(layout.segments.lengths() == [0]);
        counters.out_sdus_fragmented += fragmented;
        counters.out_sdus_concatenated += concatenated;
        counters.out_octets_padding += layout.padding.map_or(0, u64::from);
    }

    /// Appends what waits: octets of the queue, how much of the first SDU has been sent, and where its rest has to go (1 and AN, PN).
    pub(crate) fn pass_on(&self, into: &mut Vec<u64>) {
        let (an, pn) = self.next.map_or((0, 0), |(an, pn)| (1 + an.index() as u64, pn.number()));
        into.extend([self.queue.len as u64, self.sent as u64, an, pn, u64::from(self.shared)]);
        into.extend(in_words(&self.queue.octets(0, self.queue.len).concat()));
    }

    /// Goes on where the cover of the program before was.
    pub(crate) fn go_on(&mut self, words: &mut Words<'_>) -> Result<(), PassedOnError> {
        let [len, sent, an, pn, shared] = words.take()?;
        let octets = usize::try_from(len).ok().filter(|&len| len <= QUEUE_OCTETS);
        let octets = octets.ok_or(PassedOnError::Fragments)?;
        let words = words.many(octets.div_ceil(8))?;
        let mut waiting: Vec<u8> = words.iter().flat_map(|word| word.to_be_bytes()).collect();
        waiting.truncate(octets);
        let mut rest = &waiting[..];
        while let Some((length, behind)) = rest.split_first_chunk() {
            let (sdu, behind) = behind
                .split_at_checked(u16::from_be_bytes(*length).into())
                .filter(|(sdu, _)| (HEADER_OCTETS..=SDU_OCTETS).contains(&sdu.len()))
                .ok_or(PassedOnError::Fragments)?;
            if !self.queue.push(sdu, QUEUE_OCTETS) {
                return Err(PassedOnError::Fragments);
            }
            rest = behind;
        }
        if !rest.is_empty() {
            return Err(PassedOnError::Fragments);
        }
        let an = an.checked_sub(1).and_then(|an| u8::try_from(an).ok()).and_then(An::new);
        self.next = an.zip(Pn::new(pn));
        self.shared = shared == 1;
        // No more than there is.
        let sent = usize::try_from(sent).unwrap_or(usize::MAX);
        self.sent = if self.queue.length(0).is_some_and(|octets| sent < octets) { sent } else { 0 };
        Ok(())
    }
}

/// SDUs in order, each behind its length: a ring of octets.
struct Queue {
    ring: Box<[u8]>,
    first: usize,
    len: usize,
}

impl std::fmt::Debug for Queue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Queue").field("len", &self.len).finish_non_exhaustive()
    }
}

impl Queue {
    fn new() -> Self {
        Self { ring: vec![0; QUEUE_OCTETS].into_boxed_slice(), first: 0, len: 0 }
    }

    /// Appends an SDU of fewer than 2^16 octets; false if there would be more than `most` octets.
    fn push(&mut self, sdu: &[u8], most: usize) -> bool {
        if self.len + LENGTH_OCTETS + sdu.len() > most.min(self.ring.len()) {
            return false;
        }
        self.append(&(sdu.len() as u16).to_be_bytes());
        self.append(sdu);
        true
    }

    fn append(&mut self, octets: &[u8]) {
        let end = (self.first + self.len) % self.ring.len();
        let (head, tail) = octets.split_at(octets.len().min(self.ring.len() - end));
        self.ring[end..][..head.len()].copy_from_slice(head);
        self.ring[..tail.len()].copy_from_slice(tail);
        self.len += octets.len();
    }

    /// Octets of the SDU whose length stands at `at`.
    fn length(&self, at: usize) -> Option<usize> {
        if at + LENGTH_OCTETS > self.len {
            return None;
        }
        let octet = |at| usize::from(self.ring[(self.first + at) % self.ring.len()]);
        Some(octet(at) << 8 | octet(at + 1))
    }

    /// These octets, in two parts, the second mostly empty.
    fn octets(&self, at: usize, len: usize) -> [&[u8]; 2] {
        let start = (self.first + at) % self.ring.len();
        let head = len.min(self.ring.len() - start);
        [&self.ring[start..start + head], &self.ring[..len - head]]
    }

    fn pop(&mut self, octets: usize) {
        self.first = (self.first + octets) % self.ring.len();
        self.len -= octets;
    }
}
