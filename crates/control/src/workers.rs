//! The workers of a gateway: which there are, which slots of theirs are free, and the wait for jobs.
//!
//! Events that come while a job is waited for are held in their order, for whoever waited ([`Workers::held_event`]).

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use dataplane::job::{Datapaths, Job, Progress};
use dataplane::link::Link;
use dataplane::site::Site;
use dataplane::worker::{Polling, WorkerEvent, WorkerHandle};
use netdev::scheduling::Scheduling;

use crate::jobs::{LinkJob, SiteJob, of_kind};
use crate::{WorkerUnresponsive, cpus};

/// Limit on a worker's time for a job: some hundred turns.
const ANSWER_WAIT: Duration = Duration::from_secs(1);
/// Interval between looks for an answer.
const LOOK_PERIOD: Duration = Duration::from_micros(200);

/// A slot of a worker: the place of a link or site.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct WorkerSlot {
    pub(crate) worker: usize,
    /// In the worker.
    pub(crate) slot: usize,
}

/// The workers of a gateway.
pub(crate) struct Workers {
    handles: Vec<WorkerHandle>,
    /// The thread that workers wake.
    control_thread: Thread,
    polling: Polling,
    scheduling: Scheduling,
    /// CPUs that are kept for workers, one for each; empty: they run anywhere.
    cpus: Vec<usize>,
    /// Events that came while a job was waited for.
    held: VecDeque<(usize, WorkerEvent)>,
}

impl Workers {
    /// None so far. Those to come wake the calling thread.
    pub(crate) fn new(polling: Polling, scheduling: Scheduling) -> Self {
        let control_thread = thread::current();
        let (handles, cpus, held) = (Vec::new(), Vec::new(), VecDeque::new());
        Self { handles, control_thread, polling, scheduling, cpus, held }
    }

    /// Has those to come run on these CPUs, each on one of its own. Empty: anywhere.
    pub(crate) fn keep_to_cpus(&mut self, cpus: Vec<usize>) {
        self.cpus = cpus;
    }

    /// Starts those that so many links and sites will go to.
    pub(crate) fn start(&mut self, datapaths: usize) -> io::Result<()> {
        while self.handles.len() < datapaths.min(self.most()) {
            self.start_one()?;
        }
        Ok(())
    }

    /// Workers under real-time scheduling leave a CPU free, if none are kept for them.
    fn most(&self) -> usize {
        match self.scheduling {
            _ if !self.cpus.is_empty() => self.cpus.len(),
            Scheduling::Ordinary => cpus(),
            Scheduling::Fifo(_) => cpus().saturating_sub(1).max(1),
        }
    }

    fn start_one(&mut self) -> io::Result<()> {
        let (name, control_thread) =
            (format!("fw-worker-{}", self.handles.len()), self.control_thread.clone());
        let cpu = self.cpus.get(self.handles.len()).copied();
        self.handles.push(WorkerHandle::start(name, self.polling, self.scheduling, cpu, control_thread)?);
        Ok(())
    }

    /// A slot that is not taken, of a worker that has none, or of the one with the fewest. A worker is started if need be.
    pub(crate) fn free_slot(&mut self, taken: &[WorkerSlot]) -> io::Result<WorkerSlot> {
        let taken_of = |worker| taken.iter().filter(|at| at.worker == worker).count();
        let fewest = (0..self.handles.len()).map(|worker| (taken_of(worker), worker)).min();
        let worker = match fewest {
            Some((taken, worker)) if taken == 0 || self.handles.len() >= self.most() => worker,
            _ => {
                self.start_one()?;
                self.handles.len() - 1
            }
        };
        let slot = (0..).find(|slot| !taken.contains(&WorkerSlot { worker, slot: *slot })).unwrap_or(0);
        Ok(WorkerSlot { worker, slot })
    }

    /// Starts the further worker of a site, beside those of `others` sites: on the last CPU that is kept for workers and not for theirs, unless that is the first one.
    pub(crate) fn start_sending(&self, name: &str, site: &mut Site, others: usize) -> io::Result<()> {
        let at = self.cpus.len().checked_sub(others + 1).filter(|at| *at > 0);
        let cpu = at.and_then(|at| self.cpus.get(at).copied());
        // A thread's name has 15 octets.
        let name: String = format!("fw-send-{name}").chars().take(15).collect();
        site.start_sending(name, self.polling, self.scheduling, cpu)
    }

    pub(crate) const fn count(&self) -> usize {
        self.handles.len()
    }

    pub(crate) fn handle_mut(&mut self, worker: usize) -> &mut WorkerHandle {
        &mut self.handles[worker]
    }

    pub(crate) fn is_alive(&self, worker: usize) -> bool {
        self.handles[worker].is_alive()
    }

    /// Stops them one after the other, and hands out what each had.
    pub(crate) fn stop(&mut self) -> impl Iterator<Item = Datapaths> + use<> {
        std::mem::take(&mut self.handles).into_iter().map(WorkerHandle::stop)
    }

    /// Has a worker run a job, without waiting for it.
    ///
    /// # Errors
    /// The job, if there is no room: the worker is stuck or gone.
    pub(crate) fn submit<J: Job>(&mut self, worker: usize, job: Box<J>) -> Result<(), Box<J>> {
        self.handles[worker].submit(job)
    }

    /// An event of a worker.
    pub(crate) fn event(&mut self, worker: usize) -> Option<WorkerEvent> {
        self.handles[worker].event()
    }

    /// The next event that came while a job was waited for, and its worker.
    pub(crate) fn held_event(&mut self) -> Option<(usize, WorkerEvent)> {
        self.held.pop_front()
    }

    /// Has a worker run a job and waits for it; holds events that come before.
    pub(crate) fn run<J: Job>(&mut self, worker: usize, job: Box<J>) -> Result<Box<J>, WorkerUnresponsive> {
        // A job that was given up earlier may come back now: this one is known by its address.
        let address: *const J = &*job;
        self.submit(worker, job).map_err(|_| WorkerUnresponsive)?;
        let give_up = Instant::now() + ANSWER_WAIT;
        loop {
            // Asked before the mailbox is read: events from before the worker's end are not lost.
            let alive = self.is_alive(worker);
            while let Some(event) = self.event(worker) {
                let event = match event {
                    WorkerEvent::JobDone(job) => match of_kind::<J>(job) {
                        Ok(job) if std::ptr::eq(&*job, address) => return Ok(job),
                        Ok(other) => WorkerEvent::JobDone(other),
                        Err(other) => WorkerEvent::JobDone(other),
                    },
                    other => other,
                };
                self.held.push_back((worker, event));
            }
            if !alive || Instant::now() >= give_up {
                return Err(WorkerUnresponsive);
            }
            thread::sleep(LOOK_PERIOD);
        }
    }

    /// Runs a function on a link, in its worker. Returns its data.
    pub(crate) fn run_on_link<D: Send + 'static>(
        &mut self,
        at: WorkerSlot,
        data: D,
        run: fn(&mut Link, &mut D) -> Progress,
    ) -> Result<D, WorkerUnresponsive> {
        let job = *self.run(at.worker, LinkJob::new(at.slot, data, run))?;
        if job.found { Ok(job.data) } else { Err(WorkerUnresponsive) }
    }

    /// The same on a site.
    pub(crate) fn run_on_site<D: Send + 'static>(
        &mut self,
        at: WorkerSlot,
        data: D,
        run: fn(&mut Site, &mut D) -> Progress,
    ) -> Result<D, WorkerUnresponsive> {
        let job = *self.run(at.worker, SiteJob::new(at.slot, data, run))?;
        if job.found { Ok(job.data) } else { Err(WorkerUnresponsive) }
    }

    /// Waits for a number of jobs of a kind; holds events that come beside them.
    pub(crate) fn gather<J: Job>(
        &mut self,
        count: usize,
        slot: impl Fn(&J) -> usize,
    ) -> BTreeMap<WorkerSlot, Box<J>> {
        let mut jobs = BTreeMap::new();
        let give_up = Instant::now() + ANSWER_WAIT;
        while jobs.len() < count && Instant::now() < give_up {
            for worker in 0..self.count() {
                while let Some(event) = self.event(worker) {
                    let event = match event {
                        WorkerEvent::JobDone(job) => match of_kind::<J>(job) {
                            Ok(job) => {
                                jobs.insert(WorkerSlot { worker, slot: slot(&job) }, job);
                                continue;
                            }
                            Err(other) => WorkerEvent::JobDone(other),
                        },
                        other => other,
                    };
                    self.held.push_back((worker, event));
                }
            }
            if !self.handles.iter().any(WorkerHandle::is_alive) {
                break;
            }
            thread::sleep(LOOK_PERIOD);
        }
        jobs
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::jobs::SwapDatapath;

    fn link_job(slot: usize) -> Box<LinkJob<usize>> {
        LinkJob::new(slot, slot, |_, _| Progress::Done)
    }

    /// Events that come while a job is waited for, jobs of its kind too, are handled in their order by the caller that waited.
    #[test]
    fn jobs_that_come_back_beside_the_one_that_is_waited_for_are_held() {
        let mut workers = Workers::new(Polling::Interrupt, Scheduling::Ordinary);
        workers.start(1).unwrap();
        [1, 2].into_iter().for_each(|slot| assert!(workers.submit(0, link_job(slot)).is_ok()));
        assert_eq!(workers.run(0, link_job(3)).unwrap().slot, 3);
        let swap = || Box::new(SwapDatapath { slot: 4, datapath: None });
        assert!(workers.submit(0, swap()).is_ok());
        assert!(workers.submit(0, link_job(5)).is_ok());
        let gathered = workers.gather(1, |job: &LinkJob<usize>| job.slot);
        assert_eq!(gathered.into_keys().collect::<Vec<_>>(), [WorkerSlot { worker: 0, slot: 5 }]);
        let held: Vec<_> = std::iter::from_fn(|| workers.held_event()).collect();
        let [
            (0, WorkerEvent::JobDone(first)),
            (0, WorkerEvent::JobDone(second)),
            (0, WorkerEvent::JobDone(third)),
        ] = <[_; 3]>::try_from(held).ok().unwrap()
        else {
            panic!("three jobs of worker 0")
        };
        let slot = |job| of_kind::<LinkJob<usize>>(job).ok().unwrap().slot;
        assert_eq!([slot(first), slot(second)], [1, 2]);
        assert_eq!(of_kind::<SwapDatapath>(third).ok().unwrap().slot, 4);
        assert_eq!(workers.stop().count(), 1);
    }
}
