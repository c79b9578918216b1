//! Reach of packets on the way to an endpoint that does not answer: UDP from the site's own port, with growing TTL, and what routers
//! say of it (ICMP, RFC 792 and RFC 4443), as traceroute has it.
//!
//! Whoever is on the way can say anything here. It decides about words alone.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::fd::{AsFd, AsRawFd};
use std::time::{Duration, Instant};

use netdev::udp::{Offloads, UdpPort};
use nix::errno::Errno;
use nix::libc;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{ControlMessageOwned, MsgFlags, SockaddrStorage, recvmsg, setsockopt, sockopt};

/// UDP payload of a probe, in octets: that of QUIC's first packets (RFC 9000, 14.1).
const PROBE: usize = 1200;
/// The beginning of a probe: QUIC's long header, of a version that is reserved and nobody speaks (RFC 9000, 15). Connection IDs
/// without octets follow. A site takes it for a packet of its channel, which drops other versions without an answer.
const OTHER_VERSION: [u8; 5] = [0xc0, 0x1a, 0x2a, 0x3a, 0x4a];
/// Octets of IP and UDP headers in front of it.
const HEADERS_4: usize = 28;
const HEADERS_6: usize = 48;
/// Hop limit of a probe for the whole way.
const FAR: u8 = 64;
/// Routers that are asked at most.
const MOST: u8 = 20;
/// Routers in a row that may say nothing.
const SILENT: u8 = 3;
/// Time in which a router, or the other end, has to speak.
const PATIENCE: Duration = Duration::from_millis(400);
/// Time that the last router has to look for the other end's address in vain: three seconds, less what the probes took. Also what an answer
/// by satellite needs, and more.
const NEIGHBOUR: Duration = Duration::from_millis(2000);
/// A port at which nobody listens, as traceroute takes it.
const NOBODYS: u16 = 33434;

/// The place where packets end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Way {
    /// This box has no route there.
    NoRoute,
    /// This box drops them: a filter of its own.
    HeldHere,
    /// The interface of this box carries packets of fewer octets than QUIC needs.
    NarrowHere,
    /// This router's next network carries so many octets: too few for QUIC. 0: it does not say how many.
    Narrow { by: IpAddr, octets: u32 },
    /// The other end, or a filter in its name, says that nobody listens there.
    Closed { by: IpAddr },
    /// This one forbids it.
    Forbidden { by: IpAddr },
    /// This one knows no way to the other end, or its box is off.
    Unreachable { by: IpAddr },
    /// The other end takes them without a word, and says of another port that nobody listens there.
    Open,
    /// They end behind this router without a word; none: no router says anything.
    Lost { behind: Option<IpAddr> },
}

impl Way {
    /// Probes the way from an own address, at any port of it if that one is taken.
    ///
    /// # Errors
    /// Those of the socket.
    pub(super) fn find(own: SocketAddr, to: SocketAddr) -> io::Result<Self> {
        let own = match (own, to) {
            (SocketAddr::V6(own), SocketAddr::V4(_)) if own.ip().is_unspecified() => {
                SocketAddr::from((Ipv4Addr::UNSPECIFIED, own.port()))
            }
            _ => own,
        };
        let open = |own| UdpPort::open(own, Offloads { segmentation: false, merging: false });
        let port = open(own).or_else(|_| open(SocketAddr::new(own.ip(), 0))).map_err(|error| error.source)?;
        Prober { socket: port.socket()?, to }.find()
    }

    /// Octets of an IP packet of QUIC's first ones, to this address.
    pub(super) const fn needed(to: SocketAddr) -> usize {
        PROBE + if to.is_ipv4() { HEADERS_4 } else { HEADERS_6 }
    }
}

/// Answer to a probe, by a router, the endpoint or this box.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Said {
    /// An error of this box.
    Here(Errno),
    /// A router has passed it on as often as its TTL allows.
    PassedOn { by: IpAddr },
    /// Its way ends.
    Ends(Way),
}

struct Prober {
    socket: UdpSocket,
    to: SocketAddr,
}

impl Prober {
    fn find(&self) -> io::Result<Way> {
        setsockopt(&self.socket, sockopt::Ipv4RecvErr, &true)
            .or_else(|error| if self.to.is_ipv6() { Ok(()) } else { Err(error) })?;
        if self.to.is_ipv6() {
            setsockopt(&self.socket, sockopt::Ipv6RecvErr, &true)?;
        }
        for _ in 0..2 {
            if let Some(way) = self.probe(self.to, FAR)?.and_then(told) {
                return Ok(way);
            }
        }
        let (mut behind, mut silent) = (None, 0);
        for hops in 1..=MOST {
            match self.probe(self.to, hops)? {
                Some(Said::PassedOn { by }) => (behind, silent) = (Some(by), 0),
                // An answer to the probes before that was late.
                Some(other) if let Some(way) = told(other) => return Ok(way),
                _ => silent += 1,
            }
            if silent == SILENT {
                break;
            }
        }
        if let Some(way) = self.decided(NEIGHBOUR)? {
            return Ok(way);
        }
        // A router that was asked often may speak again after this pause: Linux bounds what it says of unreachable addresses.
        if let Some(way) = self.probe_to_the_end(self.to)? {
            return Ok(way);
        }
        let nobodys = SocketAddr::new(self.to.ip(), NOBODYS);
        Ok(match self.probe_to_the_end(nobodys)? {
            Some(Way::Closed { by }) if by == self.to.ip() => Way::Open,
            _ => Way::Lost { behind },
        })
    }

    /// Sends a probe for the whole way, and waits long for what decides.
    fn probe_to_the_end(&self, to: SocketAddr) -> io::Result<Option<Way>> {
        // Words about the probes before are none about this one.
        for _ in 0..MOST {
            if self.said()?.is_none() {
                break;
            }
        }
        if let Some(said) = self.send(to, FAR)? {
            return Ok(told(said));
        }
        self.decided(NEIGHBOUR)
    }

    /// Waits for what decides about the way. That earlier probes were passed on may be said late, and does not.
    fn decided(&self, patience: Duration) -> io::Result<Option<Way>> {
        let end = Instant::now() + patience;
        while let Some(said) = self.wait(end.saturating_duration_since(Instant::now()))? {
            let way = told(said);
            if way.is_some() || Instant::now() >= end {
                return Ok(way);
            }
        }
        Ok(None)
    }

    /// Sends a probe, and waits for what is said of it.
    fn probe(&self, to: SocketAddr, hops: u8) -> io::Result<Option<Said>> {
        if let Some(said) = self.said()? {
            return Ok(Some(said));
        }
        match self.send(to, hops)? {
            None => self.wait(PATIENCE),
            said => Ok(said),
        }
    }

    /// Sends a probe; what this box says of it, if it does not take it.
    fn send(&self, to: SocketAddr, hops: u8) -> io::Result<Option<Said>> {
        let here = |error: &io::Error| error.raw_os_error().map(|number| Said::Here(Errno::from_raw(number)));
        if let Err(error) = self.socket.connect(to) {
            return here(&error).map_or(Err(error), |said| Ok(Some(said)));
        }
        match to {
            SocketAddr::V4(_) => setsockopt(&self.socket, sockopt::Ipv4Ttl, &i32::from(hops))?,
            SocketAddr::V6(_) => setsockopt(&self.socket, sockopt::Ipv6Ttl, &i32::from(hops))?,
        }
        if let Err(error) = self.socket.send(&probe()) {
            return here(&error).map_or(Err(error), |said| Ok(Some(said)));
        }
        Ok(None)
    }

    /// Waits for what is said.
    fn wait(&self, patience: Duration) -> io::Result<Option<Said>> {
        let end = Instant::now() + patience;
        loop {
            if let Some(said) = self.said()? {
                return Ok(Some(said));
            }
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(None);
            }
            // Errors are reported whether they are asked for or not; packets of the other end do not come here.
            let mut waited = [PollFd::new(self.socket.as_fd(), PollFlags::empty())];
            poll(&mut waited, PollTimeout::try_from(left).unwrap_or(PollTimeout::ZERO))?;
        }
    }

    /// The next of what the kernel keeps of errors, without those that mean nothing here.
    fn said(&self) -> io::Result<Option<Said>> {
        loop {
            let mut space = nix::cmsg_space!(libc::sock_extended_err, libc::sockaddr_in6);
            let flags = MsgFlags::MSG_ERRQUEUE | MsgFlags::MSG_DONTWAIT;
            let mut octets = [0; 64];
            let mut buffers = [io::IoSliceMut::new(&mut octets)];
            let message = match recvmsg::<SockaddrStorage>(
                self.socket.as_raw_fd(),
                &mut buffers,
                Some(&mut space),
                flags,
            ) {
                Err(Errno::EAGAIN) => return Ok(None),
                other => other?,
            };
            let said = message.cmsgs()?.find_map(|part| match part {
                ControlMessageOwned::Ipv4RecvErr(error, by) => {
                    let by = by.map(|by| Ipv4Addr::from(u32::from_be(by.sin_addr.s_addr)).into());
                    said(&error, by, Way::needed(self.to))
                }
                ControlMessageOwned::Ipv6RecvErr(error, by) => {
                    let by = by.map(|by| Ipv6Addr::from(by.sin6_addr.s6_addr).into());
                    said(&error, by, Way::needed(self.to))
                }
                _ => None,
            });
            if said.is_some() {
                return Ok(said);
            }
        }
    }
}

/// The octets of a probe.
fn probe() -> [u8; PROBE] {
    let mut octets = [0; PROBE];
    octets[..OTHER_VERSION.len()].copy_from_slice(&OTHER_VERSION);
    octets
}

/// The meaning of an entry of the error queue (ip(7)), with who said it. Probes have `needed` octets: a network that carries as many is not
/// too narrow, whoever says so.
fn said(error: &libc::sock_extended_err, by: Option<IpAddr>, needed: usize) -> Option<Said> {
    if error.ee_origin == libc::SO_EE_ORIGIN_LOCAL {
        return Some(Said::Here(Errno::from_raw(error.ee_errno as i32)));
    }
    let by = by?;
    let octets = error.ee_info;
    Some(match (error.ee_origin, error.ee_type, error.ee_code) {
        (libc::SO_EE_ORIGIN_ICMP, 11, _) | (libc::SO_EE_ORIGIN_ICMP6, 3, _) => Said::PassedOn { by },
        (libc::SO_EE_ORIGIN_ICMP, 3, 4) | (libc::SO_EE_ORIGIN_ICMP6, 2, _) if octets as usize >= needed => {
            return None;
        }
        (libc::SO_EE_ORIGIN_ICMP, 3, 4) | (libc::SO_EE_ORIGIN_ICMP6, 2, _) => {
            Said::Ends(Way::Narrow { by, octets })
        }
        (libc::SO_EE_ORIGIN_ICMP, 3, 2 | 3) | (libc::SO_EE_ORIGIN_ICMP6, 1, 4) => {
            Said::Ends(Way::Closed { by })
        }
        (libc::SO_EE_ORIGIN_ICMP, 3, 9 | 10 | 13) | (libc::SO_EE_ORIGIN_ICMP6, 1, 1 | 5 | 6) => {
            Said::Ends(Way::Forbidden { by })
        }
        (libc::SO_EE_ORIGIN_ICMP, 3, _) | (libc::SO_EE_ORIGIN_ICMP6, 1, _) => {
            Said::Ends(Way::Unreachable { by })
        }
        _ => return None,
    })
}

/// The way, if what was said decides about it.
const fn told(said: Said) -> Option<Way> {
    match said {
        Said::Here(Errno::ENETUNREACH | Errno::EHOSTUNREACH | Errno::EADDRNOTAVAIL) => Some(Way::NoRoute),
        Said::Here(Errno::EMSGSIZE) => Some(Way::NarrowHere),
        // Filters, and routes that prohibit.
        Said::Here(Errno::EPERM | Errno::EACCES | Errno::EINVAL) => Some(Way::HeldHere),
        Said::Ends(way) => Some(way),
        Said::Here(_) | Said::PassedOn { .. } => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_that_carries_the_probe_is_not_narrow() {
        let by = Ipv4Addr::new(192, 0, 2, 1).into();
        let of = |octets| {
            let error = libc::sock_extended_err {
                ee_errno: 90,
                ee_origin: libc::SO_EE_ORIGIN_ICMP,
                ee_type: 3,
                ee_code: 4,
                ee_pad: 0,
                ee_info: octets,
                ee_data: 0,
            };
            said(&error, Some(by), 1228)
        };
        for octets in [0, 1000, 1227] {
            assert_eq!(of(octets), Some(Said::Ends(Way::Narrow { by, octets })));
        }
        assert_eq!([1228, 1500].map(of), [None, None]);
    }

    #[test]
    fn a_box_tells_of_closed_and_open_ports() {
        let own: SocketAddr = "127.0.0.1:0".parse().unwrap();
        let peer = UdpSocket::bind(own).unwrap();
        let to = peer.local_addr().unwrap();
        assert_eq!(Way::find(own, to).unwrap(), Way::Open);
        let mut probe = [0; 2 * PROBE];
        assert_eq!(peer.recv(&mut probe).unwrap(), PROBE);
        // A site's data has 0 in the second bit.
        assert_eq!(probe[0] & 0xc0, 0xc0);
        assert!(probe[1..5].iter().all(|octet| octet & 0x0f == 0x0a), "{:?}", &probe[..5]);
        drop(peer);
        assert_eq!(Way::find(own, to).unwrap(), Way::Closed { by: to.ip() });
    }
}
