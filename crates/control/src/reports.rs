//! Snapshots: asked of all workers at once, and gathered as they come.

use std::collections::BTreeMap;

use dataplane::job::Progress;
use dataplane::site::SiteSnapshot;
use dataplane::snapshot::LinkSnapshot;

use crate::jobs::{LinkJob, SiteJob};
use crate::sites::SiteControl;
use crate::{Gateway, LinkControl};

impl Gateway {
    /// The figures of all links at this moment, with their names; links of a worker that has ended are left out.
    pub fn snapshots(&mut self) -> Vec<(String, LinkSnapshot)> {
        for &LinkControl { worker, slot, .. } in &self.links {
            // No room means that the worker is stuck: its links are left out.
            let _ =
                self.workers[worker].submit(LinkJob::new(slot, LinkSnapshot::default(), |link, snapshot| {
                    snapshot.fill(link);
                    Progress::Done
                }));
        }
        let jobs = self.gather(self.links.len(), |job: &LinkJob<LinkSnapshot>| job.slot);
        let found = jobs.into_iter().filter(|(_, job)| job.found).map(|(slot, job)| (slot, job.data));
        let mut found: BTreeMap<_, _> = found.collect();
        for LinkControl { worker, slot, kernel, .. } in &self.links {
            if let (Some(kernel), Some(snapshot)) = (kernel, found.get_mut(&(*worker, *slot)))
                && kernel.complete(snapshot).is_err()
            {
                // Half of its figures would be less than before.
                found.remove(&(*worker, *slot));
            }
        }
        named(self.links.iter().map(|link| (&link.name, (link.worker, link.slot))), found)
    }

    /// The figures of all sites at this moment, with their names; sites of a worker that has ended are left out.
    pub fn site_snapshots(&mut self) -> Vec<(String, SiteSnapshot)> {
        for &SiteControl { worker, slot, peers, .. } in &self.sites {
            let snapshot = SiteSnapshot::with_room(peers);
            let _ = self.workers[worker].submit(SiteJob::new(slot, snapshot, |site, snapshot| {
                snapshot.fill(site);
                Progress::Done
            }));
        }
        let jobs = self.gather(self.sites.len(), |job: &SiteJob<SiteSnapshot>| job.slot);
        let found = jobs.into_iter().filter(|(_, job)| job.found).map(|(slot, job)| (slot, job.data));
        named(self.sites.iter().map(|site| (&site.name, (site.worker, site.slot))), found.collect())
    }
}

/// Reports with the names of those that they are about, in their order.
fn named<'n, T>(
    names: impl Iterator<Item = (&'n String, (usize, usize))>,
    mut reports: BTreeMap<(usize, usize), T>,
) -> Vec<(String, T)> {
    names.filter_map(|(name, slot)| Some((name.clone(), reports.remove(&slot)?))).collect()
}
