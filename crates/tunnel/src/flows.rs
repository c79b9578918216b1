//! Flows towards one peer, with the numbers that this site assigned.
//!
//! A number is not assigned again within an epoch. After that, the number that was free for longest comes
//! first: a packet with a long delay is rebuilt correctly or not at all. A flow that the peer has not
//! acknowledged is announced again when it is used after a second, so no announcement has to arrive.
//!
//! A flow to which nobody answers, since its destination was not heard behind the peer, is withdrawn sooner than others: so what a flood in a
//! LAN takes is free again within a minute. The tunnelling paper names this in section 6.1 and leaves it open.

use alloc::collections::VecDeque;
use alloc::vec;
use alloc::vec::Vec;
use core::time::Duration;

use wire::time::Instant;
use wire::tunnel::{Flow, FlowIndex};

use crate::exchange::RequestId;
use crate::hash::Hasher;
use crate::live_stations::Liveness;
use crate::settings::{LaneShare, Limits};
use crate::table::Table;

/// Interval between announcements without an answer.
const AGAIN: Duration = Duration::from_secs(1);
/// Age of an unused flow without an answer at which it is withdrawn. Those who forward flows elsewhere tell of their use within 20 seconds.
const UNANSWERED: Duration = Duration::from_secs(30);
/// Flows of relayed packets towards a peer: one for each other peer of a site. They have slots and numbers of their own, so that no flood in
/// a LAN takes them.
pub(crate) const RELAYS: usize = 255;
/// No slot.
const NONE: u16 = u16::MAX;
/// Number of flow numbers.
const INDEXES: usize = 1 << 16;

/// A flow towards a peer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NumberedFlow {
    /// The flow.
    pub flow: Flow,
    /// Its number.
    pub index: FlowIndex,
    /// True if the peer knows it.
    pub acknowledged: bool,
    /// The request by which it is announced.
    pub request: RequestId,
    /// Time of its last frame.
    pub used: Instant,
    /// Time of its last announcement.
    announced_at: Option<Instant>,
    /// Time at which it was told last that it is in use.
    offered_at: Option<Instant>,
    /// Its station was not known to be live when it got its number.
    is_strangers: bool,
}

/// Slot of a numbered flow, until another one is removed or numbered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct FlowSlot(usize);

/// Reason why a flow gets no number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum FlowRefusal {
    /// There are [`Limits::flows`], or half of that of stations that are not live.
    Table,
    /// There are [`Limits::flows_per_sci`] with this SCI.
    Sci,
    /// There are [`Limits::flows_per_source`] with this source address.
    Source,
    /// All numbers were given in this epoch.
    Indexes,
}

/// The flows towards one peer.
#[derive(Debug)]
pub(crate) struct Flows {
    /// Hash of a flow to its slot, plus 1.
    index: Table,
    slots: Vec<Option<NumberedFlow>>,
    free: Vec<u16>,
    /// Number to the slot of its flow.
    by_number: Vec<u16>,
    /// Free numbers, the one freed first in front.
    numbers: VecDeque<u16>,
    /// Number of them, from the front, that may be assigned in this epoch.
    fresh: usize,
    /// Hash of an SCI, or of a source address, to the number of its flows.
    per_sci: Table,
    per_source: Table,
    /// Number of flows of relayed packets, and of stations that were not known to be live.
    relays: usize,
    strangers: usize,
    /// The newest request: one for each number that was assigned.
    requests: RequestId,
    limits: Limits,
    /// Slot at which the next ageing step begins.
    cursor: usize,
}

impl Flows {
    pub(crate) fn new(limits: &Limits, share: LaneShare) -> Self {
        let limits = &share.limits(limits);
        let flows = limits.flows.clamp(1, INDEXES / 2) + RELAYS;
        let numbers: VecDeque<u16> = share.flow_numbers(limits.flow_numbers).collect();
        Self {
            index: Table::new(flows),
            slots: vec![None; flows],
            free: (0..flows as u16).rev().collect(),
            by_number: vec![NONE; INDEXES],
            fresh: numbers.len(),
            numbers,
            per_sci: Table::new(flows),
            per_source: Table::new(flows),
            relays: 0,
            strangers: 0,
            requests: RequestId::default(),
            limits: *limits,
            cursor: 0,
        }
    }

    /// Removes all flows; earlier numbers are not assigned before the next epoch.
    pub(crate) fn clear(&mut self, hasher: &Hasher) {
        for slot in 0..self.slots.len() {
            self.remove(hasher, slot);
        }
    }

    /// Begins an epoch: all free numbers may be assigned.
    pub(crate) fn begin_epoch(&mut self) {
        self.fresh = self.numbers.len();
    }

    /// True if few numbers are left, so that the next epoch should come.
    pub(crate) fn run_short(&self) -> bool {
        self.fresh < RELAYS + (self.numbers.len() / 4).min(self.slots.len() - RELAYS)
    }

    /// Slot of the flow with this [`Hasher::flow`], if it has a number.
    pub(crate) fn find(&self, hash: u64, flow: &Flow) -> Option<FlowSlot> {
        let slot = self.index.find(hash)? as usize - 1;
        self.slots[slot].as_ref().filter(|given| given.flow == *flow).map(|_| FlowSlot(slot))
    }

    /// The flow in a slot that was found last. Counts as used now.
    pub(crate) fn used(&mut self, now: Instant, FlowSlot(slot): FlowSlot) -> Option<&mut NumberedFlow> {
        let given = self.slots.get_mut(slot)?.as_mut()?;
        given.used = now;
        Some(given)
    }

    /// Checks whether a flow without a number may get one.
    pub(crate) fn admits(&self, hasher: &Hasher, flow: &Flow, liveness: Liveness) -> Result<(), FlowRefusal> {
        let held = |table: &Table, hash| table.find(hash).unwrap_or(0);
        if flow.relay().is_some() {
            return match (self.relays < RELAYS, self.fresh > 0) {
                (true, true) => Ok(()),
                (false, _) => Err(FlowRefusal::Table),
                (true, false) => Err(FlowRefusal::Indexes),
            };
        }
        let room = self.slots.len() - RELAYS;
        if self.len() - self.relays >= room || liveness == Liveness::Stranger && self.strangers >= room / 2 {
            return Err(FlowRefusal::Table);
        }
        if flow
            .sci()
            .is_some_and(|sci| held(&self.per_sci, hasher.sci(sci)) >= self.limits.flows_per_sci as u64)
        {
            return Err(FlowRefusal::Sci);
        }
        if held(&self.per_source, hasher.address(flow.source)) >= self.limits.flows_per_source as u64 {
            return Err(FlowRefusal::Source);
        }
        if self.fresh <= RELAYS { Err(FlowRefusal::Indexes) } else { Ok(()) }
    }

    /// Assigns a number to a flow that [`Flows::admits`].
    pub(crate) fn assign(
        &mut self,
        now: Instant,
        hasher: &Hasher,
        flow: Flow,
        liveness: Liveness,
    ) -> Option<&mut NumberedFlow> {
        let slot = *self.free.last()?;
        let number = *self.numbers.front().filter(|_| self.fresh > 0)?;
        // Of two flows with one hash, the second gets no number.
        if !self.index.insert(hasher.flow(&flow), u64::from(slot) + 1) {
            return None;
        }
        self.free.pop();
        self.numbers.pop_front();
        self.fresh -= 1;
        let is_strangers = flow.relay().is_none() && liveness != Liveness::Live;
        self.strangers += usize::from(is_strangers);
        if flow.relay().is_some() {
            self.relays += 1;
        } else {
            if let Some(sci) = flow.sci() {
                count_up(&mut self.per_sci, hasher.sci(sci));
            }
            count_up(&mut self.per_source, hasher.address(flow.source));
        }
        self.by_number[usize::from(number)] = slot;
        let given = NumberedFlow {
            flow,
            index: FlowIndex(number),
            acknowledged: false,
            request: self.requests.take(),
            used: now,
            announced_at: None,
            offered_at: None,
            is_strangers,
        };
        Some(self.slots[usize::from(slot)].insert(given))
    }

    /// The flow with a number.
    pub(crate) fn by_index(&mut self, index: FlowIndex) -> Option<&mut NumberedFlow> {
        let slot = self.by_number[usize::from(index.0)];
        self.slots.get_mut(usize::from(slot))?.as_mut()
    }

    /// Records that the peer knows the flow that this request announced, or, without one, that it does not know the number. True if the flow
    /// of this number is known from here on.
    pub(crate) fn acknowledge(&mut self, index: FlowIndex, known: Option<RequestId>) -> bool {
        let Some(given) = self.by_index(index) else { return false };
        let is_another = known.is_some_and(|request| request != given.request);
        if is_another {
            return false;
        }
        given.acknowledged = known.is_some();
        given.acknowledged
    }

    /// Ages the next `budget` slots: offers the numbers of aged flows to `withdraw`, and frees them if it
    /// accepts. `is_answered` is asked of flows that have been unused for [`UNANSWERED`].
    pub(crate) fn age(
        &mut self,
        now: Instant,
        hasher: &Hasher,
        budget: usize,
        is_answered: impl Fn(&Flow) -> bool,
        mut withdraw: impl FnMut(FlowIndex) -> bool,
    ) {
        for _ in 0..budget.min(self.slots.len()) {
            let slot = self.cursor;
            self.cursor = (self.cursor + 1) % self.slots.len();
            let Some(given) = self.slots[slot] else { continue };
            let unused = now.since(given.used);
            let is_old = unused >= self.limits.flow_age || unused >= UNANSWERED && !is_answered(&given.flow);
            if is_old && withdraw(given.index) {
                self.remove(hasher, slot);
            }
        }
    }

    fn remove(&mut self, hasher: &Hasher, slot: usize) {
        let Some(given) = self.slots[slot].take() else { return };
        self.index.remove(hasher.flow(&given.flow));
        self.free.push(slot as u16);
        self.by_number[usize::from(given.index.0)] = NONE;
        self.numbers.push_back(given.index.0);
        self.strangers -= usize::from(given.is_strangers);
        if given.flow.relay().is_some() {
            self.relays -= 1;
            return;
        }
        if let Some(sci) = given.flow.sci() {
            count_down(&mut self.per_sci, hasher.sci(sci));
        }
        count_down(&mut self.per_source, hasher.address(given.flow.source));
    }

    /// Number of flows.
    pub(crate) const fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// All flows, in no order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &NumberedFlow> {
        self.slots.iter().flatten()
    }
}

impl NumberedFlow {
    /// True if an announcement is due, the first or a repeated one.
    pub(crate) fn is_due(&self, now: Instant) -> bool {
        !self.acknowledged && self.announced_at.is_none_or(|announced_at| now.since(announced_at) >= AGAIN)
    }

    /// True if it is to be told that the flow is in use.
    pub(crate) fn is_offer_due(&self, now: Instant) -> bool {
        self.acknowledged && self.offered_at.is_none_or(|offered_at| now.since(offered_at) >= AGAIN)
    }

    /// Records that it was told.
    pub(crate) const fn note_offered(&mut self, now: Instant) {
        self.offered_at = Some(now);
    }

    /// Records an announcement.
    pub(crate) const fn note_announced(&mut self, now: Instant) {
        self.announced_at = Some(now);
    }
}

fn count_up(table: &mut Table, hash: u64) {
    match table.find_mut(hash) {
        Some(count) => *count += 1,
        None => {
            table.insert(hash, 1);
        }
    }
}

fn count_down(table: &mut Table, hash: u64) {
    match table.find_mut(hash) {
        Some(count) if *count > 1 => *count -= 1,
        _ => {
            table.remove(hash);
        }
    }
}

#[cfg(test)]
mod tests;
