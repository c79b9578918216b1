//! The data paths of two gateways for three relations, of PROFINET, EtherCAT and EtherNet/IP, the last of them in shadow mode, driven by a
//! list of operations: frames of
//! machines, epochs that end, sessions that come and go, and any octets from either side.
//!
//! Promises: no panic; a frame that is delivered was sent by the peer's machine in that relation, comes out octet for octet, once,
//! and behind no newer one; no Seq protects twice under one key; counters account for each frame.

use std::collections::HashSet;
use std::time::Duration;

use arbitrary::{Arbitrary, Unstructured};
use fieldbus::relation::Relation;
use fieldbus::session::{EpochKey, Session, SessionNumber};
use fieldbus::{
    Direction, Event, Incoming, InwardFrame, KeyChange, LiveSession, Mode, Moment, Outgoing,
    RelationSettings, Relations, Settings, VlanTag,
};
use suite::fieldbus::{KeyContext, MasterKey};
use wire::fieldbus::{CellSuite, FrameId, HandshakeNonce, KeyId, Protect, Protection, Protocol, Seq, Target};
use wire::{Frame, MacAddr};

/// The most operations of a run.
const OPERATIONS: usize = 300;
/// The most frames on their way.
const WIRE: usize = 64;
const RELATIONS: usize = 3;
const SHADOW: usize = 2;
const HEADROOM: usize = 64;
const CHUNK: usize = 1700;
/// The first octet behind addresses, tag and EtherType.
const BODY: usize = 18;
/// The beginning of EtherNet/IP's cyclic packets: IPv4, UDP, item count, sequenced address.
const ETHERNET_IP: [u8; 36] = [
    0x45, 0, 0, 0, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2, 8, 0xae, 8, 0xae, 0, 0, 0, 0, 2, 0, 2,
    0x80, 8, 0, 0, 0,
];
const PROTOCOLS: [Protocol; RELATIONS] = [Protocol::Profinet, Protocol::EtherCat, Protocol::EtherNetIp];
const BROADCAST: MacAddr = MacAddr([0xff; 6]);

#[derive(Arbitrary, Debug)]
enum Operation {
    /// Machines behind an end send some frames as one burst.
    Send {
        end: bool,
        frames: Vec<(u8, u16)>,
    },
    /// `count` frames arrive as one burst.
    Deliver {
        count: u8,
    },
    Swap {
        a: u8,
        b: u8,
    },
    Lose {
        which: u8,
    },
    Copy {
        which: u8,
        other_way: bool,
    },
    Corrupt {
        which: u8,
        at: u16,
        bit: u8,
    },
    /// Any octets, from the network or from a machine; or behind a front that finds a relation.
    Raw {
        end: bool,
        outward: bool,
        front: Option<u8>,
        octets: Vec<u8>,
    },
    /// Both ends enter another session, and one of them, or both, protect in it.
    Session {
        relation: u8,
        key_id: u8,
        first: bool,
        both: bool,
    },
    Enable {
        end: bool,
        relation: u8,
    },
    /// One end alone begins anew.
    Restart {
        end: bool,
    },
    Pass {
        microseconds: u16,
    },
    /// Control does what the data path has asked for.
    Control {
        end: bool,
    },
}

struct World {
    ends: [Relations; 2],
    wire: Vec<(usize, Vec<u8>)>,
    now: Moment,
    protection: Protection,
    /// Sessions that each relation had, and the newest that each end has entered.
    sessions: [u32; RELATIONS],
    entered: [[u32; RELATIONS]; 2],
    first_key_ids: Vec<[KeyId; RELATIONS]>,
    sent: [[u32; RELATIONS]; 2],
    heard: [[u32; RELATIONS]; 2],
    octets_sent: HashSet<Vec<u8>>,
    keystreams: HashSet<[u8; 12]>,
    epoch_end: Seq,
}

/// Reads `octets` as a list of operations and carries it out.
///
/// # Panics
/// If one of the promises above is broken.
pub fn run(octets: &[u8]) {
    let mut input = Unstructured::new(octets);
    let Ok((epoch_end, bits, authenticate)) = <(u8, bool, bool)>::arbitrary(&mut input) else { return };
    let protection = Protection {
        protect: if authenticate { Protect::Authenticate } else { Protect::Encrypt },
        suite: if bits { CellSuite::GcmAes256 } else { CellSuite::GcmAes128 },
    };
    let epoch_end = Seq::new(u32::from(epoch_end) + 2).expect("it is not 0");
    let mut world = World {
        ends: [0, 1].map(|end| begin(end, protection, epoch_end)),
        wire: Vec::new(),
        now: Moment::after_start(Duration::from_secs(1)),
        protection,
        sessions: [0; RELATIONS],
        entered: [[0; RELATIONS]; 2],
        first_key_ids: vec![[KeyId(0); RELATIONS]],
        sent: [[0; RELATIONS]; 2],
        heard: [[0; RELATIONS]; 2],
        octets_sent: HashSet::new(),
        keystreams: HashSet::new(),
        epoch_end,
    };
    (0..RELATIONS).for_each(|number| world.session(number, 7, true, true));
    for _ in 0..OPERATIONS {
        let Ok(operation) = Operation::arbitrary(&mut input) else { break };
        world.carry_out(operation);
        world.wire.truncate(WIRE);
        if input.is_empty() {
            break;
        }
    }
}

fn stations(number: usize) -> [(MacAddr, FrameId); 2] {
    let device = MacAddr([2, 0, 0, number as u8, 0, 2]);
    let only = PROTOCOLS[number].only_identification();
    [
        (MacAddr([2, 0, 0, 1, 0, 1]), only.unwrap_or(FrameId(0x8000))),
        (device, only.unwrap_or(FrameId(0x8000 + number as u16))),
    ]
}

/// Destination of a station of the relation: EtherCAT's is all.
fn target(number: usize) -> Target {
    if PROTOCOLS[number] == Protocol::EtherCat { Target::Group(BROADCAST) } else { Target::Peer }
}

/// Addresses of frames of the station behind an end.
fn addresses(from: usize, number: usize) -> [u8; 12] {
    let stations = stations(number);
    let to = if let Target::Group(group) = target(number) { group } else { stations[1 - from].0 };
    let mut octets = [0; 12];
    octets[..6].copy_from_slice(&to.0);
    octets[6..].copy_from_slice(&stations[from].0.0);
    octets
}

/// Octets in front of the machine's counter.
fn begins(from: usize, number: usize) -> Vec<u8> {
    match PROTOCOLS[number] {
        Protocol::EtherNetIp => ETHERNET_IP.to_vec(),
        _ => stations(number)[from].1.0.to_be_bytes().to_vec(),
    }
}

fn begin(end: usize, protection: Protection, epoch_end: Seq) -> Relations {
    let of = Settings { epoch_end, vlan: Some(VlanTag::PROFINET), ..Settings::new(protection, 1532) };
    let relation = |number: usize| {
        let stations = stations(number);
        let cycle = Duration::from_millis(1);
        let relation = Relation::new(stations[end], stations[1 - end], cycle).expect("two stations");
        RelationSettings {
            relation: relation.of(PROTOCOLS[number], target(number), target(number)).expect("it can be"),
            mode: if number == SHADOW { Mode::Shadow } else { Mode::Protect },
            alarm: 2 * cycle,
        }
    };
    Relations::new(of, &[0, 1, 2].map(relation)).expect("three relations")
}

/// Frame of a machine: tag, identification, its counter, zeros.
fn machine(end: usize, number: usize, count: u32, payload: usize) -> Vec<u8> {
    let ethertype = PROTOCOLS[number].ethertype().0.to_be_bytes();
    let begins = begins(end, number);
    let front: [&[u8]; 5] =
        [&addresses(end, number), &[0x81, 0, 0xc0, 0], &ethertype, &begins, &count.to_be_bytes()];
    let mut frame = front.concat();
    // At least as much that nothing is padded.
    frame.resize(frame.len() + 20 + payload % 1400, 0);
    frame
}

fn chunk(frame: &[u8]) -> Vec<u8> {
    let mut chunk = vec![0xee; CHUNK];
    let octets = frame.len().min(CHUNK - HEADROOM);
    chunk[HEADROOM..HEADROOM + octets].copy_from_slice(&frame[..octets]);
    chunk
}

impl World {
    fn key(&self, number: usize, session: u32, from: usize, key_id: KeyId, epoch: u64) -> EpochKey {
        let stations = stations(number);
        let mut sorted = stations;
        sorted.sort_unstable();
        let nonce = |octet: u8| {
            let mut nonce = [octet; 16];
            nonce[..4].copy_from_slice(&session.to_be_bytes());
            HandshakeNonce(nonce)
        };
        let direction = KeyContext {
            stations: sorted,
            from_higher: stations[from].0 > stations[1 - from].0,
            nonces: [nonce(1), nonce(2)],
            protection: self.protection,
            epoch,
        };
        let key_id = KeyId(key_id.0.wrapping_add(epoch as u8));
        EpochKey { key_id, epoch, key: MasterKey::new(&[5; 32]).direction_key(&direction) }
    }

    fn session(&mut self, number: usize, key_id: u8, first: bool, both: bool) {
        self.sessions[number] += 1;
        let session = self.sessions[number];
        let named = self.first_key_ids.len();
        if named <= session as usize {
            self.first_key_ids.push([KeyId(0); RELATIONS]);
        }
        self.first_key_ids[session as usize][number] = KeyId(key_id);
        for end in [0, 1] {
            let keys =
                |from: usize| [0, 1].map(|epoch| self.key(number, session, from, KeyId(key_id), epoch));
            let session =
                Session { number: SessionNumber(session), transmit: keys(end), receive: keys(1 - end) };
            let number_of_it = session.number;
            self.entered[end][number] = session.number.0;
            self.ends[end].change(number, KeyChange::Enter(LiveSession::new(session)));
            if both || (end == 0) == first {
                self.ends[end].change(number, KeyChange::Enable(number_of_it));
            }
        }
    }

    fn control(&mut self, end: usize) {
        let mut events = 0;
        while let Some((number, event)) = self.ends[end].poll_event() {
            events += 1;
            assert!(events <= 4 * RELATIONS, "events without end");
            let change = match event {
                Event::SessionVerified(_) => KeyChange::Collect,
                Event::Alarm(_) | Event::Lost => continue,
                Event::TransmitEpoch(session, epoch) => {
                    let key_id = self.first_key_ids[session.0 as usize][number];
                    KeyChange::NextTransmit(session, self.key(number, session.0, end, key_id, epoch + 1))
                }
                Event::ReceiveEpoch(session, epoch) => {
                    let key_id = self.first_key_ids[session.0 as usize][number];
                    KeyChange::NextReceive(session, self.key(number, session.0, 1 - end, key_id, epoch + 1))
                }
            };
            self.ends[end].change(number, change);
        }
    }

    fn send(&mut self, end: usize, frames: &[(u8, u16)]) {
        let mut sent = Vec::new();
        for &(number, payload) in frames.iter().take(32) {
            let number = usize::from(number) % RELATIONS;
            self.sent[end][number] += 1;
            sent.push((number, machine(end, number, self.sent[end][number], payload.into())));
        }
        let mut chunks: Vec<_> = sent.iter().map(|(_, frame)| chunk(frame)).collect();
        let cell = &mut self.ends[end];
        let before: u64 = (0..RELATIONS).map(|number| accounted(cell, number, self.now).0).sum();
        let mut burst = Vec::new();
        for ((number, frame), chunk) in sent.iter().zip(&mut chunks) {
            let found = cell.find_outward(frame).expect("a relation's");
            assert_eq!(found.relation(), *number);
            let in_clear = cell.pass_clear(found, Direction::Outward, frame);
            assert_eq!(in_clear.is_some(), *number == SHADOW);
            self.octets_sent.insert(frame.clone());
            if in_clear.is_some() {
                self.wire.push((1 - end, frame.clone()));
            }
            burst.push(Outgoing::new(Frame::new(chunk, HEADROOM, frame.len()).expect("it is inside"), found));
        }
        cell.protect(&mut burst);
        let outcomes: Vec<_> = burst
            .into_iter()
            .map(|outgoing| {
                let octets = outgoing.frame().octets().to_vec();
                outgoing.into_outcome().map(|_| octets)
            })
            .collect();
        let after: u64 = (0..RELATIONS).map(|number| accounted(cell, number, self.now).0).sum();
        assert_eq!(after - before, sent.len() as u64, "each frame is counted once");
        for ((number, frame), octets) in sent.iter().zip(outcomes) {
            let Ok(octets) = octets else { continue };
            if self.protection.protect == Protect::Encrypt {
                // Behind the counter; the header takes the place of what identifies the frame.
                let at = BODY + begins(end, *number).len() + 4;
                let moved = at + 7 - PROTOCOLS[*number].identification_octets();
                let keystream = octets[moved..moved + 12].iter().zip(&frame[at..at + 12]).map(|(a, b)| a ^ b);
                let keystream: Vec<u8> = keystream.collect();
                assert!(
                    self.keystreams.insert(keystream.try_into().expect("12 octets")),
                    "a Seq twice under one key"
                );
            }
            self.wire.push((1 - end, octets));
        }
    }

    fn deliver(&mut self, count: usize) {
        let Some(&(end, _)) = self.wire.first() else { return };
        let count = self.wire.iter().take(count).take_while(|(to, _)| *to == end).count();
        let frames: Vec<_> = self.wire.drain(..count).map(|(_, frame)| frame).collect();
        self.arrive(end, &frames);
    }

    fn arrive(&mut self, end: usize, frames: &[Vec<u8>]) {
        let mut chunks: Vec<_> = frames.iter().map(|frame| chunk(frame)).collect();
        let cell = &mut self.ends[end];
        let before: u64 = (0..RELATIONS).map(|number| accounted(cell, number, self.now).1).sum();
        let (mut burst, mut in_clear) = (Vec::new(), Vec::new());
        for (frame, chunk) in frames.iter().zip(&mut chunks) {
            match cell.find_inward(frame) {
                InwardFrame::Protected(found) => {
                    let frame = Frame::new(chunk, HEADROOM, frame.len()).expect("it is inside");
                    burst.push((found.relation(), Incoming::new(frame, found)));
                }
                InwardFrame::Clear(found) => {
                    let passes = cell.pass_clear(found, Direction::Inward, frame).is_some();
                    assert_eq!(passes, found.relation() == SHADOW, "in clear");
                    in_clear.push(found.relation());
                }
                InwardFrame::Other | InwardFrame::Hello(_) | InwardFrame::Foreign(_) => {}
            }
        }
        let (numbers, mut burst): (Vec<_>, Vec<_>) = burst.into_iter().unzip();
        cell.verify(self.now, &mut burst);
        let outcomes: Vec<_> = burst
            .into_iter()
            .map(|incoming| {
                let octets = incoming.frame().octets().to_vec();
                incoming.into_outcome().map(|_| octets)
            })
            .collect();
        let after: u64 = (0..RELATIONS).map(|number| accounted(cell, number, self.now).1).sum();
        assert_eq!(after - before, (outcomes.len() + in_clear.len()) as u64, "each frame is counted once");
        for (number, octets) in numbers.into_iter().zip(outcomes) {
            let Ok(octets) = octets else { continue };
            assert!(self.octets_sent.contains(&octets), "octet for octet what a machine sent: {octets:02x?}");
            let stations = stations(number);
            assert_eq!(octets[6..12], stations[1 - end].0.0, "by its peer");
            let counter = BODY + begins(1 - end, number).len();
            let count = u32::from_be_bytes(octets[counter..counter + 4].try_into().expect("4 octets"));
            let heard = &mut self.heard[end][number];
            assert!(count > *heard, "{count} behind {heard}");
            *heard = count;
        }
    }

    fn carry_out(&mut self, operation: Operation) {
        let waiting = self.wire.len();
        match operation {
            Operation::Send { end, frames } => self.send(usize::from(end), &frames),
            Operation::Deliver { count } => self.deliver(usize::from(count % 16) + 1),
            Operation::Swap { a, b } if waiting > 0 => {
                self.wire.swap(usize::from(a) % waiting, usize::from(b) % waiting);
            }
            Operation::Lose { which } if waiting > 0 => drop(self.wire.remove(usize::from(which) % waiting)),
            Operation::Copy { which, other_way } if waiting > 0 => {
                let (to, frame) = self.wire[usize::from(which) % waiting].clone();
                self.wire.push((if other_way { 1 - to } else { to }, frame));
            }
            Operation::Corrupt { which, at, bit } if waiting > 0 => {
                let frame = &mut self.wire[usize::from(which) % waiting].1;
                if let Some(at) = usize::from(at).checked_rem(frame.len()) {
                    frame[at] ^= 1 << (bit % 8);
                }
            }
            Operation::Raw { end, outward, front, octets } => {
                self.raw(usize::from(end), outward, front, &octets)
            }
            Operation::Session { relation, key_id, first, both } => {
                self.session(usize::from(relation) % RELATIONS, key_id, first, both);
            }
            Operation::Enable { end, relation } => {
                let (end, number) = (usize::from(end), usize::from(relation) % RELATIONS);
                let session = SessionNumber(self.entered[end][number]);
                self.ends[end].change(number, KeyChange::Enable(session));
            }
            Operation::Restart { end } => {
                self.ends[usize::from(end)] = begin(usize::from(end), self.protection, self.epoch_end);
            }
            Operation::Pass { microseconds } => {
                self.now = self.now.later(Duration::from_micros(microseconds.into()));
                for end in &mut self.ends {
                    end.handle_timeout(self.now);
                }
            }
            Operation::Control { end } => self.control(usize::from(end)),
            _ => {}
        }
    }

    fn raw(&mut self, end: usize, outward: bool, front: Option<u8>, octets: &[u8]) {
        let mut frame = Vec::new();
        if let Some(front) = front {
            let number = usize::from(front) % RELATIONS;
            let from = if outward { end } else { 1 - end };
            frame.extend(addresses(from, number));
            if front & 0x40 != 0 {
                frame.extend([0x81, 0, 0xc0, 0]);
            }
            if outward || front & 0x80 != 0 {
                frame.extend(PROTOCOLS[number].ethertype().0.to_be_bytes());
                frame.extend(begins(from, number));
            } else {
                frame.extend([0x88, 0xb5]);
                frame.extend(stations(number)[from].1.0.to_be_bytes());
            }
        }
        frame.extend(&octets[..octets.len().min(1500)]);
        if !outward {
            self.arrive(end, &[frame]);
            return;
        }
        let cell = &mut self.ends[end];
        let Some(found) = cell.find_outward(&frame) else { return };
        let mut octets = chunk(&frame);
        let mut burst =
            [Outgoing::new(Frame::new(&mut octets, HEADROOM, frame.len()).expect("it is inside"), found)];
        cell.protect(&mut burst);
    }
}

/// Frames of a relation that were counted, outward and inward.
fn accounted(cell: &Relations, number: usize, now: Moment) -> (u64, u64) {
    let status = cell.status(number, now);
    let (out, come) = (status.transmit, status.receive);
    let outward =
        out.out_pkts_protected + out.out_pkts_no_session + out.out_pkts_seq_exhausted + out.out_pkts_too_long;
    let inward = come.in_pkts_ok
        + come.in_pkts_too_short
        + come.in_pkts_no_session
        + come.in_pkts_unknown_key
        + come.in_pkts_late
        + come.in_pkts_not_valid
        + come.in_pkts_shadow
        + come.in_pkts_clear
        + come.in_pkts_clear_refused;
    (outward, inward)
}
