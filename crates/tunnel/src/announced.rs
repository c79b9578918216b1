//! The flows that a peer has announced, by its numbers. Only the peer ages them; what it may announce is bounded.

use alloc::vec;
use alloc::vec::Vec;

use wire::tunnel::{Flow, FlowIndex};

/// No slot.
const NONE: u16 = u16::MAX;

/// A peer's flows by number.
#[derive(Debug)]
pub(crate) struct Announced {
    by_number: Vec<u16>,
    slots: Vec<Option<Flow>>,
    free: Vec<u16>,
}

impl Announced {
    /// Room for `flows` flows, at most 65,535.
    pub(crate) fn new(flows: usize) -> Self {
        let flows = flows.clamp(1, usize::from(NONE));
        Self {
            by_number: vec![NONE; 1 << 16],
            slots: vec![None; flows],
            free: (0..flows as u16).rev().collect(),
        }
    }

    /// The flow with this number.
    pub(crate) fn find(&self, index: FlowIndex) -> Option<Flow> {
        *self.slots.get(usize::from(self.by_number[usize::from(index.0)]))?
    }

    /// This number is this flow from here on; false if there is no room.
    pub(crate) fn add(&mut self, index: FlowIndex, flow: Flow) -> bool {
        let slot = &mut self.by_number[usize::from(index.0)];
        if *slot == NONE {
            let Some(free) = self.free.pop() else { return false };
            *slot = free;
        }
        self.slots[usize::from(*slot)] = Some(flow);
        true
    }

    /// The peer has withdrawn this number.
    pub(crate) fn remove(&mut self, index: FlowIndex) {
        let slot = core::mem::replace(&mut self.by_number[usize::from(index.0)], NONE);
        if slot != NONE {
            self.slots[usize::from(slot)] = None;
            self.free.push(slot);
        }
    }

    /// Forgets all.
    pub(crate) fn clear(&mut self) {
        for number in 0..=u16::MAX {
            self.remove(FlowIndex(number));
        }
    }

    /// How many there are.
    pub(crate) const fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }
}
