//! A worker without a thread: its owner takes the commands, as a test does that holds the clock.

use std::io;

use super::{Command, Consumer, Event, Producer, RING, RingBuffer, Waiter, WorkerHandle, thread, wake};

/// The other end of a handle.
pub struct Held {
    commands: Consumer<Command>,
    // Kept, so that the handle finds somebody at its other ends.
    _events: Producer<Event>,
    _waiter: Waiter,
}

impl Held {
    /// The next command, if there is one.
    pub fn command(&mut self) -> Option<Command> {
        self.commands.pop().ok()
    }
}

impl WorkerHandle {
    /// A handle whose worker is the caller.
    ///
    /// # Errors
    /// If no socket pair can be had.
    pub fn held() -> io::Result<(Self, Held)> {
        let (commands, command_ring) = RingBuffer::new(RING);
        let (event_ring, events) = RingBuffer::new(RING);
        let (waker, waiter) = wake::pair()?;
        let held = Held { commands: command_ring, _events: event_ring, _waiter: waiter };
        Ok((Self { commands, events, waker, thread: thread::spawn(Vec::new) }, held))
    }
}
