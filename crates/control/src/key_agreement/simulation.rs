//! Worlds of one link with key agreement, from seeds, on a clock held in the hand: control's own code and the data path of each gateway. Both
//! are threads; here they take their turns in an order that a seed draws, and jobs, MKPDUs and wake-ups wait between them.
//!
//! | may happen for 15 s | |
//! |---|---|
//! | between a gateway's threads | one of them gets no CPU for up to five seconds |
//! | to a gateway | it is killed and starts again; somebody wants another SAK |
//! | to a gateway, at any time | another program goes on in its place (upgrade): in the last two seconds no frame is lost by that either |
//! | on the network | losses, copies, delays, cuts of a direction, frames of before |
//!
//! Judged: no PN comes twice under an SA; nothing but MKPDUs and protected frames is on the network, and no plaintext; what a machine gets was
//! sent, and comes once, over all starts; a worker can do what its control says; 12 s after the last fault all frames arrive.
//! Left out: control's loop around its links, ports that come and go,
//! programs in the kernel, fragments.

mod start;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashSet};
use std::time::{Duration, Instant};

use suite::CipherSuite;
use testkit::{Chance, Speed};

use start::{Plan, Start};

/// The last fault.
const CALM: Duration = Duration::from_secs(15);
/// After it all frames arrive, and the world is watched for a while.
const HEALED: Duration = Duration::from_secs(12);
const WATCHED: Duration = Duration::from_secs(2);
/// Interval between two frames of a machine.
const CYCLE: Duration = Duration::from_millis(50);
/// Turns of control, and of a worker, that nobody wakes.
const CONTROL: Duration = Duration::from_millis(20);
const WORKER: Duration = Duration::from_millis(100);
const WAY: Duration = Duration::from_micros(100);
/// Frames that somebody plays again.
const KEPT: usize = 512;
/// Plaintext that no network may see.
const MARK: &[u8] = b"of the machine alone";
const EAPOL: [u8; 2] = [0x88, 0x8e];
const MACSEC: [u8; 2] = [0x88, 0xe5];

/// A frame of a machine: which one, and its number.
type FrameId = (u8, u64);

struct Gateway {
    number: u8,
    start: Start,
    starts: u32,
    control_at: Duration,
    worker_at: Duration,
    sent: u64,
    delivered: HashSet<FrameId>,
}

/// A frame on its way, in the order of arrival.
type Flight = (Duration, u64, usize, Vec<u8>);

struct World {
    chance: Chance,
    began: Instant,
    now: Duration,
    plan: Plan,
    gateways: Vec<Gateway>,
    wire: BinaryHeap<Reverse<Flight>>,
    carried: u64,
    /// In a thousand, and the longest delay.
    loss: u64,
    copies: u64,
    delay: Duration,
    cuts: Vec<(usize, usize, Duration)>,
    kept: Vec<Vec<u8>>,
    /// Gateway, start, AN, its SA, PN.
    used: HashSet<(usize, u32, u8, u64, u32)>,
    /// Frames that machines sent after the last fault, and when.
    calm: Vec<(FrameId, Duration)>,
    faults: u64,
    /// Upgrades: those that were done.
    upgrades: u64,
}

fn sdu((number, count): FrameId) -> Vec<u8> {
    let addresses = [[0xff; 6], [2, 0, 0, 1, 0, number]].concat();
    [&addresses[..], &[0x88, 0x92, number], &count.to_be_bytes(), MARK, &[0; 20]].concat()
}

fn id(frame: &[u8]) -> Option<FrameId> {
    Some((*frame.get(14)?, u64::from_be_bytes(*frame.get(15..)?.first_chunk()?)))
}

/// A thread that gets no CPU does not wake up: its turn is further away than those that nobody wakes.
impl Gateway {
    fn wake_control(&mut self, now: Duration, at: Duration) {
        if self.control_at <= now + CONTROL {
            self.control_at = self.control_at.min(at);
        }
    }

    fn wake_worker(&mut self, now: Duration, at: Duration) {
        if self.worker_at <= now + WORKER {
            self.worker_at = self.worker_at.min(at);
        }
    }
}

impl World {
    fn new(seed: u64) -> Self {
        let mut chance = Chance::new(seed);
        let plan = Plan {
            suite: chance.pick(&CipherSuite::ALL[..6]),
            delay_protect: chance.happens(300),
            replay_window: chance.pick(&[0, 1, 32, 1000]),
        };
        let mut world = Self {
            began: Instant::now(),
            now: Duration::ZERO,
            plan,
            gateways: vec![],
            wire: BinaryHeap::new(),
            carried: 0,
            loss: chance.pick(&[0, 5, 50, 200]),
            copies: chance.pick(&[0, 20, 100]),
            delay: chance.pick(&[WAY, Duration::from_millis(2), Duration::from_millis(80)]),
            cuts: vec![],
            kept: vec![],
            used: HashSet::new(),
            calm: vec![],
            faults: 0,
            upgrades: 0,
            chance,
        };
        for number in 1..=2 + world.chance.below(2) as u8 {
            let start = world.start(number);
            let (control_at, worker_at) = (Duration::ZERO, Duration::ZERO);
            let (sent, delivered) = (0, HashSet::new());
            world.gateways.push(Gateway { number, start, starts: 0, control_at, worker_at, sent, delivered });
        }
        world
    }

    fn clocks(&self) -> (Instant, wire::Instant) {
        (self.began + self.now, wire::Instant::after_start(Duration::from_secs(1000) + self.now))
    }

    fn start(&mut self, number: u8) -> Start {
        let (now, moment) = self.clocks();
        Start::new(number, self.plan, &self.chance.octets(), now, moment)
    }

    fn name(&self, at: usize) -> String {
        format!("{:.6} s: gateway {}", self.now.as_secs_f64(), self.gateways[at].number)
    }

    /// A short while, as a thread takes to wake up.
    fn soon(&mut self) -> Duration {
        self.now + Duration::from_micros(20 + self.chance.below(2_000))
    }

    fn turn_control(&mut self, at: usize, wish: bool) -> Result<(), String> {
        let ((now, moment), soon) = (self.clocks(), self.soon());
        let gateway = &mut self.gateways[at];
        gateway.control_at = self.now + CONTROL;
        gateway.wake_worker(self.now, soon);
        let done = gateway.start.turn_control(now, moment, wish);
        done.map_err(|why| format!("each part can do what it is told: {}: {why}", self.name(at)))
    }

    fn turn_worker(&mut self, at: usize) -> Result<(), String> {
        let ((now, moment), soon) = (self.clocks(), self.soon());
        let gateway = &mut self.gateways[at];
        gateway.worker_at = self.now + WORKER;
        if gateway.start.turn_worker(now, moment) {
            gateway.wake_control(self.now, soon);
        }
        while let Some(frame) = self.gateways[at].start.wire.collect() {
            self.send(at, frame)?;
        }
        while let Some(frame) = self.gateways[at].start.machine.collect() {
            self.deliver(at, &frame)?;
        }
        Ok(())
    }

    /// A frame leaves a gateway.
    fn send(&mut self, from: usize, frame: Vec<u8>) -> Result<(), String> {
        let ethertype = frame.get(12..14);
        let is_protected = ethertype == Some(&MACSEC);
        let is_known = is_protected || ethertype == Some(&EAPOL);
        if !is_known || frame.windows(MARK.len()).any(|part| part == MARK) {
            return Err(format!("no plaintext on the network: {}", self.name(from)));
        }
        if is_protected {
            let (an, pn) = (frame[14] & 3, u32::from_be_bytes([frame[16], frame[17], frame[18], frame[19]]));
            let Gateway { start, starts, .. } = &self.gateways[from];
            if !self.used.insert((from, *starts, an, start.installed[usize::from(an)], pn)) {
                return Err(format!("no nonce comes twice: {}: PN {pn} of AN {an}", self.name(from)));
            }
        }
        if self.kept.len() < KEPT {
            self.kept.push(frame.clone());
        } else {
            let at = self.chance.below(KEPT as u64) as usize;
            self.kept[at].clone_from(&frame);
        }
        for to in (0..self.gateways.len()).filter(|to| *to != from) {
            self.carry(from, to, &frame);
        }
        Ok(())
    }

    fn carry(&mut self, from: usize, to: usize, frame: &[u8]) {
        let is_calm = self.now >= CALM;
        let is_cut = self.cuts.iter().any(|(a, b, until)| (*a, *b) == (from, to) && self.now < *until);
        if is_cut || (!is_calm && self.chance.happens(self.loss)) {
            return;
        }
        let copies = 1 + usize::from(!is_calm && self.chance.happens(self.copies));
        for _ in 0..copies {
            let late = if is_calm { 0 } else { self.chance.below(self.delay.as_micros().max(1) as u64) };
            self.arrive(self.now + WAY + Duration::from_micros(late), to, frame.to_vec());
        }
    }

    fn arrive(&mut self, at: Duration, to: usize, frame: Vec<u8>) {
        self.carried += 1;
        self.wire.push(Reverse((at, self.carried, to, frame)));
    }

    /// A machine gets a frame.
    fn deliver(&mut self, to: usize, frame: &[u8]) -> Result<(), String> {
        let sender = id(frame).and_then(|id| Some((id, self.gateways.iter().find(|of| of.number == id.0)?)));
        let sent = sender
            .filter(|(id, of)| of.number != self.gateways[to].number && id.1 <= of.sent && sdu(*id) == frame);
        let Some((id, _)) = sent else {
            return Err(format!("only what was sent is delivered: {}: {frame:02x?}", self.name(to)));
        };
        if !self.gateways[to].delivered.insert(id) {
            return Err(format!("no frame is delivered twice: {}: {id:?}", self.name(to)));
        }
        Ok(())
    }

    fn fault(&mut self) -> Result<(), String> {
        self.faults += 1;
        let count = self.gateways.len() as u64;
        let (at, other) = (self.chance.below(count) as usize, self.chance.below(count) as usize);
        let until = (self.now + Duration::from_millis(self.chance.below(5_000))).min(CALM);
        match self.chance.below(6) {
            0 => self.cuts.push((at, other, until)),
            1 => self.gateways[at].control_at = until,
            2 => self.gateways[at].worker_at = until,
            3 => {
                let start = self.start(self.gateways[at].number);
                let gateway = &mut self.gateways[at];
                (gateway.start, gateway.starts) = (start, gateway.starts + 1);
                (gateway.control_at, gateway.worker_at) = (self.now, self.now);
            }
            4 => self.turn_control(at, true)?,
            _ => {
                for _ in 0..self.chance.below(40).min(self.kept.len() as u64) {
                    let frame = self.kept[self.chance.below(self.kept.len() as u64) as usize].clone();
                    let to = self.chance.below(count) as usize;
                    self.arrive(self.now + WAY, to, frame);
                }
            }
        }
        Ok(())
    }

    /// Another program goes on in the place of a gateway's.
    fn upgrade(&mut self) -> Result<(), String> {
        let at = self.chance.below(self.gateways.len() as u64) as usize;
        let (clocks, seed, plan) = (self.clocks(), self.chance.octets(), self.plan);
        let gateway = &mut self.gateways[at];
        let upgraded = gateway.start.upgrade(gateway.number, plan, &seed, clocks);
        self.upgrades += u64::from(upgraded.map_err(|why| format!("it goes on: {}: {why}", self.name(at)))?);
        Ok(())
    }

    fn machines(&mut self) {
        let soon = self.soon();
        for gateway in &mut self.gateways {
            gateway.sent += 1;
            let id = (gateway.number, gateway.sent);
            if gateway.start.machine.inject(&sdu(id)) && self.now >= CALM {
                self.calm.push((id, self.now));
            }
            gateway.wake_worker(self.now, soon);
        }
    }

    fn run(mut self) -> Result<[u64; 4], String> {
        let end = CALM + HEALED + WATCHED;
        let (mut cycle, mut fault, mut upgrade) = (Duration::ZERO, Duration::ZERO, Duration::ZERO);
        loop {
            let turns = self.gateways.iter().flat_map(|of| [of.control_at, of.worker_at]);
            let flight = self.wire.peek().map(|Reverse((at, ..))| *at);
            self.now = turns.chain(flight).chain([cycle, fault, upgrade]).min().unwrap_or(end).max(self.now);
            if self.now >= end {
                break;
            }
            if fault <= self.now {
                fault = Duration::MAX;
                if self.now < CALM {
                    self.fault()?;
                    fault = self.now + Duration::from_millis(self.chance.below(800));
                }
            }
            if upgrade <= self.now {
                self.upgrade()?;
                upgrade = self.now + Duration::from_millis(self.chance.below(2_000));
            }
            if cycle <= self.now {
                cycle = self.now + CYCLE;
                self.machines();
            }
            while self.wire.peek().is_some_and(|Reverse((at, ..))| *at <= self.now)
                && let Some(Reverse((_, _, to, frame))) = self.wire.pop()
            {
                // One that finds its port full is lost.
                self.gateways[to].start.wire.inject(&frame);
                self.gateways[to].wake_worker(self.now, self.now);
            }
            for at in 0..self.gateways.len() {
                if self.gateways[at].worker_at <= self.now {
                    self.turn_worker(at)?;
                }
                if self.gateways[at].control_at <= self.now {
                    self.turn_control(at, false)?;
                }
            }
        }
        let sent = self.calm.iter().filter(|(_, at)| *at >= CALM + HEALED && *at < end - 2 * CYCLE);
        for (id, at) in sent {
            let lost = self.gateways.iter().find(|of| of.number != id.0 && !of.delivered.contains(id));
            if let Some(of) = lost {
                return Err(format!("outages heal: {at:?}: {id:?} has not come to gateway {}", of.number));
            }
        }
        let delivered = self.gateways.iter().map(|of| of.delivered.len() as u64).sum();
        Ok([self.used.len() as u64, delivered, self.faults, self.upgrades])
    }
}

#[test]
fn whatever_happens_between_control_and_workers_nothing_comes_twice_and_all_heals() {
    let speed = Speed::begin();
    let seeds = testkit::seeds(200);
    let (mut sums, mut wrong, count) = ([0; 4], 0, seeds.end - seeds.start);
    for seed in seeds {
        match World::new(seed).run() {
            Ok(counts) => sums.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count),
            Err(why) => {
                println!("control, seed {seed}: NOT SO: {why}\n  again: FRAMEWARD_SEED={seed}");
                wrong += 1;
            }
        }
    }
    let [protected, delivered, faults, upgrades] = sums;
    println!(
        "control, {count} seeds: {protected} frames protected, {delivered} delivered, {faults} faults, {upgrades} upgrades; {}",
        speed.of((CALM + HEALED + WATCHED) * count as u32)
    );
    assert_eq!(wrong, 0, "see above");
    assert!(delivered > 0 && faults > 0 && upgrades > 0);
}

#[test]
fn a_seed_is_the_same_world_again() {
    let [one, again, other] = [7, 7, 8].map(|seed| World::new(seed).run());
    assert_eq!(one, again);
    assert_ne!(one, other);
}
