//! State of a session for the status.

use wire::{Instant, counters};

use super::fault::PeerFault;
use super::octets::HeardOctets;
use crate::exchange::{Generation, Instance};

/// State of the channel.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ChannelState {
    /// No connection.
    Down,
    /// Connected, our Hello is sent; the peer's Hello is awaited.
    HelloSent,
    /// The peer's Hello was accepted; its answer to ours is awaited.
    HelloReceived,
    /// Both Hellos were accepted.
    Up,
    /// The peer is at fault; the connection is about to be closed.
    Faulted,
}

/// Newest epoch of a direction that is in use or in reserve.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EpochAge {
    /// Its number.
    pub epoch: u32,
    /// Time at which it became ready.
    pub since: Instant,
}

/// A session at one moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SessionState {
    /// State of the channel.
    pub channel: ChannelState,
    /// Time of its last change.
    pub since: Instant,
    /// The peer's instance, and the time of its first Hello: it has run at least since then.
    pub instance: Option<(Instance, Instant)>,
    /// Number of instances of the peer.
    pub generation: Generation,
    /// The newest epoch towards the peer.
    pub transmit: Option<EpochAge>,
    /// The offered epoch towards the peer that is not ready there yet, and since when.
    pub transmit_offered: Option<EpochAge>,
    /// The newest epoch from the peer.
    pub receive: Option<EpochAge>,
    /// Flows that are to be announced or not acknowledged yet.
    pub flows_announced: usize,
    /// Flows that the peer knows.
    pub flows_acknowledged: usize,
    /// Flows of the peer that are known here.
    pub peer_flows: usize,
    /// What the peer has said of its packets; none if it says nothing.
    pub octets: Option<HeardOctets>,
    /// Last fault of the peer, and its time.
    pub fault: Option<(PeerFault, Instant)>,
    /// Counters since the start.
    pub counters: SessionCounters,
}

counters! {
    /// Counters of a session since the start of this site.
    SessionCounters {
        /// Times that the management channel came up.
        connections = "Connections",
        /// Instances of the peer that were met: its restarts, and one.
        peer_instances = "PeerInstances",
        /// Connections that were closed because the peer did wrong.
        peer_faults = "PeerFaults",
        /// Epochs towards the peer that it was ready for.
        out_epochs = "OutEpochs",
        /// Epochs from the peer that this site was ready for.
        in_epochs = "InEpochs",
        /// Announcements of flows that the peer acknowledged.
        out_flows_announced = "OutFlowsAnnounced",
        /// Announcements of flows that the peer had no room for.
        out_flows_refused = "OutFlowsRefused",
        /// Flows that the peer knew and then reported as unknown.
        out_flows_unknown = "OutFlowsUnknown",
        /// Announcements of flows that were put off, because too many wait for their answer.
        out_flows_put_off = "OutFlowsPutOff",
        /// Flows of the peer that were accepted.
        in_flows_accepted = "InFlowsAccepted",
        /// Flows of the peer that there was no room for.
        in_flows_refused = "InFlowsRefused",
        /// Messages of a kind that is unknown here, skipped.
        in_messages_skipped = "InMessagesSkipped" [discard],
        /// Answers to what was not asked any longer, not heeded.
        in_messages_stale = "InMessagesStale" [discard],
        /// Questions that came more often than twice a second, not heeded.
        in_messages_excess = "InMessagesExcess" [discard],
        /// Events of a worker that belonged to an instance before, dropped.
        events_old = "EventsOld" [discard],
    }
}
