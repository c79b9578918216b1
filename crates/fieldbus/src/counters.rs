//! Counters of a relation, per direction, in the standard's style (IEEE 802.1AE-2018 clause 10.7.9). Each
//! discard has one counter.

wire::counters! {
    /// Frames of a relation from its local station.
    TransmitCounters {
        /// Protected frames sent; in shadow mode the twins.
        out_pkts_protected = "OutPktsProtected",
        /// Octets of payload in them, behind the FrameID.
        out_octets_protected = "OutOctetsProtected",
        /// Frames sent in clear: the relation is in shadow mode.
        out_pkts_clear = "OutPktsClear",
        /// Discarded: no session with the other gateway yet, or its first key is not enabled.
        out_pkts_no_session = "OutPktsNoSession" [discard],
        /// Discarded: every Seq of the key is used, and the next key is not there.
        out_pkts_seq_exhausted = "OutPktsSeqExhausted" [discard],
        /// Discarded: with KeyID, Seq and ICV the frame would exceed the protected side's MTU.
        out_pkts_too_long = "OutPktsTooLong" [discard],
        /// Times that the next epoch's key took over.
        out_epochs = "OutEpochs",
    }
}

wire::counters! {
    /// Frames of a relation from the station behind the other gateway.
    ReceiveCounters {
        /// Delivered: verified, and newer than any before.
        in_pkts_ok = "InPktsOK",
        /// Octets of payload in frames that were verified, behind the Seq.
        in_octets_ok = "InOctetsOK",
        /// Verified like a delivered frame, and not delivered: in shadow mode the frame in clear is.
        in_pkts_shadow = "InPktsShadow",
        /// Delivered in clear: the relation is in shadow mode.
        in_pkts_clear = "InPktsClear",
        /// Frames that never came, or came late: Seqs between two verified frames.
        in_pkts_missing = "InPktsMissing",
        /// Discarded: its Seq is not newer than that of the newest verified frame.
        in_pkts_late = "InPktsLate" [discard],
        /// Discarded: its KeyID is neither that of the current key nor of the next.
        in_pkts_unknown_key = "InPktsUnknownKey" [discard],
        /// Discarded: the ICV is wrong.
        in_pkts_not_valid = "InPktsNotValid" [discard],
        /// Discarded: no session with the other gateway yet.
        in_pkts_no_session = "InPktsNoSession" [discard],
        /// Discarded: shorter than KeyID, Seq and ICV.
        in_pkts_too_short = "InPktsTooShort" [discard],
        /// Discarded: in clear, though the relation is protected.
        in_pkts_clear_refused = "InPktsClearRefused" [discard],
        /// Of these, those whose verified twin came behind: the other gateway is in shadow mode, and nobody forges.
        in_pkts_clear_twin = "InPktsClearTwin",
        /// Times that the next epoch's key took over.
        in_epochs = "InEpochs",
        /// Times that a new session took over.
        in_sessions = "InSessions",
        /// Times that no verified frame came for the configured time.
        in_alarms = "InAlarms",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_says_that_it_is_discarded_is_marked_so() {
        for row in [TransmitCounters::TABLE, ReceiveCounters::TABLE].concat() {
            assert_eq!(row.discard, row.meaning.starts_with("Discarded:"), "{}: {}", row.name, row.meaning);
        }
    }
}
