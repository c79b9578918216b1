//! Length of the packets that a path carries.

use std::sync::atomic::Ordering;
use std::time::Duration;

use dataplane::site::ToWorker;
use tunnel::Command;

use super::stand::{Relay, Site, identities, peer, socket, until};

/// Payload of the path, in octets, as the worker was told last.
fn payload(site: &Site) -> Option<usize> {
    site.told(|heard| {
        heard.words.iter().rev().find_map(|word| match word {
            ToWorker::Tunnel(Command::PathPayload { octets, .. }) => Some(*octets),
            _ => None,
        })
    })
}

/// To the octet, since a frame that would just fit must not be split; and no more than it carries, also after that has
/// become less, since what is too long vanishes.
#[test]
fn the_longest_packet_is_found_and_found_again_when_the_path_shrinks() {
    let [low, high] = identities();
    let far = Site::start(&high, socket(), vec![peer(&low, None)]);
    let relay = Relay::to(far.address);
    relay.fate.most.store(1423, Ordering::Relaxed);
    let near = Site::start(&low, socket(), vec![peer(&high, Some(relay.address))]);
    until("up", || near.is_up(0) && far.is_up(0));
    let took = until("to the octet", || payload(&near) == Some(1423) && payload(&far) == Some(1423));
    println!("the longest packet was found after {took:?}");
    // Until it is believed that the path is a shorter one.
    std::thread::sleep(Duration::from_secs(5).saturating_sub(took));
    relay.fate.most.store(1300, Ordering::Relaxed);
    let shrunk = |site: &Site| payload(site).is_some_and(|octets| octets <= 1300);
    let took = until("it shrank", || shrunk(&near) && shrunk(&far));
    println!("that the path shrank was found after {took:?}");
    assert!(near.is_up(0) && far.is_up(0));
    assert_eq!(far.status().counters.connections, 1, "the connection is the same");
}
