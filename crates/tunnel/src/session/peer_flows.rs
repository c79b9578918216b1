//! Flows of the peer. The forwarding half has them; here are only their numbers, and the answers that the peer waits for.

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};

use wire::tunnel::FlowIndex;

use super::{IN_FLIGHT, PeerFault};
use crate::message::Message;

/// Requests of the peer that may wait for an answer here. It has at most [`IN_FLIGHT`] under way.
const UNANSWERED: usize = 4 * IN_FLIGHT;

#[derive(Default, Debug)]
pub(super) struct PeerFlows {
    /// The forwarding half is asked: how many answers the peer waits for on this connection. None if the connection on
    /// which it asked is gone.
    asked: BTreeMap<FlowIndex, usize>,
    /// The forwarding half knows them.
    accepted: BTreeSet<FlowIndex>,
    /// In the order of the answers. Every request has exactly one.
    replies: VecDeque<Message>,
    /// Requests on this connection that the peer was not sent an answer to.
    unanswered: usize,
}

impl PeerFlows {
    /// The peer announces a flow.
    pub(super) fn announce(&mut self, index: FlowIndex) -> Result<(), PeerFault> {
        self.count_request()?;
        *self.asked.entry(index).or_default() += 1;
        Ok(())
    }

    /// The peer withdraws a flow. If the forwarding half has not answered yet, its answer does not matter any longer.
    pub(super) fn withdraw(&mut self, index: FlowIndex) -> Result<(), PeerFault> {
        self.count_request()?;
        self.accepted.remove(&index);
        for _ in 0..self.asked.remove(&index).unwrap_or(0) {
            self.replies.push_back(Message::Refused { index });
        }
        self.replies.push_back(Message::Withdrawn { index });
        Ok(())
    }

    fn count_request(&mut self) -> Result<(), PeerFault> {
        if self.unanswered >= UNANSWERED {
            return Err(PeerFault::Flood);
        }
        self.unanswered += 1;
        Ok(())
    }

    /// The forwarding half has answered.
    pub(super) fn answer(&mut self, index: FlowIndex, accepted: bool) {
        let Some(waited_for) = self.asked.remove(&index) else { return };
        if accepted {
            self.accepted.insert(index);
        } else {
            self.accepted.remove(&index);
        }
        for _ in 0..waited_for {
            let reply = if accepted { Message::Announced { index } } else { Message::Refused { index } };
            self.replies.push_back(reply);
        }
    }

    pub(super) fn poll_reply(&mut self) -> Option<Message> {
        let reply = self.replies.pop_front()?;
        self.unanswered -= 1;
        Some(reply)
    }

    /// The peer asks again on the next connection what it has no answer to.
    pub(super) fn disconnected(&mut self) {
        self.asked.values_mut().for_each(|waited_for| *waited_for = 0);
        self.replies.clear();
        self.unanswered = 0;
    }

    pub(super) fn accepted(&self) -> usize {
        self.accepted.len()
    }
}
