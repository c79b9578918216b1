//! Snapshots: asked of all workers at once, and gathered as they come.

use std::collections::BTreeMap;

use dataplane::job::Progress;
use dataplane::site::SiteSnapshot;
use dataplane::snapshot::LinkSnapshot;

use super::Gateway;
use crate::jobs::{LinkJob, SiteJob};
use crate::workers::WorkerSlot;

impl Gateway {
    /// The figures of all links at this moment, with their names; links of a worker that has ended are left out.
    pub fn snapshots(&mut self) -> Vec<(String, LinkSnapshot)> {
        for link in &self.links {
            let WorkerSlot { worker, slot } = link.at();
            let job = LinkJob::new(slot, LinkSnapshot::default(), |link, snapshot| {
                snapshot.fill(link);
                Progress::Done
            });
            // No room means that the worker is stuck: its links are left out.
            let _ = self.workers.submit(worker, job);
        }
        let jobs = self.workers.gather(self.links.len(), |job: &LinkJob<LinkSnapshot>| job.slot);
        self.handle_held_events();
        let found = jobs.into_iter().filter(|(_, job)| job.found).map(|(slot, job)| (slot, job.data));
        let mut found: BTreeMap<_, _> = found.collect();
        for link in &self.links {
            if let (Some(kernel), Some(snapshot)) = (link.kernel(), found.get_mut(&link.at()))
                && kernel.complete(snapshot).is_err()
            {
                // Half of its figures would be less than before.
                found.remove(&link.at());
            }
        }
        named(self.links.iter().map(|link| (link.name(), link.at())), found)
    }

    /// The figures of all sites at this moment, with their names; sites of a worker that has ended are left out.
    pub fn site_snapshots(&mut self) -> Vec<(String, SiteSnapshot)> {
        for site in &self.sites {
            let WorkerSlot { worker, slot } = site.at();
            let job = SiteJob::new(slot, SiteSnapshot::with_room(site.peers()), |site, snapshot| {
                snapshot.fill(site);
                Progress::Done
            });
            let _ = self.workers.submit(worker, job);
        }
        let jobs = self.workers.gather(self.sites.len(), |job: &SiteJob<SiteSnapshot>| job.slot);
        self.handle_held_events();
        let found = jobs.into_iter().filter(|(_, job)| job.found).map(|(slot, job)| (slot, job.data));
        named(self.sites.iter().map(|site| (site.name(), site.at())), found.collect())
    }
}

/// Reports with the names of those that they are about, in their order.
fn named<'n, T>(
    names: impl Iterator<Item = (&'n str, WorkerSlot)>,
    mut reports: BTreeMap<WorkerSlot, T>,
) -> Vec<(String, T)> {
    names.filter_map(|(name, at)| Some((name.to_owned(), reports.remove(&at)?))).collect()
}
