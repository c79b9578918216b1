//! Managers with programs in the kernel beside real forwarding halves, in two plants: epochs that last a second. Root.
#![allow(clippy::unwrap_used)]

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use dataplane::open::{Io, open_lan};
use dataplane::site::{Dscp, Site, Wan, datagrams, mailboxes};
use lab::plants::{BARE, LAN, Plant};
use lab::topology::{LEFT, RIGHT};
use lab::{PacketSocket, Plants, PlantsShape};
use netdev::interface::{Prepared, Tolerated};
use netdev::udp::Offloads;
use sitelink::{KernelSite, Manager, ManagerPeer, ManagerSettings};
use suite::identity::Identity;
use tunnel::{Limits, Mode, PeerId, PeerSettings, Settings};

const PORT: u16 = 7787;
const LAN_FRAME: usize = 1484;
const NUMBER: std::ops::Range<usize> = 16..20;
const LIMIT: Duration = Duration::from_secs(20);

struct End {
    manager: Option<Manager>,
    kernel: Arc<KernelSite>,
    stop: Arc<AtomicBool>,
    worker: Option<JoinHandle<()>>,
    /// Not put back: its namespace goes.
    _prepared: Prepared,
    _state: tempdir::Directory,
}

/// A directory that goes with its owner.
mod tempdir {
    pub(super) struct Directory(pub(super) std::path::PathBuf);

    impl Directory {
        pub(super) fn new(name: &str) -> Self {
            let path = std::env::temp_dir().join(format!("frameward-{name}-{}", std::process::id()));
            std::fs::create_dir_all(&path).unwrap();
            Self(path)
        }
    }

    impl Drop for Directory {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }
}

impl End {
    /// In the namespace of the plant's site.
    fn start(here: &Plant, there: &Plant, identity: &Identity, peer: &Identity, mode: Mode) -> Self {
        let bind = SocketAddr::new([0; 4].into(), PORT);
        let kernel = Arc::new(KernelSite::load([1, 0], Settings::WINDOW, bind, &Limits::DEFAULT).unwrap());
        let wan = Wan::open(bind, 0, &[mode], Offloads::default()).unwrap();
        let socket = wan.socket().unwrap().unwrap();
        let (worker, mailbox) = mailboxes().unwrap();
        let (producer, consumer) = datagrams();
        let settings = Settings {
            peers: vec![PeerSettings { mode, path_payload: 1200 }],
            lan_frame: LAN_FRAME,
            limits: Limits::DEFAULT,
            window: Settings::WINDOW,
            table_seed: [7; 16],
        };
        let mut site = Site::new(settings, wan, worker, producer, Dscp::default());
        static STARTED: AtomicUsize = AtomicUsize::new(0);
        let started = STARTED.fetch_add(1, Ordering::Relaxed);
        let state = tempdir::Directory::new(&format!("kernel-{started}"));
        let prepared = Prepared::named(LAN, &state.0, Tolerated::default()).unwrap();
        let mut lan = open_lan(&prepared, Io::AfXdp).unwrap().lan;
        let side = lan.port.kernel_side().unwrap();
        let program = kernel.set_lan(Ok(&side), LAN_FRAME).unwrap();
        side.set_program(Some(std::os::fd::AsFd::as_fd(&program))).unwrap();
        lan.turns = Some(kernel.turns().unwrap());
        assert!(site.open(Box::new(lan)).is_none());
        let settings = ManagerSettings {
            name: format!("end-{}", here.number),
            identity: identity.clone(),
            peers: vec![ManagerPeer {
                endpoint: Some(format!("{}:{PORT}", there.ipv4)),
                public_key: Some(peer.public()),
                via: None,
                mode,
                classical: false,
                paths: Vec::new(),
                copies: dataplane::site::Copies::None,
            }],
            lanes: 1,
            window: Settings::WINDOW,
            frames: tunnel::FrameKinds::ALWAYS,
            epoch_life: Duration::from_secs(1),
            most_payload: 1472,
            returns: false,
        };
        let manager = Manager::start(settings, mailbox, consumer, socket, Some(Arc::clone(&kernel))).unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let turning = {
            let (stop, start) = (Arc::clone(&stop), Instant::now());
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
        Self { manager: Some(manager), kernel, stop, worker, _prepared: prepared, _state: state }
    }

    /// The epoch that is sent under.
    fn epoch(&self) -> u32 {
        let status = self.manager.as_ref().unwrap().status();
        status.peers[0].session.and_then(|state| state.transmit).map_or(0, |age| age.epoch)
    }

    fn counted(&self) -> [u64; 2] {
        let counters = self.kernel.counters(PeerId(0));
        [counters.out_pkts_tunnelled, counters.in_pkts_tunnelled]
    }
}

impl Drop for End {
    fn drop(&mut self) {
        drop(self.manager.take());
        self.stop.store(true, Ordering::Relaxed);
        if let Some(worker) = self.worker.take() {
            worker.join().unwrap();
        }
    }
}

fn frame(from: u8, to: u8, number: u32) -> Vec<u8> {
    let head = [2, 0, 0, 7, to, 1, 2, 0, 0, 7, from, 1, 0x88, 0xe5, 0x0c, 0];
    let mut frame = [&head[..], &number.to_be_bytes()].concat();
    frame.resize(300, from);
    frame
}

/// Number of a frame of the other plant's station.
fn number(octets: &[u8], from: u8) -> Option<u32> {
    let of_peer = octets.get(6..14) == Some(&[2, 0, 0, 7, from, 1, 0x88, 0xe5][..]);
    of_peer.then(|| u32::from_be_bytes(octets[NUMBER].try_into().unwrap()))
}

/// Two plants whose lines and LANs take redirected frames.
fn plants() -> Plants {
    lab::require_root().unwrap();
    let shape = PlantsShape { stations: 0, switches: false, ..PlantsShape::default() };
    let plants = Plants::build(&shape).unwrap();
    for plant in &plants.plants {
        plant.lan.run(&["ethtool", "-K", BARE, "gro", "on"]).unwrap();
        for side in [LEFT, RIGHT] {
            plant.line.as_ref().unwrap().run(&["ethtool", "-K", side, "gro", "on"]).unwrap();
        }
    }
    plants
}

fn start(plants: &Plants) -> [End; 2] {
    start_in(plants, Mode::Identifier)
}

fn start_in(plants: &Plants, mode: Mode) -> [End; 2] {
    let identities = [1, 2].map(|octet| Identity::new(&[octet; 32]));
    [0, 1].map(|at: usize| {
        let [here, there] = [at, 1 - at].map(|at| &plants.plants[at]);
        here.site.enter(|| End::start(here, there, &identities[at], &identities[1 - at], mode)).unwrap()
    })
}

fn lans(plants: &Plants) -> [PacketSocket; 2] {
    [0, 1].map(|at: usize| PacketSocket::open(&plants.plants[at].lan, BARE).unwrap())
}

/// Sends until both flows go through the kernel both ways. Returns the next frame's number.
fn into_the_kernel(ends: &[End; 2], lans: &mut [PacketSocket; 2]) -> u32 {
    let began = Instant::now();
    let (mut next, mut before) = (1, ends.each_ref().map(End::counted));
    loop {
        assert!(began.elapsed() < LIMIT, "{:?}", ends.each_ref().map(|end| end.kernel.places(PeerId(0))));
        for at in [0, 1] {
            lans[at].send(&frame(at as u8, 1 - at as u8, next)).unwrap();
        }
        next += 1;
        std::thread::sleep(Duration::from_millis(30));
        let now = ends.each_ref().map(End::counted);
        if (0..2).all(|at| (0..2).all(|way| now[at][way] > before[at][way])) {
            break;
        }
        before = now;
    }
    std::thread::sleep(Duration::from_millis(200));
    for lan in lans {
        while lan.receive_waiting().unwrap().is_some() {}
    }
    next
}

/// Interfaces of a plant's box at which an XDP program stands.
fn with_programs(plant: &Plant) -> usize {
    plant.site.run(&["ip", "link", "show"]).unwrap().stdout.matches("prog/xdp").count()
}

#[test]
fn a_site_that_is_over_delivers_nothing_and_leaves_the_wan() {
    let plants = plants();
    let mut ends = start(&plants);
    let mut lans = lans(&plants);
    let next = into_the_kernel(&ends, &mut lans);
    // The LAN's port is closed with the worker, and the programs stay for the next site of this name.
    let End { manager, stop, worker, .. } = &mut ends[1];
    drop(manager.take());
    stop.store(true, Ordering::Relaxed);
    worker.take().unwrap().join().unwrap();
    assert_eq!(with_programs(&plants.plants[1]), 1, "the WAN's");
    ends[1].kernel.end();
    assert_eq!(with_programs(&plants.plants[1]), 0);
    let sent = ends[0].counted()[0];
    for number in next..next + 100 {
        lans[0].send(&frame(0, 1, number)).unwrap();
        std::thread::sleep(Duration::from_millis(1));
    }
    std::thread::sleep(Duration::from_millis(200));
    assert!(ends[0].counted()[0] >= sent + 100, "the other end does not know yet");
    while let Some(heard) = lans[1].receive_waiting().unwrap() {
        assert_eq!(number(&heard.octets, 0), None, "it came");
    }
}

/// Lanes and flows of the programs are for peers in identifier mode: there are three lanes for each of these.
#[test]
fn a_peer_with_header_encryption_takes_nothing_of_the_programs() {
    let plants = plants();
    let ends = start_in(&plants, Mode::HeaderEncryption);
    let began = Instant::now();
    while ends.iter().any(|end| end.epoch() == 0) {
        assert!(began.elapsed() < LIMIT, "no key is agreed on");
        std::thread::sleep(Duration::from_millis(20));
    }
    for end in &ends {
        let unknown = Err("the peer is not connected".to_owned());
        assert_eq!(end.kernel.places(PeerId(0)), [unknown.clone(), unknown]);
    }
}

#[test]
fn epochs_change_under_load_and_no_frame_is_lost_or_late() {
    let plants = plants();
    let ends = start(&plants);
    let mut lans = lans(&plants);
    let mut next = into_the_kernel(&ends, &mut lans);
    let (first, epochs) = (next, ends.each_ref().map(End::epoch));
    let (counted, end) = (ends.each_ref().map(End::counted), Instant::now() + Duration::from_secs(8));
    let mut last = [first - 1; 2];
    while Instant::now() < end {
        for at in [0, 1] {
            lans[at].send(&frame(at as u8, 1 - at as u8, next)).unwrap();
        }
        next += 1;
        std::thread::sleep(Duration::from_micros(500));
        for at in [0, 1] {
            while let Some(heard) = lans[at].receive_waiting().unwrap() {
                if let Some(number) = number(&heard.octets, 1 - at as u8) {
                    assert_eq!(number, last[at] + 1, "at {at}");
                    last[at] = number;
                }
            }
        }
    }
    std::thread::sleep(Duration::from_millis(300));
    for at in [0, 1] {
        while let Some(heard) = lans[at].receive_waiting().unwrap() {
            if let Some(number) = number(&heard.octets, 1 - at as u8) {
                assert_eq!(number, last[at] + 1);
                last[at] = number;
            }
        }
        assert_eq!(last[at], next - 1, "all have come");
        let now = ends[at].counted();
        let sent = u64::from(next - first);
        println!(
            "{} epochs, {sent} frames, in the kernel {now:?} - {:?}",
            ends[at].epoch() - epochs[at],
            counted[at]
        );
        assert!(ends[at].epoch() >= epochs[at] + 4);
        assert!((0..2).all(|way| now[way] - counted[at][way] == sent), "all in the kernel");
    }
}
