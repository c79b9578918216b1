//! A burst: the frames that a port hands over at once, at most [`BURST_FRAMES`].
//!
//! Everything that costs once per call (a look-up, a dispatch, a system call) is shared by a burst, and no call
//! on the frame path handles more than one: that is the bound of its work.

use arrayvec::ArrayVec;

use crate::pool::{Pool, Slot};

/// The most frames of one burst.
pub const BURST_FRAMES: usize = 64;

/// Up to [`BURST_FRAMES`] frames, in their order on the wire. Never allocates.
#[derive(Debug, Default)]
pub struct Burst {
    slots: ArrayVec<Slot, BURST_FRAMES>,
}

impl Burst {
    /// An empty burst.
    pub fn new() -> Self {
        Self::default()
    }

    /// Frames in the burst.
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// Whether there is no frame.
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// Whether no further frame fits.
    pub fn is_full(&self) -> bool {
        self.slots.is_full()
    }

    /// Number of further frames that fit.
    pub fn room(&self) -> usize {
        self.slots.remaining_capacity()
    }

    /// Appends a frame.
    ///
    /// # Errors
    /// The slot comes back if the burst is full.
    pub fn push(&mut self, slot: Slot) -> Result<(), Slot> {
        self.slots.try_push(slot).map_err(|full| full.element())
    }

    /// The frames, in order.
    pub fn slots(&self) -> &[Slot] {
        &self.slots
    }

    /// The frames, in order, for [`Pool::views`].
    pub fn slots_mut(&mut self) -> &mut [Slot] {
        &mut self.slots
    }

    /// Takes all frames out, in order. What the iterator has not yielded when it is dropped is lost to the pool:
    /// go to its end.
    pub fn drain(&mut self) -> impl ExactSizeIterator<Item = Slot> + '_ {
        self.slots.drain(..)
    }

    /// Gives frames back to the pool that are not to be kept, and says how many these were. The others keep their order. Asks twice about each
    /// frame if one goes, and moves none if all stay.
    pub fn retain(&mut self, pool: &mut Pool, keep: impl Fn(&[u8]) -> bool) -> u64 {
        if self.slots.iter().all(|slot| keep(pool.frame(slot))) {
            return 0;
        }
        let (mut kept, mut gone) = (Self::new(), 0);
        for slot in self.slots.drain(..) {
            let goes = if keep(pool.frame(&slot)) { kept.push(slot).err() } else { Some(slot) };
            if let Some(slot) = goes {
                gone += 1;
                pool.give(slot);
            }
        }
        *self = kept;
        gone
    }

    /// Gives every frame back to the pool.
    pub fn give_all(&mut self, pool: &mut Pool) {
        for slot in self.slots.drain(..) {
            pool.give(slot);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pool::ChunkOctets;

    #[test]
    fn a_full_burst_hands_the_slot_back() {
        let mut pool = Pool::new(ChunkOctets::Octets2048, BURST_FRAMES + 1).unwrap();
        let mut burst = Burst::new();
        while !burst.is_full() {
            burst.push(pool.take().unwrap()).unwrap();
        }
        assert_eq!((burst.len(), burst.room()), (BURST_FRAMES, 0));
        let refused = burst.push(pool.take().unwrap()).unwrap_err();
        pool.give(refused);
        burst.give_all(&mut pool);
        assert!(burst.is_empty());
        assert_eq!(pool.free(), pool.total());
    }
}
