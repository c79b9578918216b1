//! SDUs of a burst that are not delivered in place: those that share a frame with others, and those that came in
//! fragments. Nothing allocates after creation.

use alloc::vec::Vec;
use core::ops::Range;
use wire::ethernet::ADDRESSES_OCTETS;
use wire::extension::SEGMENTS;

/// Octets of the longest SDU, from DA: 9000 octets behind the header and two VLAN tags.
pub const SDU_OCTETS: usize = 9000 + 22;
/// Most octets that the fragments of an SC hold: so much can one burst complete beside its own.
pub const MAX_FRAGMENT_OCTETS: usize = 64 * 1024;

/// DA and SA of a frame.
pub(crate) type Addresses = [u8; ADDRESSES_OCTETS];

/// The SDU is longer than [`SDU_OCTETS`].
pub(crate) struct TooLong;

/// SDUs of a burst that are not delivered in place.
#[derive(Debug)]
pub struct SduBuffer {
    octets: Vec<u8>,
    ends: Vec<usize>,
    frames: usize,
    padding: u64,
}

impl SduBuffer {
    /// A buffer for bursts of at most `frames` frames of `frame_octets` each.
    pub fn new(frames: usize, frame_octets: usize) -> Self {
        // Each segment of a frame can become an SDU with its own addresses; one of them completes held
        // fragments.
        let sdus = frames * (SEGMENTS + 1);
        let octets = frames * (frame_octets + SEGMENTS * ADDRESSES_OCTETS) + MAX_FRAGMENT_OCTETS;
        Self { octets: Vec::with_capacity(octets), ends: Vec::with_capacity(sdus), frames, padding: 0 }
    }

    /// Most frames of a burst.
    pub const fn frames(&self) -> usize {
        self.frames
    }

    /// A buffer for a SecY that does not reassemble: nothing fits.
    pub const fn none() -> Self {
        Self { octets: Vec::new(), ends: Vec::new(), frames: usize::MAX, padding: 0 }
    }

    /// The SDUs with these numbers, which [`Delivered::Separated`](crate::Delivered::Separated) names.
    pub fn sdus(&self, numbers: Range<usize>) -> impl Iterator<Item = &[u8]> {
        numbers.filter_map(|number| {
            let start = number.checked_sub(1).map_or(Some(0), |before| self.ends.get(before).copied())?;
            self.octets.get(start..*self.ends.get(number)?)
        })
    }

    /// Frames of the burst that were verified and held nothing but padding.
    pub const fn padding(&self) -> u64 {
        self.padding
    }

    pub(crate) const fn note_padding(&mut self) {
        self.padding += 1;
    }

    /// Number of SDUs in it.
    pub(crate) const fn len(&self) -> usize {
        self.ends.len()
    }

    #[cfg(test)]
    pub(crate) const fn capacities(&self) -> (usize, usize) {
        (self.octets.capacity(), self.ends.capacity())
    }

    pub(crate) fn clear(&mut self) {
        self.octets.clear();
        self.ends.clear();
        self.padding = 0;
    }

    /// Appends an SDU made of `front` and `parts`: DA and SA first. An SDU that exceeds a buffer of the right size is longer than any
    /// legal SDU.
    pub(crate) fn push<'p>(
        &mut self,
        front: &[u8],
        parts: impl Iterator<Item = &'p [u8]> + Clone,
    ) -> Result<(), TooLong> {
        let octets = front.len() + parts.clone().map(<[u8]>::len).sum::<usize>();
        let full =
            self.octets.len() + octets > self.octets.capacity() || self.ends.len() == self.ends.capacity();
        if octets > SDU_OCTETS || full {
            return Err(TooLong);
        }
        self.octets.extend_from_slice(front);
        parts.for_each(|part| self.octets.extend_from_slice(part));
        self.ends.push(self.octets.len());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::vec;

    #[test]
    fn a_buffer_takes_what_fits_and_grows_never() {
        let mut buffer = SduBuffer::new(1, 1514);
        let (octets, ends) = (buffer.octets.capacity(), buffer.ends.capacity());
        let room = octets / SDU_OCTETS;
        let long = vec![3; SDU_OCTETS - ADDRESSES_OCTETS];
        for _ in 0..3 {
            for taken in 0..room + 2 {
                let pushed = buffer.push(&[9; 12], [&long[..100], &long[100..]].into_iter());
                assert_eq!(pushed.is_ok(), taken < room);
            }
            assert_eq!(buffer.sdus(0..room + 2).count(), room);
            assert!(buffer.sdus(0..room).all(|sdu| sdu[..12] == [9; 12] && sdu[12..] == long));
            buffer.clear();
            for taken in 0..ends + 2 {
                assert_eq!(buffer.push(&[9; 12], core::iter::once(&long[..2])).is_ok(), taken < ends);
            }
            buffer.clear();
        }
        assert_eq!((buffer.octets.capacity(), buffer.ends.capacity()), (octets, ends));
        assert!(SduBuffer::none().push(&[9; 12], core::iter::once(&long[..2])).is_err());
    }
}
