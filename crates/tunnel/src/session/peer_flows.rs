//! Flows of the peer: their numbers, and the answers that the peer waits for. The forwarding half has the
//! flows.

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use core::time::Duration;

use wire::Instant;
use wire::tunnel::FlowIndex;

use super::announcements::IN_FLIGHT;
use super::fault::PeerFault;
use crate::exchange::RequestId;
use crate::message::Message;

/// Most unanswered requests of the peer. It has at most [`IN_FLIGHT`] in flight.
const UNANSWERED: usize = 4 * IN_FLIGHT;

/// Answer timeout of the forwarding half. After one to two of these its answer was lost: it had too much to
/// report.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(1);

#[derive(Default, Debug)]
pub(super) struct PeerFlows {
    /// Requests to the forwarding half: the newest of each number.
    asked: BTreeMap<FlowIndex, PendingRequest>,
    newest: RequestId,
    /// Time of the next timeout check.
    answer_timeout: Option<Instant>,
    /// Known to the forwarding half.
    accepted: BTreeSet<FlowIndex>,
    replies: VecDeque<Message>,
}

#[derive(Debug)]
struct PendingRequest {
    request: RequestId,
    /// True if the peer asked on this connection and waits for an answer.
    awaited: bool,
    /// True if one timeout check has passed.
    late: bool,
}

impl PeerFlows {
    /// Handles the announcement of a flow. Returns the request to the forwarding half.
    pub(super) fn announce(&mut self, now: Instant, index: FlowIndex) -> Result<RequestId, PeerFault> {
        self.bound()?;
        let request = self.newest.take();
        self.asked.insert(index, PendingRequest { request, awaited: true, late: false });
        self.answer_timeout.get_or_insert(now + ANSWER_TIMEOUT);
        Ok(request)
    }

    /// Handles the withdrawal of a flow. A pending answer of the forwarding half no longer matters.
    pub(super) fn withdraw(&mut self, index: FlowIndex) -> Result<(), PeerFault> {
        self.bound()?;
        self.accepted.remove(&index);
        self.asked.remove(&index);
        self.replies.push_back(Message::Withdrawn { index });
        Ok(())
    }

    fn bound(&self) -> Result<(), PeerFault> {
        if self.asked.len() + self.replies.len() < UNANSWERED { Ok(()) } else { Err(PeerFault::Flood) }
    }

    /// Handles an answer of the forwarding half. One to an earlier request may be about another flow, and does not count.
    pub(super) fn handle_answer(&mut self, index: FlowIndex, request: RequestId, accepted: bool) {
        if self.asked.get(&index).is_some_and(|asked| asked.request == request) {
            self.answer(index, accepted);
        }
    }

    fn answer(&mut self, index: FlowIndex, accepted: bool) {
        let Some(PendingRequest { awaited, .. }) = self.asked.remove(&index) else { return };
        if accepted {
            self.accepted.insert(index);
        } else {
            self.accepted.remove(&index);
        }
        if awaited {
            let reply = if accepted { Message::Announced { index } } else { Message::Refused { index } };
            self.replies.push_back(reply);
        }
    }

    /// Treats late answers as refusals: the peer announces the flow again.
    pub(super) fn handle_timeout(&mut self, now: Instant) {
        if self.answer_timeout.is_none_or(|at| at > now) {
            return;
        }
        let late: BTreeSet<FlowIndex> =
            self.asked.iter().filter(|(_, asked)| asked.late).map(|(&index, _)| index).collect();
        late.into_iter().for_each(|index| self.answer(index, false));
        self.asked.values_mut().for_each(|asked| asked.late = true);
        self.answer_timeout = if self.asked.is_empty() { None } else { Some(now + ANSWER_TIMEOUT) };
    }

    /// Next time for [`PeerFlows::handle_timeout`].
    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        self.answer_timeout
    }

    pub(super) fn poll_reply(&mut self) -> Option<Message> {
        self.replies.pop_front()
    }

    /// Drops the replies: the peer asks again on the next connection.
    pub(super) fn disconnected(&mut self) {
        self.asked.values_mut().for_each(|asked| asked.awaited = false);
        self.replies.clear();
    }

    pub(super) fn accepted(&self) -> usize {
        self.accepted.len()
    }
}
