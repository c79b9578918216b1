//! Flows of a peer in the kernel, with the stations that they need.

use std::collections::{BTreeMap, VecDeque};
use std::time::{self, Duration};

use tunnel::{Command, Generation, Location, PeerId, RequestId};
use wire::tunnel::{Flow, FlowIndex};
use wire::{Instant, MacAddr};
use xdp::site::{FlowPath, FlowUse, Site};

use super::LOOK;
use super::numbers::{GRACE, Numbers};
use super::stations::{Stations, USED};

/// Flows that are looked at in one look: 65,536 in eight seconds.
pub(super) const SWEPT: usize = 2048;

/// Time after which a number that was given up may be used again for sure: it has rested, and a look has found it.
pub(super) const RESTED: Duration = Duration::from_secs(2);
const _: () = assert!(RESTED.as_millis() > GRACE.as_millis() + LOOK.as_millis());
/// Time for which a flow stays in user space that had a frame for it: so the peer's programs see that it was away.
const AWAY: Duration = Duration::from_secs(1);

/// Room for flows of all peers: their numbers in each direction, and stations.
#[derive(Debug)]
pub(super) struct FlowRoom {
    pub(super) stations: Stations,
    sent: Numbers,
    announced: Numbers,
}

/// Flows of a peer: those that this site sends, and those that the peer has announced.
#[derive(Debug, Default)]
pub(super) struct PeerFlows {
    sent: BTreeMap<FlowIndex, Sent>,
    announced: BTreeMap<FlowIndex, Announced>,
    /// Times at which announced flows were given up whose numbers may rest still.
    resting: VecDeque<time::Instant>,
    /// Sources of announced flows, and how many flows each of them has.
    sources: BTreeMap<MacAddr, usize>,
}

/// A flow that this site sends, and its number.
#[derive(Debug)]
struct Sent {
    flow: Flow,
    number: u32,
}

/// A flow that a peer has announced, and its number. The kernel delivers it once the half has said where its source is: else the peer could have the
/// place of a station that the half knows here (`a_station_that_the_half_knows_here_is_not_a_peers_by_announcing_it`).
#[derive(Debug)]
struct Announced {
    flow: Flow,
    number: u32,
    /// What the half was asked last about it: answers to others are about other flows.
    request: RequestId,
    delivered: bool,
}

impl FlowRoom {
    pub(super) fn new(flows: u32, stations: u32) -> Self {
        Self { stations: Stations::new(stations), sent: Numbers::new(flows), announced: Numbers::new(flows) }
    }

    /// Numbers that have rested may be used again.
    pub(super) fn reuse(&mut self) {
        self.stations.reuse();
        self.sent.reuse();
        self.announced.reuse();
    }

    /// Free and resting numbers: of stations, of flows that are sent, and of announced ones.
    #[cfg(test)]
    pub(super) fn counts(&self) -> [[usize; 2]; 3] {
        [self.stations.counts(), self.sent.counts(), self.announced.counts()]
    }

    /// Stations of a flow that is sent, which one more flow needs from here on.
    fn take_stations(&mut self, site: &mut Site, flow: &Flow) -> Option<[u32; 2]> {
        let source = self.stations.take(site, flow.source)?;
        let destination = self.stations.take(site, flow.destination);
        if destination.is_none() {
            self.stations.let_go(site, flow.source);
        }
        Some([source, destination?])
    }

    fn let_stations_go(&mut self, site: &mut Site, flow: &Flow) {
        self.stations.let_go(site, flow.source);
        self.stations.let_go(site, flow.destination);
    }
}

impl PeerFlows {
    /// Has the kernel send a flow's frames, from its next pause on.
    pub(super) fn add(
        &mut self,
        site: &mut Site,
        room: &mut FlowRoom,
        peer: PeerId,
        index: FlowIndex,
        flow: &Flow,
    ) {
        let there = self.sent.get(&index).map(|sent| sent.number);
        if let Some(number) = there {
            let used = site.now().and_then(|now| site.flow_use(number, now));
            let returns = |used: FlowUse| used.in_user_space && used.idle.is_none_or(|idle| idle >= AWAY);
            if !used.is_ok_and(returns) {
                return;
            }
        }
        let Some([source, destination]) = room.take_stations(site, flow) else { return };
        if there.is_some() {
            room.let_stations_go(site, flow);
        }
        let path = FlowPath { peer: u32::from(peer.0), index, source, destination };
        let places =
            [(flow.source, source, Location::Here), (flow.destination, destination, Location::Behind(peer))];
        let told =
            places.iter().try_for_each(|(of, number, place)| site.set_station(*number, *of, Some(*place)));
        for (address, _, place) in places {
            room.stations.half_knows(address, place);
        }
        let number = there.or_else(|| room.sent.take());
        if let Some(number) = number
            && told.and_then(|()| site.add_flow(number, flow, &path)).is_ok()
        {
            self.sent.insert(index, Sent { flow: *flow, number });
        } else if there.is_none() {
            number.into_iter().for_each(|number| room.sent.put_back(number));
            room.let_stations_go(site, flow);
        }
    }

    /// Leaves a flow's frames to user space.
    pub(super) fn remove(&mut self, site: &mut Site, room: &mut FlowRoom, index: FlowIndex) {
        if let Some(sent) = self.sent.remove(&index) {
            remove_sent(site, room, &sent);
        }
    }

    /// Makes room for a flow of the peer's. False: there is none, and the flow must stay in long form.
    ///
    /// A peer has `most` flows at most, and no more stations than stay free, those among them that it has withdrawn and whose numbers rest.
    /// So peers that announce whatever they can leave room for others, and for this LAN
    /// (`a_peer_that_announces_much_leaves_room_for_others`, `a_peer_that_withdraws_much_leaves_room_for_others`).
    pub(super) fn announce(
        &mut self,
        site: &mut Site,
        room: &mut FlowRoom,
        peer: PeerId,
        (index, flow, request): (FlowIndex, &Flow, RequestId),
        most: usize,
    ) -> bool {
        if let Some(known) = self.announced.get_mut(&index).filter(|known| known.flow == *flow) {
            known.request = request;
            return true;
        }
        self.withdraw(site, room, peer, index);
        while self.resting.front().is_some_and(|since| since.elapsed() >= RESTED) {
            self.resting.pop_front();
        }
        let resting = self.resting.len();
        let known = self.sources.contains_key(&flow.source);
        let has_room = self.announced.len() + resting < most
            && (known || self.sources.len() + resting < room.stations.free());
        if !has_room {
            return false;
        }
        let Some(number) = room.announced.take() else { return false };
        if room.stations.take(site, flow.source).is_none() {
            room.announced.put_back(number);
            return false;
        }
        self.announced.insert(index, Announced { flow: *flow, number, request, delivered: false });
        *self.sources.entry(flow.source).or_default() += 1;
        true
    }

    /// The half has refused a flow of the peer's.
    pub(super) fn refused(
        &mut self,
        site: &mut Site,
        room: &mut FlowRoom,
        peer: PeerId,
        (index, request): (FlowIndex, RequestId),
    ) {
        if self.announced.get(&index).is_some_and(|known| known.request == request) {
            self.withdraw(site, room, peer, index);
        }
    }

    /// The half has taken a flow of the peer's, and knows its source there: the kernel delivers it. False: it has no room.
    pub(super) fn deliver(
        &mut self,
        site: &mut Site,
        room: &mut FlowRoom,
        peer: PeerId,
        (index, request): (FlowIndex, RequestId),
        source: Option<Location>,
    ) -> bool {
        let is_asked = |known: &&mut Announced| known.request == request && !known.delivered;
        let Some(known) = self.announced.get_mut(&index).filter(is_asked) else { return true };
        let station = room.stations.place(site, known.flow.source, source);
        known.delivered = station.is_some_and(|station| {
            site.announce(known.number, (u32::from(peer.0), index), &known.flow, station).is_ok()
        });
        if !known.delivered {
            self.withdraw(site, room, peer, index);
            return false;
        }
        true
    }

    /// Forgets a flow of the peer's.
    pub(super) fn withdraw(&mut self, site: &mut Site, room: &mut FlowRoom, peer: PeerId, index: FlowIndex) {
        let Some(Announced { flow: Flow { source, .. }, number, delivered, .. }) =
            self.announced.remove(&index)
        else {
            return;
        };
        if delivered {
            let _ = site.withdraw(u32::from(peer.0), index);
        }
        room.announced.rest(number);
        self.resting.push_back(time::Instant::now());
        room.stations.let_go(site, source);
        if let Some(flows) = self.sources.get_mut(&source) {
            *flows -= 1;
            if *flows == 0 {
                self.sources.remove(&source);
            }
        }
    }

    /// Forgets all flows.
    pub(super) fn void(&mut self, site: &mut Site, room: &mut FlowRoom, peer: PeerId) {
        for sent in std::mem::take(&mut self.sent).into_values() {
            remove_sent(site, room, &sent);
        }
        while let Some((&index, _)) = self.announced.first_key_value() {
            self.withdraw(site, room, peer, index);
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
            for (&index, sent) in flows.sent.range(first..) {
                if left == 0 {
                    self.next = Some((peer, index));
                    return;
                }
                left -= 1;
                let used = site.flow_use(sent.number, clock).ok().and_then(|used| used.idle);
                if used.is_some_and(|idle| idle < USED) {
                    commands.push_back(Command::FlowUsed { peer, generation, index });
                }
            }
        }
    }
}

fn remove_sent(site: &mut Site, room: &mut FlowRoom, Sent { flow, number }: &Sent) {
    let _ = site.remove_flow(flow);
    room.sent.rest(*number);
    room.let_stations_go(site, flow);
}
