//! A mailbox: one end of the two wait-free rings between a worker and another thread.
//!
//! ```text
//!  worker: Mailbox<Out, In> ── Out ──▶ Mailbox<In, Out>: control, KaY, or a site's manager
//!                           ◀── In ───
//! ```
//!
//! Both rings are bounded, and nothing here allocates, locks or wakes. A sender that finds no room drops the message or keeps
//! it, as the sender's module says. Each end is told with [`Mailbox::take_wake_flag`] that the other one is to be woken; how
//! that is done is known where the threads are.

use rtrb::{Consumer, Producer, RingBuffer};

/// One end: sends `Out`, receives `In`.
#[derive(Debug)]
pub struct Mailbox<Out, In> {
    tx: Producer<Out>,
    rx: Consumer<In>,
    wake: bool,
}

/// Both ends. So many messages wait for the other end, and so many for this one.
pub fn pair<Out, In>(outgoing: usize, incoming: usize) -> (Mailbox<Out, In>, Mailbox<In, Out>) {
    let (tx, other_rx) = RingBuffer::new(outgoing);
    let (other_tx, rx) = RingBuffer::new(incoming);
    (Mailbox { tx, rx, wake: false }, Mailbox { tx: other_tx, rx: other_rx, wake: false })
}

impl<Out, In> Mailbox<Out, In> {
    /// Sends a message, for which the other end is to be woken. False if there is no room; the message is then dropped.
    pub fn send(&mut self, message: Out) -> bool {
        let sent = self.send_without_waking(message);
        self.wake |= sent;
        sent
    }

    /// Sends a message that can wait for the other end's next turn.
    pub fn send_without_waking(&mut self, message: Out) -> bool {
        self.tx.push(message).is_ok()
    }

    /// Whether a message can be sent.
    pub fn has_room(&self) -> bool {
        !self.tx.is_full()
    }

    /// The next message.
    pub fn receive(&mut self) -> Option<In> {
        self.rx.pop().ok()
    }

    /// Number of messages that wait here.
    pub fn waiting(&self) -> usize {
        self.rx.slots()
    }

    /// Whether no message waits here.
    pub fn is_empty(&self) -> bool {
        self.rx.is_empty()
    }

    /// Whether the other end is gone. Messages of it may still wait.
    pub fn is_abandoned(&self) -> bool {
        self.rx.is_abandoned()
    }

    /// Whether the other end is to be woken for what was sent since this was asked last.
    pub const fn take_wake_flag(&mut self) -> bool {
        std::mem::replace(&mut self.wake, false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_arrives_once_and_one_without_room_is_dropped() {
        let (mut worker, mut control) = pair::<u8, char>(2, 1);
        assert_eq!([1, 2, 3].map(|number| worker.send(number)), [true, true, false]);
        assert!(!worker.has_room() && control.waiting() == 2 && control.has_room());
        assert_eq!([control.receive(), control.receive(), control.receive()], [Some(1), Some(2), None]);
        assert!(control.send('a') && !control.send('b') && !worker.is_empty());
        drop(control);
        assert!(worker.is_abandoned());
        assert_eq!((worker.receive(), worker.receive()), (Some('a'), None));
    }

    #[test]
    fn the_other_end_is_woken_once_for_what_was_sent_and_cannot_wait() {
        let (mut worker, _control) = pair::<u8, u8>(2, 0);
        assert!(worker.send_without_waking(1) && !worker.take_wake_flag());
        assert!(worker.send(2) && worker.take_wake_flag() && !worker.take_wake_flag());
        assert!(!worker.send(3) && !worker.take_wake_flag(), "no room");
    }
}
