//! Control's hold on a worker.

use loom::sync::atomic::{AtomicU64, Ordering};
use loom::thread::{self, JoinHandle};

use crate::mailbox::{self, Mailbox};
use crate::socket::Socket;
use crate::worker::{Job, Worker};

/// A running worker.
pub struct Control {
    mailbox: Mailbox<Box<Job>, Box<Job>>,
    frames: Mailbox<u64, u64>,
    waker: Socket,
    parked: Socket,
    thread: JoinHandle<u64>,
}

impl Control {
    /// Starts a worker. Mailboxes have room for so many messages each way.
    pub fn start(room: usize) -> Self {
        let (mailbox, workers) = mailbox::pair(room, room);
        let (frames, links) = mailbox::pair(room, room);
        let (waker, parked) = (Socket::default(), Socket::default());
        let worker = Worker {
            mailbox: workers,
            frames: links,
            waiter: waker.clone(),
            control: parked.clone(),
            unfinished: None,
            taken: 0,
        };
        Self { mailbox, frames, waker, parked, thread: thread::spawn(move || worker.run()) }
    }

    /// Gives a snapshot to be filled in so many turns. False without room.
    pub fn submit(&mut self, turns: u64) -> bool {
        if !self.mailbox.has_room() {
            return false;
        }
        let sent = self.mailbox.send(Box::new(Job { figures: AtomicU64::new(0), turns }));
        self.waker.wake();
        sent
    }

    /// Gives a frame to a link. False without room.
    pub fn send(&mut self, frame: u64) -> bool {
        let sent = self.frames.send(frame);
        if self.frames.take_wake_flag() {
            self.waker.wake();
        }
        sent
    }

    /// Sleeps until so many snapshots are back, and returns the sum of their figures.
    pub fn await_jobs(&mut self, count: u64) -> u64 {
        let (mut back, mut figures) = (0, 0);
        loop {
            while let Some(job) = self.mailbox.receive() {
                back += 1;
                figures += job.figures.load(Ordering::Relaxed);
            }
            if back == count {
                return figures;
            }
            self.parked.wait();
        }
    }

    /// Sleeps until so many frames are answered: each once, and in order.
    pub fn await_frames(&mut self, count: u64) {
        let mut last = 0;
        while last < count {
            while let Some(frame) = self.frames.receive() {
                assert_eq!(frame, last + 1);
                last = frame;
            }
            if last < count {
                self.parked.wait();
            }
        }
    }

    /// Stops the worker after the jobs that it has. Returns how many jobs and frames it took.
    pub fn stop(self) -> u64 {
        let Self { mailbox, frames: _frames, waker, thread, .. } = self;
        drop(mailbox);
        waker.wake();
        thread.join().unwrap()
    }
}
