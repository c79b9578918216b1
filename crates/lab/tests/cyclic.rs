//! A PLC and its devices over a plain bridge: nothing is lost, changed or out of order.
#![allow(clippy::unwrap_used, clippy::panic)] // a test's own set-up fails loudly

use std::time::Duration;

use lab::cyclic::{Exchange, Relation};
use lab::{Shape, Topology};

#[test]
fn every_frame_is_accounted_for() {
    let topology = Topology::build(&Shape::default()).unwrap();
    topology.bridge_gateways().unwrap();
    let relations: Vec<_> = (0..4u8)
        .map(|device| Relation {
            stations: [topology.machine_a.mac, [2, 0, 0, 0, 1, device]],
            frame_ids: [0x8000 + u16::from(device), 0x8000],
            cycle: Duration::from_millis(1 << device),
            payload_octets: 44,
        })
        .collect();
    let exchange = Exchange::start(&topology.machine_a, &topology.machine_b, &relations).unwrap();
    exchange.wait_for(50, Duration::from_secs(20)).unwrap();
    let heard = exchange.stop().unwrap();
    assert_eq!(heard.len(), 4);
    for heard in heard.iter().flatten() {
        assert!(heard.is_complete() && heard.sent >= 50, "{heard:?}");
        assert_eq!((heard.first, heard.missing, heard.jitter.len()), (Some(0), 0, heard.received - 1));
        assert!(
            heard.delay.len() == heard.received && heard.delay.min() > 0,
            "a frame arrives after it was sent"
        );
    }
}
