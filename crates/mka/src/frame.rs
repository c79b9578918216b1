//! A frame that a KaY sends.

use arrayvec::ArrayVec;

/// Octets of the longest MKPDU with its Ethernet header.
pub const FRAME_OCTETS: usize = 1514;

/// A frame from its destination address on, without FCS.
pub type Frame = ArrayVec<u8, FRAME_OCTETS>;
