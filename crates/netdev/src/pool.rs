//! The memory that frames live in: one region, cut into chunks of equal size, and a stack of the free ones.
//!
//! ```text
//!  0          HEADROOM 256                         room 1760 (of a chunk of 2048)       TAILROOM 32
//!  +------------+----------------------------------------------------------------------+----------+
//!  | tags grow  | the frame as it was received                                         | ICV      |
//!  +------------+----------------------------------------------------------------------+----------+
//!               start .................................. start + len
//! ```
//!
//! A chunk always has exactly one of three owners: the pool (free), a [`Slot`] (held), or the kernel
//! (in flight: in a fill, receive, transmit or completion ring of AF_XDP). The pool keeps the books, so
//! `free + held + in flight = total` holds at every moment. The pool believes an address from the kernel only
//! if that very chunk was in flight.
//!
//! The kernel's own chunks must not exceed a page: to it a chunk of 16,384 is four, its parts (see [`parts`]).
//!
//! Left out on purpose: growing (nothing is allocated after creation), sharing between threads (a worker owns
//! its links, a link its pool), chunks of different sizes in one pool (the kernel's UMEM has one size).

#![allow(unsafe_code)]

mod parts;

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::slice;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::mapping::Mapping;
use crate::passed_on::{self, PassedPool};
pub(crate) use parts::{PART_OCTETS, PARTS, Reclaimed};

/// Octets in front of a received frame, for tags that grow it to the front. It is what the kernel leaves on its
/// own in AF_XDP (XDP_PACKET_HEADROOM); the other ports keep to the same.
pub const HEADROOM: usize = 256;

/// Octets that stay free behind the longest frame a port receives, for an ICV.
pub const TAILROOM: usize = 32;

/// The size of each chunk of a pool. AF_XDP receives into chunks of the first two in place; for the third it copies
/// what it receives out of chunks of its own, which must not exceed a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ChunkOctets {
    /// 2,048 octets: frames up to 1,760, for an MTU of 1500 and the protected side's 1532.
    Octets2048,
    /// 4,096 octets: frames up to 3,808.
    Octets4096,
    /// 16,384 octets: jumbo frames up to 16,096.
    Octets16384,
}

impl ChunkOctets {
    /// All sizes, the smallest first.
    const ALL: [Self; 3] = [Self::Octets2048, Self::Octets4096, Self::Octets16384];

    /// The smallest size whose room holds a frame of `frame_octets` (Ethernet header and tags included), if any.
    pub fn for_frame(frame_octets: usize) -> Option<Self> {
        Self::ALL.into_iter().find(|size| size.room() >= frame_octets)
    }

    /// Octets of one chunk, a power of two.
    pub const fn octets(self) -> usize {
        match self {
            Self::Octets2048 => 2048,
            Self::Octets4096 => 4096,
            Self::Octets16384 => 16384,
        }
    }

    /// The longest frame that fits between [`HEADROOM`] and [`TAILROOM`].
    pub const fn room(self) -> usize {
        self.octets() - HEADROOM - TAILROOM
    }
}

/// Error of making a pool.
#[derive(Debug, thiserror::Error)]
pub enum PoolError {
    /// No chunks asked for, or more than a UMEM can address.
    #[error("a frame pool of {chunks} chunks is impossible; ask for 1 to {most}", most = Pool::MOST_CHUNKS)]
    Chunks {
        /// Number of chunks that was asked for.
        chunks: usize,
    },
    /// The kernel did not give the memory.
    #[error("no memory for a frame pool of {octets} octets: {source}; free memory or configure fewer links")]
    Memory {
        /// Size of the region.
        octets: usize,
        /// Error of mmap.
        source: io::Error,
    },
}

/// The owner of one chunk, and where the frame stands in it. Only a pool makes it, it cannot be copied, and it
/// goes back with [`Pool::give`]: one that is dropped loses its chunk until the pool itself is dropped.
#[derive(Debug)]
#[must_use = "a slot that is dropped loses its chunk: give it back to its pool"]
pub struct Slot {
    pool: u32,
    chunk: u32,
    start: usize,
    len: usize,
}

impl Slot {
    /// Offset of the frame's first octet in its chunk.
    pub fn start(&self) -> usize {
        self.start
    }

    /// Octets of the frame.
    #[allow(clippy::len_without_is_empty)] // an empty frame is nothing that anybody asks for
    pub fn len(&self) -> usize {
        self.len
    }

    /// Sets the frame's place anew. A place beyond the chunk makes the frame empty for [`Pool::frame`], and
    /// a port drops and counts it.
    pub fn place(&mut self, start: usize, len: usize) {
        self.start = start;
        self.len = len;
    }
}

/// One frame under work: the whole chunk, and where in it the frame stands.
#[derive(Debug)]
pub struct FrameView<'p> {
    /// All octets of the chunk, headroom and tailroom included.
    pub chunk: &'p mut [u8],
    /// Offset of the frame's first octet.
    pub start: &'p mut usize,
    /// Octets of the frame.
    pub len: &'p mut usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Owner {
    Free,
    Held,
    InFlight,
    /// In flight by parts: a bit for each that the kernel has.
    PartsInFlight(u8),
}

/// A region of chunks and the books about them. Never allocates after [`Pool::new`].
#[derive(Debug)]
pub struct Pool {
    id: u32,
    region: Mapping,
    /// The file behind the region; none where the system makes no such file, so that nobody can go on with it.
    file: Option<OwnedFd>,
    chunk_octets: ChunkOctets,
    /// Free chunks, the most recently used on top: its octets are likely still in the cache.
    free: Vec<u32>,
    owners: Box<[Owner]>,
    /// Mark of each chunk, set by the holder of its frame.
    marks: Box<[u8]>,
    in_flight: usize,
}

static NEXT_POOL: AtomicU32 = AtomicU32::new(0);

impl Pool {
    /// The most chunks of one pool: 4 GiB of chunks of the smallest size.
    pub const MOST_CHUNKS: usize = 1 << 21;

    /// Maps the region and puts all chunks on the free stack.
    pub fn new(chunk_octets: ChunkOctets, chunks: usize) -> Result<Self, PoolError> {
        if chunks == 0 || chunks > Self::MOST_CHUNKS {
            return Err(PoolError::Chunks { chunks });
        }
        let octets = chunks * chunk_octets.octets();
        let (region, file) = match Mapping::of_file(octets) {
            Ok((region, file)) => (region, Some(file)),
            Err(_) => {
                (Mapping::anonymous(octets).map_err(|source| PoolError::Memory { octets, source })?, None)
            }
        };
        Ok(Self::of(region, file, chunk_octets, chunks))
    }

    /// All chunks of a region, free.
    fn of(region: Mapping, file: Option<OwnedFd>, chunk_octets: ChunkOctets, chunks: usize) -> Self {
        let id = NEXT_POOL
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |id| id.checked_add(1))
            .expect("invariant: a process makes fewer than 2^32 pools");
        // Lowest chunk on top.
        let free = (0..chunks as u32).rev().collect();
        let (owners, marks) = (vec![Owner::Free; chunks].into(), vec![0; chunks].into());
        Self { id, region, file, chunk_octets, free, owners, marks, in_flight: 0 }
    }

    /// Returns the state for the next program of this process. None if there is no file, or chunks are held or in flight by parts.
    pub fn pass_on(&self) -> Option<PassedPool> {
        if self.free.len() + self.in_flight != self.owners.len() {
            return None;
        }
        let mut in_flight = vec![0; self.owners.len().div_ceil(64)];
        for (chunk, owner) in self.owners.iter().enumerate() {
            match owner {
                Owner::Free => {}
                Owner::InFlight => in_flight[chunk / 64] |= 1_u64 << (chunk % 64),
                Owner::Held | Owner::PartsInFlight(_) => return None,
            }
        }
        let file = self.file.as_ref()?.as_raw_fd();
        Some(PassedPool {
            file,
            chunk_octets: self.chunk_octets.octets(),
            chunks: self.owners.len(),
            in_flight,
        })
    }

    /// Goes on with a pool of the program before this one.
    ///
    /// # Errors
    /// If it is none, or cannot be mapped.
    pub fn go_on(passed: &PassedPool) -> io::Result<Self> {
        let PassedPool { file, chunk_octets, chunks, in_flight } = passed;
        let invalid = || io::Error::new(io::ErrorKind::InvalidData, "its pool is none");
        let chunk_octets = ChunkOctets::ALL.into_iter().find(|size| size.octets() == *chunk_octets);
        let chunk_octets = chunk_octets.ok_or_else(invalid)?;
        if *chunks == 0 || *chunks > Self::MOST_CHUNKS || in_flight.len() != chunks.div_ceil(64) {
            return Err(invalid());
        }
        let (file, octets) = (File::from(passed_on::take(*file)?), chunks * chunk_octets.octets());
        // Beyond the end of its file a mapping kills who touches it.
        if file.metadata()?.len() != octets as u64 {
            return Err(invalid());
        }
        let region = Mapping::shared(file.as_raw_fd(), 0, octets)?;
        let mut pool = Self::of(region, Some(file.into()), chunk_octets, *chunks);
        let is_in_flight = |chunk: u32| in_flight[chunk as usize / 64] & 1 << (chunk % 64) != 0;
        pool.free.retain(|&chunk| !is_in_flight(chunk));
        for chunk in (0..*chunks as u32).filter(|&chunk| is_in_flight(chunk)) {
            pool.owners[chunk as usize] = Owner::InFlight;
            pool.in_flight += 1;
        }
        Ok(pool)
    }

    /// Takes a free chunk, if there is one. The frame in it is empty and stands at [`HEADROOM`].
    pub fn take(&mut self) -> Option<Slot> {
        let chunk = self.free.pop()?;
        self.owners[chunk as usize] = Owner::Held;
        Some(Slot { pool: self.id, chunk, start: HEADROOM, len: 0 })
    }

    /// Takes a chunk back.
    ///
    /// # Panics
    /// If another pool made the slot: a bug that would mix two links' frames.
    pub fn give(&mut self, slot: Slot) {
        self.check(&slot);
        self.owners[slot.chunk as usize] = Owner::Free;
        self.free.push(slot.chunk);
    }

    /// The octets of a frame; none if it was placed beyond its chunk.
    ///
    /// # Panics
    /// If another pool made the slot.
    pub fn frame(&self, slot: &Slot) -> &[u8] {
        self.check(slot);
        // SAFETY: check() says that the chunk is one of this region's; its only owner is borrowed for as long
        // as the octets are, and so is the pool, so nobody writes them meanwhile.
        let chunk = unsafe { slice::from_raw_parts(self.chunk_base(slot.chunk), self.chunk_octets.octets()) };
        chunk.get(slot.start..slot.start.saturating_add(slot.len)).unwrap_or(&[])
    }

    /// Marks a chunk with a number that stays with it, whoever works on the frame, until another one is set. A chunk that is taken
    /// anew has the mark that it had.
    ///
    /// # Panics
    /// If another pool made the slot.
    pub fn set_mark(&mut self, slot: &Slot, mark: u8) {
        self.check(slot);
        self.marks[slot.chunk as usize] = mark;
    }

    /// The mark of a chunk; 0 if it never had one.
    ///
    /// # Panics
    /// If another pool made the slot.
    pub fn mark(&self, slot: &Slot) -> u8 {
        self.check(slot);
        self.marks[slot.chunk as usize]
    }

    /// Appends octets to the frame of `to`; false, and nothing changed, if its chunk has no room for them.
    ///
    /// # Panics
    /// If another pool made the slot.
    pub fn append(&mut self, to: &mut Slot, octets: &[u8]) -> bool {
        let FrameView { chunk, start, len } = self.view(to);
        let end = start.saturating_add(*len);
        let Some(room) = chunk.get_mut(end..end.saturating_add(octets.len())) else { return false };
        room.copy_from_slice(octets);
        *len += octets.len();
        true
    }

    /// Appends octets of another frame; false, and nothing changed, if the chunk has no room for them or the other
    /// frame has them not.
    ///
    /// # Panics
    /// If another pool made one of the slots.
    pub fn append_from(&mut self, to: &mut Slot, from: &Slot, octets: Range<usize>) -> bool {
        let Some(octets) = self.frame(from).get(octets) else { return false };
        // SAFETY: two slots of a pool never name the same chunk (see `views`), so what is read here is not what
        // append() writes; it lives as long as the region, and `from` is borrowed all the while.
        let octets = unsafe { slice::from_raw_parts(octets.as_ptr(), octets.len()) };
        self.append(to, octets)
    }

    /// One frame under work.
    ///
    /// # Panics
    /// If another pool made the slot.
    pub fn view<'p>(&'p mut self, slot: &'p mut Slot) -> FrameView<'p> {
        self.views(slice::from_mut(slot)).next().expect("invariant: one slot has one view")
    }

    /// Many frames under work at once, in the order of their slots.
    ///
    /// # Panics
    /// If another pool made one of the slots.
    pub fn views<'p>(
        &'p mut self,
        slots: &'p mut [Slot],
    ) -> impl ExactSizeIterator<Item = FrameView<'p>> + use<'p> {
        let (id, base, octets) = (self.id, self.region.base(), self.chunk_octets.octets());
        slots.iter_mut().map(move |slot| {
            assert_eq!(slot.pool, id, "invariant: a slot stays with the pool that made it");
            // SAFETY: the chunk is one of this region's, for this pool made the slot and nothing changes the
            // number. No two slots of a pool name the same chunk (take() removes it from the free stack,
            // reclaim() wants it in flight; both mark it held), slots cannot be copied, and each is visited once: the
            // slices are disjoint. They live as long as the borrows of pool and slots do. The kernel writes
            // chunks in flight only.
            let chunk = unsafe { slice::from_raw_parts_mut(base.add(slot.chunk as usize * octets), octets) };
            FrameView { chunk, start: &mut slot.start, len: &mut slot.len }
        })
    }

    /// Chunks on the free stack.
    pub fn free(&self) -> usize {
        self.free.len()
    }

    /// Chunks that the kernel owns.
    pub fn in_flight(&self) -> usize {
        self.in_flight
    }

    /// All chunks.
    pub fn total(&self) -> usize {
        self.owners.len()
    }

    /// The size of the chunks.
    pub fn chunk_octets(&self) -> ChunkOctets {
        self.chunk_octets
    }

    /// The longest frame that a port may put into a chunk at [`HEADROOM`].
    pub fn room(&self) -> usize {
        self.chunk_octets.room()
    }

    /// The region, to be registered with the kernel as a UMEM.
    pub(crate) fn region(&self) -> &Mapping {
        &self.region
    }

    /// Number of this pool, for a port that must meet the same one at each call.
    pub(crate) fn id(&self) -> u32 {
        self.id
    }

    /// Hands a chunk to the kernel: the frame's address in the region, in octets from its start. None of it may
    /// be touched until [`Self::reclaim`].
    pub(crate) fn submit(&mut self, slot: Slot) -> u64 {
        self.check(&slot);
        self.owners[slot.chunk as usize] = Owner::InFlight;
        self.in_flight += 1;
        slot.chunk as u64 * self.chunk_octets.octets() as u64 + slot.start as u64
    }

    /// Believes the kernel that it is done with the chunk at `address`, if that chunk was in flight. The slot
    /// stands at the address; its frame is empty.
    pub(crate) fn reclaim(&mut self, address: u64) -> Option<Slot> {
        let octets = self.chunk_octets.octets() as u64;
        let chunk = usize::try_from(address / octets).ok()?;
        let hand = self.owners.get_mut(chunk).filter(|hand| **hand == Owner::InFlight)?;
        *hand = Owner::Held;
        self.in_flight -= 1;
        Some(Slot { pool: self.id, chunk: chunk as u32, start: (address % octets) as usize, len: 0 })
    }

    fn chunk_base(&self, chunk: u32) -> *mut u8 {
        let offset = chunk as usize * self.chunk_octets.octets();
        debug_assert!(offset < self.region.octets());
        // SAFETY: chunks of slots lie in the region.
        unsafe { self.region.base().add(offset) }
    }

    fn check(&self, slot: &Slot) {
        assert_eq!(slot.pool, self.id, "invariant: a slot stays with the pool that made it");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn sizes() {
        for (frame, size) in [
            (0, Some(ChunkOctets::Octets2048)),
            (1760, Some(ChunkOctets::Octets2048)),
            (1761, Some(ChunkOctets::Octets4096)),
            (3808, Some(ChunkOctets::Octets4096)),
            (9022, Some(ChunkOctets::Octets16384)),
            (16096, Some(ChunkOctets::Octets16384)),
            (16097, None),
        ] {
            assert_eq!(ChunkOctets::for_frame(frame), size, "{frame}");
        }
    }

    #[test]
    fn impossible_pools_are_refused() {
        for chunks in [0, Pool::MOST_CHUNKS + 1, usize::MAX] {
            assert!(matches!(Pool::new(ChunkOctets::Octets2048, chunks), Err(PoolError::Chunks { .. })));
        }
    }

    #[test]
    fn an_empty_pool_gives_nothing_until_something_comes_back() {
        let mut pool = Pool::new(ChunkOctets::Octets2048, 2).unwrap();
        let (first, second) = (pool.take().unwrap(), pool.take().unwrap());
        assert!(pool.take().is_none());
        pool.give(first);
        assert_eq!(pool.free(), 1);
        let third = pool.take().unwrap();
        pool.give(second);
        pool.give(third);
        assert_eq!(pool.free(), 2);
    }

    #[test]
    fn a_mark_stays_with_its_chunk() {
        let mut pool = Pool::new(ChunkOctets::Octets2048, 2).unwrap();
        let (first, second) = (pool.take().unwrap(), pool.take().unwrap());
        pool.set_mark(&second, 0x86);
        assert_eq!((pool.mark(&first), pool.mark(&second)), (0, 0x86));
        let address = pool.submit(second);
        let second = pool.reclaim(address).unwrap();
        assert_eq!(pool.mark(&second), 0x86);
        pool.give(first);
        pool.give(second);
    }

    #[test]
    fn a_frame_beyond_its_chunk_is_empty() {
        let mut pool = Pool::new(ChunkOctets::Octets2048, 1).unwrap();
        let mut slot = pool.take().unwrap();
        for (start, len, seen) in
            [(0, 2048, 2048), (256, 0, 0), (1, 2048, 0), (2048, 0, 0), (2049, 0, 0), (1, usize::MAX, 0)]
        {
            slot.place(start, len);
            assert_eq!(pool.frame(&slot).len(), seen, "{start} {len}");
        }
    }

    #[test]
    #[should_panic(expected = "a slot stays with the pool that made it")]
    fn a_foreign_slot_is_refused() {
        let mut one = Pool::new(ChunkOctets::Octets2048, 1).unwrap();
        let mut other = Pool::new(ChunkOctets::Octets2048, 1).unwrap();
        let mut slots = [one.take().unwrap(), other.take().unwrap()];
        one.views(&mut slots).for_each(drop);
    }

    #[test]
    fn the_kernel_is_believed_only_about_what_it_was_lent() {
        let mut pool = Pool::new(ChunkOctets::Octets2048, 4).unwrap();
        let slot = pool.take().unwrap();
        let held = pool.take().unwrap();
        let address = pool.submit(slot);
        assert_eq!((address, pool.in_flight(), pool.free()), (256, 1, 2));
        for wrong in [2048, 3 * 2048, 4 * 2048, u64::MAX] {
            assert!(pool.reclaim(wrong).is_none(), "{wrong}");
        }
        let slot = pool.reclaim(2047).unwrap();
        assert_eq!((slot.start(), slot.len(), pool.in_flight()), (2047, 0, 0));
        assert!(pool.reclaim(256).is_none(), "twice");
        pool.give(slot);
        pool.give(held);
        assert_eq!(pool.free(), 4);
    }

    #[derive(Debug, Clone)]
    enum Operation {
        Take,
        Give(usize),
        Lend(usize),
        Reclaim(u64),
        Write,
    }

    fn operation() -> impl Strategy<Value = Operation> {
        prop_oneof![
            Just(Operation::Take),
            any::<usize>().prop_map(Operation::Give),
            any::<usize>().prop_map(Operation::Lend),
            (0u64..20 * 2048).prop_map(Operation::Reclaim),
            Just(Operation::Write),
        ]
    }

    proptest! {
        #[test]
        fn books_balance_and_frames_do_not_touch(operations in prop::collection::vec(operation(), 0..200)) {
            let mut pool = Pool::new(ChunkOctets::Octets2048, 16).unwrap();
            let mut held: Vec<Slot> = Vec::new();
            for operation in operations {
                match operation {
                    Operation::Take => held.extend(pool.take()),
                    Operation::Give(which) if !held.is_empty() => {
                        let slot = held.swap_remove(which % held.len());
                        pool.give(slot);
                    }
                    Operation::Lend(which) if !held.is_empty() => {
                        let slot = held.swap_remove(which % held.len());
                        pool.submit(slot);
                    }
                    Operation::Reclaim(address) => held.extend(pool.reclaim(address)),
                    Operation::Write => {
                        for (number, view) in pool.views(&mut held).enumerate() {
                            view.chunk.fill(number as u8);
                            (*view.start, *view.len) = (0, 2048);
                        }
                        for (number, slot) in held.iter().enumerate() {
                            prop_assert!(pool.frame(slot).iter().all(|octet| *octet == number as u8));
                        }
                    }
                    Operation::Give(_) | Operation::Lend(_) => {}
                }
                prop_assert_eq!(pool.free() + held.len() + pool.in_flight(), pool.total());
            }
        }
    }
}
