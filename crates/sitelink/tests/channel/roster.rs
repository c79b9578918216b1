//! Peers that leave and come while the channel runs.

use dataplane::site::ToWorker;
use sitelink::ConnState;
use tunnel::{Command, PeerId};

use super::stand::{Site, identities, peer, socket, until};

/// Whether the peer of this number is up; false if there is none.
fn is_up(site: &Site, number: u16) -> bool {
    let peers = site.status().peers;
    peers.iter().position(|peer| peer.peer == PeerId(number)).is_some_and(|at| site.is_up(at as u16))
}

#[test]
fn a_peer_comes_and_goes_and_the_others_do_not_notice() {
    let [near, steady, other] = identities();
    let steady_site = Site::start(&steady, socket(), vec![peer(&near, None)]);
    let site = Site::start(&near, socket(), vec![peer(&steady, Some(steady_site.address))]);
    let manager = site.manager.as_ref().expect("it runs");
    until("up", || is_up(&site, 0) && steady_site.is_up(0));
    let connections = |at: &Site| at.status().peers[0].session.map(|state| state.counters.connections);

    // The other one calls, is refused, and is let in as soon as it is known.
    let other_site = Site::start(&other, socket(), vec![peer(&near, Some(site.address))]);
    until("it is refused", || other_site.status().peers[0].reach == ConnState::Refused);
    manager.change_peers(&[], vec![(PeerId(1), peer(&other, Some(other_site.address)))], 1500);
    until("it has come", || is_up(&site, 1) && other_site.is_up(0));

    // It leaves, is told, and is refused again.
    manager.change_peers(&[PeerId(1)], vec![], 1500);
    until("it has left", || site.status().peers.len() == 1);
    until("it is told", || other_site.status().peers[0].reach == ConnState::Refused);
    let notices = other_site.manager.as_ref().expect("it runs").notices();
    assert!(
        notices
            .iter()
            .any(|notice| notice.text.contains("another configuration of this site, or none any more")),
        "{notices:?}"
    );

    // It comes again under another number, and both ends begin anew.
    manager.change_peers(&[], vec![(PeerId(2), peer(&other, Some(other_site.address)))], 1500);
    until("it is back", || is_up(&site, 2) && other_site.is_up(0));
    assert_eq!(other_site.status().peers[0].session.map(|state| state.counters.peer_instances), Some(2));
    let numbers: Vec<_> = site.status().peers.iter().map(|peer| peer.peer).collect();
    assert_eq!(numbers, [PeerId(0), PeerId(2)]);
    let begun = site.told(|heard| {
        let begun = heard.words.iter().filter_map(|word| match word {
            ToWorker::Tunnel(Command::Begin { peer, .. }) => Some(peer.0),
            _ => None,
        });
        begun.collect::<Vec<_>>()
    });
    assert_eq!(begun, [0, 1, 2], "each number has begun once");
    assert_eq!((connections(&site), connections(&steady_site)), (Some(1), Some(1)));
}
