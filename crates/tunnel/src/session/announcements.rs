//! Flows of this site, and the peer's knowledge of them.

use alloc::collections::{BTreeMap, BTreeSet};
use core::time::Duration;

use wire::Instant;
use wire::tunnel::{Flow, FlowIndex};

use crate::exchange::RequestId;
use crate::message::Message;

/// Most unanswered announcements; beyond, the forwarding half has to repeat them.
pub const OUTSTANDING: usize = 4096;

/// Most requests (Announce, Withdraw) in flight. Others wait for answers.
pub const IN_FLIGHT: usize = 256;

/// Delay before the forwarding half is asked to repeat refused or deferred announcements.
const PAUSE: Duration = Duration::from_secs(1);

/// Each number is in one of the first four, or in none.
#[derive(Default, Debug)]
pub(super) struct Announcements {
    /// Not acknowledged yet, with the forwarding half's request.
    announcing: BTreeMap<FlowIndex, (Flow, RequestId)>,
    /// Known to the peer.
    known: BTreeSet<FlowIndex>,
    /// To be forgotten by the peer.
    withdrawing: BTreeSet<FlowIndex>,
    /// Refused or deferred.
    again: BTreeSet<FlowIndex>,
    /// Time at which those are repeated.
    again_at: Option<Instant>,
    /// Requests that this connection has carried, until the peer answers: one for each number. So an answer is about one request, though
    /// the number has got another flow meanwhile, and a peer that is slow is not sent more than it has to bear.
    in_flight: BTreeMap<FlowIndex, Request>,
}

/// A request in flight.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Request {
    Announce(Flow),
    Withdraw,
}

impl Announcements {
    /// Announces a flow, as the forwarding half has requested. False if it was deferred.
    pub(super) fn announce(
        &mut self,
        now: Instant,
        index: FlowIndex,
        flow: Flow,
        request: RequestId,
    ) -> bool {
        if self.announcing.get(&index) == Some(&(flow, request)) {
            return true;
        }
        self.forget(index);
        if self.announcing.len() >= OUTSTANDING {
            self.put_off(now, index);
            return false;
        }
        self.announcing.insert(index, (flow, request));
        true
    }

    /// Withdraws a number, whatever the peer has said. A flow that the peer refused for lack of an answer
    /// from its forwarding half may have been added later.
    pub(super) fn withdraw(&mut self, index: FlowIndex) {
        self.forget(index);
        self.withdrawing.insert(index);
    }

    /// Removes a number from all tables. A request in flight stays there: it will be answered.
    fn forget(&mut self, index: FlowIndex) {
        self.announcing.remove(&index);
        self.withdrawing.remove(&index);
        self.again.remove(&index);
        self.known.remove(&index);
    }

    fn put_off(&mut self, now: Instant, index: FlowIndex) {
        self.again.insert(index);
        self.again_at.get_or_insert(now + PAUSE);
    }

    /// Next request, if not too many are in flight. Withdrawals go first: they make room at the peer. A number waits until the request
    /// before is answered.
    ///
    /// Looks at no more numbers than are in flight.
    pub(super) fn poll_request(&mut self) -> Option<Message> {
        if self.in_flight.len() >= IN_FLIGHT {
            return None;
        }
        let is_free = |index: &FlowIndex| !self.in_flight.contains_key(index);
        if let Some(index) = self.withdrawing.iter().copied().find(is_free) {
            self.in_flight.insert(index, Request::Withdraw);
            return Some(Message::Withdraw { index });
        }
        let (index, flow) = self
            .announcing
            .iter()
            .map(|(index, (flow, _))| (*index, *flow))
            .find(|(index, _)| is_free(index))?;
        self.in_flight.insert(index, Request::Announce(flow));
        Some(Message::Announce { index, flow })
    }

    /// The announcement that the peer has answered. `None` if none of this number waited for an answer.
    pub(super) fn take_announced(&mut self, index: FlowIndex) -> Option<Flow> {
        match self.in_flight.get(&index) {
            Some(&Request::Announce(flow)) => {
                self.in_flight.remove(&index);
                Some(flow)
            }
            Some(Request::Withdraw) | None => None,
        }
    }

    /// The forwarding half's request, if this flow is still to be announced under this number.
    fn wanted(&self, index: FlowIndex, flow: Flow) -> Option<RequestId> {
        self.announcing.get(&index).filter(|(wanted, _)| *wanted == flow).map(|(_, request)| *request)
    }

    /// Records that the peer knows the flow. Returns the request that this answers; none if the number is no longer that flow's.
    pub(super) fn acknowledge(&mut self, index: FlowIndex, flow: Flow) -> Option<RequestId> {
        let request = self.wanted(index, flow)?;
        self.forget(index);
        self.known.insert(index);
        Some(request)
    }

    /// Records that the peer has no room for the flow. False if the number is no longer that flow's.
    pub(super) fn refuse(&mut self, now: Instant, index: FlowIndex, flow: Flow) -> bool {
        let is_wanted = self.wanted(index, flow).is_some();
        if is_wanted {
            self.forget(index);
            self.put_off(now, index);
        }
        is_wanted
    }

    /// Records that the peer does not know a number. True if it had acknowledged it.
    pub(super) fn forgotten(&mut self, index: FlowIndex) -> bool {
        self.known.remove(&index)
    }

    /// Records that the peer has forgotten a number. True if that was requested.
    pub(super) fn withdrawn(&mut self, index: FlowIndex) -> bool {
        let asked = self.in_flight.get(&index) == Some(&Request::Withdraw);
        if asked {
            self.in_flight.remove(&index);
            self.withdrawing.remove(&index);
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
        self.in_flight.clear();
    }

    pub(super) fn announced(&self) -> usize {
        self.announcing.len()
    }

    pub(super) fn acknowledged(&self) -> usize {
        self.known.len()
    }
}
