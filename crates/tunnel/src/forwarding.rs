//! The forwarding half of a site: frames and packets, and their state. Sans I/O, without a clock.
//!
//! ```text
//!  LAN ── route ── dispatch, for each peer ─▶ peer    handle_command ─▶ ┌────────────┐ ─▶ poll_event, poll_timeout
//!  LAN ◀────────────────── handle_packet ─── peer                      │ Forwarding │
//!                                                    handle_timeout ─▶ └────────────┘ ─▶ poll_released
//! ```
//!
//! [`Forwarding::new`] allocates the memory. [`Forwarding::handle_command`] allocates for keys and for further
//! lanes; nothing else allocates. Each call's work is bounded: a few table look-ups and hashes, at most 64
//! identifiers put into a window for a packet, and at most 256 for a call of [`Forwarding::handle_timeout`].

mod handle_command;
mod handle_packet;
mod handle_timeout;
mod twins;

use alloc::boxed::Box;
use alloc::vec::Vec;

use arrayvec::ArrayVec;
use wire::time::Instant;
use wire::tunnel::{ParseFrameError, ParsedFrame, RelayLeg, SiteName};
use wire::{EtherType, MacAddr};

use crate::counters::{OutDiscard, PeerCounters, SiteCounters, Unrouted};
use crate::exchange::{Event, Generation};
use crate::flows::{Flows, NumberedFlow};
use crate::header_encryption::{HeaderEncryption, MOST_LATE_PNS};
use crate::identifier::{Identifier, Outward};
use crate::packet::{Destination, PACKET_HEADER_OCTETS, Packet, Released, Route};
use crate::plain::{self, Plain};
use crate::receive::ReceiveLanes;
use crate::settings::{FrameKinds, LaneShare, Limits, Mode, PEERS, PeerId, PeerSettings, Settings};
use crate::site_state::{PeerContext, SiteState};
use crate::stations::{LearnOutcome, Location, Station, Stations};
use twins::Twins;

/// Header protection of a peer, with its state.
#[derive(Debug)]
enum Transport {
    Identifier(Box<Identifier>),
    HeaderEncryption(Box<HeaderEncryption>),
    Plain(Box<Plain>),
}

#[derive(Debug)]
struct Peer {
    context: PeerContext,
    counters: PeerCounters,
    transport: Transport,
}

/// State of a peer for a [`Forwarding`]: made and dropped where time does not matter.
#[derive(Debug)]
pub struct PreparedPeer(Peer);

impl PreparedPeer {
    /// For a new peer of a site with these limits, whose LAN accepts frames of `lan_frame` octets. Allocates.
    pub fn new(settings: &PeerSettings, limits: &Limits, lan_frame: usize) -> Self {
        Self::on_lane(settings, limits, lan_frame, LaneShare::WHOLE)
    }

    fn on_lane(settings: &PeerSettings, limits: &Limits, lan_frame: usize, share: LaneShare) -> Self {
        let transport = match settings.mode {
            Mode::Identifier => Transport::Identifier(Box::new(Identifier::new(limits, share))),
            Mode::HeaderEncryption => {
                Transport::HeaderEncryption(Box::new(HeaderEncryption::new(limits, lan_frame)))
            }
            Mode::Plain { vni } => Transport::Plain(Box::new(Plain::new(vni, limits))),
        };
        let path_payload = settings.path_payload;
        // `add_peer` sets its number.
        let context = PeerContext {
            peer: PeerId(0),
            generation: Generation::default(),
            path_payload,
            frames: FrameKinds::default(),
        };
        Self(Peer { context, counters: PeerCounters::default(), transport })
    }
}

/// The forwarding half of a site.
#[derive(Debug)]
pub struct Forwarding {
    state: SiteState,
    stations: Stations,
    twins: Twins,
    receive: ReceiveLanes,
    /// By number. `None` for a peer that has left.
    peers: Vec<Option<Peer>>,
    counters: SiteCounters,
    lan_frame: usize,
    /// W.
    window: u64,
    /// True if a window of an epoch is not full yet, or the event for it is still due.
    installing: bool,
    /// True if waiting frames may go.
    releasing: bool,
    /// True if frames may still be dropped behind this half: their sources are heard later.
    hears_later: bool,
    /// Next times for: readiness events, timed work, ageing.
    next_ready: Instant,
    next_watch: Instant,
    next_ages: Instant,
    /// Peer whose flows are aged next.
    age_cursor: usize,
    /// Half of a further worker, which hears no stations.
    is_further: bool,
}

impl Forwarding {
    /// A site with its peers, and all its memory with one lane for each.
    ///
    /// # Panics
    /// If the window is no power of two from 64 to 2^20, or there are more peers than [`PEERS`].
    pub fn new(settings: Settings) -> Self {
        Self::on_lane(settings, LaneShare::WHOLE)
    }

    /// One worker's half of a site that sends from several. All of them are given the session's commands, by [`Command::goes_to_all_lanes`](crate::Command::goes_to_all_lanes),
    /// and routes are those that the first worker's half finds. Flows of a further worker's half are those of stations that were heard behind
    /// their peer.
    ///
    /// # Panics
    /// As [`Self::new`].
    pub fn on_lane(settings: Settings, share: LaneShare) -> Self {
        let Settings { lan_frame, limits, window, .. } = settings;
        assert!(window.is_power_of_two() && (64..=1 << 20).contains(&window), "a window of {window} seqs");
        assert!(settings.peers.len() <= PEERS, "{} peers", settings.peers.len());
        let identifiers = settings.peers.iter().filter(|peer| peer.mode == Mode::Identifier).count();
        let received = if share.is_further() { 0 } else { identifiers };
        let peers = settings.peers.iter().map(|peer| PreparedPeer::on_lane(peer, &limits, lan_frame, share));
        let mut forwarding = Self {
            state: SiteState::new(&settings.table_seed, share.limits(&limits).new_flows_per_second),
            stations: Stations::new(limits.stations, limits.station_age),
            twins: Twins::default(),
            // Two epochs of each peer.
            receive: ReceiveLanes::new(2 * received, window, lan_frame),
            peers: Vec::with_capacity(settings.peers.len()),
            counters: SiteCounters::default(),
            lan_frame,
            window,
            installing: false,
            releasing: false,
            hears_later: false,
            next_ready: Instant::START,
            next_watch: Instant::START,
            next_ages: Instant::START,
            age_cursor: 0,
            is_further: share.is_further(),
        };
        for peer in peers {
            forwarding.add_peer(peer);
        }
        forwarding
    }

    /// Seqs, or PNs, by which a packet may be late at all peers: half of W, and with header encryption no more than its window of PNs.
    pub fn most_late(&self) -> u64 {
        let encrypts = |peer: &Peer| matches!(peer.transport, Transport::HeaderEncryption(_));
        let half = self.window / 2;
        if self.peers.iter().flatten().any(encrypts) { half.min(MOST_LATE_PNS) } else { half }
    }

    /// Carries cells' cyclic frames with this EtherType too, to and from peers in identifier mode that say that they do. Whoever calls
    /// this says so in the session's settings.
    pub const fn carry_cyclic(&mut self, ether_type: EtherType) {
        self.state.cyclic = Some(ether_type);
    }

    /// Takes packets of peers in identifier mode for other sites: [`Delivery::Relayed`](crate::Delivery). Whoever calls this says so in the
    /// session's settings.
    pub const fn relay_for_peers(&mut self) {
        self.state.relays = true;
    }

    /// Leaves it to [`Self::hear`] to learn stations behind peers, or does it itself. What is dropped behind this half must teach nothing: its
    /// sender would draw what is for another station of that address.
    pub const fn hear_later(&mut self, hears_later: bool) {
        self.hears_later = hears_later;
    }

    /// Adds a peer under the next number. The number of a departed peer is not used again, so messages in
    /// flight between the halves are not taken for another peer's. `None` if there have been [`PEERS`]. Not
    /// for the frame path.
    pub fn add_peer(&mut self, PreparedPeer(mut peer): PreparedPeer) -> Option<PeerId> {
        let number = u16::try_from(self.peers.len()).ok().filter(|number| usize::from(*number) < PEERS)?;
        peer.context.peer = PeerId(number);
        self.peers.push(Some(peer));
        Some(PeerId(number))
    }

    /// Removes a peer: voids its keys, windows and flows, and forgets the stations behind it. Looks at each
    /// station. Not for the frame path.
    pub fn remove_peer(&mut self, number: PeerId) -> Option<PreparedPeer> {
        let mut peer = self.peers.get_mut(number.index())?.take()?;
        match &mut peer.transport {
            Transport::Identifier(mode) => {
                mode.void(&self.state, &mut self.receive);
            }
            Transport::HeaderEncryption(mode) => mode.void(&self.state, &mut peer.counters),
            Transport::Plain(_) => {}
        }
        self.stations.forget(&self.state.hasher, number);
        Some(PreparedPeer(peer))
    }

    /// Number of peers since the start; all peer numbers are below it.
    pub const fn peers(&self) -> usize {
        self.peers.len()
    }

    fn peer(&self, number: PeerId) -> Option<&Peer> {
        self.peers.get(number.index())?.as_ref()
    }

    fn peer_mut(&mut self, number: PeerId) -> Option<&mut Peer> {
        self.peers.get_mut(number.index())?.as_mut()
    }

    /// Route of a frame of the LAN, from its destination address, without FCS. EAPOL frames do not belong
    /// here. `None` if it goes nowhere, which is counted.
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

    /// The same for a box that leaves its LAN to another one ([`crate::standby`]): a way to a station that is known behind a peer alone. Learns
    /// nothing, since this box hears on its LAN what the other one delivers.
    pub fn route_draining(&mut self, now: Instant, frame: &[u8]) -> Option<Route> {
        let taken = self.parse(frame).ok()?;
        let place = |address| self.stations.location(now, &self.state.hasher, address);
        match (place(taken.flow.source), place(taken.flow.destination)) {
            (Some(Location::Behind(_)), _) => None,
            (_, Some(Location::Behind(peer))) => {
                let destination = Destination::Peer(self.twins.current(peer));
                self.counters.out_pkts_unicast += 1;
                Some(Route { taken, destination })
            }
            _ => None,
        }
    }

    /// Location that a station keeps, since it was heard there within a second. An MKPDU in its name from elsewhere is not its own.
    pub fn held_at(&self, now: Instant, address: MacAddr) -> Option<Location> {
        self.stations.held_at(now, &self.state.hasher, address)
    }

    fn parse(&self, frame: &[u8]) -> Result<ParsedFrame, Unrouted> {
        let parsed = match (ParsedFrame::parse(frame), self.state.cyclic) {
            (Err(ParseFrameError::NotMacsec), Some(ether_type)) => {
                ParsedFrame::parse_cyclic(frame, ether_type)
            }
            (parsed, _) => parsed,
        };
        parsed.map_err(|error| match error {
            ParseFrameError::Truncated => Unrouted::TooShort,
            ParseFrameError::NotMacsec => Unrouted::NotMacsec,
            ParseFrameError::Version => Unrouted::BadTag,
        })
    }

    fn find_route(&mut self, now: Instant, frame: &[u8]) -> Result<Route, Unrouted> {
        let taken = self.parse(frame)?;
        if matches!(self.learn(now, taken.flow.source, Location::Here), LearnOutcome::Elsewhere(_)) {
            return Err(Unrouted::Loop);
        }
        let to = match self.stations.location(now, &self.state.hasher, taken.flow.destination) {
            Some(Location::Here) => return Err(Unrouted::Local),
            Some(Location::Behind(peer)) => Destination::Peer(self.twins.current(peer)),
            None if !self.peers.iter().any(Option::is_some) => return Err(Unrouted::NoPeer),
            None => Destination::All,
        };
        Ok(Route { taken, destination: to })
    }

    #[inline(always)]
    fn learn(&mut self, now: Instant, source: MacAddr, place: Location) -> LearnOutcome {
        self.learn_station(now, source, place, self.state.offers)
    }

    /// Asks whether a station was heard elsewhere: frames of it may have come another way.
    #[cold]
    fn ask_to_move(&mut self, address: MacAddr, from: Location, to: Location) {
        let ((Location::Behind(peer), _) | (_, Location::Behind(peer))) = (to, from) else { return };
        let Some(generation) = self.peer(peer).map(|peer| peer.context.generation) else { return };
        // If there is no room, it moves without an answer.
        let _ = self.state.events.tell(Event::StationMoves { peer, generation, address, to });
    }

    #[inline(always)]
    fn learn_station(&mut self, now: Instant, address: MacAddr, place: Location, asks: bool) -> LearnOutcome {
        let heard = self.stations.learn(now, &self.state.hasher, address, place, asks);
        match heard {
            LearnOutcome::Known | LearnOutcome::Elsewhere(_) => {}
            LearnOutcome::Asked(from) => {
                self.ask_to_move(address, from, place);
                return LearnOutcome::Elsewhere(from);
            }
            LearnOutcome::New => self.counters.stations_learned += 1,
            LearnOutcome::Moved => self.counters.stations_moved += 1,
            LearnOutcome::NoRoom => self.counters.stations_refused += 1,
        }
        heard
    }

    /// A number that all frames of a flow have, and that nobody can choose: by it flows are spread over workers.
    pub fn spread(&self, route: &Route) -> u64 {
        self.state.hasher.flow(&route.taken.flow)
    }

    /// Packets of a routed frame for one peer: none (dropped or waiting, and counted), one, or two if the
    /// frame exceeds the path. Call it for each peer of [`Route::destination`].
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
                identifier.dispatch(now, context, counters, &mut self.state, route, frame.len())
            }
            Transport::HeaderEncryption(mode) => {
                mode.dispatch(now, context, counters, &mut self.state, &route.taken, frame)
            }
            Transport::Plain(mode) => mode
                .dispatch(now, context, &mut self.state, route, frame.len())
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

    /// Header of a packet of so many octets that is relayed, on its way to `peer`. `None` if it cannot go, which is counted. A relayed packet
    /// is never split, and goes whatever is known of the path: the sites at both ends find out what their way carries.
    pub fn relay(
        &mut self,
        now: Instant,
        peer: PeerId,
        (leg, site): (RelayLeg, SiteName),
        octets: usize,
    ) -> Option<ArrayVec<u8, PACKET_HEADER_OCTETS>> {
        let Peer { context, counters, transport } = self.peers.get_mut(peer.index())?.as_mut()?;
        let Transport::Identifier(identifier) = transport else {
            counters.count_out(OutDiscard::NotRelayed);
            return None;
        };
        // Nobody else forwards relayed packets: there is nothing to offer.
        let route = Route { taken: ParsedFrame::relayed(leg, site), destination: Destination::All };
        match identifier.dispatch(now, context, counters, &mut self.state, &route, octets) {
            Ok(packets) => {
                let packet = packets.into_iter().next()?;
                counters.out_pkts_relayed += 1;
                counters.out_octets_tunnelled += packet.octets() as u64;
                Some(packet.header)
            }
            Err(reason) => {
                counters.count_out(reason);
                None
            }
        }
    }

    /// Packet of an EAPOL frame for a plain peer, which has no management channel for it. `None` for other
    /// peers, or if the frame is too long, which is counted.
    pub fn encapsulate_eapol(&mut self, peer: PeerId, frame: &[u8]) -> Option<Packet> {
        let Peer { context, counters, transport } = self.peer_mut(peer)?;
        let Transport::Plain(mode) = transport else { return None };
        let packet = plain::encapsulate(mode.vni, context.path_payload, frame.len());
        packet.map_err(|reason| counters.count_out(reason)).ok()
    }

    /// Next event for the session. Call it only if the event can be delivered.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.state.events.poll()
    }

    /// Next waiting frame whose flow is now acknowledged. Call it after [`Forwarding::handle_command`] until
    /// there is none. Looks at each peer while frames may go, and at none otherwise.
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

    /// Counters without a peer.
    pub const fn counters(&self) -> &SiteCounters {
        &self.counters
    }

    /// Counters of a peer.
    pub fn peer_counters(&self, peer: PeerId) -> PeerCounters {
        self.peer(peer).map_or_else(PeerCounters::default, |peer| peer.counters)
    }

    /// Stations with a known location, in no order; [`Limits::stations`](crate::Limits::stations) at most.
    pub fn stations(&self) -> impl Iterator<Item = &Station> {
        self.stations.iter()
    }

    /// Flows towards a peer, in no order; [`Limits::flows`](crate::Limits::flows) at most.
    pub fn flows(&self, peer: PeerId) -> impl Iterator<Item = &NumberedFlow> {
        self.transport(peer).map(Transport::flows).into_iter().flat_map(Flows::iter)
    }

    /// Number of flows that the peer has announced.
    pub fn announced_flows(&self, peer: PeerId) -> usize {
        match self.transport(peer) {
            Some(Transport::Identifier(mode)) => mode.announced.len(),
            Some(Transport::HeaderEncryption(mode)) => mode.known.len(),
            Some(Transport::Plain(_)) | None => 0,
        }
    }

    /// Transmit epoch towards a peer; 0: none.
    pub fn transmit_epoch(&self, peer: PeerId) -> u32 {
        match self.transport(peer) {
            Some(Transport::Identifier(mode)) => mode.transmit_epoch(),
            Some(Transport::HeaderEncryption(mode)) => mode.transmit_epoch(),
            Some(Transport::Plain(_)) | None => 0,
        }
    }

    /// Receive epochs of a peer, the older one first.
    pub fn receive_epochs(&self, peer: PeerId) -> impl Iterator<Item = u32> {
        let (identifier, header_encryption) = match self.transport(peer) {
            Some(Transport::Identifier(mode)) => (Some(mode.receive_epochs()), None),
            Some(Transport::HeaderEncryption(mode)) => (None, Some(mode.receive_epochs())),
            Some(Transport::Plain(_)) | None => (None, None),
        };
        identifier.into_iter().flatten().chain(header_encryption.into_iter().flatten())
    }

    fn transport(&self, peer: PeerId) -> Option<&Transport> {
        Some(&self.peer(peer)?.transport)
    }
}

impl Transport {
    /// Flows towards the peer.
    const fn flows(&self) -> &Flows {
        match self {
            Self::Identifier(mode) => &mode.flows,
            Self::HeaderEncryption(mode) => &mode.flows,
            Self::Plain(mode) => &mode.flows,
        }
    }

    const fn flows_mut(&mut self) -> &mut Flows {
        match self {
            Self::Identifier(mode) => &mut mode.flows,
            Self::HeaderEncryption(mode) => &mut mode.flows,
            Self::Plain(mode) => &mut mode.flows,
        }
    }
}
