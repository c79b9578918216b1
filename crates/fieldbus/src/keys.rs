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
//!
//! The session that runs stands where its relation's counters stand; others are behind a pointer ([`live`] likewise), so
//! that what a frame reads lies in a few cache lines.

mod live;

use alloc::boxed::Box;

use arrayvec::ArrayVec;
use wire::fieldbus::{KeyId, Seq};

use crate::receive::ReceiveDiscard;
use crate::relations::Direction;
use crate::session::{EpochKey, SessionNumber};
use crate::transmit::TransmitDiscard;

pub use live::LiveSession;
use live::{Receiver, Sender};

/// A change of a relation's keys.
#[derive(Debug)]
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
    Collect,
}

/// What a change took out, or did not put in; to be wiped and freed where time does not matter.
#[derive(Debug, Default)]
pub struct RetiredKeys {
    sessions: ArrayVec<LiveSession, 3>,
    keys: ArrayVec<EpochKey, 5>,
}

impl RetiredKeys {
    /// Whether there is nothing.
    pub fn is_empty(&self) -> bool {
        self.sessions.is_empty() && self.keys.is_empty()
    }
}

/// Which key of a relation: that of an epoch of a session.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct KeyRef {
    session: SessionNumber,
    epoch: u64,
}

/// A Seq, never taken before, and what it is for.
#[derive(Debug)]
pub(crate) struct TakenSeq<'k> {
    pub(crate) under: KeyRef,
    pub(crate) key: &'k EpochKey,
    pub(crate) seq: Seq,
    /// This epoch has begun with it.
    pub(crate) begun: Option<Epoch>,
}

/// An epoch of a session.
pub(crate) type Epoch = (SessionNumber, u64);

/// What is new after a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct CommitOutcome {
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
#[repr(C)]
pub(crate) struct Keys {
    /// A session was entered, and no frame was verified in it yet: whether `others` has one, told here so that no frame need look
    /// there.
    is_entered: bool,
    /// It protects already.
    enabled: bool,
    others: Box<OtherSessions>,
    running: Option<LiveSession>,
}

/// Sessions in whose time a relation's frames do not run.
#[derive(Debug, Default)]
struct OtherSessions {
    entered: Option<LiveSession>,
    ended: Option<LiveSession>,
}

impl Keys {
    /// Reads an octet of each cache line that a frame of this direction needs.
    #[inline]
    pub(crate) fn prefetch(&self, direction: Direction) -> u32 {
        let Some(LiveSession { transmit, receive, .. }) = &self.running else { return 0 };
        match direction {
            Direction::Outward => transmit.next_seq.map_or(0, Seq::number) + u32::from(transmit.key.key_id.0),
            Direction::Inward => receive.newest ^ u32::from(receive.key.key_id.0),
        }
    }

    /// Carries a change out. Moves some hundred octets; neither allocates nor frees.
    pub(crate) fn change(&mut self, change: KeyChange) -> RetiredKeys {
        let mut out = RetiredKeys::default();
        out.sessions.extend(self.others.ended.take());
        for LiveSession { transmit, receive, .. } in
            [&mut self.running, &mut self.others.entered].into_iter().flatten()
        {
            out.keys.extend(
                [transmit.adjacent.ended.take(), receive.adjacent.ended.take()].into_iter().flatten(),
            );
        }
        match change {
            KeyChange::Enter(session) => {
                // What protects goes on until the new one is enabled.
                let before = if self.enabled {
                    core::mem::replace(&mut self.running, self.others.entered.take())
                } else {
                    self.others.entered.take()
                };
                out.sessions.extend(before);
                self.others.entered = Some(session);
                (self.is_entered, self.enabled) = (true, false);
            }
            KeyChange::Enable(number) => {
                self.enabled |= self.entered().is_some_and(|session| session.number == number);
            }
            KeyChange::NextTransmit(number, key) => {
                let refused = match self.session_mut(number) {
                    Some(LiveSession { transmit: Sender { key: current, adjacent, .. }, .. }) => {
                        adjacent.put_next(current.epoch, key)
                    }
                    None => Err(key),
                };
                out.keys.extend(refused.err());
            }
            KeyChange::NextReceive(number, key) => {
                let refused = match self.session_mut(number) {
                    Some(LiveSession { receive: Receiver { key: current, adjacent, .. }, .. }) => {
                        adjacent.put_next(current.epoch, key)
                    }
                    None => Err(key),
                };
                out.keys.extend(refused.err());
            }
            KeyChange::Collect => {}
        }
        out
    }

    /// The session that was entered last, until a frame was verified in it.
    fn entered(&self) -> Option<&LiveSession> {
        if self.is_entered { self.others.entered.as_ref() } else { None }
    }

    fn session_mut(&mut self, number: SessionNumber) -> Option<&mut LiveSession> {
        let entered = if self.is_entered { self.others.entered.as_mut() } else { None };
        [entered, self.running.as_mut()].into_iter().flatten().find(|session| session.number == number)
    }

    fn session(&self, number: SessionNumber) -> Option<&LiveSession> {
        [self.entered(), self.running.as_ref()].into_iter().flatten().find(|session| session.number == number)
    }

    /// The session that protects.
    fn transmitting(&self) -> Option<&LiveSession> {
        self.entered().filter(|_| self.enabled).or(self.running.as_ref())
    }

    /// The next Seq, and the key that it belongs to. Begins the next epoch when this one has come to `epoch_end` and
    /// its key is there; the epoch that has begun is told.
    pub(crate) fn take_seq(&mut self, epoch_end: Seq) -> Result<TakenSeq<'_>, TransmitDiscard> {
        let session = if self.enabled { self.others.entered.as_mut() } else { None };
        let LiveSession { number, transmit, .. } =
            session.or(self.running.as_mut()).ok_or(TransmitDiscard::NoSession)?;
        let mut begun = None;
        if transmit.next_seq.is_none_or(|seq| seq > epoch_end) && transmit.begin() {
            begun = Some((*number, transmit.key.epoch));
        }
        // Nothing wraps: without a next key there is no Seq after the last.
        let seq = transmit.next_seq.ok_or(TransmitDiscard::SeqExhausted)?;
        transmit.next_seq = seq.next();
        let under = KeyRef { session: *number, epoch: transmit.key.epoch };
        Ok(TakenSeq { under, key: &transmit.key, seq, begun })
    }

    /// The key that a Seq was taken for.
    pub(crate) fn transmit_key(&self, under: KeyRef) -> Option<&EpochKey> {
        let Sender { key, adjacent, .. } = &self.session(under.session)?.transmit;
        if key.epoch == under.epoch {
            return Some(key);
        }
        adjacent.ended.as_ref().filter(|key| key.epoch == under.epoch)
    }

    /// The key for a received frame, if that is newer than what was verified under it before.
    pub(crate) fn admit(&self, key_id: KeyId, seq: Seq) -> Result<(KeyRef, &EpochKey), ReceiveDiscard> {
        let mut discard = ReceiveDiscard::NoSession;
        for LiveSession { number, receive, .. } in
            [self.entered(), self.running.as_ref()].into_iter().flatten()
        {
            let Receiver { key, newest, .. } = receive;
            let (key, newest) = if key.key_id == key_id {
                (key, *newest)
            } else if let Some(next) = receive.adjacent.next.as_ref().filter(|next| next.key_id == key_id) {
                (next, 0)
            } else if key.epoch > 0 && key_id.next() == key.key_id {
                (key, u32::MAX)
            } else {
                if discard == ReceiveDiscard::NoSession {
                    discard = ReceiveDiscard::UnknownKey;
                }
                continue;
            };
            if seq.number() > newest {
                return Ok((KeyRef { session: *number, epoch: key.epoch }, key));
            }
            discard = ReceiveDiscard::Late;
        }
        Err(discard)
    }

    /// The key that [`Keys::admit`] found, if it has not ended since.
    pub(crate) fn receive_key(&self, under: KeyRef) -> Option<&EpochKey> {
        let Receiver { key, adjacent, .. } = &self.session(under.session)?.receive;
        if key.epoch == under.epoch {
            return Some(key);
        }
        adjacent.next.as_ref().filter(|key| key.epoch == under.epoch)
    }

    /// Judges a verified frame again, since others of its burst came before it, and lets what it is the first of begin.
    pub(crate) fn commit(&mut self, under: KeyRef, seq: Seq) -> Result<CommitOutcome, ReceiveDiscard> {
        let mut outcome = CommitOutcome::default();
        if self.entered().is_some_and(|entered| entered.number == under.session) {
            outcome.session = Some(under.session);
        }
        let receiver = &mut self.session_mut(under.session).ok_or(ReceiveDiscard::Late)?.receive;
        if under.epoch == receiver.key.epoch {
            if seq.number() <= receiver.newest {
                return Err(ReceiveDiscard::Late);
            }
        } else if receiver.begin(under.epoch) {
            outcome.epoch = Some((under.session, under.epoch));
        } else {
            return Err(ReceiveDiscard::Late);
        }
        outcome.missing = seq.number() - receiver.newest - 1;
        receiver.newest = seq.number();
        if outcome.session.is_some() {
            // A change that puts a session in takes out what ended before, so there is room.
            self.others.ended = core::mem::replace(&mut self.running, self.others.entered.take());
            (self.is_entered, self.enabled) = (false, false);
        }
        Ok(outcome)
    }

    /// The key that protects.
    pub(crate) fn transmit_status(&self) -> Option<KeyStatus> {
        let LiveSession { number, transmit, .. } = self.transmitting()?;
        let last = transmit.next_seq.map_or(u32::MAX, |seq| seq.number() - 1);
        Some(status(*number, &transmit.key, last))
    }

    /// The key of the newest verified frame; of the session that was entered, if there is no other.
    pub(crate) fn receive_status(&self) -> Option<KeyStatus> {
        let LiveSession { number, receive, .. } = self.running.as_ref().or(self.entered())?;
        Some(status(*number, &receive.key, receive.newest))
    }

    /// How far the newest session has come.
    pub(crate) fn state(&self) -> RelationState {
        match (self.entered(), &self.running) {
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
mod tests;
