//! The workers of a gateway: which there are, which slots of theirs are free, and the wait for jobs.
//!
//! Events that come until a job is done are held in their order, for whoever waited ([`Workers::held_event`]).

use std::collections::{BTreeSet, VecDeque};
use std::io;
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use dataplane::job::{Datapaths, Job, Progress};
use dataplane::link::Link;
use dataplane::site::Site;
use dataplane::worker::{Polling, WorkerEvent, WorkerHandle};
use netdev::scheduling::Scheduling;

use crate::jobs::{Decision, LinkJob, Present, SiteJob, of_kind};
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
    /// Those that did not answer when they were asked last.
    silent: BTreeSet<usize>,
}

impl Workers {
    /// None so far. Those to come wake the calling thread.
    pub(crate) fn new(polling: Polling, scheduling: Scheduling) -> Self {
        let control_thread = thread::current();
        let (handles, cpus, held, silent) = (Vec::new(), Vec::new(), VecDeque::new(), BTreeSet::new());
        Self { handles, control_thread, polling, scheduling, cpus, held, silent }
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

    /// Whether a worker has answered when it was asked last.
    pub(crate) fn has_answered(&self, worker: usize) -> bool {
        !self.silent.contains(&worker)
    }

    /// Asks every worker for nothing but an answer.
    ///
    /// # Errors
    /// [`WorkerUnresponsive`], if one does not answer.
    pub(crate) fn ask_all(&mut self) -> Result<(), WorkerUnresponsive> {
        let done = self.run_all((0..self.count()).map(|worker| (worker, Box::new(Present(worker)))));
        if done.iter().all(Option::is_some) { Ok(()) } else { Err(WorkerUnresponsive) }
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

    /// Has a worker run a job and waits for it; holds events that come before it is done.
    pub(crate) fn run<J: Job>(&mut self, worker: usize, job: Box<J>) -> Result<Box<J>, WorkerUnresponsive> {
        self.run_all([(worker, job)]).pop().flatten().ok_or(WorkerUnresponsive)
    }

    /// Has workers run jobs, and waits for all of them together: for as long as for a single one. Returns them in their order, none of those
    /// that do not come back; holds events that come before the last one is done.
    pub(crate) fn run_all<J: Job>(
        &mut self,
        jobs: impl IntoIterator<Item = (usize, Box<J>)>,
    ) -> Vec<Option<Box<J>>> {
        let asked: Vec<_> = jobs.into_iter().map(|(worker, job)| self.ask(worker, job)).collect();
        self.wait_for(&asked)
    }

    fn ask<J: Job>(&mut self, worker: usize, job: Box<J>) -> Asked<J> {
        let address: *const J = &*job;
        // Without room the worker is stuck or gone.
        Asked { worker, job: self.submit(worker, job).is_ok().then_some(address) }
    }

    fn wait_for<J: Job>(&mut self, asked: &[Asked<J>]) -> Vec<Option<Box<J>>> {
        let done = self.await_answers(asked);
        // A worker that was asked twice has answered if it has both times.
        self.silent.retain(|worker| asked.iter().all(|of| of.worker != *worker));
        let silent = asked.iter().zip(&done).filter(|(_, done)| done.is_none()).map(|(of, _)| of.worker);
        self.silent.extend(silent);
        done
    }

    fn await_answers<J: Job>(&mut self, asked: &[Asked<J>]) -> Vec<Option<Box<J>>> {
        let mut done: Vec<Option<Box<J>>> = asked.iter().map(|_| None).collect();
        let give_up = Instant::now() + ANSWER_WAIT;
        loop {
            // Asked before mailboxes are read: events from before a worker's end are not lost.
            let alive: Vec<_> = (0..self.count()).map(|worker| self.is_alive(worker)).collect();
            for worker in 0..self.count() {
                while let Some(event) = self.event(worker) {
                    match take_done(event, asked, &mut done) {
                        Some(event) => self.held.push_back((worker, event)),
                        // Events behind the last answer are of what the job has left, and stay where they are.
                        None if asked
                            .iter()
                            .zip(&done)
                            .all(|(of, done)| of.job.is_none() || done.is_some()) =>
                        {
                            return done;
                        }
                        None => {}
                    }
                }
            }
            let mut each = asked.iter().zip(&done);
            let waits = each.any(|(of, done)| of.job.is_some() && done.is_none() && alive[of.worker]);
            if !waits || Instant::now() >= give_up {
                return done;
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

    /// The same with a function that a worker which does not answer in time never runs: what it changes is as it was then. None: it has
    /// begun, and its data is lost.
    pub(crate) fn run_on_link_in_time<D: Send + 'static>(
        &mut self,
        at: WorkerSlot,
        data: D,
        run: fn(&mut Link, &mut D) -> Progress,
    ) -> Result<Option<D>, WorkerUnresponsive> {
        let decision = Decision::default();
        let job = LinkJob::new(at.slot, data, run).unless_given_up(decision.clone());
        match self.run_in_time(at.worker, job, &decision)? {
            Some(job) if !job.found => Err(WorkerUnresponsive),
            done => Ok(done.map(|job| job.data)),
        }
    }

    /// The same with a job that looks at this decision before it begins.
    pub(crate) fn run_in_time<J: Job>(
        &mut self,
        worker: usize,
        job: Box<J>,
        decision: &Decision,
    ) -> Result<Option<Box<J>>, WorkerUnresponsive> {
        let asked = [self.ask(worker, job)];
        match self.wait_for(&asked).pop().flatten() {
            None if asked[0].job.is_none() || decision.is_first() => Err(WorkerUnresponsive),
            // It is at work, which takes it microseconds.
            None => Ok(self.wait_for(&asked).pop().flatten()),
            done => Ok(done),
        }
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
}

/// A job that a worker was given. It is known by its address: one that was given up earlier may come back now.
struct Asked<J> {
    worker: usize,
    /// None if the worker had no room for it.
    job: Option<*const J>,
}

/// Puts a job that is waited for into its place in `done`; hands out every other event.
fn take_done<J: Job>(
    event: WorkerEvent,
    asked: &[Asked<J>],
    done: &mut [Option<Box<J>>],
) -> Option<WorkerEvent> {
    let WorkerEvent::JobDone(job) = event else { return Some(event) };
    let job = match of_kind::<J>(job) {
        Ok(job) => job,
        Err(other) => return Some(WorkerEvent::JobDone(other)),
    };
    match asked.iter().position(|of| of.job.is_some_and(|address| std::ptr::eq(&*job, address))) {
        Some(place) => {
            done[place] = Some(job);
            None
        }
        None => Some(WorkerEvent::JobDone(job)),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Sender, channel};

    use super::*;
    use crate::jobs::SwapDatapath;

    /// Says when it is run: all before it are done.
    struct Says(Sender<()>);

    impl Job for Says {
        fn run(&mut self, _: &mut Datapaths) -> Progress {
            self.0.send(()).unwrap();
            Progress::Done
        }
    }

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
        let done = workers.run_all([(0, link_job(6)), (0, link_job(7))]);
        assert_eq!(done.into_iter().flatten().map(|job| job.slot).collect::<Vec<_>>(), [6, 7]);
        let held: Vec<_> = std::iter::from_fn(|| workers.held_event()).collect();
        let [
            (0, WorkerEvent::JobDone(first)),
            (0, WorkerEvent::JobDone(second)),
            (0, WorkerEvent::JobDone(third)),
            (0, WorkerEvent::JobDone(fourth)),
        ] = <[_; 4]>::try_from(held).ok().unwrap()
        else {
            panic!("four jobs of worker 0")
        };
        let slot = |job| of_kind::<LinkJob<usize>>(job).ok().unwrap().slot;
        assert_eq!([slot(first), slot(second), slot(fourth)], [1, 2, 5]);
        assert_eq!(of_kind::<SwapDatapath>(third).ok().unwrap().slot, 4);
        assert_eq!(workers.stop().count(), 1);
    }

    #[test]
    fn workers_that_live_answer_together() {
        let mut workers = Workers::new(Polling::Interrupt, Scheduling::Ordinary);
        workers.keep_to_cpus(vec![0, 0, 0]);
        workers.start(3).unwrap();
        assert_eq!((workers.count(), workers.ask_all()), (3, Ok(())));
        assert!((0..3).all(|worker| workers.has_answered(worker)));
        assert_eq!(workers.stop().count(), 3);
    }

    /// Behind a change of SAs a need is the new one's.
    #[test]
    fn events_behind_the_job_that_is_waited_for_are_not_held() {
        let mut workers = Workers::new(Polling::Busy, Scheduling::Ordinary);
        workers.start(1).unwrap();
        let asked = [workers.ask(0, link_job(1))];
        assert!(workers.submit(0, link_job(2)).is_ok());
        let (says, done) = channel();
        assert!(workers.submit(0, Box::new(Says(says))).is_ok());
        done.recv().unwrap();
        assert_eq!(
            workers.wait_for(&asked).into_iter().flatten().map(|job| job.slot).collect::<Vec<_>>(),
            [1]
        );
        assert!(workers.held_event().is_none());
        assert!(workers.event(0).is_some());
        assert_eq!(workers.stop().count(), 1);
    }
}
