//! Frames of flows that the peer does not know yet.
//!
//! This mode has no long form. So a new flow's frames wait in order until its announcement is acknowledged,
//! and no frame of the flow overtakes them. A frame waits for [`WAIT`] at most. There is room for
//! [`FRAMES_PER_FLOW`] of a flow and [`FRAMES`] towards a peer, in memory allocated at the start: an attacker
//! who invents flows on the LAN costs others their wait, and no memory (test
//! `a_flood_of_flows_stays_in_its_memory`).

use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;
use core::time::Duration;

use wire::Instant;
use wire::tunnel::FlowIndex;

use crate::counters::OutDiscard;

/// Maximum wait of a frame.
pub(crate) const WAIT: Duration = Duration::from_millis(100);
/// Most waiting frames of one flow.
pub(crate) const FRAMES_PER_FLOW: usize = 64;
/// Most waiting frames towards one peer.
pub(crate) const FRAMES: usize = 256;

/// A released frame. Its octets are [`Waiting::frame`] until the next frame is queued.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct ReleasedFrame {
    /// Its flow.
    pub(crate) flow: FlowIndex,
    /// The epoch of its PN.
    pub(crate) epoch: u32,
    slot: u16,
}

#[derive(Clone, Copy, Debug)]
struct Slot {
    arrived: Instant,
    epoch: u32,
    octets: usize,
    /// Next slot of the same flow, or of the free list.
    next: Option<u16>,
}

/// Waiting frames of one flow, never empty.
#[derive(Clone, Copy, Debug)]
struct Queue {
    flow: FlowIndex,
    first: u16,
    last: u16,
    frames: usize,
    /// True if the peer knows the flow: its frames go one after the other.
    announced: bool,
}

/// Waiting frames towards one peer.
#[derive(Debug)]
pub(crate) struct Waiting {
    /// In no order; at most one for each frame.
    queues: Vec<Queue>,
    slots: Box<[Slot]>,
    octets: Box<[u8]>,
    /// Octets of the longest frame.
    frame_octets: usize,
    free: Option<u16>,
}

impl Waiting {
    /// Room for frames of up to `frame_octets`; all memory that is ever used.
    pub(crate) fn new(frame_octets: usize) -> Self {
        let slot = |place: usize| Slot {
            arrived: Instant::START,
            epoch: 0,
            octets: 0,
            next: if place + 1 < FRAMES { Some(place as u16 + 1) } else { None },
        };
        Self {
            queues: Vec::with_capacity(FRAMES),
            slots: (0..FRAMES).map(slot).collect(),
            octets: vec![0; FRAMES * frame_octets].into_boxed_slice(),
            frame_octets,
            free: Some(0),
        }
    }

    /// True if frames of this flow wait: another one has to wait behind them. Looks at each flow with waiting
    /// frames, [`FRAMES`] at most.
    pub(crate) fn holds(&self, flow: FlowIndex) -> bool {
        self.place(flow).is_some()
    }

    /// True if no frame waits.
    pub(crate) const fn is_empty(&self) -> bool {
        self.queues.is_empty()
    }

    /// Queues a frame behind those of its flow.
    ///
    /// # Errors
    /// [`OutDiscard::WaitFull`], [`OutDiscard::TooLong`].
    pub(crate) fn push(
        &mut self,
        now: Instant,
        flow: FlowIndex,
        epoch: u32,
        frame: &[u8],
    ) -> Result<(), OutDiscard> {
        if frame.len() > self.frame_octets {
            return Err(OutDiscard::TooLong);
        }
        let place = self.place(flow);
        if place.is_some_and(|place| self.queues[place].frames >= FRAMES_PER_FLOW) {
            return Err(OutDiscard::WaitFull);
        }
        let free = self.free.ok_or(OutDiscard::WaitFull)?;
        let slot = &mut self.slots[usize::from(free)];
        self.free = slot.next;
        *slot = Slot { arrived: now, epoch, octets: frame.len(), next: None };
        let start = usize::from(free) * self.frame_octets;
        self.octets[start..start + frame.len()].copy_from_slice(frame);
        match place {
            Some(place) => {
                let queue = &mut self.queues[place];
                self.slots[usize::from(queue.last)].next = Some(free);
                (queue.last, queue.frames) = (free, queue.frames + 1);
            }
            None => self.queues.push(Queue { flow, first: free, last: free, frames: 1, announced: false }),
        }
        Ok(())
    }

    /// Releases the frames of a flow that the peer knows. False if there are none.
    pub(crate) fn release(&mut self, flow: FlowIndex) -> bool {
        let Some(place) = self.place(flow) else { return false };
        self.queues[place].announced = true;
        true
    }

    /// Takes the next released frame; of one flow the oldest first.
    pub(crate) fn poll(&mut self) -> Option<ReleasedFrame> {
        let place = self.queues.iter().position(|queue| queue.announced)?;
        let flow = self.queues[place].flow;
        let slot = self.take_first(place);
        Some(ReleasedFrame { flow, epoch: self.slots[usize::from(slot)].epoch, slot })
    }

    /// Octets of a frame that has just been taken.
    pub(crate) fn frame(&self, released: ReleasedFrame) -> &[u8] {
        let start = usize::from(released.slot) * self.frame_octets;
        &self.octets[start..start + self.slots[usize::from(released.slot)].octets]
    }

    /// Discards frames past the maximum wait. Returns their number, [`FRAMES`] at most.
    pub(crate) fn expire(&mut self, now: Instant) -> u64 {
        let (mut expired, mut place) = (0, 0);
        while let Some(queue) = self.queues.get(place) {
            if now.since(self.slots[usize::from(queue.first)].arrived) < WAIT {
                place += 1;
                continue;
            }
            // This index now holds the flow's next frame, or another flow.
            self.take_first(place);
            expired += 1;
        }
        expired
    }

    /// Discards all frames. Returns their number.
    pub(crate) fn clear(&mut self) -> u64 {
        let mut cleared = 0;
        while !self.queues.is_empty() {
            self.take_first(0);
            cleared += 1;
        }
        cleared
    }

    fn place(&self, flow: FlowIndex) -> Option<usize> {
        self.queues.iter().position(|queue| queue.flow == flow)
    }

    /// Takes the first frame out of a queue; its octets stay until the slot is used again.
    fn take_first(&mut self, place: usize) -> u16 {
        let queue = &mut self.queues[place];
        let taken = queue.first;
        let next = core::mem::replace(&mut self.slots[usize::from(taken)].next, self.free);
        self.free = Some(taken);
        match next {
            Some(next) => (queue.first, queue.frames) = (next, queue.frames - 1),
            None => drop(self.queues.swap_remove(place)),
        }
        taken
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;
    use std::collections::{BTreeMap, VecDeque};
    use std::vec::Vec;

    const FLOW: FlowIndex = FlowIndex(7);

    fn at(milliseconds: u64) -> Instant {
        Instant::START + Duration::from_millis(milliseconds)
    }

    fn polled(waiting: &mut Waiting) -> Option<(u16, u32, Vec<u8>)> {
        let released = waiting.poll()?;
        Some((released.flow.0, released.epoch, waiting.frame(released).to_vec()))
    }

    fn released(waiting: &mut Waiting) -> Vec<(u16, u32, Vec<u8>)> {
        core::iter::from_fn(|| polled(waiting)).collect()
    }

    #[test]
    fn a_flow_waits_in_order_until_it_is_announced() {
        let mut waiting = Waiting::new(100);
        for number in 0..FRAMES_PER_FLOW as u8 {
            assert_eq!(waiting.push(at(0), FLOW, 3, &[number; 60]), Ok(()));
        }
        assert_eq!(waiting.push(at(0), FLOW, 3, &[0; 60]), Err(OutDiscard::WaitFull));
        assert_eq!(waiting.push(at(0), FlowIndex(8), 3, &[1; 100]), Ok(()), "others have room");
        assert_eq!(waiting.push(at(0), FlowIndex(8), 3, &[1; 101]), Err(OutDiscard::TooLong));
        assert_eq!(waiting.poll(), None);
        assert!(waiting.release(FLOW));
        assert_eq!(polled(&mut waiting), Some((7, 3, [0; 60].to_vec())));
        assert!(waiting.holds(FLOW), "what comes now is not to overtake");
        assert_eq!(waiting.push(at(5), FLOW, 4, &[200; 10]), Ok(()));
        let rest = released(&mut waiting);
        assert_eq!(rest.len(), FRAMES_PER_FLOW);
        assert_eq!(rest[0], (7, 3, [1; 60].to_vec()));
        assert_eq!(rest[63], (7, 4, [200; 10].to_vec()));
        assert!(!waiting.holds(FLOW) && waiting.holds(FlowIndex(8)));
        assert_eq!(waiting.clear(), 1);
        assert!(waiting.is_empty());
    }

    #[test]
    fn nothing_waits_longer_than_it_may() {
        let mut waiting = Waiting::new(64);
        for (milliseconds, flow) in [(0, 1), (10, 2), (30, 1), (30, 3)] {
            waiting.push(at(milliseconds), FlowIndex(flow), 0, &[flow as u8]).expect("room");
        }
        // (now, expired)
        for (now, expired) in [(99, 0), (100, 1), (109, 0), (110, 1), (129, 0), (130, 2), (500, 0)] {
            assert_eq!(waiting.expire(at(now)), expired, "at {now}");
        }
        assert!(waiting.is_empty());
    }

    #[test]
    fn a_flood_of_flows_stays_in_its_memory() {
        let mut waiting = Waiting::new(64);
        for flow in 0..5000 {
            let expected = if usize::from(flow) < FRAMES { Ok(()) } else { Err(OutDiscard::WaitFull) };
            assert_eq!(waiting.push(at(0), FlowIndex(flow), 0, &[1; 64]), expected);
        }
        assert_eq!(waiting.queues.capacity(), FRAMES);
        assert_eq!(waiting.expire(at(100)), FRAMES as u64);
        assert_eq!(waiting.push(at(100), FlowIndex(5000), 0, &[1; 64]), Ok(()));
    }

    proptest! {
        /// Against queues that grow as they like.
        #[test]
        fn it_agrees_with_queues_of_a_map(steps in vec((0..6_u8, 0..12_u16, 0..40_u64), 1..600)) {
            let mut waiting = Waiting::new(8);
            let mut model = BTreeMap::<u16, (bool, VecDeque<(u64, u32)>)>::new();
            let (mut now, mut number) = (0, 0_u32);
            for (kind, flow, time) in steps {
                match kind {
                    0 => {
                        now += time;
                        let mut expired = 0;
                        for (_, queue) in model.values_mut() {
                            while queue.front().is_some_and(|&(arrived, _)| now - arrived >= 100) {
                                queue.pop_front();
                                expired += 1;
                            }
                        }
                        prop_assert_eq!(waiting.expire(at(now)), expired);
                    }
                    1 => {
                        prop_assert_eq!(waiting.release(FlowIndex(flow)), model.contains_key(&flow));
                        model.entry(flow).and_modify(|(announced, _)| *announced = true);
                    }
                    2 => {
                        match polled(&mut waiting) {
                            None => prop_assert!(model.values().all(|(announced, _)| !announced)),
                            Some((flow, epoch, frame)) => {
                                let (announced, queue) = model.get_mut(&flow).expect("it waits");
                                let (_, expected) = queue.pop_front().expect("it waits");
                                prop_assert!(*announced);
                                prop_assert_eq!(epoch, expected);
                                prop_assert_eq!(frame, expected.to_be_bytes().to_vec());
                            }
                        }
                    }
                    _ => {
                        number += 1;
                        let total: usize = model.values().map(|(_, queue)| queue.len()).sum();
                        let (_, queue) = model.entry(flow).or_default();
                        let room = queue.len() < FRAMES_PER_FLOW && total < FRAMES;
                        let pushed = waiting.push(at(now), FlowIndex(flow), number, &number.to_be_bytes());
                        prop_assert_eq!(pushed.is_ok(), room);
                        if room {
                            queue.push_back((now, number));
                        }
                    }
                }
                model.retain(|_, (_, queue)| !queue.is_empty());
                for flow in 0..12 {
                    prop_assert_eq!(waiting.holds(FlowIndex(flow)), model.contains_key(&flow));
                }
            }
        }
    }
}
