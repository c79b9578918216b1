//! Replay floors through control, worker and disk: what was received before a crash is refused after it. A crash is a
//! copy of the state directory made while the gateway runs.
//!
//! ```text
//!  test: frames of a peer ──▶ protected [link] plain ──▶ what is delivered
//! ```

#![allow(clippy::unwrap_used)] // a test's own set-up fails loudly

use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, UNIX_EPOCH};

use control::{FLOOR_PERIOD, Gateway, Notice, ReceiveFloor, StaticKeys, TransmitLease};
use dataplane::link::Link;
use dataplane::pipeline::Pipeline as Frames;
use dataplane::worker::Polling;
use netdev::memory::MemoryPort;
use netdev::pool::{ChunkOctets, Pool};
use netdev::scheduling::Scheduling;
use pnstore::{BLOCK_PNS, LeaseName, LeaseStore, Reservation};
use secy::{
    ClearVlan, ConfidentialityOffset, Frame, Outgoing, Protection, ReceiveSa, SciInclusion, SecY, Settings,
    TransmitSa, ValidateFrames, XpnBinding,
};
use suite::{CipherSuite, Key, Sak, Salt};
use testkit::frames::{ethernet, payload};
use wire::{An, EtherType, MacAddr, Pn, Sci, Ssci};

const PROTECTION: Protection = Protection::Encrypt(ConfidentialityOffset::Zero);
const OWN: (Sci, [u8; 16]) = (Sci::new(MacAddr([2, 0, 0, 0, 0, 1]), 1), [1; 16]);
const PEERS: [(Sci, [u8; 16]); 2] = [
    (Sci::new(MacAddr([2, 0, 0, 0, 0, 2]), 1), [2; 16]),
    (Sci::new(MacAddr([2, 0, 0, 0, 0, 3]), 1), [3; 16]),
];
const DEADLINE: Duration = Duration::from_secs(60);

fn an() -> An {
    An::ALL[0]
}

fn key(suite: CipherSuite, octets: &[u8; 16]) -> Key {
    Key::prepare(suite, &Sak::new(suite, octets).unwrap()).unwrap()
}

fn xpn(suite: CipherSuite, sci: Sci) -> Option<XpnBinding> {
    let ssci = Ssci(sci.octets()[5].into());
    suite.is_xpn().then_some(XpnBinding { ssci, salt: Salt([7; 12]) })
}

fn name(suite: CipherSuite, (sci, key): &(Sci, [u8; 16])) -> LeaseName {
    xpn(suite, *sci).map_or_else(|| LeaseName::new(key, *sci), |binding| LeaseName::xpn(key, binding.ssci))
}

fn secy(suite: CipherSuite, own: &(Sci, [u8; 16]), first: Pn) -> SecY {
    let settings = Settings {
        protect_frames: true,
        sci_inclusion: SciInclusion::Always,
        validate_frames: ValidateFrames::Strict,
        replay_protect: true,
        clear_vlan: ClearVlan::Refuse,
        reassemble: false,
        mtu: 1532,
    };
    let mut secy = SecY::new(own.0, settings);
    let sa =
        TransmitSa::new(an(), key(suite, &own.1), xpn(suite, own.0), PROTECTION, first, Pn::LAST_64).unwrap();
    secy.install_transmit(Box::new(sa)).unwrap();
    secy.enable_transmit(an()).unwrap();
    secy
}

/// A peer that has sent the PNs below `first`.
struct Peer(SecY);

impl Peer {
    fn new(suite: CipherSuite, number: usize, first: u64) -> Self {
        Self(secy(suite, &PEERS[number], Pn::new(first).unwrap()))
    }

    fn send(&mut self) -> Vec<u8> {
        let sdu = ethernet(OWN.0.system(), self.0.sci().system(), EtherType::IPV4, &payload(60, 5));
        let mut chunk = vec![0; 256];
        chunk[32..32 + sdu.len()].copy_from_slice(&sdu);
        let mut outgoing = [Outgoing::new(Frame::new(&mut chunk, 32, sdu.len()).unwrap())];
        self.0.protect(&mut outgoing);
        outgoing[0].frame().octets().to_vec()
    }
}

/// A directory that goes with the test.
struct Scratch(PathBuf);

impl Scratch {
    fn new(test: &str) -> Self {
        let path = std::env::temp_dir().join(format!("fw-floors-{}-{test}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Copy of the state that a crash leaves: each file as it is on disk.
fn crashed(state: &Path, number: u32) -> PathBuf {
    let copy = state.with_file_name(format!("crashed-{number}"));
    std::fs::create_dir(&copy).unwrap();
    for file in ["leases", "floors", "leases.created"] {
        std::fs::copy(state.join(file), copy.join(file)).unwrap();
    }
    copy
}

/// A gateway that receives from both peers.
struct Receiver {
    gateway: Gateway,
    machine: MemoryPort,
    wire: MemoryPort,
    delivered: usize,
}

impl Receiver {
    fn start(state: &Path, suite: CipherSuite, window: u32) -> Self {
        let mut leases = LeaseStore::open(state, None).unwrap();
        let (own, last) = (name(suite, &OWN), suite.last_pn());
        let Reservation::Block(block) = leases.reserve(own, last, BLOCK_PNS).unwrap() else {
            panic!("no lease")
        };
        let lease = TransmitLease { name: own, an: an(), last, through: block.last };
        let mut secy = secy(suite, &OWN, block.first);
        let mut floors = Vec::new();
        for peer in &PEERS {
            let floor = ReceiveFloor { name: name(suite, peer), sci: peer.0, an: an() };
            let lowest = leases.floor(floor.name);
            let sa =
                ReceiveSa::new(an(), key(suite, &peer.1), xpn(suite, peer.0), PROTECTION, lowest, window)
                    .unwrap();
            secy.install_receive_sc(peer.0).unwrap();
            secy.install_receive(peer.0, Box::new(sa)).unwrap();
            secy.enable_receive(peer.0, an()).unwrap();
            floors.push(floor);
        }
        let (machine, plain) = MemoryPort::pair(256);
        let (wire, protected) = MemoryPort::pair(256);
        let pool = Pool::new(ChunkOctets::Octets2048, 256).unwrap();
        let pipeline = Frames::new(secy, &[], None);
        let link = Link::new(pool, Box::new(plain), Box::new(protected), pipeline);
        let mut gateway = Gateway::new(leases, Polling::Busy, Scheduling::Ordinary).unwrap();
        gateway
            .add("press".into(), link, StaticKeys { transmit: lease, express: None, receive: floors })
            .unwrap();
        Self { gateway, machine, wire, delivered: 0 }
    }

    /// Gives it frames, and says how many of them were delivered when all have been judged.
    fn offer<'f>(&mut self, frames: impl IntoIterator<Item = &'f Vec<u8>>) -> usize {
        let before = self.delivered;
        for frame in frames {
            let judged = self.judged();
            assert!(self.wire.inject(frame));
            let start = Instant::now();
            while self.judged() == judged {
                assert!(start.elapsed() < DEADLINE, "a frame was not judged");
            }
        }
        self.delivered - before
    }

    /// Frames that have been delivered, or discarded as late, duplicate or not valid.
    fn judged(&mut self) -> u64 {
        while self.machine.collect().is_some() {
            self.delivered += 1;
        }
        // A worker that gets no CPU for a second is left out of a report: it is asked again.
        let mut answers = std::iter::repeat_with(|| self.gateway.snapshots()).take(60);
        let snapshot = answers.find_map(|mut all| all.pop()).expect("the worker answers").1;
        let scs = &snapshot.receive_scs;
        let late = scs.iter().map(|sc| sc.counters.in_pkts_late + sc.counters.in_pkts_duplicate);
        let not_valid = scs.iter().map(|sc| sc.counters.in_pkts_not_valid);
        late.sum::<u64>() + not_valid.sum::<u64>() + self.delivered as u64
    }

    /// Lets it believe that the time for the next floors has come.
    fn keep(&mut self, periods: u32) -> Vec<Notice> {
        let now = Instant::now() + FLOOR_PERIOD * periods;
        let mut notices = self.gateway.turn(now);
        // Work that was asked for before is done when this is.
        self.gateway.on_disk(|_| ()).unwrap();
        notices.extend(self.gateway.turn(now));
        notices
    }
}

#[test]
fn what_was_received_before_the_last_floors_is_refused_after_a_crash() {
    for (suite, window, first) in [
        (CipherSuite::GcmAes128, 0, 1),
        (CipherSuite::GcmAes128, 64, 1),
        (CipherSuite::GcmAes128, 64, 0xffff_ff00),
        (CipherSuite::GcmAesXpn128, 0, 1),
        (CipherSuite::GcmAesXpn128, 1000, (1 << 32) - 20),
        (CipherSuite::GcmAesXpn128, 64, (7 << 32) - 50),
    ] {
        let scratch = Scratch::new("crash");
        let state = scratch.0.join("state");
        // The receiver of an XPN suite has to have followed its peer until here.
        if suite.is_xpn() {
            let floors = PEERS.map(|peer| (name(suite, &peer), Pn::new(first).unwrap()));
            LeaseStore::open(&state, None).unwrap().keep_floors(&floors).unwrap();
        }
        let mut peers = [0, 1].map(|number| Peer::new(suite, number, first));
        let mut receiver = Receiver::start(&state, suite, window);
        let mut recorded: Vec<_> = (0..80).map(|number| peers[number % 2].send()).collect();
        // One is overtaken and still under way when the floors are read.
        let late = recorded.remove(70);
        assert_eq!(receiver.offer(&recorded), 79);
        let notices = receiver.keep(1);
        assert!(!notices.iter().any(|notice| matches!(notice, Notice::FloorsFailed { .. })), "{notices:?}");
        let last_second: Vec<_> = (0..4).map(|number| peers[number % 2].send()).collect();
        assert_eq!(receiver.offer(&last_second), 4);

        let mut restarted = Receiver::start(&crashed(&state, 1), suite, window);
        assert_eq!(restarted.offer(&recorded), 0, "{suite}, window {window}: a replay was delivered");
        assert_eq!(restarted.offer([&late]), 0, "below the floor, whatever the window");
        let new: Vec<_> = (0..4).map(|number| peers[number % 2].send()).collect();
        assert_eq!(restarted.offer(&new), 4, "{suite}, window {window}: what is new passes");
        restarted.gateway.stop().unwrap();
        receiver.gateway.stop().unwrap();
    }
}

#[test]
fn a_stop_keeps_all_that_was_received() {
    let scratch = Scratch::new("stop");
    let state = scratch.0.join("state");
    let suite = CipherSuite::GcmAes128;
    let mut peer = Peer::new(suite, 1, 1);
    let recorded: Vec<_> = (0..40).map(|_| peer.send()).collect();
    for life in 0..2 {
        let mut receiver = Receiver::start(&state, suite, 64);
        assert_eq!(receiver.offer(&recorded), if life == 0 { 40 } else { 0 });
        receiver.gateway.stop().unwrap();
    }
    assert_eq!(LeaseStore::open(&state, None).unwrap().floor(name(suite, &PEERS[1])).number(), 41);
}

#[test]
fn nothing_is_written_while_nothing_is_received() {
    let scratch = Scratch::new("still");
    let state = scratch.0.join("state");
    let suite = CipherSuite::GcmAes128;
    let mut receiver = Receiver::start(&state, suite, 0);
    let mut peer = Peer::new(suite, 0, 1);
    // Whether the file was written since this was asked last: two writes can have the same time, so it is set back.
    let floors = state.join("floors");
    let written = || {
        let file = File::options().write(true).open(&floors).unwrap();
        let written = file.metadata().unwrap().modified().unwrap() != UNIX_EPOCH;
        file.set_modified(UNIX_EPOCH).unwrap();
        written
    };
    assert!(written(), "at the start");
    assert_eq!(receiver.offer([&peer.send()]), 1);
    receiver.keep(1);
    assert!(written());
    for periods in 2..5 {
        receiver.keep(periods);
        assert!(!written(), "after {periods} periods");
    }
    assert_eq!(receiver.offer([&peer.send()]), 1);
    receiver.keep(6);
    assert!(written());
}

/// The next start judges the state's age by the heartbeat, if the configuration has static keys; their link may have waited for its
/// interfaces all the time.
#[test]
fn the_heartbeat_is_kept_while_no_link_with_static_keys_is_there() {
    for keeps in [false, true] {
        let scratch = Scratch::new("heartbeat");
        let state = scratch.0.join("state");
        let mut leases = LeaseStore::open(&state, None).unwrap();
        // Something is to be written, as when the heartbeat is a minute old.
        std::fs::create_dir(state.join("floors.new")).unwrap();
        let floor = (name(CipherSuite::GcmAes128, &PEERS[0]), Pn::new(7).unwrap());
        leases.keep_floors(&[floor]).unwrap_err();
        std::fs::remove_dir(state.join("floors.new")).unwrap();
        let mut gateway = Gateway::new(leases, Polling::Interrupt, Scheduling::Ordinary).unwrap();
        gateway.keep_heartbeat(keeps);
        assert!(gateway.turn(Instant::now() + FLOOR_PERIOD).is_empty());
        gateway.on_disk(|_| ()).unwrap();
        let kept = LeaseStore::open(&crashed(&state, 1), None).unwrap().floor(floor.0).number();
        assert_eq!(kept, if keeps { 7 } else { 1 });
        gateway.stop().unwrap();
    }
}

#[test]
fn floors_that_cannot_be_written_are_told_once_a_minute_and_links_go_on() {
    let scratch = Scratch::new("full");
    let state = scratch.0.join("state");
    let suite = CipherSuite::GcmAes128;
    let mut receiver = Receiver::start(&state, suite, 0);
    let mut peer = Peer::new(suite, 0, 1);
    // Root may write everywhere, but no file in the place of a directory.
    std::fs::create_dir(state.join("floors.new")).unwrap();
    let mut told = 0;
    for periods in 1..=100 {
        assert_eq!(receiver.offer([&peer.send()]), 1, "links go on");
        let notices = receiver.keep(periods);
        told += notices.iter().filter(|notice| matches!(notice, Notice::FloorsFailed { .. })).count();
    }
    assert_eq!(told, 2, "100 periods are 75 s");
    std::fs::remove_dir(state.join("floors.new")).unwrap();
    receiver.keep(101);
    assert_eq!(
        LeaseStore::open(&crashed(&state, 1), None).unwrap().floor(name(suite, &PEERS[0])).number(),
        101
    );
}

#[test]
fn floors_that_come_late_are_told() {
    let scratch = Scratch::new("late");
    let mut receiver = Receiver::start(&scratch.0.join("state"), CipherSuite::GcmAes128, 0);
    let late = |notices: &[Notice]| {
        notices
            .iter()
            .any(|notice| matches!(notice, Notice::FloorsLate { open } if *open > Duration::from_secs(1)))
    };
    assert!(late(&receiver.keep(3)), "control was away for two periods");
}

/// A disk that really blocks: the next file of the floors is a FIFO that nobody reads, so whoever opens it for writing
/// sleeps.
#[test]
fn the_promise_is_watched() {
    let scratch = Scratch::new("blocks");
    let state = scratch.0.join("state");
    let mut receiver = Receiver::start(&state, CipherSuite::GcmAes128, 0);
    let mut peer = Peer::new(CipherSuite::GcmAes128, 0, 1);
    let fifo = state.join("floors.new");
    let made = std::process::Command::new("mkfifo").arg(&fifo).status().unwrap();
    assert!(made.success());
    let (begin, mut notices, mut longest) = (Instant::now(), Vec::new(), Duration::ZERO);
    while !notices.iter().any(|notice| matches!(notice, Notice::DiskSilent { .. })) {
        assert!(begin.elapsed() < DEADLINE, "nobody notices: {notices:?}");
        assert_eq!(receiver.offer([&peer.send()]), 1, "links go on");
        let turn = Instant::now();
        notices.extend(receiver.gateway.turn(turn));
        longest = longest.max(turn.elapsed());
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(longest < Duration::from_secs(1), "control waited for {longest:?}");
    // Now somebody reads. What was written there has come to nothing, and the next write has its way.
    let reader = File::open(&fifo).unwrap();
    std::fs::remove_file(&fifo).unwrap();
    let late =
        |notice: &Notice| matches!(notice, Notice::FloorsLate { open } if *open >= Duration::from_secs(2));
    while !notices.iter().any(late) {
        assert!(begin.elapsed() < 2 * DEADLINE, "nobody says that floors came late: {notices:?}");
        notices.extend(receiver.gateway.turn(Instant::now()));
        std::thread::sleep(Duration::from_millis(20));
    }
    drop(reader);
    assert!(notices.iter().any(|notice| matches!(notice, Notice::DiskAnswers { .. })));
    receiver.gateway.stop().unwrap();
}
