//! Two ends, and what is on its way between them.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use fieldbus::handshake::{Handshake, HandshakeEvent, HandshakeState, HelloCounters};
use fieldbus::relation::Relation;
use fieldbus::session::{EpochKey, Session};
use suite::fieldbus::MasterKey;
use suite::{OpenJob, SealJob};
use wire::fieldbus::{CellSuite, ETHERTYPE, FrameId, Hello, Protect, Protection, Seq};
use wire::{EtherType, Instant, MacAddr};

pub(crate) const PLC: (MacAddr, FrameId) = (MacAddr([2, 0, 0, 0, 1, 1]), FrameId(0x8001));
pub(crate) const DEVICE: (MacAddr, FrameId) = (MacAddr([2, 0, 0, 0, 0, 9]), FrameId(0x8002));
pub(crate) const ENCRYPT: Protection = Protection { protect: Protect::Encrypt, suite: CellSuite::GcmAes128 };
pub(crate) const ETHERNET: usize = 14;

/// A multiplicative congruential generator (L'Ecuyer): what happens follows from the seed.
#[derive(Clone, Debug)]
pub(crate) struct Chance(u64);

impl Chance {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(2).wrapping_add(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(2_862_933_555_777_941_757).wrapping_add(3_037_000_493);
        (self.0 >> 33) % bound
    }
}

pub(crate) fn relation(end: usize) -> Relation {
    let cycle = Duration::from_millis(1);
    let (local, remote) = if end == 0 { (PLC, DEVICE) } else { (DEVICE, PLC) };
    Relation::new(local, remote, cycle).expect("two stations")
}

pub(crate) fn master() -> MasterKey {
    MasterKey::new(b"thirty-two octets for whole cell")
}

pub(crate) fn hello(frame: &[u8]) -> Hello {
    Hello::parse(&frame[ETHERNET..]).expect("a HELLO").0
}

/// 16 zeros sealed: the same for the same key, and for no other.
pub(crate) fn mark(key: &EpochKey) -> [u8; 32] {
    let (mut text, mut icv) = ([0; 16], [0; 16]);
    let nonce = key.key.nonce(Seq::FIRST);
    key.key.key().seal_each([SealJob { nonce, aad: b"mark", text: &mut text, icv: &mut icv }].into_iter());
    [text, icv].concat().try_into().expect("32 octets")
}

/// Whether what one key seals the other opens, and both have one name.
pub(crate) fn agree(transmit: &EpochKey, receive: &EpochKey) -> bool {
    let (mut text, mut icv, mut authentic) = (*b"an output", [0; 16], false);
    let aad = [transmit.key_id.0];
    let nonce = transmit.key.nonce(Seq::LAST);
    transmit.key.key().seal_each([SealJob { nonce, aad: &aad, text: &mut text, icv: &mut icv }].into_iter());
    assert_ne!(&text, b"an output");
    let (nonce, aad) = (receive.key.nonce(Seq::LAST), [receive.key_id.0]);
    let job = OpenJob { nonce, aad: &aad, text: &mut text, icv: &icv, authentic: &mut authentic };
    receive.key.key().open_each([job].into_iter());
    authentic && &text == b"an output"
}

/// One start of a gateway.
pub(crate) struct End {
    pub(crate) handshake: Handshake,
    /// Sessions that it entered since it started.
    pub(crate) sessions: Vec<Session>,
    /// Up to which of them it was told to transmit.
    pub(crate) enabled: Option<usize>,
}

impl End {
    pub(crate) fn newest(&self) -> Option<&Session> {
        self.sessions.last()
    }

    /// The session that it transmits under.
    pub(crate) fn transmits(&self) -> Option<&Session> {
        self.enabled.map(|place| &self.sessions[place])
    }
}

/// Treatment of a HELLO by the network.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Network {
    /// Of each frame, in percent.
    pub(crate) loss: u64,
    /// Of each frame, in percent.
    pub(crate) copies: u64,
    /// The shortest and the longest way, in microseconds: where they differ frames overtake each other.
    pub(crate) delay: (u64, u64),
}

pub(crate) const FAIR: Network = Network { loss: 0, copies: 0, delay: (100, 100) };

pub(crate) struct World {
    pub(crate) now: Instant,
    pub(crate) ends: [End; 2],
    pub(crate) network: Network,
    /// Hears nothing.
    pub(crate) deaf: Option<usize>,
    /// Frames under way: time of arrival, receiver, octets. In the order of arrival.
    pub(crate) wire: Vec<(Instant, usize, Vec<u8>)>,
    /// Every HELLO that was ever sent, and to whom.
    pub(crate) recorded: Vec<(usize, Vec<u8>)>,
    /// Sessions that were entered, over all starts: mark of the transmit key.
    entered: [HashSet<[u8; 32]>; 2],
    /// Owner of a session with this key.
    owners: HashMap<[u8; 32], usize>,
    chance: Chance,
    starts: u64,
}

impl World {
    pub(crate) fn new(seed: u64, network: Network) -> Self {
        let mut world = Self {
            now: Instant::after_start(Duration::from_secs(5)),
            ends: [start(0, 0, seed), start(1, 1, seed)],
            network,
            deaf: None,
            wire: Vec::new(),
            recorded: Vec::new(),
            entered: [HashSet::new(), HashSet::new()],
            owners: HashMap::new(),
            chance: Chance::new(seed),
            starts: 2,
        };
        world.due();
        world
    }

    /// One that has come so far that both ends are in a confirmed session.
    pub(crate) fn settled(seed: u64) -> Self {
        let mut world = Self::new(seed, FAIR);
        world.pass(Duration::from_millis(1));
        world.assert_settled();
        world
    }

    pub(crate) fn restart(&mut self, end: usize) {
        self.ends[end] = start(end, self.starts, self.chance.0);
        self.starts += 1;
        self.due();
    }

    pub(crate) fn counters(&self, end: usize) -> &HelloCounters {
        self.ends[end].handshake.counters()
    }

    pub(crate) fn states(&self) -> [HandshakeState; 2] {
        [self.ends[0].handshake.state(), self.ends[1].handshake.state()]
    }

    /// Answers and events of an end after an input.
    pub(crate) fn follow(&mut self, end: usize) {
        while let Some(event) = self.ends[end].handshake.poll_event() {
            match event {
                HandshakeEvent::Enter(session) => self.entered(end, *session),
                HandshakeEvent::Enable => {
                    let newest = self.ends[end].sessions.len().checked_sub(1);
                    assert_ne!(self.ends[end].enabled, newest, "enabled twice");
                    self.ends[end].enabled = newest;
                    self.peer_has_it(end);
                }
                HandshakeEvent::End => panic!("a session ends whose master key is there"),
            }
        }
        let mut said = 0;
        while let Some(frame) = self.ends[end].handshake.poll_transmit() {
            said += 1;
            assert!(said <= 1, "more than one HELLO for one that came");
            self.recorded.push((1 - end, frame.to_vec()));
            self.carry(1 - end, &frame);
        }
    }

    fn entered(&mut self, end: usize, session: Session) {
        let [mine, peers] = [mark(&session.transmit[0]), mark(&session.receive[0])];
        assert!(self.entered[end].insert(mine), "the keys of a session that was entered before");
        for (key, owner) in [(mine, end), (peers, 1 - end)] {
            assert_eq!(*self.owners.entry(key).or_insert(owner), owner, "one key in both directions");
        }
        self.ends[end].sessions.push(session);
    }

    /// The peer, or an earlier start of it, has entered the session that `end` transmits under from now on.
    fn peer_has_it(&self, end: usize) {
        let session = self.ends[end].transmits().expect("a session");
        assert!(self.entered[1 - end].contains(&mark(&session.receive[0])), "nobody is there");
    }

    fn carry(&mut self, to: usize, frame: &[u8]) {
        let copies = 1 + u64::from(self.chance.below(100) < self.network.copies);
        for _ in 0..copies {
            if self.chance.below(100) < self.network.loss || self.deaf == Some(to) {
                continue;
            }
            let (shortest, longest) = self.network.delay;
            let way = shortest + self.chance.below(longest - shortest + 1);
            let arrives = self.now + Duration::from_micros(way);
            let place = self.wire.partition_point(|&(other, ..)| other <= arrives);
            self.wire.insert(place, (arrives, to, frame.to_vec()));
        }
    }

    fn due(&mut self) {
        for end in [0, 1] {
            let now = self.now;
            if self.ends[end].handshake.poll_timeout().is_some_and(|due| due <= now) {
                self.ends[end].handshake.handle_timeout(now);
                self.follow(end);
            }
            assert!(self.ends[end].handshake.poll_timeout().is_none_or(|due| due > now), "due again at once");
        }
    }

    /// A frame arrives, whoever sent it.
    pub(crate) fn arrive(&mut self, end: usize, frame: &[u8]) {
        let _ = self.ends[end].handshake.handle_frame(self.now, frame);
        self.follow(end);
    }

    pub(crate) fn pass(&mut self, time: Duration) {
        self.pass_until(time, |_| false);
    }

    /// Lets time pass until something is so; returns whether it came to be, and after how long.
    pub(crate) fn pass_until(&mut self, time: Duration, so: impl Fn(&Self) -> bool) -> Option<Duration> {
        let (start, end) = (self.now, self.now + time);
        loop {
            if so(self) {
                return Some(self.now.since(start));
            }
            let dues = self.ends.iter().filter_map(|end| end.handshake.poll_timeout());
            let next = dues.chain(self.wire.first().map(|&(arrives, ..)| arrives)).min();
            let Some(next) = next.filter(|&next| next <= end) else {
                self.now = end;
                return so(self).then(|| self.now.since(start));
            };
            self.now = next.max(self.now);
            while self.wire.first().is_some_and(|&(arrives, ..)| arrives <= self.now) {
                let (_, to, frame) = self.wire.remove(0);
                self.arrive(to, &frame);
            }
            self.due();
        }
    }

    /// Both transmit under one session and receive under it, and nobody has anything left to ask.
    pub(crate) fn is_settled(&self) -> bool {
        let [one, other] = &self.ends;
        let both = |session: &Session, peers: &Session| {
            [0, 1].iter().all(|&epoch| agree(&session.transmit[epoch], &peers.receive[epoch]))
        };
        self.states() == [HandshakeState::Confirmed; 2]
            && one.enabled.is_some_and(|place| place + 1 == one.sessions.len())
            && other.enabled.is_some_and(|place| place + 1 == other.sessions.len())
            && one.newest().zip(other.newest()).is_some_and(|(a, b)| both(a, b) && both(b, a))
    }

    pub(crate) fn assert_settled(&self) {
        assert!(self.is_settled(), "{:?} {:?}", self.ends[0].handshake, self.ends[1].handshake);
    }
}

/// A start of an end. Its seed is one of its own.
pub(crate) fn start(end: usize, number: u64, seed: u64) -> End {
    let mut octets = [0; 32];
    octets[..8].copy_from_slice(&number.to_be_bytes());
    octets[8..16].copy_from_slice(&seed.to_be_bytes());
    octets[16] = end as u8;
    started(relation(end), &master(), ENCRYPT, ETHERTYPE, &octets)
}

pub(crate) fn started(
    relation: Relation,
    master: &MasterKey,
    protection: Protection,
    ethertype: EtherType,
    seed: &[u8; 32],
) -> End {
    let handshake = Handshake::new(&relation, &master.clone().into(), protection, ethertype, seed);
    End { handshake, sessions: Vec::new(), enabled: None }
}
