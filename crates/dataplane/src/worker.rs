//! A worker: one thread that owns its links and sites, with their ports and SAs, and shares nothing with other threads but
//! mailboxes. In that of control jobs come in and events go out, both between turns.
//!
//! ```text
//!  control ── jobs ──▶ worker ── turn, turn, turn … ── events ──▶ control
//! ```
//!
//! Because a worker owns its SAs, a PN is taken without an atomic and a nonce cannot be used by two threads; and
//! because tables change only between turns, no frame in flight meets a half-changed one.
//!
//! If links send at ticks ([`crate::cover`]), ticks come first: the frames of all links leave at the tick, then the turns follow.

mod polling;

use std::io;
use std::sync::mpsc;
use std::thread::{self, JoinHandle, Thread};
use std::time::{self, Duration};

use secy::NextAction;
use suite::{CipherSuite, Key, Sak};
use wire::Instant;

use netdev::scheduling::{RealTimeBudget, Scheduling, pin};
use netdev::wake::{self, Waiter, Waker};

use crate::job::{Datapath, Datapaths, Job, Progress};
use crate::link::Link;
use crate::mailbox::{self, Mailbox};
pub use polling::{IdleAction, IdlePolicy, Polling, SPIN, TICK_LEAD};

/// The longest sleep. Nothing depends on it: frames and control wake the worker.
const SLEEP: Duration = Duration::from_millis(100);

/// Jobs or events that can wait. Control has a few jobs a link under way at the most.
const MESSAGES: usize = 1024;

/// Links and sites of a worker for which there is room from the start.
const USUAL_SLOTS: usize = 64;

/// An event for control.
pub enum WorkerEvent {
    /// A job has run; what it took out and what it found is in it.
    JobDone(Box<dyn Job>),
    /// The transmit SA of a link needs something else than before.
    Needs {
        /// The link's slot.
        slot: usize,
        /// Its need.
        action: NextAction,
    },
}

/// Control's hold on a worker.
pub struct WorkerHandle {
    mailbox: Mailbox<Box<dyn Job>, WorkerEvent>,
    waker: Waker,
    /// Returns links and sites, so that they are closed where time does not matter.
    thread: JoinHandle<Datapaths>,
}

impl WorkerHandle {
    /// Starts a worker without links and sites. `control_thread` is woken when a job is done, and for those EAPOL frames
    /// that should not wait for its next turn.
    ///
    /// # Errors
    /// If the thread cannot be started, or not be scheduled so, or not run on `cpu` alone.
    pub fn start(
        name: String,
        polling: Polling,
        scheduling: Scheduling,
        cpu: Option<usize>,
        control_thread: Thread,
    ) -> io::Result<Self> {
        let (mailbox, workers_mailbox) = mailbox::pair(MESSAGES, MESSAGES);
        let (waker, waiter) = wake::pair()?;
        let worker = Worker {
            datapaths: Datapaths::with_room(USUAL_SLOTS),
            mailbox: workers_mailbox,
            unfinished: None,
            waiter,
            idle: IdlePolicy::new(polling, scheduling),
            real_time: RealTimeBudget::new(scheduling, time::Instant::now()),
            control_thread,
            antedated: 0,
        };
        let (started, result) = mpsc::sync_channel(1);
        let thread = thread::Builder::new().name(name).spawn(move || {
            let placed = cpu.map_or(Ok(()), pin).and_then(|()| scheduling.apply());
            let runs = placed.is_ok();
            // Whoever starts it waits for the word.
            let _ = started.send(placed);
            if runs { worker.run() } else { Datapaths::default() }
        })?;
        let ended = |_| Err(io::Error::other("the thread has ended"));
        result.recv().unwrap_or_else(ended)?;
        Ok(Self { mailbox, waker, thread })
    }

    /// Has the worker run a job. It comes back as a [`WorkerEvent::JobDone`].
    ///
    /// # Errors
    /// The job, if there is no room: the worker is stuck or gone.
    pub fn submit<J: Job>(&mut self, job: Box<J>) -> Result<(), Box<J>> {
        if !self.mailbox.has_room() {
            return Err(job);
        }
        self.mailbox.send(job);
        self.waker.wake();
        Ok(())
    }

    /// Wakes the worker: there is something in a mailbox of one of its links.
    pub fn wake(&self) {
        self.waker.wake();
    }

    /// The next event, if there is one.
    pub fn event(&mut self) -> Option<WorkerEvent> {
        self.mailbox.receive()
    }

    /// False once the thread has ended.
    pub fn is_alive(&self) -> bool {
        !self.thread.is_finished()
    }

    /// Stops the worker after the jobs that it has, and returns its links and sites; none if it ended badly.
    pub fn stop(self) -> Datapaths {
        let Self { mailbox, waker, thread } = self;
        // A worker to which nobody can give jobs ends.
        drop(mailbox);
        waker.wake();
        thread.join().unwrap_or_default()
    }
}

struct Worker {
    datapaths: Datapaths,
    mailbox: Mailbox<WorkerEvent, Box<dyn Job>>,
    /// The job that goes on after the next turn; the others wait for it.
    unfinished: Option<Box<dyn Job>>,
    waiter: Waiter,
    idle: IdlePolicy,
    real_time: RealTimeBudget,
    control_thread: Thread,
    /// The slot for which a keystream was made last.
    antedated: usize,
}

impl Worker {
    fn run(mut self) -> Datapaths {
        // The cipher library makes room for its error queue when a thread first refuses a frame, and preparing a key
        // rehearses that: done here, no frame has to wait for an allocation.
        if let Ok(sak) = Sak::new(CipherSuite::GcmAes128, &[0; 16]) {
            drop(Key::prepare(CipherSuite::GcmAes128, &sak));
        }
        let start = time::Instant::now();
        let clock = || {
            let read = time::Instant::now();
            (Instant::after_start(read.saturating_duration_since(start)), read)
        };
        while self.process_jobs() {
            let (now, read) = await_tick(self.next_tick(), clock);
            match self.step(now, read) {
                None => {}
                Some(IdleAction::Look) => std::hint::spin_loop(),
                Some(IdleAction::Yield) => {
                    // While it goes first, an offer is one to nobody.
                    self.real_time.demote(read);
                    self.idle.yields(time::Instant::now());
                    thread::yield_now();
                }
                Some(IdleAction::Sleep) => {
                    self.real_time.sleep(read);
                    self.waiter.wait(self.sleep(now));
                    self.real_time.woke(time::Instant::now());
                    self.silence();
                    self.idle.slept();
                }
            }
        }
        self.datapaths
    }

    /// Ticks that are due, and a turn. What next, if there was nothing to do?
    fn step(&mut self, now: Instant, read: time::Instant) -> Option<IdleAction> {
        self.send_ticks(now);
        self.idle.begin(read);
        self.real_time.begin(read);
        let frames = self.turn(now, read) > 0;
        if frames || self.unfinished.is_some() || !self.mailbox.is_empty() {
            self.idle.busy(frames);
            return None;
        }
        // However it polls: until all is made, one keystream a turn, so that a frame waits for no more than one.
        if self.antedate() {
            return None;
        }
        Some(if self.next_tick().is_some() { self.idle.idle_between_ticks() } else { self.idle.idle(read) })
    }

    /// Time until something is due, or a tick is near.
    fn sleep(&self, now: Instant) -> Duration {
        let due = self.datapaths.iter().filter_map(|datapath| match datapath {
            Datapath::Link(link) => link.due(),
            Datapath::Site(site) => site.due(),
        });
        let tick = self.next_tick().map(|tick| tick.since(now).saturating_sub(TICK_LEAD));
        due.map(|due| due.since(now)).chain(tick).fold(SLEEP, Duration::min)
    }

    /// Moment of the next tick of a link, if some have cover.
    fn next_tick(&self) -> Option<Instant> {
        let of = |datapath: &Datapath| match datapath {
            Datapath::Link(link) => link.next_tick(),
            // No site has cover.
            Datapath::Site(_) => None,
        };
        self.datapaths.iter().filter_map(of).min()
    }

    /// Silences the sites' bells that rang.
    fn silence(&self) {
        for datapath in self.datapaths.iter() {
            if let Datapath::Site(site) = datapath
                && self.waiter.was_readable(site.bell())
            {
                site.woken();
            }
        }
    }

    /// Makes one keystream for the next link that wants one. False if none does.
    fn antedate(&mut self) -> bool {
        let slots = self.datapaths.slots();
        for _ in 0..slots {
            self.antedated = (self.antedated + 1) % slots;
            if self.datapaths.link(self.antedated).is_some_and(Link::antedate) {
                return true;
            }
        }
        false
    }

    /// Sends the frames of all ticks that are due, before any link has its turn: no tick waits for what came to another link.
    fn send_ticks(&mut self, now: Instant) {
        if self.next_tick().is_none_or(|tick| now < tick) {
            return;
        }
        for (slot, datapath) in self.datapaths.iter_mut() {
            if let Datapath::Link(link) = datapath {
                let action = link.send_ticks(now);
                tell_need(&mut self.mailbox, slot, link, action);
            }
        }
    }

    /// One turn of each link and site. Returns how many frames came in.
    fn turn(&mut self, now: Instant, read: time::Instant) -> usize {
        let mut received = 0;
        for (slot, datapath) in self.datapaths.iter_mut() {
            let (frames, action) = match datapath {
                Datapath::Link(link) => link.turn(now, read),
                Datapath::Site(site) => site.turn(now, read),
            };
            received += frames;
            let Some(link) = datapath.link_mut() else { continue };
            link.pipeline_mut().handle_cell_timeout(now);
            if link.pipeline_mut().take_wake_flag() {
                self.control_thread.unpark();
            }
            tell_need(&mut self.mailbox, slot, link, action);
        }
        received
    }

    /// Runs jobs until frames should have a turn. False when the worker is to end: nobody could give it a job any more.
    ///
    /// Afterwards what ciphers left of keys on this thread's stack is overwritten, for keys may have gone: a few microseconds.
    fn process_jobs(&mut self) -> bool {
        let mut ran = false;
        while let Some(mut job) = self.unfinished.take().or_else(|| self.mailbox.receive()) {
            ran = true;
            let progress = job.run(&mut self.datapaths);
            if progress == Progress::Unfinished {
                self.unfinished = Some(job);
                break;
            }
            // Without room the job is lost, and what it holds is let go of; control gives up.
            self.mailbox.send(WorkerEvent::JobDone(job));
            if progress == Progress::DoneForThisTurn {
                break;
            }
        }
        if ran {
            suite::scrub_stack();
            self.watch();
            self.control_thread.unpark();
        }
        // In this order: what was given before the end is seen.
        !(self.mailbox.is_abandoned() && self.mailbox.is_empty() && self.unfinished.is_none())
    }

    /// Waits for the ports that there are now.
    fn watch(&mut self) {
        self.waiter.clear();
        for datapath in self.datapaths.iter() {
            match datapath {
                Datapath::Link(link) => self.waiter.watch(link.poll_descriptors()),
                Datapath::Site(site) => self.waiter.watch(site.poll_descriptors()),
            }
        }
    }
}

/// The moment of the next turn: now, or that of a tick that is near. It is waited for and nothing else done, for what comes meanwhile must not show in
/// the moment at which its frame leaves.
fn await_tick(
    tick: Option<Instant>,
    clock: impl Fn() -> (Instant, time::Instant),
) -> (Instant, time::Instant) {
    let mut moment = clock();
    let near = tick.filter(|tick| tick.since(moment.0) <= TICK_LEAD);
    while near.is_some_and(|tick| moment.0 < tick) {
        std::hint::spin_loop();
        moment = clock();
    }
    moment
}

/// Tells control of a link's need, if it is another one than before.
fn tell_need(
    mailbox: &mut Mailbox<WorkerEvent, Box<dyn Job>>,
    slot: usize,
    link: &mut Link,
    action: NextAction,
) {
    // No room is not an error: the same need is told again at the next burst.
    if link.is_new_need(action) && mailbox.send(WorkerEvent::Needs { slot, action }) {
        link.mark_need_notified(action);
    }
}

/// A worker without a thread: its owner takes the jobs and runs them, as a test does that holds the clock.
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

#[cfg(test)]
mod tests;
