//! Express classes: which SDUs precede all others. The thesis (chapter 3) has two cases, mouse flows and elephant flows; what
//! tells them apart here stands in each frame.
//!
//! ```text
//!  DA | SA | [tag, its PCP | [tag]] | EtherType | IPv4: version, length | DSCP | … | fragment | protocol | … | ports
//!                                               | IPv6: version, DSCP | … | next header | … | ports
//! ```
//!
//! An SDU is express if one class has it. The PCP is that of the outermost VLAN tag. A port counts as source and as
//! destination, so that one list suits both ends of a connection.
//!
//! A fragment of an IP datagram is in no class of ports, the first one included: its parts take one way. Classes of DSCP
//! have all fragments. Ports behind extension headers of IPv6 are not looked for, and nothing behind a third VLAN tag.
//!
//! The XDP program of a link decides alike (`is_express` of link.bpf.c), and its tests compare the two.
//!
//! Work for an SDU: [`ExpressClasses::LIST`] comparisons for each of its EtherType and two ports.

use wire::EtherType;
use wire::ethernet::{ADDRESSES_OCTETS, ETHERTYPE_OCTETS, Header};

/// Octets of an IPv4 header without options, and of an IPv6 header.
const IPV4_OCTETS: usize = 20;
const IPV6_OCTETS: usize = 40;
/// Protocol numbers of IP.
const TCP: u8 = 6;
const UDP: u8 = 17;
/// MF and the offset of IPv4's third word: neither is set in a datagram that is whole.
const FRAGMENT: u16 = 0x3fff;

/// Class of express SDUs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ExpressClass {
    /// SDUs with this EtherType behind up to two VLAN tags.
    EtherType(EtherType),
    /// SDUs whose outermost VLAN tag has this priority, 0 to 7.
    Pcp(u8),
    /// IPv4 and IPv6 with this DSCP, 0 to 63.
    Dscp(u8),
    /// UDP from or to this port.
    Udp(u16),
    /// TCP from or to this port.
    Tcp(u16),
}

/// A list is full, or there is no such priority or DSCP.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ClassRefused;

/// Express classes of a link or a site. The default: cyclic and event frames of fieldbuses and substations, and PCP 6 and 7.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ExpressClasses {
    /// One bit each.
    pcps: u8,
    dscps: u64,
    ethertypes: List,
    udp: List,
    tcp: List,
}

/// EtherTypes or ports.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct List {
    count: u8,
    of: [u16; ExpressClasses::LIST],
}

impl List {
    const EMPTY: Self = Self { count: 0, of: [0; ExpressClasses::LIST] };

    /// Adds a number; false if there is no room for it.
    const fn add(&mut self, number: u16) -> bool {
        let has_room = (self.count as usize) < ExpressClasses::LIST;
        if has_room {
            self.of[self.count as usize] = number;
            self.count += 1;
        }
        has_room
    }

    fn numbers(&self) -> &[u16] {
        self.of.get(..usize::from(self.count)).unwrap_or(&self.of)
    }

    fn has(&self, number: u16) -> bool {
        self.numbers().contains(&number)
    }
}

impl ExpressClasses {
    /// The most EtherTypes, the most UDP ports and the most TCP ports.
    pub const LIST: usize = 16;
    /// No SDU is express.
    pub const NONE: Self =
        Self { pcps: 0, dscps: 0, ethertypes: List::EMPTY, udp: List::EMPTY, tcp: List::EMPTY };
    /// Classes of a link or a site that names none.
    pub const DEFAULT: Self = {
        let classes = [
            ExpressClass::EtherType(EtherType::PROFINET),
            ExpressClass::EtherType(EtherType::ETHERCAT),
            ExpressClass::EtherType(EtherType::GOOSE),
            ExpressClass::EtherType(EtherType::SAMPLED_VALUES),
            ExpressClass::EtherType(EtherType::POWERLINK),
            ExpressClass::EtherType(EtherType::SERCOS),
            ExpressClass::Pcp(6),
            ExpressClass::Pcp(7),
        ];
        let (mut of, mut at) = (Self::NONE, 0);
        while at < classes.len() {
            of = match of.with(classes[at]) {
                Ok(with) => with,
                Err(ClassRefused) => of,
            };
            at += 1;
        }
        of
    };

    /// These classes and another one.
    ///
    /// # Errors
    /// If there are [`Self::LIST`] of its kind, or if there is no such PCP or DSCP.
    pub const fn with(mut self, class: ExpressClass) -> Result<Self, ClassRefused> {
        let added = match class {
            ExpressClass::Pcp(pcp @ 0..8) => {
                self.pcps |= 1 << pcp;
                true
            }
            ExpressClass::Dscp(dscp @ 0..64) => {
                self.dscps |= 1 << dscp;
                true
            }
            ExpressClass::Pcp(_) | ExpressClass::Dscp(_) => false,
            ExpressClass::EtherType(of) => self.ethertypes.add(of.0),
            ExpressClass::Udp(port) => self.udp.add(port),
            ExpressClass::Tcp(port) => self.tcp.add(port),
        };
        if added { Ok(self) } else { Err(ClassRefused) }
    }

    /// The classes, those of one kind behind each other.
    pub fn iter(&self) -> impl Iterator<Item = ExpressClass> {
        let Self { pcps, dscps, ethertypes, udp, tcp } = self;
        let ethertypes = ethertypes.numbers().iter().map(|of| ExpressClass::EtherType(EtherType(*of)));
        let pcps = (0..8).filter(move |pcp| pcps >> pcp & 1 != 0).map(ExpressClass::Pcp);
        let dscps = (0..64).filter(move |dscp| dscps >> dscp & 1 != 0).map(ExpressClass::Dscp);
        let udp = udp.numbers().iter().copied().map(ExpressClass::Udp);
        ethertypes
            .chain(pcps)
            .chain(dscps)
            .chain(udp)
            .chain(tcp.numbers().iter().copied().map(ExpressClass::Tcp))
    }

    /// The PCPs that are classes: bit n for PCP n.
    pub const fn pcps(&self) -> u8 {
        self.pcps
    }

    /// The DSCPs that are classes: bit n for DSCP n.
    pub const fn dscps(&self) -> u64 {
        self.dscps
    }

    /// The EtherTypes that are classes.
    pub fn ethertypes(&self) -> &[u16] {
        self.ethertypes.numbers()
    }

    /// The UDP ports that are classes.
    pub fn udp(&self) -> &[u16] {
        self.udp.numbers()
    }

    /// The TCP ports that are classes.
    pub fn tcp(&self) -> &[u16] {
        self.tcp.numbers()
    }

    /// Whether an SDU is in a class. What is cut short is in none that it does not show.
    pub fn has(&self, sdu: &[u8]) -> bool {
        Header::parse(sdu).is_ok_and(|header| self.has_sdu(&header, sdu))
    }

    /// Whether the SDU `sdu`, which begins with `header`, is in a class.
    pub(crate) fn has_sdu(&self, header: &Header, sdu: &[u8]) -> bool {
        let pcp = sdu.get(ADDRESSES_OCTETS + ETHERTYPE_OCTETS).filter(|_| header.vlan_tags > 0);
        if self.ethertypes.has(header.ethertype.0) || pcp.is_some_and(|tci| self.pcps >> (tci >> 5) & 1 != 0)
        {
            return true;
        }
        let packet = sdu.get(header.octets()..).unwrap_or_default();
        match header.ethertype {
            EtherType::IPV4 => self.has_ipv4(packet),
            EtherType::IPV6 => self.has_ipv6(packet),
            _ => false,
        }
    }

    fn has_ipv4(&self, packet: &[u8]) -> bool {
        let Some(header) = packet.first_chunk::<IPV4_OCTETS>().filter(|header| header[0] >> 4 == 4) else {
            return false;
        };
        if self.has_dscp(header[1] >> 2) {
            return true;
        }
        let octets = usize::from(header[0] & 0x0f) * 4;
        let is_whole = u16::from_be_bytes([header[6], header[7]]) & FRAGMENT == 0;
        octets >= IPV4_OCTETS && is_whole && self.has_port(header[9], packet.get(octets..))
    }

    fn has_ipv6(&self, packet: &[u8]) -> bool {
        let Some(header) = packet.first_chunk::<IPV6_OCTETS>().filter(|header| header[0] >> 4 == 6) else {
            return false;
        };
        let dscp = (header[0] << 2 | header[1] >> 6) & 0x3f;
        self.has_dscp(dscp) || self.has_port(header[6], packet.get(IPV6_OCTETS..))
    }

    const fn has_dscp(&self, dscp: u8) -> bool {
        self.dscps >> dscp & 1 != 0
    }

    fn has_port(&self, protocol: u8, segment: Option<&[u8]>) -> bool {
        let ports = match protocol {
            UDP => &self.udp,
            TCP => &self.tcp,
            _ => return false,
        };
        let Some([a, b, c, d]) = segment.and_then(<[u8]>::first_chunk) else { return false };
        ports.has(u16::from_be_bytes([*a, *b])) || ports.has(u16::from_be_bytes([*c, *d]))
    }
}

impl Default for ExpressClasses {
    fn default() -> Self {
        Self::DEFAULT
    }
}

#[cfg(test)]
mod tests;
