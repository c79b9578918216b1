//! The loop of a worker.

use loom::sync::atomic::{AtomicU64, Ordering};

use crate::mailbox::Mailbox;
use crate::socket::Socket;

/// A job that fills a snapshot, in a number of turns.
pub struct Job {
    /// The figures, without any order of their own: who reads them before they are handed over may read old ones.
    pub figures: AtomicU64,
    /// Turns that are still needed.
    pub turns: u64,
}

/// What a worker has in hand.
pub struct Worker {
    /// Jobs in, events out.
    pub mailbox: Mailbox<Box<Job>, Box<Job>>,
    /// That of a link: EAPOL frames in both directions.
    pub frames: Mailbox<u64, u64>,
    /// Where it sleeps.
    pub waiter: Socket,
    /// Woken when a job is done, or a frame came.
    pub control: Socket,
    /// The job that goes on after the next turn.
    pub unfinished: Option<Box<Job>>,
    /// Jobs and frames that control has given it.
    pub taken: u64,
}

impl Job {
    /// True when it is done.
    fn run(&mut self) -> bool {
        self.figures.fetch_add(1, Ordering::Relaxed);
        self.turns -= 1;
        self.turns == 0
    }
}

impl Worker {
    /// Until nobody can give it a job any more. Returns how many jobs and frames control has given it.
    pub fn run(mut self) -> u64 {
        while self.process_jobs() {
            self.turn();
            if self.unfinished.is_some() || !self.mailbox.is_empty() {
                continue;
            }
            self.waiter.wait();
        }
        self.taken
    }

    /// Each frame is answered.
    fn turn(&mut self) {
        while let Some(frame) = self.frames.receive() {
            self.taken += 1;
            self.frames.send(frame);
        }
        if self.frames.take_wake_flag() {
            self.control.wake();
        }
    }

    fn process_jobs(&mut self) -> bool {
        let mut ran = false;
        while let Some(mut job) = self.unfinished.take().or_else(|| self.mailbox.receive()) {
            ran = true;
            if !job.run() {
                self.unfinished = Some(job);
                break;
            }
            self.taken += 1;
            self.mailbox.send(job);
        }
        if ran {
            self.control.wake();
        }
        !(self.mailbox.is_abandoned() && self.mailbox.is_empty() && self.unfinished.is_none())
    }
}
