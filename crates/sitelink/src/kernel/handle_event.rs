//! Events of the half: what the kernel does with them, and what sessions are told.

use tunnel::{Command, Event, Generation, Location, PeerId, RequestId};
use wire::Instant;
use wire::tunnel::{Flow, FlowIndex};

use super::lanes::LANE;
use super::{Kernel, MOST_COMMANDS, QUIET, of};

impl Kernel {
    pub(super) fn handle_event(&mut self, now: Instant, event: Event) -> [Option<Event>; 2] {
        match event {
            Event::FlowInUse { peer, generation, index, flow } => {
                // The programs know neither VLAN tags nor cyclic frames: a flow with some would be taken for another one.
                if flow.is_untagged_macsec() {
                    self.add_flow(now, peer, generation, index, &flow);
                }
                [None, None]
            }
            Event::StationMoves { address, to, .. } => {
                // The half asks again if there is no answer.
                if self.commands.len() < MOST_COMMANDS {
                    let location = self.room.stations.move_to(&mut self.site, address, to);
                    self.commands.push_back(Command::StationHeard { address, location });
                }
                [None, None]
            }
            Event::StationInUse { peer, generation, address } => {
                let Self { site, room, peers, .. } = self;
                if let Some(known) = of(peers, peer, generation) {
                    known.heard.hear(site, &mut room.stations, address, Location::Behind(peer));
                }
                [None, None]
            }
            Event::EpochInUse { peer, generation, epoch } => {
                if let Some(known) = of(&mut self.peers, peer, generation) {
                    known.lanes.hear_of_half(now, epoch);
                }
                [None, None]
            }
            Event::Withdraw { peer, generation, index } => {
                self.remove_flow(peer, generation, index);
                [Some(event), None]
            }
            Event::FlowAccepted { peer, generation, index, request, source } => {
                if self.deliver(peer, generation, (index, request), source) {
                    return [Some(event), None];
                }
                self.commands.push_back(Command::WithdrawFlow { peer, generation, index });
                [Some(Event::FlowRefused { peer, generation, index, request }), None]
            }
            Event::FlowRefused { peer, generation, index, request } => {
                let Self { site, room, peers, .. } = self;
                if let Some(known) = of(peers, peer, generation) {
                    known.flows.refused(site, room, peer, (index, request));
                }
                [Some(event), None]
            }
            Event::Lost { peer, generation, epoch, .. } => {
                let ours = of(&mut self.peers, peer, generation).is_some_and(|known| known.lanes.receives());
                [Some(event), ours.then_some(Event::Lost { peer, generation, epoch, lane: LANE })]
            }
            _ => [Some(event), None],
        }
    }

    /// Has the kernel send a flow's frames, if its peer is sent to in the kernel.
    fn add_flow(
        &mut self,
        now: Instant,
        peer: PeerId,
        generation: Generation,
        index: FlowIndex,
        flow: &Flow,
    ) {
        let Some(known) = of(&mut self.peers, peer, generation) else { return };
        if known.path.state().is_err() && known.path.looked().is_none_or(|looked| now.since(looked) >= QUIET)
        {
            self.renew_path(now, peer);
        }
        let Self { site, room, peers, plain, .. } = self;
        let Some(known) = of(peers, peer, generation) else { return };
        let has_lane = plain.contains_key(&peer) || known.lanes.transmit().is_some();
        let leaves = has_lane && known.path.number().is_some();
        if leaves && !flow.destination.is_group() {
            known.flows.add(site, room, peer, index, flow);
        }
    }

    /// Has the kernel deliver a flow of a peer's that the half has taken. False: it has no room, and the flow must stay in long form.
    fn deliver(
        &mut self,
        peer: PeerId,
        generation: Generation,
        asked: (FlowIndex, RequestId),
        source: Option<Location>,
    ) -> bool {
        let Self { site, room, peers, .. } = self;
        let Some(known) = of(peers, peer, generation) else { return true };
        known.flows.deliver(site, room, peer, asked, source) || !known.lanes.receives_newest()
    }
}
