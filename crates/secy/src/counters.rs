//! The counters of clauses 10.7.9 and 10.7.18 of IEEE 802.1AE-2018, under the standard's names. Our own stand
//! beside them in the same style.
//!
//! Each counter has one owner, who counts it without an atomic; reports copy whole structs. The standard's
//! counters of an SC are the sums over its SAs, retired ones included.
//!
//! The edition of 2006 has other names for two of them: its `InPktsUnknownSCI` and `InPktsUnusedSA` are
//! `InPktsNoSA`; its `InPktsNoSCI` and `InPktsNotUsingSA` are `InPktsNoSAError`.

wire::counters! {
    /// Counters of a SecY that belong to no SC.
    SecYCounters {
        /// Sent without SecTAG because `protect_frames` is false.
        out_pkts_untagged = "OutPktsUntagged",
        /// Discarded: with SecTAG and ICV the frame would exceed the protected side's MTU.
        out_pkts_too_long = "OutPktsTooLong" [discard],
        /// Discarded: shorter than an Ethernet header. Ours.
        out_pkts_too_short = "OutPktsTooShort" [discard],
        /// Discarded: no transmit SA is enabled. Ours.
        out_pkts_no_sa = "OutPktsNoSA" [discard],
        /// Discarded: every PN of the transmit SA is used. Ours.
        out_pkts_pn_exhausted = "OutPktsPnExhausted" [discard],
        /// Discarded: the next block of PNs is not yet reserved on disk. Ours.
        out_pkts_pn_unreserved = "OutPktsPnUnreserved" [discard],
        /// Delivered without SecTAG because `validate_frames` is not strict.
        in_pkts_untagged = "InPktsUntagged",
        /// Discarded: without SecTAG.
        in_pkts_no_tag = "InPktsNoTag" [discard],
        /// Discarded: the SecTAG breaks a rule of clause 9, or its PN is 0.
        in_pkts_bad_tag = "InPktsBadTag" [discard],
        /// Delivered unverified: no SA for it, and `validate_frames` is not strict.
        in_pkts_no_sa = "InPktsNoSA",
        /// Discarded: no SA for it.
        in_pkts_no_sa_error = "InPktsNoSAError" [discard],
        /// Discarded: shorter than an Ethernet header. Ours.
        in_pkts_too_short = "InPktsTooShort" [discard],
        /// Discarded: VLAN tags in clear in front of the SecTAG. Ours.
        in_pkts_clear_vlan = "InPktsClearVlan" [discard],
    }
}

wire::counters! {
    /// Counters of a transmit SA, and summed up of a transmit SC.
    TransmitSaCounters {
        /// Frames sent with integrity alone.
        out_pkts_protected = "OutPktsProtected",
        /// Frames sent encrypted.
        out_pkts_encrypted = "OutPktsEncrypted",
        /// Octets of secure data in frames sent with integrity alone.
        out_octets_protected = "OutOctetsProtected",
        /// Octets of secure data in frames sent encrypted.
        out_octets_encrypted = "OutOctetsEncrypted",
        /// Frames sent encrypted whose keystream was ready. Ours.
        out_pkts_antedated = "OutPktsAntedated",
        /// Frames sent encrypted that were longer than the keystream that was ready. Ours.
        out_pkts_antedated_in_part = "OutPktsAntedatedInPart",
        /// Frames sent encrypted for which no keystream was ready, though their SA antedates. Ours.
        out_pkts_not_antedated = "OutPktsNotAntedated",
    }
}

wire::counters! {
    /// Counters of a receive SA, and summed up of a receive SC.
    ReceiveSaCounters {
        /// Delivered: verified, and not late.
        in_pkts_ok = "InPktsOK",
        /// Delivered unverified because `validate_frames` is disabled.
        in_pkts_unchecked = "InPktsUnchecked",
        /// Delivered though below `lowest_pn`: replay protection is off.
        in_pkts_delayed = "InPktsDelayed",
        /// Discarded: below `lowest_pn`.
        in_pkts_late = "InPktsLate" [discard],
        /// Discarded: a PN inside the replay window that was received before. Ours.
        in_pkts_duplicate = "InPktsDuplicate" [discard],
        /// Delivered though the ICV is wrong: `validate_frames` is check.
        in_pkts_invalid = "InPktsInvalid",
        /// Discarded: the ICV is wrong, or the data is encrypted and `validate_frames` is disabled.
        in_pkts_not_valid = "InPktsNotValid" [discard],
        /// Discarded: verified, but its extension headers break a rule. Ours.
        in_pkts_malformed = "InPktsMalformed" [discard],
        /// SDUs that were put together from pieces. Ours.
        in_sdus_reassembled = "InSdusReassembled",
        /// SDUs that shared a frame with others. Ours.
        in_sdus_separated = "InSdusSeparated",
        /// SDUs that were complete and discarded: longer than any that is sent. Ours.
        in_sdus_too_long = "InSdusTooLong" [discard],
        /// Pieces discarded: the missing neighbour has become late, so it cannot come any more. Ours.
        in_pieces_lost = "InPiecesLost" [discard],
        /// Pieces discarded: the missing neighbour did not come in time (without replay protection). Ours.
        in_pieces_expired = "InPiecesExpired" [discard],
        /// Pieces discarded: others needed their room. Ours.
        in_pieces_overrun = "InPiecesOverrun" [discard],
        /// Pieces discarded: the neighbour is of another SDU. Ours.
        in_pieces_mismatched = "InPiecesMismatched" [discard],
        /// Pieces discarded: their SA was retired. Ours.
        in_pieces_retired = "InPiecesRetired" [discard],
        /// Octets of secure data in verified frames that were not encrypted.
        in_octets_validated = "InOctetsValidated",
        /// Octets of secure data in verified frames that were encrypted.
        in_octets_decrypted = "InOctetsDecrypted",
        /// Authentic encrypted frames whose keystream was ready. Ours.
        in_pkts_antedated = "InPktsAntedated",
        /// Authentic encrypted frames that were longer than the keystream that was ready. Ours.
        in_pkts_antedated_in_part = "InPktsAntedatedInPart",
        /// Authentic encrypted frames for which no keystream was ready, though their SA antedates. Ours.
        in_pkts_not_antedated = "InPktsNotAntedated",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_values_stand_in_one_order() {
        let counters = ReceiveSaCounters { in_pkts_late: 3, in_octets_decrypted: 9, ..Default::default() };
        let late = ReceiveSaCounters::NAMES.iter().position(|&name| name == "InPktsLate").expect("there");
        assert_eq!(counters.values()[late], 3);
        let decrypted = ReceiveSaCounters::NAMES.iter().position(|&name| name == "InOctetsDecrypted");
        assert_eq!(counters.values()[decrypted.expect("there")], 9);
        let mut sum = counters;
        sum.add(&counters);
        assert_eq!(sum.values()[late], 6);
        let row = ReceiveSaCounters::TABLE[late];
        assert_eq!((row.name, row.metric, row.discard), ("InPktsLate", "in_pkts_late", true));
        assert_eq!(row.meaning, "Discarded: below `lowest_pn`.");
        assert!(
            ReceiveSaCounters::TABLE.iter().map(|row| row.name).eq(ReceiveSaCounters::NAMES.iter().copied())
        );
    }

    #[test]
    fn what_says_that_it_is_discarded_is_marked_so() {
        let tables = [SecYCounters::TABLE, TransmitSaCounters::TABLE, ReceiveSaCounters::TABLE];
        for row in tables.concat() {
            let told = row.meaning.starts_with("Discarded:") || row.meaning.contains(" discarded");
            assert_eq!(row.discard, told, "{}: {}", row.name, row.meaning);
        }
    }
}
