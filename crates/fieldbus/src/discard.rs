//! Reasons for discarding frames. Each has exactly one counter.

use crate::counters::{ReceiveCounters, TransmitCounters};

/// Reason for not sending a relation's frame. Each has its counter in [`TransmitCounters`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum TransmitDiscard {
    /// No session, or none that is enabled.
    NoSession,
    /// No Seq is left, and no next key.
    SeqExhausted,
    /// With KeyID, Seq and ICV it would exceed the protected side's MTU, or its chunk.
    TooLong,
}

impl TransmitCounters {
    pub(crate) const fn count(&mut self, discard: TransmitDiscard) {
        *match discard {
            TransmitDiscard::NoSession => &mut self.out_pkts_no_session,
            TransmitDiscard::SeqExhausted => &mut self.out_pkts_seq_exhausted,
            TransmitDiscard::TooLong => &mut self.out_pkts_too_long,
        } += 1;
    }
}

/// Reason for not delivering a relation's frame. Each has its counter in [`ReceiveCounters`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ReceiveDiscard {
    /// Ends inside KeyID, Seq and ICV.
    TooShort,
    /// No session.
    NoSession,
    /// Its KeyID is neither that of the current key nor of the next.
    UnknownKey,
    /// Its Seq is not newer than that of the newest verified frame.
    Late,
    /// Its ICV is wrong.
    NotValid,
    /// Valid, but in shadow mode the frame in clear was delivered.
    Shadow,
}

impl ReceiveCounters {
    pub(crate) const fn count(&mut self, outcome: Result<(), ReceiveDiscard>) {
        *match outcome {
            Ok(()) => &mut self.in_pkts_ok,
            Err(ReceiveDiscard::TooShort) => &mut self.in_pkts_too_short,
            Err(ReceiveDiscard::NoSession) => &mut self.in_pkts_no_session,
            Err(ReceiveDiscard::UnknownKey) => &mut self.in_pkts_unknown_key,
            Err(ReceiveDiscard::Late) => &mut self.in_pkts_late,
            Err(ReceiveDiscard::NotValid) => &mut self.in_pkts_not_valid,
            Err(ReceiveDiscard::Shadow) => &mut self.in_pkts_shadow,
        } += 1;
    }
}
