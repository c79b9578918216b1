//! Events of a KaY for its SecY and for operators, until they are fetched.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use wire::Instant;

use crate::event::Event;
use crate::reason::Reason;

/// Recent changes that `status` shows.
const CHANGES: usize = 32;
/// Most events in the queue when a notice is added. Requests to the SecY have no limit.
const MAX_EVENTS: usize = 256;

#[derive(Debug, Default)]
pub(crate) struct Outbox {
    events: VecDeque<Event>,
    changes: VecDeque<(Instant, Reason)>,
}

impl Outbox {
    pub(crate) fn event(&mut self, event: Event) {
        self.events.push_back(event);
    }

    pub(crate) fn notify(&mut self, now: Instant, reason: Reason) {
        if self.changes.len() == CHANGES {
            self.changes.pop_front();
        }
        self.changes.push_back((now, reason.clone()));
        if self.events.len() < MAX_EVENTS {
            self.events.push_back(Event::Notice(reason));
        }
    }

    pub(crate) fn poll(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    pub(crate) fn changes(&self) -> Vec<(Instant, Reason)> {
        self.changes.iter().cloned().collect()
    }
}
