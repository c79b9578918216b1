//! State that all peers of a site share, and what each mode needs to know of its peer. Modes are given it; they know nothing of
//! [`Forwarding`](crate::Forwarding), which has them.

use alloc::collections::VecDeque;

use wire::EtherType;
use wire::time::Instant;
use wire::tunnel::{Flow, RelayLeg};

use crate::counters::OutDiscard;
use crate::exchange::{Event, Generation};
use crate::flows::{FlowRefusal, FlowSlot, Flows, NumberedFlow};
use crate::hash::Hasher;
use crate::live_stations::{LiveStations, Liveness};
use crate::new_flow_limit::NewFlowLimit;
use crate::settings::{FrameKinds, PeerId};

/// Most events in the queue.
const EVENTS: usize = 1024;

/// State that all peers share.
#[derive(Debug)]
pub(crate) struct SiteState {
    pub(crate) hasher: Hasher,
    pub(crate) events: Events,
    /// Limits on new flows: of live stations, and of all others.
    new_live_flows: NewFlowLimit,
    new_flows: NewFlowLimit,
    /// Stations of this LAN that are live in a key agreement.
    pub(crate) live: LiveStations,
    /// True while timed work is pending: waiting fragments, or an epoch about to end.
    pub(crate) watch: bool,
    /// EtherType of cells' cyclic frames, if they are carried.
    pub(crate) cyclic: Option<EtherType>,
    /// Packets for other sites are taken.
    pub(crate) relays: bool,
    /// Somebody else forwards flows too: [`Command::OfferFlows`](crate::Command::OfferFlows).
    pub(crate) offers: bool,
}

/// State of a peer that does not depend on its mode.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PeerContext {
    pub(crate) peer: PeerId,
    pub(crate) generation: Generation,
    /// Octets of the largest UDP payload towards it.
    pub(crate) path_payload: usize,
    /// Kinds of frames that it takes.
    pub(crate) frames: FrameKinds,
}

/// Queue of events for the session. Bounded: an event that finds no room is lost, and its source raises it again later. So
/// nobody may rely on an event unless [`Events::tell`] returned true.
#[derive(Debug)]
pub(crate) struct Events(VecDeque<Event>);

impl Events {
    /// Queues an event. False if there is no room.
    #[must_use]
    pub(crate) fn tell(&mut self, event: Event) -> bool {
        let room = self.0.len() < EVENTS;
        if room {
            self.0.push_back(event);
        }
        room
    }

    pub(crate) fn poll(&mut self) -> Option<Event> {
        self.0.pop_front()
    }
}

impl SiteState {
    pub(crate) fn new(table_seed: &[u8; 16], new_flows_per_second: u32) -> Self {
        Self {
            hasher: Hasher::new(table_seed),
            events: Events(VecDeque::with_capacity(EVENTS)),
            new_live_flows: NewFlowLimit::new(new_flows_per_second),
            new_flows: NewFlowLimit::new(new_flows_per_second),
            live: LiveStations::new(),
            watch: false,
            cyclic: None,
            relays: false,
            offers: false,
        }
    }

    /// Slot of a flow with this [`Hasher::flow`]; assigns a number to it if it has none, within the quotas, and if the peer takes such frames.
    pub(crate) fn assign_number(
        &mut self,
        context: &PeerContext,
        flows: &mut Flows,
        now: Instant,
        hash: u64,
        flow: &Flow,
    ) -> Result<FlowSlot, OutDiscard> {
        match flows.find(hash, flow) {
            Some(slot) => Ok(slot),
            None => self.assign_new_number(context, flows, now, hash, flow),
        }
    }

    #[inline(never)]
    fn assign_new_number(
        &mut self,
        context: &PeerContext,
        flows: &mut Flows,
        now: Instant,
        hash: u64,
        flow: &Flow,
    ) -> Result<FlowSlot, OutDiscard> {
        if !flow.tags.is_empty() && !context.frames.has(FrameKinds::TAGGED) {
            return Err(OutDiscard::Tagged);
        }
        if flow.cyclic().is_some() && !context.frames.has(FrameKinds::CYCLIC) {
            return Err(OutDiscard::Cyclic);
        }
        if let Some((leg, _)) = flow.relay() {
            let kind = match leg {
                RelayLeg::To => FrameKinds::TO_SITES,
                RelayLeg::From => FrameKinds::FROM_SITES,
            };
            if !context.frames.has(kind) {
                return Err(OutDiscard::NotRelayed);
            }
        }
        let liveness = self.live.liveness(now, flow);
        flows.admits(&self.hasher, flow, liveness).map_err(|refusal| match refusal {
            FlowRefusal::Table => OutDiscard::FlowQuota,
            FlowRefusal::Sci => OutDiscard::FlowQuotaSci,
            FlowRefusal::Source => OutDiscard::FlowQuotaSource,
            FlowRefusal::Indexes => OutDiscard::FlowIndexes,
        })?;
        let new_flows =
            if liveness == Liveness::Live { &mut self.new_live_flows } else { &mut self.new_flows };
        // Of relays there are as many as peers, whoever floods the LAN.
        if flow.relay().is_none() && !new_flows.admit(now, flow) {
            return Err(OutDiscard::FlowRate);
        }
        flows.assign(now, &self.hasher, *flow, liveness);
        flows.find(hash, flow).ok_or(OutDiscard::FlowQuota)
    }

    /// True if frames of a peer's flow may come out here: cyclic ones only with the EtherType that this site carries, and packets for
    /// other sites only if it relays.
    pub(crate) fn takes(&self, flow: &Flow) -> bool {
        if let Some((leg, _)) = flow.relay() {
            return leg == RelayLeg::From || self.relays;
        }
        flow.cyclic().is_none() || flow.cyclic() == self.cyclic
    }

    /// Tells that a flow is in use, if that is due. Those who forward beside this half know neither VLAN tags nor cyclic frames.
    #[inline(never)]
    pub(crate) fn offer(&mut self, now: Instant, context: &PeerContext, given: &mut NumberedFlow) {
        let (peer, generation) = (context.peer, context.generation);
        if given.is_offer_due(now)
            && given.flow.is_untagged_macsec()
            && self.events.tell(Event::FlowInUse { peer, generation, index: given.index, flow: given.flow })
        {
            given.note_offered(now);
        }
    }

    /// Announces a flow that the peer does not know, if that is due.
    pub(crate) fn announce(&mut self, now: Instant, context: &PeerContext, given: &mut NumberedFlow) {
        let (peer, generation) = (context.peer, context.generation);
        let NumberedFlow { index, flow, request, .. } = *given;
        if given.is_due(now) && self.events.tell(Event::Announce { peer, generation, index, flow, request }) {
            given.note_announced(now);
        }
    }
}
