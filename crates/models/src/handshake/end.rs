//! An end: the handshake, and a data path that does what it is told.

use std::sync::Arc;

use fieldbus::handshake::{Handshake, HandshakeEvent, HandshakeState};
use fieldbus::relation::Relation;
use fieldbus::session::{EpochKey, Session, SessionNumber};
use suite::SealJob;
use suite::fieldbus::MasterKey;
use wire::fieldbus::{CellSuite, ETHERTYPE, FrameId, Hello, Protect, Protection, Seq};
use wire::{Instant, MacAddr};

use crate::names::{Part, digest, parts};
use crate::past::Object;

const STATIONS: [(MacAddr, FrameId); 2] =
    [(MacAddr([2, 0, 0, 0, 1, 1]), FrameId(0x8001)), (MacAddr([2, 0, 0, 0, 0, 9]), FrameId(0x8002))];
const PROTECTION: Protection = Protection { protect: Protect::Encrypt, suite: CellSuite::GcmAes128 };
const HEADER_OCTETS: usize = 14;

/// Keys of a session as one end has them, as digests of what they seal.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) struct Keys {
    transmit: u64,
    receive: u64,
}

impl Keys {
    fn of(session: &Session) -> Self {
        Self { transmit: seals(&session.transmit[0]), receive: seals(&session.receive[0]) }
    }

    /// The same session at the other end.
    pub(super) fn at_peer(self) -> Self {
        Self { transmit: self.receive, receive: self.transmit }
    }

    pub(super) fn parts(self) -> [Part; 2] {
        [Part::Name(self.transmit), Part::Name(self.receive)]
    }
}

/// Digest of 16 sealed zeros, with the key's identifier.
fn seals(key: &EpochKey) -> u64 {
    let (mut text, mut icv) = ([0; 16], [0; 16]);
    let nonce = key.key.nonce(Seq::FIRST);
    key.key.key().seal_each([SealJob { nonce, aad: b"", text: &mut text, icv: &mut icv }].into_iter());
    digest((key.key_id.0, text, icv))
}

/// Beginning of an end.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Begin {
    pub(super) end: usize,
    pub(super) start: u8,
}

/// An input of an end.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Told {
    Hello(Arc<[u8]>),
    /// A frame of the peer, protected under these keys of the peer.
    Data(Keys),
    Timeout,
    /// The data path cannot follow.
    Ask,
}

/// Consequences of an input for an end, and its state then.
pub(super) struct Did {
    pub(super) sent: Vec<Arc<[u8]>>,
    pub(super) entered: Vec<Keys>,
    pub(super) timeout: Option<Instant>,
    pub(super) state: HandshakeState,
    /// The newest session.
    pub(super) newest: Option<Keys>,
    /// The session that it transmits in.
    pub(super) transmits: Option<Keys>,
    /// A request of the handshake that cannot be carried out.
    pub(super) wrong: Option<String>,
    pub(super) parts: Vec<Part>,
}

impl Did {
    /// True if it verifies frames that are protected under these keys of the peer.
    pub(super) fn verifies(&self, peers: Keys) -> bool {
        [self.newest, self.transmits].contains(&Some(peers.at_peer()))
    }

    /// True if both its session and its data path are the newest.
    pub(super) fn is_confirmed(&self) -> bool {
        self.state == HandshakeState::Confirmed && self.newest == self.transmits
    }
}

/// An end.
pub(super) struct End {
    handshake: Handshake,
    newest: Option<(SessionNumber, Keys)>,
    transmits: Option<(SessionNumber, Keys)>,
}

impl Object for End {
    type Begin = Begin;
    type Told = Told;
    type Did = Did;

    fn begin(begin: &Begin, _: Instant) -> (Self, Did) {
        let Begin { end, start } = *begin;
        let relation = Relation::new(STATIONS[end], STATIONS[1 - end], std::time::Duration::from_millis(1))
            .expect("invariant: two stations");
        let master = MasterKey::new(b"thirty-two octets for whole cell");
        let mut seed = [0; 32];
        (seed[0], seed[1]) = (end as u8, start);
        let handshake = Handshake::new(&relation, &master.into(), PROTECTION, ETHERTYPE, &seed);
        let mut end = Self { handshake, newest: None, transmits: None };
        let did = end.did();
        (end, did)
    }

    fn tell(&mut self, at: Instant, told: &Told) -> Did {
        match told {
            Told::Hello(frame) => drop(self.handshake.handle_frame(at, frame)),
            // A frame that was verified in the newest session ends the one before.
            Told::Data(peers) => {
                let mine = Some(peers.at_peer());
                let sessions = [self.newest, self.transmits].into_iter().flatten();
                if let Some((number, _)) = sessions.into_iter().find(|(_, keys)| Some(*keys) == mine) {
                    self.handshake.handle_verified_frame(number);
                }
            }
            Told::Timeout => self.handshake.handle_timeout(at),
            Told::Ask => self.handshake.request_session(),
        }
        self.did()
    }
}

impl End {
    fn did(&mut self) -> Did {
        let (mut entered, mut wrong) = (Vec::new(), None);
        while let Some(event) = self.handshake.poll_event() {
            match event {
                HandshakeEvent::Enter(session) => {
                    let keys = Keys::of(&session);
                    self.newest = Some((session.number, keys));
                    entered.push(keys);
                }
                HandshakeEvent::Enable if self.newest.is_none() || self.newest == self.transmits => {
                    wrong = Some("no new session is there to be enabled".to_owned());
                }
                HandshakeEvent::Enable => self.transmits = self.newest,
                HandshakeEvent::End => wrong = Some("a session ends whose master key is there".to_owned()),
            }
        }
        let sent = std::iter::from_fn(|| self.handshake.poll_transmit()).map(|frame| Arc::from(&frame[..]));
        let sent = sent.collect();
        let (newest, transmits) = (self.newest.map(|(_, keys)| keys), self.transmits.map(|(_, keys)| keys));
        let mut parts = parts(&format!("{:?}", self.handshake), &["Nonce(["], &["KeyId("]);
        for keys in [newest, transmits] {
            parts.push(Part::plain(keys.is_some()));
            parts.extend(keys.into_iter().flat_map(Keys::parts));
        }
        let (timeout, state) = (self.handshake.poll_timeout(), self.handshake.state());
        Did { sent, entered, timeout, state, newest, transmits, wrong, parts }
    }
}

/// The parts of a HELLO; its KeyID belongs to its nonce.
pub(super) fn hello_parts(frame: &[u8]) -> Vec<Part> {
    let hello = Hello::parse(&frame[HEADER_OCTETS..]).map(|(hello, ..)| hello);
    parts(&format!("{hello:?}"), &["Nonce(["], &["KeyId("])
}
