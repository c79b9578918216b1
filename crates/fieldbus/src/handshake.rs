//! How two gateways agree on a session of a relation (formats: `wire::fieldbus`).
//!
//! ```text
//!          HELLO a, ?            "who are you?"                 a, b: nonces that are drawn for one session
//!  A ─────────────────────────▶ B                              ?    : the sender does not know the other's
//!    ◀─────────────────────────
//!          HELLO b, a            answers at once
//!  enters (a, b)
//!    ─────────────────────────▶ enters (b, a), and knows that A has entered: Enable
//!          HELLO a, b, Entered
//!    ◀─────────────────────────
//!  Enable  HELLO b, a, Entered
//! ```
//!
//! An end has an *offer*: the nonce that it brings to its next session, and the KeyID that its first frames have there.
//! What it does with a HELLO whose MAC is right, in this order:
//!
//! | the HELLO has | this end |
//! |---|---|
//! | as the receiver's nonce that of my offer | enters the session of the two nonces, draws another offer, answers Entered. If the HELLO says Entered: Enable |
//! | the two nonces of my newest session | Asks: answers Entered. Entered: Enable; that is never answered |
//! | no nonce of mine | answers with its offer and the peer's nonce; nothing else changes |
//! | another nonce of mine | nothing: [`HelloDiscard::Stale`] |
//!
//! An end that has no session asks `offer, ?` at its start and every [`HELLO_INTERVAL`]. An end whose peer is not known to have
//! entered asks with the two nonces of its session every [`HELLO_INTERVAL`], and each [`HELLO_TRIES`]th time anew with its offer; one whose data path
//! cannot follow any more asks anew as well ([`Handshake::request_session`], [`crate::Event::Lost`]): copies
//! and late HELLOs can bring the ends into sessions of different pairs, and that ends it. An end that knows is silent. What
//! confirms a session is Entered, or a frame that was verified under its keys ([`Handshake::handle_verified_frame`]).
//!
//! **What follows.** An offer is used up by entering, so no pair of nonces is entered twice, whatever is replayed. Entering
//! takes a HELLO that has my present offer in it: one that a peer with the master key made since that offer was drawn.
//! If both ends are in confirmed sessions, these are one session: for that they could be two, each of two offers would
//! have had to be drawn after the other was used.
//!
//! **The last row of the table** mends a hole: were a HELLO with an old nonce of mine answered with my offer, then
//! one replayed HELLO would make A show B its offer, B show A its own, and both enter a session; so who replays could
//! have two live ends change their keys as often as he likes. As it is, only an end that asks anew begins a session, and
//! that is one that has just started, or that has not heard from its peer for a while. For the same reason offers are
//! drawn again when a session is confirmed: answers that were held back until then are worth nothing.
//!
//! **KeyIDs** are part of an offer, so that all HELLOs of a nonce name the same one, whichever of them arrives. After a
//! start the first is random. It can then be one that the peer still knows from the session before the start; the data
//! path therefore looks at the newest session first. Later ones are [`KEY_ID_GAP`] behind the last one in use, so that the session
//! before can change its keys while the next is being made.
//!
//! **Bounds.** A HELLO costs one MAC, and if it is taken in another one for the answer and at most four keys. It is
//! answered once or not at all, and an answer is as long as a HELLO. [`MAX_PENDING_HELLOS`] answers can wait; a caller that takes them
//! after each call never has more than one.
//!
//! Left out on purpose: how many HELLOs of a cell are looked at in a turn (the engine). There is no forward secrecy: who
//! has the master key, today or in ten years, can derive the keys of every session whose HELLOs he recorded.

mod counters;
mod hello_codec;
mod nonce_pair;

use alloc::boxed::Box;
use core::fmt;
use core::time::Duration;

use arrayvec::ArrayVec;
use suite::fieldbus::MasterKey;
use suite::mka::Drbg;
use wire::fieldbus::{HandshakeNonce, Hello, HelloState, KeyId, Protection};
use wire::{EtherType, Instant};

pub use self::counters::{HelloCounters, HelloDiscard};
pub use self::hello_codec::{HELLO_FRAME_OCTETS, HelloCodec, UnverifiedHello};

use self::nonce_pair::NoncePair;
use crate::relation::Relation;
use crate::session::{EpochKey, Session, SessionNumber};

/// Between two HELLOs of an end that asks.
pub const HELLO_INTERVAL: Duration = Duration::from_millis(100);
/// An end that has entered a session asks so many times, the last of them anew.
pub const HELLO_TRIES: u32 = 3;
/// HELLOs that can wait to be taken by the caller.
pub const MAX_PENDING_HELLOS: usize = 4;
/// From the last KeyID that a session has a key for to the first of the session after it.
pub const KEY_ID_GAP: u8 = 64;
/// Events that can wait: two of each HELLO.
const EVENTS: usize = 2 * MAX_PENDING_HELLOS;

/// What the data path is to do.
#[derive(Debug)]
pub enum HandshakeEvent {
    /// Receive under the keys of this session too. Another one that was entered and not enabled is over.
    Enter(Box<Session>),
    /// The peer has entered the newest session: transmit under its keys.
    Enable,
}

/// How far an end is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HandshakeState {
    /// It has no session.
    Asking,
    /// It has entered a session, and does not know that the peer has.
    Entered,
    /// Both have entered the session.
    Confirmed,
}

/// The nonces of this end that a HELLO can name and mean something by. They change with a session alone: whenever the
/// handshake has an event, or is asked for the key of another epoch.
#[derive(Clone, Copy, Debug)]
pub struct ExpectedNonces {
    offer: Offer,
    newest: Option<HandshakeNonce>,
}

impl ExpectedNonces {
    /// Whether that is one of them.
    pub fn contains(&self, nonce: HandshakeNonce) -> bool {
        nonce == self.offer.nonce || self.newest == Some(nonce)
    }
}

/// What an end brings to its next session.
#[derive(Clone, Copy, Debug)]
struct Offer {
    nonce: HandshakeNonce,
    /// Of the first frames that it would protect there.
    key_id: KeyId,
}

/// What is to be sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct OutgoingHello {
    state: HelloState,
    own: HandshakeNonce,
    key_id: KeyId,
    peers: Option<HandshakeNonce>,
}

/// One end's handshake for one relation. See the module's documentation.
///
/// The caller calls [`Handshake::handle_timeout`] when [`Handshake::poll_timeout`] has come, which is at once after the
/// start, and takes all that [`Handshake::poll_transmit`] and [`Handshake::poll_event`] have after each call of a `handle_`
/// method and of [`Handshake::handle_verified_frame`].
pub struct Handshake {
    hello_codec: HelloCodec,
    master: MasterKey,
    drbg: Drbg,
    offer: Offer,
    newest: Option<NoncePair>,
    /// Whether the peer is known to have entered the newest.
    confirmed: bool,
    /// The last confirmed one before the newest: its keys may still be in use.
    before: Option<NoncePair>,
    /// Asked since the newest was entered.
    asked: u32,
    due: Option<Instant>,
    outgoing: ArrayVec<OutgoingHello, MAX_PENDING_HELLOS>,
    events: ArrayVec<HandshakeEvent, EVENTS>,
    counters: HelloCounters,
}

impl Handshake {
    /// A handshake that has to ask. `seed`: 32 octets that the operating system drew for it alone.
    pub fn new(
        relation: &Relation,
        master: &MasterKey,
        protection: Protection,
        ethertype: EtherType,
        seed: &[u8; 32],
    ) -> Self {
        let mut drbg = Drbg::new(seed);
        let mut first = [0];
        drbg.fill(&mut first);
        let offer = Offer { nonce: nonce(&mut drbg), key_id: KeyId(first[0]) };
        Self {
            hello_codec: HelloCodec::new(relation, master, protection, ethertype),
            master: master.clone(),
            drbg,
            offer,
            newest: None,
            confirmed: false,
            before: None,
            asked: 0,
            due: Some(Instant::START),
            outgoing: ArrayVec::new(),
            events: ArrayVec::new(),
            counters: HelloCounters::default(),
        }
    }

    /// How far it is.
    pub const fn state(&self) -> HandshakeState {
        match (&self.newest, self.confirmed) {
            (None, _) => HandshakeState::Asking,
            (Some(_), false) => HandshakeState::Entered,
            (Some(_), true) => HandshakeState::Confirmed,
        }
    }

    /// What reads and writes its HELLOs.
    pub fn hello_codec(&self) -> HelloCodec {
        self.hello_codec.clone()
    }

    /// Its nonces.
    pub fn expected_nonces(&self) -> ExpectedNonces {
        ExpectedNonces { offer: self.offer, newest: self.newest.map(|newest| newest.own) }
    }

    /// What it has counted.
    pub const fn counters(&self) -> &HelloCounters {
        &self.counters
    }

    /// A frame of Seq 0, from its destination on, with VLAN tags or without.
    ///
    /// # Errors
    /// Why it was discarded; it has changed nothing then but that reason's counter.
    pub fn handle_frame(&mut self, now: Instant, frame: &[u8]) -> Result<(), HelloDiscard> {
        // Cheap reasons first: a MAC is made of what can be the peer's alone.
        let read = self.hello_codec.parse(frame).and_then(|claim| self.hello_codec.verify(&claim));
        let taken = read.and_then(|hello| self.take(now, &hello));
        match taken {
            Ok(()) => self.counters.in_hello += 1,
            Err(discard) => self.counters.count(discard),
        }
        taken
    }

    /// What a HELLO that is the peer's means here: the table of the module's documentation.
    fn take(&mut self, now: Instant, hello: &Hello) -> Result<(), HelloDiscard> {
        if self.outgoing.is_full() || self.events.len() > EVENTS - 2 {
            return Err(HelloDiscard::Overrun);
        }
        let newest = self.newest.filter(|newest| newest.peers == hello.own);
        match (hello.peers, newest, hello.state) {
            (Some(mine), _, state) if mine == self.offer.nonce => {
                self.enter(now, hello);
                self.queue_entered();
                if state == HelloState::Entered {
                    self.confirm();
                }
            }
            (Some(mine), Some(newest), HelloState::Request) if mine == newest.own => self.queue_entered(),
            (Some(mine), Some(newest), HelloState::Entered) if mine == newest.own => self.confirm(),
            (None, _, HelloState::Request) => self.queue_offer(Some(hello.own)),
            _ => return Err(HelloDiscard::Stale),
        }
        Ok(())
    }

    fn enter(&mut self, now: Instant, hello: &Hello) {
        if self.confirmed {
            self.before = self.newest;
        }
        let number = self.newest.map_or(1, |newest| newest.number.0.wrapping_add(1));
        let Offer { nonce: own, key_id } = self.offer;
        let pair = NoncePair::new(SessionNumber(number), own, key_id, hello.own, hello.key_id);
        self.newest = Some(pair);
        (self.confirmed, self.asked, self.due) = (false, 0, Some(now + HELLO_INTERVAL));
        self.renew_offer();
        let session = pair.session(&self.master, &self.hello_codec.relation, self.hello_codec.protection);
        self.events.push(HandshakeEvent::Enter(Box::new(session)));
        self.counters.sessions_entered += 1;
    }

    fn confirm(&mut self) {
        if core::mem::replace(&mut self.confirmed, true) {
            return;
        }
        self.due = None;
        self.renew_offer();
        self.events.push(HandshakeEvent::Enable);
        self.counters.sessions_confirmed += 1;
    }

    /// Another nonce, and a KeyID behind those that the newest session has keys for.
    fn renew_offer(&mut self) {
        let last = self.newest.map_or(self.offer.key_id, |newest| newest.last_transmit());
        self.offer = Offer { nonce: nonce(&mut self.drbg), key_id: KeyId(last.0.wrapping_add(KEY_ID_GAP)) };
    }

    /// A frame was verified under the keys of this session: the peer has entered it. Nothing, if this end has entered
    /// another one since.
    pub fn handle_verified_frame(&mut self, number: SessionNumber) {
        if self.newest.is_some_and(|newest| newest.number == number) && !self.events.is_full() {
            self.confirm();
        }
    }

    /// The data path cannot follow the peer any more: asks anew, once. An end that is not in a confirmed session asks anyway.
    pub fn request_session(&mut self) {
        if self.confirmed {
            self.queue_offer(None);
        }
    }

    /// The key of a later epoch of a session for what is transmitted; none, if that session is long over.
    pub fn next_transmit(&mut self, number: SessionNumber, epoch: u64) -> Option<EpochKey> {
        let pair = self.pair_mut(number)?;
        pair.transmit_epochs = pair.transmit_epochs.max(epoch);
        let pair = *pair;
        // The offer was made when the newest session had fewer keys. Its own first two must not be among them.
        if self
            .newest
            .is_some_and(|newest| !(2..=KEY_ID_GAP).contains(&newest.transmit_room(self.offer.key_id)))
        {
            self.renew_offer();
        }
        Some(pair.transmit_key(&self.master, &self.hello_codec.relation, self.hello_codec.protection, epoch))
    }

    /// The same for what is received.
    pub fn next_receive(&mut self, number: SessionNumber, epoch: u64) -> Option<EpochKey> {
        let pair = *self.pair_mut(number)?;
        Some(pair.receive_key(&self.master, &self.hello_codec.relation, self.hello_codec.protection, epoch))
    }

    fn pair_mut(&mut self, number: SessionNumber) -> Option<&mut NoncePair> {
        [&mut self.newest, &mut self.before].into_iter().flatten().find(|pair| pair.number == number)
    }

    /// When [`Self::handle_timeout`] is to be called; never, if it has nothing to ask.
    pub const fn poll_timeout(&self) -> Option<Instant> {
        self.due
    }

    /// That time may have come.
    pub fn handle_timeout(&mut self, now: Instant) {
        if self.due.is_none_or(|due| due > now) {
            return;
        }
        self.due = Some(now + HELLO_INTERVAL);
        self.asked = self.asked.wrapping_add(1);
        match self.newest {
            Some(pair) if !self.asked.is_multiple_of(HELLO_TRIES) => {
                self.queue_session_hello(&pair, HelloState::Request)
            }
            _ => self.queue_offer(None),
        }
    }

    fn queue_entered(&mut self) {
        if let Some(newest) = self.newest {
            self.queue_session_hello(&newest, HelloState::Entered);
        }
    }

    fn queue_session_hello(&mut self, pair: &NoncePair, state: HelloState) {
        self.queue(OutgoingHello { state, own: pair.own, key_id: pair.transmit, peers: Some(pair.peers) });
    }

    fn queue_offer(&mut self, peers: Option<HandshakeNonce>) {
        let Offer { nonce: own, key_id } = self.offer;
        self.queue(OutgoingHello { state: HelloState::Request, own, key_id, peers });
    }

    /// What finds no room is asked again.
    fn queue(&mut self, hello: OutgoingHello) {
        let _ = self.outgoing.try_push(hello);
    }

    /// A HELLO that is to be sent: the frame from its destination on, without a VLAN tag, longer than the shortest frame.
    pub fn poll_transmit(&mut self) -> Option<[u8; HELLO_FRAME_OCTETS]> {
        let hello = self.outgoing.pop_at(0)?;
        self.counters.out_hello += 1;
        Some(self.hello_codec.write(&hello))
    }

    /// What the data path is to do, in this order.
    pub fn poll_event(&mut self) -> Option<HandshakeEvent> {
        self.events.pop_at(0)
    }
}

/// A nonce. One of zeros would stand for none.
fn nonce(drbg: &mut Drbg) -> HandshakeNonce {
    let mut octets = [0; 16];
    while octets == [0; 16] {
        drbg.fill(&mut octets);
    }
    HandshakeNonce(octets)
}

impl fmt::Debug for Handshake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handshake")
            .field("relation", &self.hello_codec.relation)
            .field("state", &self.state())
            .field("newest", &self.newest)
            .field("due", &self.due)
            .field("counters", &self.counters)
            .finish_non_exhaustive()
    }
}
