//! Addresses as the kernel has them (`sockaddr_in`, ip(7); `sockaddr_in6`, ipv6(7)).
//!
//! ```text
//!  IPv4, 16 octets:  family 2 | port 2 | address 4 | zero 8
//!  IPv6, 28 octets:  family 2 | port 2 | flow information 4 | address 16 | scope 4
//! ```
//! Family and scope in host byte order. An IPv4 address on an IPv6 socket is written mapped (::ffff:a.b.c.d).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};

/// Room for an address of either family.
pub(super) const NAME_OCTETS: usize = 28;
const IPV4_OCTETS: usize = 16;

/// An address of either family.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(8))]
pub(super) struct SockAddr {
    octets: [u8; NAME_OCTETS],
}

impl SockAddr {
    /// Room.
    pub(super) const EMPTY: Self = Self { octets: [0; NAME_OCTETS] };

    /// Writes an address for a socket of IPv6, if `six`, or else of IPv4, which cannot reach all. With it the octets
    /// that are written.
    pub(super) fn new(address: SocketAddr, six: bool) -> (Self, usize) {
        let mut octets = [0; NAME_OCTETS];
        octets[2..4].copy_from_slice(&address.port().to_be_bytes());
        let scope = match address {
            SocketAddr::V4(_) => 0,
            SocketAddr::V6(address) => address.scope_id(),
        };
        match (address.ip(), six) {
            (IpAddr::V4(ip), false) => {
                octets[..2].copy_from_slice(&(libc::AF_INET as u16).to_ne_bytes());
                octets[4..8].copy_from_slice(&ip.octets());
                return (Self { octets }, IPV4_OCTETS);
            }
            (IpAddr::V4(ip), true) => octets[8..24].copy_from_slice(&ip.to_ipv6_mapped().octets()),
            (IpAddr::V6(ip), _) => octets[8..24].copy_from_slice(&ip.octets()),
        }
        octets[..2].copy_from_slice(&(libc::AF_INET6 as u16).to_ne_bytes());
        octets[24..].copy_from_slice(&scope.to_ne_bytes());
        (Self { octets }, NAME_OCTETS)
    }

    /// Reads what the kernel wrote; a mapped IPv4 address is one of IPv4. The flow information is left out: it is no
    /// part of who sent. `None` for other families.
    pub(super) fn address(&self) -> Option<SocketAddr> {
        let [f0, f1, p0, p1, a, b, c, d, six @ .., s0, s1, s2, s3] = self.octets;
        let port = u16::from_be_bytes([p0, p1]);
        match libc::c_int::from(u16::from_ne_bytes([f0, f1])) {
            libc::AF_INET => Some((Ipv4Addr::new(a, b, c, d), port).into()),
            libc::AF_INET6 => {
                let ip: [u8; 16] = six;
                let ip = Ipv6Addr::from(ip);
                Some(match ip.to_ipv4_mapped() {
                    Some(mapped) => (mapped, port).into(),
                    None => SocketAddrV6::new(ip, port, 0, u32::from_ne_bytes([s0, s1, s2, s3])).into(),
                })
            }
            _ => None,
        }
    }

    /// The octets, for the kernel to read.
    pub(super) const fn as_ptr(&self) -> *const u8 {
        self.octets.as_ptr()
    }

    /// The octets, for the kernel to write.
    pub(super) const fn as_mut_ptr(&mut self) -> *mut u8 {
        self.octets.as_mut_ptr()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_as_they_were_written() {
        for (text, six, octets) in [
            ("192.0.2.7:4789", false, IPV4_OCTETS),
            ("192.0.2.7:4789", true, NAME_OCTETS),
            ("[2001:db8::7]:7787", true, NAME_OCTETS),
            ("[fe80::7%3]:1", true, NAME_OCTETS),
        ] {
            let address: SocketAddr = text.parse().unwrap();
            let (name, written) = SockAddr::new(address, six);
            assert_eq!((name.address(), written), (Some(address), octets), "{text}");
        }
        assert_eq!(SockAddr::EMPTY.address(), None);
    }

    #[test]
    fn an_ipv4_address_stands_where_the_kernel_looks() {
        let (name, octets) = SockAddr::new("192.0.2.7:258".parse().unwrap(), false);
        let family = (libc::AF_INET as u16).to_ne_bytes();
        assert_eq!(name.octets[..octets], [family[0], family[1], 1, 2, 192, 0, 2, 7, 0, 0, 0, 0, 0, 0, 0, 0]);
    }
}
