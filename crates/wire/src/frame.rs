//! A frame in its chunk of memory, with room in front and behind. Tags come and go without moving the
//! payload.
//!
//! ```text
//!  chunk  |  headroom  | DA 6 | SA 6 |  ...  |  tailroom  |
//!         0            start                 start + len
//! ```

use crate::ethernet::ADDRESSES_OCTETS;

/// A borrowed chunk, and the bounds of the frame in it.
#[derive(Debug)]
pub struct Frame<'b> {
    chunk: &'b mut [u8],
    start: usize,
    len: usize,
}

impl<'b> Frame<'b> {
    /// The frame of `len` octets at octet `start` of `chunk`. `None` if it would reach outside of the chunk.
    pub fn new(chunk: &'b mut [u8], start: usize, len: usize) -> Option<Self> {
        if start.checked_add(len)? <= chunk.len() { Some(Self { chunk, start, len }) } else { None }
    }

    /// Offset of the frame in its chunk.
    pub const fn start(&self) -> usize {
        self.start
    }

    /// Octets of the frame, from DA on, without FCS.
    pub const fn len(&self) -> usize {
        self.len
    }

    /// True for a frame of no octets.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The frame's octets.
    pub fn octets(&self) -> &[u8] {
        &self.chunk[self.start..self.start + self.len]
    }

    /// True if [`Frame::grow`] would succeed.
    pub const fn has_room(&self, octets: usize, tail: usize) -> bool {
        self.len >= ADDRESSES_OCTETS
            && self.start >= octets
            && self.start + self.len + tail <= self.chunk.len()
    }

    /// Moves DA and SA forward by `octets`, which makes room for a tag behind them, and appends `tail` octets
    /// of undefined content. `None`, without a change, if the chunk lacks the room or the frame has no
    /// addresses.
    pub fn grow(&mut self, octets: usize, tail: usize) -> Option<()> {
        if !self.has_room(octets, tail) {
            return None;
        }
        let (start, end) = (self.start - octets, self.start + self.len + tail);
        self.chunk.copy_within(self.start..self.start + ADDRESSES_OCTETS, start);
        self.start = start;
        self.len = end - start;
        Some(())
    }

    /// Removes `octets` behind DA and SA, the reverse of [`Frame::grow`]. `None`, without a change, if the
    /// frame is too short.
    pub fn shrink(&mut self, octets: usize) -> Option<()> {
        let len = self.len.checked_sub(octets)?;
        if len < ADDRESSES_OCTETS {
            return None;
        }
        self.chunk.copy_within(self.start..self.start + ADDRESSES_OCTETS, self.start + octets);
        self.start += octets;
        self.len = len;
        Some(())
    }

    /// Sets new bounds inside the chunk; no octet changes. `None`, without a change, if they reach outside of
    /// it.
    pub fn set_bounds(&mut self, start: usize, len: usize) -> Option<()> {
        if start.checked_add(len)? > self.chunk.len() {
            return None;
        }
        (self.start, self.len) = (start, len);
        Some(())
    }

    /// Cuts the frame to `len` octets, if it is longer.
    pub fn truncate(&mut self, len: usize) {
        self.len = self.len.min(len);
    }

    /// The octets, mutable, for writing headers.
    pub fn octets_mut(&mut self) -> &mut [u8] {
        &mut self.chunk[self.start..self.start + self.len]
    }

    /// The frame in the cipher's parts: `aad` octets of additional data, then `text` octets, then the ICV.
    /// `None` if the frame is shorter.
    pub fn sections(&mut self, aad: usize, text: usize) -> Option<(&[u8], &mut [u8], &mut [u8; 16])> {
        let (aad, rest) = self.octets_mut().split_at_mut_checked(aad)?;
        let (text, rest) = rest.split_at_mut_checked(text)?;
        Some((aad, text, rest.first_chunk_mut()?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn growing_and_shrinking_moves_the_addresses_alone() {
        let mut chunk = [0u8; 64];
        for (i, octet) in chunk[20..40].iter_mut().enumerate() {
            *octet = i as u8 + 1;
        }
        let mut frame = Frame::new(&mut chunk, 20, 20).expect("inside");
        frame.grow(16, 16).expect("room");
        assert_eq!((frame.start(), frame.len()), (4, 52));
        assert_eq!(frame.octets()[..12], [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]);
        assert_eq!(frame.octets()[28..36], [13, 14, 15, 16, 17, 18, 19, 20]);
        frame.shrink(16).expect("long enough");
        frame.truncate(20);
        assert_eq!((frame.start(), frame.len()), (20, 20));
        assert!(frame.octets().iter().copied().eq(1..=20));
    }

    #[test]
    fn without_room_nothing_changes() {
        let mut chunk = [7u8; 40];
        assert!(Frame::new(&mut chunk, 30, 11).is_none());
        assert!(Frame::new(&mut chunk, usize::MAX, 2).is_none());
        let mut frame = Frame::new(&mut chunk, 8, 20).expect("inside");
        assert!(frame.grow(16, 0).is_none(), "no headroom");
        assert!(frame.grow(8, 13).is_none(), "no tailroom");
        assert!(frame.shrink(9).is_none(), "addresses would be lost");
        assert_eq!((frame.start(), frame.len()), (8, 20));
        assert!(frame.sections(10, 10).is_none(), "no room for the ICV");
        assert!(frame.set_bounds(30, 11).is_none() && frame.set_bounds(usize::MAX, 2).is_none());
        assert_eq!((frame.start(), frame.len()), (8, 20));
        assert!(frame.set_bounds(30, 10).is_some());
        assert_eq!((frame.start(), frame.len()), (30, 10));
        let mut runt = Frame::new(&mut chunk, 20, 11).expect("inside");
        assert!(runt.grow(8, 0).is_none(), "no addresses");
    }
}
