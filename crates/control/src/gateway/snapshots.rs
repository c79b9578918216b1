//! Snapshots: asked of all workers at once.

use dataplane::job::Progress;
use dataplane::site::SiteSnapshot;
use dataplane::snapshot::LinkSnapshot;

use super::Gateway;
use crate::jobs::{LinkJob, SiteJob};

impl Gateway {
    /// The figures of all links at this moment, with their names; links of a worker that has ended are left out.
    pub fn snapshots(&mut self) -> Vec<(String, LinkSnapshot)> {
        let jobs = self.links.iter().map(|link| {
            let job = LinkJob::new(link.at().slot, LinkSnapshot::default(), |link, snapshot| {
                snapshot.fill(link);
                Progress::Done
            });
            (link.at().worker, job)
        });
        let done = self.workers.run_all(jobs);
        self.handle_held_events();
        let found = self.links.iter().zip(done).filter_map(|(link, job)| {
            let mut snapshot = job.filter(|job| job.found)?.data;
            // Half of its figures would be less than before.
            link.kernel().map_or(Ok(()), |kernel| kernel.complete(&mut snapshot)).ok()?;
            Some((link.name().to_owned(), snapshot))
        });
        found.collect()
    }

    /// The figures of all sites at this moment, with their names; sites of a worker that has ended are left out.
    pub fn site_snapshots(&mut self) -> Vec<(String, SiteSnapshot)> {
        let jobs = self.sites.iter().map(|site| {
            let snapshot = SiteSnapshot::with_room(site.peers());
            let job = SiteJob::new(site.at().slot, snapshot, |site, snapshot| {
                snapshot.fill(site);
                Progress::Done
            });
            (site.at().worker, job)
        });
        let done = self.workers.run_all(jobs);
        self.handle_held_events();
        let each = self.sites.iter().zip(done);
        let found =
            each.filter_map(|(site, job)| Some((site.name().to_owned(), job.filter(|job| job.found)?.data)));
        found.collect()
    }
}
