//! Jobs of control for its workers, and the wait for them.

use std::any::Any;
use std::collections::BTreeMap;
use std::thread;
use std::time::{Duration, Instant};

use dataplane::job::{Datapath, Datapaths, Job, Progress};
use dataplane::link::Link;
use dataplane::site::Site;
use dataplane::worker::{WorkerEvent, WorkerHandle};

use crate::sa_changes::{NextPns, SaChanges};
use crate::{Gateway, WorkerUnresponsive};

/// Limit on a worker's time for a job: some hundred turns.
const ANSWER_WAIT: Duration = Duration::from_secs(1);

/// Puts a link or site into a slot, or takes it out; afterwards it has what was there.
pub(crate) struct SwapDatapath {
    pub(crate) slot: usize,
    pub(crate) datapath: Option<Datapath>,
}

impl Job for SwapDatapath {
    fn run(&mut self, datapaths: &mut Datapaths) -> Progress {
        let before = datapaths.remove(self.slot);
        if let Some(datapath) = self.datapath.take() {
            datapaths.insert(self.slot, datapath);
        }
        self.datapath = before;
        Progress::Done
    }
}

/// Runs a function on a link. Nothing happens if there is no link in the slot.
pub(crate) struct LinkJob<D> {
    pub(crate) slot: usize,
    /// Input and output of the function.
    pub(crate) data: D,
    /// The slot had a link.
    pub(crate) found: bool,
    run: fn(&mut Link, &mut D) -> Progress,
}

impl<D: Send + 'static> LinkJob<D> {
    pub(crate) fn new(slot: usize, data: D, run: fn(&mut Link, &mut D) -> Progress) -> Box<Self> {
        Box::new(Self { slot, data, found: false, run })
    }
}

impl<D: Send + 'static> Job for LinkJob<D> {
    fn run(&mut self, datapaths: &mut Datapaths) -> Progress {
        let Some(link) = datapaths.link(self.slot) else { return Progress::Done };
        self.found = true;
        (self.run)(link, &mut self.data)
    }
}

/// The same on a site.
pub(crate) struct SiteJob<D> {
    pub(crate) slot: usize,
    pub(crate) data: D,
    /// The slot had a site.
    pub(crate) found: bool,
    run: fn(&mut Site, &mut D) -> Progress,
}

impl<D: Send + 'static> SiteJob<D> {
    pub(crate) fn new(slot: usize, data: D, run: fn(&mut Site, &mut D) -> Progress) -> Box<Self> {
        Box::new(Self { slot, data, found: false, run })
    }
}

impl<D: Send + 'static> Job for SiteJob<D> {
    fn run(&mut self, datapaths: &mut Datapaths) -> Progress {
        let Some(site) = datapaths.site(self.slot) else { return Progress::Done };
        self.found = true;
        (self.run)(site, &mut self.data)
    }
}

/// The job, if it is one of this kind.
fn of_kind<J: Job>(job: Box<dyn Job>) -> Result<Box<J>, Box<dyn Job>> {
    if (&*job as &dyn Any).is::<J>() {
        let job: Box<dyn Any> = job;
        // It is one, as was just seen.
        return Ok(job.downcast().expect("a job of this kind"));
    }
    Err(job)
}

impl Gateway {
    /// Has a worker run a job and waits for it; handles events that come before.
    pub(crate) fn run<J: Job>(&mut self, worker: usize, job: Box<J>) -> Result<Box<J>, WorkerUnresponsive> {
        // A job that was given up earlier may come back now: this one is known by its address.
        let address: *const J = &*job;
        self.workers[worker].submit(job).map_err(|_| WorkerUnresponsive)?;
        let give_up = Instant::now() + ANSWER_WAIT;
        loop {
            // Asked before the mailbox is read: events from before the worker's end are not lost.
            let alive = self.workers[worker].is_alive();
            while let Some(event) = self.workers[worker].event() {
                let event = match event {
                    WorkerEvent::JobDone(job) => match of_kind::<J>(job) {
                        Ok(job) if std::ptr::eq(&*job, address) => return Ok(job),
                        Ok(other) => WorkerEvent::JobDone(other),
                        Err(other) => WorkerEvent::JobDone(other),
                    },
                    other => other,
                };
                self.handle_event(worker, event, Instant::now());
            }
            if !alive || Instant::now() >= give_up {
                return Err(WorkerUnresponsive);
            }
            thread::sleep(Duration::from_micros(200));
        }
    }

    /// Runs a function on a link, in its worker. Returns its data.
    pub(crate) fn run_on_link<D: Send + 'static>(
        &mut self,
        number: usize,
        data: D,
        run: fn(&mut Link, &mut D) -> Progress,
    ) -> Result<D, WorkerUnresponsive> {
        let (worker, slot) = (self.links[number].worker, self.links[number].slot);
        let job = *self.run(worker, LinkJob::new(slot, data, run))?;
        if job.found { Ok(job.data) } else { Err(WorkerUnresponsive) }
    }

    /// The same on a site.
    pub(crate) fn run_on_site<D: Send + 'static>(
        &mut self,
        number: usize,
        data: D,
        run: fn(&mut Site, &mut D) -> Progress,
    ) -> Result<D, WorkerUnresponsive> {
        let (worker, slot) = (self.sites[number].worker, self.sites[number].slot);
        let job = *self.run(worker, SiteJob::new(slot, data, run))?;
        if job.found { Ok(job.data) } else { Err(WorkerUnresponsive) }
    }

    /// Waits for a number of jobs of a kind, by worker and slot; handles events that come beside them.
    pub(crate) fn gather<J: Job>(
        &mut self,
        count: usize,
        slot: impl Fn(&J) -> usize,
    ) -> BTreeMap<(usize, usize), Box<J>> {
        let mut jobs = BTreeMap::new();
        let give_up = Instant::now() + ANSWER_WAIT;
        while jobs.len() < count && Instant::now() < give_up {
            for worker in 0..self.workers.len() {
                while let Some(event) = self.workers[worker].event() {
                    let event = match event {
                        WorkerEvent::JobDone(job) => match of_kind::<J>(job) {
                            Ok(job) => {
                                jobs.insert((worker, slot(&job)), job);
                                continue;
                            }
                            Err(other) => WorkerEvent::JobDone(other),
                        },
                        other => other,
                    };
                    self.handle_event(worker, event, Instant::now());
                }
            }
            if !self.workers.iter().any(WorkerHandle::is_alive) {
                break;
            }
            thread::sleep(Duration::from_micros(200));
        }
        jobs
    }

    /// Handles an event that nobody waits for. A job that comes back after its time is freed here, as all are.
    pub(crate) fn handle_event(&mut self, worker: usize, event: WorkerEvent, now: Instant) {
        let job = match event {
            WorkerEvent::Needs { slot, action } => return self.next_action(worker, slot, action, now),
            WorkerEvent::JobDone(job) => job,
        };
        let job = match of_kind::<LinkJob<SaChanges>>(job) {
            Ok(job) => return self.sas_changed(worker, job.slot, job.data, now),
            Err(other) => other,
        };
        if let Ok(job) = of_kind::<LinkJob<NextPns>>(job) {
            self.next_pns(worker, job.slot, &job.data, now);
        }
    }
}
