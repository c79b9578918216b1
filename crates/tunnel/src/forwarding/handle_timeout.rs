//! Timed work: windows that fill, epochs and fragments that end, flows and stations that age.

use core::time::Duration;

use wire::time::Instant;
use wire::tunnel::Flow;

use super::{Forwarding, Peer, Transport};
use crate::counters::InDiscard;
use crate::exchange::Event;
use crate::stations::Location;

/// Interval between expiry checks.
const WATCH: Duration = Duration::from_millis(10);
/// Interval between ageing steps. Each covers a limited number of the site's stations and of one peer's
/// flows: with 64 peers of 4096 flows each, every peer has its turn twice a minute.
const AGES: Duration = Duration::from_millis(100);
const AGES_BUDGET: usize = 1024;

impl Forwarding {
    /// Timed work, to be called once a turn. Puts at most 256 identifiers into windows. Every 10 ms it looks
    /// at each peer and each lane, and every 100 ms at 1024 stations and 1024 flows.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.receive.fill();
        if self.installing {
            self.installing = self.tell_ready();
            self.next_ready = now + WATCH;
        }
        if self.state.watch && now >= self.next_watch {
            self.next_watch = now + WATCH;
            self.state.watch = self.watch(now);
        }
        if now >= self.next_ages && self.has_ages() {
            self.next_ages = now + AGES;
            self.age(now);
        }
    }

    /// Latest time for [`Forwarding::handle_timeout`]; a past moment means at once. `None` if no timed work
    /// is pending.
    pub fn poll_timeout(&self) -> Option<Instant> {
        if self.receive.needs_fill() {
            return Some(Instant::START);
        }
        // A readiness event that found no room is retried, but not in a loop.
        let ready = self.installing.then_some(self.next_ready);
        let watch = self.state.watch.then_some(self.next_watch);
        let ages = self.has_ages().then_some(self.next_ages);
        [ready, watch, ages].into_iter().flatten().min()
    }

    fn tell_ready(&mut self) -> bool {
        let mut waiting = false;
        for Peer { context, transport, .. } in self.peers.iter_mut().flatten() {
            waiting |= match transport {
                Transport::Identifier(mode) => {
                    mode.tell_ready(context.peer, context.generation, &mut self.state, &self.receive)
                }
                Transport::HeaderEncryption(mode) => mode.tell_ready(context, &mut self.state),
                Transport::Plain(_) => false,
            };
        }
        waiting
    }

    /// Performs expiry. True while timed work is pending.
    fn watch(&mut self, now: Instant) -> bool {
        let mut watch = false;
        for lane in &mut self.receive.lanes {
            if lane.fragments.is_empty() {
                continue;
            }
            let expired = lane.fragments.expire(now);
            if let Some(peer) = lane.owner.and_then(|owner| self.peers.get_mut(owner.peer.index())?.as_mut())
            {
                peer.counters.count_in_times(InDiscard::PartExpired, expired);
            }
            watch |= !lane.fragments.is_empty();
        }
        for Peer { context, counters, transport } in self.peers.iter_mut().flatten() {
            if let Transport::HeaderEncryption(mode) = transport {
                watch |= mode.watch(now, counters);
            }
            let Transport::Identifier(identifier) = transport else { continue };
            let fragments = identifier.end_overlap(now, &mut self.receive);
            counters.count_in_times(InDiscard::PartRetired, fragments);
            watch |= identifier.overlap_end().is_some();
            watch |= identifier.tell_in_use(context.peer, context.generation, &mut self.state);
            let unknown = self.counters.in_pkts_unknown_identifier;
            if identifier.ask_if_lost(now, unknown, context.peer, context.generation, &mut self.state) {
                counters.resyncs += 1;
            }
        }
        watch
    }

    fn has_ages(&self) -> bool {
        let flows = |peer: &Peer| peer.transport.flows().len() > 0;
        !self.stations.is_empty() || self.peers.iter().flatten().any(flows)
    }

    fn age(&mut self, now: Instant) {
        let Self { stations, twins, state, peers, age_cursor, is_further, .. } = self;
        let (hasher, events) = (&state.hasher, &mut state.events);
        stations.age(now, hasher, AGES_BUDGET);
        *age_cursor = (*age_cursor + 1) % peers.len().max(1);
        let Some(Some(Peer { context, transport, .. })) = peers.get_mut(*age_cursor) else { return };
        let (peer, generation) = (context.peer, context.generation);
        let behind = Some(Location::Behind(twins.first(peer)));
        // Nobody answers from a group address.
        let is_answered = |flow: &Flow| {
            *is_further
                || flow.relay().is_some()
                || flow.destination.is_group()
                || stations.location(now, hasher, flow.destination) == behind
        };
        let withdraw = |index| events.tell(Event::Withdraw { peer, generation, index });
        transport.flows_mut().age(now, hasher, AGES_BUDGET, is_answered, withdraw);
    }
}
