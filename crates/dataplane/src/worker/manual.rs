//! A worker without a thread: its owner takes the jobs and runs them, as a test does that holds the clock.

use std::io;

use super::{Datapaths, Job, MESSAGES, Mailbox, Waiter, WorkerEvent, WorkerHandle, mailbox, thread, wake};

/// The other end of a handle.
pub struct ManualWorker {
    mailbox: Mailbox<WorkerEvent, Box<dyn Job>>,
    // Kept, so that the handle finds somebody at its other end.
    _waiter: Waiter,
}

impl ManualWorker {
    /// The next job, if there is one.
    pub fn job(&mut self) -> Option<Box<dyn Job>> {
        self.mailbox.receive()
    }
}

impl WorkerHandle {
    /// A handle whose worker is the caller.
    ///
    /// # Errors
    /// If no socket pair can be had.
    pub fn manual() -> io::Result<(Self, ManualWorker)> {
        let (mailbox, workers_mailbox) = mailbox::pair(MESSAGES, MESSAGES);
        let (waker, waiter) = wake::pair()?;
        let held = ManualWorker { mailbox: workers_mailbox, _waiter: waiter };
        Ok((Self { mailbox, waker, thread: thread::spawn(Datapaths::default) }, held))
    }
}
