//! The management channel over real QUIC on the loopback: sites that come, go, move and are attacked.

mod address;
mod classical;
mod floods;
mod hostile;
mod mkpdus;
mod path;
mod paths;
#[path = "../../../dataplane/tests/plants/mod.rs"]
mod plants;
mod raw;
mod relayed;
mod restart;
mod roster;
mod scan;
mod stand;
mod whole;

use std::time::{Duration, Instant};

use dataplane::site::ToWorker;
use sitelink::ConnState;
use suite::identity::Identity;
use tunnel::{Command, PeerId};

use stand::{LIMIT, Site, identities, peer, socket, until};

#[test]
fn two_sites_connect_and_agree_on_epochs() {
    let [low, high] = identities();
    let (first, second) = (socket(), socket());
    let at = second.local_addr().expect("an address");
    let second = Site::start(&high, second, vec![peer(&low, None)]);
    let first = Site::start(&low, first, vec![peer(&high, Some(at))]);
    let took = until("both are up", || first.is_up(0) && second.is_up(0));
    println!("connected and greeted after {took:?}");
    assert_eq!(first.endpoint(0), Some(second.address));
    assert_eq!(second.endpoint(0), Some(first.address), "waited for, and known from the handshake");
    for site in [&first, &second] {
        let epochs = |word: &ToWorker| match word {
            ToWorker::Tunnel(Command::InstallTransmit { epoch, .. }) => Some((true, *epoch)),
            ToWorker::Tunnel(Command::InstallReceive { epoch, .. }) => Some((false, *epoch)),
            _ => None,
        };
        until("both directions have keys", || {
            let mut told: Vec<_> = site.told(|heard| heard.words.iter().filter_map(epochs).collect());
            told.sort_unstable();
            told == [(false, 1), (true, 1)]
        });
        until("the path MTU is known to the octet", || site.status().peers[0].path_payload == Some(1500));
        let told = |word: &ToWorker| {
            matches!(word, ToWorker::Tunnel(Command::PathPayload { peer: PeerId(0), octets: 1500 }))
        };
        until("the worker knows it", || site.told(|heard| heard.words.iter().any(told)));
        assert!(site.status().peers[0].round_trip.is_some_and(|rtt| rtt < LIMIT));
    }
    let notices = second.manager.as_ref().expect("it runs").notices();
    assert!(notices.iter().any(|notice| notice.text.starts_with("connected at")), "{notices:?}");
}

#[test]
fn whoever_has_an_endpoint_connects() {
    let [low, high] = identities();
    // The caller has none: the other one connects.
    let (caller, other) = (socket(), socket());
    let at = caller.local_addr().expect("an address");
    let caller = Site::start(&low, caller, vec![peer(&high, None)]);
    let other = Site::start(&high, other, vec![peer(&low, Some(at))]);
    until("both are up", || caller.is_up(0) && other.is_up(0));
    assert_eq!(caller.endpoint(0), Some(other.address));
}

#[test]
fn three_sites_with_endpoints_at_both_ends_stay_connected() {
    let identities: [Identity; 3] = identities();
    let sockets = [socket(), socket(), socket()];
    let addresses = sockets.each_ref().map(|socket| socket.local_addr().expect("an address"));
    let mut sites = Vec::new();
    for (own, socket) in sockets.into_iter().enumerate() {
        let others = (0..3).filter(|other| *other != own);
        let peers = others.map(|other| peer(&identities[other], Some(addresses[other]))).collect();
        sites.push(Site::start(&identities[own], socket, peers));
    }
    until("all are up", || sites.iter().all(|site| site.is_up(0) && site.is_up(1)));
    let connections = || sites.iter().map(|site| site.status().counters.connections).sum::<u64>();
    // Longer than a dead connection would live. Those that met may still do so in the first of these times.
    let stays = |_| {
        let before = connections();
        std::thread::sleep(Duration::from_secs(4));
        connections() == before
    };
    assert!((0..2).any(stays), "somebody connects again");
    let all = connections();
    assert!(all <= 12, "{all} connections: six ends, and as many that met");
    assert!(
        sites.iter().all(|site| site.status().peers.iter().all(|peer| peer.reach == ConnState::Connected))
    );
}

#[test]
fn a_name_is_resolved_and_one_that_cannot_be_says_so() {
    let [low, high] = identities();
    let (first, second) = (socket(), socket());
    let port = second.local_addr().expect("an address").port();
    let second = Site::start(&high, second, vec![peer(&low, None)]);
    let mut named = peer(&high, None);
    named.endpoint = Some(format!("localhost:{port}"));
    let first = Site::start(&low, first, vec![named]);
    until("both are up", || first.is_up(0) && second.is_up(0));
    let mut unknown = peer(&high, None);
    unknown.endpoint = Some("no-such-host.invalid:7787".to_owned());
    let third = Site::start(&low, socket(), vec![unknown]);
    until("the reason", || {
        third.status().peers[0].reason.contains("cannot resolve no-such-host.invalid:7787")
    });
    assert_eq!(third.status().peers[0].reach, ConnState::Connecting);
}

/// Round trips of a peer with one way: both ends send probes and have answers, in both modes.
#[test]
fn a_peer_with_one_way_tells_its_round_trips() {
    for mode in [tunnel::Mode::Identifier, tunnel::Mode::HeaderEncryption] {
        let [low, high] = identities();
        let (first, second) = (socket(), socket());
        let (here, there) =
            (first.local_addr().expect("an address"), second.local_addr().expect("an address"));
        let to = |identity, at| sitelink::ManagerPeer { mode, ..peer(identity, Some(at)) };
        let sites = [
            Site::start(&low, first, vec![to(&high, there)]),
            Site::start(&high, second, vec![to(&low, here)]),
        ];
        for site in &sites {
            until("answers come", || site.status().peers[0].round_trips.is_some_and(|its| its.count >= 3));
            let its = site.status().peers[0].round_trips.expect("answers have come");
            assert!(its.least <= its.most && its.most < LIMIT, "{its:?}");
            // The other end may have begun later.
            until("answers, and requests of the other end", || site.status().counters.in_probes >= 6);
            assert_eq!(site.status().counters.in_probes_not_valid, 0);
        }
    }
}

#[test]
fn header_encryption_and_plain_peers_are_where_their_endpoints_are() {
    let [low, high] = identities();
    let (first, second) = (socket(), socket());
    let (here, there) = (first.local_addr().expect("an address"), second.local_addr().expect("an address"));
    let mut other = peer(&high, Some(there));
    other.mode = tunnel::Mode::HeaderEncryption;
    let mut back = peer(&low, Some(here));
    back.mode = tunnel::Mode::HeaderEncryption;
    let plain = sitelink::ManagerPeer {
        endpoint: Some("127.0.0.9:4789".to_owned()),
        public_key: None,
        via: None,
        mode: tunnel::Mode::Plain { vni: 7 },
        classical: false,
        paths: Vec::new(),
        copies: dataplane::site::Copies::None,
    };
    let first = Site::start(&low, first, vec![other, plain]);
    until("known before there is a channel", || {
        let beside = std::net::SocketAddr::new(there.ip(), there.port() + 1);
        first.endpoint(0) == Some(beside)
            && first.endpoint(1).map(|at| at.to_string()).as_deref() == Some("127.0.0.9:4789")
    });
    let second = Site::start(&high, second, vec![back]);
    until("both are up", || first.is_up(0) && second.is_up(0));
    assert_eq!(first.endpoint(0).map(|at| at.port()), Some(there.port() + 1), "it stays there");
    assert_eq!(first.status().peers[1].reach, ConnState::Without);
}

#[test]
fn sites_of_different_modes_say_so_and_do_not_knock_on_and_on() {
    let [low, high] = identities();
    let (first, second) = (socket(), socket());
    let (here, there) = (first.local_addr().expect("an address"), second.local_addr().expect("an address"));
    let mut other = peer(&high, Some(there));
    other.mode = tunnel::Mode::HeaderEncryption;
    let start = Instant::now();
    let first = Site::start(&low, first, vec![other]);
    let second = Site::start(&high, second, vec![peer(&low, Some(here))]);
    for site in [&first, &second] {
        until("refused", || site.status().peers[0].reach == ConnState::Refused);
        let reason = site.status().peers[0].reason.clone();
        assert!(reason.contains("identifier") && reason.contains("header-encryption"), "{reason}");
    }
    std::thread::sleep(Duration::from_secs(3));
    for site in [&first, &second] {
        assert_eq!(site.status().peers[0].reach, ConnState::Refused, "and never connected");
        let manager = site.manager.as_ref().expect("it runs");
        let (notices, connections) = (manager.notices(), site.status().counters.connections);
        // Each of both may try at once and again every three seconds, and a try may come from either side.
        let tries = 1 + start.elapsed().as_secs() / 3;
        assert!(notices.len() as u64 <= 1 + tries, "{notices:?}");
        assert!(connections <= 2 + 2 * tries, "{connections} connections in {:?}", start.elapsed());
    }
}
