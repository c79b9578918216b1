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
use crate::forwarding::Shared;
use crate::lane::Lane;
use crate::receive::{Owner, ReceiveLanes};
use crate::settings::{Limits, PeerId, Settings};
use crate::window::LaneNumber;

pub(crate) use inward::{Rebuilt, Received, prefix};
pub(crate) use outward::Outward;

/// Who keeps asking or telling does so at most this often.
const AGAIN: Duration = Duration::from_secs(1);
/// Whether the lane is lost is judged by what came in so long a time, or since unknown identifiers came last.
const LOSS_INTERVAL: Duration = Duration::from_millis(100);
/// It may be lost if for each unknown identifier no more valid packets came than these. Who holds valid packets back to
/// let them drip in has as many as a window holds, and they last for a quarter of that.
const VALID_FOR_EACH_UNKNOWN: u64 = 4;

/// The state of identifier mode towards one peer.
#[derive(Debug)]
pub(crate) struct Identifier {
    pub(crate) flows: Flows,
    pub(crate) announced: AnnouncedFlows,
    transmit: Option<Lane>,
    /// When the next epoch was asked for last.
    wanted: Option<Instant>,
    /// Epochs that are received, the older one first.
    epochs: ArrayVec<ReceiveEpoch, 2>,
    /// Valid packets.
    valid: u64,
    /// What had come when the lane was judged last: nothing is known before that.
    last_sample: Option<LossSample>,
    /// When the peer was asked last where its lane stands, and for which lane.
    asked: Option<Instant>,
    ask_lane: usize,
    /// When an unknown number was told last.
    unknown_told: Option<Instant>,
}

/// What had come at a moment: valid packets of the peer, and unknown identifiers of anybody.
#[derive(Clone, Copy, Debug)]
struct LossSample {
    at: Instant,
    valid: u64,
    unknown: u64,
}

/// An epoch that is received.
#[derive(Debug)]
struct ReceiveEpoch {
    epoch: u32,
    lanes: ArrayVec<LaneNumber, { Settings::LANES as usize }>,
    /// [`Event::ReceiveReady`] was told.
    ready: bool,
    /// A packet of it has come.
    used: bool,
    /// When it is over.
    until: Option<Instant>,
}

impl Identifier {
    pub(crate) fn new(limits: &Limits) -> Self {
        Self {
            flows: Flows::new(limits),
            announced: AnnouncedFlows::new(limits.flows),
            transmit: None,
            wanted: None,
            epochs: ArrayVec::new(),
            valid: 0,
            last_sample: None,
            asked: None,
            ask_lane: 0,
            unknown_told: None,
        }
    }

    /// Voids keys, windows and flows; how many parts were lost by it.
    pub(crate) fn void(&mut self, shared: &Shared, receive: &mut ReceiveLanes) -> u64 {
        self.transmit = None;
        self.wanted = None;
        self.flows.clear(&shared.hasher);
        self.announced.clear();
        let fragments =
            self.epochs.iter().flat_map(|epoch| &epoch.lanes).map(|&lane| receive.close(lane)).sum();
        self.epochs.clear();
        fragments
    }

    /// A new epoch for this direction. One that is not newer is not heeded: a key never begins again.
    pub(crate) fn install_transmit(&mut self, epoch: u32, secret: &EpochSecret) {
        if self.transmit.as_ref().is_none_or(|lane| lane.epoch < epoch) {
            self.transmit = Some(Lane::new(epoch, secret));
            self.flows.begin_epoch();
            self.wanted = None;
        }
    }

    /// A new epoch of the peer; how many parts of an epoch that made room for it were lost.
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
            .map_while(|lane| receive.open(owner, secret.lane_key(lane)))
            .collect();
        self.epochs.push(ReceiveEpoch { epoch: owner.epoch, lanes, ready: false, used: false, until: None });
        self.last_sample = None;
        fragments
    }

    fn retire(&mut self, receive: &mut ReceiveLanes, epoch: usize) -> u64 {
        self.epochs.remove(epoch).lanes.iter().map(|&lane| receive.close(lane)).sum()
    }

    /// Something valid of this epoch has come; true if the epoch before is over soon because of it.
    fn heard(&mut self, now: Instant, epoch: u32) -> bool {
        self.valid += 1;
        let Some(index) = self.epochs.iter().position(|known| known.epoch == epoch) else { return false };
        if core::mem::replace(&mut self.epochs[index].used, true) || index == 0 {
            return false;
        }
        self.epochs[0].until = Some(now + EPOCH_OVERLAP);
        true
    }

    /// Tells which epochs have become ready; true if some are not, or were not told.
    pub(crate) fn tell_ready(
        &mut self,
        peer: PeerId,
        generation: Generation,
        shared: &mut Shared,
        receive: &ReceiveLanes,
    ) -> bool {
        for epoch in self.epochs.iter_mut().filter(|epoch| !epoch.ready) {
            epoch.ready = epoch.lanes.iter().all(|&lane| receive.is_full(lane))
                && shared.events.tell(Event::ReceiveReady { peer, generation, epoch: epoch.epoch });
        }
        self.epochs.iter().any(|epoch| !epoch.ready)
    }

    /// Ends the epoch that is over; how many parts were lost by it.
    pub(crate) fn end_overlap(&mut self, now: Instant, receive: &mut ReceiveLanes) -> u64 {
        match self.epochs.first() {
            Some(ReceiveEpoch { until: Some(until), .. }) if *until <= now => self.retire(receive, 0),
            _ => 0,
        }
    }

    /// When the epoch before is over.
    pub(crate) fn overlap_end(&self) -> Option<Instant> {
        self.epochs.first()?.until
    }

    /// Asks where the peer's lane stands, if of `unknown` identifiers, all that ever came, so many came lately beside
    /// valid packets that they may be its own. A lane that is well is asked for too in a flood: the answer takes nothing
    /// away ([`Identifier::position`]).
    pub(crate) fn ask_if_lost(
        &mut self,
        now: Instant,
        unknown: u64,
        peer: PeerId,
        generation: Generation,
        shared: &mut Shared,
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
        // What the peer sends on: the newest epoch that it was heard on, or else the older one.
        let Some(epoch) = self.epochs.iter().rev().find(|epoch| epoch.used).or(self.epochs.first()) else {
            return false;
        };
        let lane = self.ask_lane % epoch.lanes.len().max(1);
        let event = Event::Lost { peer, generation, epoch: epoch.epoch, lane: lane as u8 };
        if !shared.events.tell(event) {
            return false;
        }
        self.asked = Some(now);
        self.ask_lane = lane + 1;
        true
    }

    /// The peer's lane stands at this anchor; false if that is no news: an anchor that the window reaches brings nothing
    /// that is not known, and would take away what is under way.
    pub(crate) fn position(&mut self, receive: &mut ReceiveLanes, epoch: u32, lane: u8, seq: u64) -> bool {
        let known = self.epochs.iter().find(|known| known.epoch == epoch);
        let Some(&lane) = known.and_then(|known| known.lanes.get(usize::from(lane))) else { return false };
        let moved = !receive.lane(lane).window.reaches(seq) && receive.lane(lane).window.advance(seq);
        receive.mark_unfilled();
        moved
    }

    /// Where the lane of this direction stands.
    pub(crate) fn tell_position(&self, peer: PeerId, generation: Generation, window: u64) -> Option<Event> {
        let lane = self.transmit.as_ref()?;
        Some(Event::Position {
            peer,
            generation,
            epoch: lane.epoch,
            lane: Lane::NUMBER,
            seq: lane.position(window),
        })
    }

    /// A number came that is unknown: told at most once a second.
    fn tell_unknown(
        &mut self,
        now: Instant,
        peer: PeerId,
        generation: Generation,
        index: FlowIndex,
        shared: &mut Shared,
    ) {
        if self.unknown_told.is_none_or(|told| now.since(told) >= AGAIN)
            && shared.events.tell(Event::UnknownIndex { peer, generation, index })
        {
            self.unknown_told = Some(now);
        }
    }

    /// The epoch that is sent with; 0: none.
    pub(crate) fn transmit_epoch(&self) -> u32 {
        self.transmit.as_ref().map_or(0, |lane| lane.epoch)
    }

    /// The epochs that are received, the older one first.
    pub(crate) fn receive_epochs(&self) -> impl Iterator<Item = u32> {
        self.epochs.iter().map(|epoch| epoch.epoch)
    }
}
