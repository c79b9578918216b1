//! A world of links, in one process, under virtual time, drawn from a seed: KaYs, SecYs, ciphers, leases and floors are the product's.
//! All links share one network, so each gateway hears the frames of all. Few worlds have a link of up to 18 gateways. A third of
//! the links has static keys, with leases and floors on disks that may be slow, be full, lose their power, and go back to an image.

use std::collections::HashSet;
use std::time::Duration;

use suite::CipherSuite;
use testkit::Chance;

use super::gateway::{Host, Link};
use super::judge::{Sent, Told, Wrong};
use super::network::Flight;
use super::time::{self, Common, instant, micros};

/// Interval between two frames of a machine, in a small world.
const CYCLE: u64 = 50_000;
/// Plaintext that no network may see.
const MARK: &[u8] = b"of the machine alone";
const EAPOL: [u8; 2] = [0x88, 0x8e];
const MACSEC: [u8; 2] = [0x88, 0xe5];

struct Place {
    host: Host,
    /// Asleep until then.
    asleep: u64,
    /// Frames that were sent, by their numbers, and those of others that were delivered: over all starts.
    sent: Sent,
    delivered: HashSet<(u8, u64)>,
    /// With static keys: what was delivered since floors were written. After a kill it may be delivered again.
    unkept: Vec<(u8, u64)>,
}

struct World {
    common: Common,
    places: Vec<Place>,
    /// All gateways have the last one's configuration.
    settled: bool,
}

/// A frame of a machine: of this link, this gateway, and this number.
fn sdu(link: u8, number: u8, count: u64) -> Vec<u8> {
    let mut frame = vec![0xff; 6];
    frame.extend([2, 1, 0, 0, link, number, 0x88, 0x92, link, number]);
    frame.extend(count.to_be_bytes());
    frame.extend(MARK);
    frame
}

/// Runs a world of links.
///
/// # Errors
/// The first broken promise.
pub fn run(seed: u64) -> Result<Told, Wrong> {
    time::run(World::new(seed)?)
}

impl World {
    fn new(seed: u64) -> Result<Self, Wrong> {
        let mut chance = Chance::new(seed);
        let mut places = Vec::new();
        // Few worlds are large: a link of up to 18 beside others.
        let is_large = chance.happens(20);
        for number in 1..=1 + chance.below(3) as u8 {
            let suites = &CipherSuite::ALL[..6];
            let members = if is_large && number == 1 { 4 + chance.below(15) } else { 2 + chance.below(2) };
            let link = Link {
                number,
                members: members as u8,
                suite: chance.pick(suites),
                is_static: chance.happens(333),
                disk_delay: Duration::from_millis(chance.pick(&[1, 50, 800])),
                delay_protect: chance.happens(300),
                replay_window: chance.pick(&[0, 1, 32, 1000]),
                cak_steps: 0,
            };
            for number in 1..=link.members {
                places.push(Place::new(&mut chance, link, number)?);
            }
        }
        let common = Common::new(chance, if is_large { 5 * CYCLE } else { CYCLE });
        Ok(Self { common, places, settled: false })
    }

    fn name(&self, at: usize) -> String {
        let place = &self.places[at];
        let (now, link) = (self.common.now as f64 / 1e6, place.host.gateway.link.number);
        format!("{now:.6} s: gateway {} of link {link}", place.host.number)
    }

    /// Puts a frame on the network, towards everybody.
    fn send(&mut self, from: usize, frame: &[u8]) -> Result<(), Wrong> {
        let is_known = frame.get(12..14).is_some_and(|ethertype| ethertype == EAPOL || ethertype == MACSEC);
        if !is_known || frame.windows(MARK.len()).any(|part| part == MARK) {
            return Err(Wrong::Plaintext(self.name(from)));
        }
        let towards = (0..self.places.len()).filter(|to| *to != from);
        self.common.send(from, towards, frame);
        Ok(())
    }

    /// Has a gateway do what its KaY says, and begin anew if it is killed meanwhile.
    fn turn(&mut self, at: usize) -> Result<(), Wrong> {
        let now = instant(self.common.now);
        let result = self.places[at].host.gateway.turn(now);
        let sent = result.map_err(|why| Wrong::Impossible(format!("{}: {why}", self.name(at))))?;
        for frame in sent {
            self.send(at, &frame)?;
        }
        let place = &mut self.places[at];
        if place.host.gateway.take_kept() {
            place.unkept.clear();
        }
        if place.host.is_refused_wrongly() {
            return Err(Wrong::Refused(self.name(at)));
        }
        if place.host.gateway.is_killed() {
            self.restart(at);
        }
        Ok(())
    }

    /// Another program goes on in the place of a gateway's.
    fn upgrade(&mut self, at: usize) -> Result<(), Wrong> {
        let Common { chance, now, .. } = &mut self.common;
        let upgraded = self.places[at].host.gateway.upgrade(instant(*now), &chance.octets());
        let upgraded =
            upgraded.map_err(|why| Wrong::Impossible(format!("{}: upgrade: {why}", self.name(at))))?;
        self.common.counts[3] += u64::from(upgraded);
        self.turn(at)
    }

    /// A link's CAK changes at one gateway after the other, as the book says: each gets the new one with the old one as fallback; then
    /// each loses the old one. With it, others of its settings may change.
    fn reload(&mut self, at: usize) -> Result<(), Wrong> {
        let of = self.places[at].host.gateway.link;
        let steps = self.places.iter().map(|place| place.host.gateway.link);
        let fewest = steps.filter(|link| link.number == of.number).map(|link| link.cak_steps).min();
        if of.is_static || fewest != Some(of.cak_steps) {
            return Ok(());
        }
        let delay_protect = of.delay_protect != self.common.chance.happens(300);
        self.reload_with(at, Link { cak_steps: of.cak_steps + 1, delay_protect, ..of })
    }

    fn reload_with(&mut self, at: usize, link: Link) -> Result<(), Wrong> {
        let now = instant(self.common.now);
        self.places[at].host.gateway.reload(now, link);
        self.turn(at)
    }

    /// Gateways whose CAK was not changed yet follow the others of their link.
    fn settle(&mut self) -> Result<(), Wrong> {
        for at in 0..self.places.len() {
            let link = self.places[at].host.gateway.link;
            let all = self.places.iter().map(|place| place.host.gateway.link);
            let most = all.filter(|of| of.number == link.number).map(|of| of.cak_steps).max();
            if let Some(cak_steps) = most.filter(|most| *most > link.cak_steps) {
                self.reload_with(at, Link { cak_steps, ..link })?;
            }
        }
        Ok(())
    }

    /// Between two groups of gateways nothing passes.
    fn part(&mut self, until: u64) {
        let (count, bits) = (self.places.len(), self.common.chance.draw());
        let side = |at: usize| bits >> (at % 64) & 1;
        for (one, other) in (0..count).flat_map(|one| (0..one).map(move |other| (one, other))) {
            if side(one) != side(other) {
                self.common.network.cut_both_ways(one, other, until);
            }
        }
    }

    /// Begins anew. Frames since its floors may be delivered again.
    fn restart(&mut self, at: usize) {
        let Common { chance, now, .. } = &mut self.common;
        let place = &mut self.places[at];
        for id in place.unkept.drain(..) {
            place.delivered.remove(&id);
        }
        place.host.restart(chance, *now);
    }
}

impl Place {
    fn new(chance: &mut Chance, link: Link, number: u8) -> Result<Self, Wrong> {
        Ok(Self {
            host: Host::new(chance, link, number)?,
            asleep: 0,
            sent: Sent::default(),
            delivered: HashSet::new(),
            unkept: vec![],
        })
    }

    /// Of the same link; and its state can be trusted, since others stay away.
    fn is_peer(&self, other: &Self) -> bool {
        let (link, at_other) = (self.host.gateway.link.number, other.host.gateway.link.number);
        link == at_other && self.host.number != other.host.number && !other.host.gateway.is_refused()
    }
}

impl time::World for World {
    /// Sum of a KaY's longest waits: a member that is gone is missed after MKA Life Time (6 s); the next key server has 3 s to claim the
    /// role, and keeps the SAK in use for 2.5 s; what was lost is repeated within 0.5 s. Static keys wait for a disk alone, for seconds.
    fn healed(&self) -> Duration {
        Duration::from_secs(12)
    }

    fn common(&mut self) -> &mut Common {
        &mut self.common
    }

    fn timer(&self) -> Option<u64> {
        let due = |place: &Place| Some(micros(place.host.gateway.poll_timeout()?).max(place.asleep));
        self.places.iter().filter_map(due).min()
    }

    fn fault(&mut self) -> Result<(), Wrong> {
        let (count, until) = (self.places.len() as u64, self.common.soon());
        let Common { chance, network, now, .. } = &mut self.common;
        let (at, other) = (chance.below(count) as usize, chance.below(count) as usize);
        match chance.below(9) {
            0 => network.cut(at, other, until),
            1 => network.cut_both_ways(at, other, until),
            2 => self.places[at].host.gateway.kill_within(1 + chance.below(12)),
            3 => self.places[at].asleep = until,
            4 => {
                if self.places[at].host.fail_disk(chance, until) {
                    self.restart(at);
                }
            }
            5 => {
                self.places[at].host.gateway.rekey(instant(*now));
                self.turn(at)?;
            }
            6 => self.reload(at)?,
            7 => self.part(until),
            _ => self.common.replay(count as usize),
        }
        Ok(())
    }

    fn machines(&mut self) -> Result<(), Wrong> {
        let (now, is_calm) = (self.common.now, self.common.is_calm());
        if is_calm && !std::mem::replace(&mut self.settled, true) {
            self.settle()?;
        }
        // An upgrade loses nothing, so it may come at any time.
        if self.common.chance.happens(20) {
            let at = self.common.chance.below(self.places.len() as u64) as usize;
            self.upgrade(at)?;
        }
        for at in 0..self.places.len() {
            let place = &mut self.places[at];
            if place.asleep > now {
                continue;
            }
            let count = place.sent.another(now, is_calm);
            let sdu = sdu(place.host.gateway.link.number, place.host.number, count);
            let Some((frame, used)) = place.host.gateway.protect(instant(now), &sdu) else { continue };
            self.common.counts[0] += 1;
            if used.is_some_and(|used| !self.common.nonces.insert(used)) {
                return Err(Wrong::NonceTwice(self.name(at)));
            }
            self.send(at, &frame)?;
        }
        Ok(())
    }

    fn asleep(&self, flight: &Flight) -> u64 {
        self.places[flight.to].asleep
    }

    fn arrive(&mut self, Flight { to, octets: frame, .. }: Flight) -> Result<(), Wrong> {
        let now = instant(self.common.now);
        let gateway = &mut self.places[to].host.gateway;
        if frame.get(12..14) == Some(&EAPOL) {
            gateway.handle_mkpdu(now, &frame);
            return self.turn(to);
        }
        let Some(octets) = gateway.verify(now, &frame) else { return Ok(()) };
        self.common.counts[1] += 1;
        let link = gateway.link.number;
        let claimed = octets.get(15).zip(octets.get(16..24).and_then(|count| count.try_into().ok()));
        let claimed = claimed.map(|(number, count)| (*number, u64::from_be_bytes(count)));
        let is_sent = |(number, count): &(u8, u64)| {
            let is_sender =
                |place: &&Place| (place.host.gateway.link.number, place.host.number) == (link, *number);
            let sender = self.places.iter().find(is_sender);
            sender.is_some_and(|sender| *count <= sender.sent.count && octets == sdu(link, *number, *count))
        };
        let Some(id) = claimed.filter(|id| is_sent(id) && id.0 != self.places[to].host.number) else {
            return Err(Wrong::Forged(self.name(to)));
        };
        if !self.places[to].delivered.insert(id) {
            return Err(Wrong::Twice(format!("{}: number {} of {}", self.name(to), id.1, id.0)));
        }
        if self.places[to].host.gateway.link.is_static {
            self.places[to].unkept.push(id);
        }
        Ok(())
    }

    fn timers(&mut self) -> Result<(), Wrong> {
        let now = self.common.now;
        for at in 0..self.places.len() {
            let place = &mut self.places[at];
            let is_due = place.host.gateway.poll_timeout().is_some_and(|due| micros(due) <= now);
            if is_due && place.asleep <= now {
                let handled = place.host.handle_timeout(now);
                handled.map_err(|why| Wrong::Impossible(format!("{}: {why}", self.name(at))))?;
                self.turn(at)?;
            }
        }
        Ok(())
    }

    fn last_lost(&self, until: u64) -> Option<(u64, String)> {
        let mut lost = None;
        for place in self.places.iter().filter(|place| !place.host.gateway.is_refused()) {
            for peer in self.places.iter().filter(|peer| place.is_peer(peer)) {
                let arrived = |count| place.delivered.contains(&(peer.host.number, count));
                let (link, from, to) = (place.host.gateway.link.number, peer.host.number, place.host.number);
                let between = || format!("link {link}, from gateway {from} to {to}");
                lost = lost.max(peer.sent.last_lost(until, arrived).map(|at| (at, between())));
            }
        }
        lost
    }
}
