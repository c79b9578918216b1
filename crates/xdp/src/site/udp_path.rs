//! A peer's address on the network, and the headers of packets to it.

use std::net::{IpAddr, SocketAddr};

use wire::MacAddr;

/// A way through the network to a peer: addresses on the link, of IP and of UDP.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UdpPath {
    /// Of the WAN interface.
    pub interface: MacAddr,
    /// Of the next hop.
    pub next_hop: MacAddr,
    /// From here.
    pub source: SocketAddr,
    /// To the peer: of the same family.
    pub destination: SocketAddr,
    /// Octets of the largest UDP payload.
    pub payload: usize,
    /// The WAN interface, as in [`Site::set_wan`].
    pub port: u32,
    /// Six bits in the header of IP.
    pub dscp: u8,
    /// In plain mode what is in front of frames. Else it is identifier mode.
    pub vxlan: Option<Vxlan>,
}

/// Plain mode of a path.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Vxlan {
    /// The VXLAN network identifier, of 24 bits.
    pub vni: u32,
    /// Whether packets that come from the peer this way may go to the LAN. Else all of them are the host's.
    pub receives: bool,
}

impl UdpPath {
    /// Time to live of packets.
    const HOPS: u8 = 64;

    /// Whether both addresses are of one family.
    pub const fn is_possible(&self) -> bool {
        self.source.is_ipv4() == self.destination.is_ipv4()
    }

    /// Ethernet, IP and UDP with lengths and checksums 0, and the sum of the 16-bit words that the checksum covers without them.
    pub(super) fn head(&self) -> (Vec<u8>, u32) {
        let mut head = [self.next_hop.0, self.interface.0].concat();
        let class = self.dscp << 2;
        let ports = [self.source.port().to_be_bytes(), self.destination.port().to_be_bytes()].concat();
        let covered = match (self.source.ip(), self.destination.ip()) {
            (IpAddr::V4(source), IpAddr::V4(destination)) => {
                // DF: never fragmented. Without a checksum of UDP, as RFC 768 allows over IPv4.
                head.extend([0x08, 0, 0x45, class, 0, 0, 0, 0, 0x40, 0, Self::HOPS, 17, 0, 0]);
                head.extend(source.octets());
                head.extend(destination.octets());
                let covered = head[14..].to_vec();
                head.extend(&ports);
                covered
            }
            (source, destination) => {
                let [source, destination] = [source, destination].map(|address| match address {
                    IpAddr::V4(address) => address.to_ipv6_mapped(),
                    IpAddr::V6(address) => address,
                });
                head.extend([0x86, 0xdd, 0x60 | class >> 4, class << 4, 0, 0, 0, 0, 17, Self::HOPS]);
                head.extend(source.octets());
                head.extend(destination.octets());
                head.extend(&ports);
                [&head[22..], &[0, 17]].concat()
            }
        };
        head.extend([0; 4]);
        let words = covered.as_chunks().0.iter().map(|word| u32::from(u16::from_ne_bytes(*word)));
        (head, words.sum())
    }
}
