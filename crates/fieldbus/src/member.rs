//! One relation on the data path: its keys, and all that can be seen of it.

use alloc::boxed::Box;
use core::time::Duration;

use arrayvec::ArrayVec;
use siphasher::sip::SipHasher24;
use wire::ethernet::{ADDRESSES_OCTETS, HEADER_OCTETS, VLAN_TAG_OCTETS};
use wire::fieldbus::{FRAME_ID_OCTETS, FrameId};
use wire::{EtherType, MacAddr};

use crate::counters::{ReceiveCounters, TransmitCounters};
use crate::events::PendingEvents;
use crate::gap_monitor::GapMonitor;
use crate::histogram::Histogram;
use crate::keys::{KeyStatus, Keys, RelationState};
use crate::moment::Moment;
use crate::relations::Direction;
use crate::settings::{RelationSettings, Settings};

/// A relation at one moment.
#[derive(Clone, Debug)]
pub struct RelationStatus {
    /// What it is configured with.
    pub settings: RelationSettings,
    /// Whether its frames can pass.
    pub state: RelationState,
    /// The key that protects.
    pub transmit_key: Option<KeyStatus>,
    /// The key of the newest verified frame.
    pub receive_key: Option<KeyStatus>,
    /// Frames from the local station.
    pub transmit: TransmitCounters,
    /// Frames from its peer.
    pub receive: ReceiveCounters,
    /// How long frames of the local station spent in this gateway, from being received to being handed to the kernel.
    pub residence_outward: Histogram,
    /// The same for frames of its peer.
    pub residence_inward: Histogram,
    /// How much the time between two verified frames differs from the cycle.
    pub jitter: Histogram,
    /// The longest time between two verified frames.
    pub worst_gap: Duration,
    /// How long no verified frame has come; `None` before the first.
    pub silent: Option<Duration>,
}

/// Addresses as they stand in a frame, and the FrameID behind them.
pub(crate) struct FrameHeader {
    pub(crate) addresses: [u8; ADDRESSES_OCTETS],
    pub(crate) frame_id: FrameId,
}

/// Frames of unknown keys beside verified ones, since the first of them. More of the former: the peer goes on under keys that this end
/// does not have. One verified frame is no proof against that: somebody may have held it back.
#[derive(Clone, Copy, Debug)]
pub(crate) struct UnknownKeyStats {
    pub(crate) since: Moment,
    pub(crate) frames: u32,
    pub(crate) verified: u32,
}

impl UnknownKeyStats {
    pub(crate) const fn at(since: Moment) -> Self {
        Self { since, frames: 0, verified: 0 }
    }
}

/// One relation. What frames need stands together, in this order: a few cache lines for each direction.
///
/// ```text
///  outward: counters | front | key, Seq     inward: key, newest Seq | front, clear | watch | counters | settings
///  jitter | residence outward | residence inward: a line of each     news: nothing, of most frames
/// ```
#[repr(C, align(64))]
pub(crate) struct Member {
    pub(crate) sent: TransmitCounters,
    pub(crate) outward: FrameHeader,
    pub(crate) keys: Keys,
    /// What stands in front of the payload of a delivered frame: the addresses first.
    pub(crate) delivered: ArrayVec<u8, { HEADER_OCTETS + VLAN_TAG_OCTETS + FRAME_ID_OCTETS }>,
    /// Frames that came in clear, and whose twins have not come yet.
    pub(crate) clear_ahead: u8,
    /// Their payloads. Nothing looks there as long as none comes in clear.
    pub(crate) twins: Box<PendingTwins>,
    /// Frames of unknown keys come.
    pub(crate) unknown: Option<UnknownKeyStats>,
    pub(crate) gap_monitor: GapMonitor,
    pub(crate) received: ReceiveCounters,
    pub(crate) settings: RelationSettings,
    pub(crate) jitter: Histogram,
    pub(crate) residence: [Histogram; 2],
    pub(crate) events: PendingEvents,
}

/// A payload, to be known again: SipHash-2-4 of its octets but for zeros at its end, which may be padding.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct PayloadHash(u64);

impl PayloadHash {
    pub(crate) fn of(octets: &[u8]) -> Self {
        let end = octets.iter().rposition(|octet| *octet != 0).map_or(0, |last| last + 1);
        Self(SipHasher24::new().hash(&octets[..end]))
    }
}

/// Payloads that came in clear and whose twins have not come, the oldest first: as many as a burst holds.
#[derive(Default, Debug)]
pub(crate) struct PendingTwins(ArrayVec<(PayloadHash, ClearOutcome), { PendingTwins::MAX }>);

/// What became of a frame in clear.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ClearOutcome {
    Delivered,
    Refused,
}

impl PendingTwins {
    pub(crate) const MAX: usize = 64;

    /// A frame came in clear.
    pub(crate) fn await_twin(&mut self, payload: PayloadHash, clear: ClearOutcome) {
        if self.0.is_full() {
            self.0.remove(0);
        }
        self.0.push((payload, clear));
    }

    /// What became of the frame in clear whose twin this is, if it is one. The twins of up to `without` frames before it
    /// did not come; of equal payloads that is the last one which they leave.
    pub(crate) fn twin_of(&mut self, payload: PayloadHash, without: usize) -> Option<ClearOutcome> {
        let is_it = |(awaited, _): &(PayloadHash, ClearOutcome)| *awaited == payload;
        let near = &self.0[..self.0.len().min(without.saturating_add(1))];
        let place = near.iter().rposition(is_it).or_else(|| self.0.iter().position(is_it))?;
        self.0.drain(..=place).next_back().map(|(_, clear)| clear)
    }

    /// So many twins have not come.
    pub(crate) const fn awaited(&self) -> u8 {
        self.0.len() as u8
    }

    /// No twin comes any more.
    pub(crate) fn forget(&mut self) {
        self.0.clear();
    }
}

impl FrameHeader {
    fn new(destination: MacAddr, source: MacAddr, frame_id: FrameId) -> Self {
        let mut addresses = [0; ADDRESSES_OCTETS];
        addresses[..6].copy_from_slice(&destination.0);
        addresses[6..].copy_from_slice(&source.0);
        Self { addresses, frame_id }
    }
}

impl Member {
    pub(crate) fn new(settings: &Settings, of: &RelationSettings) -> Self {
        let ((own, sends), (peer, receives)) = (of.relation.own(), of.relation.peer());
        let inward = FrameHeader::new(own, peer, receives);
        let mut delivered: ArrayVec<u8, { HEADER_OCTETS + VLAN_TAG_OCTETS + FRAME_ID_OCTETS }> =
            inward.addresses.into_iter().collect();
        delivered.extend(settings.vlan.into_iter().flat_map(|tag| tag.octets()));
        delivered.extend(EtherType::PROFINET.0.to_be_bytes());
        delivered.extend(inward.frame_id.0.to_be_bytes());
        Self {
            sent: TransmitCounters::default(),
            outward: FrameHeader::new(peer, own, sends),
            keys: Keys::default(),
            delivered,
            clear_ahead: 0,
            twins: Box::default(),
            unknown: None,
            gap_monitor: GapMonitor::new(of.alarm),
            received: ReceiveCounters::default(),
            settings: *of,
            jitter: Histogram::default(),
            residence: [Histogram::default(); 2],
            events: PendingEvents::default(),
        }
    }

    /// Reads something of each cache line that a frame of this direction needs. Frames of a burst are mostly those of
    /// different relations, of which nothing is in the nearest cache: read one after the other, without anything that
    /// depends on it, all of these lines come at once.
    #[inline]
    pub(crate) fn prefetch(&self, direction: Direction) -> u32 {
        let lines = self.keys.prefetch(direction) ^ self.residence[direction as usize].prefetch();
        match direction {
            Direction::Outward => {
                lines ^ self.sent.out_pkts_protected as u32 ^ u32::from(self.outward.frame_id.0)
            }
            Direction::Inward => {
                lines
                    ^ u32::from(self.clear_ahead)
                    ^ self.gap_monitor.prefetch()
                    ^ self.received.in_pkts_ok as u32
                    ^ self.settings.mode as u32
                    ^ self.jitter.prefetch()
            }
        }
    }

    pub(crate) fn status(&self, now: Moment) -> RelationStatus {
        let [residence_outward, residence_inward] = self.residence;
        RelationStatus {
            settings: self.settings,
            state: self.keys.state(),
            transmit_key: self.keys.transmit_status(),
            receive_key: self.keys.receive_status(),
            transmit: self.sent,
            receive: self.received,
            residence_outward,
            residence_inward,
            jitter: self.jitter,
            worst_gap: self.gap_monitor.worst_gap(),
            silent: self.gap_monitor.silent(now),
        }
    }
}
