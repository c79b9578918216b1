//! A session on the data path.
//!
//! ```text
//!  Sender, Receiver: key | how far its Seqs have come | ──▶ the keys of the epochs before and after, apart
//! ```
//!
//! The data of ordinary frames is contiguous. The keys for epoch changes are behind a pointer, which only the
//! first frame of an epoch follows.

use alloc::boxed::Box;

use wire::fieldbus::Seq;

use crate::session::{EpochKey, Session, SessionNumber};

/// A session with the progress of its Seqs: [`crate::KeyChange::Enter`] installs it.
#[derive(Debug)]
#[repr(C)]
pub struct LiveSession {
    pub(super) transmit: Sender,
    pub(super) number: SessionNumber,
    pub(super) receive: Receiver,
}

#[derive(Debug)]
pub(super) struct Sender {
    pub(super) key: EpochKey,
    pub(super) next_seq: Option<Seq>,
    pub(super) adjacent: Box<AdjacentKeys>,
}

#[derive(Debug)]
pub(super) struct Receiver {
    pub(super) key: EpochKey,
    /// Seq of the newest verified frame; 0 before the first.
    pub(super) newest: u32,
    pub(super) adjacent: Box<AdjacentKeys>,
}

/// Keys of the previous and the next epoch.
#[derive(Debug)]
pub(super) struct AdjacentKeys {
    pub(super) next: Option<EpochKey>,
    pub(super) ended: Option<EpochKey>,
}

impl LiveSession {
    /// A session without a protected or verified frame.
    pub fn new(session: Session) -> Self {
        let Session { number, transmit: [key, next], receive: [receive_key, receive_next] } = session;
        let transmit = Sender { key, next_seq: Some(Seq::FIRST), adjacent: AdjacentKeys::with(next) };
        let receive = Receiver { key: receive_key, newest: 0, adjacent: AdjacentKeys::with(receive_next) };
        Self { transmit, number, receive }
    }

    /// Returns its number at this end.
    pub const fn number(&self) -> SessionNumber {
        self.number
    }

    /// The keys that it began with: of transmission and of reception that of the epoch and that of the next one.
    pub fn keys(&self) -> [(&EpochKey, Option<&EpochKey>); 2] {
        [
            (&self.transmit.key, self.transmit.adjacent.next.as_ref()),
            (&self.receive.key, self.receive.adjacent.next.as_ref()),
        ]
    }
}

impl Sender {
    /// Begins the next epoch, if its key is there and the previous one was collected.
    pub(super) fn begin(&mut self) -> bool {
        let Some(next) = self.adjacent.take_next() else { return false };
        self.adjacent.ended = Some(core::mem::replace(&mut self.key, next));
        self.next_seq = Some(Seq::FIRST);
        true
    }
}

impl Receiver {
    /// Begins this epoch, if it is the next, its key is there and the previous one was collected.
    pub(super) fn begin(&mut self, epoch: u64) -> bool {
        if self.adjacent.next.as_ref().is_none_or(|next| next.epoch != epoch) {
            return false;
        }
        let Some(next) = self.adjacent.take_next() else { return false };
        self.adjacent.ended = Some(core::mem::replace(&mut self.key, next));
        self.newest = 0;
        true
    }
}

impl AdjacentKeys {
    pub(super) fn with(next: EpochKey) -> Box<Self> {
        Box::new(Self { next: Some(next), ended: None })
    }

    fn take_next(&mut self) -> Option<EpochKey> {
        if self.ended.is_some() { None } else { self.next.take() }
    }

    /// Installs the next epoch's key, after that of epoch `current`. Returns any other key.
    pub(super) fn put_next(&mut self, current: u64, key: EpochKey) -> Result<(), EpochKey> {
        if self.next.is_some() || current.checked_add(1) != Some(key.epoch) {
            return Err(key);
        }
        self.next = Some(key);
        Ok(())
    }
}
