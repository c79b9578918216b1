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

use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

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
#[derive(Debug)]
struct Shared<T> {
    mapping: Arc<Mapping>,
    layout: Layout,
    size: u32,
    entries: PhantomData<T>,
}

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
    pub(super) fn new(mapping: Arc<Mapping>, layout: Layout, size: u32) -> Self {
        let shared = Shared::new(mapping, layout, size);
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
        // SAFETY: a place in the mapping that the other side has consumed, so it does not touch it until the index
        // is published.
        unsafe { self.shared.entry(self.next).write(entry) };
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
    pub(super) fn new(mapping: Arc<Mapping>, layout: Layout, size: u32) -> Self {
        let shared = Shared::new(mapping, layout, size);
        let next = shared.consumer().load(Ordering::Relaxed);
        Self { shared, next, produced: next }
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
        // SAFETY: a place in the mapping that the other side has produced and leaves alone until it is released.
        let entry = unsafe { self.shared.entry(self.next).read() };
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
