//! Counters of a handshake, one for each reason to discard a HELLO.

use super::discard::HelloDiscard;

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
