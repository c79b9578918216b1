//! Flows of this site, and what the peer knows of them.

use alloc::collections::{BTreeMap, BTreeSet};
use core::time::Duration;

use wire::Instant;
use wire::tunnel::{Flow, FlowIndex};

use crate::message::Message;

/// Announcements that may wait for their answer: beyond, the forwarding half has to tell them again.
pub const OUTSTANDING: usize = 4096;

/// Requests (Announce, Withdraw) that may be under way. The others wait for answers.
pub const IN_FLIGHT: usize = 256;

/// After this the forwarding half is told to announce again what was refused or put off.
const PAUSE: Duration = Duration::from_secs(1);

/// Each number is in one of these, or in none.
#[derive(Default, Debug)]
pub(super) struct Announcements {
    /// Not acknowledged yet: the flow, and whether it is under way on this connection.
    announcing: BTreeMap<FlowIndex, (Flow, bool)>,
    /// The peer knows it.
    known: BTreeSet<FlowIndex>,
    /// The peer is to forget it: whether that is under way on this connection.
    withdrawing: BTreeMap<FlowIndex, bool>,
    /// Refused or put off.
    again: BTreeSet<FlowIndex>,
    /// When the forwarding half is told those.
    again_at: Option<Instant>,
    /// How many are under way.
    in_flight: usize,
}

impl Announcements {
    /// The forwarding half wants a flow announced; `false` if it was put off.
    pub(super) fn announce(&mut self, now: Instant, index: FlowIndex, flow: Flow) -> bool {
        if self.announcing.get(&index).is_some_and(|(known, _)| *known == flow) {
            return true;
        }
        self.forget(index);
        if self.announcing.len() >= OUTSTANDING {
            self.put_off(now, index);
            return false;
        }
        self.announcing.insert(index, (flow, false));
        true
    }

    /// A number is not used any longer. It is withdrawn from the peer whatever that has said: what it refused for want of
    /// an answer from its forwarding half, that may have added later.
    pub(super) fn withdraw(&mut self, index: FlowIndex) {
        if self.withdrawing.contains_key(&index) {
            return;
        }
        self.forget(index);
        self.withdrawing.insert(index, false);
    }

    /// Takes a number out of all tables.
    fn forget(&mut self, index: FlowIndex) {
        let announcing = self.announcing.remove(&index).map(|(_, under_way)| under_way);
        let withdrawing = self.withdrawing.remove(&index);
        self.in_flight -= usize::from(announcing == Some(true)) + usize::from(withdrawing == Some(true));
        self.again.remove(&index);
        self.known.remove(&index);
    }

    fn put_off(&mut self, now: Instant, index: FlowIndex) {
        self.again.insert(index);
        self.again_at.get_or_insert(now + PAUSE);
    }

    /// The next request, if not too many are under way. Flows that are gone go first: they make room at the peer.
    ///
    /// Looks at no more numbers than are under way.
    pub(super) fn poll_request(&mut self) -> Option<Message> {
        if self.in_flight >= IN_FLIGHT {
            return None;
        }
        if let Some((index, under_way)) = self.withdrawing.iter_mut().find(|(_, under_way)| !**under_way) {
            *under_way = true;
            self.in_flight += 1;
            return Some(Message::Withdraw { index: *index });
        }
        let (index, (flow, under_way)) = self.announcing.iter_mut().find(|(_, (_, under_way))| !under_way)?;
        *under_way = true;
        self.in_flight += 1;
        Some(Message::Announce { index: *index, flow: *flow })
    }

    /// Whether the announcement of a number waits for its answer.
    pub(super) fn is_under_way(&self, index: FlowIndex) -> bool {
        self.announcing.get(&index).is_some_and(|(_, under_way)| *under_way)
    }

    /// The peer knows the flow.
    pub(super) fn acknowledge(&mut self, index: FlowIndex) {
        self.forget(index);
        self.known.insert(index);
    }

    /// The peer has no room for the flow.
    pub(super) fn refuse(&mut self, now: Instant, index: FlowIndex) {
        self.forget(index);
        self.put_off(now, index);
    }

    /// The peer does not know a number; whether it is one that it had acknowledged.
    pub(super) fn forgotten(&mut self, index: FlowIndex) -> bool {
        self.known.remove(&index)
    }

    /// The peer has forgotten a number; whether it was asked to.
    pub(super) fn withdrawn(&mut self, index: FlowIndex) -> bool {
        let asked = self.withdrawing.get(&index) == Some(&true);
        if asked {
            self.forget(index);
        }
        asked
    }

    /// What the forwarding half has to announce again now.
    pub(super) fn take_retries(&mut self, now: Instant) -> BTreeSet<FlowIndex> {
        match self.again_at {
            Some(at) if at <= now => {
                self.again_at = None;
                core::mem::take(&mut self.again)
            }
            _ => BTreeSet::new(),
        }
    }

    /// When [`Announcements::take_retries`] has something.
    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        self.again_at
    }

    pub(super) fn disconnected(&mut self) {
        self.announcing.values_mut().for_each(|(_, under_way)| *under_way = false);
        self.withdrawing.values_mut().for_each(|under_way| *under_way = false);
        self.in_flight = 0;
    }

    pub(super) fn announced(&self) -> usize {
        self.announcing.len()
    }

    pub(super) fn acknowledged(&self) -> usize {
        self.known.len()
    }
}
