//! Keystream ahead of frames (`bpf/sa_ahead.h`): made here, by the vector instructions that BPF lacks, in memory that the programs share.
//!
//! ```text
//!  control ── put, take_out ──▶ keys of rings, behind a mutex that no frame knows
//!  thread  ── slots ──▶ shared memory ──▶ programs: outward, inward
//!          ◀── how far the frames have come; a wake-up when less than half of a ring is ready
//! ```
//!
//! A ring belongs to one SA. The thread fills it from the PN behind the newest frame on, but for some slots that it leaves to frames that
//! others have overtaken. It sleeps when all rings are full. A slot is as long as the longest text among the last hundreds of frames; a longer
//! frame, like one whose slot is not ready, is computed whole in the program.
//!
//! Keystream is as secret as the frames. So a slot is erased with its frame, and a ring with its SA, before its key is given up here. A slot
//! that its frame did not take is erased before the thread sleeps, and each second.

use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use aya::maps::{Map, MapData, RingBuf};
use netdev::shared::SharedWords;
use netdev::wake::{self, Waiter, Waker};
use suite::{ChaCha20Keystream, Nonce, Secret, scrub_stack};
use wire::{Pn, Sci};

use super::SaKey;
use super::layout::{MOST_AHEAD, RING, RINGS, SLOT, SLOTS};
use crate::error::XdpError;
use crate::programs::shared;

const WORD: usize = size_of::<u64>();
const SLOT_WORDS: usize = SLOT / WORD;
const RING_WORDS: usize = RING / WORD;
/// Words of a slot.
const ID: usize = 0;
const PN: usize = 1;
const OCTETS: usize = 2;
const POLY1305_KEY: usize = 4;
const KEYSTREAM: usize = 8;
/// Ids of an empty slot, and of one that somebody has.
const EMPTY: u64 = 0;
const HELD: u64 = 1;
/// Words of a ring.
const NEXT: usize = 0;
const MADE: usize = 1;
const LONGEST_ASLEEP: usize = 2;
const INSTANCE: usize = 3;
/// Slots that are left to frames which others have overtaken.
const BEHIND: u64 = 32;
/// Distance by which the thread leaps ahead if frames have passed it.
const LEAP: u64 = 16;
/// Slots of a ring that are made before another one has its turn, and before keys can change.
const BATCH: u64 = 16;
/// Lengths of which all are made in the same time: four blocks, the first of which is not for the text.
const STEP: usize = 256;
/// Time between two erasures of slots that frames did not take, while the thread sleeps.
const ERASURE: Duration = Duration::from_secs(1);

/// Owner of a ring.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Owner {
    /// A transmit SA, by its AN.
    Transmit(u32),
    /// A receive SA, by its place.
    Receive(u32),
}

/// An SA whose keystream is made ahead.
struct Filled {
    owner: Owner,
    instance: u64,
    key: ChaCha20Keystream,
    sci: Sci,
    xpn: Option<secy::XpnBinding>,
    /// Last PN of the suite.
    last: u64,
    /// Slots of PNs below were erased, if their frames did not take them.
    erased: u64,
    /// Text that slots are made for, and the longest that was seen in the last half of a ring.
    octets: usize,
    seen: usize,
}

/// The shared memory, and what is to stand in it.
struct Rings {
    slots: SharedWords,
    controls: SharedWords,
    filled: Mutex<[Option<Filled>; RINGS]>,
    /// Number of those who wait for the mutex: the thread lets them go first.
    waiting: AtomicUsize,
    stop: AtomicBool,
}

/// Rings of a link, with or without a thread that fills them.
pub(super) struct Ahead {
    rings: Arc<Rings>,
    thread: Option<(Waker, JoinHandle<()>)>,
}

impl Ahead {
    /// The memory of the maps `slots` and `rings`. Nothing is made yet.
    pub(super) fn new(slots: &Map, controls: &Map) -> Result<Self, XdpError> {
        let rings = Rings {
            slots: shared(slots, RINGS * SLOTS * SLOT_WORDS)?,
            controls: shared(controls, RINGS * RING_WORDS)?,
            filled: Mutex::new([const { None }; RINGS]),
            waiting: AtomicUsize::new(0),
            stop: AtomicBool::new(false),
        };
        Ok(Self { rings: Arc::new(rings), thread: None })
    }

    /// Has a thread fill the rings, which calls `at_start` first. Programs wake it through the map `wake`.
    pub(super) fn start(&mut self, wake: &Map, at_start: fn()) -> Result<(), XdpError> {
        let Map::RingBuf(wake) = wake else { return Err(XdpError::Malformed) };
        let descriptor = wake.fd().as_fd().try_clone_to_owned().map_err(XdpError::Shared)?;
        let woken = RingBuf::try_from(Map::RingBuf(MapData::from_fd(descriptor)?))?;
        let (waker, waiter) = wake::pair().map_err(XdpError::Thread)?;
        let rings = Arc::clone(&self.rings);
        let thread = thread::Builder::new().name("link-ahead".into()).spawn(move || {
            at_start();
            rings.run(woken, waiter);
        });
        self.thread = Some((waker, thread.map_err(XdpError::Thread)?));
        Ok(())
    }

    /// Whether a thread fills the rings: one that has panicked does not.
    pub(super) fn is_running(&self) -> bool {
        self.thread.as_ref().is_some_and(|(_, thread)| !thread.is_finished())
    }

    /// A ring that no SA has.
    pub(super) fn free(&self) -> Option<usize> {
        self.rings.lock().iter().position(Option::is_none)
    }

    /// Fills a free ring for an SA, from `first` on.
    pub(super) fn put(
        &self,
        ring: usize,
        owner: Owner,
        instance: u64,
        sci: Sci,
        key: &SaKey<'_>,
        first: u64,
    ) {
        let Some(keystream) = ChaCha20Keystream::of(key.suite, key.sak) else { return };
        let control = self.rings.control(ring);
        let mut filled = self.rings.lock();
        control[NEXT].store(first, Ordering::Relaxed);
        control[MADE].store(first, Ordering::Relaxed);
        // Behind them: from here on the ring follows the SA's frames.
        control[INSTANCE].store(instance, Ordering::Release);
        filled[ring] = Some(Filled {
            owner,
            instance,
            key: keystream,
            sci,
            xpn: key.xpn,
            last: key.suite.last_pn().number(),
            erased: first,
            octets: MOST_AHEAD,
            seen: MOST_AHEAD,
        });
        drop(filled);
        self.wake();
    }

    /// The SA's key and keystream are wiped. No frame may find the SA any more.
    pub(super) fn take_out(&self, owner: Owner) {
        let mut filled = self.rings.lock();
        let of_owner = |filled: &Option<Filled>| filled.as_ref().is_some_and(|filled| filled.owner == owner);
        if let Some(ring) = filled.iter().position(of_owner) {
            filled[ring] = None;
            self.rings.empty(ring);
        }
    }

    /// Does what the thread does before it sleeps, now, and says how many slots were missing.
    pub(super) fn fill(&self) -> u32 {
        let mut buffer = Secret::zeros(ChaCha20Keystream::FIRST_BLOCK + MOST_AHEAD);
        let batches = || Some(self.rings.make_some(buffer.octets_mut())).filter(|made| *made > 0);
        let made = std::iter::from_fn(batches).sum();
        self.rings.erase_passed();
        made
    }

    /// The ring follows frames of another instance from now on: whose it was.
    #[cfg(feature = "slots")]
    pub(super) fn set_instance(&self, owner: Owner, instance: u64) -> Option<u64> {
        let ring = self.ring_of(owner)?;
        Some(self.rings.control(ring)[INSTANCE].swap(instance, Ordering::SeqCst))
    }

    /// The ring of an SA.
    #[cfg(feature = "slots")]
    pub(super) fn ring_of(&self, owner: Owner) -> Option<usize> {
        self.rings.lock().iter().position(|of| of.as_ref().is_some_and(|of| of.owner == owner))
    }

    fn wake(&self) {
        if let Some((waker, _)) = &self.thread {
            waker.wake();
        }
    }
}

impl Drop for Ahead {
    fn drop(&mut self) {
        self.rings.stop.store(true, Ordering::Relaxed);
        self.wake();
        // A thread that has panicked fills nothing.
        let _ = self.thread.take().map(|(_, thread)| thread.join());
        // The maps live on with programs that somebody else has.
        (0..RINGS).for_each(|ring| self.rings.empty(ring));
    }
}

impl Rings {
    fn control(&self, ring: usize) -> &[AtomicU64] {
        &self.controls.words()[ring * RING_WORDS..][..RING_WORDS]
    }

    fn slot(&self, ring: usize, pn: u64) -> &[AtomicU64] {
        let number = ring * SLOTS + (pn % SLOTS as u64) as usize;
        &self.slots.words()[number * SLOT_WORDS..][..SLOT_WORDS]
    }

    /// The ring is nobody's: a frame of its SA that is still under way moves it no more.
    fn empty(&self, ring: usize) {
        self.control(ring)[INSTANCE].store(EMPTY, Ordering::SeqCst);
        (0..SLOTS).for_each(|slot| wipe(self.slot(ring, slot as u64)));
    }

    /// The keys, for who changes or asks.
    fn lock(&self) -> MutexGuard<'_, [Option<Filled>; RINGS]> {
        self.waiting.fetch_add(1, Ordering::SeqCst);
        let filled = self.filled.lock().unwrap_or_else(PoisonError::into_inner);
        self.waiting.fetch_sub(1, Ordering::SeqCst);
        filled
    }

    fn run(&self, mut woken: RingBuf<MapData>, mut waiter: Waiter) {
        waiter.watch([woken.as_raw_fd()].into_iter());
        let mut buffer = Secret::zeros(ChaCha20Keystream::FIRST_BLOCK + MOST_AHEAD);
        while !self.stop.load(Ordering::Relaxed) {
            if self.waiting.load(Ordering::SeqCst) > 0 {
                // The SA may be one that goes.
                scrub(buffer.octets_mut());
                while self.waiting.load(Ordering::SeqCst) > 0 {
                    thread::yield_now();
                }
            }
            if self.make_some(buffer.octets_mut()) > 0 {
                continue;
            }
            scrub(buffer.octets_mut());
            self.erase_passed();
            self.set_asleep(1);
            // Frames that came before that have woken nobody.
            if !self.is_low() {
                while !waiter.wait(ERASURE) {
                    self.erase_passed();
                }
            }
            self.set_asleep(0);
            while woken.next().is_some() {}
        }
        scrub(buffer.octets_mut());
    }

    /// A batch for each ring, as far as slots are missing: how many were made.
    fn make_some(&self, buffer: &mut [u8]) -> u32 {
        let mut filled = self.filled.lock().unwrap_or_else(PoisonError::into_inner);
        let mut count = 0;
        for (ring, filled) in filled.iter_mut().enumerate() {
            let Some(filled) = filled else { continue };
            let control = self.control(ring);
            let missing = filled.missing(control);
            let end = missing.end.min(missing.start.saturating_add(BATCH)).max(missing.start);
            for pn in missing.start..end {
                if pn % (SLOTS as u64 / 2) == 0 {
                    filled.follow_lengths(&control[LONGEST_ASLEEP]);
                }
                filled.make(pn, self.slot(ring, pn), buffer);
            }
            control[MADE].store(end, Ordering::Release);
            count += (end - missing.start) as u32;
        }
        count
    }

    /// Erases the slots that frames have passed without taking them.
    fn erase_passed(&self) {
        let mut filled = self.filled.lock().unwrap_or_else(PoisonError::into_inner);
        for (ring, filled) in filled.iter_mut().enumerate() {
            let Some(filled) = filled else { continue };
            let next = self.control(ring)[NEXT].load(Ordering::Acquire);
            let end = match filled.owner {
                Owner::Transmit(_) => next,
                Owner::Receive(_) => next.saturating_sub(BEHIND),
            };
            let mut left = None;
            for pn in filled.erased.max(end.saturating_sub(SLOTS as u64))..end {
                let slot = self.slot(ring, pn);
                // The slot may be that of a later PN already, which a frame would find held.
                let is_passed =
                    slot[PN].load(Ordering::Relaxed) == pn && slot[ID].load(Ordering::Relaxed) != EMPTY;
                if is_passed && !try_wipe(slot) {
                    // A frame has it: the next time.
                    left.get_or_insert(pn);
                }
            }
            filled.erased = left.unwrap_or(end.max(filled.erased));
        }
    }

    /// The upper half of the word, as the programs see it.
    fn set_asleep(&self, asleep: u32) {
        for ring in 0..RINGS {
            let word = &self.control(ring)[LONGEST_ASLEEP];
            let with = |word: u64| Some(word & u64::from(u32::MAX) | u64::from(asleep) << 32);
            let _ = word.fetch_update(Ordering::SeqCst, Ordering::SeqCst, with);
        }
    }

    fn is_low(&self) -> bool {
        let filled = self.filled.lock().unwrap_or_else(PoisonError::into_inner);
        let mut rings = filled.iter().enumerate().filter_map(|(ring, filled)| Some((ring, filled.as_ref()?)));
        rings.any(|(ring, filled)| {
            let missing = filled.missing(self.control(ring));
            missing.end.saturating_sub(missing.start) > SLOTS as u64 / 2 - BEHIND
        })
    }
}

impl Filled {
    /// PNs whose slots are missing: none behind the suite's last one, whose nonce would be that of another PN.
    fn missing(&self, control: &[AtomicU64]) -> Range<u64> {
        let (next, made) = (control[NEXT].load(Ordering::SeqCst), control[MADE].load(Ordering::Relaxed));
        let begin = if made < next { next.saturating_add(LEAP) } else { made };
        let end = next.saturating_add(SLOTS as u64 - BEHIND);
        begin..end.min(self.last.saturating_add(1))
    }

    /// Slots are as long as the longest text of the last half of a ring, or of the one before.
    fn follow_lengths(&mut self, longest: &AtomicU64) {
        let above = !u64::from(u32::MAX);
        let seen = (longest.fetch_and(above, Ordering::Relaxed) & !above) as usize;
        let wanted = (ChaCha20Keystream::FIRST_BLOCK + seen.max(self.seen)).next_multiple_of(STEP);
        self.octets = (wanted - ChaCha20Keystream::FIRST_BLOCK).min(MOST_AHEAD);
        self.seen = seen;
    }

    /// Makes a PN's slot, unless a frame has it.
    fn make(&self, pn: u64, slot: &[AtomicU64], buffer: &mut [u8]) {
        let Some(number) = Pn::new(pn) else { return };
        let nonce = match &self.xpn {
            None => Nonce::new(self.sci, number),
            Some(xpn) => Nonce::xpn(xpn.ssci, number, &xpn.salt),
        };
        let octets = &mut buffer[..ChaCha20Keystream::FIRST_BLOCK + self.octets];
        self.key.write(&nonce, octets);
        let before = slot[ID].load(Ordering::Relaxed);
        if before == HELD
            || slot[ID].compare_exchange(before, HELD, Ordering::Acquire, Ordering::Relaxed).is_err()
        {
            return;
        }
        let (first, text) = octets.split_at(ChaCha20Keystream::FIRST_BLOCK);
        let left = slot[OCTETS].swap(self.octets as u64, Ordering::Relaxed) as usize;
        slot[PN].store(pn, Ordering::Relaxed);
        put(&slot[POLY1305_KEY..KEYSTREAM], &first[..ChaCha20Keystream::POLY1305_KEY]);
        put(&slot[KEYSTREAM..], text);
        let (end, before) = (self.octets / WORD, left.min(MOST_AHEAD).div_ceil(WORD));
        slot[KEYSTREAM..][end.min(before)..before].iter().for_each(|word| word.store(0, Ordering::Relaxed));
        slot[ID].store(self.instance, Ordering::Release);
    }
}

/// Erases copies of the keystream: it is in the slots alone from here on.
fn scrub(buffer: &mut [u8]) {
    buffer.fill(0);
    scrub_stack();
}

/// Octets in the order in which they stand in memory.
fn put(words: &[AtomicU64], octets: &[u8]) {
    let (octets, _) = octets.as_chunks::<WORD>();
    words
        .iter()
        .zip(octets)
        .for_each(|(word, octets)| word.store(u64::from_ne_bytes(*octets), Ordering::Relaxed));
}

/// Empties a slot. A frame that has it gives it back within microseconds.
fn wipe(slot: &[AtomicU64]) {
    while !try_wipe(slot) {
        thread::yield_now();
    }
}

/// Empties a slot that no frame has; false if one has it.
fn try_wipe(slot: &[AtomicU64]) -> bool {
    let before = slot[ID].load(Ordering::Relaxed);
    if before == HELD
        || slot[ID].compare_exchange(before, HELD, Ordering::Acquire, Ordering::Relaxed).is_err()
    {
        return false;
    }
    slot[PN..].iter().for_each(|word| word.store(0, Ordering::Relaxed));
    slot[ID].store(EMPTY, Ordering::Release);
    true
}
