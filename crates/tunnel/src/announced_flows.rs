//! Flows that a peer has announced, by its numbers. Only the peer ages them; their number is bounded.

use alloc::vec;
use alloc::vec::Vec;

use wire::tunnel::{Flow, FlowIndex};

use crate::flows::RELAYS;

/// No slot.
const NONE: u16 = u16::MAX;

/// A peer's flows by number.
#[derive(Debug)]
pub(crate) struct AnnouncedFlows {
    by_number: Vec<u16>,
    slots: Vec<Option<Flow>>,
    free: Vec<u16>,
    /// Flows that there is still room for: those of frames, and those of relayed packets.
    room: [usize; 2],
}

impl AnnouncedFlows {
    /// Room for `flows` flows of frames, and for as many of relayed packets as there can be; at most 65,535.
    pub(crate) fn new(flows: usize) -> Self {
        let frames = flows.clamp(1, usize::from(NONE) - RELAYS);
        let flows = frames + RELAYS;
        Self {
            by_number: vec![NONE; 1 << 16],
            slots: vec![None; flows],
            free: (0..flows as u16).rev().collect(),
            room: [frames, RELAYS],
        }
    }

    /// The flow with this number.
    pub(crate) fn find(&self, index: FlowIndex) -> Option<Flow> {
        *self.slots.get(usize::from(self.by_number[usize::from(index.0)]))?
    }

    /// Binds this number to this flow. False if there is no room.
    pub(crate) fn add(&mut self, index: FlowIndex, flow: Flow) -> bool {
        let (before, kind) = (self.find(index).map(kind), kind(flow));
        if before != Some(kind) {
            let Some(room) = self.room[kind].checked_sub(1) else { return false };
            self.room[kind] = room;
            if let Some(before) = before {
                self.room[before] += 1;
            }
        }
        let slot = &mut self.by_number[usize::from(index.0)];
        if *slot == NONE {
            let Some(free) = self.free.pop() else { return false };
            *slot = free;
        }
        self.slots[usize::from(*slot)] = Some(flow);
        true
    }

    /// Removes a number that the peer has withdrawn.
    pub(crate) fn remove(&mut self, index: FlowIndex) {
        let slot = core::mem::replace(&mut self.by_number[usize::from(index.0)], NONE);
        if slot != NONE {
            if let Some(flow) = self.slots[usize::from(slot)].take() {
                self.room[kind(flow)] += 1;
            }
            self.free.push(slot);
        }
    }

    /// Removes all.
    pub(crate) fn clear(&mut self) {
        for number in 0..=u16::MAX {
            self.remove(FlowIndex(number));
        }
    }

    /// Number of flows.
    pub(crate) const fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }
}

fn kind(flow: Flow) -> usize {
    usize::from(flow.relay().is_some())
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::tunnel::ParsedFrame;

    fn flow(last: u8) -> Flow {
        let mut frame = [last; 28];
        frame[12..15].copy_from_slice(&[0x88, 0xe5, 0x20]);
        ParsedFrame::parse(&frame).expect("a frame").flow
    }

    #[test]
    fn what_a_peer_announces_is_bounded() {
        let mut announced = AnnouncedFlows::new(2);
        assert!(announced.add(FlowIndex(0), flow(1)) && announced.add(FlowIndex(65535), flow(2)));
        assert!(!announced.add(FlowIndex(7), flow(3)));
        assert!(announced.add(FlowIndex(0), flow(4)), "a number that is known has another flow from here on");
        assert_eq!(announced.find(FlowIndex(0)), Some(flow(4)));
        assert_eq!(announced.find(FlowIndex(7)), None);
        announced.remove(FlowIndex(0));
        announced.remove(FlowIndex(0));
        assert_eq!(announced.len(), 1);
        assert!(announced.add(FlowIndex(7), flow(3)));
        assert!(!announced.add(FlowIndex(8), flow(5)));
        for number in 0..RELAYS as u16 {
            let relay = Flow::relayed(wire::tunnel::RelayLeg::To, [number as u8; 20]);
            assert!(announced.add(FlowIndex(100 + number), relay), "frames take no room of relays");
        }
        let relay = Flow::relayed(wire::tunnel::RelayLeg::To, [0; 20]);
        assert!(!announced.add(FlowIndex(99), relay) && !announced.add(FlowIndex(100), flow(6)));
        assert!(!announced.add(FlowIndex(7), relay) && announced.add(FlowIndex(7), flow(7)));
        announced.clear();
        assert_eq!((announced.len(), announced.find(FlowIndex(7))), (0, None));
        assert!(announced.add(FlowIndex(1), flow(1)) && announced.add(FlowIndex(2), flow(2)));
    }
}
