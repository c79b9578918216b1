//! Configuration of a cell and its relations. Fixed for the life of a [`crate::Relations`]: a change makes
//! another.

use core::time::Duration;

use wire::EtherType;
use wire::fieldbus::{ETHERTYPE, Protection, Protocol, Seq};

use crate::relation::Relation;

/// Protection mode of a relation.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Mode {
    /// Frames must be protected. Those that cannot be protected or verified are discarded.
    #[default]
    Protect,
    /// Frames pass in clear. A protected twin travels beside each, is verified and discarded. Counters and
    /// histograms show what would have become of the frames. A twin without its frame in clear is delivered,
    /// so that one gateway after the other can be switched over.
    Shadow,
}

/// VLAN tag of frames towards a machine (IEEE 802.1Q clause 9). It never comes from the wire, where it is not
/// authenticated.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct VlanTag {
    tci: u16,
}

impl VlanTag {
    /// PROFINET RT's tag: priority 6, VID 0.
    pub const PROFINET: Self = Self { tci: 6 << 13 };

    /// A tag with a priority of 0 to 7 and a VID of 0 to 4094; `None` otherwise.
    pub const fn new(priority: u8, vid: u16) -> Option<Self> {
        if priority > 7 || vid > 4094 { None } else { Some(Self { tci: (priority as u16) << 13 | vid }) }
    }

    /// The tag that frames of a protocol usually have: priority 4 in IEC 61850 (8-1 and 9-2, annex C).
    pub const fn usual(protocol: Protocol) -> Option<Self> {
        match protocol {
            Protocol::Profinet => Some(Self::PROFINET),
            Protocol::Goose | Protocol::SampledValues => Some(Self { tci: 4 << 13 }),
            _ => None,
        }
    }

    /// Its priority.
    pub const fn priority(self) -> u8 {
        (self.tci >> 13) as u8
    }

    /// Its VID.
    pub const fn vid(self) -> u16 {
        self.tci & 0xfff
    }

    /// Tag and tag control information as they stand in a frame.
    pub const fn octets(self) -> [u8; 4] {
        let [tpid, of] = EtherType::VLAN.0.to_be_bytes();
        let [high, low] = self.tci.to_be_bytes();
        [tpid, of, high, low]
    }
}

/// Common settings of a cell's relations.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Settings {
    /// The EtherType of protected frames.
    pub ethertype: EtherType,
    /// Protection of frames.
    pub protection: Protection,
    /// VLAN tag of frames towards the machine, of relations without one of their own.
    pub vlan: Option<VlanTag>,
    /// Most octets behind the EtherType in a frame on the protected side.
    pub mtu: usize,
    /// Last Seq of an epoch, if the next key is there. Without it, Seqs continue to [`Seq::LAST`].
    pub epoch_end: Seq,
}

impl Settings {
    /// Remaining Seqs of an epoch when the next one begins: at 31.25 µs, half an hour for a late key.
    const MARGIN: u32 = 1 << 26;
    /// Default number of frames in an epoch: 49 days at 1 ms.
    pub const EPOCH_FRAMES: u32 = u32::MAX - Self::MARGIN;

    /// Settings with the default EtherType, VLAN tag and epoch length.
    pub fn new(protection: Protection, mtu: usize) -> Self {
        let epoch_end = Seq::new(Self::EPOCH_FRAMES).unwrap_or(Seq::LAST);
        Self { ethertype: ETHERTYPE, protection, vlan: Some(VlanTag::PROFINET), mtu, epoch_end }
    }
}

/// A relation with its settings.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RelationSettings {
    /// The relation.
    pub relation: Relation,
    /// Protection mode. Both gateways are configured alike.
    pub mode: Mode,
    /// Time without a verified frame that raises an alarm: a share of the machine's own watchdog time.
    pub alarm: Duration,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_are_those_of_802_1q() {
        assert_eq!(VlanTag::PROFINET.octets(), [0x81, 0, 0xc0, 0]);
        let tag = VlanTag::new(7, 4094).unwrap();
        assert_eq!((tag.priority(), tag.vid(), tag.octets()), (7, 4094, [0x81, 0, 0xef, 0xfe]));
        assert_eq!((VlanTag::new(8, 0), VlanTag::new(0, 4095)), (None, None));
    }
}
