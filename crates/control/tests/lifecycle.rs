//! Links that come, change and go while others forward; ports that come and go while their SecY lives on. In memory.

#![allow(clippy::unwrap_used)] // a test's own set-up fails loudly

use std::path::PathBuf;
use std::time::{Duration, Instant};

use control::{ExpressChange, Gateway, StaticKeys, TransmitLease};
use dataplane::fragmenter::{FragmentConfig, LONGEST_HOLD};
use dataplane::link::{Link, Ports};
use dataplane::pipeline::Pipeline;
use dataplane::snapshot::LinkSnapshot;
use dataplane::worker::Polling;
use netdev::memory::MemoryPort;
use netdev::pool::{ChunkOctets, Pool};
use netdev::scheduling::Scheduling;
use pnstore::{LeaseName, LeaseStore, Reservation};
use secy::{
    CarryOver, ClearVlan, ConfidentialityOffset, ExpressClasses, FrameSizes, Protection, SciInclusion, SecY,
    Settings, TransmitSa, ValidateFrames,
};
use suite::{CipherSuite, Key, Sak};
use testkit::frames::{ethernet, payload};
use wire::{An, EtherType, MacAddr, Pn, Sci};

const PROTECTION: Protection = Protection::Encrypt(ConfidentialityOffset::Zero);
const A: MacAddr = MacAddr([2, 0, 0, 0, 0, 0xa]);
const B: MacAddr = MacAddr([2, 0, 0, 0, 0, 0xb]);
const SCI: Sci = Sci::new(A, 1);
const SUITE: CipherSuite = CipherSuite::GcmAes128;
const DEADLINE: Duration = Duration::from_secs(60);
/// PNs of a block here: few, so that blocks are asked for while keys change.
const BLOCK: std::num::NonZeroU64 = std::num::NonZeroU64::new(40).unwrap();

struct State(PathBuf);

impl State {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("fw-lifecycle-{}-{name}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        Self(path)
    }
}

impl Drop for State {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn settings(mtu: usize) -> Settings {
    Settings {
        protect_frames: true,
        sci_inclusion: SciInclusion::Always,
        validate_frames: ValidateFrames::Strict,
        replay_protect: true,
        clear_vlan: ClearVlan::Refuse,
        reassemble: false,
        mtu,
    }
}

/// A gateway, and the state that goes with it.
struct Station {
    gateway: Gateway,
    _state: State,
}

/// The far ends of a link's ports.
struct Ends {
    machine: MemoryPort,
    wire: MemoryPort,
}

fn ports() -> (Box<Ports>, Ends) {
    let (machine, plain) = MemoryPort::pair(256);
    let (wire, protected) = MemoryPort::pair(256);
    let pool = Pool::new(ChunkOctets::Octets2048, 256).unwrap();
    let ports = Ports { pool, plain: Box::new(plain), protected: Box::new(protected) };
    (Box::new(ports), Ends { machine, wire })
}

/// A SecY that sends under a fresh block of PNs of this key, and the lease of that.
fn secy(leases: &mut LeaseStore, key: u8, an: An, mtu: usize) -> (SecY, TransmitLease) {
    let (name, last) = (LeaseName::new(&[key; 16], SCI), Pn::LAST_32);
    let Ok(Reservation::Block(block)) = leases.reserve(name, last, BLOCK) else { panic!("no lease") };
    let prepared = Key::prepare_antedated(SUITE, &Sak::new(SUITE, &[key; 16]).unwrap()).unwrap();
    let sa = TransmitSa::new(an, prepared, None, PROTECTION, block.first, block.last).unwrap();
    let mut secy = SecY::new(SCI, settings(mtu));
    secy.install_transmit(Box::new(sa)).unwrap();
    secy.enable_transmit(an).unwrap();
    (secy, TransmitLease { name, an, last, through: block.last })
}

impl Station {
    fn new(name: &str) -> Self {
        let state = State::new(name);
        let leases = LeaseStore::open(&state.0, None).unwrap();
        Self { gateway: Gateway::new(leases, Polling::Busy, Scheduling::Ordinary).unwrap(), _state: state }
    }

    fn add(&mut self, name: &str, key: u8) -> Ends {
        let (secy, lease) = self.gateway.on_disk(move |leases| secy(leases, key, An::ALL[0], 1532)).unwrap();
        let (ports, ends) = ports();
        let mut link = Link::closed(Pipeline::new(secy, &[], None));
        assert!(link.open(ports).is_none());
        let keys = StaticKeys { transmit: lease, express: None, receive: vec![] };
        self.gateway.add(name.into(), link, keys).unwrap();
        ends
    }

    fn snapshot(&mut self, name: &str) -> LinkSnapshot {
        // A worker that gets no CPU for a second is left out of a report: it is asked again.
        let mut answers = std::iter::repeat_with(|| self.gateway.snapshots()).take(60);
        answers.find_map(|all| all.into_iter().find(|(of, _)| of == name)).unwrap().1
    }
}

fn sdu(number: u64) -> Vec<u8> {
    ethernet(B, A, EtherType::IPV4, &payload(80, number))
}

/// Sends an SDU through a link and returns AN and PN of its frame.
fn through(ends: &mut Ends, gateway: &mut Gateway) -> (u8, u32) {
    assert!(ends.machine.inject(&sdu(1)));
    let start = Instant::now();
    loop {
        gateway.turn(Instant::now());
        if let Some(frame) = ends.wire.collect() {
            return (frame[14] & 3, u32::from_be_bytes(frame[16..20].try_into().unwrap()));
        }
        assert!(start.elapsed() < DEADLINE, "no frame came");
        std::thread::sleep(Duration::from_micros(50));
    }
}

#[test]
fn links_come_and_go_and_the_others_forward() {
    let mut station = Station::new("come-and-go");
    let mut first = station.add("first", 1);
    let mut second = station.add("second", 2);
    for round in 0..5_u8 {
        let mut third = station.add("third", 10 + round);
        for ends in [&mut first, &mut second, &mut third] {
            through(ends, &mut station.gateway);
        }
        let names: Vec<_> = station.gateway.snapshots().into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["first", "second", "third"]);
        let mut removed = station.gateway.remove("third").unwrap();
        assert_eq!(removed.pipeline().secy.transmit_counters().out_pkts_encrypted, 1);
        assert!(removed.close().is_some());
    }
    assert_eq!(station.snapshot("first").transmit.out_pkts_encrypted, 5);
    assert!(station.gateway.remove("third").is_err(), "it has gone");
    station.gateway.stop().unwrap();
}

#[test]
fn ports_come_and_go_and_pns_and_counters_go_on() {
    let mut station = Station::new("ports");
    let mut ends = station.add("press", 1);
    let mut other = station.add("other", 2);
    for pn in 1..=3 {
        assert_eq!(through(&mut ends, &mut station.gateway), (0, pn));
    }
    station.gateway.close("press").unwrap();
    let closed = station.snapshot("press");
    assert_eq!((closed.plain.rx_frames, closed.protected.tx_frames, closed.chunks), (3, 3, 0));
    assert!(!ends.machine.inject(&sdu(1)) || ends.wire.collect().is_none(), "nobody is there");
    through(&mut other, &mut station.gateway);
    station.gateway.close("press").unwrap();
    let (ports, mut ends) = ports();
    station.gateway.open("press", ports).unwrap();
    assert_eq!(through(&mut ends, &mut station.gateway), (0, 4), "the SA goes on");
    let opened = station.snapshot("press");
    assert_eq!((opened.plain.rx_frames, opened.protected.tx_frames, opened.chunks), (4, 4, 256));
    station.gateway.stop().unwrap();
}

/// A key changes under the machine's traffic, over and over: every SDU leaves, in order, under one key or the other,
/// and no key's PN comes twice, also not that of a key that comes back.
#[test]
fn keys_change_under_traffic_and_nothing_is_lost() {
    let mut station = Station::new("keys");
    let mut ends = station.add("press", 0);
    let mut seen = std::collections::BTreeSet::new();
    let (mut sent, mut came) = (0_u64, 0_u64);
    for round in 1..=30_u8 {
        let (key, an) = (round % 3, An::ALL[usize::from(round % 4)]);
        let (secy, lease) = station.gateway.on_disk(move |leases| secy(leases, key, an, 1532)).unwrap();
        let pipeline = Box::new(Pipeline::new(secy, &[], None));
        for _ in 0..20 {
            sent += u64::from(ends.machine.inject(&sdu(sent)));
        }
        station
            .gateway
            .change("press", pipeline, CarryOver::default(), (Some(lease), ExpressChange::Same), vec![])
            .unwrap();
        let start = Instant::now();
        while came < sent {
            station.gateway.turn(Instant::now());
            while let Some(frame) = ends.wire.collect() {
                came += 1;
                let opened = [0, 1, 2].into_iter().find(|&key| opens(key, &frame)).unwrap();
                assert!(seen.insert((opened, frame[16..20].to_vec())), "a PN twice under a key");
            }
            assert!(start.elapsed() < DEADLINE, "{came} of {sent}");
        }
    }
    let snapshot = station.snapshot("press");
    assert_eq!(snapshot.transmit.out_pkts_encrypted, sent);
    assert_eq!(snapshot.secy.out_pkts_pn_unreserved, 0);
    station.gateway.stop().unwrap();
}

fn opens(key: u8, frame: &[u8]) -> bool {
    let an = An::ALL[usize::from(frame[14] & 3)];
    let prepared = Key::prepare(SUITE, &Sak::new(SUITE, &[key; 16]).unwrap()).unwrap();
    let sa = secy::ReceiveSa::new(an, prepared, None, PROTECTION, Pn::FIRST, 0).unwrap();
    let mut rx = SecY::new(Sci::new(B, 1), settings(1532));
    rx.install_receive_sc(SCI).unwrap();
    rx.install_receive(SCI, Box::new(sa)).unwrap();
    rx.enable_receive(SCI, an).unwrap();
    let mut octets = frame.to_vec();
    let len = octets.len();
    let frame = secy::Frame::new(&mut octets, 0, len).unwrap();
    let mut burst = [secy::Incoming::new(frame)];
    rx.verify(wire::Instant::START, &mut burst, &mut secy::SduBuffer::none());
    let [frame] = burst;
    frame.into_outcome().is_ok()
}

/// PNs were reserved for the next SA under the same key, and the one before asks for more: it gets none, since those
/// that it would be allowed go through what the next one has.
#[test]
fn an_sa_gets_no_pns_beyond_those_of_the_next_one_under_its_key() {
    let mut station = Station::new("same-key");
    let mut ends = station.add("press", 1);
    let (next, lease) = station.gateway.on_disk(|leases| secy(leases, 1, An::ALL[1], 1532)).unwrap();
    for pn in 1..=u32::try_from(BLOCK.get()).unwrap() {
        assert_eq!(through(&mut ends, &mut station.gateway), (0, pn));
    }
    assert!(ends.machine.inject(&sdu(1)));
    let start = Instant::now();
    while station.snapshot("press").secy.out_pkts_pn_unreserved == 0 {
        station.gateway.turn(Instant::now());
        assert!(start.elapsed() < DEADLINE, "it has taken the next one's PNs");
    }
    let pipeline = Box::new(Pipeline::new(next, &[], None));
    station
        .gateway
        .change("press", pipeline, CarryOver::default(), (Some(lease), ExpressChange::Same), vec![])
        .unwrap();
    assert_eq!(through(&mut ends, &mut station.gateway), (1, u32::try_from(BLOCK.get()).unwrap() + 1));
    station.gateway.stop().unwrap();
}

/// SDUs that wait for others leave when their time has come, whatever changes meanwhile.
#[test]
fn what_is_held_leaves_under_the_new_path_or_is_counted() {
    let mut station = Station::new("held");
    let fragmentation = FragmentConfig {
        fragment: true,
        concatenate: true,
        padding: FrameSizes::NONE,
        hold: LONGEST_HOLD,
        express: ExpressClasses::DEFAULT,
    };
    let secy_of =
        |gateway: &mut Gateway| gateway.on_disk(|leases| secy(leases, 1, An::ALL[0], 1532)).unwrap();
    let (ports_of_link, mut ends) = ports();
    let (secy, lease) = secy_of(&mut station.gateway);
    let mut link = Link::closed(Pipeline::new(secy, &[], Some(fragmentation)));
    link.open(ports_of_link);
    let keys = StaticKeys { transmit: lease, express: None, receive: vec![] };
    station.gateway.add("press".into(), link, keys).unwrap();
    for fragmentation in [Some(fragmentation), None, Some(fragmentation)] {
        assert!(ends.machine.inject(&sdu(1)));
        let (secy, lease) = secy_of(&mut station.gateway);
        let pipeline = Box::new(Pipeline::new(secy, &[], fragmentation));
        station
            .gateway
            .change("press", pipeline, CarryOver::default(), (Some(lease), ExpressChange::Same), vec![])
            .unwrap();
        let start = Instant::now();
        while ends.wire.collect().is_none() {
            assert!(start.elapsed() < DEADLINE, "it was forgotten");
        }
    }
    assert!(station.snapshot("press").fragmenter.out_sdus_held <= 3);
    // It goes with the memory that it is in.
    assert!(ends.machine.inject(&sdu(1)));
    let start = Instant::now();
    while station.snapshot("press").plain.rx_frames < 4 {
        assert!(start.elapsed() < DEADLINE, "it was not taken");
    }
    station.gateway.close("press").unwrap();
    let closed = station.snapshot("press");
    assert_eq!(closed.protected.tx_frames + closed.protected.tx_dropped, 4, "sent or counted");
    station.gateway.stop().unwrap();
}
