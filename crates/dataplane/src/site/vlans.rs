//! VLANs of a LAN that cross to other plants, both ways: what is not listed is dropped and counted.
//!
//! ```text
//!  DA 6 | SA 6 | tag 4 ... | EtherType        tag: TPID 2 | PCP 3 bits, DEI 1, VID 12
//! ```
//!
//! A frame is of the VLAN of its outermost tag that names one. A priority tag (VID 0, IEEE 802.1Q, 9.6) names none: a host takes it off and looks
//! at what is behind it, so a tag of another VLAN must not hide there. What is behind a SecTAG is not looked at: nobody can.

use std::fmt;

use netdev::burst::Burst;
use netdev::pool::Pool;
use wire::ethernet::{ADDRESSES_OCTETS, ETHERTYPE_OCTETS, VLAN_TAG_OCTETS};

/// Tag protocol identifiers: of IEEE 802.1Q, and of switches that are older than service tags.
const TPIDS: [u16; 5] = [0x8100, 0x88a8, 0x9100, 0x9200, 0x9300];
/// Priority tags that are looked through.
const PRIORITY_TAGS: usize = 4;
/// The bits of a VID in the octets behind a TPID.
const VID: u16 = 0x0fff;
/// VIDs that name a VLAN; 4095 is reserved.
pub const VLANS: std::ops::RangeInclusive<u16> = 1..=4094;
/// In place of a VID: frames of no VLAN.
pub const UNTAGGED: u16 = 0;

/// A list of VLANs, and whether frames of no VLAN are on it.
#[derive(Clone, PartialEq, Eq)]
pub struct VlanList([u64; 64]);

impl VlanList {
    /// Nothing is listed.
    pub const EMPTY: Self = Self([0; 64]);

    /// Lists a VLAN, or [`UNTAGGED`]. False if it was listed before, or is no VID.
    pub const fn add(&mut self, vid: u16) -> bool {
        if vid > *VLANS.end() || self.has(vid) {
            return false;
        }
        self.0[(vid / 64) as usize] |= 1 << (vid % 64);
        true
    }

    /// Whether a VLAN is listed, or [`UNTAGGED`].
    pub const fn has(&self, vid: u16) -> bool {
        vid <= VID && self.0[(vid / 64) as usize] >> (vid % 64) & 1 == 1
    }

    /// Whether a frame may cross.
    pub fn admits(&self, frame: &[u8]) -> bool {
        vlan_of(frame).is_some_and(|vid| self.has(vid))
    }

    /// Gives frames back to the pool that may not cross, and says how many these were. The others keep their order.
    pub(super) fn keep_listed(&self, pool: &mut Pool, frames: &mut Burst) -> u64 {
        frames.retain(pool, |frame| self.admits(frame))
    }
}

/// As the configuration writes them: `untagged, 10, 20-29`.
impl fmt::Display for VlanList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut comma = "";
        if self.has(UNTAGGED) {
            f.write_str("untagged")?;
            comma = ", ";
        }
        let mut next = *VLANS.start();
        while let Some(first) = (next..=*VLANS.end()).find(|vid| self.has(*vid)) {
            let last = (first..=*VLANS.end()).take_while(|vid| self.has(*vid)).last().unwrap_or(first);
            match last - first {
                0 => write!(f, "{comma}{first}")?,
                _ => write!(f, "{comma}{first}-{last}")?,
            }
            (next, comma) = (last + 1, ", ");
        }
        Ok(())
    }
}

impl fmt::Debug for VlanList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "VlanList({self})")
    }
}

/// The VLAN of a frame, or [`UNTAGGED`]. `None` if the frame ends in a tag, or is behind more priority tags than are looked through.
pub fn vlan_of(frame: &[u8]) -> Option<u16> {
    let mut rest = frame.get(ADDRESSES_OCTETS..)?;
    for _ in 0..=PRIORITY_TAGS {
        let ethertype = u16::from_be_bytes(*rest.first_chunk()?);
        if !TPIDS.contains(&ethertype) {
            return Some(UNTAGGED);
        }
        let vid = u16::from_be_bytes(*rest.get(ETHERTYPE_OCTETS..)?.first_chunk()?) & VID;
        if vid != UNTAGGED {
            return Some(vid);
        }
        rest = rest.get(VLAN_TAG_OCTETS..)?;
    }
    None
}

#[cfg(test)]
mod tests {
    use netdev::pool::ChunkOctets;
    use proptest::prelude::*;

    use super::*;

    fn list(vids: &[u16]) -> VlanList {
        let mut list = VlanList::EMPTY;
        assert!(vids.iter().all(|vid| list.add(*vid)));
        list
    }

    fn frame(behind_addresses: &[u8]) -> Vec<u8> {
        [&[2; ADDRESSES_OCTETS], behind_addresses].concat()
    }

    #[test]
    fn the_outermost_tag_that_names_a_vlan_counts() {
        for (octets, vlan) in [
            (&[0x08, 0x00, 0x45][..], Some(0)),
            (&[0x88, 0xe5, 0x2c, 0], Some(0)),
            (&[0x81, 0x00, 0x00, 0x0a, 0x08, 0x00], Some(10)),
            // PCP and DEI are no part of the VID.
            (&[0x81, 0x00, 0xf0, 0x0a, 0x08, 0x00], Some(10)),
            (&[0x88, 0xa8, 0x00, 0x05, 0x81, 0x00, 0x00, 0x0b, 0x08, 0x00], Some(5)),
            (&[0x91, 0x00, 0x00, 0x05, 0x08, 0x00], Some(5)),
            (&[0x92, 0x00, 0x00, 0x05, 0x08, 0x00], Some(5)),
            (&[0x93, 0x00, 0x00, 0x05, 0x08, 0x00], Some(5)),
            // Priority tags: alone, in front of a VLAN, and too many.
            (&[0x81, 0x00, 0xc0, 0x00, 0x88, 0x92], Some(0)),
            (&[0x81, 0x00, 0xc0, 0x00, 0x81, 0x00, 0x00, 0x1e, 0x08, 0x00], Some(30)),
            (&[&[0x81, 0x00, 0, 0].repeat(4)[..], &[0x81, 0x00, 0, 7]].concat(), Some(7)),
            (&[&[0x81, 0x00, 0, 0].repeat(5)[..], &[0x08, 0x00]].concat(), None),
            (&[0x81, 0x00, 0x0f, 0xff, 0x08, 0x00], Some(4095)),
            // Cut in a tag, behind one, and in the addresses.
            (&[0x81, 0x00, 0x00], None),
            (&[0x81, 0x00, 0xc0, 0x00, 0x08], None),
            (&[0x08], None),
        ] {
            assert_eq!(vlan_of(&frame(octets)), vlan, "{octets:02x?}");
        }
        assert_eq!(vlan_of(&[2; 11]), None);
    }

    #[test]
    fn what_is_listed_crosses_and_is_written_as_it_was() {
        let mut some = list(&[0, 10, 20, 21, 22, 4094]);
        assert_eq!(some.to_string(), "untagged, 10, 20-22, 4094");
        assert!(!some.add(10) && !some.add(4095) && !some.add(u16::MAX));
        assert_eq!(some, list(&[0, 10, 20, 21, 22, 4094]));
        let tagged = |vid: u16| frame(&[&[0x81, 0x00][..], &vid.to_be_bytes(), &[8, 0]].concat());
        let admitted: Vec<u16> = (0..4096).filter(|vid| some.admits(&tagged(*vid))).collect();
        assert_eq!(admitted, [0, 10, 20, 21, 22, 4094]);
        assert!(some.admits(&frame(&[8, 0])) && !list(&[10]).admits(&frame(&[8, 0])));
        assert_eq!(list(&[7]).to_string(), "7");
        assert!((0..=u16::MAX).all(|vid| !VlanList::EMPTY.has(vid)));
    }

    #[test]
    fn frames_that_stay_keep_their_order_and_no_chunk_is_lost() {
        let mut pool = Pool::new(ChunkOctets::Octets2048, 8).unwrap();
        let mut burst = Burst::new();
        for number in 0..6 {
            let mut slot = pool.take().unwrap();
            assert!(pool.append(&mut slot, &frame(&[0x81, 0, 0, number % 2 + 1, 8, 0, number])));
            burst.push(slot).unwrap();
        }
        assert_eq!(list(&[2]).keep_listed(&mut pool, &mut burst), 3);
        let stayed: Vec<u8> = burst.slots().iter().map(|slot| pool.frame(slot)[18]).collect();
        assert_eq!((stayed, pool.free()), (vec![1, 3, 5], 5));
        assert_eq!(list(&[2]).keep_listed(&mut pool, &mut burst), 0);
        assert_eq!(list(&[3]).keep_listed(&mut pool, &mut burst), 3);
        assert_eq!((burst.is_empty(), pool.free()), (true, 8));
    }

    /// A tag: which TPID, and the TCI.
    fn tags() -> impl Strategy<Value = Vec<(usize, u16)>> {
        let tci = prop_oneof![any::<u16>(), (0_u16..16).prop_map(|upper| upper << 12)];
        prop::collection::vec((0..TPIDS.len(), tci), 0..8)
    }

    proptest! {
        /// Against another way to read it: forwards over a list of tags.
        #[test]
        fn any_stack_of_tags_is_read_as_it_was_built(tags in tags(), cut in 0_usize..64) {
            let mut octets = frame(&[]);
            for (tpid, tci) in &tags {
                octets.extend(TPIDS[*tpid].to_be_bytes());
                octets.extend(tci.to_be_bytes());
            }
            octets.extend([0x08, 0x00, 0x45]);
            let first = tags.iter().position(|(_, tci)| tci & VID != 0);
            let expected = match first {
                Some(place) if place <= PRIORITY_TAGS => Some(tags[place].1 & VID),
                None if tags.len() <= PRIORITY_TAGS => Some(UNTAGGED),
                _ => None,
            };
            prop_assert_eq!(vlan_of(&octets), expected);
            // A cut frame is of that VLAN or of none.
            let cut = &octets[..cut.min(octets.len())];
            prop_assert!([expected, None].contains(&vlan_of(cut)));
        }

        #[test]
        fn any_octets_are_borne(octets in prop::collection::vec(any::<u8>(), 0..64), vid in 0_u16..4095) {
            prop_assert!(vlan_of(&octets).is_none_or(|found| found <= VID));
            prop_assert_eq!(list(&[vid]).admits(&octets), vlan_of(&octets) == Some(vid));
        }
    }
}
