//! Protocols whose cyclic frames cells take, and the identification of a stream of them: 16 bits that follow from the octets behind
//! the EtherType. With the two addresses they name the stream, as a FrameID does in PROFINET.
//!
//! | protocol | EtherType | the frame has | identification |
//! |---|---|---|---|
//! | PROFINET RT (IEC 61158-6-10) | 0x8892 | | FrameID 2 |
//! | GOOSE, sampled values (IEC 61850-8-1, 61850-9-2, annex C) | 0x88b8, 0x88ba | | APPID 2 |
//! | POWERLINK (EPSG DS 301, 4.6.1.1) | 0x88ab | | message type 1, destination node 1 |
//! | EtherCAT (IEC 61158-4-12) | 0x88a4 | | length and type of the datagrams, 2 |
//! | SERCOS III (IEC 61158-4-19) | 0x88cd | | telegram type 1, phase 1, without the bits of the cycle count |
//! | EtherNet/IP (CIP volume 2, 3-2.2) | 0x0800 | IPv4 without options, no fragment; UDP to 2222; two items, the first a sequenced address of 8 octets | 2222 |
//! | Modbus TCP | 0x0800 | IPv4 without options, no fragment; TCP to or from 502 | 502 |
//!
//! In the first five protocols the identification is what the two octets behind the EtherType are, so a protected frame need not have
//! them twice. In the others it is derived, and these octets stay with the payload.
//!
//! Left out on purpose: connection IDs of EtherNet/IP. Machines choose them anew at each connect, so a configuration that names one
//! would be wrong after the next restart. All connections from one station to one address are one stream.

use serde::{Deserialize, Serialize};

use super::{FRAME_ID_OCTETS, FrameId};
use crate::EtherType;
use crate::id::MacAddr;

/// A protocol of cyclic frames.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub enum Protocol {
    /// PROFINET RT.
    #[default]
    Profinet,
    /// GOOSE.
    Goose,
    /// Sampled values.
    SampledValues,
    /// Ethernet POWERLINK.
    Powerlink,
    /// EtherCAT.
    EtherCat,
    /// SERCOS III.
    Sercos,
    /// Cyclic data of EtherNet/IP.
    EtherNetIp,
    /// Modbus TCP.
    ModbusTcp,
}

/// Octets that a frame must have behind its EtherType: 16 bits at an offset, under a mask.
struct Field {
    at: usize,
    mask: u16,
    value: u16,
}

/// IPv4 with a header of 20 octets (RFC 791).
const NO_OPTIONS: Field = Field { at: 0, mask: 0xff00, value: 0x4500 };
/// No fragment: neither MF nor an offset.
const WHOLE: Field = Field { at: 6, mask: 0x3fff, value: 0 };
const UDP: Field = Field { at: 8, mask: 0x00ff, value: 17 };
const TCP: Field = Field { at: 8, mask: 0x00ff, value: 6 };
const SOURCE_PORT: usize = 20;
const DESTINATION_PORT: usize = 22;
const ETHERNET_IP_PORT: u16 = 2222;
const MODBUS_PORT: u16 = 502;
/// Bits of a SERCOS telegram's type and phase that do not change from cycle to cycle: channel, MDT or AT, number; phase, and its change.
const SERCOS_MASK: u16 = 0xcf8f;

/// UDP to port 2222, with the item count 2, an address item of type 0x8002 and its length 8, little-endian.
const ETHERNET_IP: [Field; 7] = [
    NO_OPTIONS,
    WHOLE,
    UDP,
    Field { at: DESTINATION_PORT, mask: 0xffff, value: ETHERNET_IP_PORT },
    Field { at: 28, mask: 0xffff, value: 0x0200 },
    Field { at: 30, mask: 0xffff, value: 0x0280 },
    Field { at: 32, mask: 0xffff, value: 0x0800 },
];
const TO_MODBUS: [Field; 4] =
    [NO_OPTIONS, WHOLE, TCP, Field { at: DESTINATION_PORT, mask: 0xffff, value: MODBUS_PORT }];
const FROM_MODBUS: [Field; 4] =
    [NO_OPTIONS, WHOLE, TCP, Field { at: SOURCE_PORT, mask: 0xffff, value: MODBUS_PORT }];

impl Protocol {
    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::Profinet,
        Self::Goose,
        Self::SampledValues,
        Self::Powerlink,
        Self::EtherCat,
        Self::Sercos,
        Self::EtherNetIp,
        Self::ModbusTcp,
    ];

    /// Its name in configurations and reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Profinet => "profinet",
            Self::Goose => "goose",
            Self::SampledValues => "sampled-values",
            Self::Powerlink => "powerlink",
            Self::EtherCat => "ethercat",
            Self::Sercos => "sercos",
            Self::EtherNetIp => "ethernet-ip",
            Self::ModbusTcp => "modbus-tcp",
        }
    }

    /// The EtherType of its frames.
    pub const fn ethertype(self) -> EtherType {
        match self {
            Self::Profinet => EtherType::PROFINET,
            Self::Goose => EtherType::GOOSE,
            Self::SampledValues => EtherType::SAMPLED_VALUES,
            Self::Powerlink => EtherType::POWERLINK,
            Self::EtherCat => EtherType::ETHERCAT,
            Self::Sercos => EtherType::SERCOS,
            Self::EtherNetIp | Self::ModbusTcp => EtherType::IPV4,
        }
    }

    /// Identification of a frame with this protocol's EtherType, from the octets behind that; `None` if it is no cyclic one. Reads at
    /// most 14 octets.
    #[inline]
    pub fn identify(self, body: &[u8]) -> Option<FrameId> {
        match self {
            Self::Profinet | Self::Goose | Self::SampledValues | Self::Powerlink | Self::EtherCat => {
                half(body, 0).map(FrameId)
            }
            Self::Sercos => half(body, 0).map(|octets| FrameId(octets & SERCOS_MASK)),
            Self::EtherNetIp => has(body, &ETHERNET_IP).then_some(FrameId(ETHERNET_IP_PORT)),
            Self::ModbusTcp => {
                (has(body, &TO_MODBUS) || has(body, &FROM_MODBUS)).then_some(FrameId(MODBUS_PORT))
            }
        }
    }

    /// Octets behind the EtherType that are the identification itself, and in front of the payload: 2, or none where it is derived.
    #[inline]
    pub const fn identification_octets(self) -> usize {
        match self {
            Self::Sercos | Self::EtherNetIp | Self::ModbusTcp => 0,
            _ => FRAME_ID_OCTETS,
        }
    }

    /// The identification of all its frames, where it is the same one.
    pub const fn only_identification(self) -> Option<FrameId> {
        match self {
            Self::EtherNetIp => Some(FrameId(ETHERNET_IP_PORT)),
            Self::ModbusTcp => Some(FrameId(MODBUS_PORT)),
            _ => None,
        }
    }

    /// Whether a frame can have this identification.
    pub const fn can_be(self, id: FrameId) -> bool {
        match (self, self.only_identification()) {
            (_, Some(only)) => id.0 == only.0,
            (Self::Sercos, None) => id.0 & !SERCOS_MASK == 0,
            _ => true,
        }
    }

    /// Its number in the derivation of keys.
    const fn number(self) -> u8 {
        match self {
            Self::Profinet => 0,
            Self::Goose => 1,
            Self::SampledValues => 2,
            Self::Powerlink => 3,
            Self::EtherCat => 4,
            Self::Sercos => 5,
            Self::EtherNetIp => 6,
            Self::ModbusTcp => 7,
        }
    }
}

fn half(body: &[u8], at: usize) -> Option<u16> {
    body.get(at..)?.first_chunk().map(|octets| u16::from_be_bytes(*octets))
}

fn has(body: &[u8], fields: &[Field]) -> bool {
    fields.iter().all(|field| half(body, field.at).is_some_and(|found| found & field.mask == field.value))
}

/// The address that a station of a relation sends to.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub enum Target {
    /// The other station.
    #[default]
    Peer,
    /// A group.
    Group(MacAddr),
    /// None: it sends no cyclic frames.
    Nobody,
}

/// Octets of a [`Binding`].
pub const BINDING_OCTETS: usize = 17;

/// Binding of a relation's keys besides its stations and their FrameIDs: its protocol, and the destinations of its frames.
///
/// ```text
/// EtherType 2 | protocol 1 | of the lower station: kind 1, group 6 | of the higher one: kind 1, group 6
/// ```
///
/// Kind: 0 to the other station, 1 to a group, 2 to nobody. A relation of PROFINET whose stations send to each other has none: its keys
/// are those of gateways that know PROFINET alone.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub struct Binding([u8; BINDING_OCTETS]);

impl Binding {
    /// The binding of a relation; `targets`: that of the station at the lower address first.
    pub fn new(protocol: Protocol, targets: [Target; 2]) -> Option<Self> {
        if (protocol, targets) == (Protocol::Profinet, [Target::Peer; 2]) {
            return None;
        }
        let mut octets = [0; BINDING_OCTETS];
        let (front, ends) = octets.split_at_mut(3);
        front[..2].copy_from_slice(&protocol.ethertype().0.to_be_bytes());
        front[2] = protocol.number();
        for (end, target) in ends.chunks_exact_mut(7).zip(targets) {
            match target {
                Target::Peer => {}
                Target::Group(group) => {
                    end[0] = 1;
                    end[1..].copy_from_slice(&group.0);
                }
                Target::Nobody => end[0] = 2,
            }
        }
        Some(Self(octets))
    }

    /// Its octets.
    pub const fn octets(&self) -> &[u8; BINDING_OCTETS] {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use proptest::prelude::*;
    use std::vec::Vec;

    use super::*;

    /// A packet of EtherNet/IP: IPv4 with DSCP 55, UDP 2222, sequenced address, connected data.
    fn ethernet_ip() -> Vec<u8> {
        let mut body = std::vec![0x45, 0xdc, 0, 54, 0x12, 0x34, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
        body.extend([8, 0xae, 8, 0xae, 0, 34, 0, 0]);
        body.extend([
            2, 0, 2, 0x80, 8, 0, 0x78, 0x56, 0x34, 0x12, 9, 0, 0, 0, 0xb1, 0, 8, 0, 9, 0, 1, 0, 0, 0, 7, 7,
        ]);
        body
    }

    fn modbus(ports: [u8; 4]) -> Vec<u8> {
        let mut body = std::vec![0x45, 0, 0, 52, 0x12, 0x34, 0x40, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
        body.extend(ports);
        body.extend([0; 28]);
        body
    }

    #[test]
    fn frames_are_identified_by_what_their_protocol_has() {
        let ip = ethernet_ip();
        let (to, from, both) =
            (modbus([0xc0, 0, 1, 0xf6]), modbus([1, 0xf6, 0xc0, 0]), modbus([1, 0xf6, 1, 0xf6]));
        let other = modbus([0xc0, 0, 1, 0xf7]);
        let rows: [(Protocol, &[u8], Option<u16>); 14] = [
            (Protocol::Profinet, &[0x80, 1, 0], Some(0x8001)),
            (Protocol::Goose, &[0, 3, 0, 40], Some(3)),
            (Protocol::SampledValues, &[0x40, 0, 0, 40], Some(0x4000)),
            (Protocol::Powerlink, &[3, 1, 240], Some(0x0301)),
            (Protocol::EtherCat, &[0x2c, 0x10, 0], Some(0x2c10)),
            // MDT 1 of the secondary channel, in phase 4, at whatever cycle count.
            (Protocol::Sercos, &[0xa1, 0x74], Some(0x8104)),
            (Protocol::Sercos, &[0x81, 0x04], Some(0x8104)),
            (Protocol::EtherNetIp, &ip, Some(2222)),
            (Protocol::EtherNetIp, &to, None),
            (Protocol::ModbusTcp, &to, Some(502)),
            (Protocol::ModbusTcp, &from, Some(502)),
            (Protocol::ModbusTcp, &both, Some(502)),
            (Protocol::ModbusTcp, &other, None),
            (Protocol::ModbusTcp, &ip, None),
        ];
        for (protocol, body, id) in rows {
            assert_eq!(protocol.identify(body), id.map(FrameId), "{protocol:?} {body:02x?}");
            assert!(id.is_none_or(|id| protocol.can_be(FrameId(id))), "{protocol:?}");
        }
        // One octet less than it reads.
        for (protocol, octets) in
            [(Protocol::Goose, 2), (Protocol::EtherNetIp, 34), (Protocol::ModbusTcp, 24)]
        {
            let whole = if protocol == Protocol::ModbusTcp { &to } else { &ip };
            assert!(
                protocol.identify(&whole[..octets]).is_some()
                    && protocol.identify(&whole[..octets - 1]).is_none()
            );
        }
        assert!(!Protocol::Sercos.can_be(FrameId(0x8174)) && !Protocol::ModbusTcp.can_be(FrameId(2222)));
    }

    #[test]
    fn packets_that_are_not_cyclic_data_of_ethernet_ip_are_not_taken() {
        // IP options, fragments, TCP, another port, other items: each octet that is looked at.
        for (at, octet) in
            [(0, 0x46), (6, 0x20), (7, 1), (9, 6), (22, 9), (23, 0xaf), (28, 1), (31, 0), (32, 4)]
        {
            let mut body = ethernet_ip();
            body[at] = octet;
            assert_eq!(Protocol::EtherNetIp.identify(&body), None, "{octet:#x} at {at}");
        }
        // DF, DSCP, and another connection.
        for (at, octet) in [(1, 0), (6, 0x40), (34, 1), (37, 0xff)] {
            let mut body = ethernet_ip();
            body[at] = octet;
            assert!(Protocol::EtherNetIp.identify(&body).is_some(), "{octet:#x} at {at}");
        }
    }

    #[test]
    fn a_binding_is_none_for_profinet_between_two_stations_alone() {
        let group = Target::Group(MacAddr([1, 0x0c, 0xcd, 1, 0, 1]));
        assert_eq!(Binding::new(Protocol::Profinet, [Target::Peer; 2]), None);
        let octets = |protocol, targets| *Binding::new(protocol, targets).unwrap().octets();
        assert_eq!(
            octets(Protocol::Goose, [group, Target::Nobody]),
            [0x88, 0xb8, 1, 1, 1, 0x0c, 0xcd, 1, 0, 1, 2, 0, 0, 0, 0, 0, 0]
        );
        assert_eq!(octets(Protocol::Profinet, [Target::Peer, group])[..4], [0x88, 0x92, 0, 0]);
    }

    proptest! {
        #[test]
        fn relations_that_differ_are_bound_differently(
            one in (0usize..8, any::<[Option<bool>; 2]>(), any::<[[u8; 6]; 2]>()),
            other in (0usize..8, any::<[Option<bool>; 2]>(), any::<[[u8; 6]; 2]>()),
        ) {
            let of = |(protocol, kinds, groups): (usize, [Option<bool>; 2], [[u8; 6]; 2])| {
                let target = |end: usize| match kinds[end] {
                    None => Target::Peer,
                    Some(true) => Target::Group(MacAddr(groups[end])),
                    Some(false) => Target::Nobody,
                };
                (Protocol::ALL[protocol], [target(0), target(1)])
            };
            let (one, other) = (of(one), of(other));
            prop_assert_eq!(Binding::new(one.0, one.1) == Binding::new(other.0, other.1), one == other);
        }

        #[test]
        fn no_octets_confuse_it(body in prop::collection::vec(any::<u8>(), 0..64)) {
            for protocol in Protocol::ALL {
                if let Some(id) = protocol.identify(&body) {
                    prop_assert!(protocol.can_be(id));
                    if protocol.identification_octets() > 0 {
                        prop_assert_eq!(&body[..2], &id.0.to_be_bytes());
                    }
                }
            }
        }
    }
}
