//! Three sites, wires for packets between them that lose, swap and duplicate, channels that break, and a clock.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use suite::tunnel::EpochSecret;
use tunnel::{
    Delivery, Destination, Forwarding, FrameKinds, Instance, Limits, Message, Mode, PacketSource, PeerId,
    PeerSettings, Session, SessionSettings, Settings, Stream,
};
use wire::Instant;

pub(crate) const SITES: usize = 3;
/// W: short, so that tests get beyond it.
pub(crate) const WINDOW: u64 = 64;
const PATH_PAYLOAD: usize = 1200;

#[derive(Debug)]
struct Site {
    forwarding: Forwarding,
    /// By peer.
    sessions: [Session; SITES - 1],
}

/// The channel of two sites.
#[derive(Default, Debug)]
struct Channel {
    connected: bool,
    /// By sender and stream.
    sent: [[VecDeque<Vec<u8>>; 2]; SITES],
}

/// A station: site and number.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Station(pub(crate) usize, pub(crate) u8);

impl Station {
    fn address(self) -> [u8; 6] {
        [2, 0, 0, 0, self.0 as u8, self.1]
    }
}

#[derive(Debug)]
pub(crate) struct Net {
    now: Instant,
    sites: Vec<Site>,
    /// By sender, then by receiver.
    wires: [[VecDeque<Vec<u8>>; SITES]; SITES],
    /// By the site that is not in it.
    channels: [Channel; SITES],
    /// Every identifier that was ever seen on a wire.
    identifiers: HashSet<[u8; 8]>,
    /// Frames that stations sent, and where.
    sent: HashMap<Vec<u8>, usize>,
    /// Frames that came out of a site, in order.
    delivered: [Vec<Vec<u8>>; SITES],
    delivered_once: [HashSet<Vec<u8>>; SITES],
    made: u64,
}

fn draw() -> EpochSecret {
    static DRAWN: AtomicU64 = AtomicU64::new(0);
    let mut octets = [0; 32];
    octets[..8].copy_from_slice(&DRAWN.fetch_add(1, Ordering::Relaxed).to_le_bytes());
    EpochSecret::new(&octets)
}

/// The number that a site has for another one.
fn peer(site: usize, other: usize) -> PeerId {
    PeerId(if other < site { other } else { other - 1 } as u16)
}

/// The site that has a number at another one.
fn site_of(site: usize, peer: PeerId) -> usize {
    if peer.index() < site { peer.index() } else { peer.index() + 1 }
}

fn others(site: usize) -> impl Iterator<Item = usize> {
    (0..SITES).filter(move |&other| other != site)
}

impl Site {
    fn new(made: u64, now: Instant) -> Self {
        let mut instance = [0; 16];
        instance[..8].copy_from_slice(&made.to_le_bytes());
        let peers = vec![PeerSettings { mode: Mode::Identifier, path_payload: PATH_PAYLOAD }; SITES - 1];
        Self {
            forwarding: Forwarding::new(Settings {
                peers,
                lan_frame: 1514,
                limits: Limits { flows: 64, stations: 64, ..Limits::default() },
                window: WINDOW,
                table_seed: instance,
            }),
            sessions: [0, 1].map(|peer| {
                let settings = SessionSettings {
                    peer: PeerId(peer),
                    instance: Instance(instance),
                    mode: Mode::Identifier,
                    lanes: 1,
                    window: WINDOW,
                    frames: FrameKinds::ALL,
                    epoch_life: Duration::from_secs(60),
                    draw,
                };
                Session::new(settings, now)
            }),
        }
    }
}

impl Net {
    pub(crate) fn new() -> Self {
        let now = Instant::START + Duration::from_secs(1);
        Self {
            now,
            sites: (0..SITES as u64).map(|made| Site::new(made, now)).collect(),
            wires: Default::default(),
            channels: Default::default(),
            identifiers: HashSet::new(),
            sent: HashMap::new(),
            delivered: Default::default(),
            delivered_once: Default::default(),
            made: SITES as u64,
        }
    }

    fn session(&mut self, site: usize, other: usize) -> &mut Session {
        &mut self.sites[site].sessions[peer(site, other).index()]
    }

    /// A station sends a frame of so many octets; gives the frame.
    pub(crate) fn send(&mut self, from: Station, to: Station, body: usize) -> Vec<u8> {
        self.made += 1;
        let tag = [&[0x88, 0xe5, 0x2c, 0][..], &(self.made as u32).to_be_bytes()].concat();
        let sci = [&from.address()[..], &[0, 1]].concat();
        let frame = [&to.address()[..], &from.address(), &tag, &sci, &vec![self.made as u8; body]].concat();
        self.sent.insert(frame.clone(), from.0);
        let forwarding = &mut self.sites[from.0].forwarding;
        let Some(route) = forwarding.route(self.now, &frame) else { return frame };
        let peers: Vec<PeerId> = match route.destination {
            Destination::Peer(peer) => vec![peer],
            Destination::All => others(from.0).map(|other| peer(from.0, other)).collect(),
        };
        for peer in peers {
            for packet in forwarding.dispatch(self.now, &route, peer, &frame) {
                let octets = [&packet.header[..], &frame[packet.body]].concat();
                assert!(octets.len() <= PATH_PAYLOAD);
                let identifier = *octets.first_chunk().expect("an identifier");
                assert!(self.identifiers.insert(identifier), "a seq twice under a key");
                self.wires[from.0][site_of(from.0, peer)].push_back(octets);
            }
        }
        frame
    }

    /// The next packet of a wire arrives.
    pub(crate) fn arrive(&mut self, from: usize, to: usize) {
        let Some(packet) = self.wires[from][to].pop_front() else { return };
        let arrived =
            match self.sites[to].forwarding.handle_packet(self.now, PacketSource::Identifier, &packet) {
                Ok(Delivery::Frame { prefix, body, .. }) => [&prefix[..], &packet[body]].concat(),
                Ok(Delivery::Joined { prefix, first, second, .. }) => [&prefix[..], first, second].concat(),
                Ok(Delivery::Relayed { .. } | Delivery::Pending) | Err(_) => return,
            };
        assert_eq!(self.sent.get(&arrived), Some(&from), "a frame that no station behind it sent");
        assert!(self.delivered_once[to].insert(arrived.clone()), "a frame twice");
        self.delivered[to].push(arrived);
    }

    pub(crate) fn lose_packet(&mut self, from: usize, to: usize) {
        self.wires[from][to].pop_front();
    }

    pub(crate) fn duplicate_packet(&mut self, from: usize, to: usize) {
        let copy = self.wires[from][to].front().cloned();
        self.wires[from][to].extend(copy);
    }

    pub(crate) fn swap_packets(&mut self, from: usize, to: usize) {
        let wire = &mut self.wires[from][to];
        if wire.len() > 1 {
            wire.swap(0, 1);
        }
    }

    /// All packets that are on a wire arrive.
    pub(crate) fn arrive_all(&mut self) {
        for from in 0..SITES {
            for to in others(from) {
                while !self.wires[from][to].is_empty() {
                    self.arrive(from, to);
                }
            }
        }
    }

    /// Frames that came out of a site since the last time.
    pub(crate) fn take_delivered(&mut self, site: usize) -> Vec<Vec<u8>> {
        std::mem::take(&mut self.delivered[site])
    }

    pub(crate) fn break_channel(&mut self, without: usize, noticed: bool) {
        self.channels[without] = Channel::default();
        if noticed {
            let now = self.now;
            for site in others(without) {
                let other = SITES - without - site;
                self.session(site, other).handle_disconnected(now);
            }
        }
    }

    pub(crate) fn connect(&mut self, without: usize) {
        self.channels[without] = Channel { connected: true, ..Channel::default() };
        let now = self.now;
        for site in others(without) {
            let other = SITES - without - site;
            self.session(site, other).handle_connected(now);
        }
    }

    /// A site starts anew. The others notice when it connects again, or at once.
    pub(crate) fn restart(&mut self, site: usize, noticed: bool) {
        for without in others(site) {
            self.break_channel(without, noticed);
        }
        self.sites[site] = Site::new(self.made, self.now);
        self.made += 1;
    }

    /// Delivers this many messages of each stream of a channel, in one direction.
    pub(crate) fn carry(&mut self, from: usize, to: usize, messages: usize) {
        let without = SITES - from - to;
        let now = self.now;
        while let Some((stream, message)) = self.session(from, to).poll_message() {
            let channel = &mut self.channels[without];
            if channel.connected {
                channel.sent[from][usize::from(stream.octet())].push_back(message.encode().to_vec());
            }
        }
        for stream in [Stream::Announcements, Stream::Control] {
            for _ in 0..messages {
                let queue = &mut self.channels[without].sent[from][usize::from(stream.octet())];
                let Some(octets) = queue.pop_front() else { break };
                let message = Message::parse(&octets).expect("a message").expect("a known kind");
                assert_eq!(self.session(to, from).handle_message(now, message), Ok(()), "an honest peer");
            }
        }
    }

    /// A worker's turn: so many commands and events, and its housekeeping.
    pub(crate) fn turn(&mut self, site: usize, exchanged: usize) {
        let Site { forwarding, sessions } = &mut self.sites[site];
        for session in &mut *sessions {
            for command in std::iter::from_fn(|| session.poll_command()).take(exchanged) {
                forwarding.handle_command(self.now, command);
            }
        }
        forwarding.handle_timeout(self.now);
        for event in std::iter::from_fn(|| forwarding.poll_event()).take(exchanged) {
            sessions[event.subject().0.index()].handle_event(self.now, event);
        }
    }

    /// Everybody's turn, and all messages, every millisecond for so long.
    pub(crate) fn run(&mut self, milliseconds: u64) {
        for _ in 0..milliseconds {
            self.now = self.now + Duration::from_millis(1);
            for site in 0..SITES {
                self.turn(site, usize::MAX);
                for other in others(site) {
                    self.carry(site, other, usize::MAX);
                }
            }
            self.handle_timeouts();
        }
    }

    /// Time goes by, and nothing else happens.
    pub(crate) fn wait(&mut self, milliseconds: u64) {
        self.now = self.now + Duration::from_millis(milliseconds);
        self.handle_timeouts();
    }

    fn handle_timeouts(&mut self) {
        for session in self.sites.iter_mut().flat_map(|site| &mut site.sessions) {
            if session.poll_timeout().is_some_and(|at| at <= self.now) {
                session.handle_timeout(self.now);
            }
        }
    }

    /// The epoch that a site sends with towards another.
    pub(crate) fn epoch(&self, site: usize, other: usize) -> u32 {
        self.sites[site].forwarding.transmit_epoch(peer(site, other))
    }

    /// Whether all flows of a site towards another are acknowledged.
    pub(crate) fn all_acknowledged(&self, site: usize, other: usize) -> bool {
        self.sites[site].forwarding.flows(peer(site, other)).all(|flow| flow.acknowledged)
    }

    pub(crate) fn long_forms(&self, site: usize, other: usize) -> u64 {
        self.sites[site].forwarding.peer_counters(peer(site, other)).out_pkts_long_form
    }
}
