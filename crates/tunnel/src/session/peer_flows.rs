//! Flows of the peer. The forwarding half has them; here are only their numbers, and the answers that the peer waits for.

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use core::time::Duration;

use wire::Instant;
use wire::tunnel::FlowIndex;

use super::{IN_FLIGHT, PeerFault};
use crate::message::Message;

/// Requests of the peer that may wait for an answer here. It has at most [`IN_FLIGHT`] under way.
const UNANSWERED: usize = 4 * IN_FLIGHT;

/// A forwarding half that has not answered for one to two of these has lost its answer: it had too much to say.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(1);

#[derive(Default, Debug)]
pub(super) struct PeerFlows {
    /// What the forwarding half is asked.
    asked: BTreeMap<FlowIndex, PendingRequest>,
    /// When patience is looked at next.
    answer_timeout: Option<Instant>,
    /// The forwarding half knows them.
    accepted: BTreeSet<FlowIndex>,
    replies: VecDeque<Message>,
}

#[derive(Debug)]
struct PendingRequest {
    /// The peer asked on this connection: it waits for an answer.
    awaited: bool,
    /// The forwarding half had its time.
    late: bool,
}

impl PeerFlows {
    /// The peer announces a flow.
    pub(super) fn announce(&mut self, now: Instant, index: FlowIndex) -> Result<(), PeerFault> {
        self.bound()?;
        self.asked.insert(index, PendingRequest { awaited: true, late: false });
        self.answer_timeout.get_or_insert(now + ANSWER_TIMEOUT);
        Ok(())
    }

    /// The peer withdraws a flow. If the forwarding half has not answered yet, its answer does not matter any longer.
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

    /// The forwarding half has answered.
    pub(super) fn answer(&mut self, index: FlowIndex, accepted: bool) {
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

    /// What was not answered in time counts as refused: the peer announces it again.
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

    /// When [`PeerFlows::handle_timeout`] has something to do.
    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        self.answer_timeout
    }

    pub(super) fn poll_reply(&mut self) -> Option<Message> {
        self.replies.pop_front()
    }

    /// The peer asks again on the next connection what it has no answer to.
    pub(super) fn disconnected(&mut self) {
        self.asked.values_mut().for_each(|asked| asked.awaited = false);
        self.replies.clear();
    }

    pub(super) fn accepted(&self) -> usize {
        self.accepted.len()
    }
}
