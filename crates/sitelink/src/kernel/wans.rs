//! WAN interfaces whose packets come to the program.

use std::collections::BTreeMap;
use std::time::Duration;

use netdev::interface::takes_redirected;
use netdev::route::addressed;
use wire::Instant;
use xdp::site::Site;

/// WAN interfaces at most.
const WANS: usize = 3;
/// Pause after an interface refused the program.
const REFUSED: Duration = Duration::from_secs(10);

/// Those of the ports from 1 on, and interfaces that took no program, with when and why.
#[derive(Debug)]
pub(super) struct Wans {
    ports: [Option<u32>; WANS],
    refused: BTreeMap<u32, (Instant, String)>,
}

impl Wans {
    pub(super) const fn new() -> Self {
        Self { ports: [None; WANS], refused: BTreeMap::new() }
    }

    /// Port of an interface, whose packets come to the program from here on.
    pub(super) fn port(&mut self, site: &mut Site, now: Instant, interface: u32) -> Result<u32, String> {
        if let Some(at) = self.ports.iter().position(|known| *known == Some(interface)) {
            return Ok(at as u32 + 1);
        }
        if let Some((since, why)) = self.refused.get(&interface)
            && now.since(*since) < REFUSED
        {
            return Err(why.clone());
        }
        // An interface that was made anew has another index.
        let gone = |known: &Option<u32>| known.is_none_or(|index| takes_redirected(index).is_none());
        let attached = match self.ports.iter().position(gone) {
            None => Err(format!("programs stand at {WANS} WAN interfaces already")),
            Some(at) => {
                let port = at as u32 + 1;
                self.leave(site, at + 1);
                let attached = site.attach(port, interface).map(|()| port);
                attached.map_err(|error| format!("the interface takes no XDP program: {error}"))
            }
        };
        match attached {
            Ok(port) => {
                self.ports[port as usize - 1] = Some(interface);
                self.refused.remove(&interface);
                Ok(port)
            }
            Err(why) => {
                self.refused.insert(interface, (now, why.clone()));
                Err(why)
            }
        }
    }

    /// Reason why packets on a lane of the kernel's would be lost: no program stands there. One has to stand wherever they may come in.
    pub(super) fn missing(&mut self, site: &mut Site, now: Instant) -> Option<String> {
        let interfaces = match addressed() {
            Ok(interfaces) => interfaces,
            Err(error) => return Some(format!("the kernel does not tell its interfaces: {error}")),
        };
        if interfaces.is_empty() {
            return Some("no interface has an address".into());
        }
        let refuses = |(interface, name): (u32, String)| {
            let why = self.port(site, now, interface).err()?;
            Some(format!("its packets may come in at {name}: {why}"))
        };
        interfaces.into_iter().find_map(refuses)
    }

    fn leave(&mut self, site: &mut Site, port: usize) {
        if self.ports[port - 1].take().is_some() {
            site.detach(port as u32);
        }
    }

    /// Frees all interfaces for others.
    pub(super) fn leave_all(&mut self, site: &mut Site) {
        for port in 1..=WANS {
            self.leave(site, port);
        }
        self.refused.clear();
    }
}
