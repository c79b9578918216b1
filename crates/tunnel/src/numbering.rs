//! A new flow's number, within the quotas, and its announcement.

use wire::time::Instant;
use wire::tunnel::Flow;

use crate::counters::OutDiscard;
use crate::exchange::Event;
use crate::flows::{FlowRefusal, Flows, NumberedFlow};
use crate::forwarding::{PeerContext, Shared};

/// Assigns a number to a flow with this [`Hasher::flow`](crate::hash::Hasher::flow) if it has none, within
/// the quotas.
pub(crate) fn assign_number(
    flows: &mut Flows,
    now: Instant,
    shared: &mut Shared,
    hash: u64,
    flow: &Flow,
) -> Result<(), OutDiscard> {
    if flows.find(now, hash, flow).is_some() {
        return Ok(());
    }
    flows.admits(&shared.hasher, flow).map_err(|refusal| match refusal {
        FlowRefusal::Table => OutDiscard::FlowQuota,
        FlowRefusal::Sci => OutDiscard::FlowQuotaSci,
        FlowRefusal::Source => OutDiscard::FlowQuotaSource,
        FlowRefusal::Indexes => OutDiscard::FlowIndexes,
    })?;
    if !shared.new_flows.admit(now, flow) {
        return Err(OutDiscard::FlowRate);
    }
    flows.assign(now, &shared.hasher, *flow).map(|_| ()).ok_or(OutDiscard::FlowQuota)
}

/// Announces a flow that the peer does not know, if that is due.
pub(crate) fn announce(now: Instant, context: &PeerContext, shared: &mut Shared, given: &mut NumberedFlow) {
    let (peer, generation) = (context.peer, context.generation);
    if given.is_due(now)
        && shared.events.tell(Event::Announce { peer, generation, index: given.index, flow: given.flow })
    {
        given.note_announced(now);
    }
}
