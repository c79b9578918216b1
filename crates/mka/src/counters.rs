//! Counters of a KaY, and its reasons for discarding MKPDUs: one reason, one counter.

use wire::mkpdu::BadName;

wire::counters! {
    /// Counters of a KaY.
    KayCounters {
        /// MKPDUs sent.
        mkpdus_tx = "MkpdusTx",
        /// MKPDUs received, verified and taken in.
        mkpdus_rx = "MkpdusRx",
        /// EAPOL frames of other protocols than MKA.
        mkpdus_not_mka = "MkpdusNotMka" [discard],
        /// Frames that break a rule of the MKPDU's format.
        mkpdus_malformed = "MkpdusMalformed" [discard],
        /// MKPDUs under a CKN that is not configured here.
        mkpdus_unknown_ckn = "MkpdusUnknownCkn" [discard],
        /// MKPDUs under other algorithms than the standard's.
        mkpdus_other_agility = "MkpdusOtherAgility" [discard],
        /// MKPDUs under a CKN of ours whose ICV is wrong: another CAK, or forged.
        mkpdus_wrong_icv = "MkpdusWrongIcv" [discard],
        /// Own MKPDUs that came back, or were recorded earlier.
        mkpdus_reflected = "MkpdusReflected" [discard],
        /// MKPDUs that were heard before, or came late: their MN is not higher than the last one.
        mkpdus_old_mn = "MkpdusOldMn" [discard],
        /// MKPDUs of a member that has begun anew since.
        mkpdus_departed = "MkpdusDeparted" [discard],
        /// MKPDUs of one member more than a SecY can receive from.
        mkpdus_too_many_peers = "MkpdusTooManyPeers" [discard],
        /// Names in MKPDUs without an octet, or with more than 63. The MKPDUs were taken in.
        names_bad_length = "NamesBadLength",
        /// Names in MKPDUs with more than printable ASCII, or with a quotation mark, an apostrophe, a backslash, or a space at an end. The
        /// MKPDUs were taken in.
        names_not_printable = "NamesNotPrintable",
        /// SAKs that this KaY made.
        saks_made = "SaksMade",
        /// SAKs that were installed.
        saks_installed = "SaksInstalled",
        /// SAKs of the key server that were not taken.
        saks_refused = "SaksRefused",
        /// Those of them that hide less than is configured.
        saks_weaker = "SaksWeaker",
        /// Stations that have a CAK, were live, and do not belong to the link.
        strangers = "Strangers",
    }
}

/// Reason for discarding an MKPDU.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Discard {
    NotMka,
    Malformed,
    UnknownCkn,
    OtherAgility,
    WrongIcv,
    Reflected,
    OldMn,
    Departed,
    TooManyPeers,
}

impl Discard {
    /// True if the ICV was verified before.
    pub(crate) const fn is_of_a_member(self) -> bool {
        match self {
            Self::NotMka | Self::Malformed | Self::UnknownCkn | Self::OtherAgility | Self::WrongIcv => false,
            Self::Reflected | Self::OldMn | Self::Departed | Self::TooManyPeers => true,
        }
    }
}

impl KayCounters {
    pub(crate) const fn count_bad_name(&mut self, bad: BadName) {
        let counter = match bad {
            BadName::Length => &mut self.names_bad_length,
            BadName::Character => &mut self.names_not_printable,
        };
        *counter += 1;
    }

    pub(crate) const fn count(&mut self, discard: Discard) {
        let counter = match discard {
            Discard::NotMka => &mut self.mkpdus_not_mka,
            Discard::Malformed => &mut self.mkpdus_malformed,
            Discard::UnknownCkn => &mut self.mkpdus_unknown_ckn,
            Discard::OtherAgility => &mut self.mkpdus_other_agility,
            Discard::WrongIcv => &mut self.mkpdus_wrong_icv,
            Discard::Reflected => &mut self.mkpdus_reflected,
            Discard::OldMn => &mut self.mkpdus_old_mn,
            Discard::Departed => &mut self.mkpdus_departed,
            Discard::TooManyPeers => &mut self.mkpdus_too_many_peers,
        };
        *counter += 1;
    }
}
