//! Sites without engines: forwarding halves, a manager that acknowledges everything, and a clock held in the hand.
#![allow(dead_code, reason = "each test needs some of it")]

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use suite::tunnel::EpochSecret;
use tunnel::{
    Command, Delivery, Destination, Discard, Event, Forwarding, Generation, Limits, Mode, Packet,
    PacketSource, PeerId, PeerSettings, PreparedPeer, Released, Settings,
};
use wire::Instant;

/// Octets of the longest frame of the LANs.
pub(crate) const LAN_FRAME: usize = 1530;

/// Numbers that look random, the same in every run.
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed | 1)
    }

    pub(crate) fn roll(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % sides
    }
}

/// A MACsec frame with SCI: `station` sends to `to`, both as the last octet of their address.
pub(crate) fn frame(station: u8, to: u8, pn: u32, octets: usize) -> Vec<u8> {
    frame_between([2, 0, 0, 0, 0, station], [2, 0, 0, 0, 0, to], pn, octets)
}

pub(crate) fn frame_between(source: [u8; 6], destination: [u8; 6], pn: u32, octets: usize) -> Vec<u8> {
    let mut frame =
        [&destination[..], &source, &[0x88, 0xe5, 0x2c, 0], &pn.to_be_bytes(), &source, &[0, 1]].concat();
    let body = frame.len()..octets.max(frame.len());
    frame.extend(body.map(|octet| (octet as u32 ^ pn.wrapping_mul(31)) as u8));
    frame
}

pub(crate) struct Site {
    pub(crate) forwarding: Forwarding,
    pub(crate) mode: Mode,
    /// The site behind each peer.
    peers: Vec<usize>,
    /// The newest epoch towards each peer, and its secret.
    epochs: Vec<(u32, Option<EpochSecret>)>,
    pub(crate) generations: Vec<Generation>,
    /// (receiver, packet), in the order in which they were sent.
    pub(crate) sent: Vec<(usize, Vec<u8>)>,
    /// Frames that reached the LAN.
    pub(crate) delivered: Vec<Vec<u8>>,
    pub(crate) discards: Vec<Discard>,
}

/// Sites that are all peers of each other.
pub(crate) struct Sites {
    pub(crate) now: Instant,
    pub(crate) sites: Vec<Site>,
    secrets: u64,
    /// Whether the management channel works.
    pub(crate) channel: bool,
    /// Events that wait for the channel.
    waiting: VecDeque<(usize, Event)>,
    /// Number of each event, by the name of its variant.
    pub(crate) events: BTreeMap<String, usize>,
    /// All identifiers that were ever sent.
    pub(crate) rids: BTreeSet<[u8; 6]>,
}

pub(crate) fn settings(peers: usize) -> Settings {
    Settings {
        peers: vec![PeerSettings { mode: Mode::Identifier, path_payload: 1472 }; peers],
        lan_frame: LAN_FRAME,
        limits: Limits::default(),
        window: 256,
        table_seed: [7; 16],
    }
}

/// The name of an event's variant.
pub(crate) fn name(event: &Event) -> String {
    format!("{event:?}").split(' ').next().unwrap_or_default().to_owned()
}

/// A packet as it is on the wire.
pub(crate) fn octets(packet: &Packet, frame: &[u8]) -> Vec<u8> {
    [&packet.header[..], &frame[packet.body.clone()]].concat()
}

/// The frame that came of a packet, whole.
pub(crate) fn delivered(arrived: &Delivery<'_>, packet: &[u8]) -> Option<Vec<u8>> {
    match arrived {
        Delivery::Frame { prefix, body, .. } => Some([&prefix[..], &packet[body.clone()]].concat()),
        Delivery::Joined { prefix, first, second, .. } => Some([&prefix[..], first, second].concat()),
        Delivery::Relayed { .. } | Delivery::Pending => None,
    }
}

impl Sites {
    /// Sites that know each other's keys.
    pub(crate) fn new(count: usize, settings: &Settings) -> Self {
        let mut sites = Self::strangers(count, settings);
        for site in 0..count {
            sites.begin(site);
        }
        sites
    }

    pub(crate) fn strangers(count: usize, settings: &Settings) -> Self {
        let site = |number| Site {
            forwarding: Forwarding::new(settings.clone()),
            mode: settings.peers[0].mode,
            peers: (0..count).filter(|&other| other != number).collect(),
            epochs: vec![(0, None); count - 1],
            generations: vec![Generation(0); count - 1],
            sent: Vec::new(),
            delivered: Vec::new(),
            discards: Vec::new(),
        };
        Self {
            now: Instant::after_start(Duration::from_secs(1)),
            sites: (0..count).map(site).collect(),
            secrets: 0,
            channel: true,
            waiting: VecDeque::new(),
            events: BTreeMap::new(),
            rids: BTreeSet::new(),
        }
    }

    /// The number of `of` among the peers of `at`.
    pub(crate) fn peer(&self, at: usize, of: usize) -> PeerId {
        let position = self.sites[at].peers.iter().position(|&site| site == of).expect("a peer");
        PeerId(position as u16)
    }

    /// A site's peer leaves it, and does not know.
    pub(crate) fn leave(&mut self, at: usize, of: usize) -> Option<PreparedPeer> {
        let peer = self.peer(at, of);
        self.sites[at].peers[peer.index()] = usize::MAX;
        self.sites[at].forwarding.remove_peer(peer)
    }

    /// It comes again, under a number of its own.
    pub(crate) fn come(&mut self, at: usize, of: usize, memory: PreparedPeer) -> PeerId {
        let site = &mut self.sites[at];
        site.peers.push(of);
        site.epochs.push((0, None));
        site.generations.push(Generation(0));
        let number = site.forwarding.add_peer(memory).expect("a number");
        assert_eq!(number, self.peer(at, of));
        self.restart(at, of);
        number
    }

    pub(crate) fn command(&mut self, site: usize, command: Command) {
        let now = self.now;
        self.sites[site].forwarding.handle_command(now, command);
    }

    /// A first epoch from a site to each of its peers.
    pub(crate) fn begin(&mut self, site: usize) {
        for other in self.sites[site].peers.clone() {
            self.next_epoch(site, other);
        }
        self.settle();
    }

    /// Another generation between two sites, with new keys both ways.
    pub(crate) fn restart(&mut self, a: usize, b: usize) {
        for (at, of) in [(a, b), (b, a)] {
            let peer = self.peer(at, of);
            let generation = &mut self.sites[at].generations[peer.index()];
            *generation = Generation(generation.0 + 1);
            let generation = *generation;
            self.sites[at].epochs[peer.index()] = (0, None);
            self.command(at, Command::Begin { peer, generation });
        }
        self.next_epoch(a, b);
        self.next_epoch(b, a);
        self.settle();
    }

    /// Draws the next epoch of `from` towards `to`, and tells `to`.
    pub(crate) fn next_epoch(&mut self, from: usize, to: usize) {
        self.secrets += 1;
        let mut octets = [0; 32];
        octets[..8].copy_from_slice(&self.secrets.to_le_bytes());
        let secret = EpochSecret::new(&octets);
        let peer = self.peer(from, to).index();
        let epoch = self.sites[from].epochs[peer].0 + 1;
        self.sites[from].epochs[peer] = (epoch, Some(secret.clone()));
        let peer = self.peer(to, from);
        let generation = self.sites[to].generations[peer.index()];
        self.command(to, Command::InstallReceive { peer, generation, epoch, secret, lanes: 1 });
    }

    /// Tends all sites and carries what their managers say, until nobody has anything to say.
    pub(crate) fn settle(&mut self) {
        loop {
            let now = self.now;
            for site in &mut self.sites {
                site.forwarding.handle_timeout(now);
            }
            let told = self.carry();
            let busy = |site: &Site| site.forwarding.poll_timeout() == Some(Instant::START);
            if !told && !self.sites.iter().any(busy) {
                break;
            }
        }
    }

    /// Lets time pass in steps of 10 ms.
    pub(crate) fn pass(&mut self, time: Duration) {
        let end = self.now + time;
        while self.now < end {
            self.now = self.now + Duration::from_millis(10);
            self.settle();
        }
    }

    /// Carries events to the other side; true if anything was said.
    pub(crate) fn carry(&mut self) -> bool {
        let mut told = false;
        for site in 0..self.sites.len() {
            while let Some(event) = self.sites[site].forwarding.poll_event() {
                *self.events.entry(name(&event)).or_default() += 1;
                self.waiting.push_back((site, event));
                told = true;
            }
        }
        if self.channel {
            while let Some((site, event)) = self.waiting.pop_front() {
                self.answer(site, event);
                told = true;
            }
        }
        told
    }

    /// Handling of an event by the two managers, without delay.
    fn answer(&mut self, site: usize, event: Event) {
        let (peer, generation) = match &event {
            Event::Announce { peer, generation, .. }
            | Event::Withdraw { peer, generation, .. }
            | Event::ReceiveReady { peer, generation, .. }
            | Event::FlowAccepted { peer, generation, .. }
            | Event::FlowRefused { peer, generation, .. }
            | Event::UnknownIndex { peer, generation, .. }
            | Event::Lost { peer, generation, .. }
            | Event::Position { peer, generation, .. }
            | Event::FlowInUse { peer, generation, .. }
            | Event::StationMoves { peer, generation, .. }
            | Event::StationInUse { peer, generation, .. }
            | Event::EpochInUse { peer, generation, .. }
            | Event::EpochWanted { peer, generation, .. } => (*peer, *generation),
        };
        if self.sites[site].generations[peer.index()] != generation {
            return;
        }
        let other = self.sites[site].peers[peer.index()];
        if other == usize::MAX || !self.sites[other].peers.contains(&site) {
            return;
        }
        let peer = self.peer(other, site);
        let generation = self.sites[other].generations[peer.index()];
        let command = match event {
            Event::Announce { index, flow, request, .. } => {
                Command::AddFlow { peer, generation, index, flow, request }
            }
            Event::Withdraw { index, .. } => Command::WithdrawFlow { peer, generation, index },
            Event::ReceiveReady { epoch, .. } => {
                let (newest, secret) = &self.sites[other].epochs[peer.index()];
                let Some(secret) = secret.clone().filter(|_| *newest == epoch) else { return };
                Command::InstallTransmit { peer, generation, epoch, secret }
            }
            Event::FlowAccepted { index, request, .. } => {
                Command::Announced { peer, generation, index, request }
            }
            Event::FlowRefused { index, .. } | Event::UnknownIndex { index, .. } => {
                Command::Unknown { peer, generation, index }
            }
            Event::Lost { epoch, lane, .. } => Command::RequestPosition { peer, generation, epoch, lane },
            Event::Position { epoch, lane, seq, .. } => {
                Command::Position { peer, generation, epoch, lane, seq }
            }
            Event::EpochWanted { newest, .. } => {
                let own = self.peer(site, other).index();
                if self.sites[site].epochs[own].0 == newest {
                    self.next_epoch(site, other);
                }
                return;
            }
            // Nobody else forwards flows here.
            Event::FlowInUse { .. }
            | Event::StationMoves { .. }
            | Event::StationInUse { .. }
            | Event::EpochInUse { .. } => return,
        };
        self.command(other, command);
    }

    /// A frame of a site's LAN; the packets go to [`Site::sent`].
    pub(crate) fn send(&mut self, site: usize, frame: &[u8]) -> bool {
        let now = self.now;
        let Site { forwarding, peers, sent, mode, .. } = &mut self.sites[site];
        let Some(route) = forwarding.route(now, frame) else { return false };
        let to: Vec<PeerId> = match route.destination {
            Destination::Peer(peer) => vec![peer],
            Destination::All => (0..peers.len() as u16).map(PeerId).collect(),
        };
        for peer in to {
            for packet in forwarding.dispatch(now, &route, peer, frame) {
                assert_ne!(peers[peer.index()], usize::MAX, "to a peer that has left");
                let packet = octets(&packet, frame);
                if *mode == Mode::Identifier {
                    let rid = *packet.first_chunk().expect("an identifier");
                    assert!(self.rids.insert(rid), "an identifier was sent twice");
                }
                sent.push((peers[peer.index()], packet));
            }
        }
        true
    }

    /// Frames go that have waited for their flow to be known; the packets go to [`Site::sent`].
    pub(crate) fn release(&mut self, site: usize) {
        let now = self.now;
        let Site { forwarding, peers, sent, .. } = &mut self.sites[site];
        while let Some(Released { peer, packets, frame }) = forwarding.poll_released(now) {
            sent.extend(packets.iter().map(|packet| (peers[peer.index()], octets(packet, frame))));
        }
    }

    /// Takes the packets that a site has sent.
    pub(crate) fn take_sent(&mut self, site: usize) -> Vec<(usize, Vec<u8>)> {
        std::mem::take(&mut self.sites[site].sent)
    }

    /// A packet comes to a site.
    pub(crate) fn arrive(&mut self, from: usize, site: usize, packet: &[u8]) -> Option<Vec<u8>> {
        let now = self.now;
        let arrival = match self.sites[site].mode {
            Mode::Identifier => PacketSource::Identifier,
            _ => PacketSource::From(self.peer(site, from)),
        };
        let Site { forwarding, delivered: lan, discards, .. } = &mut self.sites[site];
        match forwarding.handle_packet(now, arrival, packet) {
            Ok(arrived) => {
                let frame = delivered(&arrived, packet)?;
                lan.push(frame.clone());
                Some(frame)
            }
            Err(discard) => {
                discards.push(discard);
                None
            }
        }
    }

    /// Carries all packets that a site has sent, in order.
    pub(crate) fn deliver_all(&mut self, site: usize) {
        for (to, packet) in self.take_sent(site) {
            self.arrive(site, to, &packet);
        }
    }

    /// Frames that reached a site's LAN.
    pub(crate) fn take_delivered(&mut self, site: usize) -> Vec<Vec<u8>> {
        std::mem::take(&mut self.sites[site].delivered)
    }
}
