//! Commands of the session. Not on the frame path: they may allocate, and void whole tables.

use suite::tunnel::EpochSecret;
use wire::time::Instant;
use wire::tunnel::{Flow, FlowIndex};

use super::{Forwarding, Peer, Transport};
use crate::counters::{InDiscard, PeerCounters};
use crate::exchange::{Command, Event, Generation, RequestId};
use crate::receive::Owner;
use crate::settings::{FrameKinds, PeerId};

impl Forwarding {
    /// Handles a command. Ignores commands of another generation, or for a peer in another mode.
    pub fn handle_command(&mut self, now: Instant, command: Command) {
        match command {
            Command::Begin { peer, generation } => self.begin(peer, generation),
            Command::TakesFrames { peer, generation, frames } => {
                if let Some(Peer { context, .. }) = self.peer_mut(peer)
                    && context.generation == generation
                {
                    context.frames = frames;
                }
            }
            Command::InstallReceive { peer, generation, epoch, secret, lanes } => {
                self.install_receive(generation, Owner { peer, epoch }, &secret, lanes);
            }
            Command::InstallTransmit { peer, generation, epoch, secret } => match self.of(peer, generation) {
                Some((Transport::Identifier(mode), _)) => mode.install_transmit(epoch, &secret),
                Some((Transport::HeaderEncryption(mode), _)) => mode.install_transmit(now, epoch, &secret),
                Some((Transport::Plain(_), _)) | None => {}
            },
            Command::Announced { peer, generation, index, request } => {
                self.acknowledge(peer, generation, index, Some(request));
            }
            Command::Unknown { peer, generation, index } => self.acknowledge(peer, generation, index, None),
            Command::AddFlow { peer, generation, index, flow, request } => {
                self.add_flow(now, (peer, generation), index, flow, request);
            }
            Command::WithdrawFlow { peer, generation, index } => {
                match of(&mut self.peers, peer, generation) {
                    Some((Transport::Identifier(mode), _)) => mode.announced.remove(index),
                    Some((Transport::HeaderEncryption(mode), _)) => {
                        mode.known.remove(&self.state.hasher, index)
                    }
                    Some((Transport::Plain(_), _)) | None => {}
                }
            }
            Command::Position { peer, generation, epoch, lane, seq } => {
                if let Some((Transport::Identifier(mode), _)) = of(&mut self.peers, peer, generation) {
                    mode.position(&mut self.receive, epoch, lane, seq);
                }
            }
            Command::RequestPosition { peer, generation, lane, .. } => {
                let window = self.window;
                let event = match self.of(peer, generation) {
                    Some((Transport::Identifier(mode), _)) => {
                        mode.tell_position(peer, generation, lane, window)
                    }
                    _ => None,
                };
                // If there is no room, the peer asks again.
                let _ = event.is_some_and(|event| self.state.events.tell(event));
            }
            Command::OfferFlows => self.state.offers = true,
            Command::FlowUsed { peer, generation, index } => {
                if let Some((transport @ (Transport::Identifier(_) | Transport::Plain(_)), _)) =
                    self.of(peer, generation)
                    && let Some(given) = transport.flows_mut().by_index(index)
                {
                    given.used = now;
                }
            }
            Command::StationHeard { address, location } => {
                self.learn_station(now, address, location, false);
            }
            Command::EpochInUse { peer, generation, epoch } => {
                if let Some((Transport::Identifier(mode), _)) = of(&mut self.peers, peer, generation) {
                    self.state.watch |= mode.heard_elsewhere(now, epoch);
                }
            }
            Command::StationLive { sci } => self.state.live.note(now, sci),
            Command::ExpectCopies { peer } => {
                if let Some(Peer { transport: Transport::Identifier(mode), .. }) = self.peer_mut(peer) {
                    mode.several_paths = true;
                }
            }
            Command::PathPayload { peer, octets } => {
                if let Some(peer) = self.peer_mut(peer) {
                    peer.context.path_payload = octets;
                }
            }
        }
    }

    fn begin(&mut self, peer: PeerId, generation: Generation) {
        let Some(Some(Peer { context, counters, transport })) = self.peers.get_mut(peer.index()) else {
            return;
        };
        (context.generation, context.frames) = (generation, FrameKinds::default());
        self.twins.begin(peer);
        match transport {
            Transport::Identifier(identifier) => {
                let fragments = identifier.void(&self.state, &mut self.receive);
                counters.count_in_times(InDiscard::PartRetired, fragments);
            }
            Transport::HeaderEncryption(mode) => mode.void(&self.state, counters),
            Transport::Plain(_) => {}
        }
    }

    fn install_receive(&mut self, generation: Generation, owner: Owner, secret: &EpochSecret, lanes: u8) {
        match of(&mut self.peers, owner.peer, generation) {
            Some((Transport::Identifier(mode), counters)) => {
                let fragments = mode.install_receive(&mut self.receive, owner, secret, lanes);
                counters.count_in_times(InDiscard::PartRetired, fragments);
            }
            Some((Transport::HeaderEncryption(mode), _)) => mode.install_receive(owner.epoch, secret),
            Some((Transport::Plain(_), _)) | None => return,
        }
        self.installing = true;
    }

    /// Records whether the peer knows a flow, as [`Flows::acknowledge`](crate::flows::Flows::acknowledge).
    fn acknowledge(
        &mut self,
        peer: PeerId,
        generation: Generation,
        index: FlowIndex,
        known: Option<RequestId>,
    ) {
        match of(&mut self.peers, peer, generation) {
            Some((Transport::Identifier(mode), _)) => drop(mode.flows.acknowledge(index, known)),
            Some((Transport::HeaderEncryption(mode), _)) => self.releasing |= mode.acknowledge(index, known),
            Some((Transport::Plain(_), _)) | None => {}
        }
    }

    fn add_flow(
        &mut self,
        now: Instant,
        (peer, generation): (PeerId, Generation),
        index: FlowIndex,
        flow: Flow,
        request: RequestId,
    ) {
        let source = self.stations.location(now, &self.state.hasher, flow.source);
        let Some((transport, counters)) = of(&mut self.peers, peer, generation) else { return };
        let added = match transport {
            _ if !self.state.takes(&flow) => false,
            Transport::Identifier(mode) => mode.announced.add(index, flow),
            Transport::HeaderEncryption(mode) => {
                flow.relay().is_none() && mode.known.add(&self.state.hasher, index, flow)
            }
            Transport::Plain(_) => return,
        };
        let event = if added {
            Event::FlowAccepted { peer, generation, index, request, source }
        } else {
            counters.in_flows_refused += 1;
            Event::FlowRefused { peer, generation, index, request }
        };
        // If there is no room, the peer announces it again.
        let _ = self.state.events.tell(event);
    }

    fn of(&mut self, peer: PeerId, generation: Generation) -> Option<(&mut Transport, &mut PeerCounters)> {
        of(&mut self.peers, peer, generation)
    }
}

/// A peer, if this is its generation.
fn of(
    peers: &mut [Option<Peer>],
    peer: PeerId,
    generation: Generation,
) -> Option<(&mut Transport, &mut PeerCounters)> {
    match peers.get_mut(peer.index())?.as_mut()? {
        Peer { context, counters, transport } if context.generation == generation => {
            Some((transport, counters))
        }
        _ => None,
    }
}
