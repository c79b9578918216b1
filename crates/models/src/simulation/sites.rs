//! A world of sites, in one process, under virtual time, drawn from a seed: sessions, forwarding halves, and the SecYs of the stations are
//! the product's. Two or three sites have two stations each; of three, two may reach each other through the third alone, which relays. In half
//! of the worlds stations have MACsec with static keys; in the others the sites protect their LANs, with MKA or with leases and floors.

mod channel;
mod lan;
mod management;
mod secured;
mod site;
mod station;

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use testkit::Chance;
use tunnel::{Delivery, Mode, PacketSource, RelayLeg};
use wire::MacAddr;

use super::gateway::Host;
use super::judge::{Sent, Told, Wrong};
use super::network::Flight;
use super::time::{self, Common, instant, micros};
use crate::names::digest;
use channel::Channel;
use lan::{Machine, OnWay};
use management::MOVING;
use site::{Plan, Site, name, named, peer, site_of};
use station::BROADCAST;

/// Interval between two frames of a machine.
const CYCLE: u64 = 50_000;
/// Stations of a site.
const STATIONS: usize = 2;

/// A start of a site, and what is around it.
struct Place {
    site: Site,
    /// Its present address.
    address: usize,
    /// Address at which it takes each site to be.
    endpoints: [usize; 3],
    /// Time at which each site takes it on at its present address.
    unproved: [Option<u64>; 3],
    asleep: u64,
    /// Time at which it begins anew with the newest configuration.
    change: Option<u64>,
}

struct World {
    common: Common,
    plan: Plan,
    places: Vec<Place>,
    /// The SecY of each site, or none.
    secured: Vec<Host>,
    machines: Vec<Machine>,
    /// The site at each address that there ever was.
    addresses: Vec<Option<usize>>,
    /// By the site that is not in it.
    channels: [Channel; 3],
    look: u64,
    frames: HashMap<u64, OnWay>,
    /// An altered packet was accepted, so what is joined may be anything: only the station finds that.
    has_altered: bool,
    /// Packets with an altered one inside, that a relay has sent on.
    altered: HashSet<u64>,
}

/// Runs a world of sites.
///
/// # Errors
/// The first broken promise.
pub fn run(seed: u64) -> Result<Told, Wrong> {
    time::run(World::new(seed)?)
}

impl World {
    fn new(seed: u64) -> Result<Self, Wrong> {
        let mut chance = Chance::new(seed);
        site::seed_secrets(chance.draw());
        let plan = Plan::new(&mut chance);
        let place = |number| Place {
            site: Site::new(&mut chance, 0, &plan, number),
            address: number,
            endpoints: [0, 1, 2],
            unproved: [None; 3],
            asleep: 0,
            change: None,
        };
        let places: Vec<Place> = (0..plan.sites).map(place).collect();
        let of = chance.octets();
        let address = |number: usize| MacAddr([2, of[0], of[1], of[2], of[3], number as u8]);
        let addresses: Vec<MacAddr> = (0..plan.sites * STATIONS).map(address).collect();
        let machine = |(number, station)| Machine {
            station,
            site: number / STATIONS,
            quiet: 0,
            sent: Sent::default(),
            frames: vec![],
            got: HashSet::new(),
        };
        let stations = station::all(&mut chance, &addresses).map_err(Wrong::Impossible)?;
        let secured = secured::all(&mut chance, plan.sites)?;
        let machines = stations.into_iter().enumerate().map(machine).collect();
        Ok(Self {
            addresses: (0..plan.sites).map(Some).collect(),
            common: Common::new(chance, CYCLE),
            plan,
            places,
            secured,
            machines,
            channels: Default::default(),
            look: 0,
            frames: HashMap::new(),
            has_altered: false,
            altered: HashSet::new(),
        })
    }

    fn name(&self, at: usize) -> String {
        format!("{:.6} s: site {at}", self.common.now as f64 / 1e6)
    }

    /// Pairs of sites, the lower one first, and the site that is not in it.
    fn pairs(&self) -> impl Iterator<Item = (usize, usize, usize)> + use<> {
        let sites = self.plan.sites;
        [(0, 1, 2), (0, 2, 1), (1, 2, 0)].into_iter().filter(move |(_, high, _)| *high < sites)
    }

    /// Puts a packet on its way to another site.
    fn send(&mut self, from: usize, to: usize, packet: &[u8]) -> Result<(), Wrong> {
        if self.plan.is_relayed(from, to) {
            return self.relay(from, 1, (RelayLeg::To, to), packet, false);
        }
        self.transmit(from, to, packet)
    }

    /// A packet for another site goes to or from the one that relays it.
    fn relay(
        &mut self,
        from: usize,
        to: usize,
        (leg, of): (RelayLeg, usize),
        packet: &[u8],
        altered: bool,
    ) -> Result<(), Wrong> {
        let (now, peer) = (instant(self.common.now), peer(from, to));
        let forwarding = &mut self.places[from].site.forwarding;
        let Some(header) = forwarding.relay(now, peer, (leg, name(of)), packet.len()) else { return Ok(()) };
        let packet = [&header[..], packet].concat();
        if altered {
            self.altered.insert(digest(&packet));
        }
        self.transmit(from, to, &packet)
    }

    fn transmit(&mut self, from: usize, to: usize, packet: &[u8]) -> Result<(), Wrong> {
        self.common.counts[0] += 1;
        // All addresses of stations begin alike.
        let MacAddr([front @ .., _]) = self.machines[0].station.address;
        if packet.windows(front.len()).any(|part| part == front) {
            return Err(Wrong::Plaintext(format!("{}: an address of a station", self.name(from))));
        }
        let sci = self.secured.get(from).map(|host| host.gateway.sci.octets());
        if sci.is_some_and(|sci| packet.windows(sci.len()).any(|part| part == sci)) {
            return Err(Wrong::Plaintext(format!("{}: the SCI of its SecY", self.name(from))));
        }
        // The identifier of a seq under a key. In header encryption: two encrypted blocks.
        let (key, front) = match self.places[from].site.plan.mode(from, to) {
            Mode::HeaderEncryption => (0, 32),
            _ => (1 + (from * 3 + to) as u64, 6),
        };
        let used = (key, digest(packet.get(..front)));
        let mut nonce = [0; 12];
        nonce[..8].copy_from_slice(&used.1.to_be_bytes());
        if !self.common.nonces.insert((used.0, nonce)) {
            return Err(Wrong::NonceTwice(self.name(from)));
        }
        let (from, to) = (self.places[from].address, self.places[from].endpoints[to]);
        self.common.send(from, std::iter::once(to), packet);
        Ok(())
    }

    /// A packet comes to a site, by itself or out of a relayed one.
    fn open(&mut self, at: usize, source: PacketSource, packet: &[u8], altered: bool) -> Result<(), Wrong> {
        let now = instant(self.common.now);
        let arrived = self.places[at].site.forwarding.handle_packet(now, source, packet);
        self.has_altered |= altered && arrived.is_ok();
        match arrived {
            Ok(Delivery::Frame { prefix, body, .. }) => {
                let frame = [&prefix[..], &packet[body]].concat();
                self.deliver(at, &frame, altered)
            }
            Ok(Delivery::Joined { prefix, first, second, .. }) => {
                let frame = [&prefix[..], first, second].concat();
                self.deliver(at, &frame, self.has_altered)
            }
            Ok(Delivery::Relayed { from, leg: RelayLeg::To, site, body }) => {
                let from = site_of(at, from);
                self.relay(at, named(site), (RelayLeg::From, from), &packet[body], altered)
            }
            Ok(Delivery::Relayed { leg: RelayLeg::From, site, body, .. }) => {
                let body = packet[body].to_vec();
                self.open(at, self.source(at, named(site)), &body, altered)
            }
            Ok(Delivery::Pending) | Err(_) => Ok(()),
        }
    }

    /// The source of a packet that comes from a site.
    fn source(&self, at: usize, from: usize) -> PacketSource {
        match self.places[at].site.plan.mode(at, from) {
            Mode::HeaderEncryption => PacketSource::From(peer(at, from)),
            _ => PacketSource::Identifier,
        }
    }
}

impl time::World for World {
    /// With a KaY at each site the sites find each other first, and then the KaYs.
    fn healed(&self) -> Duration {
        Duration::from_secs(if self.is_secured() { 15 } else { 12 })
    }

    fn common(&mut self) -> &mut Common {
        &mut self.common
    }

    fn timer(&self) -> Option<u64> {
        let due = |place: &Place| {
            let due = place.site.poll_timeout().into_iter().chain(place.change).min()?;
            Some(due.max(place.asleep))
        };
        let sites = self.places.iter().filter_map(due);
        let secy = |(at, host): (usize, &Host)| {
            Some(micros(host.gateway.poll_timeout()?).max(self.places[at].asleep))
        };
        let secured = self.secured.iter().enumerate().filter_map(secy);
        let messages = self.channels.iter().filter_map(Channel::next);
        sites.chain(secured).chain(messages).chain([self.look]).min()
    }

    fn fault(&mut self) -> Result<(), Wrong> {
        let until = self.common.soon();
        let Common { chance, network, .. } = &mut self.common;
        let at = chance.below(self.plan.sites as u64) as usize;
        let other = (at + 1 + chance.below(self.plan.sites as u64 - 1) as usize) % self.plan.sites;
        let (from, to) = (self.places[at].address, self.places[other].address);
        match chance.below(if self.secured.is_empty() { 10 } else { 13 }) {
            10.. => self.secured_fault(at)?,
            0 => network.cut(from, to, until),
            1 => network.cut_both_ways(from, to, until),
            2 => self.restart(at, true)?,
            3 => self.restart(at, false)?,
            4 => self.places[at].asleep = until,
            5 => self.move_site(MOVING),
            6 => self.close(at, other),
            7 => {
                let machine = chance.below(self.machines.len() as u64) as usize;
                self.machines[machine].quiet = until;
            }
            8 => self.change(),
            _ => self.common.replay(self.addresses.len()),
        }
        Ok(())
    }

    fn machines(&mut self) -> Result<(), Wrong> {
        for at in 0..self.machines.len() {
            let machine = &self.machines[at];
            if machine.quiet.max(self.places[machine.site].asleep) <= self.common.now {
                self.depart(at)?;
            }
        }
        Ok(())
    }

    fn asleep(&self, flight: &Flight) -> u64 {
        self.addresses[flight.to].map_or(0, |site| self.places[site].asleep)
    }

    fn arrive(&mut self, Flight { to, from, octets, changed, .. }: Flight) -> Result<(), Wrong> {
        let Some(at) = self.addresses[to] else { return Ok(()) };
        let from = (0..self.plan.sites).find(|site| *site != at && self.places[at].endpoints[*site] == from);
        let source = from.map_or(PacketSource::Identifier, |from| self.source(at, from));
        let altered = changed || !self.altered.is_empty() && self.altered.contains(&digest(&octets[..]));
        self.open(at, source, &octets, altered)?;
        self.turn(at)
    }

    fn timers(&mut self) -> Result<(), Wrong> {
        let now = self.common.now;
        if self.look <= now {
            self.look()?;
        }
        self.carry()?;
        self.secured_timers()?;
        for at in 0..self.places.len() {
            let place = &mut self.places[at];
            if place.asleep <= now && place.change.take_if(|due| *due <= now).is_some() {
                self.restart(at, true)?;
            }
            let place = &self.places[at];
            if place.asleep <= now && place.site.poll_timeout().is_some_and(|due| due <= now) {
                self.turn(at)?;
            }
        }
        Ok(())
    }

    fn last_lost(&self, until: u64) -> Option<(u64, String)> {
        // Its state cannot be trusted, so it stays away.
        let is_away = |at: &Machine| self.secured.get(at.site).is_some_and(|host| host.gateway.is_refused());
        let mut lost = None;
        for (number, from) in self.machines.iter().enumerate() {
            let others = self.machines.iter().enumerate().filter(|(_, to)| to.site != from.site);
            for (to, machine) in others.filter(|(_, to)| !is_away(from) && !is_away(to)) {
                let arrived = |count: u64| {
                    let (destination, _) = from.frames[count as usize - 1];
                    let is_for_it = destination == machine.station.address || destination == BROADCAST;
                    !is_for_it || machine.got.contains(&(number, count))
                };
                let between = || format!("from station {number} to {to}");
                lost = lost.max(from.sent.last_lost(until, arrived).map(|at| (at, between())));
            }
        }
        lost
    }
}
