//! A worker without a thread: its owner takes the jobs and runs them, as a test does that holds the clock.

use std::io;

use super::{
    Consumer, Datapaths, Job, Producer, RING, RingBuffer, Waiter, WorkerEvent, WorkerHandle, thread, wake,
};

/// The other end of a handle.
pub struct ManualWorker {
    jobs: Consumer<Box<dyn Job>>,
    // Kept, so that the handle finds somebody at its other ends.
    _events: Producer<WorkerEvent>,
    _waiter: Waiter,
}

impl ManualWorker {
    /// The next job, if there is one.
    pub fn job(&mut self) -> Option<Box<dyn Job>> {
        self.jobs.pop().ok()
    }
}

impl WorkerHandle {
    /// A handle whose worker is the caller.
    ///
    /// # Errors
    /// If no socket pair can be had.
    pub fn manual() -> io::Result<(Self, ManualWorker)> {
        let (jobs, job_ring) = RingBuffer::new(RING);
        let (event_ring, events) = RingBuffer::new(RING);
        let (waker, waiter) = wake::pair()?;
        let held = ManualWorker { jobs: job_ring, _events: event_ring, _waiter: waiter };
        Ok((Self { jobs, events, waker, thread: thread::spawn(Datapaths::default) }, held))
    }
}
