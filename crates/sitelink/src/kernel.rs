//! The kernel's part of a site ([`xdp::site::Site`]): flows of peers in identifier mode that both ends know go through XDP programs, on a
//! lane of their own. It is held beside the forwarding half, and follows what session and half tell each other:
//!
//! ```text
//!  Session ── Command ──▶ KernelPath ──▶ forwarding half       keys of the kernel's lane, flows, positions: to the programs' maps
//!  Session ◀── Event ──── KernelPath ◀── forwarding half       a flow in use goes to the kernel; a station moves if it is silent there
//! ```
//!
//! | lane | sent by | received by |
//! |---|---|---|
//! | 0 | the forwarding half | the forwarding half |
//! | 1 | the programs, if this site has some | the programs if they stand wherever packets may come in, else the forwarding half |
//!
//! So either end may have programs. The half's flows, stations and epochs stay the truth: what is not in the maps is the half's.
//!
//! A lane or path that is given up is used again only after [`GRACE`]: a program may be at work with it still.

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::ops::Bound;
use std::os::fd::AsRawFd;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant as Clock};

use dataplane::site::ToWorker;
use netdev::interface::takes_redirected;
use netdev::port::KernelSide;
use netdev::route::{NextHop, addressed, next_hop};
use tunnel::{Command, EPOCH_OVERLAP, Event, Generation, Limits, Location, PeerCounters, PeerId};
use wire::tunnel::{Flow, FlowIndex};
use wire::{Instant, MacAddr};
use xdp::site::{FlowPath, Room, Settings, Site, UdpPath};
use xdp::{Unclaimed, XdpError};

/// Number of the lane that programs send on.
const LANE: u8 = 1;
/// Lanes of a site that has programs.
pub(super) const LANES: u8 = 2;
/// No lane, or no path: frames are user space's.
const NONE: u32 = u32::MAX;
/// Time for which a program may be at work with what it was given before.
const GRACE: Duration = Duration::from_secs(1);
/// Interval of looks at paths and lanes.
const LOOK: Duration = Duration::from_millis(250);
/// Interval at which the half is told that flows and stations are used.
const USED: Duration = Duration::from_secs(10);
/// Time for which a station stays where it was heard, as in the half.
const STAY: Duration = Duration::from_secs(1);
/// Pause after an interface refused the program.
const REFUSED: Duration = Duration::from_secs(10);
/// Pause of a flow after which user space has none of its frames any more, at either end.
const QUIET: Duration = Duration::from_millis(10);
/// Peers since the start: those of higher numbers are user space's.
const PEERS: u32 = 1024;
/// Flows of all peers, in each direction.
const MOST_FLOWS: usize = 1 << 16;
/// Identifiers of all lanes that programs have room for, and anchors of each lane.
const IDENTIFIERS: u64 = 1 << 20;
const ANCHORS: u64 = 1024;
/// Stations that are looked at in one look.
const SWEPT: usize = 512;
const NO_LANES: &str = "the programs have no room for more lanes";
const NO_LAN: &str = "its LAN has no port";
/// WAN interfaces at most.
const WANS: usize = 3;

/// Where frames of a peer go: in the kernel, or in user space for this reason.
pub type PathState = Result<(), String>;

/// Programs and maps of a site, for its manager and for those who open its ports and read its figures.
#[derive(Debug)]
pub struct KernelPath(Mutex<Kernel>);

#[derive(Debug)]
struct Kernel {
    site: Site,
    window: u64,
    /// The address of the data port, and the DSCP of its packets.
    bind: SocketAddr,
    dscp: u8,
    peers_at_most: u16,
    /// Whether frames of the LAN come to the program, and whether the LAN takes rebuilt ones.
    lan: [PathState; 2],
    /// WAN interfaces whose packets come to the program: those of the ports from 1 on.
    wans: [Option<u32>; WANS],
    refused: BTreeMap<u32, (Instant, String)>,
    peers: BTreeMap<PeerId, Peer>,
    stations: BTreeMap<MacAddr, Station>,
    free_stations: Vec<u32>,
    transmit_lanes: Numbers,
    receive_lanes: Numbers,
    paths: Numbers,
    /// For the half.
    commands: VecDeque<Command>,
    /// The half is asked for flows in use.
    asked: bool,
    looked: Option<Instant>,
    told_used: Option<Instant>,
    judged: Option<Instant>,
    /// Station that was looked at last.
    swept: MacAddr,
}

/// Numbers that are free, and those that will be.
#[derive(Debug)]
struct Numbers {
    free: Vec<u32>,
    leaving: VecDeque<(Clock, u32)>,
}

#[derive(Debug, Default)]
struct Peer {
    generation: Generation,
    address: Option<SocketAddr>,
    payload: Option<usize>,
    path: Option<(u32, UdpPath)>,
    path_looked: Option<Instant>,
    /// Why frames do not leave by a program.
    no_path: Option<String>,
    /// Newest epoch that is sent under, and its lane if there was one to be had. No epoch gets a lane a second time.
    transmit: Option<(u32, Option<u32>)>,
    /// The older one first.
    receive: Vec<Receive>,
    /// Why the newest epoch is not received by a program.
    no_receive: Option<String>,
    /// Why it would not be any more, though it is.
    receive_suffers: Option<String>,
    unknown_told: Option<Instant>,
    flows: BTreeMap<FlowIndex, Flow>,
    announced: BTreeMap<FlowIndex, MacAddr>,
}

/// A lane of an epoch.
#[derive(Clone, Copy, Debug)]
struct Receive {
    epoch: u32,
    lane: u32,
}

/// A station, and the flows that need it.
#[derive(Debug)]
struct Station {
    number: u32,
    flows: usize,
    told: Option<Location>,
    told_at: Option<Instant>,
}

impl Numbers {
    fn new(room: u32) -> Self {
        Self { free: (0..room).rev().collect(), leaving: VecDeque::new() }
    }

    fn leave(&mut self, number: u32) {
        self.leaving.push_back((Clock::now(), number));
    }

    /// Numbers that nobody uses any more.
    fn left(&mut self) -> Vec<u32> {
        let mut left = Vec::new();
        while let Some((since, number)) = self.leaving.front().copied()
            && since.elapsed() >= GRACE
        {
            self.leaving.pop_front();
            left.push(number);
        }
        left
    }
}

impl KernelPath {
    /// Loads programs for a site with so many peers that binds its data port here. This alone needs CAP_PERFMON.
    ///
    /// # Errors
    /// Why the kernel does not take them.
    pub fn load(peers: usize, window: u64, bind: SocketAddr, limits: &Limits) -> Result<Self, String> {
        // Two epochs of each peer, and one that is given up.
        let most = IDENTIFIERS / (2 * window + ANCHORS);
        let lanes = (3 * peers as u64 + 2).min(most) as u32;
        let flows = (peers * limits.flows).clamp(1, MOST_FLOWS) as u32;
        let room = Room { peers: PEERS, lanes, flows, stations: limits.stations as u32 };
        let settings = Settings {
            window,
            lan_frame: 0,
            port: bind.port(),
            station_age: limits.station_age,
            quiet: QUIET,
        };
        let site = Site::load(&room, &settings, Unclaimed::Drop).map_err(|error| error.to_string())?;
        Ok(Self(Mutex::new(Kernel {
            site,
            window,
            bind,
            dscp: 0,
            peers_at_most: room.peers as u16,
            lan: [(); 2].map(|()| Err(NO_LAN.to_owned())),
            wans: [None; WANS],
            refused: BTreeMap::new(),
            peers: BTreeMap::new(),
            stations: BTreeMap::new(),
            free_stations: (0..room.stations).rev().collect(),
            transmit_lanes: Numbers::new(room.lanes),
            receive_lanes: Numbers::new(room.lanes),
            paths: Numbers::new(room.lanes),
            commands: VecDeque::new(),
            asked: false,
            looked: None,
            told_used: None,
            judged: None,
            swept: MacAddr::default(),
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
    pub fn set_lan(
        &self,
        side: Result<&KernelSide, String>,
        lan_frame: usize,
    ) -> Result<std::os::fd::OwnedFd, String> {
        let mut kernel = self.lock();
        let program = side.and_then(|side| kernel.take_lan(side, lan_frame));
        kernel.lan[0] = program.as_ref().map(drop).map_err(Clone::clone);
        if kernel.lan[0].is_err() {
            kernel.lan[1] = kernel.lan[0].clone();
        }
        program
    }

    /// Another site begins, of the same name, whose packets have this DSCP.
    pub fn begin(&self, dscp: u8) {
        self.end();
        self.lock().dscp = dscp;
    }

    /// The site is over: no frame of a peer's passes any more, and WAN interfaces are free for others.
    pub fn end(&self) {
        let mut kernel = self.lock();
        kernel.retain(|_| false);
        for port in 1..=WANS {
            kernel.leave_wan(port);
        }
        kernel.lan = [(); 2].map(|()| Err(NO_LAN.to_owned()));
        kernel.commands.clear();
        // The next manager has a clock of its own.
        (kernel.asked, kernel.looked, kernel.told_used, kernel.judged) = (false, None, None, None);
        kernel.refused.clear();
    }

    /// Whether a site of this window, port and number of peers can have the programs.
    pub fn suits(&self, window: u64, bind: SocketAddr) -> bool {
        let kernel = self.lock();
        (kernel.window, kernel.bind) == (window, bind)
    }

    /// Counters of a peer's frames in the kernel.
    pub fn counters(&self, peer: PeerId) -> PeerCounters {
        self.lock().site.counters(u32::from(peer.0)).map(|(counters, _)| counters).unwrap_or_default()
    }

    /// Where frames of a peer go, outward and inward.
    pub fn paths(&self, peer: PeerId) -> [PathState; 2] {
        let kernel = self.lock();
        let Some(known) = kernel.peers.get(&peer) else {
            return [(); 2].map(|()| Err("the peer is not connected".to_owned()));
        };
        let outward = match (&known.path, &known.no_path) {
            _ if known.transmit.is_none() => Err("no key is agreed on".to_owned()),
            _ if matches!(known.transmit, Some((_, None))) => Err(NO_LANES.to_owned()),
            (Some(_), _) => Ok(()),
            (None, why) => Err(why.clone().unwrap_or_else(|| "its address is not known".to_owned())),
        };
        let inward =
            match (known.receive.last(), known.no_receive.as_ref().or(known.receive_suffers.as_ref())) {
                (_, Some(why)) => Err(why.clone()),
                (Some(_), None) => Ok(()),
                (None, None) => Err("no key is agreed on".to_owned()),
            };
        [outward, inward]
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
    fn take_lan(&mut self, side: &KernelSide, lan_frame: usize) -> Result<std::os::fd::OwnedFd, String> {
        if !side.native {
            return Err("the driver of its LAN port takes no XDP programs".into());
        }
        self.lan[1] = match takes_redirected(side.interface) {
            Some(true) => Ok(()),
            Some(false) => Err(
                "its LAN port takes no redirected frames; of a veth the other end needs: ethtool -K IF gro on".into(),
            ),
            None => Err(
                "this kernel does not tell whether its LAN port takes redirected frames (Linux 6.3 does)".into(),
            ),
        };
        let told = |error: XdpError| error.to_string();
        self.site.set_lan_frame(lan_frame).map_err(told)?;
        self.site.set_lan(side.interface).map_err(told)?;
        for (queue, socket) in (0..).zip(&side.sockets) {
            self.site.set_socket(queue, socket.as_raw_fd()).map_err(told)?;
        }
        let [outward, _] = self.site.programs().map_err(told)?;
        Ok(outward)
    }

    fn handle_command(&mut self, now: Instant, word: ToWorker, events: &mut Vec<Event>) -> Option<ToWorker> {
        let command = match word {
            ToWorker::Endpoint { peer, address } => {
                if peer.0 < self.peers_at_most {
                    self.peers.entry(peer).or_default().address = address;
                    self.renew_path(now, peer);
                }
                return Some(word);
            }
            ToWorker::Tunnel(command) => command,
        };
        let command = match command {
            Command::Begin { peer, generation } => {
                if peer.0 < self.peers_at_most {
                    self.void(peer);
                    self.peers.entry(peer).or_default().generation = generation;
                }
                command
            }
            Command::InstallReceive { peer, generation, epoch, secret, lanes } => {
                let received = self.receive(now, (peer, generation), epoch, &secret, lanes);
                let lanes = if received { LANE } else { lanes };
                Command::InstallReceive { peer, generation, epoch, secret, lanes }
            }
            Command::InstallTransmit { peer, generation, epoch, ref secret } => {
                self.transmit((peer, generation), epoch, secret);
                command
            }
            Command::Unknown { peer, generation, index } => {
                self.drop_flow(peer, generation, index);
                command
            }
            Command::AddFlow { peer, generation, index, flow } => {
                let in_kernel = self.of(peer, generation).is_some_and(|known| known.no_receive.is_none());
                if !self.announce(peer, generation, index, &flow) && in_kernel {
                    events.push(Event::FlowRefused { peer, generation, index });
                    return None;
                }
                command
            }
            Command::WithdrawFlow { peer, generation, index } => {
                self.withdraw(peer, generation, index);
                command
            }
            Command::Position { peer, generation, epoch, lane: LANE, seq } => {
                let lanes = self.of(peer, generation).map(|known| known.receive.clone()).unwrap_or_default();
                match lanes.iter().find(|known| known.epoch == epoch) {
                    Some(&Receive { lane, .. }) => {
                        let _ = self.site.advance(lane, seq);
                        self.fill(lane);
                        return None;
                    }
                    None => command,
                }
            }
            Command::RequestPosition { peer, generation, lane: LANE, .. } => {
                if let Some(&mut Peer { transmit: Some((epoch, Some(lane))), .. }) = self.of(peer, generation)
                    && let Ok(seq) = self.site.next_seq(lane)
                {
                    let seq = seq.next_multiple_of(self.window / 2);
                    events.push(Event::Position { peer, generation, epoch, lane: LANE, seq });
                }
                return None;
            }
            Command::PathPayload { peer, octets } => {
                if peer.0 < self.peers_at_most {
                    self.peers.entry(peer).or_default().payload = Some(octets);
                    self.renew_path(now, peer);
                }
                command
            }
            _ => command,
        };
        Some(ToWorker::Tunnel(command))
    }

    fn handle_event(&mut self, now: Instant, event: Event) -> [Option<Event>; 2] {
        match event {
            Event::FlowInUse { peer, generation, index, flow } => {
                self.add_flow(now, peer, generation, index, &flow);
                [None, None]
            }
            Event::StationMoves { address, to, .. } => {
                self.move_station(address, to);
                [None, None]
            }
            Event::Withdraw { peer, generation, index } => {
                self.drop_flow(peer, generation, index);
                [Some(event), None]
            }
            Event::FlowRefused { peer, generation, index } => {
                self.withdraw(peer, generation, index);
                [Some(event), None]
            }
            Event::Lost { peer, generation, epoch, .. } => {
                let ours = self.of(peer, generation).is_some_and(|known| !known.receive.is_empty());
                [Some(event), ours.then_some(Event::Lost { peer, generation, epoch, lane: LANE })]
            }
            _ => [Some(event), None],
        }
    }

    /// A peer of this generation.
    fn of(&mut self, peer: PeerId, generation: Generation) -> Option<&mut Peer> {
        self.peers.get_mut(&peer).filter(|known| known.generation == generation)
    }

    /// Forgets all other peers.
    fn retain(&mut self, stays: impl Fn(PeerId) -> bool) {
        for peer in self.peers.keys().copied().filter(|peer| !stays(*peer)).collect::<Vec<_>>() {
            self.void(peer);
            let path = self.peers.remove(&peer).and_then(|known| known.path);
            if let Some((number, _)) = path {
                self.paths.leave(number);
            }
            let _ = self.site.clear_counters(u32::from(peer.0));
        }
    }

    /// Voids keys, windows and flows of a peer.
    fn void(&mut self, peer: PeerId) {
        let Some(known) = self.peers.get_mut(&peer) else { return };
        let _ = self.site.set_peer(u32::from(peer.0), NONE, NONE);
        let (transmit, receive) = (known.transmit.take(), std::mem::take(&mut known.receive));
        let (flows, announced) = (std::mem::take(&mut known.flows), std::mem::take(&mut known.announced));
        known.no_receive = None;
        if let Some((_, Some(lane))) = transmit {
            self.transmit_lanes.leave(lane);
        }
        for Receive { lane, .. } in receive {
            self.close_receive(lane);
        }
        for flow in flows.into_values() {
            self.remove_flow(&flow);
        }
        for (index, station) in announced {
            let _ = self.site.withdraw(u32::from(peer.0), index);
            self.let_go(station);
        }
    }

    fn close_receive(&mut self, lane: u32) {
        let _ = self.site.close_receive(lane);
        self.receive_lanes.leave(lane);
    }

    /// Receives an epoch's lane in the kernel, if the peer has one for it and its packets come to a program.
    fn receive(
        &mut self,
        now: Instant,
        (peer, generation): (PeerId, Generation),
        epoch: u32,
        secret: &suite::tunnel::EpochSecret,
        lanes: u8,
    ) -> bool {
        let refused = self.refuses_to_receive(now, peer, lanes);
        let Some(known) = self.of(peer, generation) else { return false };
        if known.receive.last().is_some_and(|newest| newest.epoch >= epoch) {
            return false;
        }
        (known.no_receive, known.receive_suffers) = (refused, None);
        let eldest = (known.receive.len() == 2).then(|| known.receive.remove(0).lane);
        let possible = known.no_receive.is_none();
        if let Some(lane) = eldest {
            self.close_receive(lane);
        }
        if !possible {
            return false;
        }
        let mut opened = self.receive_lanes.free.pop();
        if let Some(lane) = opened {
            let key = secret.lane_key(LANE);
            if self.site.open_receive(lane, u32::from(peer.0), &key).is_err() || !self.fill(lane) {
                self.close_receive(lane);
                opened = None;
            }
        }
        let Some(known) = self.peers.get_mut(&peer) else { return false };
        match opened {
            Some(lane) => known.receive.push(Receive { epoch, lane }),
            None => known.no_receive = Some(NO_LANES.into()),
        }
        opened.is_some()
    }

    /// Why an epoch of a peer is not received by a program.
    fn refuses_to_receive(&mut self, now: Instant, peer: PeerId, lanes: u8) -> Option<String> {
        if lanes != LANES {
            return Some("the peer sends in user space".into());
        }
        if !self.peers.contains_key(&peer) {
            return Some("its address is not known".into());
        }
        self.refuses_all(now)
    }

    /// Why no peer at all is received by a program.
    fn refuses_all(&mut self, now: Instant) -> Option<String> {
        if let Err(why) = &self.lan[1] {
            return Some(why.clone());
        }
        // Packets on this lane are lost where no program stands, so one has to stand wherever they may come in.
        let interfaces = match addressed() {
            Ok(interfaces) => interfaces,
            Err(error) => return Some(format!("the kernel does not tell its interfaces: {error}")),
        };
        if interfaces.is_empty() {
            return Some("no interface has an address".into());
        }
        let refuses = |(interface, name): (u32, String)| {
            let why = self.wan(now, interface).err()?;
            Some(format!("its packets may come in at {name}: {why}"))
        };
        interfaces.into_iter().find_map(refuses)
    }

    /// Puts all missing identifiers into a lane's window. The work is bounded by the window.
    fn fill(&mut self, lane: u32) -> bool {
        let runs = 2 * self.window / 256 + 16;
        (0..runs).any(|_| self.site.fill(lane).is_ok_and(|report| report.missing == 0))
    }

    fn transmit(
        &mut self,
        (peer, generation): (PeerId, Generation),
        epoch: u32,
        secret: &suite::tunnel::EpochSecret,
    ) {
        let newest = self.of(peer, generation).map(|known| known.transmit);
        let Some(before) = newest.filter(|before| before.is_none_or(|(known, _)| known < epoch)) else {
            return;
        };
        let mut opened = self.transmit_lanes.free.pop();
        if let Some(lane) = opened
            && self.site.open_transmit(lane, &secret.lane_key(LANE)).is_err()
        {
            self.transmit_lanes.leave(lane);
            opened = None;
        }
        // Without a lane all frames are user space's: the peer forgets the epoch before.
        if let Some(known) = self.peers.get_mut(&peer) {
            known.transmit = Some((epoch, opened));
        }
        self.direct(peer);
        if let Some((_, Some(lane))) = before {
            self.transmit_lanes.leave(lane);
        }
    }

    /// Tells the program on which lane and path a peer is sent to.
    fn direct(&mut self, peer: PeerId) {
        let Some(known) = self.peers.get(&peer) else { return };
        let (lane, path) = match (&known.transmit, &known.path) {
            (Some((_, Some(lane))), Some((path, _))) => (*lane, *path),
            _ => (NONE, NONE),
        };
        let _ = self.site.set_peer(u32::from(peer.0), lane, path);
    }

    /// Looks for the way to a peer, and takes the one that there is now.
    fn renew_path(&mut self, now: Instant, peer: PeerId) {
        let Some(known) = self.peers.get_mut(&peer) else { return };
        known.path_looked = Some(now);
        let (address, payload) = (known.address, known.payload);
        let found = match (address, payload) {
            (Some(address), Some(payload)) => self.find_path(now, address, payload),
            _ => Err("its address is not known".to_owned()),
        };
        let Some(known) = self.peers.get_mut(&peer) else { return };
        let before = known.path.map(|(_, path)| path);
        match found {
            Ok(path) if before == Some(path) => return,
            Ok(path) => {
                let number =
                    self.paths.free.pop().filter(|number| self.site.set_path(*number, &path).is_ok());
                let left = std::mem::replace(&mut known.path, number.map(|number| (number, path)));
                known.no_path = if number.is_none() {
                    Some("the programs have no room for more paths".into())
                } else {
                    None
                };
                if let Some((number, _)) = left {
                    self.paths.leave(number);
                }
            }
            Err(why) => {
                known.no_path = Some(why);
                let Some((number, _)) = known.path.take() else { return };
                self.paths.leave(number);
            }
        }
        self.direct(peer);
    }

    fn find_path(&mut self, now: Instant, to: SocketAddr, payload: usize) -> Result<UdpPath, String> {
        if let Err(why) = &self.lan[0] {
            return Err(why.clone());
        }
        let to = SocketAddr::new(to.ip().to_canonical(), to.port());
        let NextHop { interface, from, to: next_hop, source } =
            next_hop(Some(self.bind.ip()), to.ip()).map_err(|error| error.to_string())?;
        match takes_redirected(interface) {
            Some(true) => {}
            Some(false) => {
                return Err("its WAN port takes no redirected frames; of a veth the other end needs: ethtool -K IF gro on".into());
            }
            None => {
                return Err(
                    "this kernel does not tell whether its WAN port takes redirected frames (Linux 6.3 does)"
                        .into(),
                );
            }
        }
        // Last: an interface whose packets cannot go that way gets no program.
        let port = self.wan(now, interface)?;
        let source = SocketAddr::new(source, self.bind.port());
        Ok(UdpPath { interface: from, next_hop, source, destination: to, payload, port, dscp: self.dscp })
    }

    /// Number of a WAN interface, whose packets come to the program from here on.
    fn wan(&mut self, now: Instant, interface: u32) -> Result<u32, String> {
        if let Some(at) = self.wans.iter().position(|known| *known == Some(interface)) {
            return Ok(at as u32 + 1);
        }
        if let Some((since, why)) = self.refused.get(&interface)
            && now.since(*since) < REFUSED
        {
            return Err(why.clone());
        }
        // An interface that was made anew has another index.
        let gone = |known: &Option<u32>| known.is_none_or(|index| takes_redirected(index).is_none());
        let attached = match self.wans.iter().position(gone) {
            None => Err(format!("programs stand at {WANS} WAN interfaces already")),
            Some(at) => {
                let port = at as u32 + 1;
                self.leave_wan(at + 1);
                let attached = self.site.attach(port, interface).map(|()| port);
                attached.map_err(|error| format!("the interface takes no XDP program: {error}"))
            }
        };
        match attached {
            Ok(port) => {
                self.wans[port as usize - 1] = Some(interface);
                self.refused.remove(&interface);
                Ok(port)
            }
            Err(why) => {
                self.refused.insert(interface, (now, why.clone()));
                Err(why)
            }
        }
    }

    fn leave_wan(&mut self, port: usize) {
        if self.wans[port - 1].take().is_some() {
            self.site.detach(port as u32);
        }
    }

    /// Number of a station, which one more flow needs from here on.
    fn station(&mut self, address: MacAddr) -> Option<u32> {
        if let Some(known) = self.stations.get_mut(&address) {
            known.flows += 1;
            return Some(known.number);
        }
        let number = *self.free_stations.last()?;
        self.site.set_station(number, None).and_then(|()| self.site.set_address(address, number)).ok()?;
        self.free_stations.pop();
        self.stations.insert(address, Station { number, flows: 1, told: None, told_at: None });
        Some(number)
    }

    /// One flow less needs a station.
    fn let_go(&mut self, address: MacAddr) {
        let Some(known) = self.stations.get_mut(&address) else { return };
        known.flows -= 1;
        if known.flows == 0 {
            let number = known.number;
            let _ = self.site.remove_address(address);
            self.stations.remove(&address);
            self.free_stations.push(number);
        }
    }

    /// Has the kernel send a flow's frames, from its next pause on.
    fn add_flow(
        &mut self,
        now: Instant,
        peer: PeerId,
        generation: Generation,
        index: FlowIndex,
        flow: &Flow,
    ) {
        let Some(known) = self.of(peer, generation) else { return };
        if known.path.is_none() && known.path_looked.is_none_or(|looked| now.since(looked) >= QUIET) {
            self.renew_path(now, peer);
        }
        let Some(known) = self.of(peer, generation) else { return };
        let sends = matches!(known.transmit, Some((_, Some(_))));
        if known.path.is_none() || !sends || flow.destination.is_group() {
            return;
        }
        let there = known.flows.contains_key(&index);
        let slow = there && self.site.flow_use(flow).is_ok_and(|used| used.slow);
        if there && !slow {
            return;
        }
        let (Some(source), Some(destination)) = (self.station(flow.source), self.station(flow.destination))
        else {
            return;
        };
        if there {
            self.let_go(flow.source);
            self.let_go(flow.destination);
        }
        let path = FlowPath { peer: u32::from(peer.0), index, source, destination };
        let stations = [(source, Location::Here), (destination, Location::Behind(peer))];
        let told =
            stations.iter().try_for_each(|(number, place)| self.site.set_station(*number, Some(*place)));
        for (address, place) in [(flow.source, Location::Here), (flow.destination, Location::Behind(peer))] {
            if let Some(station) = self.stations.get_mut(&address) {
                station.told = Some(place);
            }
        }
        let added = told.and_then(|()| self.site.add_flow(flow, &path));
        match (added, self.peers.get_mut(&peer)) {
            (Ok(()), Some(known)) => drop(known.flows.insert(index, *flow)),
            _ if !there => {
                self.let_go(flow.source);
                self.let_go(flow.destination);
            }
            _ => {}
        }
    }

    fn drop_flow(&mut self, peer: PeerId, generation: Generation, index: FlowIndex) {
        let flow = self.of(peer, generation).and_then(|known| known.flows.remove(&index));
        if let Some(flow) = flow {
            self.remove_flow(&flow);
        }
    }

    fn remove_flow(&mut self, flow: &Flow) {
        let _ = self.site.remove_flow(flow);
        self.let_go(flow.source);
        self.let_go(flow.destination);
    }

    /// Has the kernel deliver a flow of a peer's. False: there is no room, and the flow must stay in long form.
    fn announce(&mut self, peer: PeerId, generation: Generation, index: FlowIndex, flow: &Flow) -> bool {
        if self.of(peer, generation).is_none() {
            return true;
        }
        self.withdraw(peer, generation, index);
        let Some(station) = self.station(flow.source) else { return false };
        if self.site.announce(u32::from(peer.0), index, flow, station).is_err() {
            self.let_go(flow.source);
            return false;
        }
        if let Some(known) = self.peers.get_mut(&peer) {
            known.announced.insert(index, flow.source);
        }
        true
    }

    fn withdraw(&mut self, peer: PeerId, generation: Generation, index: FlowIndex) {
        let station = self.of(peer, generation).and_then(|known| known.announced.remove(&index));
        if let Some(station) = station {
            let _ = self.site.withdraw(u32::from(peer.0), index);
            self.let_go(station);
        }
    }

    /// A station was heard elsewhere by the half: it moves if the kernel has not heard it lately.
    fn move_station(&mut self, address: MacAddr, to: Location) {
        let mut location = to;
        if let Some(known) = self.stations.get_mut(&address)
            && let Ok((place, since)) = self.site.station(known.number)
        {
            match place {
                Some(place) if place != to && since < STAY => location = place,
                _ => drop(self.site.set_station(known.number, Some(to))),
            }
            known.told = Some(location);
        }
        self.commands.push_back(Command::StationHeard { address, location });
    }

    fn handle_timeout(&mut self, now: Instant) -> Vec<Event> {
        if !std::mem::replace(&mut self.asked, true) {
            self.commands.push_back(Command::OfferFlows);
        }
        if self.looked.is_some_and(|looked| now.since(looked) < LOOK) {
            return Vec::new();
        }
        self.looked = Some(now);
        for lane in self.transmit_lanes.left() {
            if self.site.close_transmit(lane).is_ok() {
                self.transmit_lanes.free.push(lane);
            }
        }
        for numbers in [&mut self.receive_lanes, &mut self.paths] {
            let left = numbers.left();
            numbers.free.extend(left);
        }
        let mut events = Vec::new();
        for peer in self.peers.keys().copied().collect::<Vec<_>>() {
            self.renew_path(now, peer);
            self.look_at_lanes(now, peer, &mut events);
        }
        if self.judged.is_none_or(|judged| now.since(judged) >= USED) {
            self.judged = Some(now);
            self.judge_receiving(now);
        }
        self.tell_used(now);
        events
    }

    /// Says of peers that are received in the kernel when a reason has come up why they should not be. The next epoch follows it.
    fn judge_receiving(&mut self, now: Instant) {
        let received = |known: &Peer| !known.receive.is_empty();
        if !self.peers.values().any(received) {
            return;
        }
        let refused =
            self.refuses_all(now).map(|why| format!("{why}; frames may be lost until the next epoch"));
        for known in self.peers.values_mut().filter(|known| received(known)) {
            known.receive_suffers.clone_from(&refused);
        }
    }

    /// Ends the epoch before, and asks for flows that are not known.
    fn look_at_lanes(&mut self, now: Instant, peer: PeerId, events: &mut Vec<Event>) {
        let Some(known) = self.peers.get_mut(&peer) else { return };
        let generation = known.generation;
        let mut reports = Vec::new();
        for lane in &known.receive {
            reports.extend(self.site.look(lane.lane));
        }
        if let Some(index) = reports.iter().find_map(|report| report.unknown)
            && known.unknown_told.is_none_or(|told| now.since(told) >= STAY)
        {
            known.unknown_told = Some(now);
            events.push(Event::UnknownIndex { peer, generation, index });
        }
        let over = reports.len() == 2 && reports[1].used.is_some_and(|used| used >= EPOCH_OVERLAP);
        if over {
            let eldest = known.receive.remove(0);
            self.close_receive(eldest.lane);
        }
    }

    /// Tells the half where stations are, and that flows are used.
    fn tell_used(&mut self, now: Instant) {
        let behind = (Bound::Excluded(self.swept), Bound::Unbounded);
        let swept = self.stations.range_mut(behind).take(SWEPT);
        let (mut last, mut looked) = (MacAddr::default(), 0);
        for (&address, station) in swept {
            (last, looked) = (address, looked + 1);
            let Ok((Some(location), since)) = self.site.station(station.number) else { continue };
            let due = station.told_at.is_none_or(|told| now.since(told) >= USED);
            if station.told != Some(location) || due && since < USED {
                (station.told, station.told_at) = (Some(location), Some(now));
                self.commands.push_back(Command::StationHeard { address, location });
            }
        }
        self.swept = if looked < SWEPT { MacAddr::default() } else { last };
        if self.told_used.is_some_and(|told| now.since(told) < USED) {
            return;
        }
        self.told_used = Some(now);
        for (&peer, known) in &self.peers {
            let generation = known.generation;
            for (&index, flow) in &known.flows {
                if self.site.flow_use(flow).is_ok_and(|used| used.idle.is_some_and(|idle| idle < USED)) {
                    self.commands.push_back(Command::FlowUsed { peer, generation, index });
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use suite::tunnel::{EPOCH_SECRET_OCTETS, EpochSecret};

    const NOW: Instant = Instant::after_start(Duration::ZERO);

    fn kernel(peers: usize) -> KernelPath {
        lab::require_root().unwrap();
        let bind = SocketAddr::new([0; 4].into(), 7788);
        KernelPath::load(peers, tunnel::Settings::WINDOW, bind, &Limits::DEFAULT).unwrap()
    }

    fn command(kernel: &KernelPath, command: Command) {
        kernel.handle_command(NOW, ToWorker::Tunnel(command), &mut Vec::new());
    }

    fn transmit(kernel: &KernelPath, peer: u16, epoch: u32) {
        let secret = EpochSecret::new(&[epoch as u8 + 1; EPOCH_SECRET_OCTETS]);
        let peer = PeerId(peer);
        command(kernel, Command::InstallTransmit { peer, generation: Generation::default(), epoch, secret });
    }

    fn outward(kernel: &KernelPath, peer: u16) -> Option<String> {
        kernel.paths(PeerId(peer))[0].clone().err()
    }

    #[test]
    fn an_epoch_without_a_lane_is_user_spaces_and_the_one_before_is_not_sent_under_any_more() {
        let kernel = kernel(1);
        for peer in 0..5 {
            command(&kernel, Command::Begin { peer: PeerId(peer), generation: Generation::default() });
            transmit(&kernel, peer, 0);
        }
        assert_eq!(outward(&kernel, 0).as_deref(), Some("its address is not known"), "five lanes");
        transmit(&kernel, 0, 1);
        assert_eq!(outward(&kernel, 0).as_deref(), Some(NO_LANES));
        assert_eq!(kernel.lock().transmit_lanes.leaving.len(), 1, "the lane before is over");
        std::thread::sleep(GRACE);
        drop(kernel.handle_timeout(NOW));
        // A word that comes twice opens no lane of an epoch that was sent under, or could have been.
        transmit(&kernel, 0, 0);
        transmit(&kernel, 0, 1);
        assert_eq!(outward(&kernel, 0).as_deref(), Some(NO_LANES));
        transmit(&kernel, 0, 2);
        assert_eq!(outward(&kernel, 0).as_deref(), Some("its address is not known"));
    }

    #[test]
    fn what_peers_had_is_free_after_them() {
        let kernel = kernel(1);
        let free = |kernel: &KernelPath| {
            let kernel = kernel.lock();
            let numbers = |numbers: &Numbers| numbers.free.len() + numbers.leaving.len();
            [numbers(&kernel.transmit_lanes), numbers(&kernel.receive_lanes), numbers(&kernel.paths)]
        };
        let all = free(&kernel);
        for round in 0..2 {
            command(&kernel, Command::Begin { peer: PeerId(round), generation: Generation::default() });
            transmit(&kernel, round, 0);
            // As a look would have found it.
            let mut held = kernel.lock();
            let number = held.paths.free.pop().unwrap();
            let any = SocketAddr::from(([192, 0, 2, 1], 1));
            let path = UdpPath {
                interface: MacAddr::default(),
                next_hop: MacAddr::default(),
                source: any,
                destination: any,
                payload: 1200,
                port: 1,
                dscp: 0,
            };
            held.peers.get_mut(&PeerId(round)).unwrap().path = Some((number, path));
            drop(held);
            assert_ne!(free(&kernel), all);
            match round {
                0 => kernel.retain(|_| false),
                _ => kernel.end(),
            }
            assert_eq!(free(&kernel), all);
        }
    }
}
