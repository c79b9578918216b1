//! A pipeline through its cell: frames of relations go first, and alone.
//!
//! Frames of relations are taken out of a burst, protected or verified, and handed to the port before anything else of that burst
//! is worked on. So a cyclic frame waits for no more than the burst before its own, whatever that holds, and in its own for
//! other cyclic frames alone.
//!
//! In shadow mode a frame goes on in clear as it came, and a protected twin beside it, in a chunk of its own.

use std::time;

use arrayvec::ArrayVec;
use fieldbus::{Direction, Incoming, InwardFrame, Outgoing, ReceiveDiscard, RelationMatch};
use wire::{Frame, Instant};

use super::{MayEnter, MayLeave, Pipeline, ToPlain, ToProtected, give_refused};
use crate::cell::{Cell, OtherFrames};
use netdev::burst::{BURST_FRAMES, Burst};
use netdev::pool::{FrameView, Pool};
use netdev::port::Port;

/// Frames of relations, and which.
#[derive(Default)]
struct Cyclic {
    burst: Burst,
    found: ArrayVec<RelationMatch, BURST_FRAMES>,
}

impl Cyclic {
    fn push(&mut self, slot: netdev::pool::Slot, found: RelationMatch, pool: &mut Pool) {
        match self.burst.push(slot) {
            Ok(()) => self.found.push(found),
            Err(slot) => pool.give(slot),
        }
    }
}

impl Pipeline {
    /// Puts a cell in the place of the one that there is, or takes it out. Relations that go on are named by their numbers,
    /// here and there.
    pub fn change_cell(
        &mut self,
        mut cell: Option<Box<Cell>>,
        carry_over: &[(usize, usize)],
    ) -> Option<Box<Cell>> {
        let mut before = self.cell.take();
        if let (Some(cell), Some(before)) = (&mut cell, &mut before) {
            cell.take_over(before, carry_over);
        }
        self.cell = cell;
        before
    }

    /// The cell.
    pub fn cell_mut(&mut self) -> Option<&mut Cell> {
        self.cell.as_deref_mut()
    }

    /// The ports are about to be asked for frames; `read` is the time.
    pub(crate) fn mark_poll_time(&mut self, read: time::Instant) {
        if let Some(cell) = &mut self.cell {
            cell.mark_poll_time(read);
        }
    }

    /// Does what is due for a cell in a turn beside frames.
    pub fn handle_cell_timeout(&mut self, now: Instant) {
        if let Some(cell) = &mut self.cell {
            cell.handle_timeout(now);
        }
    }

    /// Moment at which a cell's next turn is due even if no frame comes.
    pub(crate) fn cell_due(&self) -> Option<Instant> {
        self.cell.as_ref()?.due()
    }

    /// Sends HELLOs, a few at once, each copied once.
    pub(crate) fn send_hellos(
        &mut self,
        now: Instant,
        pool: &mut Pool,
        out: &mut ToProtected,
        port: &mut dyn Port,
    ) {
        let Some(cell) = &mut self.cell else { return };
        let (mut sent, mut unsent) = (0, 0);
        for hello in cell.hellos(now) {
            let mut slot = pool.take();
            if let Some(slot) = slot.take_if(|slot| pool.append(slot, &hello.octets)) {
                out.push(slot, MayLeave::Hello, pool);
                sent += 1;
            } else {
                unsent += 1;
            }
            slot.into_iter().for_each(|slot| pool.give(slot));
        }
        cell.counters.out_hello_sent += sent;
        cell.counters.out_hello_no_chunk += unsent;
        if sent > 0 {
            out.transmit(port, pool);
        }
    }

    /// Drops the HELLOs of a link without ports.
    pub(crate) fn drain_hellos(&mut self) {
        let Some(cell) = &mut self.cell else { return };
        while cell.next_hello().is_some() {
            cell.counters.out_hello_no_chunk += 1;
        }
    }

    /// Takes the cell's frames out of a burst from the plain port, and sends them. With [`OtherFrames::Drop`] nothing is left.
    pub(super) fn cyclic_outward(
        &mut self,
        pool: &mut Pool,
        burst: &mut Burst,
        out: &mut ToProtected,
        port: &mut dyn Port,
    ) {
        let Some(cell) = &mut self.cell else { return };
        let mut found: ArrayVec<Option<RelationMatch>, BURST_FRAMES> =
            burst.slots().iter().map(|slot| cell.relations.find_outward(pool.frame(slot))).collect();
        if cell.rest == OtherFrames::Link && found.iter().all(Option::is_none) {
            return;
        }
        let (mut cyclic, mut rest) = (Cyclic::default(), Burst::new());
        for (slot, found) in burst.drain().zip(found.drain(..)) {
            let Some(found) = found else {
                if cell.rest == OtherFrames::Link {
                    give_refused(rest.push(slot), pool);
                } else {
                    cell.counters.out_pkts_rest_dropped += 1;
                    pool.give(slot);
                }
                continue;
            };
            let Some(in_clear) = cell.relations.pass_clear(found, Direction::Outward, pool.frame(&slot))
            else {
                cyclic.push(slot, found, pool);
                continue;
            };
            let mut twin = pool.take();
            if let Some(twin) = twin.take_if(|twin| pool.append_from(twin, &slot, 0..slot.len())) {
                cyclic.push(twin, found, pool);
            } else {
                cell.counters.out_pkts_no_chunk += 1;
            }
            twin.into_iter().for_each(|twin| pool.give(twin));
            out.push(slot, MayLeave::Shadow(in_clear), pool);
        }
        for slot in rest.drain() {
            give_refused(burst.push(slot), pool);
        }
        if !out.is_empty() {
            out.transmit(port, pool);
        }
        cell.protect(pool, &mut cyclic, out, port);
    }

    /// Takes the cell's frames out of a burst from the protected port, and delivers them. With [`OtherFrames::Drop`] nothing is
    /// left.
    pub(super) fn cyclic_inward(
        &mut self,
        pool: &mut Pool,
        burst: &mut Burst,
        out: &mut ToPlain,
        port: &mut dyn Port,
    ) {
        let Some(cell) = &mut self.cell else { return };
        let mut found: ArrayVec<InwardFrame, BURST_FRAMES> =
            burst.slots().iter().map(|slot| cell.relations.find_inward(pool.frame(slot))).collect();
        if cell.rest == OtherFrames::Link && found.iter().all(|found| *found == InwardFrame::Other) {
            return;
        }
        let (mut cyclic, mut rest) = (Cyclic::default(), Burst::new());
        for (slot, found) in burst.drain().zip(found.drain(..)) {
            match found {
                InwardFrame::Protected(found) => {
                    cyclic.push(slot, found, pool);
                    continue;
                }
                InwardFrame::Other if cell.rest == OtherFrames::Link => {
                    give_refused(rest.push(slot), pool);
                    continue;
                }
                InwardFrame::Clear(found) => {
                    if let Some(in_clear) =
                        cell.relations.pass_clear(found, Direction::Inward, pool.frame(&slot))
                    {
                        out.push(slot, MayEnter::Shadow(in_clear), pool);
                        continue;
                    }
                }
                InwardFrame::Other => cell.counters.in_pkts_rest_dropped += 1,
                InwardFrame::Hello(found) => cell.queue_hello(found, pool.frame(&slot)),
                InwardFrame::Foreign(foreign) => cell.counters.count_foreign(foreign),
            }
            pool.give(slot);
        }
        for slot in rest.drain() {
            give_refused(burst.push(slot), pool);
        }
        if !out.is_empty() {
            out.transmit(port, pool);
        }
        cell.verify(pool, &mut cyclic, out, port);
    }
}

impl Cell {
    /// Protects frames and sends them; their residence time is known then.
    fn protect(&mut self, pool: &mut Pool, cyclic: &mut Cyclic, out: &mut ToProtected, port: &mut dyn Port) {
        let Cyclic { burst, found } = cyclic;
        if burst.is_empty() {
            return;
        }
        let mut proofs: ArrayVec<Option<MayLeave>, BURST_FRAMES> = ArrayVec::new();
        // A block and drain() end the borrows: drop() and into_iter() would move a burst's kilobytes, of whatever few frames.
        {
            let mut frames: ArrayVec<Outgoing<'_>, BURST_FRAMES> = ArrayVec::new();
            let mut places: ArrayVec<(usize, &mut usize, &mut usize), BURST_FRAMES> = ArrayVec::new();
            for (index, (FrameView { chunk, start, len }, found)) in
                pool.views(burst.slots_mut()).zip(&*found).enumerate()
            {
                proofs.push(None);
                if let Some(frame) = Frame::new(chunk, *start, *len) {
                    frames.push(Outgoing::new(frame, *found));
                    places.push((index, start, len));
                }
            }
            self.relations.protect(&mut frames);
            for (frame, (index, start, len)) in frames.drain(..).zip(places.drain(..)) {
                (*start, *len) = (frame.frame().start(), frame.frame().len());
                proofs[index] = frame.into_outcome().ok().map(MayLeave::Cyclic);
            }
        }
        let mut sent: ArrayVec<usize, BURST_FRAMES> = ArrayVec::new();
        for ((slot, proof), found) in burst.drain().zip(proofs.drain(..)).zip(&*found) {
            if let Some(proof) = proof {
                out.push(slot, proof, pool);
                sent.push(found.relation());
            } else {
                pool.give(slot);
            }
        }
        out.transmit(port, pool);
        self.left(&sent, Direction::Outward);
    }

    /// Verifies frames and delivers them; their residence time is known then.
    fn verify(&mut self, pool: &mut Pool, cyclic: &mut Cyclic, out: &mut ToPlain, port: &mut dyn Port) {
        let Cyclic { burst, found } = cyclic;
        if burst.is_empty() {
            return;
        }
        let mut outcomes: ArrayVec<Result<MayEnter, ReceiveDiscard>, BURST_FRAMES> = ArrayVec::new();
        {
            let mut frames: ArrayVec<Incoming<'_>, BURST_FRAMES> = ArrayVec::new();
            let mut places: ArrayVec<(usize, &mut usize, &mut usize), BURST_FRAMES> = ArrayVec::new();
            for (index, (FrameView { chunk, start, len }, found)) in
                pool.views(burst.slots_mut()).zip(&*found).enumerate()
            {
                outcomes.push(Err(ReceiveDiscard::TooShort));
                if let Some(frame) = Frame::new(chunk, *start, *len) {
                    frames.push(Incoming::new(frame, *found));
                    places.push((index, start, len));
                }
            }
            self.relations.verify(self.poll_time(), &mut frames);
            for (frame, (index, start, len)) in frames.drain(..).zip(places.drain(..)) {
                (*start, *len) = (frame.frame().start(), frame.frame().len());
                outcomes[index] = frame.into_outcome().map(MayEnter::Cyclic);
            }
        }
        let mut done: ArrayVec<usize, BURST_FRAMES> = ArrayVec::new();
        for ((slot, outcome), found) in burst.drain().zip(outcomes.drain(..)).zip(&*found) {
            // A twin would leave now.
            if matches!(outcome, Ok(_) | Err(ReceiveDiscard::Shadow)) {
                done.push(found.relation());
            }
            match outcome {
                Ok(proof) => out.push(slot, proof, pool),
                Err(_) => pool.give(slot),
            }
        }
        if !out.is_empty() {
            out.transmit(port, pool);
        }
        self.left(&done, Direction::Inward);
    }

    /// Frames of these relations are on their way.
    fn left(&mut self, relations: &[usize], direction: Direction) {
        let residence = self.take_residence_time();
        for &relation in relations {
            self.relations.record_residence(relation, direction, residence);
        }
    }
}

#[cfg(test)]
mod tests;
