//! One start of a site: its forwarding half, and a session for each other site.

use std::cell::Cell;
use std::time::Duration;

use suite::tunnel::EpochSecret;
use tunnel::{
    Forwarding, FrameKinds, Instance, Limits, Mode, Packet, PeerId, PeerSettings, PreparedPeer, Session,
    SessionSettings, Settings, SiteName, Stream,
};
use wire::Instant;

use super::{STATIONS, Setup};

/// Number of sites.
pub(crate) const SITES: usize = 5;
/// The site that relays.
pub(crate) const RELAY: usize = 0;
/// Octets of the longest frame of the LANs, without VLAN tags.
pub(crate) const LAN_FRAME: usize = 600;
const WINDOW: u64 = 64;
const STATION_AGE: Duration = Duration::from_secs(10);
const FLOW_AGE: Duration = Duration::from_secs(3);
/// Events of a forwarding half that wait at most.
const EVENTS: usize = 4096;

thread_local! {
    /// Secrets and instances that were drawn in this run.
    static DRAWN: Cell<u64> = const { Cell::new(0) };
}

/// Begins a run, in which all is drawn as in every other one.
pub(crate) fn begin_draws() {
    DRAWN.set(0);
}

fn drawn() -> u64 {
    DRAWN.set(DRAWN.get() + 1);
    DRAWN.get()
}

fn draw() -> EpochSecret {
    let mut octets = [0x5c; 32];
    octets[..8].copy_from_slice(&drawn().to_le_bytes());
    EpochSecret::new(&octets)
}

fn instance() -> [u8; 16] {
    let mut octets = [0; 16];
    octets[..8].copy_from_slice(&drawn().to_le_bytes());
    octets
}

/// Settings that all sites know.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    header_encryption: u8,
    pub(crate) path: usize,
    pub(crate) limits: Limits,
}

impl Plan {
    pub(crate) fn new(setup: &Setup) -> Self {
        let ages = Limits { flow_age: FLOW_AGE, station_age: STATION_AGE, ..Limits::default() };
        let limits = if setup.narrow {
            Limits { flows: 6, flows_per_sci: 3, flows_per_source: 3, stations: 4, ..ages }
        } else {
            // Each half of the table has room for all.
            Limits { flows: 512, stations: 4 * STATIONS, ..ages }
        };
        Self { header_encryption: setup.header_encryption, path: 120 + 4 * usize::from(setup.path), limits }
    }

    pub(crate) const fn mode(&self, site: usize, other: usize) -> Mode {
        if pair_bit(self.header_encryption, site, other) { Mode::HeaderEncryption } else { Mode::Identifier }
    }
}

/// The bit of a pair without site 0; false of another one.
pub(crate) const fn pair_bit(bits: u8, site: usize, other: usize) -> bool {
    let (low, high) = if site < other { (site, other) } else { (other, site) };
    // (1,2) (1,3) (1,4) (2,3) (2,4) (3,4)
    low != RELAY && bits >> (2 * (low - 1) + high - 2 - low / 3) & 1 == 1
}

/// The name under which the relay knows a site, and whose name that is.
pub(crate) const fn name(site: usize) -> SiteName {
    [site as u8 + 1; 20]
}

pub(crate) fn named(name: SiteName) -> usize {
    usize::from(name[0]) - 1
}

#[derive(Debug)]
pub(crate) struct Site {
    number: usize,
    plan: Plan,
    pub(crate) forwarding: Forwarding,
    /// By peer: the site and its session; `None` of a peer that has left.
    peers: Vec<Option<(usize, Session)>>,
    pub(crate) address: usize,
    /// Addresses at which it takes the others to be.
    pub(crate) endpoints: [usize; SITES],
}

impl Site {
    pub(crate) fn new(plan: &Plan, number: usize, now: Instant, endpoints: [usize; SITES]) -> Self {
        let mut forwarding = Forwarding::new(Settings {
            peers: Vec::new(),
            lan_frame: LAN_FRAME,
            limits: plan.limits,
            window: WINDOW,
            table_seed: instance(),
        });
        if number == RELAY {
            forwarding.relay_for_peers();
        }
        let (plan, address) = (plan.clone(), endpoints[number]);
        let mut site = Self { number, plan, forwarding, peers: Vec::new(), address, endpoints };
        (0..SITES).for_each(|other| site.add(other, now));
        site
    }

    /// Takes another site into its configuration, if it is not there.
    pub(crate) fn add(&mut self, other: usize, now: Instant) {
        if other == self.number || self.peer(other).is_some() {
            return;
        }
        let mode = self.plan.mode(self.number, other);
        let settings = PeerSettings { mode, path_payload: self.plan.path };
        let prepared = PreparedPeer::new(&settings, &self.plan.limits, LAN_FRAME);
        let peer = self.forwarding.add_peer(prepared).expect("a number");
        assert_eq!(peer.index(), self.peers.len(), "the number of a peer that has left");
        let relays = FrameKinds::ALWAYS.and(FrameKinds::TO_SITES);
        let session = SessionSettings {
            peer,
            instance: Instance(instance()),
            mode,
            lanes: 1,
            window: WINDOW,
            frames: if self.number == RELAY { relays } else { FrameKinds::ALWAYS },
            epoch_life: Duration::from_secs(60),
            draw,
        };
        self.peers.push(Some((other, Session::new(session, now))));
    }

    /// Takes another site out of it.
    pub(crate) fn remove(&mut self, other: usize) {
        if let Some(peer) = self.peer(other) {
            self.peers[peer.index()] = None;
            assert!(self.forwarding.remove_peer(peer).is_some(), "it was no peer");
        }
    }

    /// The number that it has for another site.
    pub(crate) fn peer(&self, other: usize) -> Option<PeerId> {
        let is_it = |peer: &Option<(usize, Session)>| peer.as_ref().is_some_and(|(site, _)| *site == other);
        self.peers.iter().position(is_it).map(|number| PeerId(number as u16))
    }

    /// The site that has a number here.
    pub(crate) fn site_of(&self, peer: PeerId) -> usize {
        self.peers[peer.index()].as_ref().expect("a peer that has not left").0
    }

    /// Others in its configuration.
    pub(crate) fn others(&self) -> impl Iterator<Item = (PeerId, usize)> {
        let other = |(number, peer): (usize, &Option<(usize, Session)>)| {
            peer.as_ref().map(|(site, _)| (PeerId(number as u16), *site))
        };
        self.peers.iter().enumerate().filter_map(other)
    }

    pub(crate) fn session(&mut self, other: usize) -> Option<&mut Session> {
        let peer = self.peer(other)?;
        self.peers[peer.index()].as_mut().map(|(_, session)| session)
    }

    /// The next message for another site, and its stream.
    pub(crate) fn say(&mut self, other: usize) -> Option<(usize, Vec<u8>)> {
        let (stream, message) = self.session(other)?.poll_message()?;
        Some((usize::from(stream == Stream::Announcements), message.encode().to_vec()))
    }

    /// A worker's turn and a manager's. Frames that waited become packets: for whom, octets.
    pub(crate) fn turn(&mut self, now: Instant) -> Vec<(usize, Vec<u8>)> {
        let mut packets = Vec::new();
        for (_, session) in self.peers.iter_mut().flatten() {
            if session.poll_timeout().is_some_and(|due| due <= now) {
                session.handle_timeout(now);
            }
            while let Some(command) = session.poll_command() {
                self.forwarding.handle_command(now, command);
            }
        }
        self.forwarding.handle_timeout(now);
        while let Some(released) = self.forwarding.poll_released(now) {
            let (peer, frame) = (released.peer, released.frame);
            packets.extend(released.packets.iter().map(|packet| (peer, octets(packet, frame))));
        }
        let packets = packets.into_iter().map(|(peer, octets)| (self.site_of(peer), octets)).collect();
        let mut events = 0;
        while let Some(event) = self.forwarding.poll_event() {
            // One of a peer that has left is nobody's.
            if let Some(Some((_, session))) = self.peers.get_mut(event.subject().0.index()) {
                session.handle_event(now, event);
            }
            events += 1;
        }
        assert!(events <= EVENTS, "{events} events in a turn");
        packets
    }
}

/// The octets of a packet.
pub(crate) fn octets(packet: &Packet, frame: &[u8]) -> Vec<u8> {
    [&packet.header[..], &frame[packet.body.clone()]].concat()
}
