//! Queue of events for the session.
//!
//! Bounded: an event that finds no room is lost, and its source raises it again later. So nobody may rely on
//! an event unless [`Events::tell`] returned true.

use alloc::collections::VecDeque;

use crate::exchange::Event;

/// Most events in the queue.
const EVENTS: usize = 1024;

/// The waiting events.
#[derive(Debug)]
pub(crate) struct Events(VecDeque<Event>);

impl Events {
    pub(crate) fn new() -> Self {
        Self(VecDeque::with_capacity(EVENTS))
    }

    /// Queues an event. False if there is no room.
    #[must_use]
    pub(crate) fn tell(&mut self, event: Event) -> bool {
        let room = self.0.len() < EVENTS;
        if room {
            self.0.push_back(event);
        }
        room
    }

    pub(crate) fn poll(&mut self) -> Option<Event> {
        self.0.pop_front()
    }
}
