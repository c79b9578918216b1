//! Identifier mode towards one peer and back (the project's wire formats, section 3.1).
//!
//! ```text
//!  out: frame ─▶ flow's number ─▶ seq of the lane ─▶ RID 6 | check 2 | masked header 8 | [masked flow 24 | tag 8] | body
//!  in:  RID ─▶ table of the site ─▶ lane, seq ─▶ check ─▶ header ─▶ [tag ─▶] flow ─▶ frame
//! ```
//!
//! Each direction has a file: `outward`, `inward`.

mod inward;
mod outward;

use arrayvec::ArrayVec;
use core::time::Duration;
use suite::tunnel::EpochSecret;
use wire::time::Instant;
use wire::tunnel::FlowIndex;

use crate::announced_flows::AnnouncedFlows;
use crate::exchange::{EPOCH_OVERLAP, Event, Generation};
use crate::flows::Flows;
use crate::lane::Lane;
use crate::receive::{Owner, ReceiveLanes};
use crate::settings::{LaneShare, Limits, PeerId, Settings};
use crate::site_state::SiteState;
use crate::window::LaneNumber;

pub(crate) use inward::{Rebuilt, Received, prefix};
pub(crate) use outward::Outward;

/// Minimum interval between repeated requests or events.
const AGAIN: Duration = Duration::from_secs(1);
/// Interval of the loss check, or longer if no unknown identifier arrived.
const LOSS_INTERVAL: Duration = Duration::from_millis(100);
/// Valid packets per unknown identifier above which the lane is well. An attacker who withholds valid packets
/// to release them slowly has at most a window of them, and they last for a quarter of that.
const VALID_FOR_EACH_UNKNOWN: u64 = 4;

/// State of identifier mode towards one peer.
#[derive(Debug)]
pub(crate) struct Identifier {
    share: LaneShare,
    pub(crate) flows: Flows,
    pub(crate) announced: AnnouncedFlows,
    /// Packets of epochs that are installed from here on may come twice.
    pub(crate) several_paths: bool,
    transmit: Option<Lane>,
    /// Time of the last request for an epoch.
    wanted: Option<Instant>,
    /// Receive epochs, the older one first.
    epochs: ArrayVec<ReceiveEpoch, 2>,
    /// The newer epoch, in use since a packet of it came, if somebody who receives beside is to hear of it.
    in_use: Option<u32>,
    /// Number of valid packets.
    valid: u64,
    /// Counts at the last loss check; none before the first.
    last_sample: Option<LossSample>,
    /// Time of the last position request, and its lane.
    asked: Option<Instant>,
    ask_lane: usize,
    /// Time of the last event for an unknown number.
    unknown_told: Option<Instant>,
}

/// Counts at a moment: valid packets of the peer, and unknown identifiers of anybody.
#[derive(Clone, Copy, Debug)]
struct LossSample {
    at: Instant,
    valid: u64,
    unknown: u64,
}

/// A receive epoch.
#[derive(Debug)]
struct ReceiveEpoch {
    epoch: u32,
    lanes: ArrayVec<LaneNumber, { Settings::LANES as usize }>,
    /// True after [`Event::ReceiveReady`].
    ready: bool,
    /// True after a packet of it.
    used: bool,
    /// Expiry time.
    until: Option<Instant>,
}

impl Identifier {
    pub(crate) fn new(limits: &Limits, share: LaneShare) -> Self {
        Self {
            share,
            flows: Flows::new(limits, share),
            announced: AnnouncedFlows::new(limits.flows),
            several_paths: false,
            transmit: None,
            wanted: None,
            epochs: ArrayVec::new(),
            in_use: None,
            valid: 0,
            last_sample: None,
            asked: None,
            ask_lane: 0,
            unknown_told: None,
        }
    }

    /// Voids keys, windows and flows. Returns the number of lost fragments.
    pub(crate) fn void(&mut self, state: &SiteState, receive: &mut ReceiveLanes) -> u64 {
        self.transmit = None;
        self.wanted = None;
        self.flows.clear(&state.hasher);
        self.announced.clear();
        let fragments =
            self.epochs.iter().flat_map(|epoch| &epoch.lanes).map(|&lane| receive.close(lane)).sum();
        self.epochs.clear();
        self.in_use = None;
        fragments
    }

    /// Installs a new transmit epoch. Ignores one that is not newer: a key never begins again.
    pub(crate) fn install_transmit(&mut self, epoch: u32, secret: &EpochSecret) {
        if self.transmit.as_ref().is_none_or(|lane| lane.epoch < epoch) {
            self.transmit = Some(Lane::new(self.share.lane(), epoch, secret));
            self.flows.begin_epoch();
            self.wanted = None;
        }
    }

    /// Installs a new epoch of the peer. Returns the number of fragments lost with an evicted epoch.
    pub(crate) fn install_receive(
        &mut self,
        receive: &mut ReceiveLanes,
        owner: Owner,
        secret: &EpochSecret,
        lanes: u8,
    ) -> u64 {
        if self.epochs.last().is_some_and(|newest| newest.epoch >= owner.epoch) {
            return 0;
        }
        let mut fragments = 0;
        if self.epochs.is_full() {
            fragments = self.retire(receive, 0);
        }
        let lanes = (0..lanes.clamp(1, Settings::LANES))
            .map_while(|lane| receive.open(owner, secret.lane_key(lane), self.several_paths))
            .collect();
        self.epochs.push(ReceiveEpoch { epoch: owner.epoch, lanes, ready: false, used: false, until: None });
        self.last_sample = None;
        fragments
    }

    fn retire(&mut self, receive: &mut ReceiveLanes, epoch: usize) -> u64 {
        self.epochs.remove(epoch).lanes.iter().map(|&lane| receive.close(lane)).sum()
    }

    /// Records a valid packet of this epoch. True if the previous epoch ends soon because of it.
    fn heard(&mut self, now: Instant, epoch: u32) -> bool {
        self.valid += 1;
        let Some(index) = self.epochs.iter().position(|known| known.epoch == epoch) else { return false };
        if core::mem::replace(&mut self.epochs[index].used, true) || index == 0 {
            return false;
        }
        self.epochs[0].until.get_or_insert(now + EPOCH_OVERLAP);
        self.in_use = Some(epoch);
        true
    }

    /// A packet of this epoch came elsewhere. True if the previous epoch ends soon because of it.
    pub(crate) fn heard_elsewhere(&mut self, now: Instant, epoch: u32) -> bool {
        let [before, newest] = &mut self.epochs[..] else { return false };
        if newest.epoch == epoch {
            before.until.get_or_insert(now + EPOCH_OVERLAP);
        }
        newest.epoch == epoch
    }

    /// Tells somebody who receives beside which epoch is in use. True if there was no room.
    pub(crate) fn tell_in_use(
        &mut self,
        peer: PeerId,
        generation: Generation,
        state: &mut SiteState,
    ) -> bool {
        self.in_use = self.in_use.filter(|&epoch| {
            state.offers && !state.events.tell(Event::EpochInUse { peer, generation, epoch })
        });
        self.in_use.is_some()
    }

    /// Reports ready epochs. True if some are not ready, or their reports found no room.
    pub(crate) fn tell_ready(
        &mut self,
        peer: PeerId,
        generation: Generation,
        state: &mut SiteState,
        receive: &ReceiveLanes,
    ) -> bool {
        for epoch in self.epochs.iter_mut().filter(|epoch| !epoch.ready) {
            epoch.ready = epoch.lanes.iter().all(|&lane| receive.is_full(lane))
                && state.events.tell(Event::ReceiveReady { peer, generation, epoch: epoch.epoch });
        }
        self.epochs.iter().any(|epoch| !epoch.ready)
    }

    /// Ends an expired epoch. Returns the number of lost fragments.
    pub(crate) fn end_overlap(&mut self, now: Instant, receive: &mut ReceiveLanes) -> u64 {
        match self.epochs.first() {
            Some(ReceiveEpoch { until: Some(until), .. }) if *until <= now => self.retire(receive, 0),
            _ => 0,
        }
    }

    /// Expiry time of the previous epoch.
    pub(crate) fn overlap_end(&self) -> Option<Instant> {
        self.epochs.first()?.until
    }

    /// Requests the peer's lane position if the recent share of unknown identifiers suggests a loss.
    /// `unknown` is the number of all unknown identifiers so far. During a flood it asks for a healthy lane
    /// too: the answer takes nothing away ([`Identifier::position`]).
    pub(crate) fn ask_if_lost(
        &mut self,
        now: Instant,
        unknown: u64,
        peer: PeerId,
        generation: Generation,
        state: &mut SiteState,
    ) -> bool {
        let here = LossSample { at: now, valid: self.valid, unknown };
        let last_sample = *self.last_sample.get_or_insert(here);
        if now.since(last_sample.at) < LOSS_INTERVAL || unknown == last_sample.unknown {
            return false;
        }
        self.last_sample = Some(here);
        let (valid, unknown) = (self.valid - last_sample.valid, unknown.wrapping_sub(last_sample.unknown));
        let well = valid > unknown.saturating_mul(VALID_FOR_EACH_UNKNOWN);
        if well || self.asked.is_some_and(|asked| now.since(asked) < AGAIN) {
            return false;
        }
        // The epoch that the peer sends on: the newest one with a packet, or else the older one.
        let Some(epoch) = self.epochs.iter().rev().find(|epoch| epoch.used).or(self.epochs.first()) else {
            return false;
        };
        let lane = self.ask_lane % epoch.lanes.len().max(1);
        let event = Event::Lost { peer, generation, epoch: epoch.epoch, lane: lane as u8 };
        if !state.events.tell(event) {
            return false;
        }
        self.asked = Some(now);
        self.ask_lane = lane + 1;
        true
    }

    /// Moves the peer's lane to this anchor. False if the window already reaches it: moving would bring
    /// nothing new, and would lose packets in flight.
    pub(crate) fn position(&mut self, receive: &mut ReceiveLanes, epoch: u32, lane: u8, seq: u64) -> bool {
        let known = self.epochs.iter().find(|known| known.epoch == epoch);
        let Some(&lane) = known.and_then(|known| known.lanes.get(usize::from(lane))) else { return false };
        let moved = !receive.lane(lane).window.reaches(seq) && receive.lane(lane).window.advance(seq);
        receive.mark_unfilled();
        moved
    }

    /// Position of the transmit lane, if it has this number.
    pub(crate) fn tell_position(
        &self,
        peer: PeerId,
        generation: Generation,
        number: u8,
        window: u64,
    ) -> Option<Event> {
        let lane = self.transmit.as_ref().filter(|lane| lane.number == number)?;
        Some(Event::Position {
            peer,
            generation,
            epoch: lane.epoch,
            lane: lane.number,
            seq: lane.position(window),
        })
    }

    /// Reports an unknown number, at most once a second.
    fn tell_unknown(
        &mut self,
        now: Instant,
        peer: PeerId,
        generation: Generation,
        index: FlowIndex,
        state: &mut SiteState,
    ) {
        if self.unknown_told.is_none_or(|told| now.since(told) >= AGAIN)
            && state.events.tell(Event::UnknownIndex { peer, generation, index })
        {
            self.unknown_told = Some(now);
        }
    }

    /// Transmit epoch; 0: none.
    pub(crate) fn transmit_epoch(&self) -> u32 {
        self.transmit.as_ref().map_or(0, |lane| lane.epoch)
    }

    /// Receive epochs, the older one first.
    pub(crate) fn receive_epochs(&self) -> impl Iterator<Item = u32> {
        self.epochs.iter().map(|epoch| epoch.epoch)
    }
}
