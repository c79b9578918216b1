//! Frames that leave at a constant rate ([`crate::cover`]), and SDUs that wait for them when cover begins, changes and ends.

use std::mem;

use secy::NextAction;
use secy::passed_on::{PassedOnError, Words};
use wire::Instant;

use super::{Pipeline, ToProtected};
use crate::cover::Cover;
use crate::fragmenter::{Fragmenter, FragmenterCounters};
use netdev::burst::Burst;
use netdev::pool::Pool;
use netdev::port::Port;

impl Pipeline {
    /// Moment of the next tick, if frames leave at a constant rate. Costs a link without cover one comparison.
    pub(crate) fn next_tick(&self) -> Option<Instant> {
        self.fragmenter.as_ref()?.cover().map(Cover::due)
    }

    /// Sends the frames of the ticks that are due: each the same, whatever waits. Returns the need of the transmit SA.
    pub(crate) fn send_ticks(
        &mut self,
        now: Instant,
        pool: &mut Pool,
        out: &mut ToProtected,
        port: &mut dyn Port,
    ) -> NextAction {
        let Some(mut fragmenter) = self.fragmenter.take() else { return NextAction::Continue };
        if let Some((cover, counters)) = fragmenter.cover_mut() {
            for _ in 0..cover.take_ticks(now, counters) {
                let sent = self.send_tick(now, pool, cover, counters, out);
                counters.out_ticks_missed += u64::from(!sent);
            }
            cover.discard_expired(now, counters);
        }
        self.fragmenter = Some(fragmenter);
        if !out.is_empty() {
            out.transmit(port, pool);
        }
        self.secy.next_action()
    }

    /// Takes the next frame to `out`; false if there is none, for want of PNs or a chunk.
    fn send_tick(
        &mut self,
        now: Instant,
        pool: &mut Pool,
        cover: &mut Cover,
        counters: &mut FragmenterCounters,
        out: &mut ToProtected,
    ) -> bool {
        let Some(next) = self.secy.next_pn() else { return false };
        let Some((slot, filled)) = cover.fill(pool, self.secy.sci(), next, counters) else { return false };
        // A frame that the SecY refuses would count as lost, though nothing is: what it holds waits.
        if !self.secy.has_pns(filled.layout.chain) {
            pool.give(slot);
            return false;
        }
        let mut frame = Burst::new();
        super::give_refused(frame.push(slot), pool);
        self.protect(pool, &mut frame, &[Some(filled.layout)], out);
        // A PN is taken only by a frame that leaves.
        let behind = self.secy.next_pn();
        if behind == Some(next) {
            cover.begin_anew();
            return false;
        }
        cover.settle(now, &filled, behind, counters);
        true
    }

    /// Keeps what waits in the fragmenter before: in the present one's queue, or for [`Pipeline::refill`]. What is in `before`
    /// afterwards is of no use any more.
    pub(super) fn keep_cover(&mut self, before: &mut Option<Box<Fragmenter>>) {
        let older_wait = self.waits_before_cover();
        let Some((old, _)) = before.as_mut().and_then(|before| before.cover_mut()) else { return };
        match self.fragmenter.as_mut().and_then(|fragmenter| fragmenter.cover_mut()) {
            Some((new, _)) => new.take_over(old),
            None if old.is_empty() => {}
            // Cover came and went while those of the cover before were leaving.
            None if older_wait => self.fragmented_before.out_sdus_cover_overrun += old.discard(),
            None => mem::swap(&mut self.before_cover, before),
        }
    }

    /// Takes over what waits in `predecessor`.
    pub(super) fn take_over_cover(&mut self, predecessor: &mut Self) {
        self.before_cover = predecessor.before_cover.take();
        self.keep_cover(&mut predecessor.fragmenter);
    }

    /// Whether SDUs wait for ticks that are no more.
    pub(crate) fn waits_before_cover(&self) -> bool {
        let before = self.before_cover.as_ref().and_then(|fragmenter| fragmenter.cover());
        before.is_some_and(|cover| !cover.is_empty())
    }

    /// Gives SDUs that wait for ticks that are no more to `waiting`, as far as there is room.
    pub(crate) fn refill(&mut self, pool: &mut Pool, waiting: &mut Burst) {
        let Some(before) = &mut self.before_cover else { return };
        if let Some((cover, _)) = before.cover_mut() {
            cover.give_back(pool, waiting);
        }
    }

    /// Appends what waits for ticks ([`Pipeline::pass_on`]): 1 and that, or 0.
    pub(super) fn pass_on_cover(&self, into: &mut Vec<u64>) {
        let cover = self.fragmenter.as_ref().and_then(|fragmenter| fragmenter.cover());
        into.push(u64::from(cover.is_some()));
        if let Some(cover) = cover {
            cover.pass_on(into);
        }
    }

    /// Has wait for ticks what waited before ([`Pipeline::go_on`]).
    pub(super) fn go_on_with_cover(&mut self, words: &mut Words<'_>) -> Result<(), PassedOnError> {
        let [has] = words.take()?;
        let cover = self.fragmenter.as_mut().and_then(|fragmenter| fragmenter.cover_mut());
        match (has, cover) {
            (0, _) => Ok(()),
            (1, Some((cover, _))) => cover.go_on(words),
            _ => Err(PassedOnError::Fragments),
        }
    }
}
