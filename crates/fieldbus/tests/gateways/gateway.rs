//! Control between handshake and data path, in a few lines; machines that send each cycle; a wire between.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use fieldbus::handshake::{Handshake, HandshakeEvent, PassedHandshake};
use fieldbus::session::SessionNumber;
use fieldbus::{
    Event, Incoming, InwardFrame, KeyChange, LiveSession, Moment, Outgoing, PassedRelation, ReceiveDiscard,
    Relations, Settings,
};
use suite::fieldbus::{MasterKey, MasterKeys};
use wire::fieldbus::{ETHERTYPE, HEADER_OCTETS, Header, Seq};
use wire::{Frame, Instant};

use crate::cell::{MODES, MTU, machine, settings};

pub(crate) const CYCLE: Duration = Duration::from_millis(1);
/// From one gateway to the other.
pub(crate) const WAY: Duration = Duration::from_micros(50);
/// End of the cell's EtherType in a protected frame behind one VLAN tag, and end of that tag in a machine's
/// frame.
const TAGGED: usize = 18;
/// Offset of the machine's own counter in its frame, behind the FrameID.
const COUNTER: usize = TAGGED + 2;
const PAYLOAD: usize = 40;
const HEADROOM: usize = 64;

/// One start of a gateway.
pub(crate) struct Gateway {
    pub(crate) cell: Relations,
    pub(crate) handshakes: Vec<Handshake>,
    /// The newest session of each relation.
    newest: Vec<SessionNumber>,
}

pub(crate) struct Plant {
    pub(crate) ends: [Gateway; 2],
    /// Every frame that was ever on the wire, and to whom.
    pub(crate) recorded: Vec<(usize, Vec<u8>)>,
    pub(crate) discards: HashMap<ReceiveDiscard, u64>,
    /// Nothing arrives.
    pub(crate) cut: bool,
    /// Nothing reaches this end.
    pub(crate) deaf: Option<usize>,
    now: Duration,
    relations: usize,
    epoch_end: u32,
    starts: u8,
    masters: [MasterKeys; 2],
    /// Number of HELLOs, the next ones, that the network loses.
    pub(crate) lost_hellos: u32,
    /// The machine behind this end sends nothing.
    pub(crate) silent_machine: Option<usize>,
    wire: Vec<(Duration, usize, Vec<u8>)>,
    next_cycle: Duration,
    /// Frames that the machine behind an end has sent in a relation, and the last of its peer's that it got.
    sent: [Vec<u32>; 2],
    heard: [Vec<u32>; 2],
    /// The first octets of the keystream of each frame: twice the same is one Seq twice under one key.
    keystreams: HashSet<[u8; 16]>,
    frames: Frames,
}

/// Machines' frames, and what became of them.
#[derive(Clone, Copy, Debug, Default)]
struct Frames {
    protected: u64,
    not_protected: u64,
    delivered: u64,
    discarded: u64,
    lost: u64,
    /// Put on the wire by an attacker.
    foreign: u64,
}

impl Plant {
    pub(crate) fn new(relations: usize) -> Self {
        Self::with_epochs(relations, u32::MAX - 1000)
    }

    pub(crate) fn with_epochs(relations: usize, epoch_end: u32) -> Self {
        let master = MasterKey::new(&[7; 32]);
        Self::with_keys(relations, epoch_end, [0, 1].map(|_| master.clone().into()))
    }

    pub(crate) fn with_keys(relations: usize, epoch_end: u32, masters: [MasterKeys; 2]) -> Self {
        let now = Duration::from_secs(1);
        let mut plant = Self {
            ends: [0, 1].map(|end| begin(end, relations, epoch_end, end as u8, &masters[end])),
            masters,
            lost_hellos: 0,
            silent_machine: None,
            recorded: Vec::new(),
            discards: HashMap::new(),
            cut: false,
            deaf: None,
            now,
            relations,
            epoch_end,
            starts: 2,
            wire: Vec::new(),
            next_cycle: now,
            sent: [0, 1].map(|_| vec![0; relations]),
            heard: [0, 1].map(|_| vec![0; relations]),
            keystreams: HashSet::new(),
            frames: Frames::default(),
        };
        plant.handle_timeout();
        plant
    }

    pub(crate) fn moment(&self) -> Moment {
        Moment::after_start(self.now)
    }

    pub(crate) fn restart(&mut self, end: usize) {
        self.ends[end] = begin(end, self.relations, self.epoch_end, self.starts, &self.masters[end]);
        self.starts += 1;
        self.handle_timeout();
    }

    /// A gateway becomes another program, which has its configuration and what it passes on.
    pub(crate) fn upgrade(&mut self, end: usize) {
        // Events are told before.
        self.handle_timeout();
        let Gateway { cell, handshakes, newest } = &self.ends[end];
        let passed = handshakes.iter().enumerate();
        let passed: Vec<_> =
            passed.map(|(number, of)| (of.pass_on().unwrap(), cell.pass_on(number))).collect();
        let document = serde_json::to_vec(&passed).unwrap();
        let newest = newest.clone();
        let mut next = begin(end, self.relations, self.epoch_end, self.starts, &self.masters[end]);
        self.starts += 1;
        let passed: Vec<(PassedHandshake, PassedRelation)> = serde_json::from_slice(&document).unwrap();
        for (number, (handshake, relation)) in passed.iter().enumerate() {
            let of = settings(end, number).relation;
            let seed = [self.starts; 32];
            let handshake =
                Handshake::go_on(&of, &self.masters[end], MODES[0], ETHERTYPE, &seed, handshake).unwrap();
            next.handshakes[number] = handshake;
            next.cell.go_on(number, relation, &mut next.handshakes[number]).unwrap();
        }
        self.ends[end] = Gateway { newest, ..next };
    }

    /// A gateway gets other master keys while it runs.
    pub(crate) fn reload(&mut self, end: usize, masters: &MasterKeys) {
        let now = Instant::after_start(self.now);
        self.masters[end] = masters.clone();
        self.ends[end].handshakes.iter_mut().for_each(|handshake| handshake.change_keys(now, masters));
        self.handle_timeout();
    }

    /// A gateway's relations are to have new sessions.
    pub(crate) fn renew_sessions(&mut self, end: usize) {
        let now = Instant::after_start(self.now);
        self.ends[end].handshakes.iter_mut().for_each(|handshake| handshake.renew_session(now));
        self.handle_timeout();
    }

    /// True if all sessions of both ends rest on this master key.
    pub(crate) fn all_rest_on(&self, master: &MasterKey) -> bool {
        let mut handshakes = self.ends.iter().flat_map(|end| &end.handshakes);
        handshakes.all(|handshake| handshake.session_key() == Some(master.id()))
    }

    pub(crate) fn pass(&mut self, time: Duration) {
        let end = self.now + time;
        loop {
            let due = self.ends.iter().flat_map(|end| &end.handshakes).filter_map(Handshake::poll_timeout);
            let due = due.min().map(|due| due.since(Instant::START).max(self.now));
            let arrives = self.wire.first().map(|&(arrives, ..)| arrives);
            let next = [Some(self.next_cycle), due, arrives].into_iter().flatten().min().unwrap();
            if next > end {
                self.now = end;
                return;
            }
            self.now = next.max(self.now);
            while self.wire.first().is_some_and(|&(arrives, ..)| arrives <= self.now) {
                let (_, to, frame) = self.wire.remove(0);
                if self.cut || self.deaf == Some(to) {
                    self.frames.lost += u64::from(is_data(&frame));
                } else {
                    self.arrive(to, &frame);
                }
            }
            if self.next_cycle <= self.now {
                self.next_cycle += CYCLE;
                for end in
                    [0, 1].into_iter().filter(|end| self.silent_machine != Some(*end)).collect::<Vec<_>>()
                {
                    (0..self.relations).for_each(|number| self.machine_sends(end, number));
                }
            }
            self.handle_timeout();
        }
    }

    /// Until every machine has got a frame that was sent after now; how long that took.
    pub(crate) fn until_all_flow(&mut self, most: Duration) -> Option<Duration> {
        let (start, sent) = (self.now, self.sent.clone());
        while self.now - start < most {
            let got =
                |end: usize| self.heard[end].iter().zip(&sent[1 - end]).all(|(heard, sent)| heard > sent);
            if got(0) && got(1) {
                return Some(self.now - start);
            }
            self.pass(Duration::from_micros(10));
        }
        None
    }

    fn machine_sends(&mut self, end: usize, number: usize) {
        let count = &mut self.sent[end][number];
        *count += 1;
        let frame = cyclic(end, number, *count);
        let mut chunk = [&[0; HEADROOM][..], &frame, &[0; HEADROOM]].concat();
        let cell = &mut self.ends[end].cell;
        let found = cell.find_outward(&frame).expect("a relation's");
        let mut burst = [Outgoing::new(Frame::new(&mut chunk, HEADROOM, frame.len()).unwrap(), found)];
        cell.protect(&mut burst);
        let [outgoing] = burst;
        let octets = outgoing.frame().octets().to_vec();
        if outgoing.into_outcome().is_err() {
            self.frames.not_protected += 1;
            return;
        }
        self.frames.protected += 1;
        let sealed = &octets[TAGGED + HEADER_OCTETS..];
        let keystream: Vec<u8> = sealed.iter().zip(&frame[COUNTER..]).map(|(a, b)| a ^ b).take(16).collect();
        assert!(self.keystreams.insert(keystream.try_into().unwrap()), "a Seq twice under one key");
        self.send(1 - end, octets);
    }

    fn send(&mut self, to: usize, frame: Vec<u8>) {
        self.recorded.push((to, frame.clone()));
        if !is_data(&frame) && self.lost_hellos > 0 {
            self.lost_hellos -= 1;
            return;
        }
        self.wire.push((self.now + WAY, to, frame));
    }

    /// A frame comes in from the protected side.
    pub(crate) fn arrive(&mut self, to: usize, frame: &[u8]) {
        let inward = self.ends[to].cell.find_inward(frame);
        let counted = self.frames.delivered + self.frames.discarded;
        match inward {
            InwardFrame::Hello(found) => {
                let now = Instant::after_start(self.now);
                let _ = self.ends[to].handshakes[found.relation()].handle_frame(now, frame);
            }
            InwardFrame::Protected(found) => {
                let mut chunk = [&[0; HEADROOM][..], frame, &[0; HEADROOM]].concat();
                let mut burst =
                    [Incoming::new(Frame::new(&mut chunk, HEADROOM, frame.len()).unwrap(), found)];
                let now = self.moment();
                self.ends[to].cell.verify(now, &mut burst);
                let [incoming] = burst;
                let octets = incoming.frame().octets().to_vec();
                match incoming.into_outcome() {
                    Ok(_) => self.machine_gets(to, found.relation(), &octets),
                    Err(discard) => {
                        self.frames.discarded += 1;
                        *self.discards.entry(discard).or_default() += 1;
                    }
                }
            }
            InwardFrame::Other | InwardFrame::Clear(_) | InwardFrame::Foreign(_) => {}
        }
        if is_data(frame) && self.frames.delivered + self.frames.discarded == counted {
            self.frames.discarded += 1;
        }
        self.handle_timeout();
    }

    fn machine_gets(&mut self, to: usize, number: usize, frame: &[u8]) {
        self.frames.delivered += 1;
        let count = u32::from_be_bytes(frame[COUNTER..COUNTER + 4].try_into().unwrap());
        assert!(count > self.heard[to][number], "{count} after {}", self.heard[to][number]);
        assert!(count <= self.sent[1 - to][number], "nobody has sent that yet");
        assert_eq!(frame, cyclic(1 - to, number, count), "octet for octet");
        self.heard[to][number] = count;
    }

    /// Work of control in a turn.
    fn handle_timeout(&mut self) {
        let (now, moment) = (Instant::after_start(self.now), self.moment());
        for end in [0, 1] {
            self.ends[end].cell.handle_timeout(moment);
            let mut says = Vec::new();
            let Gateway { cell, handshakes, newest } = &mut self.ends[end];
            while let Some((number, event)) = cell.poll_event() {
                let handshake = &mut handshakes[number];
                match event {
                    Event::SessionVerified(session) => handshake.handle_verified_frame(session),
                    Event::TransmitEpoch(session, epoch) => {
                        if let Some(key) = handshake.next_transmit(session, epoch + 1) {
                            cell.change(number, KeyChange::NextTransmit(session, key));
                        }
                    }
                    Event::ReceiveEpoch(session, epoch) => {
                        if let Some(key) = handshake.next_receive(session, epoch + 1) {
                            cell.change(number, KeyChange::NextReceive(session, key));
                        }
                    }
                    Event::Alarm(_) => {}
                    Event::Lost => handshake.request_session(),
                }
            }
            for (number, handshake) in handshakes.iter_mut().enumerate() {
                handshake.handle_timeout(now);
                while let Some(event) = handshake.poll_event() {
                    let change = match event {
                        HandshakeEvent::Enter(session) => {
                            newest[number] = session.number;
                            KeyChange::Enter(LiveSession::new(*session))
                        }
                        HandshakeEvent::Enable => KeyChange::Enable(newest[number]),
                        HandshakeEvent::End => KeyChange::Leave,
                    };
                    cell.change(number, change);
                }
                says.extend(std::iter::from_fn(|| handshake.poll_transmit()));
            }
            says.into_iter().for_each(|hello| self.send(1 - end, hello.to_vec()));
        }
    }

    /// A frame that was on the wire at some time comes to either end.
    pub(crate) fn replay(&mut self, which: usize, to: usize) {
        let frame = self.recorded[which % self.recorded.len()].1.clone();
        self.frames.foreign += u64::from(is_data(&frame));
        self.arrive(to, &frame);
    }

    /// One that is under way is altered.
    pub(crate) fn flip(&mut self, which: usize, bit: usize) {
        let count = self.wire.len();
        let Some((_, _, frame)) = which.checked_rem(count).map(|place| &mut self.wire[place]) else { return };
        // Not what finds it: then it would be no frame of the cell any more.
        let first = (if frame[12] == 0x81 { TAGGED } else { 14 }) * 8 + 56;
        let bit = first + bit % (frame.len() * 8 - first);
        frame[bit / 8] ^= 1 << (bit % 8);
    }

    pub(crate) fn lose(&mut self) {
        if !self.wire.is_empty() {
            let (_, _, frame) = self.wire.remove(0);
            self.frames.lost += u64::from(is_data(&frame));
        }
    }

    /// Frames under way that are so are lost.
    pub(crate) fn drop_under_way(&mut self, is_so: impl Fn(&[u8]) -> bool) {
        self.wire.retain(|(_, _, frame)| !is_so(frame));
    }

    /// Number of the last frame that the machine behind an end has sent in the first relation.
    pub(crate) fn last_sent(&self, end: usize) -> u32 {
        self.sent[end][0]
    }

    /// The first frame that is under way comes last.
    pub(crate) fn swap(&mut self) {
        if self.wire.len() > 1 {
            let last = self.wire.len() - 1;
            self.wire[0].0 = self.wire[last].0;
            self.wire.rotate_left(1);
        }
    }

    pub(crate) fn sent(&self) -> u64 {
        self.frames.protected + self.frames.not_protected
    }

    pub(crate) fn delivered(&self) -> u64 {
        self.frames.delivered
    }

    pub(crate) fn under_way(&self) -> u64 {
        self.wire.iter().filter(|(_, _, frame)| is_data(frame)).count() as u64
    }

    /// Each frame that a machine sent was refused, lost, discarded for a reason, delivered, or is under way.
    pub(crate) fn assert_accounted_for(&self) {
        let Frames { protected, delivered, discarded, lost, foreign, .. } = self.frames;
        assert_eq!(protected + foreign, delivered + discarded + lost + self.under_way(), "{:?}", self.frames);
    }
}

/// The frame of a cycle: as the machine sends it, and as its peer gets it.
fn cyclic(from: usize, number: usize, count: u32) -> Vec<u8> {
    let mut frame = machine(from, number, PAYLOAD);
    frame[COUNTER..COUNTER + 4].copy_from_slice(&count.to_be_bytes());
    frame
}

/// A protected frame of a machine, and no HELLO.
fn is_data(frame: &[u8]) -> bool {
    frame[12] == 0x81 && Header::parse(&frame[TAGGED..]).is_ok_and(|header| header.seq.is_some())
}

fn begin(end: usize, relations: usize, epoch_end: u32, start: u8, masters: &MasterKeys) -> Gateway {
    let mut of = Settings::new(MODES[0], MTU);
    of.epoch_end = Seq::new(epoch_end).unwrap();
    let relations: Vec<_> = (0..relations).map(|number| settings(end, number)).collect();
    let handshake = |(number, relation): (usize, &fieldbus::RelationSettings)| {
        let mut seed = [start; 32];
        seed[..3].copy_from_slice(&[end as u8, number as u8, 1]);
        Handshake::new(&relation.relation, masters, MODES[0], ETHERTYPE, &seed)
    };
    Gateway {
        newest: vec![SessionNumber(0); relations.len()],
        handshakes: relations.iter().enumerate().map(|(number, of)| handshake((number, of))).collect(),
        cell: Relations::new(of, &relations).unwrap(),
    }
}
