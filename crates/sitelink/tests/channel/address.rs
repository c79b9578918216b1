//! Addresses that change, and those that only seem to.

use std::sync::atomic::Ordering;
use std::time::Duration;

use dataplane::site::ToWorker;

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
    let notices = far.manager.as_ref().expect("it runs").notices();
    let moved = |port: usize| {
        notices.iter().any(|notice| notice.text.starts_with(&format!("it is now at {}, ", relay.outer[port])))
    };
    assert!(moved(1), "{notices:?}");
}

#[test]
fn copies_from_elsewhere_move_nothing() {
    let (_near, far, relay) = pair();
    relay.fate.repeated.store(true, Ordering::Relaxed);
    until("some copies", || relay.fate.strays.load(Ordering::Relaxed) > 5);
    let endpoints =
        far.told(|heard| heard.words.iter().filter(|word| matches!(word, ToWorker::Endpoint { .. })).count());
    assert_eq!(endpoints, 1, "told once, at the beginning");
    assert_eq!(far.endpoint(0), Some(relay.outer[0]));
}

/// Whether the worker was ever told to send where the strays came from.
fn was_drawn_away(far: &Site, relay: &Relay) -> bool {
    far.told(|heard| {
        heard.words.iter().any(
            |word| matches!(word, ToWorker::Endpoint { address, .. } if *address == Some(relay.elsewhere)),
        )
    })
}

/// Whoever can hold packets back and send them from elsewhere makes QUIC look there; data does not follow, and goes on
/// where it went when they stop. Not even if what the site sends to where the peer really is passes, and is answered
/// from elsewhere: QUIC goes to and fro then, and so do Pings.
#[test]
fn a_diversion_moves_no_data() {
    let (near, far, relay) = pair();
    // Longer than a connection lives without an answer.
    relay.fate.diverted.store(true, Ordering::Relaxed);
    std::thread::sleep(Duration::from_secs(4));
    relay.fate.diverted.store(false, Ordering::Relaxed);
    until("up", || near.is_up(0) && far.is_up(0));
    assert!(!was_drawn_away(&far, &relay), "not where the strays came from");
    until("where it was", || far.endpoint(0) == Some(relay.outer[0]));
}

/// The same while much is said in both directions, and with pauses.
#[test]
fn a_diversion_of_a_busy_channel_moves_no_data() {
    let (near, far, relay) = pair();
    for step in 0..300 {
        relay.fate.diverted.store(step % 40 < 30, Ordering::Relaxed);
        let mkpdu = [1, 0x80, 0xc2, 0, 0, 3, 2, 0, 0, 0, 0, 1, 0x88, 0x8e, 3, 5, 0, 0];
        near.lan_sends(&mkpdu);
        far.lan_sends(&mkpdu);
        std::thread::sleep(Duration::from_millis(10));
    }
    assert!(relay.fate.strays.load(Ordering::Relaxed) > 50);
    relay.fate.diverted.store(false, Ordering::Relaxed);
    until("up", || near.is_up(0) && far.is_up(0));
    assert!(!was_drawn_away(&far, &relay), "not where the strays came from");
    until("where it was", || far.endpoint(0) == Some(relay.outer[0]));
}
