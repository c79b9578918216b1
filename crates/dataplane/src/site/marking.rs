//! Marks of frames that the tunnel hides: whether one is express, and the DSCP of its packets.
//!
//! ```text
//!  mark:  express 1 | unused 1 | DSCP 6
//! ```
//!
//! A mark is made of what stands in a frame when it comes from the LAN. With a SecY in the site that is the machine's frame, of which
//! later nobody sees tag or IP header. Of a frame that came as MACsec it is what stands in front of the SecTAG.

use secy::ExpressClasses;
use secy::fragment::Sdu;
use wire::EtherType;
use wire::ethernet::{ADDRESSES_OCTETS, Header, VLAN_TAG_OCTETS};

const EXPRESS: u8 = 0x80;
const DSCP: u8 = 0x3f;

/// The differentiated services code point (RFC 2474) of a site's packets. It is in sight of everybody on the way.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Dscp {
    /// This one, 6 bits, on all packets.
    All(u8),
    /// The class selector of the priority (PCP) of a frame's first VLAN tag: 8 times it. 0 without a tag.
    Priority,
    /// That of the IP header in the frame. 0 without one.
    Copy,
}

impl Default for Dscp {
    fn default() -> Self {
        Self::All(0)
    }
}

impl Dscp {
    /// That of packets whose frame has neither tag nor IP header, or is not known.
    pub const fn of_others(self) -> u8 {
        match self {
            Self::All(dscp) => dscp & DSCP,
            Self::Priority | Self::Copy => 0,
        }
    }

    fn of(self, frame: &[u8]) -> u8 {
        match self {
            Self::All(dscp) => dscp & DSCP,
            Self::Priority => match Header::parse(frame) {
                Ok(Header { vlan_tags: 1.., .. }) => {
                    (frame[ADDRESSES_OCTETS + VLAN_TAG_OCTETS / 2] >> 5) << 3
                }
                _ => 0,
            },
            Self::Copy => inner(frame).unwrap_or(0),
        }
    }
}

/// Rules by which frames are marked.
#[derive(Clone, Copy, Debug)]
pub(super) struct Marking {
    pub(super) dscp: Dscp,
    /// Classes of express frames.
    pub(super) express: ExpressClasses,
}

/// The DSCP of the IP header in a frame.
fn inner(frame: &[u8]) -> Option<u8> {
    let header = Header::parse(frame).ok()?;
    let &[first, second] = frame.get(header.octets()..)?.first_chunk()?;
    match (header.ethertype, first >> 4) {
        (EtherType::IPV4, 4) => Some(second >> 2),
        // Version 4, traffic class 8: its upper six bits.
        (EtherType::IPV6, 6) => Some((first << 4 | second >> 4) >> 2),
        _ => None,
    }
}

/// Mark of a frame.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) struct Mark(pub(super) u8);

impl Mark {
    /// Of a frame of the LAN.
    pub(super) fn of(frame: &[u8], marking: &Marking) -> Self {
        let express = Sdu::of(frame, &marking.express).is_some_and(|sdu| sdu.is_express());
        Self(marking.dscp.of(frame) | if express { EXPRESS } else { 0 })
    }

    /// Of packets whose frame is not known.
    pub(super) const fn of_others(dscp: Dscp) -> Self {
        Self(dscp.of_others())
    }

    pub(super) const fn is_express(self) -> bool {
        self.0 & EXPRESS != 0
    }

    pub(super) const fn dscp(self) -> u8 {
        self.0 & DSCP
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_is_what_stands_in_the_frame() {
        const TAG: [u8; 4] = [0x81, 0, 0xc0, 7];
        let ip = |first: u8, second: u8| [0x08, 0x00, first, second, 0, 40];
        // Frame behind its addresses; express; DSCP by priority, and copied.
        for (octets, express, priority, copy) in [
            (&[&TAG[..], &[0x88, 0x92, 0x80, 0]].concat(), true, 48, 0),
            (&[0x88, 0x92, 0x80, 0].to_vec(), true, 0, 0),
            (&ip(0x45, 0xb9).to_vec(), false, 0, 46),
            (&[&[0x81, 0, 0x60, 7][..], &ip(0x45, 0x28)].concat(), false, 24, 10),
            (&[0x86, 0xdd, 0x6b, 0x80, 0, 0].to_vec(), false, 0, 46),
            (&[0x88, 0xa8, 0xe0, 1, 0x81, 0, 0x20, 7, 0x86, 0xdd, 0x62, 0x80].to_vec(), true, 56, 10),
            // No IP header of its EtherType, one that is cut, and a frame that is.
            (&ip(0x65, 0xb9).to_vec(), false, 0, 0),
            (&vec![0x08, 0x00, 0x45], false, 0, 0),
            (&vec![0x81], false, 0, 0),
            (&[&TAG[..], &[0x88, 0xe5, 0x2c, 0]].concat(), true, 48, 0),
        ] {
            let frame = [&[2; 12], octets.as_slice()].concat();
            for (rule, dscp) in [(Dscp::Priority, priority), (Dscp::Copy, copy), (Dscp::All(0x6e), 0x2e)] {
                let default = Marking { dscp: rule, express: ExpressClasses::DEFAULT };
                let mark = Mark::of(&frame, &default);
                assert_eq!((mark.is_express(), mark.dscp()), (express, dscp), "{rule:?} {octets:02x?}");
                let none = Marking { express: ExpressClasses::NONE, ..default };
                assert!(!Mark::of(&frame, &none).is_express(), "{octets:02x?}");
            }
        }
        assert_eq!([Dscp::All(46), Dscp::Priority, Dscp::Copy].map(Dscp::of_others), [46, 0, 0]);
    }
}
