//! Flows that the peer has announced, found by their fields: packets carry no number in this mode.

use wire::tunnel::{Flow, FlowIndex, OuterTags};

use crate::announced_flows::AnnouncedFlows;
use crate::hash::Hasher;
use crate::table::Table;

/// A peer's flows, by number and by their fields.
#[derive(Debug)]
pub(crate) struct KnownFlows {
    announced: AnnouncedFlows,
    /// Hash of a flow to its number, plus 1.
    numbers: Table,
}

impl KnownFlows {
    /// Room for `flows` flows.
    pub(crate) fn new(flows: usize) -> Self {
        Self { announced: AnnouncedFlows::new(flows), numbers: Table::new(flows) }
    }

    /// The flow with VLAN tags that the peer has announced under this number, if it is `flow` without them.
    #[cold]
    #[inline(never)]
    pub(crate) fn tagged(&self, flow: &Flow, number: FlowIndex) -> Option<Flow> {
        let is_it = |known: &Flow| !known.tags.is_empty() && known.with_tags(OuterTags::default()) == *flow;
        self.announced.find(number).filter(is_it)
    }

    /// True if the peer has announced this flow. One hash and one look-up.
    pub(crate) fn has(&self, hasher: &Hasher, flow: &Flow) -> bool {
        self.number(hasher, flow).is_some()
    }

    /// Number of a flow that the peer has announced.
    pub(crate) fn number(&self, hasher: &Hasher, flow: &Flow) -> Option<FlowIndex> {
        let number = FlowIndex((self.numbers.find(hasher.flow(flow))? - 1) as u16);
        (self.announced.find(number) == Some(*flow)).then_some(number)
    }

    /// Binds this number to this flow. False if there is no room, or the flow has no SCI: such flows do not
    /// occur in this mode.
    pub(crate) fn add(&mut self, hasher: &Hasher, index: FlowIndex, flow: Flow) -> bool {
        if flow.sci().is_none() {
            return false;
        }
        self.remove(hasher, index);
        if !self.announced.add(index, flow) {
            return false;
        }
        let (hash, value) = (hasher.flow(&flow), u64::from(index.0) + 1);
        match self.numbers.find_mut(hash) {
            // Announced under another number before, which is about to be withdrawn.
            Some(number) => *number = value,
            None => drop(self.numbers.insert(hash, value)),
        }
        true
    }

    /// Removes a number that the peer has withdrawn.
    pub(crate) fn remove(&mut self, hasher: &Hasher, index: FlowIndex) {
        let Some(flow) = self.announced.find(index) else { return };
        self.announced.remove(index);
        let hash = hasher.flow(&flow);
        if self.numbers.find(hash) == Some(u64::from(index.0) + 1) {
            self.numbers.remove(hash);
        }
    }

    /// Removes all.
    pub(crate) fn clear(&mut self) {
        self.announced.clear();
        self.numbers.clear();
    }

    /// Number of flows.
    pub(crate) const fn len(&self) -> usize {
        self.announced.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flow(number: u8) -> Flow {
        let mut octets = [number; Flow::OCTETS];
        octets[..4].copy_from_slice(&[0x20, 0, 0, 0]);
        Flow::parse(&octets).expect("a flow with SCI")
    }

    #[test]
    fn a_flow_is_known_by_its_last_number() {
        let hasher = Hasher::new(&[3; 16]);
        let mut known = KnownFlows::new(3);
        let (one, two) = (FlowIndex(1), FlowIndex(2));
        assert!(known.add(&hasher, one, flow(1)) && known.add(&hasher, one, flow(1)));
        assert_eq!((known.number(&hasher, &flow(1)), known.len()), (Some(one), 1));
        // Another number for it, and then the first one is withdrawn.
        assert!(known.add(&hasher, two, flow(1)));
        known.remove(&hasher, one);
        assert_eq!((known.number(&hasher, &flow(1)), known.len()), (Some(two), 1));
        // A number that becomes another flow.
        assert!(known.add(&hasher, two, flow(2)));
        assert!(!known.has(&hasher, &flow(1)) && known.has(&hasher, &flow(2)));
        assert!(known.add(&hasher, FlowIndex(3), flow(3)) && known.add(&hasher, FlowIndex(4), flow(4)));
        assert!(!known.add(&hasher, FlowIndex(5), flow(5)) && !known.has(&hasher, &flow(5)));
        known.clear();
        assert_eq!((known.len(), known.number(&hasher, &flow(2))), (0, None));
        let without_sci = Flow::parse(&[0; Flow::OCTETS]).expect("a flow");
        assert!(!known.add(&hasher, one, without_sci));
    }
}
