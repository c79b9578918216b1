//! Commands of sessions: what the kernel takes of them, and what is left for the half.

use dataplane::site::ToWorker;
use suite::tunnel::EpochSecret;
use tunnel::{Command, Event, Generation, PeerId, RequestId};
use wire::Instant;
use wire::tunnel::{Flow, FlowIndex};

use super::lanes::LANE;
use super::{Kernel, LANES, of};

impl Kernel {
    pub(super) fn handle_command(
        &mut self,
        now: Instant,
        word: ToWorker,
        events: &mut Vec<Event>,
    ) -> Option<ToWorker> {
        let command = match word {
            ToWorker::Endpoint { peer, address } => {
                if peer.0 < self.peers_at_most {
                    let Self { site, peers, plain, .. } = self;
                    let known = peers.entry(peer).or_default();
                    known.path.set_address(address);
                    if let Some(plain) = plain.get(&peer) {
                        known.path.set_plain(plain.vni);
                        known.path.set_payload(plain.path_payload);
                        known.sender.set(site, peer, address);
                    }
                    self.renew_path(now, peer);
                }
                return Some(word);
            }
            // Of peers with several paths, which the programs have nothing to do with.
            ToWorker::Path { .. }
            | ToWorker::Prefer { .. }
            | ToWorker::Copies { .. }
            | ToWorker::WayOut { .. } => return Some(word),
            ToWorker::Relay { .. } => return Some(word),
            ToWorker::Tunnel(command) => command,
        };
        let command = match command {
            Command::Begin { peer, generation } => {
                if peer.0 < self.peers_at_most {
                    self.void(peer);
                    self.peers.entry(peer).or_default().generation = generation;
                }
                command
            }
            Command::InstallReceive { peer, generation, epoch, secret, lanes } => {
                let received = self.receive(now, (peer, generation), epoch, &secret, lanes);
                let lanes = if received { LANE } else { lanes };
                Command::InstallReceive { peer, generation, epoch, secret, lanes }
            }
            Command::InstallTransmit { peer, generation, epoch, ref secret } => {
                self.transmit((peer, generation), epoch, secret);
                command
            }
            Command::Unknown { peer, generation, index } => {
                self.remove_flow(peer, generation, index);
                command
            }
            // The programs know no VLAN tags and no cyclic frames: such come on the half's lane, and are the half's.
            Command::AddFlow { peer, generation, index, flow, .. } if !flow.is_untagged_macsec() => {
                self.withdraw(peer, generation, index);
                command
            }
            Command::AddFlow { peer, generation, index, flow, request } => {
                if !self.announce((peer, generation), index, &flow, request) {
                    events.push(Event::FlowRefused { peer, generation, index, request });
                    return None;
                }
                command
            }
            Command::WithdrawFlow { peer, generation, index } => {
                self.withdraw(peer, generation, index);
                command
            }
            Command::Position { peer, generation, epoch, lane: LANE, seq } => {
                let Self { site, lanes, peers, .. } = self;
                let known = of(peers, peer, generation);
                if known.is_some_and(|known| known.lanes.advance(lanes, site, epoch, seq)) {
                    return None;
                }
                command
            }
            Command::RequestPosition { peer, generation, lane: LANE, .. } => {
                let Self { site, lanes, peers, .. } = self;
                let known = of(peers, peer, generation);
                if let Some((epoch, seq)) = known.and_then(|known| known.lanes.position(lanes, site)) {
                    events.push(Event::Position { peer, generation, epoch, lane: LANE, seq });
                }
                return None;
            }
            Command::PathPayload { peer, octets } => {
                if peer.0 < self.peers_at_most {
                    self.peers.entry(peer).or_default().path.set_payload(octets);
                    self.renew_path(now, peer);
                }
                command
            }
            _ => command,
        };
        Some(ToWorker::Tunnel(command))
    }

    /// Receives an epoch's lane in the kernel, if the peer has one for it and its packets come to a program.
    fn receive(
        &mut self,
        now: Instant,
        (peer, generation): (PeerId, Generation),
        epoch: u32,
        secret: &EpochSecret,
        count: u8,
    ) -> bool {
        // From the first packet on, programs know where the socket receives.
        self.bound_strangers(now);
        let refused = self.refuses_to_receive(now, peer, count);
        let Self { site, lanes, peers, .. } = self;
        let Some(known) = of(peers, peer, generation) else { return false };
        known.lanes.open_receive(lanes, site, u32::from(peer.0), (epoch, secret), refused)
    }

    /// Reason why an epoch of a peer is not received by a program.
    fn refuses_to_receive(&mut self, now: Instant, peer: PeerId, lanes: u8) -> Option<String> {
        if lanes != LANES {
            return Some("the peer sends in user space".into());
        }
        if !self.peers.contains_key(&peer) {
            return Some("its address is not known".into());
        }
        self.refuses_all(now)
    }

    fn transmit(&mut self, (peer, generation): (PeerId, Generation), epoch: u32, secret: &EpochSecret) {
        let Self { site, lanes, peers, .. } = self;
        let known = of(peers, peer, generation);
        let Some(before) = known.and_then(|known| known.lanes.open_transmit(lanes, site, epoch, secret))
        else {
            return;
        };
        self.direct(peer);
        if let Some(lane) = before {
            self.lanes.rest_transmit(lane);
        }
    }

    /// Makes room for a flow of a peer's. False: there is none, and the flow must stay in long form.
    fn announce(
        &mut self,
        (peer, generation): (PeerId, Generation),
        index: FlowIndex,
        flow: &Flow,
        request: RequestId,
    ) -> bool {
        let Self { site, room, peers, flows_of_peer, .. } = self;
        let Some(known) = of(peers, peer, generation) else { return true };
        let has_room = known.flows.announce(site, room, peer, (index, flow, request), *flows_of_peer);
        has_room || !known.lanes.receives_newest()
    }
}
