//! Counters of a cell outside its relations.

use fieldbus::Foreign;

wire::counters! {
    /// Counters of a cell: of frames that it cannot say a relation of, and of HELLOs on their way to its handshakes.
    CellCounters {
        /// Discarded: frames of the machine that are of no relation; the cell has no link for them.
        out_pkts_rest_dropped = "OutPktsRestDropped" [discard],
        /// Discarded: twins in shadow mode for which no chunk was free.
        out_pkts_no_chunk = "OutPktsNoChunk" [discard],
        /// Discarded: frames from the network that are of no relation; the cell has no link for them.
        in_pkts_rest_dropped = "InPktsRestDropped" [discard],
        /// Discarded: of the cell's EtherType, with addresses and FrameID of no relation.
        in_pkts_unknown_relation = "InPktsUnknownRelation" [discard],
        /// Discarded: of the cell's EtherType, and too short for FrameID, KeyID and Seq.
        in_pkts_too_short = "InPktsTooShort" [discard],
        /// Discarded: of the cell's EtherType, behind two VLAN tags.
        in_pkts_too_many_tags = "InPktsTooManyTags" [discard],
        /// Discarded: cyclic data of a relation that came through the link's SecY.
        in_pkts_cyclic_by_link = "InPktsCyclicByLink" [discard],
        /// HELLOs received, found true and given to the handshake.
        in_hello_given = "InHelloGiven",
        /// HELLOs received that name no nonce, found true. They are answered beside the handshake, of those that wait the newest.
        in_hello_answered = "InHelloAnswered",
        /// Discarded: HELLOs that the handshake had got just before; copies.
        in_hello_repeated = "InHelloRepeated" [discard],
        /// Discarded: HELLOs, since more came than there is time for to look at their MACs; or late ones, of which few are
        /// looked at.
        in_hello_flood = "InHelloFlood" [discard],
        /// HELLOs sent.
        out_hello_sent = "OutHelloSent",
        /// Discarded: HELLOs for which no chunk was free; a link without ports has none.
        out_hello_no_chunk = "OutHelloNoChunk" [discard],
    }
}

impl CellCounters {
    pub(crate) const fn count_foreign(&mut self, foreign: Foreign) {
        *match foreign {
            Foreign::TooShort => &mut self.in_pkts_too_short,
            Foreign::UnknownRelation => &mut self.in_pkts_unknown_relation,
            Foreign::TooManyTags => &mut self.in_pkts_too_many_tags,
        } += 1;
    }
}
