//! Plain mode: VXLAN, beside crate `tunnel`.

use std::net::SocketAddr;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant as Clock};

use tunnel::{Command, Destination, Forwarding, Limits, Location, Mode, PacketSource, PeerId, PeerSettings};
use wire::tunnel::{Flow, FlowIndex, ParsedFrame};
use wire::{Instant, MacAddr};
use xdp::Verdict;
use xdp::site::{FlowPath, Site, UdpPath, Vxlan};

use crate::packets::{PORT, addresses, datagram_between, frame, station};
use crate::world::{LAN_FRAME, LOOPBACK, Outcome, PAYLOAD, WINDOW, load, udp_path};

const VXLAN_PORT: u16 = 4789;
const VNIS: [u32; 2] = [0x12_3456, 7];
/// Octets of the longest frame that one packet carries.
const LONGEST: usize = PAYLOAD - 8;
const NONE: u32 = u32::MAX;

/// A site of two plain peers, twice.
struct World {
    rust: Forwarding,
    kernel: Site,
    began: Clock,
    v6: bool,
}

/// This site, and a peer.
fn ends(v6: bool, peer: u16) -> [SocketAddr; 2] {
    let [here, mut there] = addresses(v6);
    if peer == 1 {
        there.set_ip(if v6 { "fd00:7::a" } else { "198.51.100.78" }.parse().unwrap());
    }
    [SocketAddr::new(here.ip(), VXLAN_PORT), SocketAddr::new(there.ip(), VXLAN_PORT)]
}

fn path(v6: bool, peer: u16, receives: bool) -> UdpPath {
    let [source, destination] = ends(v6, peer);
    let [interface, next_hop] = [1, 2].map(|last| MacAddr([2, 9, 9, 9, 9, last]));
    let vxlan = Some(Vxlan { vni: VNIS[usize::from(peer)], receives });
    UdpPath { interface, next_hop, source, destination, vxlan, ..udp_path(0) }
}

fn payload(vni: u32, frame: &[u8]) -> Vec<u8> {
    [&[8, 0, 0, 0][..], &vni.to_be_bytes()[1..], &[0], frame].concat()
}

impl World {
    fn new(v6: bool) -> Self {
        let peers =
            VNIS.map(|vni| PeerSettings { mode: Mode::Plain { vni }, path_payload: PAYLOAD }).to_vec();
        let rust = Forwarding::new(tunnel::Settings {
            peers,
            lan_frame: LAN_FRAME,
            limits: Limits::DEFAULT,
            window: WINDOW,
            table_seed: [7; 16],
        });
        let mut kernel = load(WINDOW);
        kernel.set_lan(LOOPBACK).unwrap();
        kernel.set_wan(1, LOOPBACK).unwrap();
        kernel.set_plain_port(VXLAN_PORT).unwrap();
        for peer in 0..2 {
            kernel.set_path(peer.into(), &path(v6, peer, true)).unwrap();
            kernel.set_peer(peer.into(), NONE, peer.into()).unwrap();
            kernel.set_plain_peer(ends(v6, peer)[1].ip(), peer.into()).unwrap();
        }
        let mut world = Self { rust, kernel, began: Clock::now(), v6 };
        for number in 1..7 {
            world.kernel.set_address(station(number), number.into()).unwrap();
            world.tell_station(number);
        }
        world
    }

    fn now(&self) -> Instant {
        Instant::after_start(self.began.elapsed())
    }

    /// A world in which station 5 is behind peer 0 and station 1 here, both with a flow to the other.
    fn known(v6: bool) -> Self {
        let mut world = Self::new(v6);
        assert_eq!(world.receive(0, &frame(5, 1, true, 1, 40)), Outcome::ForUserSpace, "nobody knows it");
        world.tell_station(5);
        world.send_known(1, 5, true);
        world
    }

    fn tell_station(&mut self, number: u8) {
        let known =
            self.rust.stations().find(|known| known.address == station(number)).map(|known| known.location);
        self.kernel.set_station(number.into(), station(number), known).unwrap();
    }

    fn send_known(&mut self, source: u8, destination: u8, sci: bool) -> Flow {
        let frame = frame(source, destination, sci, 1, 40);
        let route = self.rust.route(self.now(), &frame).unwrap();
        self.tell_station(source);
        let path =
            FlowPath { peer: 0, index: FlowIndex(0), source: source.into(), destination: destination.into() };
        self.kernel.add_flow(u32::from(sci), &route.taken.flow, &path).unwrap();
        route.taken.flow
    }

    /// Counters of both peers, of the programs and of crate `tunnel`.
    fn counters(&self) -> [[Vec<u64>; 2]; 2] {
        let kernel = [0, 1].map(|peer| self.kernel.counters(peer).unwrap().0.values().to_vec());
        [kernel, [0, 1].map(|peer| self.rust.peer_counters(PeerId(peer)).values().to_vec())]
    }

    fn count_alike(&self, before: &[[Vec<u64>; 2]; 2]) {
        let more = |of: usize| -> [Vec<u64>; 2] {
            let (after, before) = (&self.counters()[of], &before[of]);
            [0, 1].map(|peer| after[peer].iter().zip(&before[peer]).map(|(a, b)| a - b).collect())
        };
        assert_eq!(more(0), more(1));
    }

    /// A frame of the LAN, through both.
    fn send(&mut self, octets: &[u8]) -> Outcome {
        let before = self.counters();
        let ran = self.kernel.run_outward(octets, 1).unwrap();
        let now = self.now();
        let packet = self.rust.route(now, octets).and_then(|route| {
            assert!(matches!(route.destination, Destination::Peer(PeerId(0))), "{route:?}");
            self.rust.dispatch(now, &route, PeerId(0), octets).into_iter().next()
        });
        if ran.verdict == Verdict::Pass {
            assert_eq!((&ran.frame[..], &self.counters()[0]), (octets, &before[0]));
            return Outcome::ForUserSpace;
        }
        let packet = packet.unwrap();
        let expected = [&packet.header[..], &octets[packet.body]].concat();
        assert_eq!(expected, payload(VNIS[0], octets));
        let expected = datagram_between(ends(self.v6, 0), true, &expected);
        assert_eq!((ran.verdict, &ran.frame), (Verdict::Redirect, &expected));
        self.count_alike(&before);
        Outcome::Sent(ran.frame)
    }

    /// A frame in a packet of a peer, through both.
    fn receive(&mut self, peer: u16, octets: &[u8]) -> Outcome {
        let payload = payload(VNIS[usize::from(peer)], octets);
        let packet = datagram_between(ends(self.v6, peer), false, &payload);
        self.receive_packet(peer, &packet, &payload)
    }

    fn receive_packet(&mut self, peer: u16, packet: &[u8], payload: &[u8]) -> Outcome {
        let before = self.counters();
        let ran = self.kernel.run_inward(packet, 1).unwrap();
        if ran.verdict == Verdict::Pass {
            assert_eq!((&ran.frame[..], &self.counters()[0]), (packet, &before[0]));
            drop(self.rust.handle_packet(self.now(), PacketSource::From(PeerId(peer)), payload));
            return Outcome::ForUserSpace;
        }
        let now = self.now();
        match self.rust.handle_packet(now, PacketSource::From(PeerId(peer)), payload) {
            Ok(tunnel::Delivery::Frame { from, prefix, body, .. }) => {
                assert_eq!((from, prefix.len()), (PeerId(peer), 0));
                assert_eq!((ran.verdict, &ran.frame[..]), (Verdict::Redirect, &payload[body]));
            }
            other => panic!("{other:?}"),
        }
        self.count_alike(&before);
        Outcome::Sent(ran.frame)
    }
}

#[test]
fn frames_of_every_length_leave_and_arrive_as_in_user_space() {
    for v6 in [false, true] {
        let mut world = World::known(v6);
        world.send_known(1, 5, false);
        for body in 0..=LONGEST - 28 {
            for sci in [true, false] {
                let out = world.send(&frame(1, 5, sci, body as u32 + 1, body));
                assert!(matches!(out, Outcome::Sent(_)), "{body}");
                let back = world.receive(0, &frame(5, 1, sci, body as u32 + 1, body));
                assert!(matches!(back, Outcome::Sent(_)), "{body}");
            }
        }
    }
}

#[test]
fn a_frame_that_does_not_fit_is_user_spaces_with_those_behind_it() {
    let mut world = World::known(false);
    assert!(matches!(world.send(&frame(1, 5, true, 1, LONGEST - 28)), Outcome::Sent(_)));
    assert_eq!(world.send(&frame(1, 5, true, 2, LONGEST - 27)), Outcome::ForUserSpace);
    assert_eq!(world.rust.peer_counters(PeerId(0)).out_pkts_too_long, 1);
    assert_eq!(world.send(&frame(1, 5, true, 3, 40)), Outcome::ForUserSpace);
    world.send_known(1, 5, true);
    assert!(matches!(world.send(&frame(1, 5, true, 4, 40)), Outcome::Sent(_)));
    // A frame as long as the LAN takes, and a longer one.
    assert!(matches!(world.receive(0, &frame(5, 1, true, 1, LAN_FRAME - 28)), Outcome::Sent(_)));
    assert_eq!(world.receive(0, &frame(5, 1, true, 1, LAN_FRAME - 27)), Outcome::ForUserSpace);
    assert_eq!(world.rust.peer_counters(PeerId(0)).in_pkts_too_long, 1);
}

#[test]
fn a_peer_without_a_path_is_user_spaces() {
    let mut world = World::known(false);
    world.kernel.set_peer(0, NONE, NONE).unwrap();
    assert_eq!(world.send(&frame(1, 5, true, 1, 40)), Outcome::ForUserSpace);
    assert_eq!(world.receive(0, &frame(5, 1, true, 1, 40)), Outcome::ForUserSpace);
    // Nor is a frame sent without its header, since the peer has no lane either.
    world.kernel.set_path(2, &udp_path(0)).unwrap();
    for lane in [NONE, 0] {
        world.kernel.set_peer(0, lane, 2).unwrap();
        world.send_known(1, 5, true);
        assert_eq!(
            world.send(&frame(1, 5, true, 1, 40)),
            Outcome::ForUserSpace,
            "no such lane, a closed one"
        );
    }
    assert_eq!(world.receive(0, &frame(5, 1, true, 1, 40)), Outcome::ForUserSpace);
}

/// Packets are left as they came, and uncounted, unless they are whole, of a peer, and with a frame of a station that is behind it.
#[test]
fn all_else_is_the_hosts() {
    for v6 in [false, true] {
        let world = World::known(v6);
        let inner = frame(5, 1, true, 1, 40);
        let whole = datagram_between(ends(v6, 0), false, &payload(VNIS[0], &inner));
        let outer = whole.len() - inner.len() - 8;
        let run = |octets: &[u8]| {
            let (before, ran) = (world.counters()[0].clone(), world.kernel.run_inward(octets, 1).unwrap());
            assert!(ran.verdict != Verdict::Pass || (ran.frame == octets && world.counters()[0] == before));
            ran.verdict
        };
        assert_eq!(run(&whole), Verdict::Redirect);
        for cut in 14..whole.len() {
            assert_eq!(run(&whole[..cut]), Verdict::Pass, "{cut}");
        }
        let flipped = |octet: usize, bit: u8| {
            let mut other = whole.clone();
            other[octet] ^= 1 << bit;
            run(&other)
        };
        // The link's destination; addresses of IP; the destination port; the lengths.
        let ip = if v6 { 14 + 8..14 + 40 } else { 14 + 12..14 + 20 };
        let lengths = if v6 { 18..20 } else { 16..18 };
        for octet in (0..6).chain(ip).chain(outer - 6..outer - 2).chain(lengths) {
            for bit in 0..8 {
                assert_eq!(flipped(octet, bit), Verdict::Pass, "octet {octet}, bit {bit}");
            }
        }
        // The source port and the reserved bits say nothing.
        let reserved = [outer + 1, outer + 2, outer + 3, outer + 7];
        for octet in [outer - 8, outer - 7].into_iter().chain(reserved) {
            for bit in 0..8 {
                assert_eq!(flipped(octet, bit), Verdict::Redirect, "octet {octet}, bit {bit}");
            }
        }
        for bit in 0..8 {
            let expected = if bit == 3 { Verdict::Pass } else { Verdict::Redirect };
            assert_eq!(flipped(outer, bit), expected, "flags, bit {bit}");
        }
        for octet in outer + 4..outer + 7 {
            for bit in 0..8 {
                assert_eq!(flipped(octet, bit), Verdict::Pass, "VNI, octet {octet}, bit {bit}");
            }
        }
        // The frame: its source, its EtherType, the version of its SecTAG.
        let frame_at = outer + 8;
        for octet in (frame_at + 6..frame_at + 14).chain([frame_at + 14]) {
            for bit in if octet == frame_at + 14 { 7..8 } else { 0..8 } {
                assert_eq!(flipped(octet, bit), Verdict::Pass, "frame, octet {octet}, bit {bit}");
            }
        }
        let of = |inner: &[u8]| datagram_between(ends(v6, 0), false, &payload(VNIS[0], inner));
        let tagged = [&inner[..12], &[0x81, 0, 0, 7], &inner[12..]].concat();
        let eapol = [&inner[..12], &[0x88, 0x8e, 3, 5, 0, 4, 1, 2, 3, 4], &[0; 40]].concat();
        for other in [&tagged[..], &eapol, &inner[..19], &inner[..27]] {
            assert_eq!(run(&of(other)), Verdict::Pass);
        }
        let short = frame(5, 1, false, 1, 0);
        assert_eq!(run(&of(&short)), Verdict::Redirect);
        // Padding of Ethernet is no part of the frame.
        let padded = [&of(&short)[..], &[0x5a; 30]].concat();
        let ran = world.kernel.run_inward(&padded, 1).unwrap();
        assert_eq!((ran.verdict, ran.frame), (Verdict::Redirect, short));
    }
}

#[test]
fn frames_of_a_station_elsewhere_are_judged_in_user_space() {
    let mut world = World::known(false);
    // Of this LAN; behind the other peer; nowhere.
    assert_eq!(world.receive(0, &frame(1, 5, true, 1, 40)), Outcome::ForUserSpace);
    assert_eq!(world.rust.peer_counters(PeerId(0)).in_pkts_source_here, 1);
    assert_eq!(world.receive(1, &frame(5, 1, true, 1, 40)), Outcome::ForUserSpace);
    assert_eq!(world.receive(1, &frame(6, 1, true, 1, 40)), Outcome::ForUserSpace);
    world.tell_station(6);
    assert!(matches!(world.receive(1, &frame(6, 1, true, 1, 40)), Outcome::Sent(_)));
    assert_eq!(world.receive(0, &frame(6, 1, true, 1, 40)), Outcome::ForUserSpace);
    // An address that was another peer's before.
    world.kernel.set_plain_peer(ends(false, 1)[1].ip(), 0).unwrap();
    let packet = datagram_between(ends(false, 1), false, &payload(VNIS[0], &frame(5, 1, true, 1, 40)));
    assert_eq!(world.kernel.run_inward(&packet, 1).unwrap().verdict, Verdict::Pass);
    world.kernel.set_plain_peer(ends(false, 1)[1].ip(), 1).unwrap();
    // A number that is another station's by now.
    world.kernel.set_station(6, station(11), Some(Location::Behind(PeerId(1)))).unwrap();
    assert_eq!(world.receive(1, &frame(6, 1, true, 1, 40)), Outcome::ForUserSpace);
    // An address that nobody has any more, and a path by which nothing is received.
    world.kernel.set_path(3, &path(false, 0, false)).unwrap();
    world.kernel.set_peer(0, NONE, 3).unwrap();
    assert_eq!(world.receive(0, &frame(5, 1, true, 1, 40)), Outcome::ForUserSpace);
    assert!(matches!(world.send(&frame(1, 5, true, 2, 40)), Outcome::Sent(_)));
    world.kernel.set_peer(0, NONE, 0).unwrap();
    assert!(matches!(world.receive(0, &frame(5, 1, true, 1, 40)), Outcome::Sent(_)));
    world.kernel.remove_plain_peer(ends(false, 0)[1].ip()).unwrap();
    assert_eq!(world.receive(0, &frame(5, 1, true, 1, 40)), Outcome::ForUserSpace);
}

/// A frame of the kernel's keeps a station behind its peer, as one of user space does.
#[test]
fn a_station_that_is_heard_stays() {
    let mut world = World::known(false);
    std::thread::sleep(Duration::from_millis(50));
    assert!(matches!(world.receive(0, &frame(5, 1, true, 1, 40)), Outcome::Sent(_)));
    let (location, since) = world.kernel.station(5, world.kernel.now().unwrap()).unwrap();
    assert_eq!(location, Some(Location::Behind(PeerId(0))));
    assert!(since < Duration::from_millis(40), "{since:?}");
    assert_eq!(world.kernel.counters(0).unwrap().1, 0, "programs move no station");
}

/// Packets that begin to come by the program stay behind those that the worker has from its socket still.
#[test]
fn no_packet_overtakes_one_at_the_workers_socket() {
    let mut world = World::known(false);
    let turns = world.kernel.turns().unwrap();
    let [begun, _, at_data_port, at_plain_port, ..] = turns.words() else { panic!("{turns:?}") };
    let set = |turn: u64, data: u64, plain: u64| {
        begun.store(turn, Ordering::SeqCst);
        at_data_port.store(data, Ordering::SeqCst);
        at_plain_port.store(plain, Ordering::SeqCst);
    };
    let handed_over = || std::thread::sleep(Duration::from_millis(2));
    let receive = |world: &mut World| world.receive(0, &frame(5, 1, true, 1, 40));
    set(7, 0, 0);
    // Some packet of the peer's is on its way to the socket.
    assert_eq!(world.receive(0, &frame(4, 1, true, 1, 40)), Outcome::ForUserSpace);
    assert_eq!(receive(&mut world), Outcome::ForUserSpace);
    handed_over();
    set(9, 9, 7);
    assert_eq!(receive(&mut world), Outcome::ForUserSpace, "the data port, or a turn that had begun");
    handed_over();
    set(10, 0, 10);
    assert!(matches!(receive(&mut world), Outcome::Sent(_)));
    // Other packets for the host change nothing for a station whose packets come this way.
    assert_eq!(world.receive(0, &frame(4, 1, true, 1, 40)), Outcome::ForUserSpace);
    assert!(matches!(receive(&mut world), Outcome::Sent(_)));
    // Another path: those before may have come while there was none.
    world.kernel.set_path(2, &path(false, 0, true)).unwrap();
    world.kernel.set_peer(0, NONE, 2).unwrap();
    assert_eq!(receive(&mut world), Outcome::ForUserSpace);
    handed_over();
    set(20, 0, 20);
    assert!(matches!(receive(&mut world), Outcome::Sent(_)));
    // A silence.
    std::thread::sleep(Duration::from_secs(1));
    assert_eq!(world.receive(0, &frame(4, 1, true, 1, 40)), Outcome::ForUserSpace);
    assert_eq!(receive(&mut world), Outcome::ForUserSpace);
    // A worker that is never done: for four seconds at most.
    let end = Clock::now() + Duration::from_secs(8);
    while receive(&mut world) == Outcome::ForUserSpace {
        assert!(Clock::now() < end);
        std::thread::sleep(Duration::from_millis(50));
    }
    // Settling anew takes its own time.
    world.kernel.set_path(3, &path(false, 0, true)).unwrap();
    world.kernel.set_peer(0, NONE, 3).unwrap();
    assert_eq!(receive(&mut world), Outcome::ForUserSpace);
}

/// The port of identifier mode is no port of plain mode, and there may be none.
#[test]
fn each_mode_has_its_port() {
    let mut world = World::known(false);
    let packet = |port| {
        let [mut here, there] = ends(false, 0);
        here.set_port(port);
        datagram_between([here, there], false, &payload(VNIS[0], &frame(5, 1, true, 1, 40)))
    };
    assert_eq!(world.kernel.run_inward(&packet(VXLAN_PORT), 1).unwrap().verdict, Verdict::Redirect);
    assert_eq!(world.kernel.run_inward(&packet(PORT), 1).unwrap().verdict, Verdict::Pass);
    // A port that both might have is the data port.
    world.kernel.set_plain_port(PORT).unwrap();
    assert_eq!(world.kernel.run_inward(&packet(PORT), 1).unwrap().verdict, Verdict::Pass);
    world.kernel = load(WINDOW);
    assert_eq!(world.kernel.run_inward(&packet(0), 1).unwrap().verdict, Verdict::Pass);
}

/// The half offers flows and stations to whoever forwards beside it, at most once a second each, and forgets flows that are not used.
#[test]
fn the_half_tells_of_flows_and_stations_in_use() {
    let mut rust = World::new(false).rust;
    let events = |rust: &mut Forwarding| std::iter::from_fn(|| rust.poll_event()).collect::<Vec<_>>();
    let at = |ms| Instant::after_start(Duration::from_millis(ms));
    let inward = |rust: &mut Forwarding, ms, octets: &[u8]| {
        let payload = payload(VNIS[0], octets);
        assert!(rust.handle_packet(at(ms), PacketSource::From(PeerId(0)), &payload).is_ok());
    };
    let outward = |rust: &mut Forwarding, ms, octets: &[u8]| {
        let route = rust.route(at(ms), octets).unwrap();
        assert_eq!(rust.dispatch(at(ms), &route, PeerId(0), octets).len(), 1);
    };
    let (there, here) = (frame(5, 1, true, 1, 40), frame(1, 5, true, 1, 40));
    inward(&mut rust, 0, &there);
    outward(&mut rust, 0, &here);
    assert_eq!(events(&mut rust), [], "nobody asks");
    assert_eq!(rust.flows(PeerId(0)).count(), 0);
    rust.handle_command(at(0), Command::OfferFlows);
    let tagged = |octets: &[u8]| [&octets[..12], &[0x81, 0, 0, 7], &octets[12..]].concat();
    inward(&mut rust, 0, &tagged(&there));
    outward(&mut rust, 0, &tagged(&here));
    let unknown = frame(1, 9, true, 1, 40);
    outward(&mut rust, 0, &unknown);
    assert_eq!(events(&mut rust), [], "neither is what programs know");
    for (ms, count) in [(1, 1), (1000, 0), (1001, 1)] {
        inward(&mut rust, ms, &there);
        outward(&mut rust, ms, &here);
        let told = events(&mut rust);
        assert_eq!(told.len(), 2 * count, "{told:?}");
        let (peer, generation) = (PeerId(0), tunnel::Generation::default());
        if let [station_in_use, flow_in_use] = &told[..] {
            let address = station(5);
            assert_eq!(*station_in_use, tunnel::Event::StationInUse { peer, generation, address });
            let flow = ParsedFrame::parse(&here).unwrap().flow;
            assert_eq!(
                *flow_in_use,
                tunnel::Event::FlowInUse { peer, generation, index: FlowIndex(0), flow }
            );
        }
    }
    // Used elsewhere, and then no more.
    let age = Limits::DEFAULT.flow_age.as_millis() as u64;
    let (peer, generation, index) = (PeerId(0), tunnel::Generation::default(), FlowIndex(0));
    let ages = |rust: &mut Forwarding, from: u64| {
        (0..200).for_each(|step| rust.handle_timeout(at(from + 100 * step)))
    };
    rust.handle_command(at(age), Command::FlowUsed { peer, generation, index });
    ages(&mut rust, age + 1001);
    assert_eq!(events(&mut rust), []);
    ages(&mut rust, 2 * age + 1);
    assert_eq!(events(&mut rust), [tunnel::Event::Withdraw { peer, generation, index }]);
}
