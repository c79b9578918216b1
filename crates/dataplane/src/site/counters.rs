//! Counters of a site outside the tunnel's forwarding half.

wire::counters! {
    /// Frames and packets that were counted outside the forwarding half. "Out" is from the LAN, "in" is towards it.
    SitePathCounters {
        /// MKPDUs of the LAN that went to the management channel.
        out_eapol = "OutEapol",
        /// MKPDUs of the LAN that went to plain peers, once for each.
        out_eapol_plain = "OutEapolPlain",
        /// MKPDUs of the LAN, but too many waited for the management channel, or longer than it takes.
        out_eapol_dropped = "OutEapolDropped" [discard],
        /// MKPDUs of senders that were not heard before, or of one that says very many: beyond what is taken of these in
        /// a second.
        out_mkpdus_flood = "OutMkpdusFlood" [discard],
        /// MKPDUs of the LAN whose source was heard behind a peer within a second: they came out of a tunnel, or say so.
        out_mkpdus_loop = "OutMkpdusLoop" [discard],
        /// EAPOL frames of the LAN that are no MKPDU: these are not carried.
        out_eapol_other = "OutEapolOther" [discard],
        /// MAC control of the LAN, such as PAUSE, which never goes further than one hop.
        out_pkts_mac_control = "OutPktsMacControl" [discard],
        /// MACsec frames and MKPDUs of the LAN under the SCI of the SecY that protects it: no station's, but a forger's, or
        /// recorded.
        out_pkts_own_sci = "OutPktsOwnSci" [discard],
        /// Frames of the LAN in a VLAN that may not cross.
        out_pkts_other_vlan = "OutPktsOtherVlan" [discard],
        /// Frames for the LAN in a VLAN that may not cross: a peer lets more cross, or is hostile.
        in_pkts_other_vlan = "InPktsOtherVlan" [discard],
        /// Frames of the LAN that the other box forwards, while this one is the standby.
        out_pkts_standby = "OutPktsStandby",
        /// Frames out of the tunnel, verified, that the other box delivers, while this one is the standby.
        in_pkts_standby = "InPktsStandby",
        /// Beats to the other box of this LAN that the interface took.
        out_beats = "OutBeats",
        /// Beats of the other box.
        in_beats = "InBeats",
        /// Frames that look like beats, but the other box did not make them.
        in_beats_bad = "InBeatsBad" [discard],
        /// Beats that came again; or of a start of the other box that has not answered yet.
        in_beats_unproved = "InBeatsUnproved" [discard],
        /// Frames that showed the LAN's switches where stations of other sites are, after this box took over.
        out_stations_shown = "OutStationsShown",
        /// Packets that went over another path of their peer as well, once for each such path.
        out_pkts_copies = "OutPktsCopies",
        /// Frames that a further sending worker had no room for.
        out_pkts_worker_busy = "OutPktsWorkerBusy" [discard],
        /// Frames for a peer whose address is not known.
        out_pkts_no_endpoint = "OutPktsNoEndpoint" [discard],
        /// Packets to relay, but no peer has that name, it is itself behind a relay, or it has sent nothing to that peer
        /// through this site for ten seconds; relayed packets of a site for which the peer is not the relay; and packets in
        /// relayed ones that are to be relayed again.
        in_relayed_unknown = "InRelayedUnknown" [discard],
        /// Packets to relay beyond what a peer may send or get in a second, or than fits a turn.
        in_relayed_quota = "InRelayedQuota" [discard],
        /// Packets of the management channel.
        in_datagrams = "InDatagrams",
        /// Packets with the management channel's mark, but too many waited for it.
        in_datagrams_dropped = "InDatagramsDropped" [discard],
        /// Packets with the management channel's mark, of strangers or of peers among these, that a program in the kernel dropped: there were
        /// more than the worker has time for.
        in_datagrams_flood = "InDatagramsFlood" [discard],
        /// Packets with unknown identifiers, or in plain mode from unknown addresses, that a program in the kernel dropped: there were more
        /// than the worker has time for.
        in_pkts_flood = "InPktsFlood" [discard],
        /// Frames of the LAN of a kind that sites do not carry, that a program in the kernel dropped: there were more than the worker has
        /// time for.
        out_pkts_flood = "OutPktsFlood" [discard],
        /// Packets to the port of header encryption or the plain one, from nobody's address; or to any port, from an address
        /// that no network has.
        in_pkts_unknown_address = "InPktsUnknownAddress" [discard],
        /// EAPOL frames from the management channel for the LAN.
        in_eapol = "InEapol",
        /// MKPDUs from the management channel whose source was heard on this LAN within a second.
        in_mkpdus_source_here = "InMkpdusSourceHere" [discard],
        /// Frames of stations with a SecY of their own, to the LAN of a site that protects it.
        in_pkts_stations = "InPktsStations",
        /// Frames for the LAN while its interface was not there.
        in_pkts_no_lan = "InPktsNoLan" [discard],
        /// Frames for the LAN, but no chunk was free; or more of one turn than wait for the LAN's list of VLANs.
        in_pkts_no_chunk = "InPktsNoChunk" [discard],
        /// Frames for the LAN that are longer than a chunk.
        in_pkts_too_long = "InPktsTooLong" [discard],
    }
}
