//! Sites without frames: the real manager on a real socket, and in the worker's place a thread that fills and empties
//! the mailboxes. A UDP relay between two sites that drops, moves and holds back what goes through.

use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicU16, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use dataplane::site::{DatagramProducer, LanFrame, Senders, ToWorker, WorkerMailbox, datagrams, mailboxes};
use sitelink::{ConnState, KernelSite, Manager, ManagerPeer, ManagerSettings, ManagerStatus};
use suite::identity::{Identity, PublicKey};
use tunnel::{ChannelState, Command, Event, Mode, PeerId};

/// Longest wait for a condition before the test fails.
pub(crate) const LIMIT: Duration = Duration::from_secs(30);

/// Waits until it is so.
pub(crate) fn until(what: &str, condition: impl Fn() -> bool) -> Duration {
    until_within(LIMIT, what, condition)
}

/// The same, with another longest wait.
pub(crate) fn until_within(limit: Duration, what: &str, condition: impl Fn() -> bool) -> Duration {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < limit, "waited in vain: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
    start.elapsed()
}

/// Identities in the order of their public keys: the first of two is the caller.
pub(crate) fn identities<const COUNT: usize>() -> [Identity; COUNT] {
    let mut all: Vec<Identity> = (1..=COUNT as u8).map(|number| Identity::new(&[number; 32])).collect();
    all.sort_by_key(Identity::public);
    all.try_into().expect("as many as were made")
}

/// A socket on the loopback.
pub(crate) fn socket() -> UdpSocket {
    UdpSocket::bind("127.0.0.1:0").expect("a socket")
}

/// Words and frames that a worker has heard from its manager.
#[derive(Default)]
pub(crate) struct HeardByWorker {
    pub(crate) words: Vec<ToWorker>,
    pub(crate) frames: Vec<LanFrame>,
}

/// A site.
pub(crate) struct Site {
    pub(crate) manager: Option<Manager>,
    pub(crate) address: SocketAddr,
    public: PublicKey,
    heard: Arc<Mutex<HeardByWorker>>,
    lan: Arc<Mutex<Vec<LanFrame>>>,
    stop: Arc<AtomicBool>,
    worker: Option<JoinHandle<()>>,
}

/// A peer in identifier mode.
pub(crate) fn peer(identity: &Identity, endpoint: Option<SocketAddr>) -> ManagerPeer {
    ManagerPeer {
        endpoint: endpoint.map(|endpoint| endpoint.to_string()),
        public_key: Some(identity.public()),
        via: None,
        mode: Mode::Identifier,
        classical: false,
        paths: Vec::new(),
        copies: dataplane::site::Copies::None,
    }
}

impl Site {
    pub(crate) fn start(identity: &Identity, socket: UdpSocket, peers: Vec<ManagerPeer>) -> Self {
        Self::with_programs(identity, socket, peers, None)
    }

    /// The same with programs in the kernel, at no port.
    pub(crate) fn with_programs(
        identity: &Identity,
        socket: UdpSocket,
        peers: Vec<ManagerPeer>,
        kernel: Option<Arc<KernelSite>>,
    ) -> Self {
        Self::start_with(identity, socket, peers, false, kernel)
    }

    /// The same; `returns` as in [`ManagerSettings`].
    pub(crate) fn start_as(
        identity: &Identity,
        socket: UdpSocket,
        peers: Vec<ManagerPeer>,
        returns: bool,
    ) -> Self {
        Self::start_with(identity, socket, peers, returns, None)
    }

    fn start_with(
        identity: &Identity,
        socket: UdpSocket,
        peers: Vec<ManagerPeer>,
        returns: bool,
        kernel: Option<Arc<KernelSite>>,
    ) -> Self {
        let (mailbox, manager) = mailboxes().expect("a socket pair");
        let (producer, consumer) = datagrams();
        let address = socket.local_addr().expect("an address");
        let managers = socket.try_clone().expect("a duplicate");
        let settings = ManagerSettings {
            name: "test".to_owned(),
            identity: identity.clone(),
            peers,
            lanes: 1,
            window: 4096,
            frames: tunnel::FrameKinds::ALWAYS,
            epoch_life: Duration::from_secs(3600),
            most_payload: 1500,
            returns,
        };
        let manager = Manager::start(settings, manager, consumer, managers, kernel).expect("a manager");
        let (heard, lan) = (Arc::default(), Arc::default());
        let stop = Arc::new(AtomicBool::new(false));
        let work = {
            let (heard, lan, stop) = (Arc::clone(&heard), Arc::clone(&lan), Arc::clone(&stop));
            move || work(mailbox, producer, &socket, &heard, &lan, &stop)
        };
        let worker = Some(std::thread::spawn(work));
        Self { manager: Some(manager), address, public: identity.public(), heard, lan, stop, worker }
    }

    /// Where it is and its public key: what it is connected to with.
    pub(crate) fn known(&self) -> (SocketAddr, PublicKey) {
        (self.address, self.public)
    }

    pub(crate) fn status(&self) -> ManagerStatus {
        self.manager.as_ref().expect("it runs").status()
    }

    /// Whether channel and session with this peer stand.
    pub(crate) fn is_up(&self, peer: u16) -> bool {
        let status = self.status();
        let peer = &status.peers[usize::from(peer)];
        peer.reach == ConnState::Connected
            && peer.session.is_some_and(|state| state.channel == ChannelState::Up)
    }

    /// Words and frames that the worker was told, all of them.
    pub(crate) fn told<T>(&self, read: impl FnOnce(&HeardByWorker) -> T) -> T {
        read(&self.heard.lock().expect("not poisoned"))
    }

    /// Where the worker was told last that data for this peer goes.
    pub(crate) fn endpoint(&self, peer: u16) -> Option<SocketAddr> {
        self.told(|heard| {
            heard.words.iter().rev().find_map(|word| match word {
                ToWorker::Endpoint { peer: about, address } if *about == PeerId(peer) => Some(*address),
                _ => None,
            })
        })?
    }

    /// A frame from the LAN.
    pub(crate) fn lan_sends(&self, frame: &[u8]) {
        self.lan.lock().expect("not poisoned").push(LanFrame::try_from(frame).expect("short enough"));
    }

    pub(crate) fn frames(&self) -> Vec<Vec<u8>> {
        self.told(|heard| heard.frames.iter().map(|frame| frame.to_vec()).collect())
    }

    /// As a crash: what it says at its end goes nowhere.
    pub(crate) fn kill(self, relay: &Relay) {
        relay.fate.dead.lock().expect("not poisoned").push(self.address);
        drop(self);
    }

    fn end_worker(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(worker) = self.worker.take() {
            worker.join().expect("the worker does not panic");
        }
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        drop(self.manager.take());
        self.end_worker();
    }
}

/// Work of a worker that forwards no frames.
fn work(
    mut mailbox: WorkerMailbox,
    mut datagrams: DatagramProducer,
    socket: &UdpSocket,
    heard: &Mutex<HeardByWorker>,
    lan: &Mutex<Vec<LanFrame>>,
    stop: &AtomicBool,
) {
    let start = Instant::now();
    let mut packet = [0; 65536];
    let mut events = std::collections::VecDeque::new();
    let mut senders = Senders::default();
    while !stop.load(Ordering::Relaxed) {
        let mut wake = false;
        // The manager's duplicate has made it non-blocking: a turn a millisecond.
        while let Ok((octets, from)) = socket.recv_from(&mut packet) {
            if packet[0] & 0x40 != 0 {
                // As the worker's ports tell addresses.
                let from = SocketAddr::new(from.ip().to_canonical(), from.port());
                wake |= datagrams.push(from, &packet[..octets]).is_ok();
            }
        }
        while let Some(word) = mailbox.messages.receive() {
            if let ToWorker::Tunnel(command) = &word {
                events.extend(answer(command));
            }
            heard.lock().expect("not poisoned").words.push(word);
        }
        while let Some(event) = events.pop_front() {
            mailbox.messages.send(event);
        }
        while let Some(frame) = mailbox.eapol.receive() {
            heard.lock().expect("not poisoned").frames.push(frame);
        }
        for frame in lan.lock().expect("not poisoned").drain(..) {
            let now = wire::Instant::after_start(start.elapsed());
            senders.send(now, &frame, &mut mailbox.eapol);
        }
        if mailbox.take_wake_flag() | wake {
            mailbox.wake();
        }
        mailbox.woken();
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Answer of the forwarding half to a command.
fn answer(command: &Command) -> Option<Event> {
    match *command {
        Command::InstallReceive { peer, generation, epoch, .. } => {
            Some(Event::ReceiveReady { peer, generation, epoch })
        }
        Command::AddFlow { peer, generation, index, request, .. } => {
            Some(Event::FlowAccepted { peer, generation, index, request, source: None })
        }
        _ => None,
    }
}

/// Treatment of packets by a relay.
#[derive(Default)]
pub(crate) struct Fate {
    /// Nothing passes, in either direction.
    pub(crate) cut: AtomicBool,
    /// Longer packets do not pass, in either direction; 0: all pass.
    pub(crate) most: AtomicUsize,
    /// Of so many packets, in both directions together, one does not pass, by chance; 0: all pass.
    pub(crate) lost: AtomicUsize,
    /// Which of the outer ports is used.
    pub(crate) port: AtomicU16,
    /// Held back on the inner side, and sent from another address of the network instead.
    pub(crate) diverted: AtomicBool,
    /// Those that were sent from elsewhere.
    pub(crate) strays: AtomicU16,
    /// Sites that are dead: nothing comes from there.
    pub(crate) dead: Mutex<Vec<SocketAddr>>,
    /// Where what comes in goes on to.
    pub(crate) far: Mutex<Option<SocketAddr>>,
    /// Retries that have passed (RFC 9000, 17.2.5).
    pub(crate) retries: AtomicUsize,
    /// Packets that passed are sent again from elsewhere.
    pub(crate) repeated: AtomicBool,
}

/// A NAT: what comes to `address` from the first one who sends there goes on to the far side from an outer port.
pub(crate) struct Relay {
    pub(crate) address: SocketAddr,
    pub(crate) outer: [SocketAddr; 3],
    pub(crate) elsewhere: SocketAddr,
    pub(crate) fate: Arc<Fate>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Relay {
    pub(crate) fn to(far: SocketAddr) -> Self {
        let inner = socket();
        let outer = [socket(), socket(), socket()];
        let foreign = socket();
        for socket in outer.iter().chain([&inner, &foreign]) {
            socket.set_nonblocking(true).expect("non-blocking");
        }
        let at = |socket: &UdpSocket| socket.local_addr().expect("an address");
        let (address, elsewhere) = (at(&inner), at(&foreign));
        let addresses = [at(&outer[0]), at(&outer[1]), at(&outer[2])];
        let (fate, stop) = (Arc::new(Fate::default()), Arc::new(AtomicBool::new(false)));
        *fate.far.lock().expect("not poisoned") = Some(far);
        let relay = {
            let (fate, stop) = (Arc::clone(&fate), Arc::clone(&stop));
            move || {
                let mut near = None;
                let mut packet = [0; 65536];
                let mut chance = 1_u64;
                while !stop.load(Ordering::Relaxed) {
                    let far = fate.far.lock().expect("not poisoned").expect("set at the start");
                    let dead = fate.dead.lock().expect("not poisoned").clone();
                    let cut = fate.cut.load(Ordering::Relaxed);
                    let most = match fate.most.load(Ordering::Relaxed) {
                        0 => packet.len(),
                        most => most,
                    };
                    let every = fate.lost.load(Ordering::Relaxed);
                    let mut lost = || {
                        chance = chance.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                        every != 0 && ((chance >> 33) as usize).is_multiple_of(every)
                    };
                    let port = usize::from(fate.port.load(Ordering::Relaxed));
                    while let Ok((octets, from)) = inner.recv_from(&mut packet) {
                        if dead.contains(&from) {
                            continue;
                        }
                        near = Some(from);
                        let packet = &packet[..octets];
                        // A short header means that the connection stands: only such packets come from elsewhere.
                        let stands = packet[0] & 0x80 == 0;
                        if cut || packet.len() > most || lost() {
                            continue;
                        }
                        if stands && fate.diverted.load(Ordering::Relaxed) {
                            fate.strays.fetch_add(1, Ordering::Relaxed);
                            let _ = foreign.send_to(packet, far);
                            continue;
                        }
                        let _ = outer[port].send_to(packet, far);
                        if stands && fate.repeated.load(Ordering::Relaxed) {
                            fate.strays.fetch_add(1, Ordering::Relaxed);
                            let _ = foreign.send_to(packet, far);
                        }
                    }
                    // As a NAT does: an old mapping is gone, and so is what comes there.
                    for (number, outer) in outer.iter().enumerate() {
                        while let Ok((octets, from)) = outer.recv_from(&mut packet) {
                            let (true, Some(near)) = (
                                from == far
                                    && !dead.contains(&from)
                                    && number == port
                                    && !cut
                                    && octets <= most
                                    && !lost(),
                                near,
                            ) else {
                                continue;
                            };
                            if packet[0] & 0xf0 == 0xf0 {
                                fate.retries.fetch_add(1, Ordering::Relaxed);
                            }
                            let _ = inner.send_to(&packet[..octets], near);
                        }
                    }
                    while foreign.recv_from(&mut packet).is_ok() {}
                    std::thread::sleep(Duration::from_millis(1));
                }
            }
        };
        let thread = Some(std::thread::spawn(relay));
        Self { address, outer: addresses, elsewhere, fate, stop, thread }
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
