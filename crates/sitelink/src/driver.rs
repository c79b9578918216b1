//! The manager's one loop: what the worker says goes to the sessions, what they say to the worker and the peers.

mod notices;
mod ways;

use std::collections::BTreeSet;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::unix::net::UnixStream;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use quinn::{Endpoint, TokioRuntime, TransportConfig};
use suite::identity::RecognitionKey;
use suite::knock::KnockKey;
use suite::tunnel::{EPOCH_SECRET_OCTETS, EpochSecret};
use tokio::sync::mpsc;
use tokio::time::timeout;
use tunnel::{Command, Event, Instance, Location, Mode, PeerId, Session, SessionSettings};
use wire::MacAddr;
use wire::mkpdu::is_outer_tagged_eapol_mka;
use zeroize::Zeroizing;

use self::ways::follow;
use super::answer::Answer;
use super::guard;
use super::kernel::{self, KernelSite};
use super::live::LiveStations;
use super::paths::PeerPaths;
use super::peer::Peer;
use super::random;
use super::settings::{ManagerPeer, ManagerSettings};
use super::shared::{DriverEvent, Shared};
use super::tls::Tls;
use super::transport::{self, code};
use dataplane::site::{DATAGRAM_OCTETS, ManagerMailbox, ToWorker};

/// The longest time between two looks at addresses and path MTUs, for which quinn has no event.
const TURN: Duration = Duration::from_millis(50);
/// Pause while the worker's mailbox is full.
const SOON: Duration = Duration::from_millis(5);
/// Interval at which the status is renewed.
const STATUS: Duration = Duration::from_millis(250);
/// Events and frames of the worker that are taken in one turn: as many as its mailboxes hold.
const EVENTS: usize = 1024;
const FRAMES: usize = 256;
/// Time for telling the peers about the end.
const FAREWELL: Duration = Duration::from_millis(500);
/// The loop.
pub(super) struct Driver<'r> {
    endpoint: Endpoint,
    settings: &'r ManagerSettings,
    tls: &'r Tls,
    local: SocketAddr,
    mailbox: &'r Mutex<ManagerMailbox>,
    kernel: Option<Arc<KernelSite>>,
    /// In the order of their numbers.
    peers: Vec<Peer>,
    /// The roster's changes that were carried out.
    changes: u64,
    /// Stations of the LAN whose MKPDUs pass.
    live: LiveStations,
    news: mpsc::Receiver<DriverEvent>,
    tell: mpsc::Sender<DriverEvent>,
    shared: Arc<Shared>,
    /// The peer that comes first in the next turn.
    first: usize,
    looked: Option<Instant>,
    published: Option<Instant>,
    stranger: Option<Instant>,
    unknocked: Option<Instant>,
    /// Address of the last caller that no answer reached, and when a person was told of one.
    unheard: Option<IpAddr>,
    told_unheard: Option<Instant>,
    /// It was said that strangers' packets are not bounded at all addresses.
    lack_told: bool,
}

impl<'r> Driver<'r> {
    /// A loop with the peers of the roster. To be called inside of the runtime.
    ///
    /// # Errors
    /// If the socket cannot be used.
    pub(super) fn new(
        settings: &'r ManagerSettings,
        tls: &'r Tls,
        key: &RecognitionKey,
        mailbox: &'r Mutex<ManagerMailbox>,
        bell: UnixStream,
        local: SocketAddr,
        shared: &Arc<Shared>,
    ) -> io::Result<Self> {
        // Placeholder: each connection gets a crypto configuration of its own.
        let (crypto, _) = tls.server(BTreeSet::new(), false);
        let config = transport::server(crypto, transport::transport(settings.most_payload));
        let endpoint = Endpoint::new_with_abstract_socket(
            transport::endpoint(key, DATAGRAM_OCTETS as u16),
            Some(config.clone()),
            Arc::clone(&shared.socket) as _,
            Arc::new(TokioRuntime),
        )?;
        let (tell, news) = mpsc::channel(64);
        tokio::spawn(hear_the_bell(bell, Arc::clone(shared))?);
        let answer = Answer {
            tls: tls.clone(),
            knock: KnockKey::of(settings.identity.public()),
            config,
            shared: Arc::clone(shared),
            news: tell.clone(),
        };
        tokio::spawn(Arc::new(answer).answer(endpoint.clone()));
        if let Some(kernel) = &shared.kernel {
            kernel.expect_channel();
        }
        let mut driver = Self {
            endpoint,
            settings,
            tls,
            local,
            mailbox,
            kernel: shared.kernel.clone(),
            peers: Vec::new(),
            changes: 0,
            live: LiveStations::default(),
            news,
            tell,
            shared: Arc::clone(shared),
            first: 0,
            looked: None,
            published: None,
            stranger: None,
            unknocked: None,
            unheard: None,
            told_unheard: None,
            lack_told: false,
        };
        driver.renew();
        Ok(driver)
    }

    /// Ends the sessions of peers that have left, and begins those of peers that have come.
    fn renew(&mut self) {
        let (configured, changes, most_payload) =
            self.shared.with_roster(|roster| (roster.settings(), roster.changes(), roster.most_payload()));
        let transport = transport::transport(most_payload);
        let (stay, leave) =
            std::mem::take(&mut self.peers).into_iter().partition(|peer| configured.contains_key(&peer.id()));
        self.peers = stay;
        let leave: Vec<Peer> = leave;
        self.change_paths(&configured);
        // Peers of a driver before this one, which a defect ended, may have left too.
        if let Some(kernel) = &self.kernel {
            kernel.retain(|peer| configured.contains_key(&peer));
        }
        leave.into_iter().for_each(Peer::leave);
        for (number, settings) in configured {
            if self.peer(number).is_none() {
                // Numbers only grow.
                let peer = self.begin(number, &settings, &transport);
                self.peers.push(peer);
            }
        }
        // Hubs may have come anew, under another number.
        let by_key = self.shared.with_roster(|roster| roster.by_key());
        for peer in &mut self.peers {
            peer.set_hub(|key| by_key.get(&key).map(|(hub, _)| *hub));
        }
        (self.first, self.changes, self.published) = (0, changes, None);
    }

    /// A peer that has come, with its session if it is not plain.
    fn begin(&self, id: PeerId, peer: &ManagerPeer, transport: &Arc<TransportConfig>) -> Peer {
        let (settings, shared) = (self.settings, &self.shared);
        let following = follow(id, peer, self.local, shared, &self.tell);
        let Some(public_key) = peer.public_key.filter(|_| !matches!(peer.mode, Mode::Plain { .. })) else {
            return Peer::new(id, peer, false, None, None, following, shared);
        };
        let mut session = Session::new(
            SessionSettings {
                peer: id,
                instance: Instance(random::octets()),
                mode: peer.mode,
                lanes: if self.has_programs(peer) { kernel::LANES } else { settings.lanes },
                window: settings.window,
                frames: settings.frames,
                epoch_life: settings.epoch_life,
                draw: || EpochSecret::new(&Zeroizing::new(random::octets::<EPOCH_SECRET_OCTETS>())),
            },
            shared.now(),
        );
        session.continue_after(shared.with_roster(|roster| roster.begun(id)));
        let dial = self.dial(id, peer, public_key, transport);
        let caller = settings.identity.public() < public_key;
        let paths = PeerPaths::new(id, peer, settings.most_payload, |number, path| {
            self.follow_path(id, number, path)
        });
        let peer = Peer::new(id, peer, caller, Some(session), dial, following, shared).with_paths(paths);
        if settings.returns { peer.at_once() } else { peer }
    }

    /// The peer of this number, if it has not left.
    fn peer(&mut self, number: PeerId) -> Option<&mut Peer> {
        let at = self.peers.binary_search_by_key(&number, Peer::id).ok()?;
        self.peers.get_mut(at)
    }

    /// Turns until the manager is stopped, or a turn panics.
    pub(super) async fn run(mut self) {
        let mut wait = Duration::ZERO;
        while !self.shared.stop.load(Ordering::Relaxed) {
            let _ = timeout(wait, self.shared.stir.notified()).await;
            let mailbox = self.mailbox;
            let turn = guard::catch_panic(|| {
                let mut mailbox = mailbox.lock().unwrap_or_else(PoisonError::into_inner);
                self.turn(&mut mailbox)
            });
            let Some(pause) = turn else { return };
            wait = pause;
        }
        self.endpoint.close(code::STOPPED, b"the site stops");
        let _ = timeout(FAREWELL, self.endpoint.wait_idle()).await;
    }

    /// One turn: events, frames, peers, kernel. Returns the time until there is something to do again.
    fn turn(&mut self, mailbox: &mut ManagerMailbox) -> Duration {
        #[cfg(test)]
        assert!(!self.shared.defect.swap(false, Ordering::Relaxed), "as a defect would");
        let now = self.shared.now();
        if self.shared.with_roster(|roster| roster.changes()) != self.changes {
            self.renew();
        }
        while let Ok(news) = self.news.try_recv() {
            self.handle_event(news);
        }
        self.take_events(mailbox, now);
        self.take_frames(mailbox, now);
        let mut busy = false;
        // Addresses and MTUs cost a lock and a copy for each peer: too much for every packet.
        let look = self.looked.is_none_or(|last| last.elapsed() >= TURN);
        if look {
            self.looked = Some(Instant::now());
            for (peer, octets) in self.shared.take_octets() {
                if let Some(peer) = self.peer(peer) {
                    peer.handle_octets(octets);
                }
            }
            self.report_unknocked();
            self.look_for_direct_ways(now);
        }
        // Another one is first in each turn: a peer that fills the worker's mailbox does not keep the others out of it.
        let (early, late) = self.peers.split_at_mut(self.first);
        let mut live = Vec::new();
        for peer in late.iter_mut().chain(&mut *early) {
            // Nothing is read while the worker is behind: it would get more to do.
            if !mailbox.messages.has_room() {
                busy = true;
                break;
            }
            let (eapol, shared_counters) = (&mut mailbox.eapol, &self.shared.shared_counters);
            let (stations, kernel) = (&mut self.live, self.kernel.as_deref());
            let more = peer.turn(now, look, |frame| {
                if held_at(kernel, &frame) == Some(Location::Here) {
                    shared_counters.count(|counters| counters.in_mkpdus_source_here += 1);
                    return;
                }
                stations.read_list(now, &frame, |sci| live.push(sci));
                let sent = eapol.send(frame);
                shared_counters.count(|counters| match sent {
                    true => counters.in_mkpdus += 1,
                    false => counters.in_mkpdus_no_room += 1,
                });
            });
            busy |= more;
        }
        if look && let Some(kernel) = &self.kernel {
            let at = |peer: &Peer| (peer.id(), peer.sends_from());
            let known = early.iter().chain(&*late).map(at);
            kernel.know(known.flat_map(|(id, all)| all.into_iter().map(move |at| (id, at))).collect());
        }
        for peer in late.iter_mut().chain(early) {
            peer.send_messages(now);
            while mailbox.messages.has_room() {
                let Some(command) = peer.next_command() else { break };
                let Some(kernel) = self.kernel.as_ref() else {
                    mailbox.messages.send(command);
                    continue;
                };
                let mut events = Vec::new();
                let left = match peer.may_have_programs() {
                    true => kernel.handle_command(now, command, &mut events),
                    false => Some(command),
                };
                if let Some(command) = left {
                    if peer.mode() == Mode::Identifier {
                        kernel.watch(&command);
                    }
                    mailbox.messages.send(command);
                }
                events.into_iter().for_each(|event| peer.handle_event(now, event));
            }
        }
        // One that finds no room is told again.
        for sci in live {
            if mailbox.messages.has_room() {
                mailbox.messages.send(ToWorker::Tunnel(Command::StationLive { sci }));
            }
        }
        self.relay(mailbox);
        self.turn_kernel(mailbox, now);
        self.first = if self.first + 1 < self.peers.len() { self.first + 1 } else { 0 };
        if mailbox.take_wake_flag() {
            mailbox.wake();
        }
        self.publish();
        if busy || !mailbox.messages.has_room() { SOON } else { self.wait(now) }
    }

    fn wait(&self, now: wire::Instant) -> Duration {
        let due = self.peers.iter().filter_map(Peer::poll_timeout).min();
        due.map_or(TURN, |due| due.since(now)).clamp(Duration::from_millis(1), TURN)
    }

    fn handle_event(&mut self, news: DriverEvent) {
        match news {
            DriverEvent::Arrived(arrival) => {
                if let Some(peer) = self.peer(arrival.peer) {
                    peer.adopt(arrival);
                    // The programs know its address before its keys are installed.
                    self.looked = None;
                }
            }
            DriverEvent::Failed { peer, why } => {
                if let Some(peer) = self.peer(peer) {
                    peer.failed(&why);
                }
            }
            DriverEvent::NotDirect { peer, why } => {
                if let Some(peer) = self.peer(peer) {
                    peer.not_direct(why);
                }
            }
            DriverEvent::Found { peer, addresses } => {
                if let Some(peer) = self.peer(peer) {
                    peer.addresses_resolved(&addresses);
                }
            }
            DriverEvent::PathFound { peer, number, found } => {
                if let Some(peer) = self.peer(peer) {
                    peer.path_resolved(number, found);
                }
            }
            DriverEvent::Unheard { address } => self.report_unheard(address),
            DriverEvent::Stranger { address, key } => self.report_stranger(address, key),
        }
    }

    /// Has peers behind a relay be told where that sees this site.
    fn look_for_direct_ways(&mut self, now: wire::Instant) {
        for at in 0..self.peers.len() {
            let Some(hub) = self.peers[at].relayed_by() else { continue };
            let own = self.peer(hub).and_then(|hub| hub.seen_at());
            self.peers[at].look_for_direct_way(now, own);
        }
    }

    fn take_events(&mut self, mailbox: &mut ManagerMailbox, now: wire::Instant) {
        for _ in 0..EVENTS {
            let Some(event) = mailbox.messages.receive() else { break };
            let events = match &self.kernel {
                Some(kernel) => kernel.handle_event(now, event),
                None => [Some(event), None],
            };
            for event in events.into_iter().flatten() {
                self.tell_session(now, event);
            }
        }
    }

    fn tell_session(&mut self, now: wire::Instant, event: Event) {
        let (peer, _) = event.subject();
        if let Some(peer) = self.peer(peer) {
            peer.handle_event(now, event);
        }
    }

    /// Looks at the kernel's lanes, and tells the worker what the kernel says.
    fn turn_kernel(&mut self, mailbox: &mut ManagerMailbox, now: wire::Instant) {
        let Some(kernel) = self.kernel.clone() else { return };
        for event in kernel.handle_timeout(now) {
            self.tell_session(now, event);
        }
        let lack = kernel.lack();
        if let Some(text) = lack.as_ref().filter(|_| !self.lack_told) {
            self.shared.board.notice(&self.shared.shared_counters, None, text.clone());
        }
        self.lack_told = lack.is_some();
        while mailbox.messages.has_room() {
            let Some(command) = kernel.poll_command() else { break };
            mailbox.messages.send(ToWorker::Tunnel(command));
        }
    }

    /// Hands packets for a relay to the worker. What finds no room is lost, as on a network.
    fn relay(&self, mailbox: &mut ManagerMailbox) {
        while let Some(datagram) = self.shared.socket.poll_relayed() {
            if !mailbox.relayed.send(datagram) {
                self.shared.shared_counters.count(|counters| counters.out_datagrams_refused += 1);
            }
        }
    }

    /// Sends MKPDUs of the LAN to all peers. Those of peers go to the LAN alone.
    fn take_frames(&mut self, mailbox: &mut ManagerMailbox, now: wire::Instant) {
        for _ in 0..FRAMES {
            let Some(frame) = mailbox.eapol.receive() else { break };
            if held_at(self.kernel.as_deref(), &frame).is_some_and(|location| location != Location::Here) {
                self.shared.shared_counters.count(|counters| counters.out_mkpdus_loop += 1);
            } else if is_outer_tagged_eapol_mka(&frame) {
                self.live.hear(now, &frame);
                self.peers.iter().for_each(|peer| peer.send_mkpdu(&frame));
            } else {
                self.shared.shared_counters.count(|counters| counters.out_bad_mkpdus += 1);
            }
        }
    }

    fn publish(&mut self) {
        if self.published.is_none_or(|last| last.elapsed() >= STATUS) {
            self.published = Some(Instant::now());
            self.shared.board.publish(self.peers.iter().map(Peer::status));
        }
    }
}

/// Location at which the programs have heard the source of an MKPDU within a second: the worker does not hear what they forward.
fn held_at(kernel: Option<&KernelSite>, frame: &[u8]) -> Option<Location> {
    let source = frame.get(6..)?.first_chunk()?;
    kernel?.held_at(MacAddr(*source))
}

/// Passes the worker's bell on to QUIC and to the driver, until the worker is gone.
fn hear_the_bell(bell: UnixStream, shared: Arc<Shared>) -> io::Result<impl Future<Output = ()> + Send> {
    let bell = tokio::net::UnixStream::from_std(bell)?;
    Ok(async move {
        let mut rung = [0; 256];
        while bell.readable().await.is_ok() {
            loop {
                match bell.try_read(&mut rung) {
                    Ok(0) => return,
                    Ok(_) => {}
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                    Err(_) => return,
                }
            }
            shared.socket.wake();
            shared.stir.notify_one();
        }
    })
}
