//! Agreement of two gateways on a session of a relation (formats: `wire::fieldbus`).
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
//! An end has an *offer*: the nonce for its next session, and the KeyID of its first frames there. It handles
//! a HELLO with a right MAC in this order:
//!
//! | the HELLO has | this end |
//! |---|---|
//! | as the receiver's nonce that of my offer | enters the session of the two nonces, draws another offer, answers Entered. If the HELLO says Entered: Enable |
//! | the two nonces of my newest session | Asks: answers Entered. Entered: Enable; that is never answered |
//! | no nonce of mine | answers with its offer and the peer's nonce; nothing else changes |
//! | another nonce of mine | nothing: [`HelloDiscard::Stale`] |
//!
//! An end without a session asks `offer, ?` at its start and every [`HELLO_INTERVAL`]. An end whose peer is
//! not known to have entered asks with the two nonces of its session every [`HELLO_INTERVAL`], and each
//! [`HELLO_TRIES`]th time anew with its offer. An end whose data path cannot follow any more asks anew as
//! well ([`Handshake::request_session`], [`crate::Event::Lost`]): copies and late HELLOs can bring the ends
//! into sessions of different pairs, and asking anew ends that. An end that knows of its peer's entry is
//! silent. Entered confirms a session, and so does a frame verified under its keys
//! ([`Handshake::handle_verified_frame`]).
//!
//! **Consequences.** Entering uses up an offer, so no pair of nonces is entered twice, whatever is replayed.
//! Entering takes a HELLO with my present offer: the peer made it with the master key after that offer was
//! drawn. If both ends are in confirmed sessions, it is the same session: otherwise each of two offers would
//! have been drawn after the other was used.
//!
//! **The last row of the table** closes a hole. Suppose a HELLO with an old nonce of mine were answered with
//! my offer. One replayed HELLO would then make A show B its offer, B show A its own, and both enter a
//! session. An attacker who replays could change the keys of two live ends at will. As it is, only an end
//! that asks anew begins a session: one that has just started, or that has not heard its peer for a while.
//! For the same reason offers are drawn again when a session is confirmed: answers withheld until then are
//! worthless.
//!
//! **KeyIDs** are part of an offer, so all HELLOs of a nonce name the same one, whichever arrives. After a
//! start the first is random. The peer may still know it from the session before the start; so the data path
//! looks at the newest session first. Later ones are [`KEY_ID_GAP`] after the last one in use: the old
//! session can change its keys while the next one is made.
//!
//! **Two master keys.** While a master key is exchanged, an end has two, in the order of its preference. Each HELLO is
//! under one of them and says which other one the sender has, so both ends know the agreed key ([`hello_codec`]'s
//! table). An end asks anew under each of its keys. It answers under the agreed key, and enters a session under no
//! other. The keys of a session come from the master key of its HELLOs. An end whose session rests on its second key
//! asks for one under the first, a few times at once and then every [`PREFERRED_INTERVAL`], unless the peer has both keys
//! too; the session goes on meanwhile. A change of keys ([`Handshake::change_keys`]) draws another offer, so no answer from before it is accepted behind it. Under a removed
//! key no HELLO is accepted. A session of that key goes on until another is running, for [`REMOVED_KEY_TIME`] at most.
//!
//! **Bounds.** A HELLO costs one MAC, with two master keys two. An accepted one also costs a MAC for the answer and at
//! most four keys. It is answered once or not at all, and an answer is as long as a HELLO. [`MAX_PENDING_HELLOS`] answers
//! can wait; a caller that takes them after each call never has more than two.
//!
//! Left out on purpose: the number of HELLOs of a cell per turn (the engine). There is no forward secrecy:
//! the master key, today or in ten years, yields the keys of every session whose HELLOs were recorded.

mod counters;
mod discard;
mod hello_codec;
mod nonce_pair;
mod offer;
mod passed_on;
mod relation_key;

use alloc::boxed::Box;
use alloc::sync::Arc;
use core::fmt;
use core::time::Duration;

use arrayvec::ArrayVec;
use suite::fieldbus::MasterKeys;
use suite::mka::Drbg;
use wire::fieldbus::{HandshakeNonce, HelloState, KeyId, MasterKeyId, Protection};
use wire::{EtherType, Instant};

pub use self::counters::HelloCounters;
pub use self::discard::HelloDiscard;
pub use self::hello_codec::{
    Asker, HELLO_FRAME_OCTETS, HelloCodec, HelloOctets, LONGEST_HELLO_FRAME_OCTETS, UnverifiedHello,
    VerifiedHello,
};
pub use self::offer::ExpectedNonces;
pub use self::passed_on::PassedHandshake;

use self::hello_codec::OutgoingHello;
use self::nonce_pair::NoncePair;
use self::offer::Offer;
use crate::relation::Relation;
use crate::session::{EpochKey, Session, SessionNumber};

/// Interval between HELLOs of an end that asks.
pub const HELLO_INTERVAL: Duration = Duration::from_millis(100);
/// Number of HELLOs after entering a session, the last of them with a new offer.
pub const HELLO_TRIES: u32 = 3;
/// Interval between HELLOs of an end whose session rests on its second master key.
pub const PREFERRED_INTERVAL: Duration = Duration::from_secs(10);
/// Longest time for which a session goes on after its master key was removed.
pub const REMOVED_KEY_TIME: Duration = Duration::from_secs(1);
/// Most HELLOs that wait for the caller.
pub const MAX_PENDING_HELLOS: usize = 4;
/// Distance from the last KeyID with a key to the first one of the next session.
pub const KEY_ID_GAP: u8 = 64;
/// Most events that wait: two for each HELLO.
const EVENTS: usize = 2 * MAX_PENDING_HELLOS;

/// Event for the data path.
#[derive(Debug)]
pub enum HandshakeEvent {
    /// Receive under the keys of this session too. Ends another session that was entered and not enabled.
    Enter(Box<Session>),
    /// The peer has entered the newest session: transmit under its keys.
    Enable,
    /// End all sessions: the master key that they rest on was removed, and there is no other.
    End,
}

/// State of an end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HandshakeState {
    /// No session.
    Asking,
    /// It has entered a session; the peer's entry is not known.
    Entered,
    /// Both have entered the session.
    Confirmed,
}

/// One end's handshake for one relation. See the module's documentation.
///
/// The caller calls [`Handshake::handle_timeout`] at [`Handshake::poll_timeout`], which is at once after the
/// start. After each `handle_` call it takes everything from [`Handshake::poll_transmit`] and
/// [`Handshake::poll_event`].
pub struct Handshake {
    hello_codec: HelloCodec,
    drbg: Drbg,
    offer: Offer,
    newest: Option<NoncePair>,
    /// True if the peer is known to have entered the newest.
    confirmed: bool,
    /// Another session is wanted, though the newest is confirmed.
    wanted: bool,
    /// The peer has both keys as well: nothing better is agreed on until an end's keys change.
    settled: bool,
    /// End of a removed master key's sessions.
    removed_until: Option<Instant>,
    sessions: u32,
    /// The last confirmed one before the newest: its keys may still be in use.
    before: Option<NoncePair>,
    /// HELLOs sent since the newest was entered.
    asked: u32,
    due: Option<Instant>,
    outgoing: ArrayVec<OutgoingHello, MAX_PENDING_HELLOS>,
    events: ArrayVec<HandshakeEvent, EVENTS>,
    counters: HelloCounters,
}

impl Handshake {
    /// A handshake without a session. `seed`: 32 octets from the operating system for this handshake only.
    pub fn new(
        relation: &Relation,
        masters: &MasterKeys,
        protection: Protection,
        ethertype: EtherType,
        seed: &[u8; 32],
    ) -> Self {
        let mut drbg = Drbg::new(seed);
        let mut first = [0];
        drbg.fill(&mut first);
        let offer = Offer { nonce: nonce(&mut drbg), key_id: KeyId(first[0]) };
        Self {
            hello_codec: HelloCodec::new(relation, masters, protection, ethertype),
            drbg,
            offer,
            newest: None,
            confirmed: false,
            wanted: false,
            settled: false,
            removed_until: None,
            sessions: 0,
            before: None,
            asked: 0,
            due: Some(Instant::START),
            outgoing: ArrayVec::new(),
            events: ArrayVec::new(),
            counters: HelloCounters::default(),
        }
    }

    /// Its state.
    pub const fn state(&self) -> HandshakeState {
        match (&self.newest, self.confirmed) {
            (None, _) => HandshakeState::Asking,
            (Some(_), false) => HandshakeState::Entered,
            (Some(_), true) => HandshakeState::Confirmed,
        }
    }

    /// Codec of its HELLOs.
    pub fn hello_codec(&self) -> HelloCodec {
        self.hello_codec.clone()
    }

    /// Its expected nonces.
    pub fn expected_nonces(&self) -> ExpectedNonces {
        ExpectedNonces { offer: self.offer, newest: self.newest.as_ref().map(|newest| newest.own) }
    }

    /// The master key of the session that protects frames; of the newest, if none does yet.
    pub fn session_key(&self) -> Option<MasterKeyId> {
        let protects = if self.confirmed { None } else { self.before.as_ref() };
        protects.or(self.newest.as_ref()).map(|pair| pair.key.id)
    }

    /// Its counters.
    pub const fn counters(&self) -> &HelloCounters {
        &self.counters
    }

    /// Handles a frame with Seq 0, from its destination address, with or without VLAN tags.
    ///
    /// # Errors
    /// The reason for its discard. Then only that reason's counter has changed.
    pub fn handle_frame(&mut self, now: Instant, frame: &[u8]) -> Result<(), HelloDiscard> {
        // Cheap checks first: a MAC is computed only for a possible HELLO of the peer.
        let read = self.hello_codec.parse(frame).and_then(|claim| self.hello_codec.verify(&claim));
        let taken = read.and_then(|hello| self.take(now, &hello));
        match taken {
            Ok(()) => self.counters.in_hello += 1,
            Err(discard) => self.counters.count(discard),
        }
        taken
    }

    /// Handles an authentic HELLO: the table of the module's documentation.
    fn take(&mut self, now: Instant, verified: &VerifiedHello) -> Result<(), HelloDiscard> {
        if self.outgoing.is_full() || self.events.len() > EVENTS - 2 {
            return Err(HelloDiscard::Overrun);
        }
        let VerifiedHello { hello, under, agreed } = verified;
        let is_of = |newest: &&NoncePair| {
            newest.peers == hello.own && newest.key.id == self.hello_codec.key(*under).id
        };
        let newest = self.newest.as_ref().filter(is_of).map(|newest| newest.own);
        match (hello.peers, newest, hello.state) {
            (Some(mine), _, state) if mine == self.offer.nonce && under == agreed => {
                self.enter(now, verified);
                self.queue_entered();
                if state == HelloState::Entered {
                    self.confirm();
                }
            }
            (Some(mine), Some(newest), HelloState::Request) if mine == newest => self.queue_entered(),
            (Some(mine), Some(newest), HelloState::Entered) if mine == newest => self.confirm(),
            (None, _, HelloState::Request) => self.queue_offer(Some(hello.own), *agreed),
            _ => return Err(HelloDiscard::Stale),
        }
        Ok(())
    }

    fn enter(&mut self, now: Instant, VerifiedHello { hello, under, .. }: &VerifiedHello) {
        if self.confirmed {
            self.before = self.newest.take();
        }
        self.sessions = self.sessions.wrapping_add(1);
        let Offer { nonce: own, key_id } = self.offer;
        let key = Arc::clone(self.hello_codec.key(*under));
        let pair = NoncePair::new(SessionNumber(self.sessions), key, own, key_id, hello.own, hello.key_id);
        let session = pair.session(&self.hello_codec.relation, self.hello_codec.protection);
        self.newest = Some(pair);
        // Should the peer come to prefer another key, the peer asks.
        self.settled = hello.other_key.is_some_and(|other| self.hello_codec.place(other.id).is_some());
        (self.confirmed, self.wanted) = (false, false);
        (self.asked, self.due) = (0, Some(now + HELLO_INTERVAL));
        self.renew_offer();
        self.events.push(HandshakeEvent::Enter(Box::new(session)));
        self.counters.sessions_entered += 1;
    }

    fn confirm(&mut self) {
        if core::mem::replace(&mut self.confirmed, true) {
            return;
        }
        if !self.asks_for_another() {
            self.due = None;
        }
        self.renew_offer();
        self.events.push(HandshakeEvent::Enable);
        self.counters.sessions_confirmed += 1;
    }

    /// True if a confirmed session is not the one that this end wants.
    fn asks_for_another(&self) -> bool {
        let is_second = |newest: &NoncePair| self.place(newest) != Some(0);
        self.wanted || !self.settled && self.newest.as_ref().is_some_and(is_second)
    }

    /// Place of a session's master key, if this end still has it.
    fn place(&self, pair: &NoncePair) -> Option<usize> {
        self.hello_codec.place(pair.key.id)
    }

    /// Draws another nonce, with a KeyID after those that the newest session has keys for.
    fn renew_offer(&mut self) {
        let last = self.newest.as_ref().map_or(self.offer.key_id, NoncePair::last_transmit);
        self.offer = Offer { nonce: nonce(&mut self.drbg), key_id: KeyId(last.0.wrapping_add(KEY_ID_GAP)) };
    }

    /// Handles a frame verified under the keys of this session: the peer has entered it. Does nothing if this
    /// end has entered another one since.
    pub fn handle_verified_frame(&mut self, number: SessionNumber) {
        if self.newest.as_ref().is_none_or(|newest| newest.number != number) {
            return;
        }
        // The data path has ended the session before.
        self.before = None;
        self.removed_until = self.removed_until.filter(|_| self.rests_on_removed_key());
        if !self.events.is_full() {
            self.confirm();
        }
    }

    /// Asks anew, once: the data path cannot follow the peer any more. An end without a confirmed session
    /// asks anyway.
    pub fn request_session(&mut self) {
        if self.confirmed {
            self.ask_anew();
        }
    }

    /// Asks for another session until there is one: new keys for a relation that has some.
    pub fn renew_session(&mut self, now: Instant) {
        if self.confirmed {
            (self.wanted, self.due) = (true, Some(now));
        }
    }

    /// Takes other master keys, in the order of preference. Sessions go on. One whose master key is not among them ends
    /// when another is running, at the latest after [`REMOVED_KEY_TIME`].
    pub fn change_keys(&mut self, now: Instant, masters: &MasterKeys) {
        if !self.hello_codec.change_keys(masters) {
            return;
        }
        // Peers answered the offer before they knew of these keys.
        self.renew_offer();
        // They have places of keys as those were.
        self.outgoing.clear();
        self.settled = false;
        (self.asked, self.due) = (0, Some(now));
        self.removed_until = if self.rests_on_removed_key() {
            self.removed_until.or(Some(now + REMOVED_KEY_TIME))
        } else {
            None
        };
        if self.newest.as_ref().is_some_and(|newest| self.place(newest).is_none()) {
            // Asks anew at once, also in a session that it cannot confirm by a HELLO any more.
            (self.wanted, self.asked) = (true, HELLO_TRIES - 1);
        }
    }

    fn rests_on_removed_key(&self) -> bool {
        [&self.newest, &self.before].into_iter().flatten().any(|pair| self.place(pair).is_none())
    }

    /// Ends all sessions: frames may still be accepted under one of a removed key.
    fn end_sessions(&mut self, now: Instant) {
        (self.newest, self.before, self.removed_until) = (None, None, None);
        (self.confirmed, self.wanted, self.settled) = (false, false, false);
        self.due = Some(now);
        // Events that nobody has taken are of sessions that are over.
        self.events.clear();
        self.events.push(HandshakeEvent::End);
    }

    /// Transmit key of a later epoch of a session; `None` if that session is long over.
    pub fn next_transmit(&mut self, number: SessionNumber, epoch: u64) -> Option<EpochKey> {
        let pair = self.pair_mut(number)?;
        pair.transmit_epochs = pair.transmit_epochs.max(epoch);
        let pair = pair.clone();
        // The offer is older than some keys of the newest session. Its own first two KeyIDs must not be among
        // them.
        if self
            .newest
            .as_ref()
            .is_some_and(|newest| !(2..=KEY_ID_GAP).contains(&newest.transmit_room(self.offer.key_id)))
        {
            self.renew_offer();
        }
        Some(pair.transmit_key(&self.hello_codec.relation, self.hello_codec.protection, epoch))
    }

    /// The same for reception.
    pub fn next_receive(&mut self, number: SessionNumber, epoch: u64) -> Option<EpochKey> {
        let pair = self.pair_mut(number)?.clone();
        Some(pair.receive_key(&self.hello_codec.relation, self.hello_codec.protection, epoch))
    }

    fn pair_mut(&mut self, number: SessionNumber) -> Option<&mut NoncePair> {
        [&mut self.newest, &mut self.before].into_iter().flatten().find(|pair| pair.number == number)
    }

    /// Next time for [`Self::handle_timeout`]; `None` if it has nothing to ask.
    pub fn poll_timeout(&self) -> Option<Instant> {
        [self.due, self.removed_until].into_iter().flatten().min()
    }

    /// Handles the time of [`Self::poll_timeout`].
    pub fn handle_timeout(&mut self, now: Instant) {
        if self.removed_until.is_some_and(|until| until <= now) {
            self.end_sessions(now);
        }
        if self.due.is_none_or(|due| due > now) {
            return;
        }
        self.due = Some(now + HELLO_INTERVAL);
        self.asked = self.asked.wrapping_add(1);
        if !self.confirmed && !self.asked.is_multiple_of(HELLO_TRIES) && self.newest.is_some() {
            self.queue_session_hello(HelloState::Request);
        } else if !self.confirmed || self.wanted {
            self.ask_anew();
        } else if self.asks_for_another() {
            // Soon again at first, for a HELLO may be lost.
            let is_first = self.asked <= HELLO_TRIES;
            self.due = Some(now + if is_first { HELLO_INTERVAL } else { PREFERRED_INTERVAL });
            self.queue_offer(None, 0);
        } else {
            self.due = None;
        }
    }

    /// Asks under each key: which of them the peer has is not known.
    fn ask_anew(&mut self) {
        (0..self.hello_codec.macs()).for_each(|under| self.queue_offer(None, under));
    }

    fn queue_entered(&mut self) {
        self.queue_session_hello(HelloState::Entered);
    }

    /// Says something of the newest session, under its key.
    fn queue_session_hello(&mut self, state: HelloState) {
        let Some(pair) = &self.newest else { return };
        let Some(under) = self.place(pair) else { return };
        let (own, key_id, peers) = (pair.own, pair.transmit, Some(pair.peers));
        self.queue(OutgoingHello { state, own, key_id, peers, under });
    }

    fn queue_offer(&mut self, peers: Option<HandshakeNonce>, under: usize) {
        let Offer { nonce: own, key_id } = self.offer;
        self.queue(OutgoingHello { state: HelloState::Request, own, key_id, peers, under });
    }

    /// A HELLO that finds no room is asked for again.
    fn queue(&mut self, hello: OutgoingHello) {
        let _ = self.outgoing.try_push(hello);
    }

    /// Next HELLO, longer than the shortest frame.
    pub fn poll_transmit(&mut self) -> Option<HelloOctets> {
        let hello = self.outgoing.pop_at(0)?;
        self.counters.out_hello += 1;
        Some(self.hello_codec.write(&hello))
    }

    /// Next event for the data path, in order.
    pub fn poll_event(&mut self) -> Option<HandshakeEvent> {
        self.events.pop_at(0)
    }
}

/// A random nonce. A nonce of zeros would stand for none.
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
            .field("offer", &self.offer)
            .field("newest", &self.newest)
            .field("before", &self.before)
            .field("asked", &(self.asked % HELLO_TRIES))
            .field("due", &self.due)
            .finish_non_exhaustive()
    }
}
