//! What the managing half is to be told and has not taken yet.
//!
//! Bounded: what finds no room is not told, and whoever would have told it does so again later. So nobody may rely on
//! having told anything unless [`Events::tell`] said so.

use alloc::collections::VecDeque;

use crate::exchange::Event;

/// Events that can wait.
const EVENTS: usize = 1024;

/// The waiting events.
#[derive(Debug)]
pub(crate) struct Events(VecDeque<Event>);

impl Events {
    pub(crate) fn new() -> Self {
        Self(VecDeque::with_capacity(EVENTS))
    }

    /// False if there is no room.
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
