//! The world: its time, its network, its faults, and what is judged.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashSet};
use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use suite::CipherSuite;
use wire::Instant;

use super::chance::Chance;
use super::disk::{Disk, Files};
use super::gateway::{Gateway, Link, Used};
use super::static_keys::long_ago;

/// Time within which a fair network delivers all frames after the last fault.
pub const HEALED: Duration = Duration::from_secs(12);
/// Moment of the last fault, in microseconds.
const CALM: u64 = 20_000_000;
/// Time for which a healed network is watched.
const WATCHED: u64 = 2_000_000;
/// Interval between two frames of a machine, in a small world.
const CYCLE: u64 = 50_000;
/// Delay of a fair network.
const WAY: u64 = 100;
/// Frames that an attacker keeps.
const KEPT: usize = 4096;
/// Plaintext that no network may see.
const MARK: &[u8] = b"of the machine alone";
const EAPOL: [u8; 2] = [0x88, 0x8e];
const MACSEC: [u8; 2] = [0x88, 0xe5];

/// A broken promise.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Wrong {
    /// A key protects two frames with one nonce.
    NonceTwice(String),
    /// Plaintext on the network.
    Plaintext(String),
    /// A frame is delivered that nobody of the link sent.
    Forged(String),
    /// A frame is delivered twice.
    Twice(String),
    /// A SecY cannot do what its KaY says.
    Impossible(String),
    /// A crash leaves state that a start refuses.
    Refused(String),
    /// Frames are lost though the network has been fair for long.
    NotHealed(String),
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (what, why) = match self {
            Self::NonceTwice(why) => ("no nonce comes twice", why),
            Self::Plaintext(why) => ("no plaintext on the network", why),
            Self::Forged(why) => ("only what was sent is delivered", why),
            Self::Twice(why) => ("no frame is delivered twice", why),
            Self::Impossible(why) => ("a SecY can do what it is told", why),
            Self::Refused(why) => ("state outlives a crash", why),
            Self::NotHealed(why) => ("outages heal", why),
        };
        write!(f, "NOT SO: {what}: {why}")
    }
}

/// A run that broke nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Told {
    /// Virtual time of the run.
    pub time: Duration,
    /// Gateways.
    pub gateways: usize,
    /// Frames that were protected, delivered, and faults that were drawn.
    pub counts: [u64; 3],
    /// Digest of all that was on the network: equal for the same seed.
    pub print: u64,
}

struct Place {
    gateway: Gateway,
    number: u8,
    /// Its disk, what that had long ago, the moment until which it is full, and whether it went back.
    disk: Disk,
    image: Files,
    full_until: u64,
    went_back: bool,
    /// Asleep until then.
    asleep: u64,
    /// Frames that were sent, by their numbers, and those of others that were delivered: over all starts.
    sent: u64,
    delivered: HashSet<(u8, u64)>,
    /// With static keys: what was delivered since floors were written. After a kill it may be delivered again.
    unkept: Vec<(u8, u64)>,
    /// First number that was sent after the network had healed.
    healed: Option<u64>,
}

struct Network {
    loss: u64,
    copies: u64,
    flips: u64,
    delay: u64,
}

/// A frame on its way: when it arrives, in which order, at whom.
type Flight = (u64, u64, usize, Vec<u8>);

struct World {
    chance: Chance,
    /// Interval between two frames of a machine.
    cycle: u64,
    now: u64,
    places: Vec<Place>,
    wire: BinaryHeap<Reverse<Flight>>,
    carried: u64,
    cuts: Vec<(usize, usize, u64)>,
    kept: Vec<Vec<u8>>,
    nonces: HashSet<Used>,
    network: Network,
    counts: [u64; 3],
    print: DefaultHasher,
}

pub(super) fn instant(now: u64) -> Instant {
    Instant::after_start(Duration::from_micros(1_000_000_000 + now))
}

fn micros(at: Instant) -> u64 {
    at.since(instant(0)).as_micros() as u64
}

/// A frame of a machine: of this link, this gateway, and this number.
fn sdu(link: u8, number: u8, count: u64) -> Vec<u8> {
    let mut frame = vec![0xff; 6];
    frame.extend([2, 1, 0, 0, link, number, 0x88, 0x92, link, number]);
    frame.extend(count.to_be_bytes());
    frame.extend(MARK);
    frame
}

/// Runs a world.
///
/// # Errors
/// The first broken promise.
pub fn run(seed: u64) -> Result<Told, Wrong> {
    let mut world = World::new(seed)?;
    let healed = CALM + HEALED.as_micros() as u64;
    let end = healed + WATCHED;
    let (mut cycle, mut fault) = (0, 0);
    while world.now < end {
        let arrival = world.wire.peek().map(|Reverse((at, ..))| *at);
        let timer = world.timer();
        let next = [arrival, timer, Some(cycle), Some(fault)].into_iter().flatten().min();
        world.now = next.unwrap_or(end).max(world.now);
        if fault <= world.now {
            fault = if world.now < CALM { world.fault()? } else { u64::MAX };
        }
        if cycle <= world.now {
            world.machines(healed)?;
            cycle = world.now + world.cycle;
        }
        world.arrivals()?;
        world.timers()?;
    }
    world.is_healed()?;
    let time = Duration::from_micros(world.now);
    Ok(Told { time, gateways: world.places.len(), counts: world.counts, print: world.print.finish() })
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
            };
            for number in 1..=link.members {
                let disk = Disk::new(chance.draw());
                let image = match link.is_static {
                    true => {
                        long_ago(&disk, &link, number).map_err(|why| Wrong::Impossible(why.to_string()))?
                    }
                    false => Files::new(),
                };
                let gateway = Gateway::new(instant(0), link, number, &chance.octets(), &disk);
                let (delivered, unkept) = (HashSet::new(), vec![]);
                let (asleep, full_until, sent, healed) = (0, 0, 0, None);
                places.push(Place {
                    gateway,
                    number,
                    disk,
                    image,
                    full_until,
                    went_back: false,
                    asleep,
                    sent,
                    delivered,
                    unkept,
                    healed,
                });
            }
        }
        let network = Network {
            loss: chance.pick(&[0, 5, 50, 200]),
            copies: chance.pick(&[0, 20, 100]),
            flips: chance.pick(&[0, 10, 50]),
            delay: chance.pick(&[WAY, 2_000, 80_000, 600_000]),
        };
        Ok(Self {
            cycle: if is_large { 5 * CYCLE } else { CYCLE },
            chance,
            now: 0,
            places,
            wire: BinaryHeap::new(),
            carried: 0,
            cuts: vec![],
            kept: vec![],
            nonces: HashSet::new(),
            network,
            counts: [0; 3],
            print: DefaultHasher::new(),
        })
    }

    fn name(&self, at: usize) -> String {
        let place = &self.places[at];
        format!(
            "{:.6} s: gateway {} of link {}",
            self.now as f64 / 1e6,
            place.number,
            place.gateway.link.number
        )
    }

    /// When the next timer of a gateway that is awake is due.
    fn timer(&self) -> Option<u64> {
        let due = |place: &Place| Some(micros(place.gateway.poll_timeout()?).max(place.asleep));
        self.places.iter().filter_map(due).min()
    }

    /// Puts a frame on the network, towards everybody.
    fn send(&mut self, from: usize, frame: &[u8]) -> Result<(), Wrong> {
        let is_known = frame.get(12..14).is_some_and(|ethertype| ethertype == EAPOL || ethertype == MACSEC);
        if !is_known || frame.windows(MARK.len()).any(|part| part == MARK) {
            return Err(Wrong::Plaintext(self.name(from)));
        }
        (self.now, from, frame).hash(&mut self.print);
        if self.kept.len() < KEPT {
            self.kept.push(frame.to_vec());
        } else {
            let at = self.chance.below(KEPT as u64) as usize;
            self.kept[at] = frame.to_vec();
        }
        for to in (0..self.places.len()).filter(|to| *to != from) {
            self.carry(from, to, frame);
        }
        Ok(())
    }

    fn carry(&mut self, from: usize, to: usize, frame: &[u8]) {
        let is_calm = self.now >= CALM;
        let is_cut = |(a, b, until): &(usize, usize, u64)| (*a, *b) == (from, to) && self.now < *until;
        if self.cuts.iter().any(is_cut) || (!is_calm && self.chance.happens(self.network.loss)) {
            return;
        }
        let copies = 1 + usize::from(!is_calm && self.chance.happens(self.network.copies));
        for _ in 0..copies {
            let mut frame = frame.to_vec();
            if !is_calm && self.chance.happens(self.network.flips) {
                let bit = self.chance.below(frame.len() as u64 * 8) as usize;
                frame[bit / 8] ^= 1 << (bit % 8);
            }
            let delay = if is_calm { WAY } else { WAY + self.chance.below(self.network.delay) };
            self.carried += 1;
            self.wire.push(Reverse((self.now + delay, self.carried, to, frame)));
        }
    }

    /// Each machine sends a frame.
    fn machines(&mut self, healed: u64) -> Result<(), Wrong> {
        for at in 0..self.places.len() {
            let (now, place) = (self.now, &mut self.places[at]);
            if place.asleep > now {
                continue;
            }
            if now >= healed {
                place.healed.get_or_insert(place.sent + 1);
            }
            place.sent += 1;
            let sdu = sdu(place.gateway.link.number, place.number, place.sent);
            let Some((frame, used)) = place.gateway.protect(instant(now), &sdu) else { continue };
            self.counts[0] += 1;
            if used.is_some_and(|used| !self.nonces.insert(used)) {
                return Err(Wrong::NonceTwice(self.name(at)));
            }
            self.send(at, &frame)?;
        }
        Ok(())
    }

    fn arrivals(&mut self) -> Result<(), Wrong> {
        while let Some(Reverse((arrives, ..))) = self.wire.peek()
            && *arrives <= self.now
            && let Some(Reverse((_, order, to, frame))) = self.wire.pop()
        {
            let asleep = self.places[to].asleep;
            if asleep > self.now {
                self.wire.push(Reverse((asleep, order, to, frame)));
            } else {
                self.arrive(to, &frame)?;
            }
        }
        Ok(())
    }

    fn arrive(&mut self, to: usize, frame: &[u8]) -> Result<(), Wrong> {
        let now = instant(self.now);
        let gateway = &mut self.places[to].gateway;
        if frame.get(12..14) == Some(&EAPOL) {
            gateway.handle_mkpdu(now, frame);
            return self.turn(to);
        }
        let Some(octets) = gateway.verify(now, frame) else { return Ok(()) };
        self.counts[1] += 1;
        let link = gateway.link.number;
        let claimed = octets.get(15).zip(octets.get(16..24).and_then(|count| count.try_into().ok()));
        let claimed = claimed.map(|(number, count)| (*number, u64::from_be_bytes(count)));
        let is_sent = |(number, count): &(u8, u64)| {
            let is_sender = |place: &&Place| (place.gateway.link.number, place.number) == (link, *number);
            let sender = self.places.iter().find(is_sender);
            sender.is_some_and(|sender| *count <= sender.sent && octets == sdu(link, *number, *count))
        };
        let Some(id) = claimed.filter(|id| is_sent(id) && id.0 != self.places[to].number) else {
            return Err(Wrong::Forged(self.name(to)));
        };
        if !self.places[to].delivered.insert(id) {
            return Err(Wrong::Twice(format!("{}: number {} of {}", self.name(to), id.1, id.0)));
        }
        if self.places[to].gateway.link.is_static {
            self.places[to].unkept.push(id);
        }
        Ok(())
    }

    /// Has a gateway do what its KaY says, and begin anew if it is killed meanwhile.
    fn turn(&mut self, at: usize) -> Result<(), Wrong> {
        let now = instant(self.now);
        let result = self.places[at].gateway.turn(now);
        let sent = result.map_err(|why| Wrong::Impossible(format!("{}: {why}", self.name(at))))?;
        for frame in sent {
            self.send(at, &frame)?;
        }
        let place = &mut self.places[at];
        if place.gateway.take_kept() {
            place.unkept.clear();
        }
        if place.gateway.is_refused() && !place.went_back {
            return Err(Wrong::Refused(self.name(at)));
        }
        if place.gateway.is_killed() {
            self.restart(at);
        }
        Ok(())
    }

    /// Begins anew after a kill, or after a loss of power. The start may end alike.
    fn restart(&mut self, at: usize) {
        let (now, seed) = (instant(self.now), self.chance.octets());
        let power_lost = self.chance.happens(500);
        let place = &mut self.places[at];
        place.disk.restart(power_lost);
        for id in place.unkept.drain(..) {
            place.delivered.remove(&id);
        }
        if self.now < CALM && self.chance.happens(300) {
            place.disk.kill_within(1 + self.chance.below(12));
        }
        place.gateway = Gateway::new(now, place.gateway.link, place.number, &seed, &place.disk);
    }

    fn timers(&mut self) -> Result<(), Wrong> {
        for at in 0..self.places.len() {
            let place = &mut self.places[at];
            let is_due = place.gateway.poll_timeout().is_some_and(|due| micros(due) <= self.now);
            if is_due && place.asleep <= self.now {
                place.disk.set_full(place.full_until > self.now);
                let handled = place.gateway.handle_timeout(instant(self.now));
                handled.map_err(|why| Wrong::Impossible(format!("{}: {why}", self.name(at))))?;
                self.turn(at)?;
            }
        }
        Ok(())
    }

    /// Something happens. Returns when the next fault comes.
    fn fault(&mut self) -> Result<u64, Wrong> {
        self.counts[2] += 1;
        let count = self.places.len() as u64;
        let (at, other) = (self.chance.below(count) as usize, self.chance.below(count) as usize);
        let until = (self.now + self.chance.below(8_000_000)).min(CALM);
        match self.chance.below(7) {
            0 => self.cuts.push((at, other, until)),
            1 => self.cuts.extend([(at, other, until), (other, at, until)]),
            2 => self.places[at].gateway.kill_within(1 + self.chance.below(12)),
            3 => self.places[at].asleep = until,
            4 => self.fail_disk(at, until),
            5 => {
                self.places[at].gateway.rekey(instant(self.now));
                self.turn(at)?;
            }
            _ => {
                for _ in 0..self.chance.below(40).min(self.kept.len() as u64) {
                    let kept = self.chance.below(self.kept.len() as u64) as usize;
                    let frame = self.kept[kept].clone();
                    let to = self.chance.below(count) as usize;
                    self.carried += 1;
                    self.wire.push(Reverse((self.now + WAY, self.carried, to, frame)));
                }
            }
        }
        Ok(self.now + self.chance.below(800_000))
    }

    /// A disk is full for a while, or goes back to what it was long ago, as with an image that somebody restores.
    fn fail_disk(&mut self, at: usize, until: u64) {
        let goes_back = self.chance.happens(100);
        let place = &mut self.places[at];
        if goes_back && place.gateway.link.is_static {
            place.disk.roll_back(&place.image);
            place.went_back = true;
            self.restart(at);
        } else {
            place.full_until = until;
        }
    }

    fn is_healed(&self) -> Result<(), Wrong> {
        for (at, place) in self.places.iter().enumerate() {
            let link = place.gateway.link.number;
            // Whose state cannot be trusted stays away.
            if place.gateway.is_refused() {
                continue;
            }
            let peers = self
                .places
                .iter()
                .filter(|peer| peer.gateway.link.number == link && peer.number != place.number)
                .filter(|peer| !peer.gateway.is_refused());
            for peer in peers {
                // The last one is on its way.
                let expected = peer.healed.unwrap_or(peer.sent)..peer.sent;
                let lost = expected
                    .clone()
                    .filter(|count| !place.delivered.contains(&(peer.number, *count)))
                    .count();
                if lost > 0 || expected.is_empty() {
                    let what =
                        format!("{lost} of {} frames of gateway {} are lost", expected.count(), peer.number);
                    return Err(Wrong::NotHealed(format!("{}: {what}", self.name(at))));
                }
            }
        }
        Ok(())
    }
}
