//! One site twice: the programs, and crate `tunnel`.

use std::time::{Duration, Instant as Clock};

use suite::tunnel::TokenKey;
use tunnel::{
    Command, Delivery, Destination, Discard, Forwarding, Generation, InDiscard, Limits, Location, Mode,
    NumberedFlow, PeerCounters, PeerId, PeerSettings, RequestId, UnknownDiscard,
};
use wire::tunnel::{Flow, FlowIndex, Header, PacketForm, ParsedFrame, SHORT_HEADER_OCTETS};
use wire::{Instant, MacAddr};
use xdp::site::{FlowPath, Room, Settings, Site, UdpPath};
use xdp::{Ran, Unclaimed, Verdict};

use crate::packets::{PORT, addresses, datagram, frame, packet, receive_lane, secret, station, udp_payload};

pub(crate) const WINDOW: u64 = 64;
pub(crate) const LAN_FRAME: usize = 1530;
pub(crate) const PAYLOAD: usize = 1400;
pub(crate) const PEERS: u16 = 2;
pub(crate) const STATIONS: u8 = 12;
/// Lane of the kernel, at both ends.
pub(crate) const LANE: u8 = 1;
pub(crate) const GENERATION: Generation = Generation(1);
pub(crate) const LOOPBACK: u32 = 1;
pub(crate) const LONGEST_BODY: usize = PAYLOAD - SHORT_HEADER_OCTETS;

/// One site twice, and peers whose packets are made here.
pub(crate) struct World {
    pub(crate) rust: Forwarding,
    pub(crate) kernel: Site,
    pub(crate) began: Clock,
    pub(crate) v6: bool,
    pub(crate) window: u64,
    /// By peer: the epoch, and the next seq of the kernel's lane towards it.
    pub(crate) sent: Vec<(u32, u64)>,
    /// Flows that the kernel has, and whether their frames are user space's until they are added anew.
    pub(crate) flows: Vec<(Flow, FlowPath, bool)>,
    /// Announced flows that the kernel has.
    pub(crate) announced: Vec<(u32, FlowIndex)>,
}

/// Outcome of a packet.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Outcome {
    Sent(Vec<u8>),
    Discarded(Option<InDiscard>),
    ForUserSpace,
}

pub(crate) fn token_key() -> TokenKey {
    TokenKey::new(&[0x3c; 16])
}

/// A path over IPv4, with this DSCP.
pub(crate) fn udp_path(dscp: u8) -> UdpPath {
    let ([source, destination], address) = (addresses(false), MacAddr([2; 6]));
    UdpPath {
        interface: address,
        next_hop: address,
        source,
        destination,
        payload: PAYLOAD,
        port: 1,
        dscp,
        vxlan: None,
    }
}

pub(crate) fn load(window: u64) -> Site {
    load_with(window, Duration::ZERO)
}

/// Programs whose flows settle by a pause this long.
pub(crate) fn load_with(window: u64, quiet: Duration) -> Site {
    let peers = u32::from(PEERS);
    let room =
        Room { peers, lanes: 2 * peers, watched: 16, paths: 2 * peers, flows: 64, stations: STATIONS.into() };
    let settings = Settings {
        window,
        lan_frame: LAN_FRAME,
        port: PORT,
        station_age: Limits::DEFAULT.station_age,
        quiet,
        token_key: token_key(),
    };
    let loaded = match std::env::var_os("FRAMEWARD_SITE_OBJECT") {
        Some(file) => Site::load_object(&std::fs::read(file).unwrap(), &room, &settings, Unclaimed::Pass),
        None => Site::load(&room, &settings, Unclaimed::Pass),
    };
    loaded.unwrap_or_else(|error| panic!("{error}"))
}

impl World {
    pub(crate) fn new(v6: bool) -> Self {
        Self::with(v6, WINDOW)
    }

    pub(crate) fn with(v6: bool, window: u64) -> Self {
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
        kernel.set_path(0, &UdpPath { interface, next_hop, source, destination, ..udp_path(0) }).unwrap();
        let mut world = Self {
            rust,
            kernel,
            began: Clock::now(),
            v6,
            window,
            sent: vec![(0, 1); PEERS.into()],
            flows: Vec::new(),
            announced: Vec::new(),
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

    pub(crate) fn now(&self) -> Instant {
        Instant::after_start(self.began.elapsed())
    }

    /// The next epoch of a peer, in both directions.
    pub(crate) fn install(&mut self, peer: u16) {
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
    pub(crate) fn fill(&mut self) {
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

    /// Tells the kernel what Rust knows of a station.
    pub(crate) fn tell_station(&mut self, number: u8) {
        let known =
            self.rust.stations().find(|known| known.address == station(number)).map(|known| known.location);
        self.kernel.set_station(number.into(), station(number), known).unwrap();
    }

    pub(crate) fn location(&self, number: u8) -> Option<Location> {
        self.kernel.station(number.into(), self.kernel.now().unwrap()).unwrap().0
    }

    /// A flow of the LAN towards a peer, which the peer has acknowledged.
    pub(crate) fn send_known(&mut self, peer: u16, source: u8, destination: u8, sci: bool) {
        let (now, id) = (self.now(), PeerId(peer));
        let frame = frame(source, destination, sci, 1, 40);
        let Some(route) = self.rust.route(now, &frame) else { return };
        self.rust.dispatch(now, &route, id, &frame);
        let flow = route.taken.flow;
        let Some(&NumberedFlow { index, request, .. }) = self.rust.flows(id).find(|known| known.flow == flow)
        else {
            return;
        };
        self.rust
            .handle_command(now, Command::Announced { peer: id, generation: GENERATION, index, request });
        self.tell_station(source);
        self.tell_station(destination);
        let path =
            FlowPath { peer: peer.into(), index, source: source.into(), destination: destination.into() };
        self.flows.retain(|known| known.0 != flow);
        self.kernel.add_flow(self.flows.len() as u32, &flow, &path).unwrap();
        self.flows.push((flow, path, false));
    }

    /// A flow that a peer announces.
    pub(crate) fn announce(&mut self, peer: u16, index: u16, source: u8, destination: u8, sci: bool) {
        let flow = ParsedFrame::parse(&frame(source, destination, sci, 1, 0)).unwrap().flow;
        let (now, index) = (self.now(), FlowIndex(index));
        let (peer_id, request) = (PeerId(peer), RequestId::default());
        self.rust.handle_command(
            now,
            Command::AddFlow { peer: peer_id, generation: GENERATION, index, flow, request },
        );
        while self.rust.poll_event().is_some() {}
        let key = (u32::from(peer), index);
        let number = self.announced.iter().position(|known| *known == key).unwrap_or_else(|| {
            self.announced.push(key);
            self.announced.len() - 1
        });
        self.kernel.announce(number as u32, key, &flow, source.into()).unwrap();
    }

    /// A station is heard behind a peer, so that frames for it go there: by a packet that user space takes.
    pub(crate) fn hear(&mut self, peer: u16, seq: u64, source: u8, destination: u8) {
        let index = 9_000 + u16::from(source);
        self.announce(peer, index, source, destination, true);
        let header = self.header(index, PacketForm::Whole, 1, true);
        let packet = packet(&secret(peer, self.sent[usize::from(peer)].0, true), 0, seq, header, &[0; 40]);
        let delivered = self.receive(false, &datagram(self.v6, false, &packet));
        assert_eq!(delivered, Outcome::ForUserSpace);
        self.tell_station(source);
    }

    pub(crate) fn header(&self, index: u16, form: PacketForm, pn: u32, sci: bool) -> Header {
        let fields = ParsedFrame::parse(&frame(0, 0, sci, pn, 0)).unwrap().fields;
        Header { flow: FlowIndex(index), form, fields }
    }

    /// A packet of a peer, on the kernel's lane.
    pub(crate) fn of_peer(
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

    pub(crate) fn counters(&self) -> Vec<PeerCounters> {
        (0..PEERS).map(|peer| self.kernel.counters(peer.into()).unwrap().0).collect()
    }

    pub(crate) fn rust_counters(&self) -> Vec<PeerCounters> {
        (0..PEERS).map(|peer| self.rust.peer_counters(PeerId(peer))).collect()
    }

    /// A frame of the LAN, through both.
    pub(crate) fn send(&mut self, frame: &[u8]) -> Outcome {
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
    pub(crate) fn count_alike(&self, before: &(Vec<PeerCounters>, Vec<PeerCounters>)) {
        let more = |after: Vec<PeerCounters>, before: &[PeerCounters]| -> Vec<Vec<u64>> {
            let pairs = after.into_iter().zip(before);
            pairs.map(|(a, b)| a.values().iter().zip(b.values()).map(|(a, b)| a - b).collect()).collect()
        };
        let (kernel, rust) = (more(self.counters(), &before.0), more(self.rust_counters(), &before.1));
        assert_eq!(kernel, rust, "counters {:?}", PeerCounters::NAMES);
    }

    /// A packet of the network, through both. `ours`: it has an identifier of the kernel's lanes, or none.
    pub(crate) fn receive(&mut self, ours: bool, octets: &[u8]) -> Outcome {
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
