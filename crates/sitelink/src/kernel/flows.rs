//! Flows of a peer in the kernel, with the stations that they need.

use std::collections::{BTreeMap, VecDeque};

use tunnel::{Command, Generation, Location, PeerId};
use wire::tunnel::{Flow, FlowIndex};
use wire::{Instant, MacAddr};
use xdp::site::{FlowPath, Site};

use super::stations::{Stations, USED};

/// Flows that are looked at in one look: 65,536 in eight seconds.
pub(super) const SWEPT: usize = 2048;

/// Flows of a peer: those that this site sends, and those that the peer has announced, with their sources.
#[derive(Debug, Default)]
pub(super) struct PeerFlows {
    sent: BTreeMap<FlowIndex, Flow>,
    announced: BTreeMap<FlowIndex, MacAddr>,
    /// Sources of announced flows, and how many flows each of them has.
    sources: BTreeMap<MacAddr, usize>,
}

impl PeerFlows {
    /// Has the kernel send a flow's frames, from its next pause on.
    pub(super) fn add(
        &mut self,
        site: &mut Site,
        stations: &mut Stations,
        peer: PeerId,
        index: FlowIndex,
        flow: &Flow,
    ) {
        let there = self.sent.contains_key(&index);
        let slow = there && site.now().and_then(|now| site.flow_use(flow, now)).is_ok_and(|used| used.slow);
        if there && !slow {
            return;
        }
        let Some(source) = stations.take(site, flow.source) else { return };
        let Some(destination) = stations.take(site, flow.destination) else {
            stations.let_go(site, flow.source);
            return;
        };
        if there {
            stations.let_go(site, flow.source);
            stations.let_go(site, flow.destination);
        }
        let path = FlowPath { peer: u32::from(peer.0), index, source, destination };
        let places =
            [(flow.source, source, Location::Here), (flow.destination, destination, Location::Behind(peer))];
        let told = places.iter().try_for_each(|(_, number, place)| site.set_station(*number, Some(*place)));
        for (address, _, place) in places {
            stations.half_knows(address, place);
        }
        let added = told.and_then(|()| site.add_flow(flow, &path));
        if added.is_ok() {
            self.sent.insert(index, *flow);
        } else if !there {
            stations.let_go(site, flow.source);
            stations.let_go(site, flow.destination);
        }
    }

    /// Leaves a flow's frames to user space.
    pub(super) fn remove(&mut self, site: &mut Site, stations: &mut Stations, index: FlowIndex) {
        if let Some(flow) = self.sent.remove(&index) {
            remove_sent(site, stations, &flow);
        }
    }

    /// Has the kernel deliver a flow of the peer's. False: there is no room, and the flow must stay in long form.
    ///
    /// A peer has `most` flows at most, and no more stations than stay free. So peers that announce whatever they can leave room
    /// for others, and for this LAN (`a_peer_that_announces_much_leaves_room_for_others`).
    pub(super) fn announce(
        &mut self,
        site: &mut Site,
        stations: &mut Stations,
        peer: PeerId,
        (index, flow): (FlowIndex, &Flow),
        most: usize,
    ) -> bool {
        self.withdraw(site, stations, peer, index);
        let has_room = self.announced.len() < most
            && (self.sources.contains_key(&flow.source) || self.sources.len() < stations.free());
        if !has_room {
            return false;
        }
        let Some(station) = stations.take(site, flow.source) else { return false };
        if site.announce(u32::from(peer.0), index, flow, station).is_err() {
            stations.let_go(site, flow.source);
            return false;
        }
        self.announced.insert(index, flow.source);
        *self.sources.entry(flow.source).or_default() += 1;
        true
    }

    /// Forgets a flow of the peer's.
    pub(super) fn withdraw(
        &mut self,
        site: &mut Site,
        stations: &mut Stations,
        peer: PeerId,
        index: FlowIndex,
    ) {
        let Some(source) = self.announced.remove(&index) else { return };
        let _ = site.withdraw(u32::from(peer.0), index);
        stations.let_go(site, source);
        if let Some(flows) = self.sources.get_mut(&source) {
            *flows -= 1;
            if *flows == 0 {
                self.sources.remove(&source);
            }
        }
    }

    /// Forgets all flows.
    pub(super) fn void(&mut self, site: &mut Site, stations: &mut Stations, peer: PeerId) {
        for flow in std::mem::take(&mut self.sent).into_values() {
            remove_sent(site, stations, &flow);
        }
        while let Some((&index, _)) = self.announced.first_key_value() {
            self.withdraw(site, stations, peer, index);
        }
    }
}

/// Rounds through the flows of all peers, some flows at a time, that tell the half which of them are used.
#[derive(Debug, Default)]
pub(super) struct FlowSweep {
    begun: Option<Instant>,
    /// Flow at which a round goes on.
    next: Option<(PeerId, FlowIndex)>,
}

impl FlowSweep {
    /// Looks at some more flows. A new round begins when it is time to.
    pub(super) fn look<'a>(
        &mut self,
        site: &Site,
        now: Instant,
        peers: impl Iterator<Item = (PeerId, Generation, &'a PeerFlows)>,
        commands: &mut VecDeque<Command>,
    ) {
        let due = self.begun.is_none_or(|begun| now.since(begun) >= USED);
        if self.next.is_none() && !due {
            return;
        }
        let Ok(clock) = site.now() else { return };
        let (first_peer, first) = self.next.take().unwrap_or_else(|| {
            self.begun = Some(now);
            (PeerId(0), FlowIndex(0))
        });
        let mut left = SWEPT;
        for (peer, generation, flows) in peers.skip_while(|(peer, ..)| *peer < first_peer) {
            let first = if peer == first_peer { first } else { FlowIndex(0) };
            for (&index, flow) in flows.sent.range(first..) {
                if left == 0 {
                    self.next = Some((peer, index));
                    return;
                }
                left -= 1;
                let used = site.flow_use(flow, clock).ok().and_then(|used| used.idle);
                if used.is_some_and(|idle| idle < USED) {
                    commands.push_back(Command::FlowUsed { peer, generation, index });
                }
            }
        }
    }
}

fn remove_sent(site: &mut Site, stations: &mut Stations, flow: &Flow) {
    let _ = site.remove_flow(flow);
    stations.let_go(site, flow.source);
    stations.let_go(site, flow.destination);
}
