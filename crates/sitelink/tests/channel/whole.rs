//! Managers beside the real workers' half: frames between two LANs over UDP, keys agreed on over QUIC.

use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU16, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use dataplane::site::{Dscp, Site, Wan, datagrams, mailboxes};
use netdev::memory::MemoryPort;
use netdev::udp::Offloads;
use sitelink::{Manager, ManagerPeer, ManagerSettings};
use suite::identity::Identity;
use tunnel::Mode;

use super::plants::{eapol, lan, macsec, settings, station};
use super::stand::{LIMIT, identities, until};

/// A site whose worker's half turns in a thread.
pub(crate) struct Whole {
    pub(crate) manager: Option<Manager>,
    pub(crate) lan: MemoryPort,
    stop: Arc<AtomicBool>,
    worker: Option<JoinHandle<()>>,
}

impl Whole {
    fn start(identity: &Identity, bind: SocketAddr, peers: Vec<ManagerPeer>) -> Self {
        Self::start_as(identity, bind, peers, false)
    }

    /// The same, and it may relay.
    pub(crate) fn start_as(
        identity: &Identity,
        bind: SocketAddr,
        peers: Vec<ManagerPeer>,
        relays: bool,
    ) -> Self {
        let mode = peers[0].mode;
        let wan = Wan::open(bind, 0, &[mode], Offloads::default()).expect("ports");
        let socket = wan.socket().expect("a duplicate").expect("a data port");
        let (worker, manager) = mailboxes().expect("a socket pair");
        let (producer, consumer) = datagrams();
        let mut site = Site::new(settings(mode, peers.len()), wan, worker, producer, Dscp::default());
        let (own, lan) = lan();
        assert!(site.open(own).is_none());
        let mut frames = tunnel::FrameKinds::ALWAYS;
        if relays {
            site.relay_for_peers();
            frames = frames.and(tunnel::FrameKinds::TO_SITES);
        }
        let settings = ManagerSettings {
            name: "whole".to_owned(),
            identity: identity.clone(),
            peers,
            lanes: 1,
            window: tunnel::Settings::WINDOW,
            frames,
            epoch_life: Duration::from_secs(3600),
            most_payload: 1560,
            returns: false,
        };
        let manager = Some(Manager::start(settings, manager, consumer, socket, None).expect("a manager"));
        let stop = Arc::new(AtomicBool::new(false));
        let turning = {
            let stop = Arc::clone(&stop);
            let start = Instant::now();
            move || {
                while !stop.load(Ordering::Relaxed) {
                    site.woken();
                    if site.turn(wire::Instant::after_start(start.elapsed()), Instant::now()).0 == 0 {
                        std::thread::sleep(Duration::from_micros(300));
                    }
                }
            }
        };
        let worker = Some(std::thread::spawn(turning));
        Self { manager, lan, stop, worker }
    }

    /// Whether the channel stands and the peer accepts packets.
    fn is_ready(&self) -> bool {
        self.is_ready_for(0)
    }

    /// The same of another peer.
    pub(crate) fn is_ready_for(&self, peer: usize) -> bool {
        let status = self.manager.as_ref().expect("it runs").status();
        status.peers[peer].session.is_some_and(|state| state.transmit.is_some())
    }
}

impl Drop for Whole {
    fn drop(&mut self) {
        drop(self.manager.take());
        self.stop.store(true, Ordering::Relaxed);
        if let Some(worker) = self.worker.take() {
            worker.join().expect("the worker does not panic");
        }
    }
}

/// An address with two free ports, of those that the kernel gives to nobody by itself.
pub(crate) fn free(ip: &str) -> SocketAddr {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let ip: IpAddr = ip.parse().expect("an address");
    let process = (std::process::id() % 500) as u16 * 32;
    loop {
        let port = 12_000 + process + NEXT.fetch_add(2, Ordering::Relaxed) % 4000;
        if [port, port + 1].into_iter().all(|port| UdpSocket::bind(SocketAddr::new(ip, port)).is_ok()) {
            return SocketAddr::new(ip, port);
        }
    }
}

fn peer(identity: &Identity, endpoint: SocketAddr, mode: Mode) -> ManagerPeer {
    ManagerPeer {
        endpoint: Some(endpoint.to_string()),
        public_key: Some(identity.public()),
        via: None,
        mode,
        classical: false,
        paths: Vec::new(),
        copies: dataplane::site::Copies::None,
    }
}

/// Sends until one has come: how long that takes.
pub(crate) fn first_frame(from: &mut Whole, to: &mut Whole, pns: &mut std::ops::RangeFrom<u32>) -> Duration {
    let start = Instant::now();
    loop {
        assert!(start.elapsed() < LIMIT, "no frame crosses");
        let pn = pns.next().expect("enough");
        assert!(from.lan.inject(&macsec(station(1), station(0), pn, 200)));
        std::thread::sleep(Duration::from_millis(2));
        if to.lan.collect().is_some() {
            // Frames that are under way.
            std::thread::sleep(Duration::from_millis(50));
            while to.lan.collect().is_some() {}
            return start.elapsed();
        }
    }
}

pub(crate) fn all_cross(from: &mut Whole, to: &mut Whole, pns: &mut std::ops::RangeFrom<u32>) {
    let frames: Vec<_> = pns
        .by_ref()
        .take(100)
        .map(|pn| macsec(station(1), station(0), pn, 60 + pn as usize % 1400))
        .collect();
    let mut came = Vec::new();
    let start = Instant::now();
    // No more at once than the smallest socket on the way holds.
    for (number, burst) in (1..).zip(frames.chunks(25)) {
        assert!(burst.iter().all(|frame| from.lan.inject(frame)));
        while came.len() < 25 * number && start.elapsed() < LIMIT {
            // Frames that the first one left under way have lower PNs.
            let of_these = |frame: &Vec<u8>| frame[16..20] >= frames[0][16..20];
            came.extend(std::iter::from_fn(|| to.lan.collect()).filter(of_these));
            std::thread::sleep(Duration::from_millis(1));
        }
    }
    assert!(came == frames, "{} of {}, octet for octet and in order", came.len(), frames.len());
}

fn frames_cross(mode: Mode, here: &str, there: &str) {
    let [low, high] = identities();
    let (here, there) = (free(here), free(there));
    let to_here = if here.ip().is_unspecified() { SocketAddr::new(there.ip(), here.port()) } else { here };
    let near = |endpoint| Whole::start(&low, here, vec![peer(&high, endpoint, mode)]);
    let far = || Whole::start(&high, there, vec![peer(&low, to_here, mode)]);
    let (mut first, mut second) = (near(there), far());
    until("keys", || first.is_ready() && second.is_ready());
    let mut pns = 1..;
    first_frame(&mut first, &mut second, &mut pns);
    all_cross(&mut first, &mut second, &mut pns);

    let mka = eapol(station(7), 120);
    assert!(second.lan.inject(&mka));
    let mut came = Vec::new();
    let start = Instant::now();
    while !came.contains(&mka) && start.elapsed() < LIMIT {
        came.extend(std::iter::from_fn(|| first.lan.collect()));
        std::thread::sleep(Duration::from_millis(1));
    }
    assert!(came.contains(&mka), "MKA from LAN to LAN");

    drop(second);
    let mut second = far();
    let took = first_frame(&mut first, &mut second, &mut pns);
    println!("{mode:?}: frames cross again {took:?} after the far site has restarted");
    all_cross(&mut first, &mut second, &mut pns);
    drop((first, second));
    let (mut first, mut second) = (near(there), far());
    let took = first_frame(&mut first, &mut second, &mut pns);
    println!("{mode:?}: frames cross {took:?} after both have restarted");
    all_cross(&mut first, &mut second, &mut pns);
}

#[test]
fn identifier_mode_from_lan_to_lan() {
    frames_cross(Mode::Identifier, "127.0.0.1", "127.0.0.1");
}

#[test]
fn header_encryption_from_lan_to_lan() {
    frames_cross(Mode::HeaderEncryption, "127.0.0.1", "127.0.0.1");
}

#[test]
fn over_ipv6() {
    frames_cross(Mode::Identifier, "::1", "::1");
}

#[test]
fn between_a_socket_of_both_families_and_one_of_ipv4() {
    frames_cross(Mode::Identifier, "::", "127.0.0.1");
    frames_cross(Mode::HeaderEncryption, "::", "127.0.0.1");
}
