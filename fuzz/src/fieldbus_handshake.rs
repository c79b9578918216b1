//! The handshakes of two gateways for one relation, and the network between them, driven by a list of operations.
//!
//! Promises: no panic; one HELLO at most for one that came; no start of an end enters a session whose keys any start of it
//! had before; an end transmits only in a session that the other entered. And as long as nobody lies who has the master key,
//! a second and a half of quiet brings both into one session.

use std::collections::HashSet;
use std::time::Duration;

use arbitrary::{Arbitrary, Unstructured};
use fieldbus::handshake::{Handshake, HandshakeEvent, HandshakeState};
use fieldbus::relation::Relation;
use fieldbus::session::{EpochKey, SessionNumber};
use suite::SealJob;
use suite::fieldbus::MasterKey;
use wire::fieldbus::{
    CellSuite, ETHERTYPE, FrameId, HELLO_AUTHENTICATED_OCTETS, HandshakeNonce, Hello, HelloState, KeyId,
    Protect, Protection, Seq,
};
use wire::{Instant, MacAddr};

/// The most operations of a run.
const OPERATIONS: usize = 200;
/// The most HELLOs on their way.
const WIRE: usize = 64;
const STATIONS: [(MacAddr, FrameId); 2] =
    [(MacAddr([2, 0, 0, 0, 0, 1]), FrameId(0x8001)), (MacAddr([2, 0, 0, 0, 0, 2]), FrameId(0x8002))];
const PROTECTION: Protection = Protection { protect: Protect::Authenticate, suite: CellSuite::GcmAes128 };

#[derive(Arbitrary, Debug)]
enum Operation {
    Deliver {
        which: u8,
    },
    Lose {
        which: u8,
    },
    /// One that was said at some time, to whom it was for or to whoever said it.
    Replay {
        which: u16,
        back: bool,
    },
    Corrupt {
        which: u8,
        at: u8,
        bit: u8,
    },
    Raw {
        to: bool,
        octets: Vec<u8>,
    },
    Pass {
        milliseconds: u8,
    },
    Restart {
        end: bool,
        seed: Option<u8>,
    },
    /// The data path has verified a frame in one of the sessions.
    Heard {
        end: bool,
        back: u8,
    },
    Epoch {
        end: bool,
        back: u8,
        epoch: u64,
    },
    /// A HELLO of who has the master key: with nonces that were seen, or any.
    Lie {
        to: bool,
        entered: bool,
        own: u16,
        peers: Option<u16>,
        key_id: u8,
    },
}

struct End {
    handshake: Handshake,
    entered: Vec<(SessionNumber, Mark, Mark)>,
    transmits: Option<(Mark, Mark)>,
}

/// The first frame under a key: the same for the same key alone.
type Mark = [u8; 16];

struct World {
    now: Instant,
    ends: [End; 2],
    wire: Vec<(usize, Vec<u8>)>,
    recorded: Vec<(usize, Vec<u8>)>,
    known: [HashSet<Mark>; 2],
    starts: u8,
    honest: bool,
}

/// Reads `octets` as a list of operations and carries it out.
///
/// # Panics
/// If one of the promises above is broken.
pub fn run(octets: &[u8]) {
    let mut input = Unstructured::new(octets);
    let mut world = World {
        now: Instant::after_start(Duration::from_secs(1)),
        ends: [begin(0, 0, 0), begin(1, 0, 1)],
        wire: Vec::new(),
        recorded: Vec::new(),
        known: [HashSet::new(), HashSet::new()],
        starts: 1,
        honest: true,
    };
    world.pass(Duration::ZERO);
    for _ in 0..OPERATIONS {
        let Ok(operation) = Operation::arbitrary(&mut input) else { break };
        world.carry_out(operation);
        world.wire.truncate(WIRE);
        if input.is_empty() {
            break;
        }
    }
    world.settle();
}

fn begin(end: usize, number: u8, seed: u8) -> End {
    let relation =
        Relation::new(STATIONS[end], STATIONS[1 - end], Duration::from_millis(1)).expect("two stations");
    let mut octets = [seed; 32];
    octets[..2].copy_from_slice(&[end as u8, number]);
    let handshake = Handshake::new(&relation, &master().into(), PROTECTION, ETHERTYPE, &octets);
    End { handshake, entered: Vec::new(), transmits: None }
}

fn master() -> MasterKey {
    MasterKey::new(&[5; 32])
}

fn mark(key: &EpochKey) -> Mark {
    let mut icv = [0; 16];
    let nonce = key.key.nonce(Seq::FIRST);
    key.key.key().seal_each([SealJob { nonce, aad: b"mark", text: &mut [], icv: &mut icv }].into_iter());
    icv
}

impl World {
    fn follow(&mut self, end: usize) {
        while let Some(event) = self.ends[end].handshake.poll_event() {
            match event {
                HandshakeEvent::Enter(session) => {
                    let marks = (mark(&session.transmit[0]), mark(&session.receive[0]));
                    assert!(
                        self.known[end].insert(marks.0) || !self.honest,
                        "a session that was entered before"
                    );
                    self.ends[end].entered.push((session.number, marks.0, marks.1));
                }
                HandshakeEvent::Enable => {
                    let &(_, transmit, receive) = self.ends[end].entered.last().expect("a session");
                    assert_ne!(self.ends[end].transmits, Some((transmit, receive)), "enabled twice");
                    self.ends[end].transmits = Some((transmit, receive));
                    assert!(self.known[1 - end].contains(&receive) || !self.honest, "nobody is there");
                }
                HandshakeEvent::End => panic!("a session ends whose master key is there"),
            }
        }
        if let Some(frame) = self.ends[end].handshake.poll_transmit() {
            self.recorded.push((1 - end, frame.to_vec()));
            self.wire.push((1 - end, frame.to_vec()));
        }
        assert!(self.ends[end].handshake.poll_transmit().is_none(), "two HELLOs for one");
    }

    fn arrive(&mut self, to: usize, frame: &[u8]) {
        let before = self.ends[to].handshake.counters().values();
        let taken = self.ends[to].handshake.handle_frame(self.now, frame);
        let after = self.ends[to].handshake.counters().values();
        assert_ne!(before, after, "it was counted");
        if taken.is_err() {
            assert!(self.ends[to].handshake.poll_event().is_none(), "what is discarded changes nothing");
        }
        self.follow(to);
    }

    fn pass(&mut self, time: Duration) {
        self.now = self.now + time;
        for end in [0, 1] {
            self.ends[end].handshake.handle_timeout(self.now);
            self.follow(end);
            let due = self.ends[end].handshake.poll_timeout();
            assert!(due.is_none_or(|due| due > self.now));
            assert_eq!(due.is_none(), self.ends[end].handshake.state() == HandshakeState::Confirmed);
        }
    }

    fn carry_out(&mut self, operation: Operation) {
        let waiting = self.wire.len();
        match operation {
            Operation::Deliver { which } if waiting > 0 => {
                let (to, frame) = self.wire.remove(usize::from(which) % waiting);
                self.arrive(to, &frame);
            }
            Operation::Lose { which } if waiting > 0 => drop(self.wire.remove(usize::from(which) % waiting)),
            Operation::Replay { which, back } => {
                let (to, frame) = self.recorded[usize::from(which) % self.recorded.len()].clone();
                self.arrive(if back { 1 - to } else { to }, &frame);
            }
            Operation::Corrupt { which, at, bit } if waiting > 0 => {
                let frame = &mut self.wire[usize::from(which) % waiting].1;
                let at = usize::from(at) % frame.len();
                frame[at] ^= 1 << (bit % 8);
            }
            Operation::Raw { to, octets } => self.arrive(usize::from(to), &octets),
            Operation::Pass { milliseconds } => self.pass(Duration::from_millis(milliseconds.into())),
            Operation::Restart { end, seed } => {
                // Randomness that repeats itself: nonces of one end are drawn again.
                self.honest &= seed.is_none();
                self.starts = self.starts.wrapping_add(1);
                let number = if seed.is_some() { 0 } else { self.starts };
                self.ends[usize::from(end)] = begin(usize::from(end), number, seed.unwrap_or(9));
                self.pass(Duration::ZERO);
            }
            Operation::Heard { end, back } => self.heard(usize::from(end), usize::from(back)),
            Operation::Epoch { end, back, epoch } => {
                let End { handshake, entered, .. } = &mut self.ends[usize::from(end)];
                if let Some(&(number, ..)) = entered.iter().rev().nth(usize::from(back)) {
                    let keys =
                        [handshake.next_transmit(number, epoch), handshake.next_receive(number, epoch)];
                    assert!(keys.iter().flatten().all(|key| key.epoch == epoch));
                    assert!(back > 0 || keys.iter().all(Option::is_some), "the newest session has keys");
                }
            }
            Operation::Lie { to, entered, own, peers, key_id } => {
                self.honest = false;
                let frame = self.lie(usize::from(to), entered, own, peers, key_id);
                self.arrive(usize::from(to), &frame);
            }
            _ => {}
        }
    }

    /// A frame is verified in a session that both have entered and the other one transmits in.
    fn heard(&mut self, end: usize, back: usize) {
        let Some(&(number, transmit, receive)) = self.ends[end].entered.iter().rev().nth(back) else {
            return;
        };
        if self.ends[1 - end].transmits == Some((receive, transmit)) {
            self.ends[end].handshake.handle_verified_frame(number);
            self.follow(end);
        }
    }

    fn lie(&self, to: usize, entered: bool, own: u16, peers: Option<u16>, key_id: u8) -> Vec<u8> {
        let nonce = |number: u16| {
            let seen = self
                .recorded
                .get(usize::from(number >> 1))
                .and_then(|(_, frame)| Hello::parse(&frame[14..]).ok());
            match seen {
                Some((hello, ..)) if number & 1 == 0 => hello.own,
                Some((hello, ..)) => hello.peers.unwrap_or(hello.own),
                None => HandshakeNonce([number as u8; 16]),
            }
        };
        let ((destination, _), (source, frame_id)) = (STATIONS[to], STATIONS[1 - to]);
        let state = if entered { HelloState::Entered } else { HelloState::Request };
        let hello = Hello {
            frame_id,
            key_id: KeyId(key_id),
            state,
            protection: PROTECTION,
            own: nonce(own),
            peers: peers.map(nonce),
            other_key: None,
        };
        let mut buffer = [0; HELLO_AUTHENTICATED_OCTETS];
        let said = hello.encode(&mut buffer);
        let mac = master().hello_key(&STATIONS).mac(destination, source, said);
        [&destination.0[..], &source.0, &ETHERTYPE.0.to_be_bytes(), said, &mac].concat()
    }

    fn settle(&mut self) {
        for _ in 0..15 {
            for _ in 0..WIRE {
                let Some((to, frame)) = (!self.wire.is_empty()).then(|| self.wire.remove(0)) else { break };
                self.arrive(to, &frame);
            }
            self.pass(Duration::from_millis(100));
        }
        if !self.honest {
            return;
        }
        let [one, other] = &self.ends;
        assert_eq!([one, other].map(|end| end.handshake.state()), [HandshakeState::Confirmed; 2]);
        let newest = one.entered.last().map(|&(_, transmit, receive)| (receive, transmit));
        assert_eq!(newest, other.entered.last().map(|&(_, transmit, receive)| (transmit, receive)));
    }
}
