//! Two whole sites without engines: a forwarding half and a session each, a channel with a delay, a wire that loses and
//! reorders, and a clock that moves by the millisecond.
#![allow(dead_code, reason = "each test needs some of it")]

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use suite::tunnel::EpochSecret;
use tunnel::{
    Delivery, Destination, Discard, Event, Forwarding, FrameKinds, Instance, Limits, Message, Mode, Packet,
    PacketSource, PeerCounters, PeerId, PeerSettings, Session, SessionSettings, Settings,
};
use wire::Instant;

pub(crate) const PEER: PeerId = PeerId(0);
/// Octets of the longest frame of the LANs.
pub(crate) const LAN_FRAME: usize = 1600;

/// Behaviour of the wire.
#[derive(Clone, Copy)]
pub(crate) struct Wire {
    /// Milliseconds that each packet takes at least.
    pub(crate) delay: u64,
    /// Up to so many more.
    pub(crate) jitter: u64,
    /// In a thousand.
    pub(crate) lost: u64,
}

struct Plant {
    forwarding: Forwarding,
    session: Session,
}

pub(crate) struct Plants {
    mode: Mode,
    pub(crate) now: Instant,
    pub(crate) wire: Wire,
    /// Milliseconds that a message takes; none: the channel is down.
    pub(crate) channel: Option<u64>,
    limits: Limits,
    path_payload: usize,
    /// Kinds of frames that each site takes.
    frames: [FrameKinds; 2],
    plants: [Plant; 2],
    /// (when it is there, to whom, message).
    messages: VecDeque<(Instant, usize, Message)>,
    /// (when it is there, to whom, packet).
    packets: Vec<(Instant, usize, Vec<u8>)>,
    /// All packets that were ever put on the wire, lost or not: (destination, packet).
    pub(crate) recorded: Vec<(usize, Vec<u8>)>,
    /// Frames that reached each LAN, with their times.
    pub(crate) lans: [Vec<(Instant, Vec<u8>)>; 2],
    pub(crate) discards: Vec<Discard>,
    /// Each event that was told: when, and by which site.
    pub(crate) events: Vec<(Instant, usize, Event)>,
    dice: u64,
}

/// A secret that was never drawn before.
fn draw() -> EpochSecret {
    static DRAWN: AtomicU64 = AtomicU64::new(1);
    let mut octets = [0; 32];
    octets[..8].copy_from_slice(&DRAWN.fetch_add(1, Ordering::Relaxed).to_le_bytes());
    EpochSecret::new(&octets)
}

/// A MACsec frame of a station to another, with a body of its own.
pub(crate) fn frame(station: u8, to: u8, an: u8, pn: u32, octets: usize) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 1, to, 2, 0, 0, 0, 0, station, 0x88, 0xe5, 0x2c | an, 0];
    frame.extend(pn.to_be_bytes());
    frame.extend([2, 0, 0, 0, 9, station, 0, 1]);
    // Another key for each AN, so another body; what restarts with PN 1 has another body still.
    static SALT: AtomicU64 = AtomicU64::new(0);
    let mut state = SALT.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::Relaxed) | 1;
    frame.extend((frame.len()..octets).map(|_| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 24) as u8
    }));
    frame
}

/// A frame with VLAN tags behind its addresses.
pub(crate) fn tagged(frame: &[u8], tags: &[[u8; 4]]) -> Vec<u8> {
    [&frame[..12], &tags.concat(), &frame[12..]].concat()
}

impl Plants {
    pub(crate) fn new(mode: Mode) -> Self {
        Self::with(mode, Limits::default(), 1472)
    }

    /// The same; this site is of a version that takes no kinds of frames but the first ones.
    pub(crate) fn older(mode: Mode, site: usize) -> Self {
        Self::taking(mode, site, FrameKinds::default())
    }

    /// The same; this site takes these kinds of frames.
    pub(crate) fn taking(mode: Mode, site: usize, frames: FrameKinds) -> Self {
        let mut plants = Self::new(mode);
        plants.frames[site] = frames;
        plants.restart(site);
        plants.pass(100);
        plants
    }

    /// Two sites that have just been connected, with the second epoch in readiness.
    pub(crate) fn with(mode: Mode, limits: Limits, path_payload: usize) -> Self {
        let now = Instant::after_start(Duration::from_secs(1));
        let mut plants = Self {
            mode,
            now,
            wire: Wire { delay: 1, jitter: 0, lost: 0 },
            channel: Some(5),
            limits,
            path_payload,
            frames: [FrameKinds::ALL; 2],
            plants: [0, 1].map(|_| plant(mode, &limits, path_payload, FrameKinds::ALL, now)),
            messages: VecDeque::new(),
            packets: Vec::new(),
            recorded: Vec::new(),
            lans: [Vec::new(), Vec::new()],
            discards: Vec::new(),
            events: Vec::new(),
            dice: 0x2545_f491_4f6c_dd1d,
        };
        plants.connect();
        plants.pass(100);
        plants
    }

    pub(crate) fn connect(&mut self) {
        self.messages.clear();
        for plant in &mut self.plants {
            plant.session.handle_disconnected(self.now);
            plant.session.handle_connected(self.now);
        }
    }

    /// A site starts anew, and the channel with it.
    pub(crate) fn restart(&mut self, site: usize) {
        self.plants[site] = plant(self.mode, &self.limits, self.path_payload, self.frames[site], self.now);
        self.connect();
    }

    pub(crate) const fn mode(&self) -> Mode {
        self.mode
    }

    pub(crate) fn counters(&self, site: usize) -> PeerCounters {
        self.plants[site].forwarding.peer_counters(PEER)
    }

    pub(crate) fn forwarding(&mut self, site: usize) -> &mut Forwarding {
        &mut self.plants[site].forwarding
    }

    /// A frame of a site's LAN.
    pub(crate) fn send(&mut self, site: usize, frame: &[u8]) {
        let forwarding = &mut self.plants[site].forwarding;
        let Some(route) = forwarding.route(self.now, frame) else { return };
        assert!(matches!(route.destination, Destination::All | Destination::Peer(PEER)));
        let packets = forwarding.dispatch(self.now, &route, PEER, frame);
        self.put(1 - site, packets.iter().map(|packet| octets(packet, frame)).collect());
        self.pump(site);
    }

    fn put(&mut self, to: usize, packets: Vec<Vec<u8>>) {
        for packet in packets {
            self.recorded.push((to, packet.clone()));
            if self.roll(1000) >= self.wire.lost {
                let time = self.wire.delay + self.roll(self.wire.jitter + 1);
                self.packets.push((self.now + Duration::from_millis(time), to, packet));
            }
        }
    }

    fn roll(&mut self, sides: u64) -> u64 {
        self.dice ^= self.dice << 13;
        self.dice ^= self.dice >> 7;
        self.dice ^= self.dice << 17;
        (self.dice >> 11) % sides
    }

    /// Lets milliseconds go by.
    pub(crate) fn pass(&mut self, milliseconds: u64) {
        for _ in 0..milliseconds {
            self.now = self.now + Duration::from_millis(1);
            self.step();
        }
    }

    fn step(&mut self) {
        while self.messages.front().is_some_and(|&(at, ..)| at <= self.now) {
            let (_, to, message) = self.messages.pop_front().expect("seen");
            self.plants[to].session.handle_message(self.now, message).expect("peers without fault");
            self.pump(to);
        }
        let (there, under_way): (Vec<_>, _) =
            std::mem::take(&mut self.packets).into_iter().partition(|&(at, ..)| at <= self.now);
        self.packets = under_way;
        for (_, to, packet) in there {
            self.arrive(to, &packet);
        }
        for site in 0..2 {
            self.plants[site].session.handle_timeout(self.now);
            self.plants[site].forwarding.handle_timeout(self.now);
            self.pump(site);
        }
    }

    /// A packet comes to a site: the frame that came of it.
    pub(crate) fn arrive(&mut self, site: usize, packet: &[u8]) -> Option<Vec<u8>> {
        let arrival =
            if self.mode == Mode::Identifier { PacketSource::Identifier } else { PacketSource::From(PEER) };
        match self.plants[site].forwarding.handle_packet(self.now, arrival, packet) {
            Ok(arrived) => {
                let frame = match arrived {
                    Delivery::Frame { prefix, body, .. } => [&prefix[..], &packet[body]].concat(),
                    Delivery::Joined { prefix, first, second, .. } => [&prefix[..], first, second].concat(),
                    Delivery::Relayed { .. } | Delivery::Pending => return None,
                };
                self.lans[site].push((self.now, frame.clone()));
                Some(frame)
            }
            Err(discard) => {
                self.discards.push(discard);
                None
            }
        }
    }

    /// Carries what the halves of a site say to each other, and to the peer.
    fn pump(&mut self, site: usize) {
        loop {
            let Plant { forwarding, session } = &mut self.plants[site];
            let mut busy = false;
            while let Some(event) = forwarding.poll_event() {
                self.events.push((self.now, site, event.clone()));
                session.handle_event(self.now, event);
                busy = true;
            }
            while let Some(command) = session.poll_command() {
                forwarding.handle_command(self.now, command);
                busy = true;
            }
            let mut released = Vec::new();
            while let Some(frame) = forwarding.poll_released(self.now) {
                assert_eq!(frame.peer, PEER);
                released.extend(frame.packets.iter().map(|packet| octets(packet, frame.frame)));
            }
            if let Some(delay) = self.channel {
                while let Some((_, message)) = session.poll_message() {
                    self.messages.push_back((self.now + Duration::from_millis(delay), 1 - site, message));
                }
            }
            self.put(1 - site, released);
            if !busy {
                return;
            }
        }
    }

    /// Takes what came to a site's LAN.
    pub(crate) fn take(&mut self, site: usize) -> Vec<Vec<u8>> {
        std::mem::take(&mut self.lans[site]).into_iter().map(|(_, frame)| frame).collect()
    }
}

fn octets(packet: &Packet, frame: &[u8]) -> Vec<u8> {
    [&packet.header[..], &frame[packet.body.clone()]].concat()
}

fn plant(mode: Mode, limits: &Limits, path_payload: usize, frames: FrameKinds, now: Instant) -> Plant {
    static STARTS: AtomicU64 = AtomicU64::new(1);
    let mut instance = [0; 16];
    instance[..8].copy_from_slice(&STARTS.fetch_add(1, Ordering::Relaxed).to_le_bytes());
    let settings = Settings {
        peers: vec![PeerSettings { mode, path_payload }],
        lan_frame: LAN_FRAME,
        limits: *limits,
        window: 256,
        table_seed: [5; 16],
    };
    let mut forwarding = Forwarding::new(settings);
    if frames.has(FrameKinds::CYCLIC) {
        forwarding.carry_cyclic(wire::fieldbus::ETHERTYPE);
    }
    let session = SessionSettings {
        peer: PEER,
        instance: Instance(instance),
        mode,
        lanes: 1,
        window: 256,
        frames,
        epoch_life: tunnel::EPOCH_LIFE,
        draw,
    };
    Plant { forwarding, session: Session::new(session, now) }
}
