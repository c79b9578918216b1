//! Sites over LANs in memory and real UDP sockets on loopback, turned by hand, with a manager that does the least: it
//! carries keys and announcements between them as if there were a channel.
//!
//! ```text
//!  LAN 0 ── [site 0] ══ 127.0.0.1 ══ [site 1] ── LAN 1        site i calls site j peer j, or j - 1 if j > i
//! ```

#![allow(dead_code, unreachable_pub, clippy::unwrap_used)]

use std::net::SocketAddr;
use std::time::{self, Duration};

use dataplane::pipeline::KayMailbox;
use dataplane::site::{
    DatagramConsumer, Dscp, Lan, ManagerMailbox, SENDING_WORKERS, Site, SiteSnapshot, ToWorker, Wan,
    datagrams, mailboxes,
};
use dataplane::worker::Polling;
use netdev::memory::MemoryPort;
use netdev::pool::{ChunkOctets, Pool};
use netdev::scheduling::Scheduling;
use netdev::udp::Offloads;
use suite::tunnel::EpochSecret;
use testkit::frames::payload;
use tunnel::{Command, Event, Generation, LaneShare, Limits, Mode, PeerId, PeerSettings, Settings};
use wire::Instant;

/// Longest time that anything that must happen may take on a busy machine.
pub const PATIENCE: Duration = Duration::from_secs(20);
const GENERATION: Generation = Generation(1);
/// Frames that a LAN holds each way.
pub const LAN_FRAMES: usize = 512;

/// A site, what stands at its LAN, and its manager.
pub struct Plant {
    pub number: usize,
    pub site: Option<Site>,
    pub lan: MemoryPort,
    pub manager: ManagerMailbox,
    pub datagrams: DatagramConsumer,
    /// Its data address for each mode: the port that such peers send to.
    pub address: SocketAddr,
    /// The KaY's end of the mailbox to its SecY, if it has one.
    pub kay: Option<KayMailbox>,
}

pub struct Plants {
    pub plants: Vec<Plant>,
    /// Keys are on their way to a site.
    pub keys: bool,
    /// Lanes that each sends on.
    lanes: u8,
    start: time::Instant,
}

impl Plant {
    /// Starts the further worker of its site.
    pub fn start_sending(&mut self, polling: Polling) {
        let site = self.site.as_mut().unwrap();
        assert!(site.has_sending_worker());
        site.start_sending("sends".into(), polling, Scheduling::Ordinary, None).unwrap();
    }
}

/// The number by which site `own` calls site `other`.
pub fn peer(own: usize, other: usize) -> PeerId {
    PeerId(if other < own { other } else { other - 1 } as u16)
}

fn site_of(own: usize, peer: PeerId) -> usize {
    if peer.index() < own { peer.index() } else { peer.index() + 1 }
}

fn secret(from: usize, to: usize, epoch: u32) -> EpochSecret {
    let mut octets = [0; 32];
    octets[..3].copy_from_slice(&[from as u8, to as u8, epoch as u8]);
    EpochSecret::new(&octets)
}

pub fn settings(mode: Mode, peers: usize) -> Settings {
    Settings {
        peers: vec![PeerSettings { mode, path_payload: 1472 }; peers],
        lan_frame: 1518,
        limits: Limits { new_flows_per_second: 100_000, ..Limits::default() },
        window: Settings::WINDOW,
        table_seed: [7; 16],
    }
}

/// A LAN of a site, and the other end of its wire.
pub fn lan() -> (Box<Lan>, MemoryPort) {
    let (port, lan) = MemoryPort::pair(LAN_FRAMES);
    let pool = Pool::new(ChunkOctets::Octets2048, 256).unwrap();
    (Box::new(Lan { pool, port: Box::new(port), turns: None }), lan)
}

impl Plants {
    /// `sites` sites that all have keys of all, and know where all are.
    pub fn new(sites: usize, mode: Mode, offloads: Offloads) -> Self {
        Self::of(sites, mode, offloads, &settings(mode, sites - 1))
    }

    /// The same, with these settings.
    pub fn of(sites: usize, mode: Mode, offloads: Offloads, settings: &Settings) -> Self {
        Self::built(sites, mode, offloads, settings, 1)
    }

    /// `sites` sites in identifier mode that send from two workers each. Without `polling` the further ones do not run.
    pub fn with_sending_workers(sites: usize, polling: Option<Polling>) -> Self {
        let settings = settings(Mode::Identifier, sites - 1);
        let lanes = LaneShare::new(0, SENDING_WORKERS).unwrap().lanes();
        let mut plants = Self::built(sites, Mode::Identifier, Offloads::default(), &settings, lanes);
        for plant in &mut plants.plants {
            polling.into_iter().for_each(|polling| plant.start_sending(polling));
        }
        plants
    }

    fn built(sites: usize, mode: Mode, offloads: Offloads, settings: &Settings, lanes: u8) -> Self {
        let plant = |number| {
            let wan = Wan::open("127.0.0.1:0".parse().unwrap(), 0, &[mode], offloads).unwrap();
            let port = match mode {
                Mode::Identifier => wan.data(),
                Mode::HeaderEncryption => wan.header(),
                Mode::Plain { .. } => wan.plain(),
            };
            let address = port.unwrap().address();
            let (worker, manager) = mailboxes().unwrap();
            let (producer, datagrams) = datagrams();
            let (settings, dscp) = (settings.clone(), Dscp::default());
            let mut site = match lanes {
                1 => Site::new(settings, wan, worker, producer, dscp),
                _ => Site::with_sending_worker(settings, wan, worker, producer, dscp).unwrap(),
            };
            let (own, lan) = lan();
            assert!(site.open(own).is_none());
            Plant { number, site: Some(site), lan, manager, datagrams, address, kay: None }
        };
        let plants = (0..sites).map(plant).collect();
        let mut plants = Self { plants, keys: true, lanes, start: time::Instant::now() };
        for own in 0..sites {
            for other in (0..sites).filter(|other| *other != own) {
                let peer = peer(own, other);
                let address = Some(plants.plants[other].address);
                plants.tell(own, ToWorker::Endpoint { peer, address });
                plants.tell(own, ToWorker::Tunnel(Command::Begin { peer, generation: GENERATION }));
                let (epoch, secret) = (1, secret(other, own, 1));
                let command = Command::InstallReceive { peer, generation: GENERATION, epoch, secret, lanes };
                plants.tell(own, ToWorker::Tunnel(command));
            }
        }
        plants.settle();
        plants
    }

    pub fn tell(&mut self, own: usize, word: ToWorker) {
        assert!(self.plants[own].manager.messages.send(word));
    }

    pub fn now(&self) -> Instant {
        Instant::after_start(self.start.elapsed())
    }

    /// One turn of each site; how much came.
    pub fn turn(&mut self) -> usize {
        let now = self.now();
        let sites = self.plants.iter_mut().filter_map(|plant| plant.site.as_mut());
        sites.map(|site| site.turn(now, time::Instant::now()).0).sum()
    }

    /// Carries what the sites say to where it belongs, once; how much there was.
    pub fn manage(&mut self) -> usize {
        let mut words = vec![];
        for own in 0..self.plants.len() {
            while let Some(event) = self.plants[own].manager.messages.receive() {
                words.extend(answer(own, event, self.lanes));
            }
        }
        let count = words.len();
        for (to, command) in words {
            self.keys |= matches!(command, Command::InstallReceive { .. } | Command::InstallTransmit { .. });
            self.tell(to, ToWorker::Tunnel(command));
        }
        count
    }

    /// Whether a site has something to do at once, though nothing came.
    fn is_due(&self) -> bool {
        let now = self.now();
        let sites = self.plants.iter().filter_map(|plant| plant.site.as_ref());
        sites.filter_map(Site::due).any(|due| due <= now)
    }

    /// Turns until nothing comes any more.
    pub fn settle(&mut self) {
        let give_up = time::Instant::now() + PATIENCE;
        let mut idle = 0;
        while idle < 5 {
            assert!(time::Instant::now() < give_up, "they never stop");
            idle = if self.turn() + self.manage() == 0 && !self.is_due() { idle + 1 } else { 0 };
        }
    }

    /// Injects frames into a LAN and turns until all sites are done with them.
    pub fn send(&mut self, own: usize, frames: &[Vec<u8>]) {
        for frames in frames.chunks(LAN_FRAMES / 2) {
            for frame in frames {
                assert!(self.plants[own].lan.inject(frame));
            }
            self.settle();
        }
    }

    pub fn collect(&mut self, own: usize) -> Vec<Vec<u8>> {
        std::iter::from_fn(|| self.plants[own].lan.collect()).collect()
    }

    pub fn snapshot(&mut self, own: usize) -> SiteSnapshot {
        self.plants[own].site.as_mut().unwrap().snapshot()
    }
}

/// Answer to an event of a site: commands for the sites that it concerns.
fn answer(own: usize, event: Event, lanes: u8) -> Vec<(usize, Command)> {
    let generation = GENERATION;
    match event {
        Event::ReceiveReady { peer: from, epoch, .. } => {
            let other = site_of(own, from);
            let secret = secret(other, own, epoch);
            vec![(other, Command::InstallTransmit { peer: peer(other, own), generation, epoch, secret })]
        }
        Event::Announce { peer: to, index, flow, request, .. } => {
            let other = site_of(own, to);
            vec![(other, Command::AddFlow { peer: peer(other, own), generation, index, flow, request })]
        }
        Event::FlowAccepted { peer: of, index, request, .. } => {
            let other = site_of(own, of);
            vec![(other, Command::Announced { peer: peer(other, own), generation, index, request })]
        }
        Event::EpochWanted { peer: to, newest, .. } => {
            let (other, epoch) = (site_of(own, to), newest + 1);
            let secret = secret(own, other, epoch);
            let peer = peer(other, own);
            vec![(other, Command::InstallReceive { peer, generation, epoch, secret, lanes })]
        }
        _ => vec![],
    }
}

/// A station's address.
pub fn station(number: u8) -> [u8; 6] {
    [2, 0, 0, 0, 0xee, number]
}

/// An encrypted MACsec frame of so many octets, 44 at least, whose octets depend on its PN.
pub fn macsec(to: [u8; 6], from: [u8; 6], pn: u32, octets: usize) -> Vec<u8> {
    let secure = octets - 28;
    let short_length = if secure - 16 < 48 { secure - 16 } else { 0 };
    let tag = [0x88, 0xe5, 0x2c, short_length as u8];
    let seed = u64::from(pn) << 8 | u64::from(from[5]);
    let mut frame = [&to[..], &from, &tag, &pn.to_be_bytes(), &from, &[0, 1]].concat();
    frame.extend(payload(secure, seed));
    frame
}

/// An EAPOL-MKA frame of so many octets.
pub fn eapol(from: [u8; 6], octets: usize) -> Vec<u8> {
    let mut frame = [&[0x01, 0x80, 0xc2, 0, 0, 3][..], &from, &[0x88, 0x8e, 3, 5]].concat();
    frame.resize(octets, 0xe0);
    frame
}
