//! A flood is counted as it arrives, at the rate that was asked for. Needs root.
#![allow(clippy::unwrap_used)]

use std::time::Duration;

use lab::trial::{IMIX, SHORTEST, Search, Stream};
use lab::{Shape, Topology, flood};

#[test]
fn a_flood_keeps_its_rate_and_a_narrow_wire_limits_it() {
    let topology = Topology::build(&Shape { static_neighbours: true, ..Shape::default() }).unwrap();
    topology.bridge_gateways().unwrap();
    let (a, b) = (&topology.machine_a, &topology.machine_b);
    let time = Duration::from_millis(500);
    // A busy machine may interrupt one that is so short.
    let keeps = |range: std::ops::RangeInclusive<f64>, rates: fn(&flood::Flood) -> [f64; 2]| {
        let kept = (0..5).any(|_| {
            let one = flood::flood(a, b, 46, Some(5_000), time).unwrap();
            println!("{one:?}");
            rates(&one).iter().all(|rate| range.contains(rate))
        });
        assert!(kept, "never within {range:?}");
    };
    keeps(4_500.0..=5_500.0, |one| [one.sent_per_second(), one.delivered_per_second()]);
    // 60 octets and 24 more on a wire of 1 Mbit/s: 1,488 frames a second.
    topology.limit_rate(1_000_000, Duration::from_millis(50)).unwrap();
    keeps(1_300.0..=1_550.0, |one| [one.delivered_per_second(); 2]);
}

#[test]
fn a_search_finds_what_a_narrow_wire_carries() {
    let topology = Topology::build(&Shape { static_neighbours: true, ..Shape::default() }).unwrap();
    topology.bridge_gateways().unwrap();
    let (a, b) = (&topology.machine_a, &topology.machine_b);
    // 84 octets of a wire's time for each frame: 14,880 frames a second of 10 Mbit/s, and what its queue holds.
    topology.limit_rate(10_000_000, Duration::from_millis(10)).unwrap();
    let search = Search { time: Duration::from_millis(300), loss: 1e-3, precision: 0.1 };
    let found = search.run(a, b, &Stream::new(a, b, &SHORTEST)).unwrap();
    assert!((1.0..=17_000.0).contains(&found.rate), "{found:?}");
    assert!(found.trials.iter().any(|trial| trial.loss() <= search.loss), "{found:?}");
    // Datagrams of the mix are as long as they say.
    let mix = Stream::new(a, b, &IMIX);
    assert!((mix.mean_octets() - 357.8).abs() < 0.1);
}
