//! Header-encryption mode from one LAN to another, by a list of operations.
//!
//! ```text
//!  frames ──▶ forwarding ──▶ wire ──▶ forwarding ──▶ frames
//!                 ▲            └─ swap, duplicate, lose, forge, noise
//!                 └── manager ──────────▲            time; restarts; the path's payload
//! ```
//!
//! Promises: no panic; what is delivered was sent, octet for octet unless its body was forged; no frame and no PN of an
//! SA and epoch is delivered twice; a flow's frames leave in the order in which they came; no packet exceeds the path;
//! two epochs begin at least a second apart; each frame and each packet is counted once.

use std::collections::{HashMap, HashSet, VecDeque};
use std::time::Duration;

use arbitrary::{Arbitrary, Unstructured};
use suite::tunnel::EpochSecret;
use tunnel::{
    Command, Delivery, Event, Forwarding, FrameKinds, Generation, Limits, Mode, PacketSource, PeerCounters,
    PeerId, PeerSettings, Settings,
};
use wire::Instant;
use wire::tunnel::{Flow, ParsedFrame};

const PEER: PeerId = PeerId(0);
/// The most operations of a run.
const OPERATIONS: usize = 300;
/// The most packets on the wire.
const WIRE: usize = 256;
/// Stations of the LAN, each with a SecY.
const STATIONS: usize = 6;
const LAN_FRAME: usize = 1518;
/// Where a frame has its number: behind the SecTAG, inside the header, unless extension headers stand there.
const NUMBER: std::ops::Range<usize> = 28..32;
/// Where its octet with EXT is.
const OCTET_3: usize = 15;

#[derive(Arbitrary, Debug)]
enum Operation {
    Send {
        station: u8,
        to: u8,
        an: u8,
        pn: Step,
        octets: u16,
        /// With extension headers: its number is taken for two of them.
        extended: bool,
    },
    /// A frame with an octet of its header changed.
    Odd {
        octet: u8,
        value: u8,
    },
    Deliver {
        which: u8,
    },
    Duplicate {
        which: u8,
    },
    Lose {
        which: u8,
    },
    Forge {
        which: u8,
        at: u16,
        bit: u8,
    },
    Noise {
        octets: Vec<u8>,
    },
    /// The managers carry so many events.
    Manage {
        events: u8,
    },
    Wait {
        milliseconds: u16,
    },
    Restart,
    Path {
        octets: u16,
    },
}

/// Next step of a station's PN.
#[derive(Arbitrary, Debug)]
enum Step {
    Next,
    Ahead(u16),
    Jump(u32),
    Back(u16),
    Restart,
}

/// A packet on the wire, and the number of its frame.
type Wired = (u32, Vec<u8>);

/// Reads `octets` as a list of operations and carries it out.
///
/// # Panics
/// If one of the promises above is broken.
pub fn run(octets: &[u8]) {
    let mut input = Unstructured::new(octets);
    let Ok((few_flows, older)) = <(bool, bool)>::arbitrary(&mut input) else { return };
    let mut run = Run::new(few_flows, older);
    for _ in 0..OPERATIONS {
        let Ok(operation) = Operation::arbitrary(&mut input) else { break };
        run.carry_out(&operation);
        if input.is_empty() {
            break;
        }
    }
    run.end();
}

struct Run {
    now: Instant,
    /// The receiver does not know frames with extension headers.
    older: bool,
    from: Forwarding,
    to: Forwarding,
    generation: Generation,
    path: usize,
    /// Events that wait for the managers: whether of the sender, and the event.
    events: VecDeque<(bool, Event)>,
    /// The newest epoch and its secret.
    newest: (u32, EpochSecret),
    secrets: u64,
    /// The epoch in use, and since when.
    epoch: (u32, Instant),
    pns: [[u32; 4]; STATIONS],
    numbers: u32,
    /// The frames that were sent, by number.
    sent: HashMap<u32, Vec<u8>>,
    /// In which generation and epoch a frame left.
    left: HashMap<u32, (u32, u32)>,
    /// The number of the last frame of a flow that left.
    last: HashMap<Flow, u32>,
    wire: Vec<Wired>,
    /// Frames whose body was forged.
    forged: HashSet<u32>,
    delivered: HashSet<u32>,
    /// Generation and epoch, AN, PN and SCI that came through.
    used: HashSet<((u32, u32), u8, [u8; 12])>,
    dispatched: u64,
    arrived: u64,
}

impl Run {
    fn new(few_flows: bool, older: bool) -> Self {
        let limits = Limits { flows: if few_flows { 3 } else { 24 }, stations: 64, ..Limits::default() };
        let settings = Settings {
            peers: vec![PeerSettings { mode: Mode::HeaderEncryption, path_payload: 1472 }],
            lan_frame: LAN_FRAME,
            limits,
            window: 64,
            table_seed: [9; 16],
        };
        let now = Instant::START;
        let mut run = Self {
            now,
            older,
            from: Forwarding::new(settings.clone()),
            to: Forwarding::new(settings),
            generation: Generation(0),
            path: 1472,
            events: VecDeque::new(),
            newest: (0, EpochSecret::new(&[0; 32])),
            secrets: 0,
            epoch: (0, now),
            pns: [[1; 4]; STATIONS],
            numbers: 0,
            sent: HashMap::new(),
            left: HashMap::new(),
            last: HashMap::new(),
            wire: Vec::new(),
            forged: HashSet::new(),
            delivered: HashSet::new(),
            used: HashSet::new(),
            dispatched: 0,
            arrived: 0,
        };
        run.restart();
        run
    }

    fn carry_out(&mut self, operation: &Operation) {
        match operation {
            Operation::Send { station, to, an, pn, octets, extended } => {
                let (station, an) = (usize::from(*station) % STATIONS, an % 4);
                let last = &mut self.pns[station][usize::from(an)];
                *last = match *pn {
                    Step::Next => last.wrapping_add(1),
                    Step::Ahead(pns) => last.wrapping_add(pns.into()),
                    Step::Jump(pns) => last.wrapping_add(pns),
                    Step::Back(pns) => last.wrapping_sub(pns.into()),
                    Step::Restart => 1,
                };
                let pn = *last;
                let mut frame =
                    self.frame(station as u8, to % 4, an, pn, usize::from(*octets) % (LAN_FRAME - 31));
                frame[OCTET_3] |= u8::from(*extended) << 7;
                self.sent.insert(self.numbers, frame.clone());
                self.send(&frame);
            }
            Operation::Odd { octet, value } => {
                let mut frame = self.frame(0, 0, 0, 1, 64);
                // Not the addresses, which are those of the flow's order, and not the number.
                frame[12 + usize::from(*octet) % 16] = *value;
                self.sent.insert(self.numbers, frame.clone());
                self.send(&frame);
            }
            Operation::Noise { octets } => self.arrive(None, octets),
            Operation::Manage { events } => (0..*events).for_each(|_| self.manage()),
            Operation::Wait { milliseconds } => {
                self.now = self.now + Duration::from_millis((*milliseconds).into());
                self.handle_timeout();
            }
            Operation::Restart => self.restart(),
            Operation::Path { octets } => {
                self.path = usize::from(*octets) % 1600;
                self.from.handle_command(self.now, Command::PathPayload { peer: PEER, octets: self.path });
            }
            on_the_way => self.befall(on_the_way),
        }
    }

    fn frame(&mut self, station: u8, to: u8, an: u8, pn: u32, octets: usize) -> Vec<u8> {
        self.numbers += 1;
        let mut frame = vec![2, 0, 0, 0, 1, to, 2, 0, 0, 0, 0, station, 0x88, 0xe5, 0x2c | an, 0];
        frame.extend(pn.to_be_bytes());
        frame.extend([2, 0, 0, 0, 9, station, 0, 1]);
        frame.extend(self.numbers.to_be_bytes());
        frame.extend((0..octets).map(|place| (place as u32 ^ self.numbers) as u8));
        self.sent.insert(self.numbers, frame.clone());
        frame
    }

    fn send(&mut self, frame: &[u8]) {
        let Some(route) = self.from.route(self.now, frame) else { return };
        self.dispatched += 1;
        let packets = self.from.dispatch(self.now, &route, PEER, frame);
        let packets = packets.iter().map(|packet| [&packet.header[..], &frame[packet.body.clone()]].concat());
        let packets = packets.collect();
        self.leave(frame, packets);
        self.collect_events();
    }

    /// Looks at the epoch that is sent with.
    fn note_epoch(&mut self) {
        let (before, since) = self.epoch;
        let epoch = self.from.transmit_epoch(PEER);
        if epoch != before {
            assert!(epoch > before);
            assert!(before == 0 || self.now.since(since) >= Duration::from_secs(1), "two epochs in a second");
            self.epoch = (epoch, self.now);
        }
    }

    /// Packets of a frame have left.
    fn leave(&mut self, frame: &[u8], packets: Vec<Vec<u8>>) {
        self.note_epoch();
        if packets.is_empty() {
            return;
        }
        let number = number(frame);
        let flow = ParsedFrame::parse(frame).expect("invariant: only MACsec frames leave").flow;
        let last = self.last.insert(flow, number).unwrap_or(0);
        assert!(last < number, "a frame has overtaken another of its flow");
        self.left.insert(number, (self.generation.0, self.epoch.0));
        for packet in packets {
            assert!(packet.len() <= self.path);
            self.wire.push((number, packet));
        }
        self.wire.truncate(WIRE);
    }

    fn befall(&mut self, operation: &Operation) {
        let packets = self.wire.len();
        if packets == 0 {
            return;
        }
        let index = |which: u8| usize::from(which) % packets;
        match *operation {
            Operation::Deliver { which } => {
                let (number, packet) = self.wire.remove(index(which));
                self.arrive(Some(number), &packet);
            }
            Operation::Duplicate { which } => self.wire.push(self.wire[index(which)].clone()),
            Operation::Lose { which } => drop(self.wire.swap_remove(index(which))),
            Operation::Forge { which, at, bit } => {
                let (number, packet) = &mut self.wire[index(which)];
                let at = usize::from(at) % packet.len();
                packet[at] ^= 1 << (bit % 8);
                if at >= 32 {
                    self.forged.insert(*number);
                }
            }
            _ => {}
        }
    }

    fn arrive(&mut self, number: Option<u32>, packet: &[u8]) {
        self.arrived += 1;
        let frame = match self.to.handle_packet(self.now, PacketSource::From(PEER), packet) {
            Ok(Delivery::Frame { prefix, body, .. }) => [&prefix[..], &packet[body]].concat(),
            Ok(Delivery::Joined { prefix, first, second, .. }) => [&prefix[..], first, second].concat(),
            Ok(Delivery::Relayed { .. } | Delivery::Pending) | Err(_) => return,
        };
        let number = number.expect("noise is not delivered");
        let sent = &self.sent[&number];
        // What is added to extension headers lies behind the header.
        let certain = if sent[OCTET_3] & 0x80 == 0 { 32 } else { 28 };
        assert_eq!((&frame[..certain], frame.len()), (&sent[..certain], sent.len()));
        assert!(frame == *sent || self.forged.contains(&number), "octet for octet");
        assert!(self.delivered.insert(number), "a frame is delivered twice");
        let left = self.left[&number];
        assert_eq!(left.0, self.generation.0, "of a generation that is over");
        let pn_and_sci = *frame[16..].first_chunk().expect("invariant: the prefix");
        assert!(self.used.insert((left, frame[14] & 3, pn_and_sci)), "a PN is used twice");
    }

    fn handle_timeout(&mut self) {
        self.from.handle_timeout(self.now);
        self.to.handle_timeout(self.now);
        self.collect_events();
    }

    fn collect_events(&mut self) {
        while let Some(event) = self.from.poll_event() {
            self.events.push_back((true, event));
        }
        while let Some(event) = self.to.poll_event() {
            self.events.push_back((false, event));
        }
    }

    /// Lets the managers carry one event, and answer it.
    fn manage(&mut self) {
        let Some((of_sender, event)) = self.events.pop_front() else { return };
        let (peer, generation) = (PEER, self.generation);
        let command = match event {
            Event::Announce { index, flow, request, .. } => {
                Command::AddFlow { peer, generation, index, flow, request }
            }
            Event::Withdraw { index, .. } => Command::WithdrawFlow { peer, generation, index },
            Event::FlowAccepted { index, request, .. } => {
                Command::Announced { peer, generation, index, request }
            }
            Event::FlowRefused { index, .. } => Command::Unknown { peer, generation, index },
            Event::ReceiveReady { epoch, .. } if epoch == self.newest.0 => {
                Command::InstallTransmit { peer, generation, epoch, secret: self.newest.1.clone() }
            }
            Event::EpochWanted { newest, .. } if newest == self.newest.0 => return self.offer(),
            _ => return,
        };
        let side = if of_sender { &mut self.to } else { &mut self.from };
        side.handle_command(self.now, command);
        self.note_epoch();
        self.release();
        self.handle_timeout();
    }

    fn release(&mut self) {
        while let Some(released) = self.from.poll_released(self.now) {
            let frame = released.frame.to_vec();
            let packets = released.packets.iter();
            let packets = packets.map(|packet| [&packet.header[..], &frame[packet.body.clone()]].concat());
            let packets = packets.collect();
            self.leave(&frame, packets);
        }
    }

    /// Draws an epoch and tells the receiver.
    fn offer(&mut self) {
        self.secrets += 1;
        let mut octets = [0; 32];
        octets[..8].copy_from_slice(&self.secrets.to_le_bytes());
        self.newest = (self.newest.0 + 1, EpochSecret::new(&octets));
        let (epoch, secret) = self.newest.clone();
        let (peer, generation) = (PEER, self.generation);
        self.to
            .handle_command(self.now, Command::InstallReceive { peer, generation, epoch, secret, lanes: 1 });
        self.handle_timeout();
    }

    /// Another pair of instances.
    fn restart(&mut self) {
        self.generation = Generation(self.generation.0 + 1);
        let (peer, generation) = (PEER, self.generation);
        for side in [&mut self.from, &mut self.to] {
            side.handle_command(self.now, Command::Begin { peer, generation });
        }
        if !self.older {
            let frames = FrameKinds::ALL;
            self.from.handle_command(self.now, Command::TakesFrames { peer, generation, frames });
        }
        self.collect_events();
        self.events.clear();
        self.newest.0 = 0;
        self.epoch = (0, self.now);
        self.offer();
    }

    /// Whatever waits, ends.
    fn end(&mut self) {
        for _ in 0..3 {
            self.now = self.now + Duration::from_millis(200);
            self.handle_timeout();
        }
        let out = self.from.peer_counters(PEER);
        assert_eq!(out.out_pkts_tunnelled + discarded(&out, "Out"), self.dispatched, "{out:?}");
        let came = self.to.peer_counters(PEER);
        // Both parts of a frame are counted as one frame that is joined.
        let counted = came.in_pkts_tunnelled + came.in_pkts_joined + discarded(&came, "In");
        assert_eq!(counted, self.arrived, "{came:?}");
    }
}

fn number(frame: &[u8]) -> u32 {
    let octets = frame[NUMBER].first_chunk().expect("invariant: what is carried has a number");
    u32::from_be_bytes(*octets)
}

/// The sum of what was discarded in one direction.
fn discarded(counters: &PeerCounters, direction: &str) -> u64 {
    let rows = PeerCounters::TABLE.iter().zip(counters.values());
    rows.filter(|(row, _)| row.discard && row.name.starts_with(direction)).map(|(_, value)| value).sum()
}
