//! Flows of this site, and the peer's knowledge of them.

use alloc::collections::{BTreeMap, BTreeSet};
use core::time::Duration;

use wire::Instant;
use wire::tunnel::{Flow, FlowIndex};

use crate::message::Message;

/// Most unanswered announcements; beyond, the forwarding half has to repeat them.
pub const OUTSTANDING: usize = 4096;

/// Most requests (Announce, Withdraw) in flight. Others wait for answers.
pub const IN_FLIGHT: usize = 256;

/// Delay before the forwarding half is asked to repeat refused or deferred announcements.
const PAUSE: Duration = Duration::from_secs(1);

/// Each number is in one of these, or in none.
#[derive(Default, Debug)]
pub(super) struct Announcements {
    /// Not acknowledged yet: the flow, and whether it is in flight on this connection.
    announcing: BTreeMap<FlowIndex, (Flow, bool)>,
    /// Known to the peer.
    known: BTreeSet<FlowIndex>,
    /// To be forgotten by the peer: whether that is in flight on this connection.
    withdrawing: BTreeMap<FlowIndex, bool>,
    /// Refused or deferred.
    again: BTreeSet<FlowIndex>,
    /// Time at which those are repeated.
    again_at: Option<Instant>,
    /// Requests in flight.
    in_flight: usize,
}

impl Announcements {
    /// Announces a flow. False if it was deferred.
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

    /// Withdraws a number, whatever the peer has said. A flow that the peer refused for lack of an answer
    /// from its forwarding half may have been added later.
    pub(super) fn withdraw(&mut self, index: FlowIndex) {
        if self.withdrawing.contains_key(&index) {
            return;
        }
        self.forget(index);
        self.withdrawing.insert(index, false);
    }

    /// Removes a number from all tables.
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

    /// Next request, if not too many are in flight. Withdrawals go first: they make room at the peer.
    ///
    /// Looks at no more numbers than are in flight.
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

    /// True if the announcement of a number waits for its answer.
    pub(super) fn is_under_way(&self, index: FlowIndex) -> bool {
        self.announcing.get(&index).is_some_and(|(_, under_way)| *under_way)
    }

    /// Records that the peer knows the flow.
    pub(super) fn acknowledge(&mut self, index: FlowIndex) {
        self.forget(index);
        self.known.insert(index);
    }

    /// Records that the peer has no room for the flow.
    pub(super) fn refuse(&mut self, now: Instant, index: FlowIndex) {
        self.forget(index);
        self.put_off(now, index);
    }

    /// Records that the peer does not know a number. True if it had acknowledged it.
    pub(super) fn forgotten(&mut self, index: FlowIndex) -> bool {
        self.known.remove(&index)
    }

    /// Records that the peer has forgotten a number. True if that was requested.
    pub(super) fn withdrawn(&mut self, index: FlowIndex) -> bool {
        let asked = self.withdrawing.get(&index) == Some(&true);
        if asked {
            self.forget(index);
        }
        asked
    }

    /// Takes the announcements that the forwarding half has to repeat now.
    pub(super) fn take_retries(&mut self, now: Instant) -> BTreeSet<FlowIndex> {
        match self.again_at {
            Some(at) if at <= now => {
                self.again_at = None;
                core::mem::take(&mut self.again)
            }
            _ => BTreeSet::new(),
        }
    }

    /// Next time for [`Announcements::take_retries`].
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
