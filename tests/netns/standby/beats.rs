//! Beats of the two boxes, as they were on their LAN.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use lab::Capture;
use lab::plants::PROBE;
use lab::topology::Mac;

use super::LEASE;
use crate::onebox::OneBox;

/// Their EtherType, and the octet behind it.
const BEATS: (u16, u8) = (0x88b6, 1);

/// Beats from now on. A box that stands still sends none, and else one each eighth of its takeover.
pub(super) struct Beats(Capture);

impl Beats {
    pub(super) fn start(boxes: &OneBox) -> Self {
        Self(Capture::start(&boxes.plants.plants[0].lan, PROBE).unwrap())
    }

    /// The longest time without a beat of each box, by its address, from its first one on.
    fn pauses(self) -> BTreeMap<Mac, Duration> {
        let (ethertype, kind) = BEATS;
        let end = Instant::now();
        let capture = self.0.stop().unwrap();
        let mut beats = BTreeMap::<Mac, Vec<Instant>>::new();
        for frame in capture.of_ethertype(ethertype).filter(|frame| frame.octets.get(14) == Some(&kind)) {
            let from = *frame.octets[6..].first_chunk().unwrap();
            beats.entry(from).or_default().push(frame.at);
        }
        let longest = |mut at: Vec<Instant>| {
            at.push(end);
            at.windows(2).map(|pair| pair[1].saturating_duration_since(pair[0])).max().unwrap_or_default()
        };
        beats.into_iter().map(|(from, at)| (from, longest(at))).collect()
    }

    /// The longest time without a beat of a box.
    pub(super) fn longest_of(self, boxes: &OneBox, plant: usize) -> Duration {
        self.pauses()[&address(boxes, plant)]
    }

    /// Whether a box stood still for longer than its lease.
    pub(super) fn show_stall_of(self, boxes: &OneBox, plant: usize) -> bool {
        self.longest_of(boxes, plant) >= LEASE
    }

    /// The same of either box.
    pub(super) fn show_a_stall(self) -> bool {
        let pauses = self.pauses();
        assert_eq!(pauses.len(), 2, "{pauses:?}");
        pauses.values().any(|pause| *pause >= LEASE)
    }
}

/// The address from which a box sends its beats: that of its SCI.
fn address(boxes: &OneBox, plant: usize) -> Mac {
    let sci = boxes.sites[plant].report().unwrap().links[0].secy.transmit.sci.clone();
    let octets = sci.split_once('/').unwrap().0.split(':');
    let octets: Vec<u8> = octets.map(|octet| u8::from_str_radix(octet, 16).unwrap()).collect();
    octets.try_into().unwrap()
}
