//! Strangers: at which addresses of this box the programs bound their packets, and which lanes of the half the programs watch, so that they know
//! its packets from strangers'. The programs learn with the addresses where the site's socket receives: what they open for the half goes there alone.
//!
//! | bounded | if |
//! |---|---|
//! | QUIC, both headers | the site has a management channel: the data port is its own |
//! | unknown identifiers | the same; from a peer's own address only if every lane is watched on which it sends |
//! | unknown addresses | the site has peers in plain mode |

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use netdev::route::addresses;
use suite::tunnel::EpochSecret;
use tunnel::{Command, PeerId};
use wire::Instant;
use xdp::site::{MOST_HERE, Site, Stranger};

use super::lanes::fill;
use super::numbers::Numbers;

/// Interval of looks at the addresses of this box.
const LOOK: Duration = Duration::from_secs(1);
/// Lanes of an epoch that are watched, at most.
const LANES: u8 = 2;
/// Addresses of all machines on a link.
const ALL: [IpAddr; 3] = [
    IpAddr::V4(Ipv4Addr::BROADCAST),
    IpAddr::V4(Ipv4Addr::new(224, 0, 0, 1)),
    IpAddr::V6(Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1)),
];

/// Place in the kernel at which they are bounded.
#[derive(Debug)]
pub(super) struct Bounds {
    bind: IpAddr,
    told: BTreeSet<IpAddr>,
    /// Addresses of this box for which there is no room.
    beyond: usize,
    kinds: Vec<Stranger>,
    looked: Option<Instant>,
}

/// Lanes of the half that the programs watch.
#[derive(Debug)]
pub(super) struct Watches {
    window: u64,
    numbers: Numbers,
    /// Of each peer two epochs at most, the older one first.
    epochs: BTreeMap<PeerId, Vec<Watched>>,
}

/// An epoch of a peer.
#[derive(Debug)]
struct Watched {
    epoch: u32,
    /// Lanes that the half receives, and those of them that are watched, by their number in the epoch.
    count: u8,
    lanes: Vec<u32>,
}

impl Bounds {
    pub(super) const fn new(bind: IpAddr) -> Self {
        Self { bind, told: BTreeSet::new(), beyond: 0, kinds: Vec::new(), looked: None }
    }

    /// Bounds packets of these kinds, if there are any, where packets for this box arrive.
    pub(super) fn set(&mut self, site: &mut Site, now: Instant, kinds: &[Stranger]) {
        if self.kinds == kinds && self.looked.is_some_and(|looked| now.since(looked) < LOOK) {
            return;
        }
        let here = match self.bind.is_unspecified() {
            false => BTreeSet::from([self.bind]),
            // If the kernel does not answer, strangers are bounded where they were.
            true => {
                addresses().map_or_else(|_| self.told.clone(), |found| found.into_iter().chain(ALL).collect())
            }
        };
        self.tell(site, here, kinds);
        (self.kinds, self.looked) = (kinds.to_vec(), Some(now));
    }

    /// Bounds packets that come to these addresses, as far as there is room. Those that are bounded stay so.
    pub(super) fn tell(&mut self, site: &mut Site, here: BTreeSet<IpAddr>, kinds: &[Stranger]) {
        for gone in self.told.difference(&here) {
            let _ = site.free_strangers(*gone);
        }
        let wanted = here.len();
        let (known, new): (Vec<_>, Vec<_>) =
            here.into_iter().partition(|address| self.told.contains(address));
        let bind = self.bind;
        let is_bounded = |address: &IpAddr| match is_received(bind, *address) {
            true => site.receive_at(*address, kinds).is_ok(),
            false => site.bound_strangers(*address, kinds).is_ok(),
        };
        self.told = known.into_iter().chain(new).filter(is_bounded).collect();
        self.beyond = wanted - self.told.len();
    }

    /// Says so if there are addresses at which nothing is bounded, for want of room.
    pub(super) fn lack(&self) -> Option<String> {
        (self.beyond > 0).then(|| {
            format!(
                "packets of strangers are bounded at {MOST_HERE} addresses of this box, and it has {} more, where they can take the CPU from peers' packets, and where first packets of flows are lost; set `bind` to the address that peers use",
                self.beyond
            )
        })
    }

    /// The site is over.
    pub(super) fn end(&mut self, site: &mut Site) {
        for address in std::mem::take(&mut self.told) {
            let _ = site.free_strangers(address);
        }
        (self.kinds, self.looked, self.beyond) = (Vec::new(), None, 0);
    }
}

impl Watches {
    /// Number of lanes beside so many that the programs take, three for each peer: two epochs with two lanes, and one that rests.
    pub(super) const fn room(lanes: u32) -> u32 {
        2 * lanes
    }

    /// Lanes behind those that the programs take.
    pub(super) fn new(lanes: u32, window: u64) -> Self {
        let numbers = Numbers::from(lanes..lanes + Self::room(lanes));
        Self { window, numbers, epochs: BTreeMap::new() }
    }

    /// Follows a command for the half.
    pub(super) fn follow(&mut self, site: &mut Site, command: &Command) {
        match command {
            Command::Begin { peer, .. } => self.void(site, *peer),
            Command::InstallReceive { peer, epoch, secret, lanes, .. } => {
                self.install(site, *peer, (*epoch, secret), *lanes);
            }
            Command::Position { peer, epoch, lane, seq, .. } => {
                let epochs = self.epochs.get(peer).into_iter().flatten();
                let lane = epochs.filter(|known| known.epoch == *epoch).find_map(|known| known.lane(*lane));
                if let Some(lane) = lane {
                    let _ = site.advance(lane, *seq);
                    fill(site, lane, self.window);
                }
            }
            _ => {}
        }
    }

    fn install(&mut self, site: &mut Site, peer: PeerId, (epoch, secret): (u32, &EpochSecret), count: u8) {
        let epochs = self.epochs.entry(peer).or_default();
        if epochs.last().is_some_and(|newest| newest.epoch >= epoch) {
            return;
        }
        if epochs.len() == 2 {
            let eldest = epochs.remove(0);
            close(&mut self.numbers, site, eldest.lanes);
        }
        let mut lanes = Vec::new();
        for number in 0..count.min(LANES) {
            let Some(lane) = self.numbers.take() else { break };
            lanes.push(lane);
            let opened = site.watch_receive(lane, &secret.lane_key(number));
            if opened.is_err() || !fill(site, lane, self.window) {
                close(&mut self.numbers, site, lanes.pop());
                break;
            }
        }
        epochs.push(Watched { epoch, count, lanes });
    }

    /// True if the programs know every lane that the half receives of a peer.
    pub(super) fn are_complete(&self, peer: PeerId) -> bool {
        let mut epochs = self.epochs.get(&peer).into_iter().flatten();
        epochs.all(|known| known.lanes.len() == usize::from(known.count))
    }

    /// All other peers are gone.
    pub(super) fn retain(&mut self, site: &mut Site, stays: impl Fn(PeerId) -> bool) {
        for peer in self.epochs.keys().copied().filter(|peer| !stays(*peer)).collect::<Vec<_>>() {
            self.void(site, peer);
        }
    }

    /// Lanes that have rested may be used again.
    pub(super) fn reuse(&mut self) {
        self.numbers.reuse();
    }

    /// Free and resting ones.
    #[cfg(test)]
    pub(super) fn counts(&self) -> [usize; 2] {
        self.numbers.counts()
    }

    fn void(&mut self, site: &mut Site, peer: PeerId) {
        for known in self.epochs.remove(&peer).into_iter().flatten() {
            close(&mut self.numbers, site, known.lanes);
        }
    }
}

impl Watched {
    fn lane(&self, number: u8) -> Option<u32> {
        self.lanes.get(usize::from(number)).copied()
    }
}

/// True if a socket that is bound here receives what comes to an address of this box. One of `::` receives IPv4 too.
pub(super) fn is_received(bind: IpAddr, address: IpAddr) -> bool {
    let is_of_family = bind.is_ipv6() || address.is_ipv4();
    bind == address || bind.is_unspecified() && is_of_family && !ALL.contains(&address)
}

fn close(numbers: &mut Numbers, site: &mut Site, lanes: impl IntoIterator<Item = u32>) {
    for lane in lanes {
        let _ = site.close_receive(lane);
        numbers.rest(lane);
    }
}
