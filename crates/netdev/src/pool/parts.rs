//! A chunk of 16,384 octets as the kernel sees it: four chunks of a page, its parts.
//!
//! ```text
//!   0               4096              8192              12288            16384
//!   +-----------------+-----------------+-----------------+----------------+
//!   | headroom, frame | frame           | frame, tailroom |                |
//!   +-----------------+-----------------+-----------------+----------------+
//!         part 0            part 1            part 2           part 3
//! ```
//!
//! - A frame to be sent stays where it is and goes into flight part by part; its chunk comes back with the last of them.
//! - Chunks to receive into are in flight whole, for as long as the port lives: it refills with their parts one by one, and
//!   received frames are copied out of them ([`Pool::append_in_flight`]). Each of the kernel's fragments stands behind
//!   256 octets of headroom of its own, so it could not be used in place.
//!
//! Left out on purpose: knowing which parts of a chunk in flight the kernel has at the moment: that is the port's.

use arrayvec::ArrayVec;

use super::{ChunkOctets, FrameView, HEADROOM, Owner, Pool, Slot};

/// Octets of a part, and the most that the kernel takes for a chunk (4,096 is a page, or divides it).
pub(crate) const PART_OCTETS: usize = 4096;

/// The most parts of a chunk.
pub(crate) const PARTS: usize = 4;

/// A frame's first part holds this much of it at least, if it has more than one: the kernel reads headers in the
/// first piece of a frame only.
const LEAST_FIRST_PART: usize = 256;

/// Octets of a frame in one part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    /// Octets from the start of the region.
    pub(crate) address: u64,
    /// Octets.
    pub(crate) len: u32,
}

/// Outcome of an address that the kernel handed back.
#[derive(Debug)]
pub(crate) enum Reclaimed {
    /// It names no part that was in flight.
    Unknown,
    /// The kernel has other parts of the chunk.
    Part,
    /// The chunk is ours again.
    Whole(Slot),
}

impl ChunkOctets {
    /// Octets of what the kernel takes for a chunk.
    pub(crate) const fn kernel_chunk_octets(self) -> usize {
        if self.octets() < PART_OCTETS { self.octets() } else { PART_OCTETS }
    }

    /// Number of the kernel's chunks in a chunk: 1 or [`PARTS`].
    pub(crate) const fn parts(self) -> usize {
        self.octets() / self.kernel_chunk_octets()
    }
}

impl Pool {
    /// Hands a chunk to the kernel: those of its parts in which the frame lies, in order. The frame lies within its
    /// chunk and is not empty; if too little of it stood in its first part it is moved to [`HEADROOM`].
    pub(crate) fn submit_parts(&mut self, mut slot: Slot) -> ArrayVec<Part, PARTS> {
        let FrameView { chunk, start, len } = self.view(&mut slot);
        if PART_OCTETS - *start % PART_OCTETS < LEAST_FIRST_PART.min(*len) {
            chunk.copy_within(*start..*start + *len, HEADROOM);
            *start = HEADROOM;
        }
        let (mut at, end) = (slot.start, slot.start + slot.len);
        let base = slot.chunk as u64 * self.chunk_octets.octets() as u64;
        let (mut parts, mut in_flight) = (ArrayVec::new(), 0);
        while at < end {
            let part = at / PART_OCTETS;
            let next = end.min((part + 1) * PART_OCTETS);
            parts.push(Part { address: base + at as u64, len: (next - at) as u32 });
            in_flight |= 1 << part;
            at = next;
        }
        self.owners[slot.chunk as usize] = Owner::PartsInFlight(in_flight);
        self.in_flight += 1;
        parts
    }

    /// Believes the kernel that it is done with the part at `address`, if that very part went into flight by
    /// [`Self::submit_parts`].
    pub(crate) fn reclaim_part(&mut self, address: u64) -> Reclaimed {
        let octets = self.chunk_octets.octets() as u64;
        let Ok(chunk) = usize::try_from(address / octets) else { return Reclaimed::Unknown };
        let part = 1u8 << ((address % octets) / PART_OCTETS as u64);
        match self.owners.get_mut(chunk) {
            Some(Owner::PartsInFlight(in_flight)) if *in_flight & part != 0 => {
                *in_flight &= !part;
                if *in_flight != 0 {
                    return Reclaimed::Part;
                }
            }
            _ => return Reclaimed::Unknown,
        }
        self.owners[chunk] = Owner::Held;
        self.in_flight -= 1;
        Reclaimed::Whole(Slot { pool: self.id, chunk: chunk as u32, start: HEADROOM, len: 0 })
    }

    /// Appends to the frame of `to` the octets at `address` in a chunk that is in flight whole; false, and nothing
    /// changed, if there is no such chunk, if they reach beyond their part, or if `to` has no room for them. The
    /// caller knows that the kernel is done with that part.
    ///
    /// # Panics
    /// If another pool made the slot.
    pub(crate) fn append_in_flight(&mut self, to: &mut Slot, address: u64, len: usize) -> bool {
        let octets = self.chunk_octets.octets();
        let Ok(address) = usize::try_from(address) else { return false };
        let in_flight = self.owners.get(address / octets) == Some(&Owner::InFlight);
        if !in_flight || address % PART_OCTETS + len > PART_OCTETS {
            return false;
        }
        // SAFETY: the address lies in a chunk of the region.
        let from = unsafe { self.region.base().add(address) };
        let view = self.view(to);
        let end = view.start.saturating_add(*view.len);
        let Some(room) = view.chunk.get_mut(end..end.saturating_add(len)) else { return false };
        // SAFETY: `len` octets from there on lie in one part of a chunk that is lent; `room` is as long and lies in
        // a chunk that is held: they do not overlap. By the caller's word the kernel has given the part back; if it
        // wrote there nevertheless it would spoil the octets of a frame that nobody has looked at yet.
        unsafe { std::ptr::copy_nonoverlapping(from, room.as_mut_ptr(), len) };
        *view.len += len;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pool::TAILROOM;
    use proptest::prelude::*;

    fn pool(chunks: usize) -> Pool {
        Pool::new(ChunkOctets::Octets16384, chunks).unwrap()
    }

    #[test]
    fn parts_of_a_frame() {
        for (start, len, parts) in [
            (256, 14, &[(256, 14)][..]),
            (256, 3840, &[(256, 3840)]),
            (256, 3841, &[(256, 3840), (4096, 1)]),
            (224, 9014, &[(224, 3872), (4096, 4096), (8192, 1046)]),
            (0, 16384, &[(0, 4096), (4096, 4096), (8192, 4096), (12288, 4096)]),
            (3840, 257, &[(3840, 256), (4096, 1)]),
            // Too little in the first part: moved, unless all of it is there.
            (3841, 257, &[(256, 257)]),
            (4095, 5000, &[(256, 3840), (4096, 1160)]),
            (4000, 96, &[(4000, 96)]),
            (4096, 5000, &[(4096, 4096), (8192, 904)]),
        ] {
            let mut pool = pool(2);
            let other = pool.take().unwrap();
            let mut slot = pool.take().unwrap();
            slot.place(start, len);
            let filling = |at: usize| (at % 251) as u8;
            pool.view(&mut slot).chunk[start..start + len]
                .iter_mut()
                .enumerate()
                .for_each(|(at, octet)| *octet = filling(at));
            let in_flight = pool.submit_parts(slot);
            let seen: Vec<_> =
                in_flight.iter().map(|part| (part.address as usize - 16384, part.len)).collect();
            assert_eq!(seen, parts, "{start} {len}");
            let mut octets = Vec::new();
            for part in &in_flight {
                // SAFETY: within the region, which nobody writes here.
                octets.extend_from_slice(unsafe {
                    std::slice::from_raw_parts(
                        pool.region.base().add(part.address as usize),
                        part.len as usize,
                    )
                });
            }
            assert!(octets.iter().enumerate().all(|(at, octet)| *octet == filling(at)), "{start} {len}");
            assert_eq!((pool.free(), pool.in_flight()), (0, 1));
            // Back in any order, each once; the chunk with the last.
            let (last, others) = in_flight.split_last().unwrap();
            for part in others.iter().rev() {
                assert!(matches!(pool.reclaim_part(part.address), Reclaimed::Part));
                assert!(matches!(pool.reclaim_part(part.address), Reclaimed::Unknown), "twice");
            }
            assert!(matches!(pool.reclaim_part(other.chunk.into()), Reclaimed::Unknown), "not in flight");
            assert!(matches!(pool.reclaim_part(u64::MAX), Reclaimed::Unknown));
            assert!(pool.reclaim(last.address).is_none(), "not in flight whole");
            let Reclaimed::Whole(slot) = pool.reclaim_part(last.address) else { panic!("the last part") };
            assert!(matches!(pool.reclaim_part(last.address), Reclaimed::Unknown), "twice");
            pool.give(slot);
            pool.give(other);
            assert_eq!((pool.free(), pool.in_flight()), (2, 0));
        }
    }

    #[test]
    fn only_what_was_lent_and_fits_is_appended() {
        let mut pool = pool(3);
        let mut source = pool.take().unwrap();
        pool.view(&mut source).chunk.fill(7);
        let base = pool.submit(source);
        let base = base - base % 16384;
        let held = pool.take().unwrap();
        let mut slot = pool.take().unwrap();
        for (address, len) in [
            (base + 4095, 2),
            (base, 4097),
            (base + 16384, 1),
            (base + 2 * 16384, 1),
            (base + 3 * 16384, 1),
            (u64::MAX, 1),
        ] {
            assert!(!pool.append_in_flight(&mut slot, address, len), "{address} {len}");
        }
        assert_eq!(slot.len(), 0);
        assert!(pool.append_in_flight(&mut slot, base + 256, 3840));
        assert!(pool.append_in_flight(&mut slot, base + 3 * 4096, 4096));
        assert_eq!((slot.start(), slot.len()), (HEADROOM, 7936));
        assert!(pool.frame(&slot).iter().all(|octet| *octet == 7));
        assert!(pool.append_in_flight(&mut slot, base, 4096) && pool.append_in_flight(&mut slot, base, 4064));
        assert_eq!(slot.len(), pool.room());
        assert!(!pool.append_in_flight(&mut slot, base, TAILROOM + 1), "beyond the chunk");
        pool.give(slot);
        pool.give(held);
    }

    #[derive(Clone, Copy, Debug)]
    enum Operation {
        Take,
        Give,
        LendParts(usize, usize),
        /// The kernel is done with one of those that it has.
        Done(usize),
        Invented(u64),
    }

    fn operation() -> impl Strategy<Value = Operation> {
        prop_oneof![
            Just(Operation::Take),
            Just(Operation::Give),
            (0usize..16000, 1usize..16384).prop_map(|(start, len)| Operation::LendParts(start, len)),
            any::<usize>().prop_map(Operation::Done),
            any::<usize>().prop_map(Operation::Done),
            prop_oneof![0..7 * 16384u64, any::<u64>()].prop_map(Operation::Invented),
        ]
    }

    proptest! {
        #[test]
        fn a_chunk_comes_back_once_and_with_its_last_part(operations in prop::collection::vec(operation(), 0..300)) {
            let mut pool = pool(6);
            let (mut held, mut parts): (Vec<Slot>, Vec<u64>) = (Vec::new(), Vec::new());
            for operation in operations {
                let address = match operation {
                    Operation::Take => {
                        held.extend(pool.take());
                        continue;
                    }
                    Operation::Give => {
                        held.pop().into_iter().for_each(|slot| pool.give(slot));
                        continue;
                    }
                    Operation::LendParts(start, len) => {
                        if let Some(mut slot) = held.pop() {
                            slot.place(start, len.min(16384 - start));
                            let in_flight = pool.submit_parts(slot);
                            prop_assert_eq!(in_flight.iter().map(|part| part.len as usize).sum::<usize>(), len.min(16384 - start));
                            parts.extend(in_flight.iter().map(|part| part.address));
                        }
                        continue;
                    }
                    Operation::Done(which) if !parts.is_empty() => parts[which % parts.len()],
                    Operation::Done(_) => continue,
                    Operation::Invented(address) => address,
                };
                let part = |address: u64| address / PART_OCTETS as u64;
                let known = parts.iter().position(|&one| part(one) == part(address)).map(|at| parts.swap_remove(at));
                let chunk = address / 16384;
                let others = parts.iter().any(|one| one / 16384 == chunk);
                match (pool.reclaim_part(address), known, others) {
                    (Reclaimed::Unknown, None, _) | (Reclaimed::Part, Some(_), true) => {}
                    (Reclaimed::Whole(slot), Some(_), false) => held.push(slot),
                    other => prop_assert!(false, "{other:?}"),
                }
                prop_assert_eq!(pool.free() + held.len() + pool.in_flight(), pool.total());
            }
        }
    }
}
