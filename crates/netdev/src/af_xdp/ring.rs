//! A ring that the kernel and we share: one side produces, the other consumes.
//!
//! ```text
//!  mapping:  | ... producer 4 | ... consumer 4 | ... flags 4 | ... entry 0 | entry 1 | ... | entry n-1 |
//! ```
//! The indexes count up for ever and wrap at 2^32: all arithmetic on them wraps, an entry's place is the index
//! modulo the size (a power of two), and `producer - consumer` is how many entries wait. Each side writes its own
//! index (release) and reads the other's (acquire), and keeps a copy of both, so that most calls touch no cache
//! line that the other side writes.

#![allow(unsafe_code)]

#[cfg(loom)]
use loom::sync::Arc;
#[cfg(loom)]
use loom::sync::atomic::{AtomicU32, Ordering};
#[cfg(not(loom))]
use std::marker::PhantomData;
#[cfg(not(loom))]
use std::sync::Arc;
#[cfg(not(loom))]
use std::sync::atomic::{AtomicU32, Ordering};

#[cfg(loom)]
use self::searched::Shared;
use crate::mapping::Mapping;

/// Entry of a ring: plain integers, any octets of which are valid.
///
/// # Safety
/// No padding, no invalid values, no ownership.
pub(super) unsafe trait Entry: Copy {}

/// Fill and completion rings hold addresses.
// SAFETY: an integer.
unsafe impl Entry for u64 {}

/// A frame in receive and transmit rings, or a piece of one (`struct xdp_desc`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub(super) struct Descriptor {
    /// Octets from the start of the region.
    pub(super) address: u64,
    /// Octets of the frame.
    pub(super) len: u32,
    pub(super) options: u32,
}

impl Descriptor {
    /// One to send; whether the frame goes on in the next.
    pub(super) const fn new(address: u64, len: u32, continued: bool) -> Self {
        Self { address, len, options: if continued { libc::XDP_PKT_CONTD } else { 0 } }
    }

    /// Whether the frame goes on in the next descriptor.
    pub(super) const fn is_continued(self) -> bool {
        self.options & libc::XDP_PKT_CONTD != 0
    }
}

// SAFETY: three integers without padding between them.
unsafe impl Entry for Descriptor {}

/// Offsets of a ring's parts in its mapping, in octets, as XDP_MMAP_OFFSETS gives them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Layout {
    pub(super) producer: usize,
    pub(super) consumer: usize,
    pub(super) flags: usize,
    pub(super) entries: usize,
}

const NEED_WAKEUP: u32 = 1;

/// The part of a ring that both ends have.
#[cfg(not(loom))]
#[derive(Debug)]
struct Shared<T> {
    mapping: Arc<Mapping>,
    layout: Layout,
    size: u32,
    entries: PhantomData<T>,
}

#[cfg(not(loom))]
impl<T: Entry> Shared<T> {
    /// # Panics
    /// If the parts lie outside the mapping or are not aligned, or the size is no power of two.
    fn new(mapping: Arc<Mapping>, layout: Layout, size: u32) -> Self {
        assert!(size.is_power_of_two(), "invariant: ring sizes are powers of two");
        for index in [layout.producer, layout.consumer, layout.flags] {
            assert!(
                index.is_multiple_of(4) && index + 4 <= mapping.octets(),
                "invariant: an index in the mapping"
            );
        }
        assert!(layout.entries.is_multiple_of(align_of::<T>()), "invariant: aligned entries");
        assert!(
            layout.entries + size as usize * size_of::<T>() <= mapping.octets(),
            "invariant: entries in the mapping"
        );
        Self { mapping, layout, size, entries: PhantomData }
    }

    fn index(&self, offset: usize) -> &AtomicU32 {
        // SAFETY: new() has seen to place and alignment; both sides touch indexes and flags atomically only, and
        // the mapping lives as long as self.
        unsafe { AtomicU32::from_ptr(self.mapping.base().add(offset).cast()) }
    }

    fn producer(&self) -> &AtomicU32 {
        self.index(self.layout.producer)
    }

    fn consumer(&self) -> &AtomicU32 {
        self.index(self.layout.consumer)
    }

    fn needs_wakeup(&self) -> bool {
        self.index(self.layout.flags).load(Ordering::Relaxed) & NEED_WAKEUP != 0
    }

    fn entry(&self, index: u32) -> *mut T {
        let place = (index & (self.size - 1)) as usize;
        // SAFETY: place < size, and new() has seen that so many entries lie in the mapping.
        unsafe { self.mapping.base().add(self.layout.entries).cast::<T>().add(place) }
    }

    /// # Safety
    /// The other side has produced this entry and leaves its place alone until it is released.
    unsafe fn read(&self, index: u32) -> T {
        // SAFETY: a place in the mapping, which the caller has to itself.
        unsafe { self.entry(index).read() }
    }

    /// # Safety
    /// The other side has consumed what was in this place and leaves it alone until the entry is published.
    unsafe fn write(&self, index: u32, entry: T) {
        // SAFETY: a place in the mapping, which the caller has to itself.
        unsafe { self.entry(index).write(entry) }
    }
}

/// The end that puts entries in: ours of fill and transmit rings.
#[derive(Debug)]
pub(super) struct Producer<T> {
    shared: Shared<T>,
    /// The next entry to write; those from the published index up to here are not yet visible.
    next: u32,
    /// Index of the other side at the last look.
    consumed: u32,
}

impl<T: Entry> Producer<T> {
    #[cfg(not(loom))]
    pub(super) fn new(mapping: Arc<Mapping>, layout: Layout, size: u32) -> Self {
        Self::of(Shared::new(mapping, layout, size))
    }

    fn of(shared: Shared<T>) -> Self {
        let next = shared.producer().load(Ordering::Relaxed);
        let consumed = shared.consumer().load(Ordering::Acquire);
        Self { shared, next, consumed }
    }

    /// Places for entries, of at least `wanted` if there are as many. Looks at the other side only if need be.
    pub(super) fn room(&mut self, wanted: u32) -> u32 {
        let room = self.size_minus(self.consumed);
        if room >= wanted {
            return room;
        }
        self.consumed = self.shared.consumer().load(Ordering::Acquire);
        self.size_minus(self.consumed)
    }

    fn size_minus(&self, consumed: u32) -> u32 {
        self.shared.size.saturating_sub(self.next.wrapping_sub(consumed))
    }

    /// Writes an entry, not visible before [`Self::publish`]. False if there is no place.
    pub(super) fn push(&mut self, entry: T) -> bool {
        if self.room(1) == 0 {
            return false;
        }
        // SAFETY: there is room, so the other side has consumed what was in this place; the index is not published yet.
        unsafe { self.shared.write(self.next, entry) };
        self.next = self.next.wrapping_add(1);
        true
    }

    /// Makes all written entries visible to the other side.
    pub(super) fn publish(&mut self) {
        self.shared.producer().store(self.next, Ordering::Release);
    }

    /// Entries that the other side has not yet consumed.
    pub(super) fn pending(&mut self) -> u32 {
        self.consumed = self.shared.consumer().load(Ordering::Acquire);
        self.next.wrapping_sub(self.consumed)
    }

    /// Whether the other side sleeps until it is called.
    pub(super) fn needs_wakeup(&self) -> bool {
        self.shared.needs_wakeup()
    }
}

/// The end that takes entries out: ours of receive and completion rings.
#[derive(Debug)]
pub(super) struct Consumer<T> {
    shared: Shared<T>,
    /// The next entry to read; those from the published index up to here are read, but not yet given back.
    next: u32,
    /// Index of the other side at the last look.
    produced: u32,
}

impl<T: Entry> Consumer<T> {
    #[cfg(not(loom))]
    pub(super) fn new(mapping: Arc<Mapping>, layout: Layout, size: u32) -> Self {
        Self::of(Shared::new(mapping, layout, size))
    }

    fn of(shared: Shared<T>) -> Self {
        let next = shared.consumer().load(Ordering::Relaxed);
        Self { shared, next, produced: next }
    }

    /// Places of the ring.
    #[cfg(not(loom))]
    pub(super) const fn places(&self) -> u32 {
        self.shared.size
    }

    /// Reads the next entry, if one waits. Its place is not given back before [`Self::release`]. Looks at the other
    /// side only when all that was seen is read.
    pub(super) fn pop(&mut self) -> Option<T> {
        if self.next == self.produced {
            self.produced = self.shared.producer().load(Ordering::Acquire);
            if self.next == self.produced {
                return None;
            }
        }
        // SAFETY: the published index is beyond this place, and it is not released yet.
        let entry = unsafe { self.shared.read(self.next) };
        self.next = self.next.wrapping_add(1);
        Some(entry)
    }

    /// Gives the places of all read entries back.
    pub(super) fn release(&mut self) {
        self.shared.consumer().store(self.next, Ordering::Release);
    }
}

/// Rings without a kernel: both ends of the same memory.
#[cfg(test)]
#[cfg(not(loom))]
pub(super) mod twin {
    use super::*;

    const LAYOUT: Layout = Layout { producer: 0, consumer: 64, flags: 128, entries: 192 };

    /// Both ends of a ring whose indexes begin at `start`.
    pub(crate) fn ring<T: Entry>(size: u32, start: u32) -> (Producer<T>, Consumer<T>) {
        let octets = LAYOUT.entries + size as usize * size_of::<T>();
        let mapping = Arc::new(Mapping::anonymous(octets).unwrap());
        let shared = Shared::<T>::new(mapping.clone(), LAYOUT, size);
        shared.producer().store(start, Ordering::Relaxed);
        shared.consumer().store(start, Ordering::Relaxed);
        (Producer::new(mapping.clone(), LAYOUT, size), Consumer::new(mapping, LAYOUT, size))
    }

    impl<T: Entry> Consumer<T> {
        /// Says that this end sleeps until it is called.
        pub(crate) fn ask_for_wakeup(&self, ask: bool) {
            self.shared.index(LAYOUT.flags).store(ask.into(), Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::VecDeque;

    #[test]
    fn nothing_is_seen_before_it_is_published_nor_reused_before_it_is_released() {
        for start in [0, 5, u32::MAX - 1, u32::MAX] {
            let (mut producer, mut consumer) = twin::ring::<u64>(2, start);
            assert!(producer.push(1) && producer.push(2) && !producer.push(3));
            assert_eq!(consumer.pop(), None);
            producer.publish();
            assert_eq!((consumer.pop(), consumer.pop(), consumer.pop()), (Some(1), Some(2), None));
            assert_eq!((producer.room(1), producer.pending()), (0, 2));
            consumer.release();
            assert_eq!((producer.room(1), producer.pending()), (2, 0));
        }
    }

    #[test]
    fn the_wakeup_flag_is_seen() {
        let (producer, consumer) = twin::ring::<u64>(2, 0);
        assert!(!producer.needs_wakeup());
        consumer.ask_for_wakeup(true);
        assert!(producer.needs_wakeup());
    }

    #[test]
    fn two_threads_exchange_entries_across_the_wrap() {
        const ENTRIES: u64 = 200_000;
        let (mut producer, mut consumer) = twin::ring::<u64>(64, u32::MAX - 100_000);
        let sender = std::thread::spawn(move || {
            let mut next = 0;
            while next < ENTRIES {
                if producer.push(next) {
                    next += 1;
                } else {
                    std::thread::yield_now();
                }
                producer.publish();
            }
        });
        let mut expected = 0;
        while expected < ENTRIES {
            match consumer.pop() {
                Some(entry) => {
                    assert_eq!(entry, expected);
                    expected += 1;
                }
                None => std::thread::yield_now(),
            }
            consumer.release();
        }
        sender.join().unwrap();
    }

    #[derive(Clone, Copy, Debug)]
    enum Operation {
        Push,
        Publish,
        Pop,
        Release,
    }

    proptest! {
        #[test]
        fn behaves_as_a_bounded_queue(
            start in prop_oneof![any::<u32>(), u32::MAX - 40..=u32::MAX],
            size in prop::sample::select(vec![1u32, 2, 8, 16]),
            operations in prop::collection::vec(
                prop::sample::select(vec![
                    Operation::Push, Operation::Push, Operation::Publish, Operation::Pop, Operation::Pop,
                    Operation::Release,
                ]),
                0..300,
            ),
        ) {
            let (mut producer, mut consumer) = twin::ring::<Descriptor>(size, start);
            let (mut written, mut visible) = (VecDeque::new(), VecDeque::new());
            // Places that are taken: written, visible, or read and not released.
            let (mut taken, mut read) = (0u32, 0u32);
            let mut number = 0u64;
            for operation in operations {
                match operation {
                    Operation::Push => {
                        let entry = Descriptor { address: number, len: number as u32, options: 0 };
                        prop_assert_eq!(producer.push(entry), taken < size);
                        if taken < size {
                            written.push_back(entry);
                            taken += 1;
                            number += 1;
                        }
                    }
                    Operation::Publish => {
                        producer.publish();
                        visible.append(&mut written);
                    }
                    Operation::Pop => {
                        let expected = visible.pop_front();
                        read += u32::from(expected.is_some());
                        prop_assert_eq!(consumer.pop(), expected);
                    }
                    Operation::Release => {
                        consumer.release();
                        taken -= std::mem::take(&mut read);
                    }
                }
                prop_assert_eq!(producer.room(size), size - taken);
                prop_assert_eq!(producer.pending(), taken);
            }
        }
    }
}

/// Every order of threads and every value that the memory model lets a load see, in place of the mapping: `scripts/threads.sh`.
#[cfg(loom)]
mod searched {
    use super::*;
    use std::sync::atomic::AtomicUsize;

    use loom::cell::UnsafeCell;

    /// The part of a ring that both ends have, in memory that loom watches: two accesses at once to a place are an error.
    #[derive(Debug)]
    pub(super) struct Shared<T> {
        ring: Arc<Ring<T>>,
        pub(super) size: u32,
    }

    #[derive(Debug)]
    struct Ring<T> {
        producer: AtomicU32,
        consumer: AtomicU32,
        entries: Vec<UnsafeCell<T>>,
    }

    impl<T: Entry> Shared<T> {
        pub(super) fn producer(&self) -> &AtomicU32 {
            &self.ring.producer
        }

        pub(super) fn consumer(&self) -> &AtomicU32 {
            &self.ring.consumer
        }

        #[expect(clippy::unused_self, reason = "as in the mapping, where the kernel sleeps")]
        pub(super) fn needs_wakeup(&self) -> bool {
            false
        }

        fn entry(&self, index: u32) -> &UnsafeCell<T> {
            &self.ring.entries[(index & (self.size - 1)) as usize]
        }

        /// # Safety
        /// As in the mapping.
        pub(super) unsafe fn read(&self, index: u32) -> T {
            // SAFETY: the cell lives, and loom panics if anybody writes it now.
            self.entry(index).with(|entry| unsafe { *entry })
        }

        /// # Safety
        /// As in the mapping.
        pub(super) unsafe fn write(&self, index: u32, entry: T) {
            // SAFETY: the cell lives, and loom panics if anybody uses it now.
            self.entry(index).with_mut(|place| unsafe { *place = entry });
        }
    }

    fn ring(size: u32, start: u32) -> (Producer<u64>, Consumer<u64>) {
        let ring = Arc::new(Ring {
            producer: AtomicU32::new(start),
            consumer: AtomicU32::new(start),
            entries: (0..size).map(|_| UnsafeCell::new(0)).collect(),
        });
        let end = || Shared { ring: Arc::clone(&ring), size };
        (Producer::of(end()), Consumer::of(end()))
    }

    /// Both ends do so many rounds, and nobody waits for the other: entries arrive whole, once and in order, and no place is written
    /// that the other side may still read.
    fn exchange(size: u32, start: u32, rounds: u64) {
        let orders = std::sync::Arc::new(AtomicUsize::new(0));
        let counted = std::sync::Arc::clone(&orders);
        loom::model(move || {
            counted.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            let (mut producer, mut consumer) = ring(size, start);
            let sender = loom::thread::spawn(move || {
                let mut sent = 0;
                for _ in 0..rounds {
                    sent += u64::from(producer.push(sent + 1));
                    producer.publish();
                }
                sent
            });
            let mut last = 0;
            let mut take = |consumer: &mut Consumer<u64>| {
                if let Some(entry) = consumer.pop() {
                    assert_eq!(entry, last + 1);
                    last = entry;
                }
                consumer.release();
            };
            for _ in 0..rounds {
                take(&mut consumer);
            }
            let sent = sender.join().unwrap();
            for _ in 0..rounds {
                take(&mut consumer);
            }
            assert_eq!(last, sent);
        });
        println!(
            "ring of {size}, {rounds} rounds each: {} orders",
            orders.load(std::sync::atomic::Ordering::Relaxed)
        );
    }

    #[test]
    fn in_every_order_of_threads_entries_arrive_once_and_places_are_not_shared() {
        exchange(1, u32::MAX, 3);
        exchange(2, u32::MAX, 3);
    }
}
