//! Stations: where they are, who tells, and how flows wait for them.

use std::time::{Duration, Instant as Clock};

use tunnel::{InDiscard, Location, PeerId};
use wire::tunnel::{FlowIndex, ParsedFrame};
use xdp::site::{Room, Settings, Site};
use xdp::{Unclaimed, Verdict};

use crate::packets::{PORT, frame, secret, station};
use crate::world::{LAN_FRAME, LANE, LOOPBACK, Outcome, STATIONS, WINDOW, World, load, load_with, udp_path};

#[test]
fn a_station_moves_after_a_second_of_silence() {
    let mut world = World::new(false);
    world.announce(0, 7, 5, 1, true);
    world.announce(1, 8, 5, 1, true);
    world.announce(0, 9, 1, 5, true);
    world.hear(0, 1, 5, 1);
    world.send_known(0, 1, 5, true);
    let mut seq = [0; 2];
    let mut hear = |world: &mut World, peer: u16, index| {
        seq[usize::from(peer)] += 1;
        let packet = world.of_peer((peer, 1, seq[usize::from(peer)]), index, 1, true, 40);
        world.receive(true, &packet)
    };
    let behind = |peer| Some(Location::Behind(PeerId(peer)));
    assert!(matches!(hear(&mut world, 0, 7), Outcome::Sent(_)));
    assert!(matches!(hear(&mut world, 1, 8), Outcome::Sent(_)), "delivered, and not believed");
    assert_eq!(world.location(5), behind(0));
    assert!(matches!(world.send(&frame(1, 5, true, 1, 40)), Outcome::Sent(_)));
    std::thread::sleep(Duration::from_millis(1100));
    assert!(matches!(hear(&mut world, 1, 8), Outcome::Sent(_)));
    assert_eq!(world.location(5), behind(1));
    assert_eq!(world.send(&frame(1, 5, true, 2, 40)), Outcome::ForUserSpace, "this flow goes to peer 0");
    assert_eq!(
        hear(&mut world, 0, 9),
        Outcome::Discarded(Some(InDiscard::SourceHere)),
        "it has just sent here"
    );
    std::thread::sleep(Duration::from_millis(1100));
    assert!(matches!(hear(&mut world, 0, 9), Outcome::Sent(_)));
    assert_eq!(world.location(1), behind(0));
    assert_eq!(world.kernel.counters(0).unwrap().1 + world.kernel.counters(1).unwrap().1, 2);
    assert_eq!(world.send(&frame(1, 5, true, 3, 40)), Outcome::ForUserSpace, "out of a tunnel into none");
}

#[test]
fn a_station_that_was_not_heard_for_long_is_user_spaces() {
    let mut world = World::new(false);
    world.hear(0, 1, 5, 1);
    world.send_known(0, 1, 5, true);
    world.kernel = load(WINDOW);
    let age = Duration::from_millis(50);
    let room = Room { peers: 1, lanes: 2, flows: 4, stations: STATIONS.into() };
    let settings = Settings {
        window: WINDOW,
        lan_frame: LAN_FRAME,
        port: PORT,
        station_age: age,
        quiet: Duration::ZERO,
    };
    let loaded = match std::env::var_os("FRAMEWARD_SITE_OBJECT") {
        Some(file) => Site::load_object(&std::fs::read(file).unwrap(), &room, &settings, Unclaimed::Drop),
        None => Site::load(&room, &settings, Unclaimed::Drop),
    };
    let mut site = loaded.unwrap();
    site.set_wan(1, LOOPBACK).unwrap();
    site.set_path(0, &udp_path(0)).unwrap();
    site.set_peer(0, 0, 0).unwrap();
    let (flow, path, _) = world.flows[0];
    site.add_flow(0, &flow, &path).unwrap();
    site.set_station(1, station(1), Some(Location::Here)).unwrap();
    site.set_station(5, station(5), Some(Location::Behind(PeerId(0)))).unwrap();
    let whole = frame(1, 5, true, 1, 40);
    let verdict = |site: &Site| site.run_outward(&whole, 1).unwrap().verdict;
    // One frame for user space takes those behind it with it.
    let left = |site: &mut Site, why: &str| {
        assert_eq!(verdict(site), Verdict::Drop, "{why}; no socket takes it");
        assert!(site.flow_use(0, site.now().unwrap()).unwrap().in_user_space, "{why}");
        site.set_station(1, station(1), Some(Location::Here)).unwrap();
        site.set_station(5, station(5), Some(Location::Behind(PeerId(0)))).unwrap();
        assert_eq!(verdict(site), Verdict::Drop, "{why}: the flow stays there");
        site.add_flow(0, &flow, &path).unwrap();
    };
    left(&mut site, "no lane");
    site.open_transmit(0, &secret(0, 1, false).lane_key(LANE)).unwrap();
    assert_eq!(verdict(&site), Verdict::Redirect);
    assert_eq!(site.next_seq(0).unwrap(), 2);
    for elsewhere in [Some(Location::Behind(PeerId(0))), None] {
        site.set_station(1, station(1), elsewhere).unwrap();
        left(&mut site, "out of a tunnel into none");
    }
    assert_eq!(verdict(&site), Verdict::Redirect);
    std::thread::sleep(2 * age);
    left(&mut site, "not heard for long");
    site.close_transmit(0).unwrap();
    assert_eq!(site.next_seq(0).unwrap(), 0);
}

/// Frames of an added flow stay behind those that user space has still.
#[test]
fn an_added_flow_waits_for_a_pause() {
    let (quiet, step) = (Duration::from_millis(300), Duration::from_millis(15));
    let mut world = World::new(false);
    world.hear(0, 1, 5, 1);
    world.send_known(0, 1, 5, true);
    let (flow, path, _) = world.flows[0];
    let mut site = load_with(WINDOW, quiet);
    site.set_wan(1, LOOPBACK).unwrap();
    site.set_path(0, &udp_path(46)).unwrap();
    site.set_peer(0, 0, 0).unwrap();
    site.open_transmit(0, &secret(0, 1, false).lane_key(LANE)).unwrap();
    site.set_station(1, station(1), Some(Location::Here)).unwrap();
    site.set_station(5, station(5), Some(Location::Behind(PeerId(0)))).unwrap();
    let whole = frame(1, 5, true, 1, 40);
    let ran = |site: &Site| site.run_outward(&whole, 1).unwrap();
    site.add_flow(0, &flow, &path).unwrap();
    // A pause since the last frame, not since the flow was added.
    for _ in 0..2 * quiet.as_millis() / step.as_millis() {
        assert_eq!(ran(&site).verdict, Verdict::Pass);
        std::thread::sleep(step);
    }
    let used = site.flow_use(0, site.now().unwrap()).unwrap();
    assert_eq!((used.idle, used.in_user_space), (None, false), "it is not to be added anew");
    std::thread::sleep(quiet + quiet / 4);
    let sent = ran(&site);
    assert_eq!(sent.verdict, Verdict::Redirect);
    assert_eq!(sent.frame[15], 46 << 2, "its DSCP");
    assert_eq!(ran(&site).verdict, Verdict::Redirect);
    // A flow that does not pause does not wait for ever.
    let added = Clock::now();
    site.add_flow(0, &flow, &path).unwrap();
    loop {
        let verdict = ran(&site).verdict;
        if added.elapsed() >= Duration::from_secs(1) {
            break;
        }
        assert_eq!(verdict, Verdict::Pass);
        std::thread::sleep(step);
    }
    let end = Clock::now() + Duration::from_millis(300);
    while ran(&site).verdict == Verdict::Pass {
        assert!(Clock::now() < end, "it waits for ever");
        std::thread::sleep(step);
    }
}

/// A station all of whose frames are user space's is here all the same: no peer takes its place.
#[test]
fn a_station_is_heard_in_frames_of_user_space_too() {
    let mut world = World::new(false);
    world.announce(0, 7, 5, 1, true);
    world.kernel.set_station(5, station(5), None).unwrap();
    world.kernel.set_address(station(5), 5).unwrap();
    let mut seq = 0;
    let mut receive = |world: &mut World| {
        seq += 1;
        let packet = world.of_peer((0, 1, seq), 7, 1, true, 40);
        world.kernel.run_inward(&packet, 1).unwrap().verdict
    };
    let unknown = frame(5, 9, true, 1, 40);
    assert_eq!(world.kernel.run_outward(&unknown, 1).unwrap().verdict, Verdict::Pass);
    assert_eq!(world.location(5), Some(Location::Here));
    assert_eq!(receive(&mut world), Verdict::Drop, "it has just sent here");
    std::thread::sleep(Duration::from_millis(700));
    world.kernel.run_outward(&unknown, 1).unwrap();
    std::thread::sleep(Duration::from_millis(700));
    assert_eq!(receive(&mut world), Verdict::Drop, "it has sent within a second");
    std::thread::sleep(Duration::from_millis(1100));
    assert_eq!(receive(&mut world), Verdict::Redirect);
    assert_eq!(world.location(5), Some(Location::Behind(PeerId(0))));
    // Out of a tunnel: user space looks at it.
    world.kernel.run_outward(&unknown, 1).unwrap();
    assert_eq!(world.location(5), Some(Location::Behind(PeerId(0))));
    world.kernel.remove_address(station(5)).unwrap();
    world.kernel.set_station(5, station(5), None).unwrap();
    world.kernel.run_outward(&unknown, 1).unwrap();
    assert_eq!(world.location(5), None);
}

/// What a program finds that reads an element of a hash map after its memory is another key's: a number that is not its own.
#[test]
fn a_number_that_is_another_keys_is_nobodys() {
    let mut world = World::new(false);
    world.hear(0, 1, 5, 1);
    (1..=2).for_each(|source| world.send_known(0, source, 5, true));
    let (flow, path, _) = world.flows[1];
    world.kernel.add_flow(0, &flow, &path).unwrap();
    let sent =
        |world: &World, source| world.kernel.run_outward(&frame(source, 5, true, 1, 40), 1).unwrap().verdict;
    assert_eq!([1, 2].map(|source| sent(&world, source)), [Verdict::Pass, Verdict::Redirect]);
    // Flows that differ in one word each.
    for octet in [0, 4, 8, 20, 24] {
        let mut other = frame(1, 5, true, 1, 40);
        other[octet] ^= 2;
        let other = ParsedFrame::parse(&other).unwrap().flow;
        world.kernel.add_flow(0, &other, &path).unwrap();
        assert_eq!(sent(&world, 1), Verdict::Pass, "octet {octet}");
    }
    world.announce(0, 7, 5, 1, true);
    let other = ParsedFrame::parse(&frame(6, 1, true, 1, 0)).unwrap().flow;
    let number = world.announced.iter().position(|known| known.1 == FlowIndex(7)).unwrap();
    world.kernel.announce(number as u32, (0, FlowIndex(8)), &other, 6).unwrap();
    let received = |world: &World, index: u16, seq: u64| {
        let packet = world.of_peer((0, 1, seq), index, 1, true, 40);
        world.kernel.run_inward(&packet, 1).unwrap().verdict
    };
    assert_eq!([received(&world, 7, 1), received(&world, 8, 2)], [Verdict::Drop, Verdict::Redirect]);
    assert_eq!(world.kernel.counters(0).unwrap().0.in_pkts_unknown_flow, 1);
    world.kernel.set_station(9, station(9), None).unwrap();
    world.kernel.set_address(station(8), 9).unwrap();
    world.kernel.run_outward(&frame(8, 11, true, 1, 40), 1).unwrap();
    assert_eq!(world.location(9), None, "another was heard");
}
