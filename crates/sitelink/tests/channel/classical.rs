//! Key agreement that a quantum computer would break later: which ends may use it.

use std::net::SocketAddr;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use rustls::crypto::SupportedKxGroup;
use rustls::crypto::aws_lc_rs::kx_group;
use sitelink::{ConnState, KeyExchange, ManagerPeer};
use suite::identity::Identity;
use tunnel::PeerId;

use super::hostile::PROTOCOL;
use super::raw::{self, Shown};
use super::stand::{LIMIT, Relay, Site, identities, peer, socket, until};

const CLASSICAL: &[&dyn SupportedKxGroup] = &[kx_group::X25519];

/// A peer that may agree by X25519 alone.
fn classical(identity: &Identity, endpoint: Option<SocketAddr>) -> ManagerPeer {
    ManagerPeer { classical: true, ..peer(identity, endpoint) }
}

/// Whether a client is taken as this peer.
fn is_taken(groups: &[&'static dyn SupportedKxGroup], as_peer: &Identity, by: &Site) -> bool {
    let before = by.status().counters;
    raw::runtime().block_on(async {
        let shown = Shown::Key(as_peer.public(), as_peer);
        let (_endpoint, _connection) = raw::connect_by(groups, shown, PROTOCOL, by.known()).await;
        until("an end of it", || {
            let now = by.status().counters;
            now.connections > before.connections || now.in_handshakes_failed > before.in_handshakes_failed
        });
    });
    by.status().counters.connections > before.connections
}

#[test]
fn who_agrees_by_x25519_alone_is_refused_unless_it_is_allowed() {
    let [low, middle, high] = identities();
    let far = Site::start(&high, socket(), vec![peer(&low, None)]);
    assert!(!is_taken(CLASSICAL, &low, &far));
    assert!(!is_taken(&[kx_group::MLKEM768], &low, &far), "nor by the other half alone");
    assert!(is_taken(&[kx_group::X25519MLKEM768], &low, &far));
    assert!(is_taken(&[kx_group::X25519, kx_group::X25519MLKEM768], &low, &far), "asked for the other one");

    // Allowed for one peer, and for no other.
    let far = Site::start(&high, socket(), vec![peer(&low, None), classical(&middle, None)]);
    assert!(!is_taken(CLASSICAL, &low, &far));
    assert!(is_taken(CLASSICAL, &middle, &far));
    until("told", || {
        let told = far.manager.as_ref().expect("it runs").notices();
        told.iter().any(|notice| notice.peer == Some(PeerId(1)) && notice.text.contains("X25519 alone"))
    });
}

#[test]
fn two_sites_agree_by_both_halves_also_where_one_would_be_allowed() {
    let [low, high] = identities();
    for (near, far) in
        [(peer(&high, None), peer(&low, None)), (classical(&high, None), classical(&low, None))]
    {
        let second = Site::start(&high, socket(), vec![far]);
        let endpoint = Some(second.address.to_string());
        let first = Site::start(&low, socket(), vec![ManagerPeer { endpoint, ..near }]);
        until("both are up", || first.is_up(0) && second.is_up(0));
        for site in [&first, &second] {
            assert_eq!(site.status().peers[0].key_exchange, Some(KeyExchange::Hybrid));
        }
    }
}

#[test]
fn a_site_does_not_connect_to_a_classical_server_unless_it_is_allowed() {
    let [low, high] = identities();
    let runtime = raw::runtime();
    let server = {
        let _inside = runtime.enter();
        raw::serve(CLASSICAL, high.public(), &high)
    };
    let at = server.local_addr().expect("an address");
    let serving = std::thread::spawn(move || {
        runtime.block_on(async {
            loop {
                let incoming = server.accept().await.expect("open");
                if let Ok(connection) = incoming.await {
                    // It speaks, as a site would.
                    let mut stream = connection.open_uni().await.expect("a stream");
                    stream.write_all(&[0]).await.expect("an octet");
                    return connection.closed().await;
                }
            }
        })
    });
    let near = Site::start(&low, socket(), vec![peer(&high, Some(at))]);
    until("refused", || near.status().peers[0].reach == ConnState::Refused);
    let reason = near.status().peers[0].reason.clone();
    assert!(reason.contains("X25519MLKEM768"), "{reason}");
    assert_eq!(near.status().counters.connections, 0);
    drop(near);
    let near = Site::start(&low, socket(), vec![classical(&high, Some(at))]);
    until("connected", || near.status().counters.connections == 1);
    drop(near);
    serving.join().expect("no panic");
}

/// Two packets instead of one have to arrive before the server can answer.
#[test]
fn the_longer_hello_gets_through_loss_and_a_narrow_path_in_twice_the_time() {
    const ROUNDS: u32 = 60;
    let [low, high] = identities();
    let far = Site::start(&high, socket(), vec![classical(&low, None)]);
    let relay = Relay::to(far.address);
    // An IPv6 packet of 1280 octets.
    relay.fate.most.store(1280 - 40 - 8, Ordering::Relaxed);
    relay.fate.lost.store(20, Ordering::Relaxed);
    let time = |groups: &[&'static dyn SupportedKxGroup]| {
        let mut sum = Duration::ZERO;
        for _ in 0..ROUNDS {
            let start = Instant::now();
            raw::runtime().block_on(async {
                let shown = Shown::Key(low.public(), &low);
                let connecting = raw::connect_by(groups, shown, PROTOCOL, (relay.address, high.public()));
                let (_endpoint, connection) = tokio::time::timeout(LIMIT, connecting).await.expect("in time");
                connection.expect("a connection");
            });
            sum += start.elapsed();
        }
        sum
    };
    let (alone, together) = (time(CLASSICAL), time(&[kx_group::X25519MLKEM768]));
    println!(
        "connected through 5 % loss in {:?} by X25519, {:?} by X25519MLKEM768",
        alone / ROUNDS,
        together / ROUNDS
    );
    assert!(together < 2 * alone + ROUNDS * Duration::from_millis(50), "{together:?} instead of {alone:?}");
}
