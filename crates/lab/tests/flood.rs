//! A flood is counted as it arrives, at the rate that was asked for. Needs root.
#![allow(clippy::unwrap_used)]

use std::time::Duration;

use lab::{Shape, Topology, flood};

#[test]
fn a_flood_keeps_its_rate_and_a_narrow_wire_limits_it() {
    let topology = Topology::build(&Shape { static_neighbours: true, ..Shape::default() }).unwrap();
    topology.bridge_gateways().unwrap();
    let (a, b) = (&topology.machine_a, &topology.machine_b);
    let time = Duration::from_millis(500);
    let slow = flood::flood(a, b, 46, Some(5_000), time).unwrap();
    for rate in [slow.sent_per_second(), slow.delivered_per_second()] {
        assert!((4_500.0..=5_500.0).contains(&rate), "{slow:?}");
    }
    // 60 octets and 24 more on a wire of 1 Mbit/s: 1,488 frames a second.
    topology.limit_rate(1_000_000, Duration::from_millis(50)).unwrap();
    let narrow = flood::flood(a, b, 46, Some(5_000), time).unwrap();
    assert!((1_300.0..=1_550.0).contains(&narrow.delivered_per_second()), "{narrow:?}");
}
