//! Counters of a handshake, and its reasons for discarding HELLOs: one reason, one counter.

wire::counters! {
    /// Counters of a handshake.
    HelloCounters {
        /// HELLOs sent.
        out_hello = "OutHello",
        /// HELLOs of the peer that were taken in.
        in_hello = "InHello",
        /// HELLOs that break a rule of the format.
        in_hello_malformed = "InHelloMalformed" [discard],
        /// HELLOs between other stations, or of another FrameID.
        in_hello_other_relation = "InHelloOtherRelation" [discard],
        /// Own HELLOs that came back.
        in_hello_reflected = "InHelloReflected" [discard],
        /// HELLOs whose MAC is wrong: another master key, or forged.
        in_hello_not_valid = "InHelloNotValid" [discard],
        /// HELLOs of a peer that is configured for other protection: mode or length of keys.
        in_hello_other_mode = "InHelloOtherMode" [discard],
        /// HELLOs that answer what this gateway no longer asks: late, or replayed.
        in_hello_stale = "InHelloStale" [discard],
        /// HELLOs that came faster than answers were taken.
        in_hello_overrun = "InHelloOverrun" [discard],
        /// Sessions that this gateway entered.
        sessions_entered = "SessionsEntered",
        /// Sessions that the peer is known to have entered too.
        sessions_confirmed = "SessionsConfirmed",
    }
}

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

impl HelloCounters {
    pub(super) const fn count(&mut self, discard: HelloDiscard) {
        let counter = match discard {
            HelloDiscard::Malformed => &mut self.in_hello_malformed,
            HelloDiscard::OtherRelation => &mut self.in_hello_other_relation,
            HelloDiscard::Reflected => &mut self.in_hello_reflected,
            HelloDiscard::NotValid => &mut self.in_hello_not_valid,
            HelloDiscard::OtherMode => &mut self.in_hello_other_mode,
            HelloDiscard::Stale => &mut self.in_hello_stale,
            HelloDiscard::Overrun => &mut self.in_hello_overrun,
        };
        *counter = counter.wrapping_add(1);
    }
}
