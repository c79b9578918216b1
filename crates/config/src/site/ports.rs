//! The UDP ports of sites: each belongs to one of them.
//!
//! | port | for |
//! |---|---|
//! | that of `bind` | data in identifier mode, and the management channel |
//! | the next one | data under header encryption |
//! | that of the plain peers' endpoints, mostly 4789 | VXLAN |

use std::fmt;
use std::net::{IpAddr, SocketAddr};

use tunnel::Mode;

use super::super::findings::Findings;
use super::Site;

/// A UDP socket of a site.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Socket {
    /// Address that it is bound to.
    pub address: SocketAddr,
    /// Its purpose.
    pub what: &'static str,
}

/// Sockets that a site binds.
pub fn sockets(site: &Site) -> Vec<Socket> {
    let on = |port| SocketAddr::new(site.bind.ip(), port);
    let mut sockets = Vec::new();
    if !site.peers.iter().all(|peer| matches!(peer.mode, Mode::Plain { .. })) {
        sockets.push(Socket { address: site.bind, what: "data and management channel" });
    }
    if site.has(Mode::HeaderEncryption) {
        sockets.push(Socket { address: on(site.bind.port().saturating_add(1)), what: "header encryption" });
    }
    let plain = site.peers.iter().find(|peer| matches!(peer.mode, Mode::Plain { .. }));
    if let Some(port) = plain.and_then(|peer| peer.endpoint.as_ref()).map(|endpoint| endpoint.port) {
        sockets.push(Socket { address: on(port), what: "plain" });
    }
    sockets
}

impl fmt::Display for Socket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "UDP {} ({})", self.address, self.what)
    }
}

/// Refuses UDP ports that two of the sites' sockets would need.
pub(super) fn refuse_shared(sites: &[Site], spans: &[std::ops::Range<usize>], findings: &mut Findings) {
    let mut bound: Vec<(&Site, Socket)> = Vec::new();
    for (site, span) in sites.iter().zip(spans) {
        for socket in sockets(site) {
            let other = bound.iter().find(|(_, other)| excludes(other.address, socket.address));
            if let Some((owner, other)) = other {
                let text = format!(
                    "site {:?}: {socket} is {other} of site {:?} already; give bind another port",
                    site.name, owner.name
                );
                findings.error(span.clone(), text);
            }
            bound.push((site, socket));
        }
    }
}

/// Whether both cannot be bound at once.
fn excludes(one: SocketAddr, other: SocketAddr) -> bool {
    // [::] takes IPv4, too.
    let meets = |wide: IpAddr, other: IpAddr| wide.is_unspecified() && (wide.is_ipv6() || other.is_ipv4());
    let (first, second) = (one.ip(), other.ip());
    one.port() == other.port() && (first == second || meets(first, second) || meets(second, first))
}
