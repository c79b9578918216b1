//! What status shows of a session.

use wire::{Instant, counters};

use super::PeerFault;
use crate::exchange::{Generation, Instance};

/// How far the channel is.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ChannelState {
    /// No connection.
    Down,
    /// Connected; the peer's Hello has not come yet.
    HelloSent,
    /// The peer's Hello was fine; whether ours was, is not known yet.
    HelloReceived,
    /// Both Hellos were fine.
    Up,
    /// The peer did wrong; the connection is about to be closed.
    Faulted,
}

/// The newest epoch of a direction that is in use or in readiness.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EpochAge {
    /// Its number.
    pub epoch: u32,
    /// When it became ready.
    pub since: Instant,
}

/// A session at one moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SessionState {
    /// How far the channel is.
    pub channel: ChannelState,
    /// Since when.
    pub since: Instant,
    /// The peer's instance, and when it was met first: it has run at least so long.
    pub instance: Option<(Instance, Instant)>,
    /// How many instances of the peer there were.
    pub generation: Generation,
    /// The newest epoch towards the peer.
    pub transmit: Option<EpochAge>,
    /// The epoch towards the peer that was told, or is to be told, and is not ready there yet; since when.
    pub transmit_offered: Option<EpochAge>,
    /// The newest epoch from the peer.
    pub receive: Option<EpochAge>,
    /// Flows that were announced, or are to be announced, and are not acknowledged yet.
    pub flows_announced: usize,
    /// Flows that the peer knows.
    pub flows_acknowledged: usize,
    /// Flows of the peer that are known here.
    pub peer_flows: usize,
    /// What the peer did wrong last, and when.
    pub fault: Option<(PeerFault, Instant)>,
    /// What was counted since the start.
    pub counters: SessionCounters,
}

counters! {
    /// What a session has counted since the start of this site.
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
