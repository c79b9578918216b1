//! A worker that is a test, which holds its clock.

use super::{Command, Consumer, Event, Producer, RING, RingBuffer, Waiter, WorkerHandle, thread, wake};

/// The other end of a handle.
pub(crate) struct Held {
    commands: Consumer<Command>,
    // Kept, so that the handle finds somebody at its other ends.
    _events: Producer<Event>,
    _waiter: Waiter,
}

impl Held {
    /// The next command, if there is one.
    pub(crate) fn command(&mut self) -> Option<Command> {
        self.commands.pop().ok()
    }
}

impl WorkerHandle {
    /// A handle whose worker is the caller.
    pub(crate) fn held() -> (Self, Held) {
        let (commands, command_ring) = RingBuffer::new(RING);
        let (event_ring, events) = RingBuffer::new(RING);
        let (waker, waiter) = wake::pair().expect("a socket pair");
        let held = Held { commands: command_ring, _events: event_ring, _waiter: waiter };
        (Self { commands, events, waker, thread: thread::spawn(Vec::new) }, held)
    }
}
