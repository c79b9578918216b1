//! Jobs: what control has a worker do between two turns.
//!
//! A job carries what it needs, and takes back what it replaces. It is made by control, where allocating takes its time, runs in
//! the worker, and comes back in its box, to be read and freed by control. So no frame meets a half-changed table, nothing
//! is allocated or freed in the worker, and the worker knows nothing of what control does.

use std::any::Any;

use crate::link::Link;
use crate::site::Site;

/// Work for a worker between two turns.
pub trait Job: Any + Send {
    /// Does it, or a bounded part of it. Allocates nothing.
    fn run(&mut self, datapaths: &mut Datapaths) -> Progress;
}

/// Progress of a job.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Progress {
    /// It is done; the next job may run at once.
    Done,
    /// It is done; frames have a turn before the next job.
    DoneForThisTurn,
    /// It is to run again after the next turn.
    Unfinished,
}

/// A link or site: a worker gives each its turns.
pub enum Datapath {
    /// A link.
    Link(Box<Link>),
    /// A site.
    Site(Box<Site>),
}

impl Datapath {
    /// The link, or that in the site.
    pub(crate) fn link_mut(&mut self) -> Option<&mut Link> {
        match self {
            Self::Link(link) => Some(link),
            Self::Site(site) => site.link_mut(),
        }
    }
}

/// The links and sites of a worker. Each has a *slot*, a number that names it as long as it is there.
#[derive(Default)]
pub struct Datapaths {
    slots: Vec<Option<Datapath>>,
}

impl Datapaths {
    /// With room for so many, before anything is allocated.
    pub(crate) fn with_room(slots: usize) -> Self {
        Self { slots: Vec::with_capacity(slots) }
    }

    /// Puts a link or site into a free slot.
    pub fn insert(&mut self, slot: usize, datapath: Datapath) {
        while self.slots.len() <= slot {
            self.slots.push(None);
        }
        self.slots[slot] = Some(datapath);
    }

    /// Takes a link or site out of its slot.
    pub fn remove(&mut self, slot: usize) -> Option<Datapath> {
        self.slots.get_mut(slot).and_then(Option::take)
    }

    /// The link in a slot, or in the site there.
    pub fn link(&mut self, slot: usize) -> Option<&mut Link> {
        self.slots.get_mut(slot)?.as_mut()?.link_mut()
    }

    /// The site in a slot.
    pub fn site(&mut self, slot: usize) -> Option<&mut Site> {
        match self.slots.get_mut(slot)?.as_mut()? {
            Datapath::Site(site) => Some(site),
            Datapath::Link(_) => None,
        }
    }

    /// Number of slots, the free ones included.
    pub(crate) fn slots(&self) -> usize {
        self.slots.len()
    }

    /// All links and sites.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Datapath> {
        self.slots.iter().flatten()
    }

    /// All links and sites, with their slots.
    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = (usize, &mut Datapath)> {
        self.slots.iter_mut().enumerate().filter_map(|(slot, datapath)| Some((slot, datapath.as_mut()?)))
    }
}
