//! Counters of the channel. Nothing of it is on the frame path.

use std::sync::{Mutex, PoisonError};

wire::counters! {
    /// Counters of a site's management channel.
    ChannelCounters {
        /// QUIC datagrams that were taken.
        in_datagrams = "InDatagrams",
        /// Datagrams of a QUIC version that is not spoken here.
        in_other_version = "InOtherVersion" [discard],
        /// Datagrams with a connection ID that this site never gave out.
        in_unknown_connection = "InUnknownConnection" [discard],
        /// Initials of those who do not prove that they know this site's public key.
        in_without_proof = "InWithoutProof" [discard],
        /// Initials beyond what is looked at in a second.
        in_initials_flood = "InInitialsFlood" [discard],
        /// Datagrams that the kernel did not take: too long for the interface, no route, no room.
        out_datagrams_refused = "OutDatagramsRefused" [discard],
        /// Probes of peers' paths that were taken.
        in_probes = "InProbes",
        /// Probes that were forged, changed on the way or recorded.
        in_probes_not_valid = "InProbesNotValid" [discard],
        /// Probes of paths that were sent, and answers.
        out_probes = "OutProbes",
        /// Times that the channel failed by a defect, or could not start, and was started anew.
        channel_failures = "ChannelFailures",
        /// Handshakes that were made to prove their address first.
        in_handshakes_retried = "InHandshakesRetried",
        /// Handshakes that gave way, or were not begun, since too many were under way.
        in_handshakes_crowded = "InHandshakesCrowded" [discard],
        /// Handshakes that the caller ended before it showed a key. When both sites call at once one of them does.
        in_handshakes_ended = "InHandshakesEnded",
        /// Handshakes that failed: another key, no key, or none at all in time.
        in_handshakes_failed = "InHandshakesFailed" [discard],
        /// Handshakes with a public key that no peer has.
        in_strangers = "InStrangers" [discard],
        /// Connections that were established.
        connections = "Connections",
        /// Connections that were lost.
        connections_lost = "ConnectionsLost",
        /// Messages that were taken.
        in_messages = "InMessages",
        /// Octets that are no message, or messages against the protocol: the connection was closed.
        in_faults = "InFaults" [discard],
        /// Streams of a kind that this version does not know, or beyond one of their kind.
        in_unknown_streams = "InUnknownStreams" [discard],
        /// Messages that were sent.
        out_messages = "OutMessages",
        /// MKPDUs of peers that went to the LAN.
        in_mkpdus = "InMkpdus",
        /// MKPDUs of peers that are no EAPOL frame of that type, or too long.
        in_bad_mkpdus = "InBadMkpdus" [discard],
        /// MKPDUs of peers that found the way to the LAN full.
        in_mkpdus_no_room = "InMkpdusNoRoom" [discard],
        /// MKPDUs of peers whose source the programs in the kernel have heard on this LAN within a second.
        in_mkpdus_source_here = "InMkpdusSourceHere" [discard],
        /// MKPDUs of the LAN that went to a peer: one for each.
        out_mkpdus = "OutMkpdus",
        /// MKPDUs of the LAN that a newer one of the same sender replaced.
        out_mkpdus_replaced = "OutMkpdusReplaced" [discard],
        /// MKPDUs of the LAN for which a peer's queue had no room.
        out_mkpdus_no_room = "OutMkpdusNoRoom" [discard],
        /// MKPDUs of the LAN whose source the programs in the kernel have heard behind a peer within a second.
        out_mkpdus_loop = "OutMkpdusLoop" [discard],
        /// Frames of the LAN that are no MKPDU.
        out_bad_mkpdus = "OutBadMkpdus" [discard],
        /// Notices that were overwritten before anybody read them.
        notices_lost = "NoticesLost",
    }
}

/// The counters, for all tasks of the channel's one thread and for who asks.
#[derive(Debug, Default)]
pub(super) struct SharedCounters(Mutex<ChannelCounters>);

impl SharedCounters {
    pub(super) fn count(&self, change: impl FnOnce(&mut ChannelCounters)) {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner));
    }

    pub(super) fn read(&self) -> ChannelCounters {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
