//! State for the API: the newest [`Overview`], its revision, and the revision of each gateway's and connection's last change.
//!
//! A revision is one more with each change. The first one is made of the clock, so a browser that knows one of a controller before gets all
//! anew.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use hyper::body::Bytes;
use serde::Serialize;

use super::history::History;
use super::overview::{ConnectionView, GatewayView, Overview};

/// Time without a look at the fleet after which what is shown says nothing of it any more.
const FROZEN: Duration = Duration::from_secs(10);
/// Cause and cure then.
pub(super) const NOT_LOOKED: (&str, &str) = (
    "the controller has not looked at the fleet for 10 s",
    "see that inventory and identities can be read, or start it anew",
);

/// The controller's standing with the directory.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize)]
pub struct DirectoryView {
    /// Time of its last answer, in seconds since 1970.
    pub answered: Option<u64>,
    /// Reason for which it does not answer.
    pub away: Option<String>,
}

/// An answer of `/api/overview`.
#[derive(Serialize)]
struct Answer<'a> {
    revision: u64,
    whole: bool,
    directory: &'a DirectoryView,
    problems: &'a [String],
    #[serde(flatten)]
    overview: &'a Overview,
}

/// The fleet, for who is in the same process.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Seen {
    /// The caller knows the newest revision.
    Same,
    /// Nothing yet, and why, if that is known.
    Waiting(Option<String>),
    /// Something else.
    Shown {
        /// Its revision.
        revision: u64,
        /// The fleet.
        overview: Box<Overview>,
        /// State of the directory.
        directory: DirectoryView,
        /// A line each, with cause and cure.
        problems: Vec<String>,
    },
}

/// The newest state.
#[derive(Debug, Default)]
pub(super) struct Board {
    shown: Option<Shown>,
    /// Time of the last look, also of one that found nothing new.
    at: Option<Instant>,
    /// The same, in seconds since 1970.
    looked: u64,
    /// The reason why nothing is shown yet.
    why: Option<String>,
    history: History,
}

/// The newest overview, as it is told.
#[derive(Debug)]
struct Shown {
    revision: u64,
    /// The revision in which a gateway or connection came or went: whoever knows an older one gets all.
    whole_since: u64,
    /// Revisions in which gateways and connections changed.
    gateways: BTreeMap<String, u64>,
    connections: BTreeMap<String, u64>,
    directory: DirectoryView,
    problems: Vec<String>,
    overview: Overview,
    /// The whole answer.
    document: Bytes,
}

impl Board {
    /// Takes what is now.
    pub(super) fn show(&mut self, overview: Overview, directory: DirectoryView, problems: Vec<String>) {
        self.history.add(&overview);
        let was_frozen = self.is_frozen();
        self.at = Some(Instant::now());
        self.looked = overview.time;
        match &mut self.shown {
            // A client that was told that nobody looks knows the revision before.
            Some(shown) if was_frozen => {
                *shown = Shown::new(shown.revision + 1, overview, directory, problems);
            }
            Some(shown) => shown.update(overview, directory, problems),
            None => {
                let revision = overview.time.saturating_mul(1000);
                self.shown = Some(Shown::new(revision, overview, directory, problems));
            }
        }
    }

    /// Tells why nothing is shown yet.
    pub(super) fn wait(&mut self, why: String) {
        self.why = Some(why);
    }

    /// True if nobody has looked at the fleet for long: a disk that does not answer, say.
    pub(super) fn is_frozen(&self) -> bool {
        self.at.is_some_and(|at| at.elapsed() > FROZEN)
    }

    /// The reason why nothing is shown yet, if that is known.
    pub(super) fn why(&self) -> Option<&str> {
        self.why.as_deref()
    }

    /// The overview, for a caller with this revision.
    pub(super) fn seen(&self, known: Option<u64>) -> Seen {
        match &self.shown {
            None => Seen::Waiting(self.why.clone()),
            Some(_) if self.is_frozen() => {
                let (cause, cure) = NOT_LOOKED;
                Seen::Waiting(Some(format!("{cause}; {cure}")))
            }
            Some(shown) if known == Some(shown.revision) => Seen::Same,
            Some(Shown { revision, overview, directory, problems, .. }) => Seen::Shown {
                revision: *revision,
                overview: Box::new(overview.clone()),
                directory: directory.clone(),
                problems: problems.clone(),
            },
        }
    }

    /// Its revision; none before the directory was read.
    pub(super) fn revision(&self) -> Option<u64> {
        self.shown.as_ref().map(|shown| shown.revision)
    }

    /// The answer to who knows the revision `since`.
    pub(super) fn overview(&self, since: Option<u64>) -> Option<Bytes> {
        let answer = self.shown.as_ref().map(|shown| match since {
            Some(since) if (shown.whole_since..=shown.revision).contains(&since) => shown.changes(since),
            _ => shown.document.clone(),
        });
        answer.map(|document| self.with_look(&document))
    }

    /// An answer with the time of the last look, which changes while the rest of the answer stays.
    fn with_look(&self, document: &[u8]) -> Bytes {
        let look = format!("{{\"looked\":{},", self.looked);
        [look.as_bytes(), document.get(1..).unwrap_or_default()].concat().into()
    }

    /// Lets so much time pass.
    #[cfg(test)]
    pub(super) fn age(&mut self, by: Duration) {
        self.at = self.at.and_then(|at| at.checked_sub(by));
    }

    /// The last day, in JSON.
    pub(super) fn history(&self) -> Bytes {
        document(&self.history)
    }
}

impl Shown {
    fn new(revision: u64, overview: Overview, directory: DirectoryView, problems: Vec<String>) -> Self {
        let gateways = overview.gateways.iter().map(|one| (one.name.clone(), revision)).collect();
        let connections = overview.connections.iter().map(|one| (one.name.clone(), revision)).collect();
        let mut shown = Self {
            revision,
            whole_since: revision,
            gateways,
            connections,
            directory,
            problems,
            overview,
            document: Bytes::new(),
        };
        shown.document = shown.answer(true, &shown.overview);
        shown
    }

    fn update(&mut self, mut overview: Overview, directory: DirectoryView, problems: Vec<String>) {
        // The time alone is no change.
        let time = std::mem::replace(&mut overview.time, self.overview.time);
        let is_same =
            overview == self.overview && directory.away == self.directory.away && problems == self.problems;
        if is_same {
            return;
        }
        overview.time = time;
        let revision = self.revision + 1;
        let names = |of: &Overview| -> (Vec<String>, Vec<String>) {
            let gateways = of.gateways.iter().map(|one| one.name.clone());
            (gateways.collect(), of.connections.iter().map(|one| one.name.clone()).collect())
        };
        if names(&overview) != names(&self.overview) {
            *self = Self::new(revision, overview, directory, problems);
            return;
        }
        for (before, now) in self.overview.gateways.iter().zip(&overview.gateways) {
            if before != now {
                self.gateways.insert(now.name.clone(), revision);
            }
        }
        for (before, now) in self.overview.connections.iter().zip(&overview.connections) {
            if before != now {
                self.connections.insert(now.name.clone(), revision);
            }
        }
        (self.revision, self.overview) = (revision, overview);
        (self.directory, self.problems) = (directory, problems);
        self.document = self.answer(true, &self.overview);
    }

    /// The changes since a revision.
    fn changes(&self, since: u64) -> Bytes {
        let is_newer = |of: &BTreeMap<String, u64>, name: &str| of.get(name).is_some_and(|at| *at > since);
        let gateways = self.overview.gateways.iter();
        let connections = self.overview.connections.iter();
        let changed = Overview {
            fleet: self.overview.fleet.clone(),
            time: self.overview.time,
            verdict: self.overview.verdict,
            gateways: gateways
                .filter(|GatewayView { name, .. }| is_newer(&self.gateways, name))
                .cloned()
                .collect(),
            connections: connections
                .filter(|ConnectionView { name, .. }| is_newer(&self.connections, name))
                .cloned()
                .collect(),
            plants: self.overview.plants.clone(),
        };
        self.answer(false, &changed)
    }

    fn answer(&self, whole: bool, overview: &Overview) -> Bytes {
        let Self { revision, directory, problems, .. } = self;
        document(&Answer { revision: *revision, whole, directory, problems, overview })
    }
}

/// A value as JSON.
pub(super) fn document(value: &impl Serialize) -> Bytes {
    serde_json::to_vec(value).expect("invariant: texts and numbers are JSON").into()
}

#[cfg(test)]
mod tests;
