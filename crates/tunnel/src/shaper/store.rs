//! Memory of packets that wait: places of equal size, and queues through them.

use alloc::boxed::Box;
use alloc::vec;

use super::PacketOf;

/// No place.
const NONE: u32 = u32::MAX;

/// A packet that waits.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cell<M> {
    /// Where it goes; none in a free place.
    pub(super) to: Option<M>,
    /// When it came, in nanoseconds.
    pub(super) since: u64,
    pub(super) of: PacketOf,
    /// Octets besides the payload.
    overhead: usize,
    len: usize,
    /// The next place of the queue that this one is in.
    next: u32,
}

impl<M> Cell<M> {
    pub(super) const fn new(to: M, overhead: usize, since: u64, of: PacketOf) -> Self {
        Self { to: Some(to), since, of, overhead, len: 0, next: NONE }
    }

    /// Octets on the line.
    pub(super) const fn line_octets(&self) -> usize {
        self.overhead + self.len
    }
}

/// The places.
#[derive(Debug)]
pub(super) struct Store<M> {
    cells: Box<[Cell<M>]>,
    /// Payloads, one place behind the other. Memory that nothing was written to is not there.
    octets: Box<[u8]>,
    most: usize,
    free: u32,
}

impl<M: Copy> Store<M> {
    /// Room for so many packets of at most `most` octets.
    pub(super) fn new(packets: usize, most: usize) -> Self {
        let cell = |next| Cell { to: None, since: 0, of: PacketOf::default(), overhead: 0, len: 0, next };
        let next = |place: usize| if place + 1 < packets { place as u32 + 1 } else { NONE };
        let cells = (0..packets).map(|place| cell(next(place))).collect();
        Self { cells, octets: vec![0; packets * most].into_boxed_slice(), most, free: 0 }
    }

    /// Octets of the longest payload.
    pub(super) const fn most(&self) -> usize {
        self.most
    }

    /// Puts a packet into a free place, if there is one. It is in no queue.
    pub(super) fn put(&mut self, cell: Cell<M>, [first, second]: [&[u8]; 2]) -> Option<u32> {
        let place = self.free;
        let index = place as usize;
        let room = self.octets.get_mut(index.checked_mul(self.most)?..)?.get_mut(..self.most)?;
        let (head, rest) = room.split_at_mut_checked(first.len())?;
        head.copy_from_slice(first);
        rest.get_mut(..second.len())?.copy_from_slice(second);
        let free = self.cells.get_mut(index)?;
        self.free = free.next;
        *free = Cell { len: first.len() + second.len(), next: NONE, ..cell };
        Some(place)
    }

    /// Gives a place back, which is in no queue.
    pub(super) fn free(&mut self, place: u32) {
        let next = self.free;
        let cell = self.cell_mut(place);
        (cell.to, cell.next) = (None, next);
        self.free = place;
    }

    pub(super) fn cell(&self, place: u32) -> &Cell<M> {
        &self.cells[place as usize]
    }

    fn cell_mut(&mut self, place: u32) -> &mut Cell<M> {
        &mut self.cells[place as usize]
    }

    /// The payload in a place.
    pub(super) fn octets(&self, place: u32) -> &[u8] {
        let begin = place as usize * self.most;
        &self.octets[begin..begin + self.cell(place).len]
    }
}

/// Packets one after the other.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fifo {
    first: u32,
    last: u32,
    packets: usize,
    /// Packets that begin a frame.
    frames: usize,
    octets: usize,
}

impl Default for Fifo {
    fn default() -> Self {
        Self { first: NONE, last: NONE, packets: 0, frames: 0, octets: 0 }
    }
}

impl Fifo {
    pub(super) fn push<M: Copy>(&mut self, store: &mut Store<M>, place: u32) {
        match self.packets {
            0 => self.first = place,
            _ => store.cell_mut(self.last).next = place,
        }
        self.last = place;
        self.packets += 1;
        self.frames += usize::from(!store.cell(place).of.continues);
        self.octets += store.cell(place).line_octets();
    }

    pub(super) fn pop<M: Copy>(&mut self, store: &mut Store<M>) -> Option<u32> {
        if self.packets == 0 {
            return None;
        }
        let place = self.first;
        self.first = core::mem::replace(&mut store.cell_mut(place).next, NONE);
        self.packets -= 1;
        self.frames -= usize::from(!store.cell(place).of.continues);
        self.octets -= store.cell(place).line_octets();
        Some(place)
    }

    /// Frees the packets of the oldest frame of which none was taken.
    pub(super) fn drop_frame<M: Copy>(&mut self, store: &mut Store<M>) {
        let mut before = NONE;
        let mut place = self.first;
        while place != NONE && store.cell(place).of.continues {
            (before, place) = (place, store.cell(place).next);
        }
        let mut dropped = 0;
        while place != NONE && (dropped == 0 || store.cell(place).of.continues) {
            self.packets -= 1;
            self.frames -= usize::from(!store.cell(place).of.continues);
            self.octets -= store.cell(place).line_octets();
            let next = store.cell(place).next;
            store.free(place);
            (place, dropped) = (next, dropped + 1);
        }
        match before {
            NONE => self.first = place,
            _ => store.cell_mut(before).next = place,
        }
        if place == NONE {
            self.last = before;
        }
    }

    /// Whether the next packet is of the same frame as the one before it.
    pub(super) fn continues<M: Copy>(&self, store: &Store<M>) -> bool {
        self.packets > 0 && store.cell(self.first).of.continues
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.packets == 0
    }

    pub(super) const fn packets(&self) -> usize {
        self.packets
    }

    /// Frames of which no packet was taken.
    pub(super) const fn frames(&self) -> usize {
        self.frames
    }

    /// Octets on the line.
    pub(super) const fn octets(&self) -> usize {
        self.octets
    }
}
