//! Two forwarding halves, with what has to be true of them.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use suite::tunnel::EpochSecret;
use tunnel::{
    Command, Delivery, Event, Forwarding, FrameKinds, Generation, Limits, Location, Mode, Packet,
    PacketSource, PeerCounters, PeerId, PeerSettings, RequestId, Settings, SiteCounters,
};
use wire::Instant;
use wire::tunnel::{Flow, FlowIndex, ParsedFrame};

use super::{Lie, Setup};

/// Octets of the longest frame of the LANs.
pub(crate) const LAN_FRAME: usize = 600;
const WINDOW: u64 = 64;
const P0: PeerId = PeerId(0);

struct End {
    forwarding: Forwarding,
    generation: Generation,
    /// The newest epoch of this end, its secret, and how many secrets this end has drawn.
    epoch: u32,
    secret: Option<EpochSecret>,
    path: usize,
}

pub(crate) struct Ends {
    ends: [End; 2],
    mode: Mode,
    now: Instant,
    /// (to the second end, packet)
    pub(crate) wire: Vec<(bool, Vec<u8>)>,
    /// Packets that an attacker keeps.
    pub(crate) held: Vec<(bool, Vec<u8>)>,
    /// A manager has lied: strange frames may come out.
    pub(crate) lied: bool,
    /// Somebody has changed packets: what comes out dies at a station, and is of flows that went in.
    pub(crate) changed: bool,
    secrets: u64,
    pn: u32,
    frames: BTreeSet<Vec<u8>>,
    /// Their flows.
    flows: BTreeSet<Flow>,
    /// Identifiers that were sent.
    identifiers: BTreeSet<[u8; 6]>,
    /// Packets that gave a frame, and under which keys of their receiver.
    accepted: BTreeSet<Vec<u8>>,
}

fn settings(setup: &Setup) -> Settings {
    let mode = match setup.mode % 3 {
        0 => Mode::Identifier,
        1 => Mode::HeaderEncryption,
        _ => Mode::Plain { vni: 7 },
    };
    let limits = if setup.narrow {
        Limits { flows: 6, flows_per_sci: 3, flows_per_source: 3, stations: 4, ..Limits::default() }
    } else {
        Limits { flows: 64, stations: 64, ..Limits::default() }
    };
    Settings {
        peers: vec![PeerSettings { mode, path_payload: 40 + 4 * usize::from(setup.path) }],
        lan_frame: LAN_FRAME,
        limits,
        window: WINDOW,
        table_seed: [7; 16],
    }
}

impl Ends {
    pub(crate) fn new(setup: &Setup) -> Self {
        let settings = settings(setup);
        let end = || End {
            forwarding: Forwarding::new(settings.clone()),
            generation: Generation::default(),
            epoch: 0,
            secret: None,
            path: settings.peers[0].path_payload,
        };
        let mut ends = Self {
            ends: [end(), end()],
            mode: settings.peers[0].mode,
            now: Instant::after_start(Duration::from_secs(5)),
            wire: Vec::new(),
            held: Vec::new(),
            lied: false,
            changed: false,
            flows: BTreeSet::new(),
            secrets: 0,
            pn: 0,
            frames: BTreeSet::new(),
            identifiers: BTreeSet::new(),
            accepted: BTreeSet::new(),
        };
        if setup.begin {
            for end in [false, true] {
                let (peer, generation, frames) = (P0, Generation::default(), FrameKinds::ALL);
                ends.command(end, Command::TakesFrames { peer, generation, frames });
            }
            ends.next_epoch(false);
            ends.next_epoch(true);
            ends.pass(Duration::from_millis(50));
            ends.manage();
            ends.manage();
        }
        ends
    }

    fn at(&mut self, end: bool) -> &mut End {
        &mut self.ends[usize::from(end)]
    }

    fn command(&mut self, end: bool, command: Command) {
        let now = self.now;
        self.at(end).forwarding.handle_command(now, command);
        self.release(end);
    }

    /// Frames that waited in header encryption.
    fn release(&mut self, end: bool) {
        let (now, path) = (self.now, self.at(end).path);
        let mut sent = Vec::new();
        while let Some(released) = self.at(end).forwarding.poll_released(now) {
            for packet in &released.packets {
                assert!(packet.octets() <= path, "longer than the path");
                sent.push((!end, octets(packet, released.frame)));
            }
        }
        self.wire.extend(sent);
    }

    pub(crate) fn frame(&mut self, station: u8, to: u8, tci: u8, octets: usize) -> Vec<u8> {
        self.pn = self.pn.wrapping_add(1);
        let address = |last: u8| [2, 0, 0, 0, 0, last];
        // Mostly frames that every mode carries, behind none to two VLAN tags.
        let tags = [0x81, 0, 0, 5, 0x88, 0xa8, 0, 6];
        let tags = &tags[..4 * usize::from(tci >> 2 & 3).min(2)];
        let tci = if tci < 0x80 { 0x2c | (tci & 0x03) } else { tci };
        let mut frame = [&address(to)[..], &address(station), tags, &[0x88, 0xe5, tci, 0]].concat();
        frame.extend(self.pn.to_be_bytes());
        frame.extend(address(station));
        frame.extend([0, 1]);
        let pn = self.pn;
        frame.extend((frame.len()..octets).map(|octet| (octet as u32 ^ pn) as u8));
        frame
    }

    /// A frame comes from a LAN.
    pub(crate) fn send(&mut self, end: bool, frame: &[u8]) {
        let now = self.now;
        let path = self.at(end).path;
        let before = routed(self.at(end).forwarding.counters());
        let route = self.at(end).forwarding.route(now, frame);
        assert_eq!(routed(self.at(end).forwarding.counters()), before + 1, "each frame is counted once");
        let Some(route) = route else { return };
        self.frames.insert(frame.to_vec());
        self.flows.insert(route.taken.flow);
        let before = dispatched(&self.at(end).forwarding.peer_counters(P0));
        let packets = self.at(end).forwarding.dispatch(now, &route, P0, frame);
        assert!(dispatched(&self.at(end).forwarding.peer_counters(P0)) > before, "and here");
        for packet in &packets {
            assert!(packet.octets() <= path, "longer than the path");
            let packet = octets(packet, frame);
            if self.mode == Mode::Identifier {
                let identifier = *packet.first_chunk().expect("an identifier");
                assert!(self.identifiers.insert(identifier), "an identifier was sent twice");
            }
            self.wire.push((!end, packet));
        }
    }

    /// The first packets of the wire arrive.
    pub(crate) fn deliver(&mut self, count: usize) {
        let count = count.min(self.wire.len());
        for (end, packet) in self.wire.drain(..count).collect::<Vec<_>>() {
            self.arrive(end, packet);
        }
    }

    fn arrive(&mut self, end: bool, packet: Vec<u8>) {
        let now = self.now;
        let arrival =
            if self.mode == Mode::Identifier { PacketSource::Identifier } else { PacketSource::From(P0) };
        let forwarding = &mut self.at(end).forwarding;
        let before = (forwarding.peer_counters(P0), *forwarding.counters());
        let frame = match forwarding.handle_packet(now, arrival, &packet) {
            Ok(Delivery::Frame { prefix, body, .. }) => Some([&prefix[..], &packet[body]].concat()),
            Ok(Delivery::Joined { prefix, first, second, .. }) => Some([&prefix[..], first, second].concat()),
            Ok(Delivery::Relayed { .. } | Delivery::Pending) => None,
            Err(_) => {
                let after = (forwarding.peer_counters(P0), *forwarding.counters());
                assert!(discards(&after) > discards(&before), "a discard that nobody counted");
                return;
            }
        };
        let tunnelled = self.at(end).forwarding.peer_counters(P0).in_pkts_tunnelled;
        assert_eq!(tunnelled, before.0.in_pkts_tunnelled + u64::from(frame.is_some()));
        let protected = !matches!(self.mode, Mode::Plain { .. });
        if protected && !self.lied && !self.changed {
            assert!(self.accepted.insert(packet), "accepted twice");
        }
        if protected && !self.lied {
            self.assert_learned(end);
        }
        let Some(frame) = frame else { return };
        assert!(frame.len() <= LAN_FRAME, "longer than the LAN takes");
        assert!(self.lied || self.changed || self.frames.contains(&frame), "never sent");
        if protected && !self.lied {
            let taken = ParsedFrame::parse(&frame).expect("a MACsec frame");
            assert!(self.flows.contains(&taken.flow), "a flow that never went in: {taken:?}");
        }
    }

    /// Stations behind the peer have spoken.
    fn assert_learned(&mut self, end: bool) {
        let stations: Vec<_> = self.at(end).forwarding.stations().copied().collect();
        for station in stations.iter().filter(|station| station.location != Location::Here) {
            let spoke = self.flows.iter().any(|flow| flow.source == station.address);
            assert!(spoke, "{station:?} never spoke");
        }
    }

    pub(crate) fn pass(&mut self, time: Duration) {
        let end = self.now + time;
        while self.now < end {
            self.now = (self.now + Duration::from_millis(10)).min(end);
            // As many turns as fill a window.
            for end in [false, true] {
                for _ in 0..8 {
                    let now = self.now;
                    self.at(end).forwarding.handle_timeout(now);
                }
                self.release(end);
            }
            if time > Duration::from_secs(1) {
                // Long times in one step.
                self.now = end;
            }
        }
    }

    /// Draws the next epoch of an end and tells the other one.
    pub(crate) fn next_epoch(&mut self, end: bool) {
        let secret = self.secret();
        let of = self.at(end);
        of.epoch += 1;
        of.secret = Some(secret.clone());
        let epoch = of.epoch;
        let generation = self.at(!end).generation;
        self.command(!end, Command::InstallReceive { peer: P0, generation, epoch, secret, lanes: 1 });
    }

    fn secret(&mut self) -> EpochSecret {
        self.secrets += 1;
        let mut octets = [0; 32];
        octets[..8].copy_from_slice(&self.secrets.to_le_bytes());
        EpochSecret::new(&octets)
    }

    pub(crate) fn manage(&mut self) {
        for end in [false, true] {
            while let Some(event) = self.at(end).forwarding.poll_event() {
                self.answer(end, event);
            }
        }
    }

    fn answer(&mut self, end: bool, event: Event) {
        let (peer, generation) = (P0, self.at(!end).generation);
        let command = match event {
            Event::Announce { index, flow, request, .. } => {
                Command::AddFlow { peer, generation, index, flow, request }
            }
            Event::Withdraw { index, .. } => Command::WithdrawFlow { peer, generation, index },
            Event::FlowAccepted { index, request, .. } => {
                Command::Announced { peer, generation, index, request }
            }
            Event::FlowRefused { index, .. } | Event::UnknownIndex { index, .. } => {
                Command::Unknown { peer, generation, index }
            }
            Event::ReceiveReady { epoch, .. } => {
                let of = self.at(!end);
                let Some(secret) = of.secret.clone().filter(|_| of.epoch == epoch) else { return };
                Command::InstallTransmit { peer, generation, epoch, secret }
            }
            Event::Lost { epoch, lane, .. } => Command::RequestPosition { peer, generation, epoch, lane },
            Event::Position { epoch, lane, seq, .. } => {
                Command::Position { peer, generation, epoch, lane, seq }
            }
            Event::EpochWanted { newest, .. } => {
                if self.at(end).epoch == newest {
                    self.next_epoch(end);
                }
                return;
            }
            // Nobody else forwards flows here.
            Event::FlowInUse { .. }
            | Event::StationMoves { .. }
            | Event::StationInUse { .. }
            | Event::EpochInUse { .. } => return,
        };
        self.command(!end, command);
    }

    /// A command that no honest pair of managers would give.
    pub(crate) fn lie(&mut self, end: bool, lie: Lie) {
        self.lied = true;
        let fresh = self.secret();
        let of = self.at(end);
        let (peer, generation) = (P0, of.generation);
        let index = |index| FlowIndex(index % 16);
        let command = match lie {
            Lie::Begin { generation } => {
                // An epoch of the generation before stays where it is: its secret is not given again.
                of.generation = Generation(of.generation.0 + u32::from(generation % 2));
                (of.epoch, of.secret) = (of.epoch + 1, None);
                Command::Begin { peer, generation: of.generation }
            }
            Lie::TakesFrames { frames } => {
                Command::TakesFrames { peer, generation, frames: FrameKinds(frames.into()) }
            }
            Lie::InstallReceive { epoch, secret, lanes } => {
                let secret = EpochSecret::new(&[secret; 32]);
                Command::InstallReceive { peer, generation, epoch: epoch.into(), secret, lanes: lanes % 20 }
            }
            Lie::InstallTransmit { epoch } => {
                Command::InstallTransmit { peer, generation, epoch: epoch.into(), secret: fresh }
            }
            Lie::Announced { index: number } => {
                let index = index(number);
                let given = of.forwarding.flows(P0).find(|given| given.index == index);
                let request = given.map_or(RequestId::default(), |given| given.request);
                Command::Announced { peer, generation, index, request }
            }
            Lie::Unknown { index: number } => Command::Unknown { peer, generation, index: index(number) },
            Lie::AddFlow { index: number, octets } => {
                let Some(flow) = Flow::parse(&octets) else { return };
                let request = RequestId::default();
                Command::AddFlow { peer, generation, index: index(number), flow, request }
            }
            Lie::WithdrawFlow { index: number } => {
                Command::WithdrawFlow { peer, generation, index: index(number) }
            }
            Lie::Position { epoch, lane, anchors } => {
                let seq = anchors.saturating_mul(WINDOW / 2);
                Command::Position { peer, generation, epoch: epoch.into(), lane, seq }
            }
            Lie::RequestPosition { epoch, lane } => {
                Command::RequestPosition { peer, generation, epoch: epoch.into(), lane }
            }
            Lie::PathPayload { octets } => {
                of.path = octets.into();
                Command::PathPayload { peer, octets: octets.into() }
            }
        };
        self.command(end, command);
    }
}

/// A packet as it is on the wire.
fn octets(packet: &Packet, frame: &[u8]) -> Vec<u8> {
    [&packet.header[..], &frame[packet.body.clone()]].concat()
}

/// Frames of the LAN that were counted.
fn routed(counters: &SiteCounters) -> u64 {
    sum(SiteCounters::NAMES, &counters.values(), "OutPkts")
}

/// Frames that went to a peer, wait, or were dropped.
fn dispatched(counters: &PeerCounters) -> u64 {
    sum(PeerCounters::NAMES, &counters.values(), "OutPkts")
}

fn sum(names: &[&str], values: &[u64], prefix: &str) -> u64 {
    let named: BTreeMap<_, _> =
        names.iter().zip(values).filter(|(name, _)| name.starts_with(prefix)).collect();
    named.values().copied().sum()
}

/// Discards of a peer and of nobody.
fn discards((peer, site): &(PeerCounters, SiteCounters)) -> u64 {
    let of = |table: &[wire::Counter], values: &[u64]| -> u64 {
        table.iter().zip(values).filter(|(row, _)| row.discard).map(|(_, value)| value).sum()
    };
    of(PeerCounters::TABLE, &peer.values()) + of(SiteCounters::TABLE, &site.values())
}
