//! One relation on the data path: its keys, counters and statistics.

use alloc::boxed::Box;
use core::time::Duration;

use arrayvec::ArrayVec;
use siphasher::sip::SipHasher24;
use wire::ethernet::{ADDRESSES_OCTETS, HEADER_OCTETS, VLAN_TAG_OCTETS};
use wire::fieldbus::{FRAME_ID_OCTETS, FrameId};

use crate::counters::{ReceiveCounters, TransmitCounters};
use crate::direction::Direction;
use crate::events::PendingEvents;
use crate::gap_monitor::GapMonitor;
use crate::histogram::Histogram;
use crate::keys::{KeyStatus, Keys, RelationState};
use crate::moment::Moment;
use crate::relation::FrameAddress;
use crate::settings::{RelationSettings, Settings};

/// A relation at one moment.
#[derive(Clone, Debug)]
pub struct RelationStatus {
    /// Its configuration.
    pub settings: RelationSettings,
    /// State of its traffic.
    pub state: RelationState,
    /// Transmit key.
    pub transmit_key: Option<KeyStatus>,
    /// Key of the newest verified frame.
    pub receive_key: Option<KeyStatus>,
    /// Frames from the local station.
    pub transmit: TransmitCounters,
    /// Frames from its peer.
    pub receive: ReceiveCounters,
    /// Residence time of the local station's frames in this gateway, from reception to the kernel.
    pub residence_outward: Histogram,
    /// The same for frames of its peer.
    pub residence_inward: Histogram,
    /// Deviation of the time between two verified frames from the cycle.
    pub jitter: Histogram,
    /// Longest time between two verified frames.
    pub worst_gap: Duration,
    /// Time since the last verified frame; `None` before the first.
    pub silent: Option<Duration>,
}

/// Addresses in frame order, with the FrameID behind them.
pub(crate) struct FrameHeader {
    pub(crate) addresses: [u8; ADDRESSES_OCTETS],
    pub(crate) frame_id: FrameId,
}

/// Frames of unknown keys and verified frames, since the first of the former. If the former prevail, the peer
/// uses keys that this end does not have. One verified frame does not disprove that: an attacker may have
/// withheld it.
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

/// One relation. Data of frames is contiguous, in this order: a few cache lines for each direction.
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
    /// Front of a delivered frame, before the payload: addresses first.
    pub(crate) delivered: ArrayVec<u8, { HEADER_OCTETS + VLAN_TAG_OCTETS + FRAME_ID_OCTETS }>,
    /// Number of frames in clear whose twins have not come yet.
    pub(crate) clear_ahead: u8,
    /// Their payloads. Unused while no frame comes in clear.
    pub(crate) twins: Box<PendingTwins>,
    /// Statistics of frames under unknown keys, while there are some.
    pub(crate) unknown: Option<UnknownKeyStats>,
    pub(crate) gap_monitor: GapMonitor,
    pub(crate) received: ReceiveCounters,
    pub(crate) settings: RelationSettings,
    pub(crate) jitter: Histogram,
    pub(crate) residence: [Histogram; 2],
    pub(crate) events: PendingEvents,
}

/// Fingerprint of a payload: SipHash-2-4 of its octets without trailing zeros, which may be padding.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct PayloadHash(pub(crate) u64);

impl PayloadHash {
    pub(crate) fn of(octets: &[u8]) -> Self {
        let end = octets.iter().rposition(|octet| *octet != 0).map_or(0, |last| last + 1);
        Self(SipHasher24::new().hash(&octets[..end]))
    }
}

/// Payloads of frames in clear without their twins yet, the oldest first: as many as a burst holds.
#[derive(Default, Debug)]
pub(crate) struct PendingTwins(ArrayVec<(PayloadHash, ClearOutcome), { PendingTwins::MAX }>);

/// Outcome of a frame in clear.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ClearOutcome {
    Delivered,
    Refused,
}

impl PendingTwins {
    pub(crate) const MAX: usize = 64;

    /// Adds a frame in clear.
    pub(crate) fn await_twin(&mut self, payload: PayloadHash, clear: ClearOutcome) {
        if self.0.is_full() {
            self.0.remove(0);
        }
        self.0.push((payload, clear));
    }

    /// Outcome of the frame in clear to this twin, if there is one. The twins of up to `without` earlier
    /// frames were lost; among equal payloads it takes the last of those.
    pub(crate) fn twin_of(&mut self, payload: PayloadHash, without: usize) -> Option<ClearOutcome> {
        let is_it = |(awaited, _): &(PayloadHash, ClearOutcome)| *awaited == payload;
        let near = &self.0[..self.0.len().min(without.saturating_add(1))];
        let place = near.iter().rposition(is_it).or_else(|| self.0.iter().position(is_it))?;
        self.0.drain(..=place).next_back().map(|(_, clear)| clear)
    }

    /// Frames in clear without their twins, the oldest first.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (PayloadHash, ClearOutcome)> {
        self.0.iter().copied()
    }

    /// Number of missing twins.
    pub(crate) const fn awaited(&self) -> u8 {
        self.0.len() as u8
    }

    /// Gives up all missing twins.
    pub(crate) fn forget(&mut self) {
        self.0.clear();
    }
}

impl FrameHeader {
    fn new((destination, source, frame_id): FrameAddress) -> Self {
        let mut addresses = [0; ADDRESSES_OCTETS];
        addresses[..6].copy_from_slice(&destination.0);
        addresses[6..].copy_from_slice(&source.0);
        Self { addresses, frame_id }
    }
}

impl Member {
    pub(crate) fn new(settings: &Settings, of: &RelationSettings) -> Self {
        // Of a station that sends nothing there are HELLOs only.
        let header = |direction| {
            let addresses = of.relation.addresses(direction);
            FrameHeader::new(addresses.frames.unwrap_or(addresses.hellos))
        };
        let [outward, inward] = [Direction::Outward, Direction::Inward].map(header);
        let protocol = of.relation.protocol();
        let mut delivered: ArrayVec<u8, { HEADER_OCTETS + VLAN_TAG_OCTETS + FRAME_ID_OCTETS }> =
            inward.addresses.into_iter().collect();
        delivered.extend(of.relation.delivered_tag(settings.vlan).into_iter().flat_map(|tag| tag.octets()));
        delivered.extend(protocol.ethertype().0.to_be_bytes());
        if protocol.identification_octets() > 0 {
            delivered.extend(inward.frame_id.0.to_be_bytes());
        }
        Self {
            sent: TransmitCounters::default(),
            outward,
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

    /// Reads an octet of each cache line that a frame of this direction needs. Frames of a burst mostly
    /// belong to different relations, none of them in the nearest cache. Independent reads in a row fetch all
    /// these lines at once.
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
