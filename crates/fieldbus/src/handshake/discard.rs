//! Reasons of a handshake for discarding HELLOs, each of which has a counter.

/// Reason for discarding a HELLO, which has changed nothing then.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum HelloDiscard {
    /// It breaks a rule of the format, or is none.
    Malformed,
    /// Its addresses or its FrameID belong to another relation.
    OtherRelation,
    /// This end's own HELLO, sent back.
    Reflected,
    /// Its MAC is wrong.
    NotValid,
    /// Its sender uses another protection.
    OtherMode,
    /// It answers a question that is no longer asked.
    Stale,
    /// The caller has not taken the waiting ones.
    Overrun,
}
