//! Gateways killed at random moments under traffic: no PN comes twice on the wire, over all lives, and what was
//! accepted more than a second before a kill is not accepted after it.
//!
//! `kill -9` loses nothing that was written: what a loss of power does is tested on the store (`pnstore`).
//!
//! A round: traffic both ways; at a random moment A, B or both are killed; the traffic stops; sometimes a start is
//! killed too, half-way; they start again; an attacker in the middle sends recorded frames; the traffic goes on.
//! `FRAMEWARD_KILLS` is the number of rounds, `FRAMEWARD_KILL_SEED` repeats the choices of a run that failed.

use std::collections::BTreeSet;
use std::sync::RwLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime};

use lab::topology::{Gateway, LEFT, RIGHT};
use lab::{Capture, Direction, Machine, PacketSocket, Shape, Topology};
use nix::sys::signal::Signal;
use perf::demo::pair::{Choice, Pair, Scratch, Station, configure};
use report::GatewayReport;
use testkit::frames::{ethernet, payload};
use wire::{EtherType, MacAddr};

use super::{DEADLINE, EXPERIMENT, MARKER, counter, exchange, lab, program, wait_for};

/// Rounds of a usual run: a minute.
const USUAL_KILLS: u32 = 20;

/// Time before a kill whose frames may be accepted again.
const PROMISE: Duration = Duration::from_secs(1);

/// Time that a gateway may take from reading floors to having written them. If the last ones were written longer ago
/// than this allows for, the machine was too busy to keep the promise, and the gateway's own word counts.
const WRITE: Duration = Duration::from_millis(250);

/// Frames replayed after a kill: the newest that must be refused, and others of any age.
const REPLAYED: usize = 48;

/// SplitMix64.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        let octets = payload(8, self.0).try_into().unwrap();
        self.0 = u64::from_le_bytes(octets);
        (self.0 % bound as u64) as usize
    }

    fn between(&mut self, low: u64, high: u64) -> Duration {
        Duration::from_millis(low + self.below((high - low) as usize) as u64)
    }
}

/// One direction: what it carries, where it is recorded, delivered and attacked.
struct Way {
    /// The receiving gateway: 0 is A, 1 is B.
    receiver: usize,
    wire: Capture,
    machine: Capture,
    attacker: PacketSocket,
    /// Index of the first frame of this round in both captures.
    round: [usize; 2],
    /// Frames that must be refused for ever.
    used: Vec<Vec<u8>>,
}

impl Way {
    fn new(topology: &Topology, receiver: usize) -> Self {
        let to = [&topology.machine_a, &topology.machine_b][receiver];
        let ports = [LEFT, RIGHT];
        Self {
            receiver,
            wire: Capture::start(&topology.middle, ports[1 - receiver]).unwrap(),
            machine: Capture::start(&to.namespace, to.ifname).unwrap(),
            attacker: PacketSocket::open(&topology.middle, ports[receiver]).unwrap(),
            round: [0; 2],
            used: Vec::new(),
        }
    }

    /// Takes up what was accepted in this round until `cutoff`: of n frames that the machine had got by then, the n
    /// first on the wire. Returns how many.
    fn take_up(&mut self, cutoff: Option<Instant>) -> usize {
        let machine = self.machine.since(self.round[1]);
        let delivered =
            machine.iter().filter(|frame| is_delivered(frame) && Some(frame.at) <= cutoff).count();
        let wire = self.wire.since(self.round[0]);
        self.round[0] += wire.len();
        self.round[1] += machine.len();
        let sent = wire.into_iter().filter(is_sent).take(delivered);
        self.used.extend(sent.map(|frame| frame.octets));
        delivered
    }

    /// Sends recorded frames to the gateway, that has just started, and sees each refused.
    fn attack(&mut self, station: &Station, random: &mut Random) {
        let newest = self.used.iter().rev().take(REPLAYED);
        let some = (0..REPLAYED.min(self.used.len())).map(|_| random.below(self.used.len()));
        let some: Vec<_> = some.map(|at| &self.used[at]).collect();
        let before = self.machine.since(self.round[1]).len();
        let mut sent = 0;
        // No more at once than the smallest queue on the way holds; what is lost all the same is not judged.
        for frames in newest.chain(some).collect::<Vec<_>>().chunks(32) {
            for frame in frames {
                self.attacker.send(frame).unwrap();
            }
            sent += frames.len() as u64;
            let begin = Instant::now();
            // A busy machine may take its time for those that must be judged, and some may be lost.
            let patience = |late| if late < sent * 9 / 10 { DEADLINE } else { Duration::from_secs(1) };
            loop {
                let late = judged(station)[1];
                if late >= sent || begin.elapsed() > patience(late) {
                    break;
                }
                std::thread::sleep(Duration::from_millis(5));
            }
        }
        let [accepted, late] = judged(station);
        assert_eq!(accepted, 0, "of {sent} replayed frames, {late} were late");
        assert!(late >= sent * 9 / 10, "only {late} of {sent} replayed frames were judged");
        let after = self.machine.since(self.round[1]);
        assert!(!after[before..].iter().any(is_delivered), "a replayed frame reached the machine");
    }
}

/// Accepted, and refused as late.
fn judged(station: &Station) -> [u64; 2] {
    let report = station.report().unwrap();
    let counters = &report.links[0].secy.receive[0].counters;
    ["InPktsOK", "InPktsLate"].map(|name| counter(counters, name))
}

fn is_sent(frame: &lab::Frame) -> bool {
    frame.direction == Direction::In && frame.ethertype() == Some(EtherType::MACSEC.0)
}

fn is_delivered(frame: &lab::Frame) -> bool {
    frame.direction == Direction::In && frame.contains(MARKER)
}

/// Until when what was accepted must be refused, for a gateway that was killed at `kill`: a second before, or what the
/// last floors cover if the machine was too busy for that. And whether it was in time.
fn cutoff(pair: &Pair, gateway: usize, kill: Instant) -> (Option<Instant>, bool) {
    let floors = pair.scratch.path().join(["state-a", "state-b"][gateway]).join("floors");
    let written = std::fs::metadata(floors).unwrap().modified().unwrap();
    let age = SystemTime::now().duration_since(written).unwrap_or_default();
    let (promised, covered) = (kill.checked_sub(PROMISE), Instant::now().checked_sub(age + WRITE));
    (promised.min(covered), promised <= covered)
}

fn kill(station: &mut Station) {
    station.program().signal(Signal::SIGKILL).unwrap();
    let end = Instant::now() + DEADLINE;
    while station.program().is_running() {
        assert!(Instant::now() < end, "a killed gateway does not end");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Starts a gateway and kills it before it can be ready.
fn start_in_vain(pair: &Pair, topology: &Topology, gateway: usize, after: Duration) {
    let name = ["a.toml", "b.toml"][gateway];
    let home = [&topology.gateway_a, &topology.gateway_b][gateway];
    let config = pair.scratch.path().join(name).display().to_string();
    let runtime = format!("FRAMEWARD_RUNTIME_DIR={}", pair.scratch.path().join("run").display());
    let frameward = program().display().to_string();
    let mut program =
        home.namespace.spawn(&["env", &runtime, &frameward, "run", "--keep-user", &config]).unwrap();
    std::thread::sleep(after);
    program.signal(Signal::SIGKILL).unwrap();
    while program.is_running() {
        std::thread::sleep(Duration::from_millis(2));
    }
}

fn restart(pair: &mut Pair, topology: &Topology, gateway: usize) {
    let home = [&topology.gateway_a, &topology.gateway_b][gateway];
    let name = ["a", "b"][gateway];
    let started = Station::start(program(), &home.namespace, &pair.scratch, name).unwrap();
    *station(pair, gateway) = started;
}

fn station(pair: &mut Pair, gateway: usize) -> &mut Station {
    match gateway {
        0 => &mut pair.a,
        _ => &mut pair.b,
    }
}

/// A frame of one machine for the other that no other frame is like.
fn numbered(from: &Machine, to: &Machine, number: u64) -> Vec<u8> {
    let text = [&MARKER[..], &number.to_be_bytes(), &[0x5a; 60]].concat();
    ethernet(MacAddr(to.mac), MacAddr(from.mac), EXPERIMENT, &text)
}

/// Octets of [`numbered`] that have the number.
const NUMBER: std::ops::Range<usize> = 30..38;

/// Sends frames whenever nobody holds the gate shut.
fn send(from: &Machine, to: &Machine, gate: &RwLock<()>, stop: &AtomicBool) {
    let socket = PacketSocket::open(&from.namespace, from.ifname).unwrap();
    let mut number = 0;
    while !stop.load(Ordering::Relaxed) {
        let open = gate.read().unwrap();
        socket.send(&numbered(from, to, number)).unwrap();
        drop(open);
        number += 1;
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// No (SCI, PN) twice among what gateways sent; there is one key for each SCI.
fn assert_no_pn_twice(capture: Capture, seen: &mut BTreeSet<[u8; 12]>) {
    let captured = capture.stop().unwrap().complete().unwrap();
    for frame in captured.frames.iter().filter(|frame| is_sent(frame)) {
        // PN 4, SCI 8.
        let nonce: [u8; 12] = frame.octets[16..28].try_into().unwrap();
        assert!(seen.insert(nonce), "PN and SCI {nonce:02x?} twice");
    }
}

fn number_from(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{variable} is no number")))
}

#[test]
fn killed_gateways_repeat_no_pn_and_take_no_replay() {
    let rounds = number_from("FRAMEWARD_KILLS").map_or(USUAL_KILLS, |rounds| rounds as u32);
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
    let seed = number_from("FRAMEWARD_KILL_SEED").unwrap_or(now.as_millis() as u64);
    eprintln!("FRAMEWARD_KILLS={rounds} FRAMEWARD_KILL_SEED={seed}");
    let mut random = Random(seed);
    // A window of seconds, since a crash forgets which of its PNs were seen.
    let (topology, mut pair) =
        lab(&Shape::default(), &Choice { link: "replay_window = 4096", ..Choice::default() });
    let mut ways = [0, 1].map(|receiver| Way::new(&topology, receiver));
    let (gate, stop) = (RwLock::new(()), AtomicBool::new(false));
    let (mut lives, mut in_time, mut refused) = (0, 0, 0);
    let (a, b) = (&topology.machine_a, &topology.machine_b);
    std::thread::scope(|scope| {
        // Ends the senders also when an assertion fails.
        let _guard = StopAtEnd(&stop);
        scope.spawn(|| send(a, b, &gate, &stop));
        scope.spawn(|| send(b, a, &gate, &stop));
        // A busy machine brings floors to disk late; what they promise needs rounds in which they were in time.
        let mut round = 0;
        while round < rounds || (in_time < rounds / 2 && round < 4 * rounds) {
            std::thread::sleep(random.between(1050, 1750));
            let killed: &[usize] = [&[0][..], &[1], &[0, 1]][random.below(3)];
            let mut shut = None;
            let mut cutoffs = [None; 2];
            for &gateway in killed {
                let at = Instant::now();
                kill(station(&mut pair, gateway));
                shut.get_or_insert_with(|| gate.write().unwrap());
                let (cutoff, timely) = cutoff(&pair, gateway, at);
                (cutoffs[gateway], lives, in_time) = (cutoff, lives + 1, in_time + u32::from(timely));
            }
            for way in &mut ways {
                refused += way.take_up(cutoffs[way.receiver]);
            }
            for &gateway in killed {
                if random.below(4) == 0 {
                    start_in_vain(&pair, &topology, gateway, random.between(0, 80));
                }
                restart(&mut pair, &topology, gateway);
            }
            for way in ways.iter_mut().filter(|way| killed.contains(&way.receiver)) {
                way.attack(station(&mut pair, way.receiver), &mut random);
            }
            drop(shut);
            eprintln!("round {round}: killed {killed:?}");
            round += 1;
        }
        std::thread::sleep(Duration::from_millis(200));
    });
    // Everything was at work until the end.
    for way in &mut ways {
        assert!(way.take_up(Some(Instant::now())) > 0, "nothing passes to gateway {}", way.receiver);
    }
    pair.stop().unwrap();
    eprintln!("{lives} lives, floors in time at {in_time} of their ends, {refused} frames had to be refused");
    assert!(in_time >= rounds / 2, "floors were in time at {in_time} of {lives} ends");
    let mut seen = BTreeSet::new();
    for Way { wire, machine, .. } in ways {
        assert_no_pn_twice(wire, &mut seen);
        let delivered = machine.stop().unwrap().complete().unwrap();
        let mut numbers = BTreeSet::new();
        for frame in delivered.frames.iter().filter(|frame| is_delivered(frame)) {
            assert!(numbers.insert(&frame.octets[NUMBER]), "a machine got a frame twice");
        }
    }
    assert!(seen.len() > 100 * rounds as usize, "only {} frames were sent", seen.len());
}

/// Ends the senders when it goes.
struct StopAtEnd<'s>(&'s AtomicBool);

impl Drop for StopAtEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Effect of `replay_floor = "off"`; and the attack of the test above would be seen if it had success.
#[test]
fn without_a_floor_what_was_recorded_is_accepted_again() {
    let topology = Topology::build(&Shape::default()).unwrap();
    let scratch = Scratch::new().unwrap();
    configure(&scratch, &Choice::default()).unwrap();
    let config = std::fs::read_to_string(scratch.path().join("b.toml")).unwrap();
    scratch.write("b.toml", &(config + "replay_floor = \"off\"\n")).unwrap();
    let start = |home: &Gateway, name| Station::start(program(), &home.namespace, &scratch, name).unwrap();
    let (a, mut b) = (start(&topology.gateway_a, "a"), start(&topology.gateway_b, "b"));
    let (from, to) = (&topology.machine_a, &topology.machine_b);
    let wire = Capture::start(&topology.middle, LEFT).unwrap();
    let frames: Vec<_> = (0..20).map(|number| numbered(from, to, number)).collect();
    exchange(from, to, &frames);
    kill(&mut b);
    let b = start(&topology.gateway_b, "b");
    let attacker = PacketSocket::open(&topology.middle, RIGHT).unwrap();
    let recorded = wire.stop().unwrap().complete().unwrap();
    for frame in recorded.frames.iter().filter(|frame| is_sent(frame)) {
        attacker.send(&frame.octets).unwrap();
    }
    let received = |report: &GatewayReport| counter(&report.links[0].secy.receive[0].counters, "InPktsOK");
    wait_for(|| b.report().unwrap(), 20, received);
    a.stop().unwrap();
    b.stop().unwrap();
}
