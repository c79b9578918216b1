//! Paths to peers: next hop, addresses and payload, looked for again and again.

use std::net::SocketAddr;

use netdev::interface::takes_redirected;
use netdev::route::{NextHop, next_hop};
use wire::Instant;
use xdp::site::{Site, UdpPath, Vxlan};

use super::lan::{Lan, PlaceState};
use super::numbers::Numbers;
use super::wans::Wans;

const NO_ADDRESS: &str = "its address is not known";

/// Numbers of paths, and what all paths share.
#[derive(Debug)]
pub(super) struct Paths {
    /// Address of the data port.
    bind: SocketAddr,
    /// DSCP of its packets.
    dscp: u8,
    /// The port of plain mode.
    plain_port: u16,
    numbers: Numbers,
}

/// The path to a peer.
#[derive(Debug, Default)]
pub(super) struct PeerPath {
    address: Option<SocketAddr>,
    payload: Option<usize>,
    /// In plain mode.
    vni: Option<u32>,
    found: Option<(u32, UdpPath)>,
    looked: Option<Instant>,
    /// Reason why frames do not leave by a program.
    refused: Option<String>,
}

impl Paths {
    pub(super) fn new(room: u32, bind: SocketAddr) -> Self {
        Self { bind, dscp: 0, plain_port: 0, numbers: Numbers::new(room) }
    }

    /// Number of paths for so many peers: each has one, and some that are given up.
    pub(super) const fn room(peers: usize) -> u32 {
        3 * peers as u32 + 2
    }

    pub(super) const fn bind(&self) -> SocketAddr {
        self.bind
    }

    pub(super) const fn set_dscp(&mut self, dscp: u8) {
        self.dscp = dscp;
    }

    pub(super) const fn set_plain_port(&mut self, port: u16) {
        self.plain_port = port;
    }

    /// Paths that have rested may be used again.
    pub(super) fn reuse(&mut self) {
        self.numbers.reuse();
    }

    fn find(
        &self,
        site: &mut Site,
        (lan, wans): (&Lan, &mut Wans),
        now: Instant,
        to: SocketAddr,
        payload: usize,
        vni: Option<u32>,
    ) -> Result<UdpPath, String> {
        lan.outward().clone()?;
        let to = SocketAddr::new(to.ip().to_canonical(), to.port());
        let NextHop { interface, from, to: next_hop, source } =
            next_hop(Some(self.bind.ip()), to.ip()).map_err(|error| error.to_string())?;
        match takes_redirected(interface) {
            Some(true) => {}
            Some(false) => {
                return Err("its WAN port takes no redirected frames; of a veth the other end needs: ethtool -K IF gro on".into());
            }
            None => {
                return Err(
                    "this kernel does not tell whether its WAN port takes redirected frames (Linux 6.3 does)"
                        .into(),
                );
            }
        }
        // Last: an interface whose packets cannot go that way gets no program.
        let port = wans.port(site, now, interface)?;
        let source = SocketAddr::new(source, if vni.is_some() { self.plain_port } else { self.bind.port() });
        let vxlan = vni.map(|vni| Vxlan { vni, receives: lan.inward_now().is_ok() });
        Ok(UdpPath {
            interface: from,
            next_hop,
            source,
            destination: to,
            payload,
            port,
            dscp: self.dscp,
            vxlan,
        })
    }

    /// Free and resting ones.
    #[cfg(test)]
    pub(super) fn counts(&self) -> [usize; 2] {
        self.numbers.counts()
    }
}

impl PeerPath {
    pub(super) const fn set_address(&mut self, address: Option<SocketAddr>) {
        self.address = address;
    }

    pub(super) const fn set_payload(&mut self, octets: usize) {
        self.payload = Some(octets);
    }

    /// The peer is in plain mode.
    pub(super) const fn set_plain(&mut self, vni: u32) {
        self.vni = Some(vni);
    }

    /// Whether its packets in plain mode go to the LAN by the program.
    pub(super) fn receives(&self) -> bool {
        self.found.is_some_and(|(_, path)| path.vxlan.is_some_and(|vxlan| vxlan.receives))
    }

    /// Number of the path.
    pub(super) fn number(&self) -> Option<u32> {
        self.found.map(|(number, _)| number)
    }

    /// Time of the last look.
    pub(super) const fn looked(&self) -> Option<Instant> {
        self.looked
    }

    /// Whether frames leave by a program.
    pub(super) fn state(&self) -> PlaceState {
        match self.found {
            Some(_) => Ok(()),
            None => Err(self.refused.clone().unwrap_or_else(|| NO_ADDRESS.to_owned())),
        }
    }

    /// Looks for the path that there is now, and takes it. True if it is another one.
    pub(super) fn renew(
        &mut self,
        paths: &mut Paths,
        site: &mut Site,
        ports: (&Lan, &mut Wans),
        now: Instant,
    ) -> bool {
        self.looked = Some(now);
        let found = match (self.address, self.payload) {
            (Some(address), Some(payload)) => paths.find(site, ports, now, address, payload, self.vni),
            _ => Err(NO_ADDRESS.to_owned()),
        };
        self.adopt(paths, site, found)
    }

    /// Takes a path, or none. True if it is another one.
    pub(super) fn adopt(
        &mut self,
        paths: &mut Paths,
        site: &mut Site,
        found: Result<UdpPath, String>,
    ) -> bool {
        let before = self.found.map(|(_, path)| path);
        match found {
            Ok(path) if before == Some(path) => false,
            Ok(path) => {
                let mut number = paths.numbers.take();
                if let Some(refused) = number.take_if(|number| site.set_path(*number, &path).is_err()) {
                    paths.numbers.put_back(refused);
                }
                self.refused = match number {
                    Some(_) => None,
                    None => Some("the programs have no room for more paths".into()),
                };
                let left = std::mem::replace(&mut self.found, number.map(|number| (number, path)));
                if let Some((number, _)) = left {
                    paths.numbers.rest(number);
                }
                true
            }
            Err(why) => {
                self.refused = Some(why);
                let Some((number, _)) = self.found.take() else { return false };
                paths.numbers.rest(number);
                true
            }
        }
    }

    /// The peer is gone.
    pub(super) fn leave(self, paths: &mut Paths) {
        if let Some((number, _)) = self.found {
            paths.numbers.rest(number);
        }
    }
}
