//! The kernel's part of a site ([`xdp::site::Site`]): flows of peers in identifier mode that both ends know go through XDP programs, on a
//! lane of their own, and so do flows of peers in plain mode, which has no lanes. It is held beside the forwarding half, and follows what session and half tell each other:
//!
//! ```text
//!  Session ── Command ──▶ KernelSite ──▶ forwarding half       keys of the kernel's lane, flows, positions: to the programs' maps
//!  Session ◀── Event ──── KernelSite ◀── forwarding half       a flow in use goes to the kernel; a station moves if it is silent there
//! ```
//!
//! | lane | sent by | received by |
//! |---|---|---|
//! | 0 | the forwarding half | the forwarding half |
//! | 1 | the programs, if this site has some | the programs if they stand wherever packets may come in, else the forwarding half |
//!
//! So either end may have programs. The half's flows, stations and epochs stay the truth: what is not in the maps is the half's.
//!
//! | file | |
//! |---|---|
//! | `lan.rs`, `wans.rs` | ports at which programs stand |
//! | `numbers.rs` | numbers of lanes, paths, stations and flows, which rest before they are used again |
//! | `lanes.rs`, `paths.rs`, `flows.rs` | of each peer: keys, the way to it, flows |
//! | `stations.rs` | stations that flows need |
//! | `plain.rs` | peers in plain mode |
//! | `known.rs` | addresses of peers, whose packets are not strangers' |
//! | `strangers.rs` | bounds of strangers' packets; lanes of the half, which the programs know from strangers' |
//! | `handle_command.rs`, `handle_event.rs` | the order in which they act on words of sessions, and of the half |
//!
//! This file has the rest of that order.

mod flows;
mod handle_command;
mod handle_event;
mod known;
mod lan;
mod lanes;
mod numbers;
mod paths;
mod plain;
mod stations;
mod strangers;
#[cfg(test)]
mod tests;
mod wans;

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use dataplane::site::{ToWorker, Turns};
use netdev::port::KernelSide;
use suite::tunnel::TokenKey;
use tunnel::{Command, Event, Generation, Limits, Location, PeerCounters, PeerId};
use wire::tunnel::FlowIndex;
use wire::{EtherType, Instant, MacAddr};
use xdp::Unclaimed;
use xdp::site::{Room, Settings, Site, Stranger};
use zeroize::Zeroizing;

pub use lan::PlaceState;
pub use plain::PlainPeer;

use super::random;
use flows::{FlowRoom, FlowSweep, PeerFlows};
use known::KnownAddresses;
use lan::Lan;
use lanes::{Lanes, PeerLanes};
use paths::{Paths, PeerPath};
use plain::{HeardStations, Sender};
use stations::USED;
use strangers::{Bounds, Watches};
use wans::Wans;

/// Lanes of a site that has programs.
pub(super) const LANES: u8 = 2;
/// No lane, or no path: frames are user space's.
const NONE: u32 = u32::MAX;
/// Interval of looks at paths and lanes.
const LOOK: Duration = Duration::from_millis(250);
/// Pause of a flow after which the peer's user space has none of its frames any more.
const QUIET: Duration = Duration::from_millis(10);
/// Peers since the start: those of higher numbers are user space's.
const PEERS: u32 = 1024;
/// Flows of all peers, in each direction.
const MOST_FLOWS: usize = 1 << 16;
/// Commands that wait for the half: those of one look, and as many answers.
const MOST_COMMANDS: usize = 2 * (flows::SWEPT + stations::SWEPT);

/// Packets and frames of strangers that programs have dropped.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Floods {
    /// Packets with the management channel's mark.
    pub datagrams: u64,
    /// Other packets of the network.
    pub packets: u64,
    /// Frames of the LAN.
    pub frames: u64,
}

/// Programs and maps of a site, for its manager and for those who open its ports and read its figures.
#[derive(Debug)]
pub struct KernelSite(Mutex<Kernel>);

#[derive(Debug)]
struct Kernel {
    site: Site,
    token_key: TokenKey,
    peers_at_most: u16,
    /// Flows that one peer may announce.
    flows_of_peer: usize,
    lan: Lan,
    wans: Wans,
    lanes: Lanes,
    paths: Paths,
    room: FlowRoom,
    peers: BTreeMap<PeerId, Peer>,
    /// Those in plain mode, as they are configured.
    plain: BTreeMap<PeerId, PlainPeer>,
    /// Those that the programs were loaded with.
    limits: Limits,
    /// For the half.
    commands: VecDeque<Command>,
    /// The half is asked for flows in use.
    asked: bool,
    looked: Option<Instant>,
    flow_sweep: FlowSweep,
    judged: Option<Instant>,
    watches: Watches,
    bounds: Bounds,
    known: KnownAddresses,
    /// The data port is the site's own: a management channel is there.
    has_channel: bool,
}

#[derive(Debug, Default)]
struct Peer {
    generation: Generation,
    path: PeerPath,
    lanes: PeerLanes,
    flows: PeerFlows,
    /// In plain mode: the address of its packets, and stations behind it.
    sender: Sender,
    heard: HeardStations,
}

impl KernelSite {
    /// Loads programs for a site with so many peers in identifier mode and in plain mode that binds its data port here. This alone needs
    /// CAP_PERFMON.
    ///
    /// # Errors
    /// Why the kernel does not take them.
    pub fn load(
        [identifier, plain]: [usize; 2],
        window: u64,
        bind: SocketAddr,
        limits: &Limits,
    ) -> Result<Self, String> {
        let (lanes, peers) = (Lanes::room(identifier, window), identifier + plain);
        let paths = Paths::room(peers);
        let flows_of_peer = limits.flows.min(MOST_FLOWS / peers.max(1)).max(1);
        let flows = peers.max(1) * flows_of_peer;
        let room = Room {
            peers: PEERS,
            lanes,
            watched: Watches::room(lanes),
            paths,
            flows: flows as u32,
            stations: limits.stations as u32,
        };
        let token_key = TokenKey::new(&Zeroizing::new(random::octets()));
        let settings = Settings {
            window,
            lan_frame: 0,
            port: bind.port(),
            station_age: limits.station_age,
            quiet: QUIET,
            token_key: token_key.clone(),
        };
        let site = Site::load(&room, &settings, Unclaimed::Drop).map_err(|error| error.to_string())?;
        Ok(Self(Mutex::new(Kernel {
            site,
            token_key,
            peers_at_most: room.peers as u16,
            flows_of_peer,
            lan: Lan::none(),
            wans: Wans::new(),
            lanes: Lanes::new(room.lanes, window),
            paths: Paths::new(room.paths, bind),
            room: FlowRoom::new(room.flows, room.stations),
            peers: BTreeMap::new(),
            plain: BTreeMap::new(),
            limits: *limits,
            commands: VecDeque::new(),
            asked: false,
            looked: None,
            flow_sweep: FlowSweep::default(),
            judged: None,
            watches: Watches::new(lanes, window),
            bounds: Bounds::new(bind.ip()),
            known: KnownAddresses::new(),
            has_channel: false,
        })))
    }

    fn lock(&self) -> MutexGuard<'_, Kernel> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells the programs of the LAN's port; `None`: there is none, or its frames do not come by programs, for this reason. Returns the
    /// program for the port's link.
    ///
    /// # Errors
    /// Why frames of the LAN do not come to the program.
    pub fn set_lan(&self, side: Result<&KernelSide, String>, lan_frame: usize) -> Result<OwnedFd, String> {
        let Kernel { site, lan, .. } = &mut *self.lock();
        lan.open(site, side, lan_frame)
    }

    /// What the worker that has the LAN's port tells the programs: how far it is.
    ///
    /// # Errors
    /// If the kernel does not share the memory.
    pub fn turns(&self) -> Result<Turns, String> {
        let kernel = self.lock();
        let words = kernel.site.turns().map_err(|error| error.to_string())?;
        Ok(Turns::new(words, kernel.token_key.clone(), kernel.peers_at_most))
    }

    /// Another site begins, of the same name, whose packets have this DSCP, and which carries frames of cells with this EtherType.
    ///
    /// # Errors
    /// If the kernel does not take it.
    pub fn begin(&self, dscp: u8, cells: Option<EtherType>) -> Result<(), String> {
        self.end();
        let mut kernel = self.lock();
        kernel.paths.set_dscp(dscp);
        kernel.site.carry_cyclic(cells).map_err(|error| error.to_string())
    }

    /// The site is over: no frame of a peer's passes any more, and WAN interfaces are free for others.
    pub fn end(&self) {
        let mut kernel = self.lock();
        kernel.retain(|_| false);
        let Kernel { site, wans, bounds, known, .. } = &mut *kernel;
        wans.leave_all(site);
        bounds.end(site);
        known.set(site, Vec::new(), |_| true);
        let _ = site.clear_floods();
        kernel.has_channel = false;
        kernel.lan = Lan::none();
        kernel.commands.clear();
        kernel.plain.clear();
        // The next manager has a clock of its own.
        (kernel.asked, kernel.looked, kernel.judged) = (false, None, None);
        kernel.flow_sweep = FlowSweep::default();
    }

    /// Whether a site of this window, data port and limits can have the programs: of limits, they have room for flows and stations, and the
    /// age of stations.
    pub fn suits(&self, window: u64, bind: SocketAddr, limits: &Limits) -> bool {
        let kernel = self.lock();
        let parts = |limits: &Limits| (limits.flows, limits.stations, limits.station_age);
        (kernel.lanes.window(), kernel.paths.bind()) == (window, bind)
            && parts(&kernel.limits) == parts(limits)
    }

    /// Counters of a peer's frames in the kernel.
    pub fn counters(&self, peer: PeerId) -> PeerCounters {
        self.lock().site.counters(u32::from(peer.0)).map(|(counters, _)| counters).unwrap_or_default()
    }

    /// Packets and frames of strangers that the programs have dropped, since user space had no time for them: packets of the management
    /// channel's mark, other packets, and frames of the LAN.
    pub fn floods(&self) -> Floods {
        let [identifier, long, short, address, not_carried] = self.lock().site.floods().unwrap_or_default();
        Floods { datagrams: long + short, packets: identifier + address, frames: not_carried }
    }

    /// Where frames of a peer go, outward and inward.
    pub fn places(&self, peer: PeerId) -> [PlaceState; 2] {
        let kernel = self.lock();
        match kernel.peers.get(&peer) {
            None => [(); 2].map(|()| Err("the peer is not connected".to_owned())),
            Some(known) if kernel.plain.contains_key(&peer) => {
                let outward = known.path.state();
                let inward = outward.clone().and_then(|()| match known.path.receives() {
                    true => Ok(()),
                    false => kernel.lan.inward_now(),
                });
                [outward, inward]
            }
            Some(known) => [known.lanes.outward().and_then(|()| known.path.state()), known.lanes.inward()],
        }
    }

    /// Follows a command for the half. `None`: it was for the kernel alone. What the session is to be told stands in `events`.
    pub(super) fn handle_command(
        &self,
        now: Instant,
        word: ToWorker,
        events: &mut Vec<Event>,
    ) -> Option<ToWorker> {
        self.lock().handle_command(now, word, events)
    }

    /// The site has a management channel, so its data port is nobody else's.
    pub(super) fn expect_channel(&self) {
        self.lock().has_channel = true;
    }

    /// Watches the lanes that the half receives of a peer in identifier mode, by what it is told.
    pub(super) fn watch(&self, word: &ToWorker) {
        if let ToWorker::Tunnel(command) = word {
            let Kernel { site, watches, known, .. } = &mut *self.lock();
            watches.follow(site, command);
            if matches!(command, Command::InstallReceive { .. }) {
                known.tell(site, |peer| watches.are_complete(peer));
            }
        }
    }

    /// Connected peers send from these addresses: packets of the channel and probes from there are no strangers'.
    pub(super) fn know(&self, peers: Vec<(PeerId, SocketAddr)>) {
        let Kernel { site, watches, known, .. } = &mut *self.lock();
        known.set(site, peers, |peer| watches.are_complete(peer));
    }

    /// Says so if strangers' packets are not bounded at all addresses of this box.
    pub(super) fn lack(&self) -> Option<String> {
        self.lock().bounds.lack()
    }

    /// Location at which the programs have heard a station within a second.
    pub(super) fn held_at(&self, address: MacAddr) -> Option<Location> {
        let kernel = self.lock();
        kernel.room.stations.held_at(&kernel.site, address)
    }

    /// Follows an event of the half; `None`: the session has nothing to do with it. There may be another one for it.
    pub(super) fn handle_event(&self, now: Instant, event: Event) -> [Option<Event>; 2] {
        self.lock().handle_event(now, event)
    }

    /// All other peers are gone.
    pub(super) fn retain(&self, stays: impl Fn(PeerId) -> bool) {
        self.lock().retain(stays);
    }

    /// Looks at lanes and paths if it is time to. Events for sessions.
    pub(super) fn handle_timeout(&self, now: Instant) -> Vec<Event> {
        self.lock().handle_timeout(now)
    }

    /// The next command for the half.
    pub(super) fn poll_command(&self) -> Option<Command> {
        self.lock().commands.pop_front()
    }
}

impl Kernel {
    /// Forgets all other peers.
    fn retain(&mut self, stays: impl Fn(PeerId) -> bool) {
        for peer in self.peers.keys().copied().filter(|peer| !stays(*peer)).collect::<Vec<_>>() {
            self.void(peer);
            self.plain.remove(&peer);
            let Self { site, room, paths, .. } = self;
            if let Some(mut known) = self.peers.remove(&peer) {
                known.sender.set(site, peer, None);
                known.heard.void(site, &mut room.stations);
                known.path.leave(paths);
            }
            let _ = self.site.clear_counters(u32::from(peer.0));
        }
        self.watches.retain(&mut self.site, stays);
    }

    /// Bounds those strangers that cannot be taken for anybody else.
    fn bound_strangers(&mut self, now: Instant) {
        let Self { site, known, bounds, plain, has_channel, .. } = self;
        let rules = [
            (Stranger::UnknownIdentifier, *has_channel && known.are_complete()),
            (Stranger::LongHeader, *has_channel),
            (Stranger::ShortHeader, *has_channel),
            (
                Stranger::UnknownAddress,
                !plain.is_empty() && plain.keys().all(|peer| u32::from(peer.0) < PEERS),
            ),
        ];
        let kinds: Vec<_> = rules.into_iter().filter_map(|(kind, is)| is.then_some(kind)).collect();
        bounds.set(site, now, &kinds);
    }

    /// Voids keys, windows and flows of a peer.
    fn void(&mut self, peer: PeerId) {
        let Self { site, lanes, room, peers, .. } = self;
        let Some(known) = peers.get_mut(&peer) else { return };
        let _ = site.set_peer(u32::from(peer.0), NONE, NONE);
        known.lanes.void(lanes, site);
        known.flows.void(site, room, peer);
    }

    /// Reason why no peer at all is received by a program.
    fn refuses_all(&mut self, now: Instant) -> Option<String> {
        match self.lan.inward() {
            Err(why) => Some(why.clone()),
            Ok(()) => self.wans.missing(&mut self.site, now),
        }
    }

    /// Tells the program on which lane and path a peer is sent to.
    fn direct(&mut self, peer: PeerId) {
        let Some(known) = self.peers.get(&peer) else { return };
        let lane = known.lanes.transmit().or_else(|| self.plain.contains_key(&peer).then_some(NONE));
        let (lane, path) = lane.zip(known.path.number()).unwrap_or((NONE, NONE));
        let _ = self.site.set_peer(u32::from(peer.0), lane, path);
    }

    /// Looks for the way to a peer, and takes the one that there is now.
    fn renew_path(&mut self, now: Instant, peer: PeerId) {
        let Self { site, lan, wans, paths, peers, .. } = self;
        if peers.get_mut(&peer).is_some_and(|known| known.path.renew(paths, site, (lan, wans), now)) {
            self.direct(peer);
        }
    }

    fn remove_flow(&mut self, peer: PeerId, generation: Generation, index: FlowIndex) {
        let Self { site, room, peers, .. } = self;
        if let Some(known) = of(peers, peer, generation) {
            known.flows.remove(site, room, index);
        }
    }

    fn withdraw(&mut self, peer: PeerId, generation: Generation, index: FlowIndex) {
        let Self { site, room, peers, .. } = self;
        if let Some(known) = of(peers, peer, generation) {
            known.flows.withdraw(site, room, peer, index);
        }
    }

    fn handle_timeout(&mut self, now: Instant) -> Vec<Event> {
        if !std::mem::replace(&mut self.asked, true) {
            self.commands.push_back(Command::OfferFlows);
        }
        if self.looked.is_some_and(|looked| now.since(looked) < LOOK) {
            return Vec::new();
        }
        self.looked = Some(now);
        self.bound_strangers(now);
        self.watches.reuse();
        self.lanes.reuse(&mut self.site);
        self.paths.reuse();
        self.room.reuse();
        let mut events = Vec::new();
        for peer in self.peers.keys().copied().collect::<Vec<_>>() {
            self.renew_path(now, peer);
            let Self { site, lanes, room, peers, limits, commands, .. } = self;
            let Some(known) = peers.get_mut(&peer) else { continue };
            known.heard.forget_silent(site, &mut room.stations, limits.station_age);
            if let Some(index) = known.lanes.look(lanes, site, now) {
                events.push(Event::UnknownIndex { peer, generation: known.generation, index });
            }
            if commands.len() < MOST_COMMANDS
                && let Some(epoch) = known.lanes.tell_in_use()
            {
                commands.push_back(Command::EpochInUse { peer, generation: known.generation, epoch });
            }
        }
        if self.judged.is_none_or(|judged| now.since(judged) >= USED) {
            self.judged = Some(now);
            self.judge_receiving(now);
        }
        // A half that is behind is told nothing more: what is used is found again in the next round.
        if self.commands.is_empty() {
            self.room.stations.sweep(&self.site, now, &mut self.commands);
            let flows = self.peers.iter().map(|(&peer, known)| (peer, known.generation, &known.flows));
            self.flow_sweep.look(&self.site, now, flows, &mut self.commands);
        }
        events
    }

    /// Says of peers that are received in the kernel when a reason has come up why they should not be. The next epoch follows it.
    fn judge_receiving(&mut self, now: Instant) {
        if !self.peers.values().any(|known| known.lanes.receives()) {
            return;
        }
        let refused =
            self.refuses_all(now).map(|why| format!("{why}; frames may be lost until the next epoch"));
        for known in self.peers.values_mut().filter(|known| known.lanes.receives()) {
            known.lanes.suffer(&refused);
        }
    }
}

/// A peer of this generation.
fn of(peers: &mut BTreeMap<PeerId, Peer>, peer: PeerId, generation: Generation) -> Option<&mut Peer> {
    peers.get_mut(&peer).filter(|known| known.generation == generation)
}
