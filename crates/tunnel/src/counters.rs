//! Counters of a site. Every dropped frame or packet has one reason, and the reason is its counter.
//!
//! "Out" is from the LAN to the peers, "In" from the peers to the LAN, as in IEEE 802.1AE. Parts are
//! fragments of frames that did not fit the path.

use crate::packet::Packet;
use crate::settings::PeerId;

wire::counters! {
    /// Counters that belong to no peer.
    SiteCounters {
        /// Frames of the LAN for a station behind a peer.
        out_pkts_unicast = "OutPktsUnicast",
        /// Frames of the LAN for all peers: to a group, or to a station whose place is unknown.
        out_pkts_flooded = "OutPktsFlooded",
        /// Frames of the LAN for a station of the LAN: they go nowhere.
        out_pkts_local = "OutPktsLocal",
        /// Discarded: without SecTAG, or with more than two VLAN tags in front of it, and no cyclic frame that is carried.
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
    /// Counters of a peer.
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
        /// Frames that waited until the peer knew their flow (header encryption).
        out_pkts_waited = "OutPktsWaited",
        /// Discarded: too many frames wait for the peer to know their flow (header encryption).
        out_pkts_wait_full = "OutPktsWaitFull" [discard],
        /// Discarded: the peer did not come to know the flow in time (header encryption).
        out_pkts_wait_expired = "OutPktsWaitExpired" [discard],
        /// Discarded: while it waited the peer or this site began anew (header encryption).
        out_pkts_wait_voided = "OutPktsWaitVoided" [discard],
        /// Discarded: without SCI (header encryption).
        out_pkts_no_sci = "OutPktsNoSci" [discard],
        /// Discarded: not encrypted, so that what follows the SecTAG could be predicted (header encryption).
        out_pkts_not_encrypted = "OutPktsNotEncrypted" [discard],
        /// Discarded: with VLAN tags in front of the SecTAG, and the peer's version does not know those.
        out_pkts_tagged = "OutPktsTagged" [discard],
        /// Discarded: a cyclic frame of a cell, and the peer takes none, or is not in identifier mode.
        out_pkts_cyclic = "OutPktsCyclic" [discard],
        /// Packets of this site for another one that the peer relays, and packets of other sites that this one relays to the peer.
        out_pkts_relayed = "OutPktsRelayed",
        /// Discarded: a packet to relay, and the peer does not relay, or its version takes no relayed packets.
        out_pkts_not_relayed = "OutPktsNotRelayed" [discard],
        /// Discarded: with extension headers, and the peer's version does not know those in header encryption.
        out_pkts_extended = "OutPktsExtended" [discard],
        /// Discarded: less than four octets behind the SecTAG (header encryption).
        out_pkts_too_short = "OutPktsTooShort" [discard],
        /// Discarded: its SA begins again, and the epoch for that is not acknowledged yet, or less than a second after
        /// the last one (header encryption).
        out_pkts_epoch_awaited = "OutPktsEpochAwaited" [discard],
        /// Discarded: its PN was sent already (header encryption).
        out_pkts_repeated = "OutPktsRepeated" [discard],
        /// Discarded: far ahead of the PNs that keep coming under its SA, as many others were: somebody sends in the name of its
        /// station (header encryption).
        out_pkts_crowded = "OutPktsCrowded" [discard],
        /// Discarded: while it waited another epoch began, in which its PN cannot be used (header encryption).
        out_pkts_overtaken = "OutPktsOvertaken" [discard],
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
        /// Packets of the peer for another site, and those of other sites that the peer relays.
        in_pkts_relayed = "InPktsRelayed",
        /// Discarded: the identifier was unused, and has expired; or the PN is below the window (header encryption).
        in_pkts_late = "InPktsLate" [discard],
        /// Copies of packets that had come over another path already; replays count here too (identifier mode, several paths).
        in_pkts_duplicate = "InPktsDuplicate",
        /// Discarded: the PN is in the window, and was used (header encryption).
        in_pkts_replayed = "InPktsReplayed" [discard],
        /// Discarded: forged, damaged, of an epoch that is gone, or of an unknown flow with VLAN tags (header encryption).
        in_pkts_not_valid = "InPktsNotValid" [discard],
        /// Discarded: no epoch of the peer is known (header encryption).
        in_pkts_no_epoch = "InPktsNoEpoch" [discard],
        /// Discarded: shorter than a header (header encryption).
        in_pkts_too_short = "InPktsTooShort" [discard],
        /// Discarded: the peer uses more SAs in one epoch than there is room for (header encryption).
        in_pkts_too_many_sas = "InPktsTooManySas" [discard],
        /// Discarded: the header breaks a rule.
        in_pkts_bad_header = "InPktsBadHeader" [discard],
        /// Discarded: the identifier is right and the check does not fit the header: changed on the way, or forged
        /// (identifier mode).
        in_pkts_forged_header = "InPktsForgedHeader" [discard],
        /// Discarded: in long form, and the tag does not fit: changed on the way, or forged (identifier mode).
        in_pkts_forged_long_form = "InPktsForgedLongForm" [discard],
        /// Discarded: from a station that was heard on this LAN within the last second.
        in_pkts_source_here = "InPktsSourceHere" [discard],
        /// Discarded: from one of two boxes on a LAN, with the source of a station that another peer sent from within a second, or of a
        /// group: it may have come back.
        in_pkts_source_elsewhere = "InPktsSourceElsewhere" [discard],
        /// Discarded: from the other box of this LAN.
        in_pkts_partner = "InPktsPartner" [discard],
        /// Discarded: the flow's number is unknown; or the flow, without VLAN tags, is (header encryption).
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

/// Reason why a frame of the LAN goes to no peer.
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

/// Reason why a frame does not go to one peer.
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
    /// The SecTAG has no SCI.
    NoSci,
    /// E is 0: the octets behind the SecTAG are not encrypted, so an observer of the packet could predict
    /// them. A confidentiality offset does the same, and a frame does not show it: the stations must be
    /// configured without one.
    NotEncrypted,
    /// Extension headers follow the SecTAG, and the peer does not take such frames.
    Extended,
    /// VLAN tags stand in front of the SecTAG, and the peer does not take such frames.
    Tagged,
    /// A cyclic frame of a cell, which the peer does not take, or not in this mode.
    Cyclic,
    /// A packet for or of another site, and the peer relays none, or takes none, or not in this mode.
    NotRelayed,
    /// The frame has less than four octets behind the SecTAG.
    TooShort,
    /// Its SA begins again, and the next epoch is not acknowledged yet, or the previous one is younger than a
    /// second.
    EpochAwaited,
    /// A frame with this PN was sent already.
    Repeated,
    /// Its PN is far ahead of the current ones, and the memory for such PNs is full.
    Crowded,
    /// Another epoch began while the frame waited for its flow's announcement, and its PN is used or too old
    /// there.
    Overtaken,
    /// The waiting frames of its flow, or of the peer, have reached their limit.
    WaitFull,
    /// It has waited for the maximum time.
    WaitExpired,
    /// A new generation began while it waited.
    WaitVoided,
}

/// Reason for discarding a packet that belongs to no peer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum UnknownDiscard {
    /// Shorter than a header, or the beginning of a QUIC packet.
    TooShort,
    /// No window holds its identifier.
    UnknownIdentifier,
    /// From a peer in another mode.
    WrongMode,
}

/// Reason for discarding a packet of a peer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum InDiscard {
    /// The identifier was unused, and has expired; or the PN is below the window.
    Late,
    /// The identifier was used: a copy of a packet that came over another path before.
    Duplicate,
    /// The PN is in the window, and was used.
    Replayed,
    /// No known key decrypts it to a header: forged, damaged, or of an expired epoch.
    NotValid,
    /// No epoch is known.
    NoEpoch,
    /// Shorter than a header.
    TooShort,
    /// The peer uses more SAs in one epoch than there is room for.
    TooManySas,
    /// The header breaks a rule.
    BadHeader,
    /// The identifier is right, and the check does not fit the header.
    ForgedHeader,
    /// The tag of the long form does not fit.
    ForgedLongForm,
    /// Its source is on this LAN.
    SourceHere,
    /// It came from one of two boxes on a LAN, and its source is behind another peer.
    SourceElsewhere,
    /// It came from the other box of this LAN.
    Partner,
    /// The flow's number is unknown; or the flow is.
    UnknownFlow,
    /// Longer than a frame of the LAN may be.
    TooLong,
    /// Another VXLAN network identifier, or none.
    BadVni,
    /// Neither MACsec nor EAPOL in a VXLAN packet.
    NotMacsec,
    /// The other fragment did not arrive in time.
    PartExpired,
    /// Evicted for lack of room.
    PartOverrun,
    /// The other fragment belongs to another frame.
    PartMismatched,
    /// The fragment's epoch has ended.
    PartRetired,
}

/// Reason why a packet yields no frame. Already counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Discard {
    /// A packet of nobody.
    Unknown(UnknownDiscard),
    /// A packet of a peer.
    Of(PeerId, InDiscard),
}

impl PeerCounters {
    /// Counts the packets of a frame; no packets count nothing.
    pub(crate) fn count_sent(&mut self, packets: &[Packet]) {
        self.out_pkts_tunnelled += u64::from(!packets.is_empty());
        self.out_octets_tunnelled += packets.iter().map(Packet::octets).sum::<usize>() as u64;
    }

    pub(crate) const fn count_out(&mut self, reason: OutDiscard) {
        self.count_out_times(reason, 1);
    }

    pub(crate) const fn count_out_times(&mut self, reason: OutDiscard, times: u64) {
        let counter = match reason {
            OutDiscard::NoEpoch => &mut self.out_pkts_no_epoch,
            OutDiscard::SeqExhausted => &mut self.out_pkts_seq_exhausted,
            OutDiscard::FlowQuotaSci => &mut self.out_pkts_flow_quota_sci,
            OutDiscard::FlowQuotaSource => &mut self.out_pkts_flow_quota_source,
            OutDiscard::FlowQuota => &mut self.out_pkts_flow_quota,
            OutDiscard::FlowRate => &mut self.out_pkts_flow_rate,
            OutDiscard::FlowIndexes => &mut self.out_pkts_flow_indexes,
            OutDiscard::TooLong => &mut self.out_pkts_too_long,
            OutDiscard::NoSci => &mut self.out_pkts_no_sci,
            OutDiscard::NotEncrypted => &mut self.out_pkts_not_encrypted,
            OutDiscard::Tagged => &mut self.out_pkts_tagged,
            OutDiscard::Cyclic => &mut self.out_pkts_cyclic,
            OutDiscard::NotRelayed => &mut self.out_pkts_not_relayed,
            OutDiscard::Extended => &mut self.out_pkts_extended,
            OutDiscard::TooShort => &mut self.out_pkts_too_short,
            OutDiscard::EpochAwaited => &mut self.out_pkts_epoch_awaited,
            OutDiscard::Repeated => &mut self.out_pkts_repeated,
            OutDiscard::Crowded => &mut self.out_pkts_crowded,
            OutDiscard::Overtaken => &mut self.out_pkts_overtaken,
            OutDiscard::WaitFull => &mut self.out_pkts_wait_full,
            OutDiscard::WaitExpired => &mut self.out_pkts_wait_expired,
            OutDiscard::WaitVoided => &mut self.out_pkts_wait_voided,
        };
        *counter = counter.wrapping_add(times);
    }

    pub(crate) const fn count_in(&mut self, reason: InDiscard) {
        self.count_in_times(reason, 1);
    }

    pub(crate) const fn count_in_times(&mut self, reason: InDiscard, times: u64) {
        let counter = match reason {
            InDiscard::Late => &mut self.in_pkts_late,
            InDiscard::Duplicate => &mut self.in_pkts_duplicate,
            InDiscard::Replayed => &mut self.in_pkts_replayed,
            InDiscard::NotValid => &mut self.in_pkts_not_valid,
            InDiscard::NoEpoch => &mut self.in_pkts_no_epoch,
            InDiscard::TooShort => &mut self.in_pkts_too_short,
            InDiscard::TooManySas => &mut self.in_pkts_too_many_sas,
            InDiscard::BadHeader => &mut self.in_pkts_bad_header,
            InDiscard::ForgedHeader => &mut self.in_pkts_forged_header,
            InDiscard::ForgedLongForm => &mut self.in_pkts_forged_long_form,
            InDiscard::SourceHere => &mut self.in_pkts_source_here,
            InDiscard::SourceElsewhere => &mut self.in_pkts_source_elsewhere,
            InDiscard::Partner => &mut self.in_pkts_partner,
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
