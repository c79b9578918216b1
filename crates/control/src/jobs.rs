//! Jobs of control for its workers.

use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use dataplane::job::{Datapath, Datapaths, Job, Progress};
use dataplane::link::Link;
use dataplane::site::Site;

/// An answer alone. It holds its worker: a job is known by its address, and one without octets has none of its own.
pub(crate) struct Present(#[expect(dead_code, reason = "its octets are what counts")] pub(crate) usize);

impl Job for Present {
    fn run(&mut self, _: &mut Datapaths) -> Progress {
        Progress::Done
    }
}

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

/// Takes a link out of its slot, or out of the site there, to be passed on or to go back.
pub(crate) struct HaltLink {
    pub(crate) slot: usize,
    /// Identity of the link that is meant ([`crate::link::LinkControl::identity`]): another one may have its slot when the job comes back.
    pub(crate) of: u64,
    /// None so far, or if there was none.
    pub(crate) link: Option<Box<Link>>,
    /// Once nobody waits any more it stays: what control asks of it next would find no link.
    pub(crate) decision: Decision,
}

impl Job for HaltLink {
    fn run(&mut self, datapaths: &mut Datapaths) -> Progress {
        if !self.decision.is_first() {
            return Progress::Done;
        }
        match datapaths.remove(self.slot) {
            Some(Datapath::Link(link)) => self.link = Some(link),
            Some(Datapath::Site(mut site)) => {
                self.link = site.take_link();
                datapaths.insert(self.slot, Datapath::Site(site));
            }
            None => {}
        }
        Progress::Done
    }
}

/// Puts a link back into its slot, or into the site there.
pub(crate) struct ReturnLink {
    pub(crate) slot: usize,
    pub(crate) link: Option<Box<Link>>,
}

impl Job for ReturnLink {
    fn run(&mut self, datapaths: &mut Datapaths) -> Progress {
        let Some(link) = self.link.take() else { return Progress::Done };
        match datapaths.site(self.slot) {
            Some(site) => site.secure(link),
            None => datapaths.insert(self.slot, Datapath::Link(link)),
        }
        Progress::Done
    }
}

/// Decision between a worker that begins a job and control that gives it up: the first of them has its way.
#[derive(Clone, Default)]
pub(crate) struct Decision(Arc<AtomicBool>);

impl Decision {
    /// Whether nobody has decided before.
    pub(crate) fn is_first(&self) -> bool {
        !self.0.swap(true, Ordering::AcqRel)
    }
}

/// Runs a function on a link. Nothing happens if there is no link in the slot.
pub(crate) struct LinkJob<D> {
    pub(crate) slot: usize,
    /// Input and output of the function.
    pub(crate) data: D,
    /// The slot had a link.
    pub(crate) found: bool,
    /// If it must not begin when nobody waits for it any more.
    decision: Option<Decision>,
    run: fn(&mut Link, &mut D) -> Progress,
}

impl<D: Send + 'static> LinkJob<D> {
    pub(crate) fn new(slot: usize, data: D, run: fn(&mut Link, &mut D) -> Progress) -> Box<Self> {
        Box::new(Self { slot, data, found: false, decision: None, run })
    }

    /// The same if it is not given up before it begins.
    pub(crate) fn unless_given_up(mut self: Box<Self>, decision: Decision) -> Box<Self> {
        self.decision = Some(decision);
        self
    }
}

impl<D: Send + 'static> Job for LinkJob<D> {
    fn run(&mut self, datapaths: &mut Datapaths) -> Progress {
        let Some(link) = datapaths.link(self.slot) else { return Progress::Done };
        if !self.found && self.decision.as_ref().is_some_and(|decision| !decision.is_first()) {
            return Progress::Done;
        }
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
pub(crate) fn of_kind<J: Job>(job: Box<dyn Job>) -> Result<Box<J>, Box<dyn Job>> {
    if (&*job as &dyn Any).is::<J>() {
        let job: Box<dyn Any> = job;
        // It is one, as was just seen.
        return Ok(job.downcast().expect("a job of this kind"));
    }
    Err(job)
}
