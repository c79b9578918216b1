//! Addresses that change, and those that only seem to.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::stand::{Relay, Site, identities, peer, socket, until};

fn pair() -> (Site, Site, Relay) {
    let [low, high] = identities();
    let far = Site::start(&high, socket(), vec![peer(&low, None)]);
    let relay = Relay::to(far.address);
    let near = Site::start(&low, socket(), vec![peer(&high, Some(relay.address))]);
    until("up", || near.is_up(0) && far.is_up(0));
    (near, far, relay)
}

#[test]
fn data_follows_a_nat_that_changed_its_mind() {
    let (near, far, relay) = pair();
    assert_eq!(far.endpoint(0), Some(relay.outer[0]));
    for port in [1, 2] {
        relay.fate.port.store(port, Ordering::Relaxed);
        let took = until("the worker knows", || far.endpoint(0) == Some(relay.outer[usize::from(port)]));
        println!("moved after {took:?}");
    }
    assert!(near.is_up(0) && far.is_up(0));
    assert_eq!(far.status().counters.connections, 1, "the connection is the same");
}

#[test]
fn copies_from_elsewhere_move_nothing() {
    let (_near, far, relay) = pair();
    relay.fate.repeated.store(true, Ordering::Relaxed);
    until("some copies", || relay.fate.strays.load(Ordering::Relaxed) > 5);
    let endpoints = far.told(|heard| {
        heard.words.iter().filter(|word| matches!(word, engine::site::ToWorker::Endpoint { .. })).count()
    });
    assert_eq!(endpoints, 1, "told once, at the beginning");
    assert_eq!(far.endpoint(0), Some(relay.outer[0]));
}

/// Whoever can hold packets back and send them from elsewhere makes QUIC look there; data does not follow, and goes on
/// where it went when they stop.
#[test]
fn a_diversion_moves_no_data() {
    let (near, far, relay) = pair();
    relay.fate.diverted.store(true, Ordering::Relaxed);
    until("some strays", || relay.fate.strays.load(Ordering::Relaxed) > 5);
    let start = Instant::now();
    while start.elapsed() < Duration::from_secs(1) {
        assert_eq!(far.endpoint(0), Some(relay.outer[0]));
        std::thread::sleep(Duration::from_millis(10));
    }
    relay.fate.diverted.store(false, Ordering::Relaxed);
    until("up", || near.is_up(0) && far.is_up(0));
    assert_eq!(far.endpoint(0), Some(relay.outer[0]));
    let moved = far.told(|heard| {
        heard.words.iter().any(|word| {
            matches!(word, engine::site::ToWorker::Endpoint { address, .. } if *address == Some(relay.elsewhere))
        })
    });
    assert!(!moved, "never to where the strays came from");
}
