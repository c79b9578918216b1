//! A cell in a link's path: cyclic frames of its relations, each under keys of its own, beside the SecY.

/// What becomes of frames that are of no relation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Rest {
    /// They go through the link's SecY, as without a cell.
    Link,
    /// They are discarded, both ways; the link's SecY is never reached.
    Drop,
}

wire::counters! {
    /// What a cell counts of frames that it cannot say a relation of, and of its handshakes.
    CellCounters {
        /// Frames of the machine that are of no relation, and went to the link's SecY.
        out_pkts_rest = "OutPktsRest",
        /// Discarded: frames of the machine that are of no relation; the cell has no link for them.
        out_pkts_rest_dropped = "OutPktsRestDropped" [discard],
        /// Discarded: twins in shadow mode for which no chunk was free.
        out_pkts_no_chunk = "OutPktsNoChunk" [discard],
        /// Frames from the network that are of no relation, and went to the link's SecY.
        in_pkts_rest = "InPktsRest",
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
        /// HELLOs received and given to the handshake.
        in_hello = "InHello",
        /// Discarded: HELLOs, since as many of the relation came in a short time as a handshake never needs.
        in_hello_overrun = "InHelloOverrun" [discard],
        /// Discarded: HELLOs that are longer than any.
        in_hello_too_long = "InHelloTooLong" [discard],
        /// HELLOs sent.
        out_hello = "OutHello",
        /// Discarded: HELLOs for which no chunk was free; a link without ports has none.
        out_hello_no_chunk = "OutHelloNoChunk" [discard],
    }
}
