//! What the managing half says. Not on the frame path: it may allocate, and void tables as a whole.

use suite::tunnel::EpochSecret;
use wire::time::Instant;
use wire::tunnel::{Flow, FlowIndex};

use super::{Forwarding, Peer, Transport};
use crate::counters::{InDiscard, PeerCounters};
use crate::exchange::{Command, Event, Generation};
use crate::identifier::Identifier;
use crate::receive::Owner;
use crate::settings::PeerId;

impl Forwarding {
    /// Carries out what the managing half says. What belongs to another generation, or to a peer in another mode, is
    /// not heeded.
    pub fn command(&mut self, now: Instant, command: Command) {
        match command {
            Command::Begin { peer, generation } => self.begin(peer, generation),
            Command::InstallReceive { peer, generation, epoch, secret, lanes } => {
                self.install_receive(now, generation, Owner { peer, epoch }, &secret, lanes);
            }
            Command::InstallTransmit { peer, generation, epoch, secret } => {
                if let Some((identifier, _)) = self.of(peer, generation) {
                    identifier.install_transmit(epoch, &secret);
                }
            }
            Command::Announced { peer, generation, index } => self.acknowledge(peer, generation, index, true),
            Command::Unknown { peer, generation, index } => self.acknowledge(peer, generation, index, false),
            Command::AddFlow { peer, generation, index, flow } => {
                self.add_flow(peer, generation, index, flow)
            }
            Command::WithdrawFlow { peer, generation, index } => {
                if let Some((identifier, _)) = self.of(peer, generation) {
                    identifier.announced.remove(index);
                }
            }
            Command::Position { peer, generation, epoch, lane, seq } => {
                if let Some((identifier, _)) = of(&mut self.peers, peer, generation) {
                    identifier.position(&mut self.receive, epoch, lane, seq);
                }
            }
            Command::TellPosition { peer, generation, .. } => {
                let window = self.window;
                let event =
                    self.of(peer, generation).and_then(|(of, _)| of.tell_position(peer, generation, window));
                // If there is no room, the peer asks again.
                let _ = event.is_some_and(|event| self.shared.events.tell(event));
            }
            Command::PathPayload { peer, octets } => {
                if let Some(peer) = self.peers.get_mut(peer.index()) {
                    peer.facts.path_payload = octets;
                }
            }
        }
    }

    fn begin(&mut self, peer: PeerId, generation: Generation) {
        let Some(Peer { facts, counters, transport }) = self.peers.get_mut(peer.index()) else { return };
        facts.generation = generation;
        match transport {
            Transport::Identifier(identifier) => {
                let parts = identifier.void(&self.shared, &mut self.receive);
                counters.count_in_times(InDiscard::PartRetired, parts);
            }
            Transport::HeaderEncryption | Transport::Plain { .. } => {}
        }
    }

    fn install_receive(
        &mut self,
        now: Instant,
        generation: Generation,
        owner: Owner,
        secret: &EpochSecret,
        lanes: u8,
    ) {
        let Some((identifier, counters)) = of(&mut self.peers, owner.peer, generation) else { return };
        let parts = identifier.install_receive(now, &mut self.receive, owner, secret, lanes);
        counters.count_in_times(InDiscard::PartRetired, parts);
        self.installing = true;
    }

    /// The peer knows a flow, or does not.
    fn acknowledge(&mut self, peer: PeerId, generation: Generation, index: FlowIndex, known: bool) {
        let given = self.of(peer, generation).and_then(|(identifier, _)| identifier.flows.by_index(index));
        if let Some(given) = given {
            given.acknowledged = known;
        }
    }

    fn add_flow(&mut self, peer: PeerId, generation: Generation, index: FlowIndex, flow: Flow) {
        let Some((identifier, counters)) = self.of(peer, generation) else { return };
        let event = if identifier.announced.add(index, flow) {
            Event::FlowAccepted { peer, generation, index }
        } else {
            counters.in_flows_refused += 1;
            Event::FlowRefused { peer, generation, index }
        };
        // If there is no room, the peer announces it again.
        let _ = self.shared.events.tell(event);
    }

    fn of(&mut self, peer: PeerId, generation: Generation) -> Option<(&mut Identifier, &mut PeerCounters)> {
        of(&mut self.peers, peer, generation)
    }
}

/// A peer in identifier mode, if this is its generation.
fn of(
    peers: &mut [Peer],
    peer: PeerId,
    generation: Generation,
) -> Option<(&mut Identifier, &mut PeerCounters)> {
    match peers.get_mut(peer.index())? {
        Peer { facts, counters, transport: Transport::Identifier(identifier) }
            if facts.generation == generation =>
        {
            Some((identifier, counters))
        }
        _ => None,
    }
}
