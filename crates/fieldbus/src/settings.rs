//! What a cell and its relations are configured with. Fixed for the life of a [`crate::Relations`]: a change is another.

use core::time::Duration;

use wire::EtherType;
use wire::fieldbus::{ETHERTYPE, Protection, Seq};

use crate::relation::Relation;

/// Whether the frames of a relation have to be protected.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Mode {
    /// Yes. What cannot be protected or verified ends here.
    #[default]
    Protect,
    /// Not yet: they pass in clear, and a protected twin travels beside each, is verified and ends there. The counters and
    /// histograms say what would have become of the frames. A twin whose frame in clear does not come is delivered, so
    /// that one gateway after the other can be switched over.
    Shadow,
}

/// The VLAN tag of frames towards a machine (IEEE 802.1Q clause 9). It never comes from the wire: there it is not
/// authenticated.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct VlanTag {
    tci: u16,
}

impl VlanTag {
    /// As PROFINET RT is sent: priority 6, VID 0.
    pub const PROFINET: Self = Self { tci: 6 << 13 };

    /// A tag of this priority, 0 to 7, and this VID, 0 to 4094; `None` if there is no such tag.
    pub const fn new(priority: u8, vid: u16) -> Option<Self> {
        if priority > 7 || vid > 4094 { None } else { Some(Self { tci: (priority as u16) << 13 | vid }) }
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

/// What all relations of a cell have in common.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Settings {
    /// The EtherType of protected frames.
    pub ethertype: EtherType,
    /// How frames are protected.
    pub protection: Protection,
    /// The VLAN tag that frames have towards the machine.
    pub vlan: Option<VlanTag>,
    /// The most octets behind the EtherType that a frame on the protected side may have.
    pub mtu: usize,
    /// An epoch's last Seq, if the key of the next one is there; if it is not, Seqs go on to [`Seq::LAST`].
    pub epoch_end: Seq,
}

impl Settings {
    /// So many Seqs are left of an epoch when the next is begun: at 31.25 µs, half an hour to come by a key that is late.
    const MARGIN: u32 = 1 << 26;
    /// Frames of an epoch where nothing else is configured: 49 days at 1 ms.
    pub const EPOCH_FRAMES: u32 = u32::MAX - Self::MARGIN;

    /// With the EtherType, VLAN tag and length of epochs that are used where nothing else is configured.
    pub fn new(protection: Protection, mtu: usize) -> Self {
        let epoch_end = Seq::new(Self::EPOCH_FRAMES).unwrap_or(Seq::LAST);
        Self { ethertype: ETHERTYPE, protection, vlan: Some(VlanTag::PROFINET), mtu, epoch_end }
    }
}

/// A relation, and what is done with its frames.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RelationSettings {
    /// The relation.
    pub relation: Relation,
    /// Whether its frames have to be protected. Both gateways are configured alike.
    pub mode: Mode,
    /// An alarm, if no verified frame comes for so long: some share of the time after which the machine itself gives up.
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
