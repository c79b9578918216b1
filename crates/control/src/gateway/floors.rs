//! Replay floors: asked of the workers, brought to disk together.

use std::time::Instant;

use dataplane::job::Progress;
use secy::SecY;

use super::Gateway;
use crate::floors::{Floor, ReceiveFloor, read};
use crate::lease_thread::FloorReading;
use crate::link::Keys;

impl Gateway {
    /// Brings floors to disk if it is time.
    pub(super) fn keep_floors(&mut self, now: Instant) {
        if !self.floor_keeper.take_due(now) {
            return;
        }
        if !self.links.iter().any(|link| matches!(link.keys(), Keys::Static(_))) {
            self.floor_keeper.keep_none(now);
            return;
        }
        // A disk that is behind gets no more to do. What it writes next covers what was received meanwhile.
        if self.lease_thread.writes_floors() {
            return;
        }
        let began = Instant::now();
        let (mut floors, mut complete) = (Vec::new(), true);
        for link in 0..self.links.len() {
            complete &= self.ask_floors(link, &mut floors);
        }
        self.lease_thread.keep_floors(floors, Some(FloorReading { at: now, began, complete }));
    }

    /// Adds the floors of a link. False if its worker does not answer, or the kernel.
    pub(super) fn ask_floors(&mut self, number: usize, floors: &mut Vec<Floor>) -> bool {
        let link = &self.links[number];
        if let (Keys::Static(keys), Some(kernel)) = (link.keys(), link.kernel())
            && keys.is_in_kernel()
        {
            let Ok(of_kernel) = keys.floors_in_kernel(kernel) else { return false };
            floors.extend(of_kernel);
            if !keys.has_tail() && !keys.has_express() {
                return true;
            }
        }
        let of = link.floors();
        if of.is_empty() {
            return true;
        }
        let into = Vec::with_capacity(of.len());
        let read = self.run_on_link(number, (of, into), |link, (of, floors)| {
            read(&link.pipeline().secy, of, floors);
            Progress::Done
        });
        let Ok((_, of_worker)) = read else { return false };
        floors.extend(of_worker);
        true
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
