//! Two sites that do not reach each other, with a third that relays: channel, keys and frames, from LAN to LAN.
//!
//! ```text
//!  LAN ── [low] ══ endpoint of the hub ══▶ [hub: no endpoints] ◀══ endpoint of the hub ══ [high] ── LAN
//! ```

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use sitelink::{ConnState, ManagerPeer, PeerStatus};
use suite::identity::Identity;

use super::plants::{eapol, station};
use super::stand::{LIMIT, identities, peer, until};
use super::whole::{Whole, all_cross, first_frame, free};

/// The three, and where they are. The hub's key lies between those of the others.
struct Hub {
    identities: [Identity; 3],
    places: [SocketAddr; 3],
}

impl Hub {
    fn new(places: [&str; 3]) -> Self {
        Self { identities: identities(), places: places.map(free) }
    }

    /// A spoke: the first or the last. Its peers are the hub and the other one.
    fn spoke(&self, own: usize) -> Whole {
        let mut at = self.places[1];
        // A socket of both families is reached at the other one's address.
        if at.ip().is_unspecified() {
            at.set_ip(self.places[own].ip());
        }
        let [_, hub, _] = &self.identities;
        let other = ManagerPeer { via: Some(hub.public()), ..peer(&self.identities[2 - own], None) };
        Whole::start_as(&self.identities[own], self.places[own], vec![peer(hub, Some(at)), other], false)
    }

    fn hub(&self, relays: bool) -> Whole {
        let [low, hub, high] = &self.identities;
        Whole::start_as(hub, self.places[1], vec![peer(low, None), peer(high, None)], relays)
    }
}

/// A spoke's other one.
fn other(spoke: &Whole) -> PeerStatus {
    spoke.manager.as_ref().expect("it runs").status().peers[1].clone()
}

fn cross(places: [&str; 3]) {
    let net = Hub::new(places);
    let (mut low, mut hub, mut high) = (net.spoke(0), net.hub(true), net.spoke(2));
    until("keys through the hub", || low.is_ready_for(1) && high.is_ready_for(1));
    let mut pns = 1..;
    first_frame(&mut low, &mut high, &mut pns);
    while hub.lan.collect().is_some() {}
    all_cross(&mut low, &mut high, &mut pns);
    for spoke in [&low, &high] {
        until("what the way carries", || other(spoke).path_payload.is_some_and(|octets| octets > 1400));
        let status = other(spoke);
        assert!(status.relayed && status.address.is_none() && status.seen_at.is_none(), "{status:?}");
        assert_eq!(status.reach, ConnState::Connected);
        let notices = spoke.manager.as_ref().expect("it runs").notices();
        assert!(notices.iter().any(|notice| notice.text == "connected through the relay"), "{notices:?}");
    }
    let mka = eapol(station(7), 120);
    assert!(high.lan.inject(&mka));
    let start = Instant::now();
    while low.lan.collect().is_none_or(|frame| frame != mka) {
        assert!(start.elapsed() < LIMIT, "no MKA from LAN to LAN");
        std::thread::sleep(Duration::from_millis(1));
    }

    drop(hub);
    let hub = net.hub(true);
    let took = first_frame(&mut low, &mut high, &mut pns);
    println!("frames cross again {took:?} after the hub has restarted");
    all_cross(&mut low, &mut high, &mut pns);
    drop(high);
    let mut high = net.spoke(2);
    let took = first_frame(&mut low, &mut high, &mut pns);
    println!("frames cross again {took:?} after a spoke has restarted");
    all_cross(&mut low, &mut high, &mut pns);
    drop(hub);
}

#[test]
fn two_spokes_agree_on_keys_through_their_hub_and_again_after_restarts() {
    cross(["127.0.0.1", "127.0.0.1", "127.0.0.1"]);
}

#[test]
fn spokes_of_two_families() {
    cross(["127.0.0.1", "::", "::1"]);
}

#[test]
fn who_does_not_relay_is_told_of_as_no_answer() {
    let net = Hub::new(["127.0.0.1"; 3]);
    let (low, hub, high) = (net.spoke(0), net.hub(false), net.spoke(2));
    until("the hub is there", || low.is_ready_for(0) && high.is_ready_for(0));
    until("a reason", || other(&low).reason == "no answer through the relay");
    let status = other(&low);
    assert!(status.reach == ConnState::Connecting && !status.relayed, "{status:?}");
    drop((hub, high));
}
