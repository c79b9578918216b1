//! Replay floors: asked of the workers, brought to disk together.

use std::time::Instant;

use dataplane::job::Progress;
use secy::SecY;

use super::Gateway;
use crate::floors::{Floor, ReceiveFloor, read};
use crate::jobs::LinkJob;
use crate::lease_thread::FloorReading;
use crate::link::Keys;
use crate::workers::WorkerSlot;

impl Gateway {
    /// Has the heartbeat of the state kept while no link with static keys is there, too: the next start judges the state's age if the
    /// configuration has one, and that link may wait for its interfaces now.
    pub const fn keep_heartbeat(&mut self, keeps: bool) {
        self.keeps_heartbeat = keeps;
    }

    /// Brings floors to disk if it is time, and the heartbeat with them.
    pub(super) fn keep_floors(&mut self, now: Instant) {
        if !self.floor_keeper.take_due(now) {
            return;
        }
        if !self.links.iter().any(|link| matches!(link.keys(), Keys::Static(_))) {
            self.floor_keeper.keep_none(now);
            if !self.keeps_heartbeat {
                return;
            }
        }
        // A disk that is behind gets no more to do. What it writes next covers what was received meanwhile.
        if self.lease_thread.writes_floors() {
            return;
        }
        let began = Instant::now();
        let (floors, complete) = self.ask_floors();
        self.lease_thread.keep_floors(floors, Some(FloorReading { at: now, began, complete }));
    }

    /// The floors of all links, and whether each worker has answered, and the kernel. All workers are asked at once: one that does not
    /// answer holds the KaYs of the others' links up for no longer than it would with a single link.
    pub(super) fn ask_floors(&mut self) -> (Vec<Floor>, bool) {
        let (mut floors, mut complete, mut jobs) = (Vec::new(), true, Vec::new());
        for link in &self.links {
            if let (Keys::Static(keys), Some(kernel)) = (link.keys(), link.kernel())
                && keys.is_in_kernel()
            {
                let Ok(of_kernel) = keys.floors_in_kernel(kernel) else {
                    complete = false;
                    continue;
                };
                floors.extend(of_kernel);
                if !keys.has_tail() && !keys.has_express() {
                    continue;
                }
            }
            let (of, WorkerSlot { worker, slot }) = (link.floors(), link.at());
            if of.is_empty() {
                continue;
            }
            let into = Vec::with_capacity(of.len());
            let job = LinkJob::new(slot, (of, into), |link, (of, floors)| {
                read(&link.pipeline().secy, of, floors);
                Progress::Done
            });
            jobs.push((worker, job));
        }
        let done = self.workers.run_all(jobs);
        self.handle_held_events();
        for job in done {
            match job.filter(|job| job.found) {
                Some(job) => floors.extend(job.data.1),
                None => complete = false,
            }
        }
        (floors, complete)
    }

    /// Brings the last floors of SAs to disk that are no longer used.
    pub(super) fn keep_last_floors(&mut self, secy: &SecY, of: &[ReceiveFloor]) {
        let mut last = Vec::with_capacity(of.len());
        read(secy, of, &mut last);
        if !last.is_empty() {
            self.lease_thread.keep_floors(last, None);
        }
    }
}
