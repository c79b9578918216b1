//! The forwarding half of a site: frames and packets, and the state that they need. Sans I/O and without a clock.
//!
//! ```text
//!  LAN ── route ── dispatch, for each peer ─▶ peer        command ─▶ ┌────────────┐ ─▶ poll_event
//!  LAN ◀───────────────────────── inward ─── peer                   │ Forwarding │
//!                                                     tend, due ─▶  └────────────┘ ─▶ poll_released
//! ```
//!
//! Memory is taken in [`Forwarding::new`] and, for keys and for lanes beyond the first, in [`Forwarding::handle_command`];
//! nothing else allocates. Each call's work is bounded: a few look-ups in tables and a few hashes, at most 64
//! identifiers put into a window for a packet, and at most 256 for a call of [`Forwarding::tend`].

mod handle_command;
mod handle_packet;
mod handle_timeout;

use alloc::boxed::Box;
use alloc::vec::Vec;

use arrayvec::ArrayVec;
use wire::time::Instant;
use wire::tunnel::{ParseFrameError, ParsedFrame};

use crate::counters::{PeerCounters, SiteCounters, Unrouted};
use crate::events::Events;
use crate::exchange::{Event, Generation};
use crate::flows::{Flows, NumberedFlow};
use crate::hash::Hasher;
use crate::header_encryption::HeaderEncryption;
use crate::identifier::{Identifier, Outward};
use crate::new_flow_limit::NewFlowLimit;
use crate::packet::{Destination, Packet, Released, Route};
use crate::plain;
use crate::receive::ReceiveLanes;
use crate::settings::{Limits, Mode, PEERS, PeerId, PeerSettings, Settings};
use crate::stations::{LearnOutcome, Location, Station, Stations};

/// What all peers share on the way through.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) hasher: Hasher,
    pub(crate) events: Events,
    pub(crate) new_flows: NewFlowLimit,
    /// Something has begun that ends by itself: parts wait, an epoch is over soon.
    pub(crate) watch: bool,
}

/// What a peer is, whatever its mode.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PeerContext {
    pub(crate) peer: PeerId,
    pub(crate) generation: Generation,
    /// Octets of the largest UDP payload towards it.
    pub(crate) path_payload: usize,
}

/// How a peer's headers are protected, with what that needs.
#[derive(Debug)]
enum Transport {
    Identifier(Box<Identifier>),
    HeaderEncryption(Box<HeaderEncryption>),
    Plain { vni: u32 },
}

#[derive(Debug)]
struct Peer {
    context: PeerContext,
    counters: PeerCounters,
    transport: Transport,
}

/// What a peer needs in a [`Forwarding`]: made, and dropped, where time does not matter.
#[derive(Debug)]
pub struct PreparedPeer(Peer);

impl PreparedPeer {
    /// For a peer that comes, of a site with these limits whose LAN takes frames of `lan_frame` octets. Allocates.
    pub fn new(settings: &PeerSettings, limits: &Limits, lan_frame: usize) -> Self {
        let transport = match settings.mode {
            Mode::Identifier => Transport::Identifier(Box::new(Identifier::new(limits))),
            Mode::HeaderEncryption => {
                Transport::HeaderEncryption(Box::new(HeaderEncryption::new(limits, lan_frame)))
            }
            Mode::Plain { vni } => Transport::Plain { vni },
        };
        let path_payload = settings.path_payload;
        // Its number is told when it comes.
        let context = PeerContext { peer: PeerId(0), generation: Generation::default(), path_payload };
        Self(Peer { context, counters: PeerCounters::default(), transport })
    }
}

/// The forwarding half of a site.
#[derive(Debug)]
pub struct Forwarding {
    shared: Shared,
    stations: Stations,
    receive: ReceiveLanes,
    /// By number. None: it has left.
    peers: Vec<Option<Peer>>,
    counters: SiteCounters,
    lan_frame: usize,
    /// W.
    window: u64,
    /// Some window of an epoch is not filled, or that was not told.
    installing: bool,
    /// Frames that waited may go.
    releasing: bool,
    /// When what has become ready is told next, when what ends by itself is looked at, and when ages.
    next_ready: Instant,
    next_watch: Instant,
    next_ages: Instant,
    /// Whose flows are looked at next for their age.
    age_cursor: usize,
}

impl Forwarding {
    /// A site with its peers, and all the memory that it needs with one lane of each.
    ///
    /// # Panics
    /// If the window is no power of two from 64 to 2^20, or there are more than [`PEERS`].
    pub fn new(settings: Settings) -> Self {
        let Settings { lan_frame, limits, window, .. } = settings;
        assert!(window.is_power_of_two() && (64..=1 << 20).contains(&window), "a window of {window} seqs");
        assert!(settings.peers.len() <= PEERS, "{} peers", settings.peers.len());
        let identifiers = settings.peers.iter().filter(|peer| peer.mode == Mode::Identifier).count();
        let peers = settings.peers.iter().map(|peer| PreparedPeer::new(peer, &limits, lan_frame));
        let mut forwarding = Self {
            shared: Shared {
                hasher: Hasher::new(&settings.table_seed),
                events: Events::new(),
                new_flows: NewFlowLimit::new(limits.new_flows_per_second),
                watch: false,
            },
            stations: Stations::new(limits.stations, limits.station_age),
            // Two epochs of each peer.
            receive: ReceiveLanes::new(2 * identifiers, window, lan_frame),
            peers: Vec::with_capacity(settings.peers.len()),
            counters: SiteCounters::default(),
            lan_frame,
            window,
            installing: false,
            releasing: false,
            next_ready: Instant::START,
            next_watch: Instant::START,
            next_ages: Instant::START,
            age_cursor: 0,
        };
        for peer in peers {
            forwarding.add_peer(peer);
        }
        forwarding
    }

    /// A peer comes. Its number is the next one: that of a peer that has left is not used again, so nothing that is
    /// under way between the halves is taken for another's. None if there were [`PEERS`]. Not for the frame path.
    pub fn add_peer(&mut self, PreparedPeer(mut peer): PreparedPeer) -> Option<PeerId> {
        let number = u16::try_from(self.peers.len()).ok().filter(|number| usize::from(*number) < PEERS)?;
        peer.context.peer = PeerId(number);
        self.peers.push(Some(peer));
        Some(PeerId(number))
    }

    /// A peer leaves: its keys, windows and flows are void, and the stations behind it are nowhere. Looks at each
    /// station. Not for the frame path.
    pub fn remove_peer(&mut self, number: PeerId) -> Option<PreparedPeer> {
        let mut peer = self.peers.get_mut(number.index())?.take()?;
        match &mut peer.transport {
            Transport::Identifier(mode) => {
                mode.void(&self.shared, &mut self.receive);
            }
            Transport::HeaderEncryption(mode) => mode.void(&self.shared, &mut peer.counters),
            Transport::Plain { .. } => {}
        }
        self.stations.forget(&self.shared.hasher, number);
        Some(PreparedPeer(peer))
    }

    /// How many peers there were since the start: numbers are below it.
    pub const fn peers(&self) -> usize {
        self.peers.len()
    }

    fn peer(&self, number: PeerId) -> Option<&Peer> {
        self.peers.get(number.index())?.as_ref()
    }

    fn peer_mut(&mut self, number: PeerId) -> Option<&mut Peer> {
        self.peers.get_mut(number.index())?.as_mut()
    }

    /// Where a frame of the LAN goes, from its destination address on, without FCS. EAPOL frames are not for here.
    /// None: nowhere, and counted.
    pub fn route(&mut self, now: Instant, frame: &[u8]) -> Option<Route> {
        match self.find_route(now, frame) {
            Ok(route) => {
                match route.destination {
                    Destination::Peer(_) => self.counters.out_pkts_unicast += 1,
                    Destination::All => self.counters.out_pkts_flooded += 1,
                }
                Some(route)
            }
            Err(reason) => {
                self.counters.count_unrouted(reason);
                None
            }
        }
    }

    fn find_route(&mut self, now: Instant, frame: &[u8]) -> Result<Route, Unrouted> {
        let taken = ParsedFrame::parse(frame).map_err(|error| match error {
            ParseFrameError::Truncated => Unrouted::TooShort,
            ParseFrameError::NotMacsec => Unrouted::NotMacsec,
            ParseFrameError::Version => Unrouted::BadTag,
        })?;
        if matches!(self.learn(now, &taken, Location::Here), LearnOutcome::Elsewhere(_)) {
            return Err(Unrouted::Loop);
        }
        let to = match self.stations.location(now, &self.shared.hasher, taken.flow.destination) {
            Some(Location::Here) => return Err(Unrouted::Local),
            Some(Location::Behind(peer)) => Destination::Peer(peer),
            None if !self.peers.iter().any(Option::is_some) => return Err(Unrouted::NoPeer),
            None => Destination::All,
        };
        Ok(Route { taken, destination: to })
    }

    fn learn(&mut self, now: Instant, taken: &ParsedFrame, place: Location) -> LearnOutcome {
        let heard = self.stations.learn(now, &self.shared.hasher, taken.flow.source, place);
        match heard {
            LearnOutcome::Known | LearnOutcome::Elsewhere(_) => {}
            LearnOutcome::New => self.counters.stations_learned += 1,
            LearnOutcome::Moved => self.counters.stations_moved += 1,
            LearnOutcome::NoRoom => self.counters.stations_refused += 1,
        }
        heard
    }

    /// The packets of a routed frame for one peer: none (dropped or waiting, and counted), one, or two if it does not
    /// fit the path. To be called for each peer that [`Route::to`] means.
    pub fn dispatch(
        &mut self,
        now: Instant,
        route: &Route,
        peer: PeerId,
        frame: &[u8],
    ) -> ArrayVec<Packet, 2> {
        let Some(Some(Peer { context, counters, transport })) = self.peers.get_mut(peer.index()) else {
            return ArrayVec::new();
        };
        let outward: Outward = match transport {
            Transport::Identifier(identifier) => {
                identifier.dispatch(now, context, counters, &mut self.shared, &route.taken, frame.len())
            }
            Transport::HeaderEncryption(mode) => {
                mode.dispatch(now, context, counters, &mut self.shared, &route.taken, frame)
            }
            Transport::Plain { vni } => plain::encapsulate(*vni, context.path_payload, frame.len())
                .map(|packet| [packet].into_iter().collect()),
        };
        match outward {
            Ok(packets) => {
                counters.count_sent(&packets);
                packets
            }
            Err(reason) => {
                counters.count_out(reason);
                ArrayVec::new()
            }
        }
    }

    /// The packet of an EAPOL frame for a plain peer, which has no management channel that could carry it. None for
    /// other peers, or if it does not fit, which is counted.
    pub fn encapsulate_eapol(&mut self, peer: PeerId, frame: &[u8]) -> Option<Packet> {
        let Peer { context, counters, transport } = self.peer_mut(peer)?;
        let Transport::Plain { vni } = transport else { return None };
        let packet = plain::encapsulate(*vni, context.path_payload, frame.len());
        packet.map_err(|reason| counters.count_out(reason)).ok()
    }

    /// What the managing half is to be told. To be called only if it can be.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.shared.events.poll()
    }

    /// A frame that waited for its flow to be acknowledged and goes now. To be called after [`Forwarding::handle_command`]
    /// until there is none. Looks at each peer while frames may go, and not at all else.
    pub fn poll_released(&mut self, now: Instant) -> Option<Released<'_>> {
        if !self.releasing {
            return None;
        }
        let released = self.peers.iter_mut().flatten().find_map(|Peer { context, counters, transport }| {
            let Transport::HeaderEncryption(mode) = transport else { return None };
            let (packets, released) = mode.poll_released(now, context, counters)?;
            counters.count_sent(&packets);
            Some((context.peer, packets, released))
        });
        self.releasing = released.is_some();
        let (peer, packets, released) = released?;
        let Transport::HeaderEncryption(mode) = &self.peer(peer)?.transport else { return None };
        Some(Released { peer, packets, frame: mode.released_frame(released) })
    }

    /// What was counted, whatever the peer.
    pub const fn counters(&self) -> &SiteCounters {
        &self.counters
    }

    /// What was counted of a peer.
    pub fn peer_counters(&self, peer: PeerId) -> PeerCounters {
        self.peer(peer).map_or_else(PeerCounters::default, |peer| peer.counters)
    }

    /// The stations whose place is known, in no order; [`Limits::stations`](crate::Limits::stations) at most.
    pub fn stations(&self) -> impl Iterator<Item = &Station> {
        self.stations.iter()
    }

    /// The flows towards a peer, in no order; [`Limits::flows`](crate::Limits::flows) at most.
    pub fn flows(&self, peer: PeerId) -> impl Iterator<Item = &NumberedFlow> {
        self.transport(peer).and_then(Transport::flows).into_iter().flat_map(Flows::iter)
    }

    /// How many flows the peer has announced.
    pub fn announced_flows(&self, peer: PeerId) -> usize {
        match self.transport(peer) {
            Some(Transport::Identifier(mode)) => mode.announced.len(),
            Some(Transport::HeaderEncryption(mode)) => mode.known.len(),
            Some(Transport::Plain { .. }) | None => 0,
        }
    }

    /// The epoch that is sent with towards a peer; 0: none.
    pub fn transmit_epoch(&self, peer: PeerId) -> u32 {
        match self.transport(peer) {
            Some(Transport::Identifier(mode)) => mode.transmit_epoch(),
            Some(Transport::HeaderEncryption(mode)) => mode.transmit_epoch(),
            Some(Transport::Plain { .. }) | None => 0,
        }
    }

    /// The epochs that are received from a peer, the older one first.
    pub fn receive_epochs(&self, peer: PeerId) -> impl Iterator<Item = u32> {
        let (identifier, header_encryption) = match self.transport(peer) {
            Some(Transport::Identifier(mode)) => (Some(mode.receive_epochs()), None),
            Some(Transport::HeaderEncryption(mode)) => (None, Some(mode.receive_epochs())),
            Some(Transport::Plain { .. }) | None => (None, None),
        };
        identifier.into_iter().flatten().chain(header_encryption.into_iter().flatten())
    }

    fn transport(&self, peer: PeerId) -> Option<&Transport> {
        Some(&self.peer(peer)?.transport)
    }
}

impl Transport {
    /// The flows towards the peer; plain mode knows none.
    const fn flows(&self) -> Option<&Flows> {
        match self {
            Self::Identifier(mode) => Some(&mode.flows),
            Self::HeaderEncryption(mode) => Some(&mode.flows),
            Self::Plain { .. } => None,
        }
    }

    const fn flows_mut(&mut self) -> Option<&mut Flows> {
        match self {
            Self::Identifier(mode) => Some(&mut mode.flows),
            Self::HeaderEncryption(mode) => Some(&mut mode.flows),
            Self::Plain { .. } => None,
        }
    }
}
