//! The keys of a relation on the data path: which one protects, which ones verify, and how they change without a lost
//! frame.
//!
//! ```text
//!              session that runs              session that was entered
//!  transmit    this one ······················ from Enable, or from the first frame verified under it
//!  receive     both, each with two KeyIDs ···· alone, from the first frame verified under it
//! ```
//!
//! An *epoch* ends for the sender when its Seqs run out and the next key is there; for the receiver with the first frame
//! verified under the next key. Nothing goes back: a frame of what has ended is late, and a late value is a wrong value.
//!
//! Keys are neither made nor freed here: control puts them in by a [`KeyChange`], and what ended waits to be taken out
//! by the next one. An epoch cannot end before the keys of the one before are taken out, since only then the key for it is
//! put in.

use arrayvec::ArrayVec;
use wire::fieldbus::{KeyId, Seq};

use crate::receive::ReceiveDiscard;
use crate::session::{EpochKey, Session, SessionNumber};
use crate::transmit::TransmitDiscard;

/// A session with how far its Seqs have come: what [`KeyChange::Enter`] puts in.
#[derive(Debug)]
pub struct LiveSession {
    number: SessionNumber,
    transmit: Sender,
    receive: Receiver,
}

impl LiveSession {
    /// A session of which no frame was protected or verified yet.
    pub fn new(session: Session) -> Self {
        let Session { number, transmit: [key, next], receive: [receive_key, receive_next] } = session;
        let transmit = Sender { key, next: Some(next), ended: None, next_seq: Some(Seq::FIRST) };
        let receive = Receiver { key: receive_key, next: Some(receive_next), ended: None, newest: 0 };
        Self { number, transmit, receive }
    }
}

#[derive(Debug)]
struct Sender {
    key: EpochKey,
    next: Option<EpochKey>,
    ended: Option<EpochKey>,
    next_seq: Option<Seq>,
}

#[derive(Debug)]
struct Receiver {
    key: EpochKey,
    next: Option<EpochKey>,
    ended: Option<EpochKey>,
    /// The Seq of the newest verified frame; 0 before there is one.
    newest: u32,
}

/// A change of a relation's keys.
#[derive(Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "nothing is freed where a change is carried out, so nothing is boxed"
)]
pub enum KeyChange {
    /// Verify under this session too. A session that was entered before and is not used for transmission is given up.
    Enter(LiveSession),
    /// Protect under the session with this number, if it is the one that was entered last.
    Enable(SessionNumber),
    /// The key of the transmit epoch after the current one.
    NextTransmit(SessionNumber, EpochKey),
    /// The key of the receive epoch after the current one.
    NextReceive(SessionNumber, EpochKey),
    /// Nothing but what every change does: takes out what has ended.
    TakeOut,
}

/// What a change took out, or did not put in; to be wiped and freed where time does not matter.
#[derive(Debug, Default)]
pub struct TakenOut {
    sessions: ArrayVec<LiveSession, 3>,
    keys: ArrayVec<EpochKey, 5>,
}

impl TakenOut {
    /// Whether there is nothing.
    pub fn is_empty(&self) -> bool {
        self.sessions.is_empty() && self.keys.is_empty()
    }
}

/// Which key of a relation: that of an epoch of a session.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Under {
    session: SessionNumber,
    epoch: u64,
}

/// A Seq, never taken before, and what it is for.
#[derive(Debug)]
pub(crate) struct Taken<'k> {
    pub(crate) under: Under,
    pub(crate) key: &'k EpochKey,
    pub(crate) seq: Seq,
    /// This epoch has begun with it.
    pub(crate) begun: Option<Epoch>,
}

/// An epoch of a session.
pub(crate) type Epoch = (SessionNumber, u64);

/// What is new after a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Moved {
    /// A first frame was verified under this session.
    pub(crate) session: Option<SessionNumber>,
    /// This epoch of this session has begun.
    pub(crate) epoch: Option<Epoch>,
    /// Seqs between this frame and the newest one before.
    pub(crate) missing: u32,
}

/// A key in use, for status.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct KeyStatus {
    /// Which session of this end.
    pub session: SessionNumber,
    /// Which epoch of it.
    pub epoch: u64,
    /// The key's name on the wire.
    pub key_id: KeyId,
    /// The Seq of the last frame under it; none before the first.
    pub seq: Option<Seq>,
}

/// Whether a relation's frames can pass.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
pub enum RelationState {
    /// No: there is no session with the other gateway.
    #[default]
    NoSession,
    /// There is a session, and no frame was verified in it yet.
    Entered,
    /// Yes.
    Running,
}

/// All keys of a relation.
#[derive(Debug, Default)]
pub(crate) struct Keys {
    running: Option<LiveSession>,
    entered: Option<LiveSession>,
    /// Protects already.
    enabled: bool,
    ended: Option<LiveSession>,
}

impl Keys {
    /// Carries a change out. Moves some hundred octets; neither allocates nor frees.
    pub(crate) fn change(&mut self, change: KeyChange) -> TakenOut {
        let mut out = TakenOut::default();
        out.sessions.extend(self.ended.take());
        for LiveSession { transmit, receive, .. } in
            [&mut self.running, &mut self.entered].into_iter().flatten()
        {
            out.keys.extend([transmit.ended.take(), receive.ended.take()].into_iter().flatten());
        }
        match change {
            KeyChange::Enter(session) => {
                // What protects goes on until the new one is enabled.
                let before = if self.enabled {
                    core::mem::replace(&mut self.running, self.entered.take())
                } else {
                    self.entered.take()
                };
                out.sessions.extend(before);
                self.entered = Some(session);
                self.enabled = false;
            }
            KeyChange::Enable(number) => {
                self.enabled |= self.entered.as_ref().is_some_and(|session| session.number == number);
            }
            KeyChange::NextTransmit(number, key) => {
                let place = self.session(number).map(|session| &mut session.transmit);
                match place.filter(|sender| {
                    sender.next.is_none() && sender.key.epoch.checked_add(1) == Some(key.epoch)
                }) {
                    Some(sender) => sender.next = Some(key),
                    None => out.keys.push(key),
                }
            }
            KeyChange::NextReceive(number, key) => {
                let place = self.session(number).map(|session| &mut session.receive);
                match place.filter(|receiver| {
                    receiver.next.is_none() && receiver.key.epoch.checked_add(1) == Some(key.epoch)
                }) {
                    Some(receiver) => receiver.next = Some(key),
                    None => out.keys.push(key),
                }
            }
            KeyChange::TakeOut => {}
        }
        out
    }

    fn session(&mut self, number: SessionNumber) -> Option<&mut LiveSession> {
        [&mut self.entered, &mut self.running].into_iter().flatten().find(|session| session.number == number)
    }

    /// The session that protects.
    fn transmitting(&self) -> Option<&LiveSession> {
        self.entered.as_ref().filter(|_| self.enabled).or(self.running.as_ref())
    }

    /// The next Seq, and the key that it belongs to. Begins the next epoch when this one has come to `epoch_end` and
    /// its key is there; the epoch that has begun is told.
    pub(crate) fn take_seq(&mut self, epoch_end: Seq) -> Result<Taken<'_>, TransmitDiscard> {
        let session = if self.enabled { self.entered.as_mut() } else { None };
        let LiveSession { number, transmit, .. } =
            session.or(self.running.as_mut()).ok_or(TransmitDiscard::NoSession)?;
        let mut begun = None;
        let over = transmit.next_seq.is_none_or(|seq| seq > epoch_end);
        if over
            && transmit.ended.is_none()
            && let Some(next) = transmit.next.take()
        {
            transmit.ended = Some(core::mem::replace(&mut transmit.key, next));
            transmit.next_seq = Some(Seq::FIRST);
            begun = Some((*number, transmit.key.epoch));
        }
        // Nothing wraps: without a next key there is no Seq after the last.
        let seq = transmit.next_seq.ok_or(TransmitDiscard::SeqExhausted)?;
        transmit.next_seq = seq.next();
        let under = Under { session: *number, epoch: transmit.key.epoch };
        Ok(Taken { under, key: &transmit.key, seq, begun })
    }

    /// The key that a Seq was taken for.
    pub(crate) fn transmit_key(&self, under: Under) -> Option<&EpochKey> {
        let sessions = [&self.entered, &self.running].into_iter().flatten();
        let sender = &sessions.into_iter().find(|session| session.number == under.session)?.transmit;
        [Some(&sender.key), sender.ended.as_ref()].into_iter().flatten().find(|key| key.epoch == under.epoch)
    }

    /// The key for a received frame, if that is newer than what was verified under it before.
    pub(crate) fn admit(&self, key_id: KeyId, seq: Seq) -> Result<(Under, &EpochKey), ReceiveDiscard> {
        let mut discard = ReceiveDiscard::NoSession;
        for LiveSession { number, receive, .. } in [&self.entered, &self.running].into_iter().flatten() {
            let Receiver { key, next, newest, .. } = receive;
            let (key, newest) = match next {
                _ if key.key_id == key_id => (key, *newest),
                Some(next) if next.key_id == key_id => (next, 0),
                _ if key.epoch > 0 && key_id.next() == key.key_id => (key, u32::MAX),
                _ => {
                    if discard == ReceiveDiscard::NoSession {
                        discard = ReceiveDiscard::UnknownKey;
                    }
                    continue;
                }
            };
            if seq.number() > newest {
                return Ok((Under { session: *number, epoch: key.epoch }, key));
            }
            discard = ReceiveDiscard::Late;
        }
        Err(discard)
    }

    /// The key that [`Keys::admit`] found.
    pub(crate) fn receive_key(&self, under: Under) -> Option<&EpochKey> {
        let sessions = [&self.entered, &self.running].into_iter().flatten();
        let receiver = &sessions.into_iter().find(|session| session.number == under.session)?.receive;
        [Some(&receiver.key), receiver.next.as_ref()]
            .into_iter()
            .flatten()
            .find(|key| key.epoch == under.epoch)
    }

    /// Judges a verified frame again, since others of its burst came before it, and lets what it is the first of begin.
    pub(crate) fn commit(&mut self, under: Under, seq: Seq) -> Result<Moved, ReceiveDiscard> {
        let mut moved = Moved::default();
        if self.entered.as_ref().is_some_and(|entered| entered.number == under.session) {
            moved.session = Some(under.session);
        }
        let session = self.session(under.session).ok_or(ReceiveDiscard::Late)?;
        let receiver = &mut session.receive;
        if under.epoch == receiver.key.epoch {
            if seq.number() <= receiver.newest {
                return Err(ReceiveDiscard::Late);
            }
        } else {
            let next = receiver.next.take_if(|next| next.epoch == under.epoch && receiver.ended.is_none());
            let next = next.ok_or(ReceiveDiscard::Late)?;
            receiver.ended = Some(core::mem::replace(&mut receiver.key, next));
            receiver.newest = 0;
            moved.epoch = Some((under.session, under.epoch));
        }
        moved.missing = seq.number() - receiver.newest - 1;
        receiver.newest = seq.number();
        if moved.session.is_some() {
            // A change that puts a session in takes out what ended before, so there is room.
            self.ended = core::mem::replace(&mut self.running, self.entered.take());
            self.enabled = false;
        }
        Ok(moved)
    }

    /// The key that protects.
    pub(crate) fn transmit_status(&self) -> Option<KeyStatus> {
        let LiveSession { number, transmit, .. } = self.transmitting()?;
        let last = transmit.next_seq.map_or(u32::MAX, |seq| seq.number() - 1);
        Some(status(*number, &transmit.key, last))
    }

    /// The key of the newest verified frame; of the session that was entered, if there is no other.
    pub(crate) fn receive_status(&self) -> Option<KeyStatus> {
        let LiveSession { number, receive, .. } = self.running.as_ref().or(self.entered.as_ref())?;
        Some(status(*number, &receive.key, receive.newest))
    }

    /// How far the newest session has come.
    pub(crate) fn state(&self) -> RelationState {
        match (&self.entered, &self.running) {
            (Some(_), None) => RelationState::Entered,
            (_, Some(running)) if running.receive.newest > 0 || running.receive.key.epoch > 0 => {
                RelationState::Running
            }
            (_, Some(_)) => RelationState::Entered,
            (None, None) => RelationState::NoSession,
        }
    }
}

fn status(session: SessionNumber, key: &EpochKey, seq: u32) -> KeyStatus {
    KeyStatus { session, epoch: key.epoch, key_id: key.key_id, seq: Seq::new(seq) }
}

#[cfg(test)]
mod tests {
    use suite::fieldbus::{Direction, MasterKey};
    use wire::MacAddr;
    use wire::fieldbus::{FrameId, HandshakeNonce, KeyBits, Protect, Protection};

    use super::*;

    fn key(epoch: u64) -> EpochKey {
        let direction = Direction {
            stations: [1, 2].map(|octet| (MacAddr([2, 0, 0, 0, 0, octet]), FrameId(0x8000))),
            from_higher: false,
            nonces: [HandshakeNonce([1; 16]), HandshakeNonce([2; 16])],
            protection: Protection { protect: Protect::Encrypt, key_bits: KeyBits::Bits128 },
            epoch,
        };
        EpochKey {
            key_id: KeyId(epoch as u8),
            epoch,
            key: MasterKey::new(&[3; 32]).direction_key(&direction),
        }
    }

    fn keys_at(next_seq: Seq) -> Keys {
        let number = SessionNumber(1);
        let session = Session { number, transmit: [key(0), key(1)], receive: [key(0), key(1)] };
        let mut keys = Keys::default();
        assert!(keys.change(KeyChange::Enter(LiveSession::new(session))).is_empty());
        keys.change(KeyChange::Enable(number));
        keys.entered.as_mut().unwrap().transmit.next_seq = Some(next_seq);
        keys
    }

    #[test]
    fn no_seq_comes_after_the_last() {
        let mut keys = keys_at(Seq::LAST);
        // Without an end before the last Seq, the next epoch begins behind it.
        let taken = |keys: &mut Keys| {
            let Taken { under, seq, begun, .. } = keys.take_seq(Seq::LAST)?;
            Ok((under.epoch, seq, begun.is_some()))
        };
        assert_eq!(taken(&mut keys), Ok((0, Seq::LAST, false)));
        assert_eq!(keys.transmit_status().unwrap().seq, Some(Seq::LAST));
        assert_eq!(taken(&mut keys), Ok((1, Seq::FIRST, true)));
        // The key of epoch 2 does not come.
        keys.entered.as_mut().unwrap().transmit.next_seq = Some(Seq::LAST);
        assert_eq!(taken(&mut keys), Ok((1, Seq::LAST, false)));
        for _ in 0..3 {
            assert_eq!(taken(&mut keys), Err(TransmitDiscard::SeqExhausted));
        }
        assert!(
            keys.change(KeyChange::NextTransmit(SessionNumber(1), key(2))).keys.len() == 1,
            "epoch 0 goes"
        );
        assert_eq!(taken(&mut keys), Ok((2, Seq::FIRST, true)));
    }

    #[test]
    fn the_last_seq_is_received_and_nothing_after_it() {
        let mut keys = keys_at(Seq::FIRST);
        let mut receive = |key_id: u8, number: u32| {
            let seq = Seq::new(number).unwrap();
            let (under, _) = keys.admit(KeyId(key_id), seq)?;
            keys.commit(under, seq).map(|moved| moved.missing)
        };
        assert_eq!(receive(0, u32::MAX), Ok(u32::MAX - 1));
        assert_eq!(receive(0, u32::MAX), Err(ReceiveDiscard::Late));
        assert_eq!(receive(1, 1), Ok(0));
        assert_eq!(receive(0, 5), Err(ReceiveDiscard::Late), "of the epoch before");
        assert_eq!(receive(2, 1), Err(ReceiveDiscard::UnknownKey), "not there yet");
    }
}
