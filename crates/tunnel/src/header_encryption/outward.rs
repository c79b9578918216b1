//! From the LAN to the peer.

use arrayvec::ArrayVec;
use core::time::Duration;
use wire::time::Instant;
use wire::tunnel::{FlowIndex, ParsedFrame};

use super::HeaderEncryption;
use super::associations::Standing;
use super::sealer::Sealer;
use super::waiting::ReleasedFrame;
use crate::counters::{OutDiscard, PeerCounters};
use crate::exchange::Event;
use crate::identifier::Outward;
use crate::packet::Packet;
use crate::site_state::{PeerContext, SiteState};

/// Minimum interval between repeated requests.
const AGAIN: Duration = Duration::from_secs(1);

impl HeaderEncryption {
    /// Packets of a frame; none if it waits.
    pub(crate) fn dispatch(
        &mut self,
        now: Instant,
        context: &PeerContext,
        counters: &mut PeerCounters,
        state: &mut SiteState,
        taken: &ParsedFrame,
        frame: &[u8],
    ) -> Outward {
        Sealer::admit(taken, context.frames, frame)?;
        if self.sealer.epoch().is_none() {
            return Err(OutDiscard::NoEpoch);
        }
        let hash = state.hasher.flow(&taken.flow);
        let slot = state.assign_number(context, &mut self.flows, now, hash, &taken.flow);
        if slot.is_err() {
            // No flow may be left that has a number.
            self.renew_numbers(now);
            self.want_epoch(now, context, state);
        }
        let given = self.flows.used(now, slot?).ok_or(OutDiscard::FlowQuota)?;
        state.announce(now, context, given);
        let (index, acknowledged) = (given.index, given.acknowledged);
        let standing = if acknowledged { Standing::Known } else { Standing::Newcomer };
        let epoch = self.take_pn(now, context, state, taken, standing)?;
        if acknowledged && !self.waiting.holds(index) {
            return self.seal(context, counters, (taken, index), epoch, frame);
        }
        self.waiting.push(now, index, epoch, frame)?;
        counters.out_pkts_waited += 1;
        state.watch = true;
        Ok(ArrayVec::new())
    }

    /// Takes a PN, which may begin the next epoch, and requests another epoch after it.
    fn take_pn(
        &mut self,
        now: Instant,
        context: &PeerContext,
        state: &mut SiteState,
        taken: &ParsedFrame,
        standing: Standing,
    ) -> Result<u32, OutDiscard> {
        self.renew_numbers(now);
        let before = self.sealer.epoch();
        let epoch = self.sealer.take_pn(now, taken, standing);
        if self.sealer.epoch() != before {
            self.flows.begin_epoch();
        }
        self.want_epoch(now, context, state);
        epoch
    }

    /// Begins the next epoch if numbers run short. The next frame retries, until it begins.
    fn renew_numbers(&mut self, now: Instant) {
        if self.flows.run_short() && self.sealer.start_next(now).is_ok() {
            self.flows.begin_epoch();
        }
    }

    /// Requests the next epoch if none is in reserve; again if it does not come.
    fn want_epoch(&mut self, now: Instant, context: &PeerContext, state: &mut SiteState) {
        let Some(newest) = self.sealer.wants_epoch_after() else { return };
        if self.wanted.is_some_and(|(after, wanted)| after == newest && now.since(wanted) < AGAIN) {
            return;
        }
        let (peer, generation) = (context.peer, context.generation);
        if state.events.tell(Event::EpochWanted { peer, generation, newest }) {
            self.wanted = Some((newest, now));
        }
    }

    fn seal(
        &mut self,
        context: &PeerContext,
        counters: &mut PeerCounters,
        (taken, index): (&ParsedFrame, FlowIndex),
        epoch: u32,
        frame: &[u8],
    ) -> Outward {
        let packets = self.sealer.seal(taken, index, epoch, frame, context.path_payload)?;
        counters.out_pkts_split += u64::from(packets.len() == 2);
        Ok(packets)
    }

    /// Takes a waiting frame that may go now, with its packets:
    /// [`Waiting::frame`](super::waiting::Waiting::frame). Drops and counts frames that cannot go; at most as
    /// many as wait.
    pub(crate) fn poll_released(
        &mut self,
        now: Instant,
        context: &PeerContext,
        counters: &mut PeerCounters,
    ) -> Option<(ArrayVec<Packet, 2>, ReleasedFrame)> {
        counters.count_out_times(OutDiscard::WaitExpired, self.waiting.expire(now));
        while let Some(released) = self.waiting.poll() {
            let frame = self.waiting.frame(released);
            let sealed = ParsedFrame::parse(frame).map_err(|_| OutDiscard::TooShort).and_then(|taken| {
                self.sealer.seal(&taken, released.flow, released.epoch, frame, context.path_payload)
            });
            match sealed {
                Ok(packets) => {
                    counters.out_pkts_split += u64::from(packets.len() == 2);
                    return Some((packets, released));
                }
                Err(reason) => counters.count_out(reason),
            }
        }
        None
    }

    /// Octets of a frame that [`HeaderEncryption::poll_released`] has just taken.
    pub(crate) fn released_frame(&self, released: ReleasedFrame) -> &[u8] {
        self.waiting.frame(released)
    }
}
