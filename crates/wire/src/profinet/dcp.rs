//! DCP: a device answers who it is (IEC 61158-6-10, Identify response).
//!
//! ```text
//! FrameID 0xfeff 2 | ServiceID 5 1 | ServiceType 1 1 | Xid 4 | reserved 2 | length 2 | blocks
//! block:    Option 1 | Suboption 1 | length 2 | BlockInfo 2 | value | padding to an even length
//! ```
//!
//! Left out on purpose: every other service and block.

use super::{StationName, half, take};

/// FrameID of the answer to a question for stations.
const IDENTIFY_RESPONSE: [u8; 2] = [0xfe, 0xff];
/// ServiceID Identify, ServiceType response success.
const IDENTIFIED: [u8; 2] = [5, 1];
/// Option DeviceProperties, Suboption NameOfStation.
const NAME_OF_STATION: [u8; 2] = [2, 2];
/// Octets of BlockInfo.
const BLOCK_INFO: usize = 2;

/// Name by which the sender of a frame identifies itself, from the octets behind EtherType 0x8892. None if it is another frame, or has no name.
pub fn identified(octets: &[u8]) -> Option<StationName<'_>> {
    let (frame_id, rest) = take::<2>(octets)?;
    let (service, rest) = take::<2>(rest)?;
    if frame_id != IDENTIFY_RESPONSE || service != IDENTIFIED {
        return None;
    }
    let length = usize::from(half(rest, 6)?);
    let blocks = rest.get(8..)?;
    let mut blocks = blocks.get(..length).unwrap_or(blocks);
    // Each round takes four octets at least.
    while let Some((kind, rest)) = take::<2>(blocks) {
        let length = usize::from(half(rest, 0)?);
        let value = rest.get(2..2 + length)?;
        if kind == NAME_OF_STATION {
            return StationName::new(value.get(BLOCK_INFO..)?);
        }
        blocks = rest.get(2 + length.next_multiple_of(2)..)?;
    }
    None
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::vec::Vec;

    /// An answer as devices give it: maker, name, addresses.
    fn answer(name: &[u8]) -> Vec<u8> {
        let block = |kind: [u8; 2], value: &[u8]| {
            let length = (value.len() as u16 + 2).to_be_bytes();
            let padding = &[0][..value.len() % 2];
            [&kind[..], &length, &[0, 0], value, padding].concat()
        };
        let blocks = [block([2, 1], b"S7-1200"), block([2, 2], name), block([1, 2], &[0; 12])].concat();
        let length = (blocks.len() as u16).to_be_bytes();
        [&[0xfe, 0xff, 5, 1, 0, 0, 0, 1, 0, 0][..], &length, &blocks, &[0; 20]].concat()
    }

    #[test]
    fn a_device_tells_its_name() {
        assert_eq!(identified(&answer(b"press-3")).map(|name| name.as_str()), Some("press-3"));
        assert_eq!(identified(&answer(b"drive")).map(|name| name.as_str()), Some("drive"));
        assert_eq!(identified(&answer(b"no name")), None);
        assert_eq!(identified(&answer(b"")), None);
        for (at, octet) in [(0, 0x80), (1, 0xfe), (2, 3), (3, 0)] {
            let mut other = answer(b"press-3");
            other[at] = octet;
            assert_eq!(identified(&other), None, "{at}");
        }
    }

    #[test]
    fn an_answer_may_end_anywhere() {
        let whole = answer(b"press-3");
        for octets in 0..whole.len() {
            let name = identified(&whole[..octets]);
            assert!(name.is_none_or(|name| name.as_str() == "press-3"), "{octets}: {name:?}");
        }
        // A block that claims more than there is.
        let mut long = whole;
        long[14..16].copy_from_slice(&u16::MAX.to_be_bytes());
        assert_eq!(identified(&long), None);
    }
}
