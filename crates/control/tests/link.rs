//! Two links over ports in memory, with their workers and control: what passes, what does not, and who counted it.
//! The workers poll busily, since a port in memory has no descriptor that could wake them.
//!
//! ```text
//!  machine A ── plain [link A] protected ── wire (seen and spoilt by the test) ── protected [link B] plain ── machine B
//! ```

#![allow(clippy::unwrap_used)] // a test's own set-up fails loudly

use std::path::PathBuf;
use std::time::{Duration, Instant};

use control::{Gateway, Notice, StaticKeys, TransmitLease};
use dataplane::fragmenter::FragmentConfig;
use dataplane::link::Link;
use dataplane::pipeline::Pipeline;
use dataplane::snapshot::LinkSnapshot;
use dataplane::worker::Polling;
use netdev::memory::MemoryPort;
use netdev::pool::{ChunkOctets, Pool};
use netdev::scheduling::Scheduling;
use pnstore::{LeaseName, LeaseStore, Reservation};
use secy::{
    ClearVlan, ConfidentialityOffset, ExpressClasses, FrameSizes, Protection, ReceiveSa, SciInclusion, SecY,
    Settings, TransmitSa, ValidateFrames,
};
use suite::{CipherSuite, Key, Sak};
use testkit::frames::{ethernet, payload, tagged};
use wire::{An, EtherType, MacAddr, Pn, Sci};

const PROTECTION: Protection = Protection::Encrypt(ConfidentialityOffset::Zero);
const A: MacAddr = MacAddr([2, 0, 0, 0, 0, 0xa]);
const B: MacAddr = MacAddr([2, 0, 0, 0, 0, 0xb]);
const SCI_A: Sci = Sci::new(A, 1);
const SCI_B: Sci = Sci::new(B, 1);
const KEY_A: [u8; 16] = [0x0a; 16];
const KEY_B: [u8; 16] = [0x0b; 16];
/// Longest wait of a test for something that must come.
const DEADLINE: Duration = Duration::from_secs(60);

/// The wire's MTU has room for the overhead, unless SDUs are fragmented.
fn settings(fragmentation: Option<FragmentConfig>) -> Settings {
    Settings {
        protect_frames: true,
        sci_inclusion: SciInclusion::Always,
        validate_frames: ValidateFrames::Strict,
        replay_protect: true,
        clear_vlan: ClearVlan::Refuse,
        reassemble: fragmentation.is_some(),
        mtu: if fragmentation.is_some() { 1500 } else { 1532 },
    }
}

fn key(octets: &[u8]) -> Key {
    let suite = CipherSuite::GcmAes128;
    Key::prepare(suite, &Sak::new(suite, octets).unwrap()).unwrap()
}

fn secy(own: (Sci, &[u8]), pns: (Pn, Pn), peer: (Sci, &[u8]), fragmentation: Option<FragmentConfig>) -> SecY {
    let an = An::ALL[0];
    let mut secy = SecY::new(own.0, settings(fragmentation));
    let transmit = TransmitSa::new(an, key(own.1), None, PROTECTION, pns.0, pns.1).unwrap();
    secy.install_transmit(Box::new(transmit)).unwrap();
    secy.enable_transmit(an).unwrap();
    secy.install_receive_sc(peer.0).unwrap();
    let receive = ReceiveSa::new(an, key(peer.1), None, PROTECTION, Pn::FIRST, 64).unwrap();
    secy.install_receive(peer.0, Box::new(receive)).unwrap();
    secy.enable_receive(peer.0, an).unwrap();
    secy
}

/// A state directory that goes with the test.
struct State(PathBuf);

impl State {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("fw-link-{}-{name}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        Self(path)
    }
}

impl Drop for State {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn link(
    secy: SecY,
    bypass: &[EtherType],
    fragmentation: Option<FragmentConfig>,
) -> (Link, MemoryPort, MemoryPort) {
    let (machine, plain) = MemoryPort::pair(256);
    let (wire, protected) = MemoryPort::pair(256);
    let pool = Pool::new(ChunkOctets::Octets2048, 256).unwrap();
    let link =
        Link::new(pool, Box::new(plain), Box::new(protected), Pipeline::new(secy, bypass, fragmentation));
    (link, machine, wire)
}

/// A gateway with one link, and the ends of its wires.
struct Station {
    gateway: Gateway,
    machine: MemoryPort,
    wire: MemoryPort,
    state: State,
}

/// PNs of the first block that a station reserves.
const FIRST_BLOCK: u64 = 1000;

fn station(
    name: &str,
    own: (Sci, [u8; 16]),
    peer: (Sci, [u8; 16]),
    bypass: &[EtherType],
    fragmentation: Option<FragmentConfig>,
) -> Station {
    start(State::new(name), own, peer, bypass, fragmentation)
}

fn start(
    state: State,
    own: (Sci, [u8; 16]),
    peer: (Sci, [u8; 16]),
    bypass: &[EtherType],
    fragmentation: Option<FragmentConfig>,
) -> Station {
    let mut leases = LeaseStore::open(&state.0, None).unwrap();
    let (key, last) = (LeaseName::new(&own.1, own.0), Pn::LAST_32);
    let pns = FIRST_BLOCK.try_into().unwrap();
    let Ok(Reservation::Block(block)) = leases.reserve(key, last, pns) else { panic!("no lease") };
    let lease = TransmitLease { name: key, an: An::ALL[0], last, through: block.last };
    let secy = secy((own.0, &own.1), (block.first, block.last), (peer.0, &peer.1), fragmentation);
    let (link, machine, wire) = link(secy, bypass, fragmentation);
    let gateway = started(link, lease, leases);
    Station { gateway, machine, wire, state }
}

fn started(link: Link, lease: TransmitLease, leases: LeaseStore) -> Gateway {
    let mut gateway = Gateway::new(leases, Polling::Busy, Scheduling::Ordinary).unwrap();
    gateway
        .add("press".into(), link, StaticKeys { transmit: lease, express: None, receive: vec![] })
        .unwrap();
    gateway
}

impl Station {
    fn snapshot(&mut self) -> LinkSnapshot {
        // A worker that gets no CPU for a second is left out of a report: it is asked again.
        let mut answers = std::iter::repeat_with(|| self.gateway.snapshots()).take(60);
        answers.find_map(|mut all| all.pop()).expect("the worker answers").1
    }

    /// Waits until the counter that `read` picks reaches `expected`.
    fn wait_for(&mut self, expected: u64, read: impl Fn(&LinkSnapshot) -> u64) -> LinkSnapshot {
        let start = Instant::now();
        loop {
            let snapshot = self.snapshot();
            if read(&snapshot) == expected {
                return snapshot;
            }
            assert!(start.elapsed() < DEADLINE, "{} instead of {expected}: {snapshot:#?}", read(&snapshot));
        }
    }
}

fn next(port: &mut MemoryPort) -> Vec<u8> {
    let start = Instant::now();
    loop {
        if let Some(frame) = port.collect() {
            return frame;
        }
        assert!(start.elapsed() < DEADLINE, "no frame came");
        std::thread::sleep(Duration::from_micros(50));
    }
}

fn pn(on_wire: &[u8]) -> u64 {
    u32::from_be_bytes(on_wire[16..20].try_into().unwrap()).into()
}

fn pair(name: &str, bypass: &[EtherType]) -> (Station, Station) {
    fragmenting_pair(name, bypass, None)
}

fn fragmenting_pair(
    name: &str,
    bypass: &[EtherType],
    fragmentation: Option<FragmentConfig>,
) -> (Station, Station) {
    (
        station(&format!("{name}-a"), (SCI_A, KEY_A), (SCI_B, KEY_B), bypass, fragmentation),
        station(&format!("{name}-b"), (SCI_B, KEY_B), (SCI_A, KEY_A), bypass, fragmentation),
    )
}

/// Sends a frame from A's machine to B's, and returns what was on the wire.
fn across(a: &mut Station, b: &mut Station, frame: &[u8]) -> Vec<u8> {
    assert!(a.machine.inject(frame));
    let on_wire = next(&mut a.wire);
    assert!(b.wire.inject(&on_wire));
    assert_eq!(next(&mut b.machine), frame);
    on_wire
}

#[test]
fn whatever_a_machine_sends_is_an_sdu() {
    let (mut a, mut b) = pair("sdu", &[]);
    let ethertypes = [0x0800, 0x0806, 0x86dd, 0x8892, 0x88a4, 0x88b8, 0x88cc, 0x88e5, 0x888e, 0x0026];
    for (seed, ethertype) in ethertypes.into_iter().enumerate() {
        for octets in [0, 1, 45, 46, 47, 1000, 1492, 1500] {
            let sdu = ethernet(B, A, EtherType(ethertype), &payload(octets, seed as u64));
            let on_wire = across(&mut a, &mut b, &sdu);
            assert_eq!(on_wire[12..14], [0x88, 0xe5]);
            assert_eq!(on_wire.len(), sdu.len() + 32);
            let marker = &sdu[sdu.len().saturating_sub(16).max(14)..];
            let leak = marker.len() == 16 && on_wire.windows(16).any(|window| window == marker);
            assert!(!leak, "plaintext on the wire");
        }
    }
    let untagged = ethernet(B, A, EtherType::PROFINET, &payload(60, 9));
    let priority = tagged(&untagged, EtherType::VLAN, 0xc000);
    across(&mut a, &mut b, &priority);
    across(&mut a, &mut b, &tagged(&priority, EtherType::SERVICE_VLAN, 7));
    let sent = a.snapshot();
    let sa = &sent.transmit_sas[0];
    assert_eq!((sa.enabled, sa.counters.out_pkts_encrypted), (true, 82));
    assert_eq!(b.snapshot().receive_scs[0].counters.in_pkts_ok, 82);
}

#[test]
fn from_the_wire_only_verified_frames_pass() {
    let (mut a, mut b) = pair("wire", &[]);
    let sdu = ethernet(B, A, EtherType::IPV4, &payload(100, 1));
    let good = across(&mut a, &mut b, &sdu);
    let mut spoilt = good.clone();
    spoilt[40] ^= 1;
    spoilt[16..20].copy_from_slice(&9u32.to_be_bytes());
    let hostile = [
        sdu.clone(),
        ethernet(B, A, EtherType::EAPOL, &payload(60, 2)),
        good.clone(),
        spoilt,
        tagged(&good, EtherType::VLAN, 1),
        good[..30].to_vec(),
        ethernet(B, A, EtherType::MACSEC, &[0x2c, 0, 0, 0, 0, 1]),
    ];
    for frame in &hostile {
        assert!(b.wire.inject(frame));
    }
    let snapshot = b.wait_for(1 + hostile.len() as u64, |snapshot| snapshot.protected.rx_frames);
    let sc = snapshot.receive_scs[0].counters;
    assert_eq!((sc.in_pkts_ok, sc.in_pkts_duplicate, sc.in_pkts_not_valid), (1, 1, 1));
    assert_eq!((snapshot.secy.in_pkts_no_tag, snapshot.pipeline.in_pkts_eapol), (1, 1));
    assert_eq!((snapshot.secy.in_pkts_clear_vlan, snapshot.secy.in_pkts_bad_tag), (1, 2));
    assert_eq!(b.machine.collect(), None, "something of it was delivered");
    assert_eq!(snapshot.plain.tx_frames, 1);
    across(&mut a, &mut b, &sdu);
    assert_eq!(b.snapshot().chunks_free, snapshot.chunks, "no chunk is lost");
}

#[test]
fn a_machine_cannot_hurt_its_gateway() {
    let (mut a, mut b) = pair("machine", &[]);
    assert!(a.machine.inject(&ethernet(B, A, EtherType::IPV4, &payload(1501, 1))));
    let snapshot = a.wait_for(1, |snapshot| snapshot.secy.out_pkts_too_long);
    assert_eq!(snapshot.transmit_sas[0].next_pn, Some(Pn::FIRST), "a PN was spent on it");
    let on_wire = across(&mut a, &mut b, &ethernet(B, A, EtherType::IPV4, &payload(1500, 1)));
    // A frame of the protected side, played into the plain port, is an SDU like any other.
    let twice = across(&mut a, &mut b, &on_wire[..on_wire.len() - 32]);
    assert_eq!(pn(&twice), 2);
    assert_eq!(a.snapshot().receive_scs[0].counters.in_pkts_ok, 0);
}

#[test]
fn bypassed_ethertypes_pass_in_clear_both_ways_and_nothing_else_does() {
    let (mut a, mut b) = pair("bypass", &[EtherType::LLDP]);
    let lldp = ethernet(B, A, EtherType::LLDP, &payload(60, 1));
    assert_eq!(across(&mut a, &mut b, &lldp), lldp);
    let tagged = tagged(&lldp, EtherType::VLAN, 5);
    assert_ne!(across(&mut a, &mut b, &tagged), tagged, "a tagged frame is not what was configured");
    assert_eq!(a.snapshot().pipeline.out_pkts_bypass, 1);
    assert_eq!(b.snapshot().pipeline.in_pkts_bypass, 1);
}

#[test]
fn mac_control_goes_nowhere() {
    // Neither a bypass that names it nor the fragmenter lets it through.
    let fragmentation = FragmentConfig {
        fragment: true,
        concatenate: true,
        padding: FrameSizes::NONE,
        hold: Duration::ZERO,
        express: ExpressClasses::DEFAULT,
    };
    for (name, fragmentation) in [("control", None), ("control-fragmented", Some(fragmentation))] {
        let (mut a, mut b) = fragmenting_pair(name, &[EtherType::MAC_CONTROL], fragmentation);
        let group = MacAddr([1, 0x80, 0xc2, 0, 0, 1]);
        let pause = ethernet(group, A, EtherType::MAC_CONTROL, &[&[0, 1, 0xff, 0xff][..], &[0; 42]].concat());
        let to_one = ethernet(B, A, EtherType::MAC_CONTROL, &[1, 1]);
        let sdu = ethernet(B, A, EtherType::IPV4, &payload(100, 1));
        for frame in [&pause, &sdu, &to_one] {
            assert!(a.machine.inject(frame));
            assert!(b.wire.inject(frame));
        }
        let on_wire = next(&mut a.wire);
        a.wait_for(2, |snapshot| snapshot.pipeline.out_pkts_mac_control);
        let snapshot = b.wait_for(2, |snapshot| snapshot.pipeline.in_pkts_mac_control);
        assert_eq!((snapshot.secy.in_pkts_no_tag, snapshot.pipeline.in_pkts_bypass), (1, 0));
        assert_eq!((a.wire.collect(), b.machine.collect()), (None, None));
        assert!(b.wire.inject(&on_wire));
        assert_eq!(next(&mut b.machine), sdu);
        // Behind a VLAN tag the number is no MAC control: the frame is data.
        across(&mut a, &mut b, &tagged(&pause, EtherType::VLAN, 1));
        assert_eq!(a.snapshot().chunks_free, a.snapshot().chunks, "no chunk is lost");
    }
}

#[test]
fn leases_follow_the_traffic_and_a_restart_begins_above_them() {
    let mut a = station("lease", (SCI_A, KEY_A), (SCI_B, KEY_B), &[], None);
    let sdu = ethernet(B, A, EtherType::IPV4, &payload(50, 1));
    for number in 1..=FIRST_BLOCK + 500 {
        assert!(a.machine.inject(&sdu));
        assert_eq!(pn(&next(&mut a.wire)), number);
        let notices = a.gateway.turn(Instant::now());
        assert!(notices.is_empty(), "{notices:?}");
        // Half of the block is used: the next one has to come before its end.
        if number == FIRST_BLOCK / 2 + 1 {
            let start = Instant::now();
            while a.snapshot().transmit_sas[0].reserved.number() == FIRST_BLOCK {
                assert!(start.elapsed() < DEADLINE, "no further block");
                a.gateway.turn(Instant::now());
            }
        }
    }
    let sa = &a.snapshot().transmit_sas[0];
    let (used, reserved) = (sa.next_pn.unwrap().number() - 1, sa.reserved.number());
    // A crash: the state as it stands on disk now.
    let crashed = State::new("lease-crashed");
    std::fs::create_dir_all(&crashed.0).unwrap();
    for file in ["leases", "floors", "leases.created"] {
        std::fs::copy(a.state.0.join(file), crashed.0.join(file)).unwrap();
    }
    // An end in order gives back what was not used.
    let Station { gateway, state, .. } = a;
    gateway.stop().unwrap();
    for (state, highest) in [(state, used), (crashed, reserved)] {
        let mut a = start(state, (SCI_A, KEY_A), (SCI_B, KEY_B), &[], None);
        assert!(a.machine.inject(&sdu));
        assert_eq!(pn(&next(&mut a.wire)), highest + 1);
    }
}

#[test]
fn when_the_pns_are_used_up_nothing_leaves() {
    let near = Pn::new(u64::from(u32::MAX) - 2).unwrap();
    let (link, mut machine, mut wire) =
        link(secy((SCI_A, &KEY_A), (near, Pn::LAST_32), (SCI_B, &KEY_B), None), &[], None);
    let state = State::new("exhausted");
    let leases = LeaseStore::open(&state.0, None).unwrap();
    let lease = TransmitLease {
        name: LeaseName::new(&KEY_A, SCI_A),
        an: An::ALL[0],
        last: Pn::LAST_32,
        through: Pn::LAST_32,
    };
    let mut gateway = started(link, lease, leases);
    for _ in 0..10 {
        assert!(machine.inject(&ethernet(B, A, EtherType::IPV4, &payload(50, 1))));
    }
    for number in u64::from(u32::MAX) - 2..=u64::from(u32::MAX) {
        assert_eq!(pn(&next(&mut wire)), number);
    }
    let start = Instant::now();
    let mut notices = Vec::new();
    while !notices.iter().any(|notice| matches!(notice, Notice::PnExhausted { link } if link == "press")) {
        assert!(start.elapsed() < DEADLINE, "{notices:?}");
        notices.extend(gateway.turn(Instant::now()));
    }
    while gateway.snapshots()[0].1.secy.out_pkts_pn_exhausted != 7 {
        assert!(start.elapsed() < DEADLINE, "not all are counted");
    }
    assert_eq!(wire.collect(), None);
    gateway.stop().unwrap();
}

#[test]
fn several_links_share_a_process_and_nothing_else() {
    let state = State::new("several");
    let leases = LeaseStore::open(&state.0, None).unwrap();
    let mut gateway = Gateway::new(leases, Polling::Busy, Scheduling::Ordinary).unwrap();
    let mut ends = Vec::new();
    for number in 0..5 {
        let (own, peer) = ([number + 1; 16], [number + 101; 16]);
        let (link, machine, wire) =
            link(secy((SCI_A, &own), (Pn::FIRST, Pn::LAST_32), (SCI_B, &peer), None), &[], None);
        let lease = TransmitLease {
            name: LeaseName::new(&own, SCI_A),
            an: An::ALL[0],
            last: Pn::LAST_32,
            through: Pn::LAST_32,
        };
        gateway
            .add(
                format!("link-{number}"),
                link,
                StaticKeys { transmit: lease, express: None, receive: vec![] },
            )
            .unwrap();
        ends.push((machine, wire));
    }
    let sdu = ethernet(B, A, EtherType::IPV4, &payload(80, 3));
    let mut seen: Vec<Vec<u8>> = Vec::new();
    for (machine, wire) in &mut ends {
        assert!(machine.inject(&sdu));
        let on_wire = next(wire);
        assert!(!seen.contains(&on_wire), "two links made the same frame");
        seen.push(on_wire);
    }
    let snapshots = gateway.snapshots();
    let names: Vec<_> = snapshots.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["link-0", "link-1", "link-2", "link-3", "link-4"]);
    assert!(snapshots.iter().all(|(_, snapshot)| snapshot.transmit.out_pkts_encrypted == 1));
    gateway.stop().unwrap();
}

const FRAGMENT: FragmentConfig = FragmentConfig {
    fragment: true,
    concatenate: true,
    padding: FrameSizes::NONE,
    hold: Duration::ZERO,
    express: ExpressClasses::DEFAULT,
};

/// Takes what A sends to B until B's machine has got so many SDUs; returns the frames on the wire and the SDUs.
fn relay(a: &mut Station, b: &mut Station, sdus: usize) -> (Vec<Vec<u8>>, Vec<Vec<u8>>) {
    let (mut on_wire, mut delivered) = (Vec::new(), Vec::new());
    let start = Instant::now();
    while delivered.len() < sdus {
        assert!(start.elapsed() < DEADLINE, "{} of {sdus} SDUs: {:#?}", delivered.len(), b.snapshot());
        while let Some(frame) = a.wire.collect() {
            assert!(b.wire.inject(&frame));
            on_wire.push(frame);
        }
        delivered.extend(std::iter::from_fn(|| b.machine.collect()));
    }
    (on_wire, delivered)
}

#[test]
fn sdus_of_every_size_pass_a_wire_of_1500() {
    for fragmentation in [FRAGMENT, FragmentConfig { concatenate: false, ..FRAGMENT }] {
        // The thread of the gateway before may still write into its own directory.
        let name = format!("fragment-{}", fragmentation.concatenate);
        let (mut a, mut b) = fragmenting_pair(&name, &[], Some(fragmentation));
        for octets in (0..=1700).step_by(7) {
            let sdus: Vec<_> = (0..3)
                .map(|seed| ethernet(B, A, EtherType::IPV4, &payload(octets + seed, seed as u64)))
                .collect();
            for sdu in &sdus {
                assert!(a.machine.inject(sdu));
            }
            let (on_wire, delivered) = relay(&mut a, &mut b, sdus.len());
            assert_eq!(delivered, sdus, "{octets} octets, {fragmentation:?}");
            assert!(on_wire.iter().all(|frame| frame.len() <= 1514 && frame[12..14] == [0x88, 0xe5]));
        }
        let (sent, received) = (a.snapshot(), b.snapshot());
        assert!(
            sent.fragmenter.out_sdus_fragmented > 0
                && received.receive_scs[0].counters.in_sdus_reassembled > 0
        );
        assert_eq!(sent.fragmenter.out_sdus_concatenated > 0, fragmentation.concatenate);
        assert_eq!(
            (received.chunks_free, sent.chunks_free),
            (received.chunks, sent.chunks),
            "no chunk is lost"
        );
    }
}

/// Whatever is sent, and in whatever bursts: each frame on the wire has one of the sizes.
#[test]
fn padded_frames_have_one_of_the_chosen_sizes_and_all_sdus_arrive() {
    let sizes = FrameSizes::new(&[128, 400, 1514]).unwrap();
    let padded = FragmentConfig { padding: sizes, concatenate: false, ..FRAGMENT };
    for fragmentation in [padded, FragmentConfig { concatenate: true, ..padded }] {
        let name = format!("padded-{}", fragmentation.concatenate);
        let (mut a, mut b) = fragmenting_pair(&name, &[EtherType::LLDP], Some(fragmentation));
        // No more frames than the first block has PNs.
        for octets in (0..=1700).step_by(131) {
            let burst = 1 + octets % 40;
            let sdus: Vec<_> = (0..burst)
                .map(|seed| {
                    ethernet(B, A, EtherType::IPV4, &payload((octets + 97 * seed) % 1700, seed as u64))
                })
                .collect();
            for sdu in &sdus {
                assert!(a.machine.inject(sdu));
            }
            let (on_wire, delivered) = relay(&mut a, &mut b, sdus.len());
            assert_eq!(delivered, sdus, "{octets} octets, {fragmentation:?}");
            for frame in on_wire {
                assert!(sizes.octets().contains(&(frame.len() as u16)), "{} octets", frame.len());
                assert!(frame[12..14] == [0x88, 0xe5] && frame[28..30] == [0, 4]);
            }
        }
        let (sent, received) = (a.snapshot(), b.snapshot());
        assert!(sent.fragmenter.out_octets_padding > 0 && sent.fragmenter.out_sdus_fragmented > 0);
        assert_eq!(sent.fragmenter.out_sdus_concatenated > 0, fragmentation.concatenate);
        assert_eq!((sent.fragmenter.out_sdus_too_long, sent.fragmenter.out_pkts_no_chunk), (0, 0));
        let of = &received.receive_scs[0].counters;
        assert_eq!((of.in_pkts_malformed, of.in_pieces_lost, of.in_pieces_mismatched), (0, 0, 0));
        assert_eq!(
            (received.chunks_free, sent.chunks_free),
            (received.chunks, sent.chunks),
            "no chunk is lost"
        );
        // Bypassed frames stay as they are.
        let lldp = ethernet(B, A, EtherType::LLDP, &payload(60, 1));
        assert_eq!(across(&mut a, &mut b, &lldp), lldp);
    }
}

#[test]
fn a_machine_cannot_write_a_bypassed_ethertype_into_a_fragment() {
    // A fragment begins with any octets of an SDU: here with those of a bypassed EtherType.
    let (mut a, mut b) = fragmenting_pair("smuggle", &[EtherType::LLDP], Some(FRAGMENT));
    let sdu = ethernet(B, A, EtherType::IPV4, &EtherType::LLDP.0.to_be_bytes().repeat(750));
    assert!(a.machine.inject(&sdu));
    let (on_wire, delivered) = relay(&mut a, &mut b, 1);
    assert_eq!((on_wire.len(), delivered), (2, vec![sdu]));
    assert!(on_wire.iter().all(|frame| frame[12..14] == [0x88, 0xe5]), "a fragment left in clear");
    let lldp = ethernet(B, A, EtherType::LLDP, &payload(60, 1));
    assert_eq!(across(&mut a, &mut b, &lldp), lldp);
}

#[test]
fn what_is_held_goes_when_its_time_has_come_and_express_sdus_never_wait() {
    let hold = Duration::from_millis(10);
    let (mut a, mut b) = fragmenting_pair("hold", &[], Some(FragmentConfig { hold, ..FRAGMENT }));
    let small = |seed| ethernet(B, A, EtherType::IPV4, &payload(46, seed));
    let express = ethernet(B, A, EtherType::PROFINET, &payload(46, 9));
    // On a busy machine one may come when the time of those before it is over: then they do not meet.
    let mut meet = |sdus: &[Vec<u8>], arrive: &[Vec<u8>], frames: usize| {
        let mut tries = (0..20).map(|_| {
            assert!(sdus.iter().all(|sdu| a.machine.inject(sdu)));
            let (on_wire, mut delivered) = relay(&mut a, &mut b, sdus.len());
            let as_planned = (delivered == arrive, on_wire.len());
            let mut all = sdus.to_vec();
            all.sort();
            delivered.sort();
            assert_eq!(delivered, all);
            as_planned
        });
        tries.any(|(in_order, on_wire)| in_order && on_wire <= frames)
    };
    let (both, first) = ([small(1), small(2), express.clone()], [express, small(1), small(2)]);
    assert!(meet(&both, &first, 2), "the two that were held share a frame");
    // A full frame's worth goes at once, without waiting for its time.
    let sdus: Vec<_> = (0..30).map(small).collect();
    assert!(meet(&sdus, &sdus, 4), "30 small SDUs in more than four frames");
    assert!(a.snapshot().fragmenter.out_sdus_held >= 2);
}
