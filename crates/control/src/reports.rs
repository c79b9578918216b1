//! Snapshots: asked of all workers at once, and gathered as they come.

use std::collections::BTreeMap;
use std::thread;
use std::time::{Duration, Instant};

use super::sites::SiteControl;
use super::{ANSWER_WAIT, Gateway, LinkControl};
use dataplane::site::SiteSnapshot;
use dataplane::snapshot::LinkSnapshot;
use dataplane::worker::{Command, Event, WorkerHandle};

impl Gateway {
    /// The figures of all links at this moment, with their names; links of a worker that has ended are left out.
    pub fn snapshots(&mut self) -> Vec<(String, LinkSnapshot)> {
        for &LinkControl { worker, seat, .. } in &self.links {
            // A full ring means that the worker is stuck: its links are left out.
            let _ = self.workers[worker].command(Command::Report { seat, snapshot: Box::default() });
        }
        let snapshots = self.gather(self.links.len(), |event| match event {
            Event::Report { seat, snapshot } => Ok((seat, snapshot)),
            other => Err(other),
        });
        named(self.links.iter().map(|link| (&link.name, (link.worker, link.seat))), snapshots)
    }

    /// The figures of all sites at this moment, with their names; sites of a worker that has ended are left out.
    pub fn site_snapshots(&mut self) -> Vec<(String, SiteSnapshot)> {
        for &SiteControl { worker, seat, peers, .. } in &self.sites {
            let snapshot = Box::new(SiteSnapshot::with_room(peers));
            let _ = self.workers[worker].command(Command::ReportSite { seat, snapshot });
        }
        let snapshots = self.gather(self.sites.len(), |event| match event {
            Event::ReportSite { seat, snapshot } => Ok((seat, snapshot)),
            other => Err(other),
        });
        named(self.sites.iter().map(|site| (&site.name, (site.worker, site.seat))), snapshots)
    }

    /// Waits for so many reports, by worker and seat; what comes beside them is dealt with.
    pub(super) fn gather<T>(
        &mut self,
        count: usize,
        report: impl Fn(Event) -> Result<(usize, T), Event>,
    ) -> BTreeMap<(usize, usize), T> {
        let mut reports = BTreeMap::new();
        let give_up = Instant::now() + ANSWER_WAIT;
        while reports.len() < count && Instant::now() < give_up {
            for worker in 0..self.workers.len() {
                while let Some(event) = self.workers[worker].event() {
                    match report(event) {
                        Ok((seat, report)) => {
                            reports.insert((worker, seat), report);
                        }
                        Err(other) => self.heed(worker, other, Instant::now()),
                    }
                }
            }
            if !self.workers.iter().any(WorkerHandle::is_alive) {
                break;
            }
            thread::sleep(Duration::from_micros(200));
        }
        reports
    }
}

/// Reports with the names of those that they are about, in their order.
fn named<'n, T>(
    names: impl Iterator<Item = (&'n String, (usize, usize))>,
    mut reports: BTreeMap<(usize, usize), Box<T>>,
) -> Vec<(String, T)> {
    names.filter_map(|(name, seat)| Some((name.clone(), *reports.remove(&seat)?))).collect()
}
