//! Flows of a peer in the kernel, with the stations that they need.

use std::collections::{BTreeMap, VecDeque};

use tunnel::{Command, Generation, Location, PeerId};
use wire::MacAddr;
use wire::tunnel::{Flow, FlowIndex};
use xdp::site::{FlowPath, Site};

use super::stations::{Stations, USED};

/// Flows of a peer: those that this site sends, and those that the peer has announced, with their sources.
#[derive(Debug, Default)]
pub(super) struct PeerFlows {
    sent: BTreeMap<FlowIndex, Flow>,
    announced: BTreeMap<FlowIndex, MacAddr>,
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
        let slow = there && site.flow_use(flow).is_ok_and(|used| used.slow);
        if there && !slow {
            return;
        }
        let numbers = (stations.take(site, flow.source), stations.take(site, flow.destination));
        let (Some(source), Some(destination)) = numbers else { return };
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
    pub(super) fn announce(
        &mut self,
        site: &mut Site,
        stations: &mut Stations,
        peer: PeerId,
        index: FlowIndex,
        flow: &Flow,
    ) -> bool {
        self.withdraw(site, stations, peer, index);
        let Some(station) = stations.take(site, flow.source) else { return false };
        if site.announce(u32::from(peer.0), index, flow, station).is_err() {
            stations.let_go(site, flow.source);
            return false;
        }
        self.announced.insert(index, flow.source);
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
        if let Some(source) = self.announced.remove(&index) {
            withdraw_announced(site, stations, peer, index, source);
        }
    }

    /// Forgets all flows.
    pub(super) fn void(&mut self, site: &mut Site, stations: &mut Stations, peer: PeerId) {
        for flow in std::mem::take(&mut self.sent).into_values() {
            remove_sent(site, stations, &flow);
        }
        for (index, source) in std::mem::take(&mut self.announced) {
            withdraw_announced(site, stations, peer, index, source);
        }
    }

    /// Tells the half of flows that are used.
    pub(super) fn tell_used(
        &self,
        site: &Site,
        peer: PeerId,
        generation: Generation,
        commands: &mut VecDeque<Command>,
    ) {
        for (&index, flow) in &self.sent {
            if site.flow_use(flow).is_ok_and(|used| used.idle.is_some_and(|idle| idle < USED)) {
                commands.push_back(Command::FlowUsed { peer, generation, index });
            }
        }
    }
}

fn remove_sent(site: &mut Site, stations: &mut Stations, flow: &Flow) {
    let _ = site.remove_flow(flow);
    stations.let_go(site, flow.source);
    stations.let_go(site, flow.destination);
}

fn withdraw_announced(
    site: &mut Site,
    stations: &mut Stations,
    peer: PeerId,
    index: FlowIndex,
    source: MacAddr,
) {
    let _ = site.withdraw(u32::from(peer.0), index);
    stations.let_go(site, source);
}
