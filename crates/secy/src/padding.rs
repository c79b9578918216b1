//! Sizes to which frames are padded: every frame of a transmit SC has one of them, whatever it holds
//! ([`wire::extension::padded`] has the format). With *cover* there is one size, and frames leave at a constant rate, whether
//! or not there is something to send.

use core::num::NonZeroU16;

/// The list is empty, too long, not ascending, or has a size that no frame can have.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SizesRefused;

/// Sizes of padded frames, in octets from DA to ICV, ascending. None by default: frames are as long as what they hold.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct FrameSizes {
    count: u8,
    of: [u16; FrameSizes::MOST],
    cover: Option<NonZeroU16>,
}

impl FrameSizes {
    /// The most sizes. More would tell more of what is inside.
    pub const MOST: usize = 8;
    /// The smallest size, in octets.
    pub const LEAST_OCTETS: u16 = 128;
    /// The largest size, in octets: an MTU of 9216, and the Ethernet header.
    pub const MOST_OCTETS: u16 = 9230;
    /// No padding.
    pub const NONE: Self = Self { count: 0, of: [0; Self::MOST], cover: None };

    /// These sizes.
    ///
    /// # Errors
    /// [`SizesRefused`].
    pub fn new(sizes: &[u16]) -> Result<Self, SizesRefused> {
        let legal = Self::LEAST_OCTETS..=Self::MOST_OCTETS;
        let ascending = sizes.windows(2).all(|pair| pair[0] < pair[1]);
        if sizes.is_empty() || !ascending || !sizes.iter().all(|size| legal.contains(size)) {
            return Err(SizesRefused);
        }
        let mut of = [0; Self::MOST];
        of.get_mut(..sizes.len()).ok_or(SizesRefused)?.copy_from_slice(sizes);
        Ok(Self { count: sizes.len() as u8, of, cover: None })
    }

    /// One size, in octets, and so many frames of it a second, whatever there is to send.
    ///
    /// # Errors
    /// [`SizesRefused`].
    pub fn cover(size: u16, rate: NonZeroU16) -> Result<Self, SizesRefused> {
        Ok(Self { cover: Some(rate), ..Self::new(&[size])? })
    }

    /// Frames a second, if they leave at a constant rate.
    pub const fn cover_rate(&self) -> Option<NonZeroU16> {
        self.cover
    }

    /// True if frames are not padded.
    pub const fn is_none(&self) -> bool {
        self.count == 0
    }

    /// The sizes, in octets.
    pub fn octets(&self) -> &[u16] {
        self.of.get(..usize::from(self.count)).unwrap_or(&self.of)
    }

    /// The largest size of at most `octets`.
    pub(crate) fn largest_within(&self, octets: usize) -> Option<usize> {
        self.octets().iter().map(|&size| usize::from(size)).rfind(|&size| size <= octets)
    }

    /// The smallest size of at least `octets`.
    pub(crate) fn smallest_from(&self, octets: usize) -> Option<usize> {
        self.octets().iter().map(|&size| usize::from(size)).find(|&size| size >= octets)
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::vec;

    #[test]
    fn sizes_are_few_ascending_and_of_frames() {
        let sizes = FrameSizes::new(&[128, 512, 1514]).expect("sizes");
        assert_eq!((sizes.octets(), sizes.is_none()), (&[128, 512, 1514][..], false));
        assert_eq!(
            [100, 128, 129, 1514, 1515].map(|octets| sizes.smallest_from(octets)),
            [Some(128), Some(128), Some(512), Some(1514), None]
        );
        assert_eq!(
            [127, 128, 600, 9000].map(|octets| sizes.largest_within(octets)),
            [None, Some(128), Some(512), Some(1514)]
        );
        for refused in [vec![], vec![127], vec![9231], vec![512, 512], vec![512, 128], (200..209).collect()] {
            assert_eq!(FrameSizes::new(&refused), Err(SizesRefused), "{refused:?}");
        }
        assert_eq!(FrameSizes::new(&[9230]).expect("one").octets(), [9230]);
        assert!(FrameSizes::NONE.is_none() && FrameSizes::NONE.octets().is_empty());
        let rate = NonZeroU16::new(100);
        let cover = FrameSizes::cover(512, rate.expect("not 0")).expect("cover");
        assert_eq!((cover.octets(), cover.cover_rate(), sizes.cover_rate()), (&[512][..], rate, None));
        assert_ne!(cover, FrameSizes::new(&[512]).expect("one"));
    }
}
