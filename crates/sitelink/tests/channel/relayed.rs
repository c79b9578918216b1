//! Two sites that do not reach each other, with a third that relays: channel, keys and frames, from LAN to LAN.
//!
//! ```text
//!  LAN ── [low] ══▶ NAT ══▶ [hub: no endpoints] ◀══ NAT ◀══ [high] ── LAN
//! ```
//!
//! A NAT lets in what comes from the hub alone. Without the two the spokes find a direct way.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use sitelink::{ConnState, ManagerPeer, PeerStatus};
use suite::identity::Identity;

use super::plants::{eapol, station};
use super::stand::{LIMIT, Relay, identities, peer, until, until_within};
use super::whole::{Whole, all_cross, first_frame, free};

/// The three, and where they are. The hub's key lies between those of the others.
struct Hub {
    identities: [Identity; 3],
    places: [SocketAddr; 3],
    /// Between the spokes of IPv4 and the hub.
    nats: Option<[Relay; 2]>,
    /// A spoke without a NAT, beside one that has one.
    open: Option<usize>,
}

impl Hub {
    fn new(places: [&str; 3]) -> Self {
        Self { identities: identities(), places: places.map(free), nats: None, open: None }
    }

    fn with_nat(places: [&str; 3]) -> Self {
        let mut net = Self::new(places);
        let mut hub = net.places[1];
        if hub.ip().is_unspecified() {
            hub.set_ip("127.0.0.1".parse().expect("an address"));
        }
        net.nats = Some([Relay::to(hub), Relay::to(hub)]);
        net
    }

    /// A spoke: the first or the last. Its peers are the hub and the other one.
    fn spoke(&self, own: usize) -> Whole {
        let mut at = self.places[1];
        // A socket of both families is reached at the other one's address.
        if at.ip().is_unspecified() {
            at.set_ip(self.places[own].ip());
        }
        if let Some(nats) = &self.nats
            && self.places[own].is_ipv4()
            && self.open != Some(own)
        {
            at = nats[own / 2].address;
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

/// Waits until a hub knows what its ways carry: it drops what is longer.
fn until_found(hub: &Whole) {
    until("what the hub's ways carry", || {
        let status = hub.manager.as_ref().expect("it runs").status();
        status.peers.iter().all(|peer| peer.path_payload == Some(1560))
    });
}

/// A spoke's other one.
fn other(spoke: &Whole) -> PeerStatus {
    spoke.manager.as_ref().expect("it runs").status().peers[1].clone()
}

fn cross(places: [&str; 3]) {
    let net = Hub::with_nat(places);
    let (mut low, mut hub, mut high) = (net.spoke(0), net.hub(true), net.spoke(2));
    until("keys through the hub", || low.is_ready_for(1) && high.is_ready_for(1));
    until_found(&hub);
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
    until_found(&hub);
    all_cross(&mut low, &mut high, &mut pns);
    drop(high);
    let mut high = net.spoke(2);
    let took = first_frame(&mut low, &mut high, &mut pns);
    println!("frames cross again {took:?} after a spoke has restarted");
    until_found(&hub);
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

fn direct(places: [&str; 3]) {
    let net = Hub::new(places);
    let (mut low, hub, mut high) = (net.spoke(0), net.hub(true), net.spoke(2));
    let is_direct = |spoke: &Whole| !other(spoke).relayed && spoke.is_ready_for(1);
    until("a direct way", || is_direct(&low) && is_direct(&high));
    let ip = |spoke: usize| net.places[spoke].ip().to_canonical();
    assert_eq!(other(&low).address, Some(SocketAddr::new(ip(2), net.places[2].port())));
    assert_eq!(other(&high).address, Some(SocketAddr::new(ip(0), net.places[0].port())));
    let mut pns = 1..;
    first_frame(&mut low, &mut high, &mut pns);
    all_cross(&mut low, &mut high, &mut pns);
    // It needs the hub no longer.
    drop(hub);
    all_cross(&mut low, &mut high, &mut pns);
    assert!(is_direct(&low) && is_direct(&high));

    // A spoke that begins anew knows no address of the other one: through the relay, and then directly again.
    let hub = net.hub(true);
    drop(high);
    let mut high = net.spoke(2);
    // A try that a busy machine lets fail comes again after five seconds, and then after a minute.
    until_within(3 * LIMIT, "a direct way again", || is_direct(&low) && is_direct(&high));
    first_frame(&mut low, &mut high, &mut pns);
    all_cross(&mut low, &mut high, &mut pns);
    drop(hub);
}

#[test]
fn two_spokes_that_can_reach_each_other_find_out_through_their_hub() {
    direct(["127.0.0.1", "127.0.0.1", "127.0.0.1"]);
    direct(["127.0.0.1", "::", "127.0.0.1"]);
}

#[test]
fn why_there_is_no_direct_way_is_told_at_both_ends() {
    let net = Hub::with_nat(["127.0.0.1"; 3]);
    let (low, hub, high) = (net.spoke(0), net.hub(true), net.spoke(2));
    until("through the relay", || other(&low).relayed && other(&high).relayed);
    until("why it is not direct", || {
        !other(&low).not_direct.is_empty() && !other(&high).not_direct.is_empty()
    });
    let why = [other(&high).not_direct, other(&low).not_direct];
    let outside = net.nats.as_ref().expect("two").each_ref().map(|nat| nat.outer[0]);
    assert_eq!(why, outside.map(|address| format!("no direct way: no answer from {address}")));
    drop(hub);
}

#[test]
fn one_spoke_that_can_be_reached_is_enough_whichever_has_the_lower_key() {
    for open in [0, 2] {
        // The NAT of the other one has another port for the hub than for this one, and lets in the hub alone.
        let net = Hub { open: Some(open), ..Hub::with_nat(["127.0.0.1"; 3]) };
        let (low, hub, high) = (net.spoke(0), net.hub(true), net.spoke(2));
        let is_direct = |spoke: &Whole| !other(spoke).relayed && spoke.is_ready_for(1);
        until("a direct way", || is_direct(&low) && is_direct(&high));
        drop(hub);
    }
}
