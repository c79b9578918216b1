//! Queues of flows that take turns: deficit round robin in which a flow that was silent goes first (RFC 8290, section 4).

use alloc::boxed::Box;
use alloc::vec;

use super::codel::CoDel;
use super::store::{Fifo, Store};
use super::{Fate, PacketOf};

/// Queues. Flows whose keys fall on the same one share it.
const QUEUES: usize = 256;
/// Octets of a turn: a full packet.
const QUANTUM: i64 = 1600;
/// The time that packets may wait for long, in nanoseconds (RFC 8289, section 4.3).
const TARGET: u64 = 5_000_000;
/// No queue.
const NONE: u16 = u16::MAX;

/// A queue.
#[derive(Clone, Copy, Debug)]
struct Queue {
    fifo: Fifo,
    deficit: i64,
    codel: CoDel,
    /// Of the frame whose packet was taken last.
    fate: Fate,
    listed: bool,
    /// The next one of its list.
    next: u16,
}

/// A list of queues.
#[derive(Clone, Copy, Debug)]
struct List {
    first: u16,
    last: u16,
}

impl List {
    const EMPTY: Self = Self { first: NONE, last: NONE };

    fn push(&mut self, queues: &mut [Queue], number: u16) {
        match self.first {
            NONE => self.first = number,
            _ => queues[usize::from(self.last)].next = number,
        }
        queues[usize::from(number)].next = NONE;
        self.last = number;
    }

    fn pop(&mut self, queues: &[Queue]) {
        self.first = queues[usize::from(self.first)].next;
    }
}

/// A packet that was taken.
#[derive(Clone, Copy, Debug)]
pub(super) struct Taken {
    pub(super) place: u32,
    pub(super) fate: Fate,
}

/// The queues of all flows.
#[derive(Debug)]
pub(super) struct Flows {
    queues: Box<[Queue]>,
    /// Queues that were empty, and those that had their first turn.
    new: List,
    old: List,
    packets: usize,
    octets: usize,
    target: u64,
}

impl Flows {
    /// `least`: nanoseconds that packets wait on a line that is never idle.
    pub(super) fn new(least: u64) -> Self {
        let queue = Queue {
            fifo: Fifo::default(),
            deficit: 0,
            codel: CoDel::default(),
            fate: Fate::Leaves,
            listed: false,
            next: NONE,
        };
        Self {
            queues: vec![queue; QUEUES].into_boxed_slice(),
            new: List::EMPTY,
            old: List::EMPTY,
            packets: 0,
            octets: 0,
            target: TARGET.max(least),
        }
    }

    pub(super) fn push<M: Copy>(&mut self, store: &mut Store<M>, key: u64, place: u32) {
        let number = (key % QUEUES as u64) as u16;
        let queue = &mut self.queues[usize::from(number)];
        queue.fifo.push(store, place);
        self.packets += 1;
        self.octets += store.cell(place).line_octets();
        if !queue.listed {
            (queue.listed, queue.deficit) = (true, QUANTUM);
            self.new.push(&mut self.queues, number);
        }
    }

    /// The next packet. A frame's packets share its turn and its fate; `is_overtaken` knows which frames are too late. Work: at most a look
    /// at each queue for each quantum of the longest frame.
    pub(super) fn pop<M: Copy>(
        &mut self,
        store: &mut Store<M>,
        now: u64,
        is_overtaken: impl Fn(PacketOf) -> bool,
    ) -> Option<Taken> {
        loop {
            let is_new = self.new.first != NONE;
            let list = if is_new { &mut self.new } else { &mut self.old };
            let number = list.first;
            let queue = self.queues.get_mut(usize::from(number))?;
            if queue.deficit <= 0 && !queue.fifo.continues(store) {
                queue.deficit += QUANTUM;
                list.pop(&self.queues);
                self.old.push(&mut self.queues, number);
                continue;
            }
            let Some(place) = queue.fifo.pop(store) else {
                queue.codel.empty();
                list.pop(&self.queues);
                // Else it would be new with its next packet, and always go first.
                if is_new && self.old.first != NONE {
                    self.old.push(&mut self.queues, number);
                } else {
                    self.queues[usize::from(number)].listed = false;
                }
                continue;
            };
            let cell = store.cell(place);
            let octets = cell.line_octets();
            self.packets -= 1;
            self.octets -= octets;
            if !cell.of.continues {
                let waited = now.saturating_sub(cell.since);
                let delayed = queue.codel.drops(now, waited, self.target, queue.fifo.frames() <= 1);
                queue.fate = if delayed {
                    Fate::Delayed
                } else if is_overtaken(cell.of) {
                    Fate::Overtaken
                } else {
                    Fate::Leaves
                };
            }
            if queue.fate != Fate::Delayed {
                queue.deficit -= octets as i64;
            }
            return Some(Taken { place, fate: queue.fate });
        }
    }

    /// Drops the oldest frame of the queue that has most octets, and says how many packets it had.
    pub(super) fn drop_longest<M: Copy>(&mut self, store: &mut Store<M>) -> usize {
        let with_frames = self.queues.iter_mut().filter(|queue| queue.fifo.frames() > 0);
        let longest = with_frames.max_by_key(|queue| queue.fifo.octets());
        let Some(Queue { fifo, .. }) = longest else { return 0 };
        let (packets, octets) = (fifo.packets(), fifo.octets());
        fifo.drop_frame(store);
        let dropped = packets - fifo.packets();
        self.packets -= dropped;
        self.octets -= octets - fifo.octets();
        dropped
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.packets == 0
    }

    pub(super) const fn packets(&self) -> usize {
        self.packets
    }

    pub(super) const fn octets(&self) -> usize {
        self.octets
    }
}
