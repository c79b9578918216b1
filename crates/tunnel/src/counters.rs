//! What a site counts. Every frame and packet that is dropped has one reason, and the reason is its counter.
//!
//! "Out" is from the LAN to the peers, "In" from the peers to the LAN, as in IEEE 802.1AE. Parts are halves of frames
//! that did not fit the path.

use crate::settings::PeerId;

wire::counters! {
    /// What belongs to no peer.
    SiteCounters {
        /// Frames of the LAN for a station behind a peer.
        out_pkts_unicast = "OutPktsUnicast",
        /// Frames of the LAN for all peers: to a group, or to a station whose place is unknown.
        out_pkts_flooded = "OutPktsFlooded",
        /// Frames of the LAN for a station of the LAN: they go nowhere.
        out_pkts_local = "OutPktsLocal",
        /// Discarded: without SecTAG, or with a VLAN tag in front of it.
        out_pkts_not_macsec = "OutPktsNotMacsec" [discard],
        /// Discarded: shorter than addresses and SecTAG.
        out_pkts_too_short = "OutPktsTooShort" [discard],
        /// Discarded: the version bit of the SecTAG is 1.
        out_pkts_bad_tag = "OutPktsBadTag" [discard],
        /// Discarded: from a station that was heard behind a peer within the last second; what came out of a tunnel
        /// goes into none.
        out_pkts_loop = "OutPktsLoop" [discard],
        /// Discarded: there is no peer.
        out_pkts_no_peer = "OutPktsNoPeer" [discard],
        /// Discarded: shorter than the header of a packet, or the beginning of a QUIC packet.
        in_pkts_too_short = "InPktsTooShort" [discard],
        /// Discarded: an identifier that no window holds: used before, too old, too new, or made up.
        in_pkts_unknown_identifier = "InPktsUnknownIdentifier" [discard],
        /// Discarded: from a peer in another mode.
        in_pkts_wrong_mode = "InPktsWrongMode" [discard],
        /// Stations whose place was learned.
        stations_learned = "StationsLearned",
        /// Stations that moved.
        stations_moved = "StationsMoved",
        /// Frames whose source was not learned: no room.
        stations_refused = "StationsRefused",
    }
}

wire::counters! {
    /// What belongs to a peer.
    PeerCounters {
        /// Frames sent to the peer, in one packet or two.
        out_pkts_tunnelled = "OutPktsTunnelled",
        /// Octets of UDP payload sent.
        out_octets_tunnelled = "OutOctetsTunnelled",
        /// Frames sent in long form: their flow was not acknowledged yet.
        out_pkts_long_form = "OutPktsLongForm",
        /// Frames sent in two packets: one did not fit the path.
        out_pkts_split = "OutPktsSplit",
        /// Discarded: the peer accepts no epoch yet.
        out_pkts_no_epoch = "OutPktsNoEpoch" [discard],
        /// Discarded: the epoch's seqs are used up.
        out_pkts_seq_exhausted = "OutPktsSeqExhausted" [discard],
        /// Discarded: a new flow, and its SCI has all the flows that one may have.
        out_pkts_flow_quota_sci = "OutPktsFlowQuotaSci" [discard],
        /// Discarded: a new flow, and its source address has all the flows that one may have.
        out_pkts_flow_quota_source = "OutPktsFlowQuotaSource" [discard],
        /// Discarded: a new flow, and there are as many as there may be.
        out_pkts_flow_quota = "OutPktsFlowQuota" [discard],
        /// Discarded: a new flow, and too many came in this second.
        out_pkts_flow_rate = "OutPktsFlowRate" [discard],
        /// Discarded: a new flow, and the epoch's numbers are used up.
        out_pkts_flow_indexes = "OutPktsFlowIndexes" [discard],
        /// Discarded: does not fit two packets (plain mode: one).
        out_pkts_too_long = "OutPktsTooLong" [discard],
        /// Frames delivered to the LAN.
        in_pkts_tunnelled = "InPktsTunnelled",
        /// Octets of UDP payload that were accepted.
        in_octets_tunnelled = "InOctetsTunnelled",
        /// Frames delivered that came in long form.
        in_pkts_long_form = "InPktsLongForm",
        /// Frames delivered that came in two packets.
        in_pkts_joined = "InPktsJoined",
        /// Discarded: the identifier was unused, and has expired.
        in_pkts_late = "InPktsLate" [discard],
        /// Discarded: the header breaks a rule.
        in_pkts_bad_header = "InPktsBadHeader" [discard],
        /// Discarded: the flow's number is unknown.
        in_pkts_unknown_flow = "InPktsUnknownFlow" [discard],
        /// Discarded: longer than a frame of the LAN may be.
        in_pkts_too_long = "InPktsTooLong" [discard],
        /// Discarded: another VXLAN network identifier, or none.
        in_pkts_bad_vni = "InPktsBadVni" [discard],
        /// Discarded: neither MACsec nor EAPOL in a VXLAN packet.
        in_pkts_not_macsec = "InPktsNotMacsec" [discard],
        /// Parts discarded: the other one did not come in time.
        in_parts_expired = "InPartsExpired" [discard],
        /// Parts discarded: others needed their room.
        in_parts_overrun = "InPartsOverrun" [discard],
        /// Parts discarded: the other one is of another frame.
        in_parts_mismatched = "InPartsMismatched" [discard],
        /// Parts discarded: their epoch is over.
        in_parts_retired = "InPartsRetired" [discard],
        /// Times that the peer was asked where its lane stands.
        resyncs = "Resyncs",
        /// Flows of the peer that were refused: no room.
        in_flows_refused = "InFlowsRefused",
    }
}

/// Why a frame of the LAN goes to no peer at all.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Unrouted {
    Local,
    NotMacsec,
    TooShort,
    BadTag,
    Loop,
    NoPeer,
}

impl SiteCounters {
    pub(crate) const fn count_unrouted(&mut self, reason: Unrouted) {
        let counter = match reason {
            Unrouted::Local => &mut self.out_pkts_local,
            Unrouted::NotMacsec => &mut self.out_pkts_not_macsec,
            Unrouted::TooShort => &mut self.out_pkts_too_short,
            Unrouted::BadTag => &mut self.out_pkts_bad_tag,
            Unrouted::Loop => &mut self.out_pkts_loop,
            Unrouted::NoPeer => &mut self.out_pkts_no_peer,
        };
        *counter = counter.wrapping_add(1);
    }

    pub(crate) const fn count_unknown(&mut self, reason: UnknownDiscard) {
        let counter = match reason {
            UnknownDiscard::TooShort => &mut self.in_pkts_too_short,
            UnknownDiscard::UnknownIdentifier => &mut self.in_pkts_unknown_identifier,
            UnknownDiscard::WrongMode => &mut self.in_pkts_wrong_mode,
        };
        *counter = counter.wrapping_add(1);
    }
}

/// Why a frame does not go to one peer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum OutDiscard {
    NoEpoch,
    SeqExhausted,
    FlowQuotaSci,
    FlowQuotaSource,
    FlowQuota,
    FlowRate,
    FlowIndexes,
    TooLong,
}

/// Why a packet is of no use, and no peer's.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum UnknownDiscard {
    /// Shorter than a header, or the beginning of a QUIC packet.
    TooShort,
    /// No window holds its identifier.
    UnknownIdentifier,
    /// From a peer in another mode.
    WrongMode,
}

/// Why a packet of a peer is of no use.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum InDiscard {
    /// The identifier was unused, and has expired.
    Late,
    /// The header breaks a rule.
    BadHeader,
    /// The flow's number is unknown.
    UnknownFlow,
    /// Longer than a frame of the LAN may be.
    TooLong,
    /// Another VXLAN network identifier, or none.
    BadVni,
    /// Neither MACsec nor EAPOL in a VXLAN packet.
    NotMacsec,
    /// The other part did not come in time.
    PartExpired,
    /// Others needed the part's room.
    PartOverrun,
    /// The other part is of another frame.
    PartMismatched,
    /// The part's epoch is over.
    PartRetired,
}

/// Why a packet gives no frame. It is counted already.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Discard {
    /// Nobody's.
    Unknown(UnknownDiscard),
    /// A peer's.
    Of(PeerId, InDiscard),
}

impl PeerCounters {
    pub(crate) const fn count_out(&mut self, reason: OutDiscard) {
        let counter = match reason {
            OutDiscard::NoEpoch => &mut self.out_pkts_no_epoch,
            OutDiscard::SeqExhausted => &mut self.out_pkts_seq_exhausted,
            OutDiscard::FlowQuotaSci => &mut self.out_pkts_flow_quota_sci,
            OutDiscard::FlowQuotaSource => &mut self.out_pkts_flow_quota_source,
            OutDiscard::FlowQuota => &mut self.out_pkts_flow_quota,
            OutDiscard::FlowRate => &mut self.out_pkts_flow_rate,
            OutDiscard::FlowIndexes => &mut self.out_pkts_flow_indexes,
            OutDiscard::TooLong => &mut self.out_pkts_too_long,
        };
        *counter = counter.wrapping_add(1);
    }

    pub(crate) const fn count_in(&mut self, reason: InDiscard) {
        self.count_in_times(reason, 1);
    }

    pub(crate) const fn count_in_times(&mut self, reason: InDiscard, times: u64) {
        let counter = match reason {
            InDiscard::Late => &mut self.in_pkts_late,
            InDiscard::BadHeader => &mut self.in_pkts_bad_header,
            InDiscard::UnknownFlow => &mut self.in_pkts_unknown_flow,
            InDiscard::TooLong => &mut self.in_pkts_too_long,
            InDiscard::BadVni => &mut self.in_pkts_bad_vni,
            InDiscard::NotMacsec => &mut self.in_pkts_not_macsec,
            InDiscard::PartExpired => &mut self.in_parts_expired,
            InDiscard::PartOverrun => &mut self.in_parts_overrun,
            InDiscard::PartMismatched => &mut self.in_parts_mismatched,
            InDiscard::PartRetired => &mut self.in_parts_retired,
        };
        *counter = counter.wrapping_add(times);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_says_that_it_is_discarded_is_marked_so() {
        for row in [SiteCounters::TABLE, PeerCounters::TABLE].concat() {
            let told = row.meaning.starts_with("Discarded:") || row.meaning.contains(" discarded");
            assert_eq!(row.discard, told, "{}: {}", row.name, row.meaning);
        }
    }
}
