//! The programs of a site do what crate `tunnel` does: octets, outcomes, counters and windows, whatever comes and in whatever order.
//! Root, as all that loads programs.
#![allow(clippy::unwrap_used)]

use std::net::SocketAddr;
use std::time::{Duration, Instant as Clock};

use proptest::prelude::*;
use suite::tunnel::EpochSecret;
use tunnel::{
    Command, Delivery, Destination, Discard, Forwarding, Generation, InDiscard, Limits, Location, Mode,
    PeerCounters, PeerId, PeerSettings, UnknownDiscard,
};
use wire::tunnel::{Flow, FlowIndex, Header, PacketForm, ParsedFrame, SHORT_HEADER_OCTETS};
use wire::{Instant, MacAddr};
use xdp::site::{FlowPath, Room, Settings, Site, UdpPath};
use xdp::{Ran, Unclaimed, Verdict};

const WINDOW: u64 = 64;
const LAN_FRAME: usize = 1530;
const PAYLOAD: usize = 1400;
const PORT: u16 = 4790;
const PEERS: u16 = 2;
const STATIONS: u8 = 12;
/// Lane of the kernel, at both ends.
const LANE: u8 = 1;
const GENERATION: Generation = Generation(1);
const LOOPBACK: u32 = 1;
const LONGEST_BODY: usize = PAYLOAD - SHORT_HEADER_OCTETS;

/// One site twice, and peers whose packets are made here.
struct World {
    rust: Forwarding,
    kernel: Site,
    began: Clock,
    v6: bool,
    window: u64,
    /// By peer: the epoch, and the next seq of the kernel's lane towards it.
    sent: Vec<(u32, u64)>,
    /// Flows that the kernel has, and whether they are slow.
    flows: Vec<(Flow, FlowPath, bool)>,
}

/// What became of a packet.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Outcome {
    Sent(Vec<u8>),
    Discarded(Option<InDiscard>),
    ForUserSpace,
}

fn station(number: u8) -> MacAddr {
    MacAddr([2, 0, 0, 0, 0, number])
}

/// A MACsec frame with `body` octets behind its SecTAG; with SCI, or without.
fn frame(source: u8, destination: u8, sci: bool, pn: u32, body: usize) -> Vec<u8> {
    let tci: &[u8] = if sci { &[0x2d, 0x11] } else { &[0x4e, 0] };
    let mut frame =
        [&station(destination).0[..], &station(source).0, &[0x88, 0xe5], tci, &pn.to_be_bytes()].concat();
    if sci {
        frame.extend(station(source).0);
        frame.extend([0, 1]);
    }
    frame.extend((0..body).map(|octet| (octet as u32 ^ pn.wrapping_mul(31)) as u8));
    frame
}

fn secret(peer: u16, epoch: u32, inward: bool) -> EpochSecret {
    EpochSecret::new(&[(2 * (u32::from(peer) + 16 * epoch) + u32::from(inward)) as u8; 32])
}

fn receive_lane(peer: u16, epoch: u32) -> u32 {
    2 * u32::from(peer) + epoch % 2
}

/// Packet of a seq, as a peer makes it: without the kernel's and the tunnel's code.
fn packet(secret: &EpochSecret, lane: u8, seq: u64, header: Header, body: &[u8]) -> Vec<u8> {
    let key = secret.lane_key(lane);
    let (block, fields) = (key.block(seq), header.encode());
    let masked: Vec<u8> = fields.iter().zip(block.mask).map(|(octet, mask)| octet ^ mask).collect();
    [&block.rid.octets()[..], &key.check(block.pad, fields), &masked, body].concat()
}

fn addresses(v6: bool) -> [SocketAddr; 2] {
    let [here, there] =
        if v6 { ["[fd00::1:2]:4790", "[fd00:7::9]:4791"] } else { ["192.0.2.1:4790", "198.51.100.77:4791"] };
    [here.parse().unwrap(), there.parse().unwrap()]
}

fn sum(octets: &[u8]) -> u16 {
    let mut sum = 0_u32;
    for word in octets.chunks(2) {
        sum += u32::from(u16::from_be_bytes([word[0], word.get(1).copied().unwrap_or(0)]));
    }
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

/// A payload with everything in front, from the peer or to it, with right checksums.
fn datagram(v6: bool, outward: bool, payload: &[u8]) -> Vec<u8> {
    let [mut from, mut to] = addresses(v6);
    let mut links = [[2, 9, 9, 9, 9, 1], [2, 9, 9, 9, 9, 2]];
    if !outward {
        std::mem::swap(&mut from, &mut to);
        links.reverse();
    }
    let length = 8 + payload.len() as u16;
    let mut udp = [from.port().to_be_bytes(), to.port().to_be_bytes(), length.to_be_bytes(), [0; 2]].concat();
    let mut ip = match (from.ip(), to.ip()) {
        (std::net::IpAddr::V4(from), std::net::IpAddr::V4(to)) => {
            let [high, low] = (20 + length).to_be_bytes();
            [&[0x45, 0, high, low, 0, 0, 0x40, 0, 64, 17, 0, 0][..], &from.octets(), &to.octets()].concat()
        }
        (std::net::IpAddr::V6(from), std::net::IpAddr::V6(to)) => {
            let [high, low] = length.to_be_bytes();
            [&[0x60, 0, 0, 0, high, low, 17, 64][..], &from.octets(), &to.octets()].concat()
        }
        _ => unreachable!(),
    };
    if v6 {
        let checksum = match !sum(&[&ip[8..], &[0, 17], &length.to_be_bytes(), &udp, payload].concat()) {
            0 => 0xffff,
            other => other,
        };
        udp[6..8].copy_from_slice(&checksum.to_be_bytes());
    } else {
        let checksum = !sum(&ip);
        ip[10..12].copy_from_slice(&checksum.to_be_bytes());
    }
    let ethertype: [u8; 2] = if v6 { [0x86, 0xdd] } else { [8, 0] };
    [&links[1][..], &links[0], &ethertype, &ip, &udp, payload].concat()
}

fn load(window: u64) -> Site {
    load_with(window, Duration::ZERO)
}

/// Programs whose flows settle by a pause this long.
fn load_with(window: u64, quiet: Duration) -> Site {
    let room =
        Room { peers: PEERS.into(), lanes: 2 * u32::from(PEERS), flows: 64, stations: STATIONS.into() };
    let settings = Settings {
        window,
        lan_frame: LAN_FRAME,
        port: PORT,
        station_age: Limits::DEFAULT.station_age,
        quiet,
    };
    let loaded = match std::env::var_os("FRAMEWARD_SITE_OBJECT") {
        Some(file) => Site::load_object(&std::fs::read(file).unwrap(), &room, &settings, Unclaimed::Pass),
        None => Site::load(&room, &settings, Unclaimed::Pass),
    };
    loaded.unwrap_or_else(|error| panic!("{error}"))
}

impl World {
    fn new(v6: bool) -> Self {
        Self::with(v6, WINDOW)
    }

    fn with(v6: bool, window: u64) -> Self {
        let peer = PeerSettings { mode: Mode::Identifier, path_payload: PAYLOAD };
        let rust = Forwarding::new(tunnel::Settings {
            peers: vec![peer; PEERS.into()],
            lan_frame: LAN_FRAME,
            limits: Limits::DEFAULT,
            window,
            table_seed: [7; 16],
        });
        let mut kernel = load(window);
        kernel.set_lan(LOOPBACK).unwrap();
        kernel.set_wan(1, LOOPBACK).unwrap();
        let [source, destination] = addresses(v6);
        let [interface, next_hop] = [1, 2].map(|last| MacAddr([2, 9, 9, 9, 9, last]));
        kernel
            .set_path(
                0,
                &UdpPath { interface, next_hop, source, destination, payload: PAYLOAD, port: 1, dscp: 0 },
            )
            .unwrap();
        let mut world = Self {
            rust,
            kernel,
            began: Clock::now(),
            v6,
            window,
            sent: vec![(0, 1); PEERS.into()],
            flows: Vec::new(),
        };
        for peer in 0..PEERS {
            world.rust.handle_command(
                Instant::START,
                Command::Begin { peer: PeerId(peer), generation: GENERATION },
            );
            world.install(peer);
        }
        world
    }

    fn now(&self) -> Instant {
        Instant::after_start(self.began.elapsed())
    }

    /// The next epoch of a peer, in both directions.
    fn install(&mut self, peer: u16) {
        let epoch = self.sent[usize::from(peer)].0 + 1;
        let (now, id, generation) = (self.now(), PeerId(peer), GENERATION);
        let [receive, transmit] = [true, false].map(|inward| secret(peer, epoch, inward));
        let lane = receive_lane(peer, epoch);
        if epoch > 2 {
            self.kernel.close_receive(lane).unwrap();
            self.kernel.close_transmit(lane).unwrap();
        }
        self.kernel.open_receive(lane, peer.into(), &receive.lane_key(LANE)).unwrap();
        self.kernel.open_transmit(lane, &transmit.lane_key(LANE)).unwrap();
        self.kernel.set_peer(peer.into(), lane, 0).unwrap();
        self.rust.handle_command(
            now,
            Command::InstallReceive { peer: id, generation, epoch, secret: receive, lanes: LANE + 1 },
        );
        self.rust
            .handle_command(now, Command::InstallTransmit { peer: id, generation, epoch, secret: transmit });
        self.sent[usize::from(peer)] = (epoch, 1);
        self.fill();
    }

    /// All windows are as full as they become.
    fn fill(&mut self) {
        while self.rust.poll_timeout().is_some_and(|at| at == Instant::START) {
            self.rust.handle_timeout(self.now());
        }
        for peer in 0..PEERS {
            for epoch in 0..2 {
                let lane = receive_lane(peer, epoch);
                let full = (0..100).any(|_| self.kernel.fill(lane).unwrap().missing == 0);
                assert!(full, "lane {lane} does not become full");
            }
        }
        while self.rust.poll_event().is_some() {}
    }

    /// What the kernel knows of stations is what Rust knows.
    fn tell_station(&mut self, number: u8) {
        let known =
            self.rust.stations().find(|known| known.address == station(number)).map(|known| known.location);
        self.kernel.set_station(number.into(), known).unwrap();
    }

    fn location(&self, number: u8) -> Option<Location> {
        self.kernel.station(number.into(), self.kernel.now().unwrap()).unwrap().0
    }

    /// A flow of the LAN towards a peer, which the peer has acknowledged.
    fn send_known(&mut self, peer: u16, source: u8, destination: u8, sci: bool) {
        let (now, id) = (self.now(), PeerId(peer));
        let frame = frame(source, destination, sci, 1, 40);
        let Some(route) = self.rust.route(now, &frame) else { return };
        self.rust.dispatch(now, &route, id, &frame);
        let flow = route.taken.flow;
        let Some(index) = self.rust.flows(id).find(|known| known.flow == flow).map(|known| known.index)
        else {
            return;
        };
        self.rust.handle_command(now, Command::Announced { peer: id, generation: GENERATION, index });
        self.tell_station(source);
        self.tell_station(destination);
        let path =
            FlowPath { peer: peer.into(), index, source: source.into(), destination: destination.into() };
        self.kernel.add_flow(&flow, &path).unwrap();
        self.flows.retain(|known| known.0 != flow);
        self.flows.push((flow, path, false));
    }

    /// A flow that a peer announces.
    fn announce(&mut self, peer: u16, index: u16, source: u8, destination: u8, sci: bool) {
        let flow = ParsedFrame::parse(&frame(source, destination, sci, 1, 0)).unwrap().flow;
        let (now, index) = (self.now(), FlowIndex(index));
        self.rust.handle_command(
            now,
            Command::AddFlow { peer: PeerId(peer), generation: GENERATION, index, flow },
        );
        while self.rust.poll_event().is_some() {}
        self.kernel.announce(peer.into(), index, &flow, source.into()).unwrap();
    }

    /// A station is heard behind a peer, so that frames for it go there: by a packet that user space takes.
    fn hear(&mut self, peer: u16, seq: u64, source: u8, destination: u8) {
        let index = 9_000 + u16::from(source);
        self.announce(peer, index, source, destination, true);
        let header = self.header(index, PacketForm::Whole, 1, true);
        let packet = packet(&secret(peer, self.sent[usize::from(peer)].0, true), 0, seq, header, &[0; 40]);
        let delivered = self.receive(false, &datagram(self.v6, false, &packet));
        assert_eq!(delivered, Outcome::ForUserSpace);
        self.tell_station(source);
    }

    fn header(&self, index: u16, form: PacketForm, pn: u32, sci: bool) -> Header {
        let fields = ParsedFrame::parse(&frame(0, 0, sci, pn, 0)).unwrap().fields;
        Header { flow: FlowIndex(index), form, fields }
    }

    /// A packet of a peer, on the kernel's lane.
    fn of_peer(
        &self,
        (peer, epoch, seq): (u16, u32, u64),
        index: u16,
        pn: u32,
        sci: bool,
        body: usize,
    ) -> Vec<u8> {
        let header = self.header(index, PacketForm::Whole, pn, sci);
        let body: Vec<u8> = (0..body).map(|octet| (octet as u32 ^ pn) as u8).collect();
        datagram(self.v6, false, &packet(&secret(peer, epoch, true), LANE, seq, header, &body))
    }

    fn counters(&self) -> Vec<PeerCounters> {
        (0..PEERS).map(|peer| self.kernel.counters(peer.into()).unwrap().0).collect()
    }

    fn rust_counters(&self) -> Vec<PeerCounters> {
        (0..PEERS).map(|peer| self.rust.peer_counters(PeerId(peer))).collect()
    }

    /// A frame of the LAN, through both.
    fn send(&mut self, frame: &[u8]) -> Outcome {
        let before = (self.counters(), self.rust_counters());
        let parsed = ParsedFrame::parse(frame).ok();
        let known = parsed.and_then(|parsed| self.flows.iter().position(|known| known.0 == parsed.flow));
        let in_place = known.is_some_and(|known| {
            let path = self.flows[known].1;
            self.location(path.source as u8) == Some(Location::Here)
                && self.location(path.destination as u8) == Some(Location::Behind(PeerId(path.peer as u16)))
        });
        let ran = self.kernel.run_outward(frame, 1).unwrap();
        let now = self.now();
        let route = self.rust.route(now, frame);
        let peers = match route.map(|route| route.destination) {
            None => vec![],
            Some(Destination::Peer(peer)) => vec![peer],
            Some(Destination::All) => (0..PEERS).map(PeerId).collect(),
        };
        let packets: Vec<_> = peers
            .iter()
            .flat_map(|peer| self.rust.dispatch(now, route.as_ref().unwrap(), *peer, frame).to_vec())
            .collect();
        while self.rust.poll_event().is_some() {}
        let octets = frame.len() - parsed.map_or(0, |parsed| parsed.flow.prefix_octets());
        let fits = octets <= LONGEST_BODY;
        let may = known.is_some_and(|known| !self.flows[known].2) && in_place;
        if !(may && fits) {
            if let (true, Some(known)) = (may, known) {
                self.flows[known].2 = true;
            }
            assert_eq!((ran.verdict, &ran.frame[..]), (Verdict::Pass, frame));
            assert_eq!(self.counters(), before.0);
            if let Some(parsed) = parsed {
                let source = parsed.flow.source.0[5];
                if source < STATIONS {
                    self.tell_station(source);
                }
            }
            return Outcome::ForUserSpace;
        }
        let (_, path, _) = self.flows[known.unwrap()];
        let peer = path.peer as u16;
        let [taken] = &packets[..] else { panic!("{packets:?}") };
        assert_eq!((taken.header.len(), peers), (SHORT_HEADER_OCTETS, vec![PeerId(peer)]));
        let (epoch, seq) = self.sent[usize::from(peer)];
        self.sent[usize::from(peer)].1 += 1;
        let header = Header { flow: path.index, form: PacketForm::Whole, fields: parsed.unwrap().fields };
        let body = &frame[taken.body.clone()];
        let expected = packet(&secret(peer, epoch, false), LANE, seq, header, body);
        assert_eq!((ran.verdict, &ran.frame), (Verdict::Redirect, &datagram(self.v6, true, &expected)));
        assert_eq!(taken.octets(), expected.len());
        self.count_alike(&before);
        Outcome::Sent(ran.frame)
    }

    /// Both have counted the same since.
    fn count_alike(&self, before: &(Vec<PeerCounters>, Vec<PeerCounters>)) {
        let more = |after: Vec<PeerCounters>, before: &[PeerCounters]| -> Vec<Vec<u64>> {
            let pairs = after.into_iter().zip(before);
            pairs.map(|(a, b)| a.values().iter().zip(b.values()).map(|(a, b)| a - b).collect()).collect()
        };
        let (kernel, rust) = (more(self.counters(), &before.0), more(self.rust_counters(), &before.1));
        assert_eq!(kernel, rust, "counters {:?}", PeerCounters::NAMES);
    }

    /// A packet of the network, through both. `ours`: it has an identifier of the kernel's lanes, or none.
    fn receive(&mut self, ours: bool, octets: &[u8]) -> Outcome {
        let before = (self.counters(), self.rust_counters());
        let Ran { verdict, frame, .. } = self.kernel.run_inward(octets, 1).unwrap();
        let now = self.now();
        let rust = match udp_payload(octets) {
            None => Outcome::ForUserSpace,
            Some(payload) => match self.rust.handle_packet(now, tunnel::PacketSource::Identifier, payload) {
                Ok(Delivery::Frame { prefix, body, .. }) => {
                    Outcome::Sent([&prefix[..], &payload[body]].concat())
                }
                Err(Discard::Of(_, reason)) => Outcome::Discarded(Some(reason)),
                Err(Discard::Unknown(UnknownDiscard::WrongMode)) => panic!("all are of one mode"),
                Err(Discard::Unknown(_)) => Outcome::ForUserSpace,
                Ok(_) => Outcome::ForUserSpace,
            },
        };
        while self.rust.poll_event().is_some() {}
        let kernel = match verdict {
            Verdict::Redirect => Outcome::Sent(frame.clone()),
            Verdict::Drop => Outcome::Discarded(match &rust {
                Outcome::Discarded(reason) => *reason,
                _ => None,
            }),
            Verdict::Pass => Outcome::ForUserSpace,
            Verdict::Aborted => panic!("aborted"),
        };
        if kernel == Outcome::ForUserSpace {
            assert_eq!(frame, octets, "what is user space's is left as it came");
        }
        if ours {
            assert_eq!(kernel, rust);
            self.count_alike(&before);
            for number in [1, 5, 6, 7] {
                let known = self.rust.stations().find(|known| known.address == station(number));
                if let Some(location) = self.location(number) {
                    assert_eq!(Some(location), known.map(|known| known.location), "station {number}");
                }
            }
        } else {
            assert_eq!(self.counters(), before.0);
        }
        kernel
    }
}

/// Payload of a UDP datagram to the site's port, as its socket would give it.
fn udp_payload(octets: &[u8]) -> Option<&[u8]> {
    let (ip, given) = match octets.get(12..14)? {
        [8, 0]
            if *octets.get(14)? == 0x45
                && *octets.get(23)? == 17
                && octets[20] & 0x3f == 0
                && octets[21] == 0 =>
        {
            (20, usize::from(u16::from_be_bytes([octets[16], octets[17]])).checked_sub(20)?)
        }
        [0x86, 0xdd] if *octets.get(20)? == 17 => {
            (40, usize::from(u16::from_be_bytes([octets[18], octets[19]])))
        }
        _ => return None,
    };
    let udp = octets.get(14 + ip..)?;
    let length = usize::from(u16::from_be_bytes(udp.get(4..6)?.try_into().unwrap()));
    let mine = u16::from_be_bytes(udp.get(2..4)?.try_into().unwrap()) == PORT;
    let payload = udp.get(8..length)?;
    // A packet of QUIC is the manager's.
    (mine && given == length && payload.first()? & 0x40 == 0).then_some(payload)
}

#[test]
fn frames_of_every_length_leave_and_arrive_as_in_user_space() {
    for v6 in [false, true] {
        let mut world = World::new(v6);
        world.announce(0, 7, 5, 1, true);
        world.announce(0, 8, 6, 1, false);
        world.hear(0, 1, 5, 1);
        world.hear(0, 2, 6, 1);
        for sci in [true, false] {
            world.send_known(0, 1, 5, sci);
        }
        let mut seq = 0;
        for body in 0..=LONGEST_BODY {
            for (sci, index) in [(true, 7), (false, 8)] {
                let out = world.send(&frame(1, 5, sci, body as u32 + 1, body));
                assert!(matches!(out, Outcome::Sent(_)), "{body}");
                seq += 1;
                let back = world.of_peer((0, 1, seq), index, 0xfe00_0000 | body as u32, sci, body);
                assert!(matches!(world.receive(true, &back), Outcome::Sent(_)), "{body}");
            }
        }
    }
}

/// Over IPv6 a checksum of zero is sent as ones: zero says that there is none, and no host takes that.
#[test]
fn no_packet_goes_without_a_checksum_over_ipv6() {
    let mut world = World::new(true);
    world.hear(0, 1, 5, 1);
    world.send_known(0, 1, 5, true);
    let mut whole = frame(1, 5, true, 1, 40);
    let last = whole.len() - 2;
    whole[last..].fill(0);
    let fields = ParsedFrame::parse(&whole).unwrap().fields;
    let header = Header { flow: world.flows[0].1.index, form: PacketForm::Whole, fields };
    let like_this = datagram(true, true, &packet(&secret(0, 1, false), LANE, 1, header, &whole[28..]));
    // The word that fills the sum up to all ones.
    whole[last..].copy_from_slice(&like_this[60..62]);
    match world.send(&whole) {
        Outcome::Sent(packet) => assert_eq!(packet[60..62], [0xff; 2]),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_frame_that_does_not_fit_the_path_takes_its_flow_with_it() {
    let mut world = World::new(false);
    world.hear(0, 1, 5, 1);
    for source in [1, 2] {
        world.send_known(0, source, 5, true);
    }
    assert!(matches!(world.send(&frame(1, 5, true, 1, LONGEST_BODY)), Outcome::Sent(_)));
    assert_eq!(world.send(&frame(1, 5, true, 2, LONGEST_BODY + 1)), Outcome::ForUserSpace);
    assert_eq!(
        world.send(&frame(1, 5, true, 3, 40)),
        Outcome::ForUserSpace,
        "not before the one in front of it"
    );
    assert!(matches!(world.send(&frame(2, 5, true, 1, 40)), Outcome::Sent(_)), "other flows go on");
    let (flow, path, _) = world.flows[0];
    let now = world.kernel.now().unwrap();
    let slow = [0, 1].map(|number| world.kernel.flow_use(&world.flows[number].0, now).unwrap());
    assert!(slow[0].slow && !slow[1].slow && slow[1].idle.is_some());
    world.kernel.add_flow(&flow, &path).unwrap();
    world.flows[0].2 = false;
    assert!(matches!(world.send(&frame(1, 5, true, 4, 40)), Outcome::Sent(_)));
    world.kernel.remove_flow(&flow).unwrap();
    world.flows.remove(0);
    assert_eq!(world.send(&frame(1, 5, true, 5, 40)), Outcome::ForUserSpace);
}

#[test]
fn what_is_not_a_known_flows_is_left_to_user_space() {
    let mut world = World::new(false);
    world.hear(0, 1, 5, 1);
    world.send_known(0, 1, 5, true);
    let whole = frame(1, 5, true, 1, 40);
    for cut in 14..28 {
        assert_eq!(world.send(&whole[..cut]), Outcome::ForUserSpace, "{cut}");
    }
    // DA, SA, EtherType, V, ES, SC, SCB, SCI: each bit is another flow, or none.
    for octet in (0..15).chain(20..28) {
        let bits = if octet == 14 { 4..8 } else { 0..8 };
        for bit in bits {
            let mut other = whole.clone();
            other[octet] ^= 1 << bit;
            assert_eq!(world.send(&other), Outcome::ForUserSpace, "octet {octet}, bit {bit}");
        }
    }
    let tagged = [&whole[..12], &[0x81, 0, 0, 5], &whole[12..]].concat();
    assert_eq!(world.send(&tagged), Outcome::ForUserSpace);
    assert!(matches!(world.send(&whole), Outcome::Sent(_)));
    // E, C, AN, octet 3 and PN are the packet's own.
    for octet in 14..20 {
        for bit in if octet == 14 { 0..4 } else { 0..8 } {
            let mut other = whole.clone();
            other[octet] ^= 1 << bit;
            assert!(matches!(world.send(&other), Outcome::Sent(_)), "octet {octet}, bit {bit}");
        }
    }
}

#[test]
fn what_is_no_packet_of_the_kernels_lanes_is_the_hosts() {
    for v6 in [false, true] {
        let mut world = World::new(v6);
        world.announce(0, 7, 5, 1, true);
        let whole = world.of_peer((0, 1, 1), 7, 1, true, 40);
        for cut in 14..whole.len() {
            assert_eq!(world.receive(true, &whole[..cut]), Outcome::ForUserSpace, "{cut}");
        }
        // Another destination port, QUIC, and fragments of IP.
        let ports = if v6 { 14 + 42 } else { 14 + 22 };
        for (octet, bit) in [(ports, 0x10), (ports + 1, 1), (ports + 6, 0x40), (12, 8), (13, 1)] {
            let mut other = whole.clone();
            other[octet] ^= bit;
            assert_eq!(world.receive(true, &other), Outcome::ForUserSpace, "octet {octet}");
        }
        if !v6 {
            for (octet, bit) in [(14, 1), (20, 0x20), (20, 1), (21, 1), (23, 1)] {
                let mut other = whole.clone();
                other[octet] ^= bit;
                assert_eq!(world.receive(true, &other), Outcome::ForUserSpace, "octet {octet}");
            }
        }
        for secret in [secret(0, 1, false), secret(1, 1, true)] {
            // Reflected, and of another peer, whose window does not reach so far.
            let header = world.header(7, PacketForm::Whole, 1, true);
            let other = datagram(v6, false, &packet(&secret, LANE, 4095, header, &[0; 40]));
            assert_eq!(world.receive(true, &other), Outcome::ForUserSpace);
        }
        // Padding of Ethernet is no part of the frame.
        let padded = [&whole[..], &[0x5a; 30]].concat();
        assert!(matches!(world.receive(true, &padded), Outcome::Sent(_)));
        assert_eq!(world.receive(true, &whole), Outcome::ForUserSpace, "once and not again");
    }
}

#[test]
fn a_changed_header_uses_its_identifier_up_and_is_dropped() {
    let mut world = World::new(false);
    world.announce(0, 7, 5, 1, true);
    world.receive(true, &world.of_peer((0, 1, 1), 7, 1, true, 40));
    let mut dropped = 0;
    for bit in 0..16 * 8 {
        let seq = 2 + bit as u64;
        let mut spoilt = world.of_peer((0, 1, seq), 7, 1, true, 40);
        spoilt[42 + bit / 8] ^= 1 << (bit % 8);
        let outcome = world.receive(true, &spoilt);
        assert!(!matches!(outcome, Outcome::Sent(_)), "bit {bit}");
        dropped += u32::from(outcome == Outcome::Discarded(Some(InDiscard::ForgedHeader)));
    }
    assert_eq!(dropped, 80, "all of check and header");
}

#[test]
fn each_reason_has_its_counter() {
    let mut world = World::new(false);
    world.announce(0, 7, 5, 1, true);
    world.announce(0, 8, 1, 5, true);
    world.hear(0, 1, 5, 1);
    world.send_known(0, 1, 5, true);
    let discarded = |reason| Outcome::Discarded(Some(reason));
    let unknown = world.of_peer((0, 1, 1), 0x1234, 1, true, 40);
    assert_eq!(world.receive(true, &unknown), discarded(InDiscard::UnknownFlow));
    let lane = receive_lane(0, 1);
    assert_eq!(world.kernel.look(lane).unwrap().unknown, Some(FlowIndex(0x1234)));
    assert_eq!(world.kernel.look(lane).unwrap().unknown, None, "told once");
    let long = world.of_peer((0, 1, 2), 7, 1, true, LAN_FRAME - 28);
    assert!(matches!(world.receive(true, &long), Outcome::Sent(_)));
    let longer = world.of_peer((0, 1, 3), 7, 1, true, LAN_FRAME - 27);
    assert_eq!(world.receive(true, &longer), discarded(InDiscard::TooLong));
    // Station 1 has just sent here.
    let ours = world.of_peer((0, 1, 4), 8, 1, true, 40);
    assert_eq!(world.receive(true, &ours), discarded(InDiscard::SourceHere));
    world.kernel.withdraw(0, FlowIndex(7)).unwrap();
    world.rust.handle_command(
        world.now(),
        Command::WithdrawFlow { peer: PeerId(0), generation: GENERATION, index: FlowIndex(7) },
    );
    let gone = world.of_peer((0, 1, 5), 7, 1, true, 40);
    assert_eq!(world.receive(true, &gone), discarded(InDiscard::UnknownFlow));
    // A peer that sends anything but whole frames in short form on these lanes.
    let header = world.header(8, PacketForm::Second, 1, true);
    let part = datagram(false, false, &packet(&secret(0, 1, true), LANE, 6, header, &[0; 40]));
    assert_eq!(world.kernel.run_inward(&part, 1).unwrap().verdict, Verdict::Drop);
    assert_eq!(world.kernel.counters(0).unwrap().0.in_pkts_bad_header, 1);
    world.kernel.clear_counters(0).unwrap();
    assert_eq!(world.kernel.counters(0).unwrap(), (PeerCounters::default(), 0));
}

#[test]
fn a_station_moves_after_a_second_of_silence() {
    let mut world = World::new(false);
    world.announce(0, 7, 5, 1, true);
    world.announce(1, 8, 5, 1, true);
    world.announce(0, 9, 1, 5, true);
    world.hear(0, 1, 5, 1);
    world.send_known(0, 1, 5, true);
    let mut seq = [0; 2];
    let mut hear = |world: &mut World, peer: u16, index| {
        seq[usize::from(peer)] += 1;
        let packet = world.of_peer((peer, 1, seq[usize::from(peer)]), index, 1, true, 40);
        world.receive(true, &packet)
    };
    let behind = |peer| Some(Location::Behind(PeerId(peer)));
    assert!(matches!(hear(&mut world, 0, 7), Outcome::Sent(_)));
    assert!(matches!(hear(&mut world, 1, 8), Outcome::Sent(_)), "delivered, and not believed");
    assert_eq!(world.location(5), behind(0));
    assert!(matches!(world.send(&frame(1, 5, true, 1, 40)), Outcome::Sent(_)));
    std::thread::sleep(Duration::from_millis(1100));
    assert!(matches!(hear(&mut world, 1, 8), Outcome::Sent(_)));
    assert_eq!(world.location(5), behind(1));
    assert_eq!(world.send(&frame(1, 5, true, 2, 40)), Outcome::ForUserSpace, "this flow goes to peer 0");
    assert_eq!(
        hear(&mut world, 0, 9),
        Outcome::Discarded(Some(InDiscard::SourceHere)),
        "it has just sent here"
    );
    std::thread::sleep(Duration::from_millis(1100));
    assert!(matches!(hear(&mut world, 0, 9), Outcome::Sent(_)));
    assert_eq!(world.location(1), behind(0));
    assert_eq!(world.kernel.counters(0).unwrap().1 + world.kernel.counters(1).unwrap().1, 2);
    assert_eq!(world.send(&frame(1, 5, true, 3, 40)), Outcome::ForUserSpace, "out of a tunnel into none");
}

#[test]
fn a_station_that_was_not_heard_for_long_is_user_spaces() {
    let mut world = World::new(false);
    world.hear(0, 1, 5, 1);
    world.send_known(0, 1, 5, true);
    world.kernel = load(WINDOW);
    let age = Duration::from_millis(50);
    let room = Room { peers: 1, lanes: 2, flows: 4, stations: STATIONS.into() };
    let settings = Settings {
        window: WINDOW,
        lan_frame: LAN_FRAME,
        port: PORT,
        station_age: age,
        quiet: Duration::ZERO,
    };
    let loaded = match std::env::var_os("FRAMEWARD_SITE_OBJECT") {
        Some(file) => Site::load_object(&std::fs::read(file).unwrap(), &room, &settings, Unclaimed::Drop),
        None => Site::load(&room, &settings, Unclaimed::Drop),
    };
    let mut site = loaded.unwrap();
    site.set_wan(1, LOOPBACK).unwrap();
    site.set_path(0, &udp_path(0)).unwrap();
    site.set_peer(0, 0, 0).unwrap();
    let (flow, path, _) = world.flows[0];
    site.add_flow(&flow, &path).unwrap();
    site.set_station(1, Some(Location::Here)).unwrap();
    site.set_station(5, Some(Location::Behind(PeerId(0)))).unwrap();
    let whole = frame(1, 5, true, 1, 40);
    let verdict = |site: &Site| site.run_outward(&whole, 1).unwrap().verdict;
    // One frame for user space takes those behind it with it.
    let left = |site: &mut Site, why: &str| {
        assert_eq!(verdict(site), Verdict::Drop, "{why}; no socket takes it");
        assert!(site.flow_use(&flow, site.now().unwrap()).unwrap().slow, "{why}");
        site.set_station(1, Some(Location::Here)).unwrap();
        site.set_station(5, Some(Location::Behind(PeerId(0)))).unwrap();
        assert_eq!(verdict(site), Verdict::Drop, "{why}: the flow stays there");
        site.add_flow(&flow, &path).unwrap();
    };
    left(&mut site, "no lane");
    site.open_transmit(0, &secret(0, 1, false).lane_key(LANE)).unwrap();
    assert_eq!(verdict(&site), Verdict::Redirect);
    assert_eq!(site.next_seq(0).unwrap(), 2);
    for elsewhere in [Some(Location::Behind(PeerId(0))), None] {
        site.set_station(1, elsewhere).unwrap();
        left(&mut site, "out of a tunnel into none");
    }
    assert_eq!(verdict(&site), Verdict::Redirect);
    std::thread::sleep(2 * age);
    left(&mut site, "not heard for long");
    site.close_transmit(0).unwrap();
    assert_eq!(site.next_seq(0).unwrap(), 0);
}

/// A path over IPv4, with this DSCP.
fn udp_path(dscp: u8) -> UdpPath {
    let ([source, destination], address) = (addresses(false), MacAddr([2; 6]));
    UdpPath { interface: address, next_hop: address, source, destination, payload: PAYLOAD, port: 1, dscp }
}

/// Frames of an added flow stay behind those that user space has still.
#[test]
fn an_added_flow_waits_for_a_pause() {
    let (quiet, step) = (Duration::from_millis(300), Duration::from_millis(15));
    let mut world = World::new(false);
    world.hear(0, 1, 5, 1);
    world.send_known(0, 1, 5, true);
    let (flow, path, _) = world.flows[0];
    let mut site = load_with(WINDOW, quiet);
    site.set_wan(1, LOOPBACK).unwrap();
    site.set_path(0, &udp_path(46)).unwrap();
    site.set_peer(0, 0, 0).unwrap();
    site.open_transmit(0, &secret(0, 1, false).lane_key(LANE)).unwrap();
    site.set_station(1, Some(Location::Here)).unwrap();
    site.set_station(5, Some(Location::Behind(PeerId(0)))).unwrap();
    let whole = frame(1, 5, true, 1, 40);
    let ran = |site: &Site| site.run_outward(&whole, 1).unwrap();
    site.add_flow(&flow, &path).unwrap();
    // A pause since the last frame, not since the flow was added.
    for _ in 0..2 * quiet.as_millis() / step.as_millis() {
        assert_eq!(ran(&site).verdict, Verdict::Pass);
        std::thread::sleep(step);
    }
    let used = site.flow_use(&flow, site.now().unwrap()).unwrap();
    assert_eq!((used.idle, used.slow), (None, false), "it is not to be added anew");
    std::thread::sleep(quiet + quiet / 4);
    let sent = ran(&site);
    assert_eq!(sent.verdict, Verdict::Redirect);
    assert_eq!(sent.frame[15], 46 << 2, "its DSCP");
    assert_eq!(ran(&site).verdict, Verdict::Redirect);
    // A flow that does not pause does not wait for ever.
    let added = Clock::now();
    site.add_flow(&flow, &path).unwrap();
    loop {
        let verdict = ran(&site).verdict;
        if added.elapsed() >= Duration::from_secs(1) {
            break;
        }
        assert_eq!(verdict, Verdict::Pass);
        std::thread::sleep(step);
    }
    let end = Clock::now() + Duration::from_millis(300);
    while ran(&site).verdict == Verdict::Pass {
        assert!(Clock::now() < end, "it waits for ever");
        std::thread::sleep(step);
    }
}

/// A station all of whose frames are user space's is here all the same: no peer takes its place.
#[test]
fn a_station_is_heard_in_frames_of_user_space_too() {
    let mut world = World::new(false);
    world.announce(0, 7, 5, 1, true);
    world.kernel.set_address(station(5), 5).unwrap();
    let mut seq = 0;
    let mut receive = |world: &mut World| {
        seq += 1;
        let packet = world.of_peer((0, 1, seq), 7, 1, true, 40);
        world.kernel.run_inward(&packet, 1).unwrap().verdict
    };
    let unknown = frame(5, 9, true, 1, 40);
    assert_eq!(world.kernel.run_outward(&unknown, 1).unwrap().verdict, Verdict::Pass);
    assert_eq!(world.location(5), Some(Location::Here));
    assert_eq!(receive(&mut world), Verdict::Drop, "it has just sent here");
    std::thread::sleep(Duration::from_millis(700));
    world.kernel.run_outward(&unknown, 1).unwrap();
    std::thread::sleep(Duration::from_millis(700));
    assert_eq!(receive(&mut world), Verdict::Drop, "it has sent within a second");
    std::thread::sleep(Duration::from_millis(1100));
    assert_eq!(receive(&mut world), Verdict::Redirect);
    assert_eq!(world.location(5), Some(Location::Behind(PeerId(0))));
    // Out of a tunnel: user space looks at it.
    world.kernel.run_outward(&unknown, 1).unwrap();
    assert_eq!(world.location(5), Some(Location::Behind(PeerId(0))));
    world.kernel.remove_address(station(5)).unwrap();
    world.kernel.set_station(5, None).unwrap();
    world.kernel.run_outward(&unknown, 1).unwrap();
    assert_eq!(world.location(5), None);
}

/// Opened anew, a lane begins at seq 1: under the same key each identifier would come twice, and old ones would be taken again.
#[test]
fn an_open_lane_is_not_opened_again() {
    let mut site = load(WINDOW);
    let key = || secret(0, 1, false).lane_key(LANE);
    site.open_transmit(0, &key()).unwrap();
    assert!(site.open_transmit(0, &key()).is_err());
    site.close_transmit(0).unwrap();
    site.open_transmit(0, &key()).unwrap();
    site.open_receive(0, 0, &key()).unwrap();
    while site.fill(0).unwrap().missing > 0 {}
    let before = site.look(0).unwrap();
    assert!(site.open_receive(0, 0, &key()).is_err());
    assert_eq!(site.look(0).unwrap().missing, before.missing, "nothing has changed");
    site.close_receive(0).unwrap();
    site.open_receive(0, 0, &key()).unwrap();
}

/// Every place of a window, from far below to far above, is accepted or not as in user space, and no seq twice.
#[test]
fn windows_reach_as_far_as_in_user_space() {
    for window in [64, 256] {
        let mut world = World::with(false, window);
        world.announce(0, 7, 5, 1, true);
        let deliver = |world: &mut World, seq: u64| {
            let packet = world.of_peer((0, 1, seq), 7, seq as u32, true, 40);
            matches!(world.receive(true, &packet), Outcome::Sent(_))
        };
        assert!(deliver(&mut world, window - 1));
        for seq in 1..4 * window {
            deliver(&mut world, seq);
        }
        // From an anchor far ahead, then around it in both directions.
        let half = window / 2;
        let newest = 4 * window;
        for anchor in [1024, 700, 1025, 2000].map(|anchor| newest + anchor * half) {
            deliver(&mut world, anchor);
            for step in 1..3 * window {
                deliver(&mut world, anchor.saturating_sub(step));
                deliver(&mut world, anchor + step);
            }
        }
        assert_eq!(world.window, window);
    }
}

/// Anchors whose packets were lost are known as long as others, and then nobody's.
#[test]
fn lost_anchors_expire_as_others() {
    let mut world = World::new(false);
    world.announce(0, 7, 5, 1, true);
    let half = WINDOW / 2;
    let mut outcomes = Vec::new();
    for lost in [true, false] {
        for seq in (1..8 * WINDOW).filter(|seq| seq.is_multiple_of(half) != lost) {
            let packet = world.of_peer((0, 1, seq), 7, 1, true, 40);
            outcomes.push(world.receive(true, &packet));
        }
    }
    let anchors = outcomes.split_off(outcomes.len() - 15);
    assert!(matches!(anchors[12], Outcome::ForUserSpace), "another seq has its place");
    assert!(matches!(anchors[13], Outcome::Discarded(Some(InDiscard::Late))));
    assert!(matches!(anchors[14], Outcome::Sent(_)));
}

#[test]
fn a_lost_lane_is_found_again_by_its_position() {
    let mut world = World::new(false);
    world.announce(0, 7, 5, 1, true);
    let lane = receive_lane(0, 1);
    let deliver = |world: &mut World, seq: u64| {
        let packet = world.of_peer((0, 1, seq), 7, 1, true, 40);
        matches!(world.receive(true, &packet), Outcome::Sent(_))
    };
    assert!(deliver(&mut world, 1));
    let far = (1 << 40) + WINDOW / 2;
    assert!(!deliver(&mut world, far - 1));
    for (seq, moves) in [(far + 1, false), (WINDOW / 2, false), (1 << 48, false), (far, true), (far, false)] {
        assert_eq!(world.kernel.advance(lane, seq).unwrap().advanced, moves, "{seq}");
        world.rust.handle_command(
            world.now(),
            Command::Position { peer: PeerId(0), generation: GENERATION, epoch: 1, lane: LANE, seq },
        );
    }
    world.fill();
    for seq in far - 2 * WINDOW..far + 2 * WINDOW {
        deliver(&mut world, seq);
    }
    assert!(!deliver(&mut world, 2));
}

#[test]
fn epochs_follow_one_another_and_the_last_but_one_is_gone() {
    let mut world = World::new(false);
    world.announce(0, 7, 5, 1, true);
    world.hear(0, 1, 5, 1);
    world.send_known(0, 1, 5, true);
    for epoch in 1..6_u32 {
        for old in [epoch, epoch - 1, epoch.saturating_sub(2)] {
            // Not yet used, in this round: each epoch is heard in three of them.
            let packet = world.of_peer((0, old, u64::from(epoch)), 7, 1, true, 40);
            let passes = matches!(world.receive(true, &packet), Outcome::Sent(_));
            assert_eq!(passes, old + 2 > epoch && old > 0, "epoch {old} in {epoch}");
        }
        assert!(matches!(world.send(&frame(1, 5, true, epoch, 40)), Outcome::Sent(_)));
        world.install(0);
    }
}

#[test]
fn more_lanes_than_there_is_room_for_are_refused() {
    let settings = Settings {
        window: 4096,
        lan_frame: LAN_FRAME,
        port: PORT,
        station_age: Duration::ZERO,
        quiet: Duration::ZERO,
    };
    let with = |lanes, settings: &Settings| {
        Site::load(&Room { peers: 1, lanes, flows: 1, stations: 1 }, settings, Unclaimed::Pass).map(drop)
    };
    assert!(matches!(with(114, &settings), Err(xdp::XdpError::Lanes { wanted: 114, most: 113 })));
    assert!(matches!(with(1, &Settings { window: 100, ..settings }), Err(xdp::XdpError::Malformed)));
    with(113, &settings).unwrap();
}

/// On all CPUs at once no seq is sent twice, and no identifier is taken twice or lost.
#[test]
fn cpus_share_lanes_and_windows() {
    let mut world = World::with(false, 256);
    world.announce(0, 7, 5, 1, true);
    world.hear(0, 1, 5, 1);
    world.send_known(0, 1, 5, true);
    let packets: Vec<_> = (1..6000).map(|seq| world.of_peer((0, 1, seq), 7, 1, true, 40)).collect();
    let site = &world.kernel;
    let (sent, taken): (Vec<_>, Vec<_>) = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..2)
            .map(|_| {
                scope.spawn(|| {
                    let frame = frame(1, 5, true, 1, 40);
                    let each = packets.iter().map(|packet| {
                        let sent = site.run_outward(&frame, 1).unwrap();
                        assert_eq!(sent.verdict, Verdict::Redirect);
                        let taken = site.run_inward(packet, 1).unwrap().verdict;
                        assert!(matches!(taken, Verdict::Redirect | Verdict::Pass), "{taken:?}");
                        (sent.frame, usize::from(taken == Verdict::Redirect))
                    });
                    each.collect::<Vec<_>>()
                })
            })
            .collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).unzip()
    });
    let (first, second) = taken.split_at(packets.len());
    let wrong: Vec<_> = (0..packets.len()).filter(|at| first[*at] + second[*at] != 1).collect();
    assert!(wrong.is_empty(), "{wrong:?}");
    let mut identifiers: Vec<_> = sent.iter().map(|frame| frame[42..48].to_vec()).collect();
    identifiers.sort();
    identifiers.dedup();
    assert_eq!(identifiers.len(), 2 * packets.len());
    let counters = world.kernel.counters(0).unwrap().0;
    assert_eq!(counters.in_pkts_tunnelled, packets.len() as u64);
    assert_eq!(counters.out_pkts_tunnelled, 2 * packets.len() as u64);
    assert_eq!(world.kernel.look(receive_lane(0, 1)).unwrap().missing, 0);
}

#[derive(Clone, Debug)]
enum Step {
    Send { flow: usize, body: usize },
    Packet { peer: u16, ahead: i64, flow: u16, sci: bool, body: usize },
    Again { ago: usize },
    Flip { ago: usize, bit: usize },
    Cut { ago: usize, octets: usize },
    Jump { peer: u16, anchors: u64 },
    Install { peer: u16 },
    Fill,
}

fn step() -> impl Strategy<Value = Step> {
    let peer = 0..PEERS;
    let ahead = prop_oneof![8 => Just(1_i64), 2 => 1..6_i64, 1 => -70..70_i64, 1 => 60..200_i64];
    let body = prop_oneof![4 => 0..64_usize, 1 => 0..1500_usize];
    prop_oneof![
        6 => (0..4_usize, prop_oneof![6 => 0..200_usize, 1 => 1380..1400_usize]).prop_map(|(flow, body)| Step::Send { flow, body }),
        12 => (peer.clone(), ahead, 0..5_u16, any::<bool>(), body)
            .prop_map(|(peer, ahead, flow, sci, body)| Step::Packet { peer, ahead, flow, sci, body }),
        3 => (0..12_usize).prop_map(|ago| Step::Again { ago }),
        2 => (0..3_usize, 0..1_usize << 12).prop_map(|(ago, bit)| Step::Flip { ago, bit }),
        1 => (0..3_usize, 1..60_usize).prop_map(|(ago, octets)| Step::Cut { ago, octets }),
        1 => (peer.clone(), 1..1100_u64).prop_map(|(peer, anchors)| Step::Jump { peer, anchors }),
        1 => peer.prop_map(|peer| Step::Install { peer }),
        1 => Just(Step::Fill),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 16, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn whatever_happens_both_do_the_same(v6: bool, steps in prop::collection::vec(step(), 100..800)) {
        let mut world = World::new(v6);
        for (index, source) in [(0, 5), (1, 6), (2, 1), (3, 7)] {
            (0..PEERS).for_each(|peer| world.announce(peer, index, source, 2, true));
        }
        world.hear(0, 1, 5, 1);
        world.hear(1, 1, 6, 1);
        for (source, destination, peer) in [(1, 5, 0), (2, 5, 0), (1, 6, 1), (3, 6, 1)] {
            world.send_known(peer, source, destination, true);
        }
        let mut seqs = [0_u64; PEERS as usize];
        let mut wire: Vec<Vec<u8>> = Vec::new();
        for step in &steps {
            let ago = |ago: usize| wire.len().checked_sub(ago + 1).map(|at| wire[at].clone());
            match *step {
                Step::Send { flow, body } => {
                    let (source, destination) = [(1, 5), (2, 5), (1, 6), (3, 6)][flow];
                    world.send(&frame(source, destination, true, body as u32, body));
                }
                Step::Packet { peer, ahead, flow, sci, body } => {
                    let seq = &mut seqs[usize::from(peer)];
                    let this = seq.saturating_add_signed(ahead);
                    *seq = (*seq).max(this);
                    let epoch = world.sent[usize::from(peer)].0;
                    let packet = world.of_peer((peer, epoch, this), flow, 1, sci, body);
                    world.receive(true, &packet);
                    wire.push(packet);
                }
                Step::Again { ago: at } => {
                    if let Some(packet) = ago(at) {
                        world.receive(true, &packet);
                    }
                }
                Step::Flip { ago: at, bit } => {
                    if let Some(mut packet) = ago(at) {
                        let bit = bit % (8 * packet.len());
                        packet[bit / 8] ^= 1 << (bit % 8);
                        world.receive(true, &packet);
                    }
                }
                Step::Cut { ago: at, octets } => {
                    if let Some(mut packet) = ago(at) {
                        packet.truncate(packet.len().saturating_sub(octets).max(14));
                        world.receive(true, &packet);
                    }
                }
                Step::Jump { peer, anchors } => {
                    let seq = &mut seqs[usize::from(peer)];
                    *seq = (*seq / 32 + anchors) * 32 - 1;
                }
                Step::Install { peer } => {
                    world.install(peer);
                    seqs[usize::from(peer)] = 0;
                }
                Step::Fill => world.fill(),
            }
        }
    }
}
