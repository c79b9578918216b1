//! Keys of a relation on the data path: which one protects, which ones verify, and how they change without a
//! lost frame.
//!
//! ```text
//!              session that runs              session that was entered
//!  transmit    this one ······················ from Enable, or from the first frame verified under it
//!  receive     both, each with two KeyIDs ···· alone, from the first frame verified under it
//! ```
//!
//! An *epoch* ends for the sender when its Seqs run out and the next key is there; for the receiver with the
//! first frame verified under the next key. Nothing goes back: a frame of an ended epoch is late, and a late
//! value is a wrong value.
//!
//! This module neither makes nor frees keys. Control installs them by a [`KeyChange`], and the next change
//! collects the ended ones. An epoch cannot end before the previous one's keys are collected, since only then
//! the key for it is installed.
//!
//! The running session is stored beside its relation's counters; others are behind a pointer ([`live`]
//! likewise). So a frame reads only a few cache lines.

mod live;
mod passed_on;

use alloc::boxed::Box;

use arrayvec::ArrayVec;
use wire::fieldbus::{KeyId, Seq};

use crate::direction::Direction;
use crate::discard::{ReceiveDiscard, TransmitDiscard};
use crate::session::{EpochKey, SessionNumber};

pub use live::LiveSession;
use live::{Receiver, Sender};
pub(crate) use passed_on::PassedKeys;

/// A change of a relation's keys.
#[derive(Debug)]
pub enum KeyChange {
    /// Verify under this session too. Drops an earlier entered session that does not transmit.
    Enter(LiveSession),
    /// Protect under the session with this number, if it was entered last.
    Enable(SessionNumber),
    /// Key of the transmit epoch after the current one.
    NextTransmit(SessionNumber, EpochKey),
    /// Key of the receive epoch after the current one.
    NextReceive(SessionNumber, EpochKey),
    /// No change: only collects ended keys, as every change does.
    Collect,
    /// All keys go: another frame path has the relation from here on, under keys of its own, or a removed master key
    /// ends its sessions.
    Leave,
}

/// Ended keys, and keys that a change did not install: to be wiped and freed where time does not matter.
#[derive(Debug, Default)]
pub struct RetiredKeys {
    sessions: ArrayVec<LiveSession, 3>,
    keys: ArrayVec<EpochKey, 5>,
}

impl RetiredKeys {
    /// True if there are none.
    pub fn is_empty(&self) -> bool {
        self.sessions.is_empty() && self.keys.is_empty()
    }
}

/// Reference to a key: an epoch of a session.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct KeyRef {
    session: SessionNumber,
    epoch: u64,
}

/// A Seq that was never taken before, with its key.
#[derive(Debug)]
pub(crate) struct TakenSeq<'k> {
    pub(crate) under: KeyRef,
    pub(crate) key: &'k EpochKey,
    pub(crate) seq: Seq,
    /// The epoch that begins with it, if any.
    pub(crate) begun: Option<Epoch>,
}

/// An epoch of a session.
pub(crate) type Epoch = (SessionNumber, u64);

/// Effects of a verified frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct CommitOutcome {
    /// Session of which it is the first verified frame.
    pub(crate) session: Option<SessionNumber>,
    /// Epoch that begins with it.
    pub(crate) epoch: Option<Epoch>,
    /// Seqs between this frame and the newest one before.
    pub(crate) missing: u32,
}

/// A key in use, for the status.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct KeyStatus {
    /// The end's session number.
    pub session: SessionNumber,
    /// Epoch of the session.
    pub epoch: u64,
    /// The key's identifier on the wire.
    pub key_id: KeyId,
    /// Seq of the last frame under it; `None` before the first.
    pub seq: Option<Seq>,
}

/// State of a relation's traffic.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
pub enum RelationState {
    /// None: no session with the other gateway.
    #[default]
    NoSession,
    /// A session without a verified frame yet.
    Entered,
    /// Frames pass.
    Running,
}

/// All keys of a relation.
#[derive(Debug, Default)]
#[repr(C)]
pub(crate) struct Keys {
    /// True if `others` has an entered session without a verified frame. Stored here so that no frame has to
    /// look there.
    is_entered: bool,
    /// True if that session protects already.
    enabled: bool,
    others: Box<OtherSessions>,
    running: Option<LiveSession>,
}

/// Sessions that no frame runs in.
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

    /// Applies a change. Moves some hundred octets; neither allocates nor frees.
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
                // The transmitting session stays until the new one is enabled.
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
            KeyChange::Leave => {
                out.sessions.extend([self.running.take(), self.others.entered.take()].into_iter().flatten());
                (self.is_entered, self.enabled) = (false, false);
            }
        }
        out
    }

    /// The session entered last, until a frame is verified in it.
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

    /// The transmitting session.
    fn transmitting(&self) -> Option<&LiveSession> {
        self.entered().filter(|_| self.enabled).or(self.running.as_ref())
    }

    /// Next Seq, with its key. Begins the next epoch, and reports it, when this one has reached `epoch_end`
    /// and the next key is there.
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

    /// Key of a taken Seq.
    pub(crate) fn transmit_key(&self, under: KeyRef) -> Option<&EpochKey> {
        let Sender { key, adjacent, .. } = &self.session(under.session)?.transmit;
        if key.epoch == under.epoch {
            return Some(key);
        }
        adjacent.ended.as_ref().filter(|key| key.epoch == under.epoch)
    }

    /// Key of a received frame, if the frame is newer than all that were verified under it.
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

    /// The key from [`Keys::admit`], if it has not ended since.
    pub(crate) fn receive_key(&self, under: KeyRef) -> Option<&EpochKey> {
        let Receiver { key, adjacent, .. } = &self.session(under.session)?.receive;
        if key.epoch == under.epoch {
            return Some(key);
        }
        adjacent.next.as_ref().filter(|key| key.epoch == under.epoch)
    }

    /// Checks a verified frame again, since others of its burst came before it, and begins the session or
    /// epoch of which it is the first.
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
            // Every change that installs a session collects the ended one, so there is room.
            self.others.ended = core::mem::replace(&mut self.running, self.others.entered.take());
            (self.is_entered, self.enabled) = (false, false);
        }
        Ok(outcome)
    }

    /// Status of the transmit key.
    pub(crate) fn transmit_status(&self) -> Option<KeyStatus> {
        let LiveSession { number, transmit, .. } = self.transmitting()?;
        let last = transmit.next_seq.map_or(u32::MAX, |seq| seq.number() - 1);
        Some(status(*number, &transmit.key, last))
    }

    /// Status of the newest verified frame's key; without one, of the entered session.
    pub(crate) fn receive_status(&self) -> Option<KeyStatus> {
        let LiveSession { number, receive, .. } = self.running.as_ref().or(self.entered())?;
        Some(status(*number, &receive.key, receive.newest))
    }

    /// State of the newest session.
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
