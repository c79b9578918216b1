//! Lanes of a site's peers: one for the newest epoch that is sent under, one for each of two epochs that are received.

use std::time::Duration;

use suite::tunnel::EpochSecret;
use tunnel::EPOCH_OVERLAP;
use wire::Instant;
use wire::tunnel::FlowIndex;
use xdp::site::Site;

use super::lan::PlaceState;
use super::numbers::Numbers;

/// Number of the lane that programs send on.
pub(super) const LANE: u8 = 1;
/// Interval at which a peer is told of a flow that is not known.
const UNKNOWN: Duration = Duration::from_secs(1);
/// Identifiers of all lanes that programs have room for, and anchors of each lane.
const IDENTIFIERS: u64 = 1 << 20;
const ANCHORS: u64 = 1024;
pub(super) const NO_LANES: &str = "the programs have no room for more lanes";
const NO_KEY: &str = "no key is agreed on";

/// Lanes of all peers.
#[derive(Debug)]
pub(super) struct Lanes {
    window: u64,
    transmit: Numbers,
    receive: Numbers,
}

/// Lanes of a peer.
#[derive(Debug, Default)]
pub(super) struct PeerLanes {
    /// Newest epoch that is sent under, and its lane if there was one to be had. No epoch gets a lane a second time.
    transmit: Option<(u32, Option<u32>)>,
    /// The older one first.
    receive: Vec<Receive>,
    /// Newest epoch that is received, by a program or not.
    newest: Option<u32>,
    /// Newest epoch of which a packet has come, to a program or to the half.
    in_use: Option<InUse>,
    /// Reason why the newest epoch is not received by a program.
    no_receive: Option<String>,
    /// Reason why it would not be any more, though it is.
    receive_suffers: Option<String>,
    unknown_told: Option<Instant>,
}

/// An epoch that the peer sends under.
#[derive(Clone, Copy, Debug)]
struct InUse {
    epoch: u32,
    /// End of those before it.
    ends_others: Instant,
    /// The half knows it.
    told: bool,
}

/// A lane of an epoch.
#[derive(Clone, Copy, Debug)]
struct Receive {
    epoch: u32,
    lane: u32,
}

impl Lanes {
    /// Number of lanes for so many peers, in each direction.
    pub(super) fn room(peers: usize, window: u64) -> u32 {
        // Two epochs of each peer, and one that is given up.
        let most = IDENTIFIERS / (2 * window + ANCHORS);
        (3 * peers as u64 + 2).min(most) as u32
    }

    pub(super) fn new(room: u32, window: u64) -> Self {
        Self { window, transmit: Numbers::new(room), receive: Numbers::new(room) }
    }

    pub(super) const fn window(&self) -> u64 {
        self.window
    }

    /// Lanes that have rested may be used again.
    pub(super) fn reuse(&mut self, site: &mut Site) {
        for lane in self.transmit.rested() {
            if site.close_transmit(lane).is_ok() {
                self.transmit.put_back(lane);
            }
        }
        self.receive.reuse();
    }

    /// No peer is sent to on this lane any more.
    pub(super) fn rest_transmit(&mut self, lane: u32) {
        self.transmit.rest(lane);
    }

    fn close_receive(&mut self, site: &mut Site, lane: u32) {
        let _ = site.close_receive(lane);
        self.receive.rest(lane);
    }

    /// Free and resting ones that are sent on, and that are received.
    #[cfg(test)]
    pub(super) fn counts(&self) -> [[usize; 2]; 2] {
        [self.transmit.counts(), self.receive.counts()]
    }
}

/// Puts all missing identifiers into a lane's window. The work is bounded by the window.
pub(super) fn fill(site: &mut Site, lane: u32, window: u64) -> bool {
    let runs = 2 * window / 256 + 16;
    (0..runs).any(|_| site.fill(lane).is_ok_and(|report| report.missing == 0))
}

impl PeerLanes {
    /// The lane that the peer is sent to on.
    pub(super) fn transmit(&self) -> Option<u32> {
        self.transmit.and_then(|(_, lane)| lane)
    }

    /// Whether frames leave on a lane of the kernel's.
    pub(super) fn outward(&self) -> PlaceState {
        match self.transmit {
            None => Err(NO_KEY.to_owned()),
            Some((_, None)) => Err(NO_LANES.to_owned()),
            Some((_, Some(_))) => Ok(()),
        }
    }

    /// Whether the newest epoch is received by a program.
    pub(super) fn inward(&self) -> PlaceState {
        match (self.receive.last(), self.no_receive.as_ref().or(self.receive_suffers.as_ref())) {
            (_, Some(why)) => Err(why.clone()),
            (Some(_), None) => Ok(()),
            (None, None) => Err(NO_KEY.to_owned()),
        }
    }

    /// Whether nothing speaks against receiving the newest epoch in the kernel.
    pub(super) const fn receives_newest(&self) -> bool {
        self.no_receive.is_none()
    }

    /// Whether some epoch is received in the kernel.
    pub(super) fn receives(&self) -> bool {
        !self.receive.is_empty()
    }

    /// A reason has come up, or is gone, why the epoch that is received should not be. The next epoch follows it.
    pub(super) fn suffer(&mut self, why: &Option<String>) {
        self.receive_suffers.clone_from(why);
    }

    /// Opens the lane of a newer epoch to send on. Returns the lane before; `None`: the epoch is not newer.
    pub(super) fn open_transmit(
        &mut self,
        lanes: &mut Lanes,
        site: &mut Site,
        epoch: u32,
        secret: &EpochSecret,
    ) -> Option<Option<u32>> {
        if self.transmit.is_some_and(|(known, _)| known >= epoch) {
            return None;
        }
        let mut opened = lanes.transmit.take();
        if let Some(lane) = opened
            && site.open_transmit(lane, &secret.lane_key(LANE)).is_err()
        {
            lanes.transmit.rest(lane);
            opened = None;
        }
        // Without a lane all frames are user space's: the peer forgets the epoch before.
        let before = self.transmit.replace((epoch, opened));
        Some(before.and_then(|(_, lane)| lane))
    }

    /// Receives an epoch's lane in the kernel, if it is newer and nothing speaks against it.
    pub(super) fn open_receive(
        &mut self,
        lanes: &mut Lanes,
        site: &mut Site,
        peer: u32,
        (epoch, secret): (u32, &EpochSecret),
        refused: Option<String>,
    ) -> bool {
        if self.newest.is_some_and(|newest| newest >= epoch) {
            return false;
        }
        // The half has two epochs as well, whoever receives which lane of them.
        let before = self.newest.replace(epoch).unwrap_or(epoch);
        self.close_before(lanes, site, before);
        (self.no_receive, self.receive_suffers) = (refused, None);
        if self.no_receive.is_some() {
            return false;
        }
        let mut opened = lanes.receive.take();
        if let Some(lane) = opened {
            let key = secret.lane_key(LANE);
            if site.open_receive(lane, peer, &key).is_err() || !fill(site, lane, lanes.window) {
                lanes.close_receive(site, lane);
                opened = None;
            }
        }
        match opened {
            Some(lane) => self.receive.push(Receive { epoch, lane }),
            None => self.no_receive = Some(NO_LANES.into()),
        }
        opened.is_some()
    }

    /// Moves the window of an epoch to an anchor. False: the epoch is not received in the kernel.
    pub(super) fn advance(&self, lanes: &Lanes, site: &mut Site, epoch: u32, seq: u64) -> bool {
        let Some(&Receive { lane, .. }) = self.receive.iter().find(|known| known.epoch == epoch) else {
            return false;
        };
        let _ = site.advance(lane, seq);
        fill(site, lane, lanes.window);
        true
    }

    /// Epoch that is sent under, and the anchor that its lane reaches next.
    pub(super) fn position(&self, lanes: &Lanes, site: &Site) -> Option<(u32, u64)> {
        let (epoch, lane) = self.transmit?;
        let seq = site.next_seq(lane?).ok()?;
        Some((epoch, seq.next_multiple_of(lanes.window / 2)))
    }

    /// Ends the epoch before, once the peer has changed for so long, whoever has heard it. Returns a flow number that was not known, if it is
    /// to be told.
    pub(super) fn look(&mut self, lanes: &mut Lanes, site: &mut Site, now: Instant) -> Option<FlowIndex> {
        let mut unknown = None;
        for Receive { epoch, lane } in self.receive.clone() {
            let Ok(report) = site.look(lane) else { continue };
            unknown = unknown.or(report.unknown);
            if let Some(used) = report.used {
                self.hear(epoch, now + EPOCH_OVERLAP.saturating_sub(used), false);
            }
        }
        if let Some(InUse { epoch, ends_others, .. }) = self.in_use
            && ends_others <= now
        {
            self.close_before(lanes, site, epoch);
        }
        let due = self.unknown_told.is_none_or(|told| now.since(told) >= UNKNOWN);
        let unknown = unknown.filter(|_| due);
        if unknown.is_some() {
            self.unknown_told = Some(now);
        }
        unknown
    }

    /// The half has had the first packet of this epoch.
    pub(super) fn hear_of_half(&mut self, now: Instant, epoch: u32) {
        self.hear(epoch, now + EPOCH_OVERLAP, true);
    }

    /// The epoch that is in use, if the half is to be told.
    pub(super) fn tell_in_use(&mut self) -> Option<u32> {
        let in_use = self.in_use.as_mut().filter(|in_use| !in_use.told)?;
        in_use.told = true;
        Some(in_use.epoch)
    }

    fn hear(&mut self, epoch: u32, ends_others: Instant, told: bool) {
        if self.in_use.is_none_or(|known| known.epoch < epoch) {
            self.in_use = Some(InUse { epoch, ends_others, told });
        }
    }

    /// Closes the lanes of all epochs before this one.
    fn close_before(&mut self, lanes: &mut Lanes, site: &mut Site, epoch: u32) {
        let over = self.receive.iter().take_while(|known| known.epoch < epoch).count();
        self.receive.drain(..over).for_each(|known| lanes.close_receive(site, known.lane));
    }

    /// Epochs that are received by programs.
    #[cfg(test)]
    pub(super) fn epochs(&self) -> Vec<u32> {
        self.receive.iter().map(|known| known.epoch).collect()
    }

    /// Voids keys and windows.
    pub(super) fn void(&mut self, lanes: &mut Lanes, site: &mut Site) {
        (self.newest, self.in_use, self.no_receive) = (None, None, None);
        if let Some((_, Some(lane))) = self.transmit.take() {
            lanes.transmit.rest(lane);
        }
        for Receive { lane, .. } in std::mem::take(&mut self.receive) {
            lanes.close_receive(site, lane);
        }
    }
}
