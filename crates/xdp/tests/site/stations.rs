//! Stations: where they are, who tells, and how flows wait for them.

use std::cell::Cell;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant as Clock};

use tunnel::{Delivery, Discard, InDiscard, Location, PacketSource, PeerId};
use wire::tunnel::{Flow, FlowIndex, PacketForm, ParsedFrame};
use xdp::site::{FlowPath, Room, Settings, Site};
use xdp::{Unclaimed, Verdict};

use crate::packets::{PORT, addresses, datagram, frame, secret, station};
use crate::world::{
    LAN_FRAME, LANE, LOOPBACK, Outcome, STATIONS, WINDOW, World, load, load_with, token_key, udp_path,
};

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
    let room = Room { peers: 1, lanes: 2, watched: 0, paths: 2, flows: 4, stations: STATIONS.into() };
    let settings = Settings {
        window: WINDOW,
        lan_frame: LAN_FRAME,
        port: PORT,
        station_age: age,
        quiet: Duration::ZERO,
        token_key: token_key(),
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

/// Programs with one lane, and a flow for them.
fn with_a_flow(quiet: Duration) -> (Site, Flow, FlowPath) {
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
    (site, flow, path)
}

/// Frames of an added flow stay behind those that the peer's user space has still.
#[test]
fn an_added_flow_waits_for_a_pause() {
    let (quiet, step) = (Duration::from_millis(300), Duration::from_millis(15));
    let (mut site, flow, path) = with_a_flow(quiet);
    let whole = frame(1, 5, true, 1, 40);
    let ran = |site: &Site| site.run_outward(&whole, 1).unwrap();
    site.add_flow(0, &flow, &path).unwrap();
    // A pause since the last frame, not since the flow was added. A busy machine makes pauses of its own.
    let (mut added, mut last) = (Clock::now(), Clock::now());
    while added.elapsed() < 2 * quiet {
        std::thread::sleep(step);
        let verdict = ran(&site).verdict;
        if last.elapsed() < quiet && added.elapsed() < 3 * quiet {
            assert_eq!(verdict, Verdict::Pass);
        } else {
            site.add_flow(0, &flow, &path).unwrap();
            added = Clock::now();
        }
        last = Clock::now();
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
        // By a clock of coarse ticks.
        if added.elapsed() >= Duration::from_millis(980) {
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

/// However late the worker is, no frame overtakes those that it has still.
#[test]
fn an_added_flow_waits_for_the_worker() {
    let quiet = Duration::from_millis(10);
    let (mut site, flow, path) = with_a_flow(quiet);
    let turns = site.turns().unwrap();
    let tell = |begun, no_frame| {
        let to = [begun, no_frame, 0];
        turns.words().iter().zip(to).for_each(|(word, to): (_, u64)| word.store(to, Ordering::SeqCst));
    };
    let whole = frame(1, 5, true, 1, 40);
    let verdict = |site: &Site, pause| {
        std::thread::sleep(pause);
        site.run_outward(&whole, 1).unwrap().verdict
    };
    tell(7, 7);
    site.add_flow(0, &flow, &path).unwrap();
    // (turns begun, the last that found no frame): that turn has to have begun behind the last frame, which was handed over in the turns
    // before these, beginning with 7.
    for (begun, empty) in [(7, 7), (8, 7), (9, 8), (9, 9), (10, 9)] {
        tell(begun, empty);
        assert_eq!(verdict(&site, 3 * quiet), Verdict::Pass, "{begun} {empty}");
    }
    tell(11, 11);
    assert_eq!(verdict(&site, 3 * quiet), Verdict::Redirect);
    // A flow without a pause waits for the worker too, and for the driver.
    let mut added = Clock::now();
    site.add_flow(0, &flow, &path).unwrap();
    loop {
        while added.elapsed() < Duration::from_millis(1300) {
            assert_eq!(verdict(&site, quiet / 2), Verdict::Pass);
        }
        tell(12, 12);
        let last = Clock::now();
        let soon = [verdict(&site, Duration::ZERO), verdict(&site, Duration::ZERO)];
        if last.elapsed() < Duration::from_micros(400) {
            assert_eq!(soon[1], Verdict::Pass);
            break;
        }
        tell(11, 11);
        added = Clock::now();
        site.add_flow(0, &flow, &path).unwrap();
    }
    tell(13, 13);
    assert_eq!(verdict(&site, Duration::from_millis(1)), Verdict::Redirect);
    // A worker that is never done does not keep it for ever.
    tell(14, 13);
    added = Clock::now();
    site.add_flow(0, &flow, &path).unwrap();
    while verdict(&site, 2 * quiet) == Verdict::Pass {
        assert!(added.elapsed() < Duration::from_secs(30), "it waits for ever");
    }
    assert!(added.elapsed() >= Duration::from_millis(3980), "{:?}", added.elapsed());
}

/// Frames of a peer's flow that begins to come on these lanes stay behind those that the worker may have still, however late it is.
#[test]
fn a_peers_flow_begins_behind_the_worker() {
    for v6 in [false, true] {
        let mut world = World::new(v6);
        (7..=8).for_each(|index| world.announce(0, index, 5, 1, true));
        world.kernel.receive_at(addresses(v6)[0].ip(), &[]).unwrap();
        let turns = world.kernel.turns().unwrap();
        let tell = |begun, no_packet| {
            let to = [begun, 0, no_packet];
            turns.words().iter().zip(to).for_each(|(word, to): (_, u64)| word.store(to, Ordering::SeqCst));
        };
        let (outer, seq) = (if v6 { 62 } else { 42 }, Cell::new(0));
        // A packet that begins with this octet, for the socket.
        let pass = |world: &World, first: u8| {
            let mut packet = world.of_peer((0, 9, 1), 7, 1, true, 41);
            packet[outer] = first;
            assert_eq!(world.kernel.run_inward(&packet, 1).unwrap().verdict, Verdict::Pass);
        };
        let opened = |world: &mut World, index: u16, pause: u64| {
            std::thread::sleep(Duration::from_millis(pause));
            seq.set(seq.get() + 1);
            let packet = world.of_peer((0, 1, seq.get()), index, seq.get() as u32, true, 41);
            let ran = world.kernel.run_inward(&packet, 1).unwrap();
            if ran.verdict == Verdict::Redirect {
                return false;
            }
            // Token, peer, and the header as it was before it was masked.
            let header = world.header(index, PacketForm::Whole, seq.get() as u32, true).encode();
            let front = [&token_key().token(header, 0, 0).octets()[..], &[0, 0], &header].concat();
            assert_eq!(ran.verdict, Verdict::Pass);
            let body = &packet[outer + 16..];
            assert_eq!(ran.frame, datagram(v6, false, &[&front, body].concat()));
            // User space has to make the same frame of it.
            let payload = &ran.frame[outer..];
            let delivered = world.rust.handle_packet(world.now(), PacketSource::Opened(PeerId(0)), payload);
            let Ok(Delivery::Frame { prefix, body: at, .. }) = delivered else { panic!("{delivered:?}") };
            let front = frame(5, 1, true, seq.get() as u32, 0);
            assert_eq!([&prefix, &payload[at]].concat(), [&front, body].concat());
            true
        };
        tell(7, 7);
        pass(&world, 0x41);
        assert!(!opened(&mut world, 8, 0), "QUIC has no frames");
        pass(&world, 1);
        // (turns begun, the last that found no packet): that turn has to have begun behind the last packet, which was handed over in the
        // turns before these, beginning with 7.
        for (begun, no_packet) in [(7, 7), (8, 7), (9, 8), (9, 9), (10, 9)] {
            tell(begun, no_packet);
            assert!(opened(&mut world, 7, 5), "{begun} {no_packet}");
        }
        let last = Clock::now();
        assert!(opened(&mut world, 7, 0));
        tell(11, 11);
        let soon = opened(&mut world, 7, 0);
        assert!(soon || last.elapsed() > Duration::from_micros(400), "a driver may have it still");
        tell(12, 12);
        assert!(!opened(&mut world, 7, 5));
        let last = Clock::now();
        pass(&world, 1);
        let began = opened(&mut world, 7, 400);
        assert!(!began || last.elapsed() > Duration::from_millis(880), "it has begun");
        assert!(opened(&mut world, 7, 1000), "it may have been in user space");
        tell(13, 13);
        assert!(!opened(&mut world, 7, 5));
        assert!(!opened(&mut world, 7, 1000), "user space has nothing");
        assert_eq!(world.kernel.counters(0).unwrap().0.in_pkts_tunnelled, seq.get());
        // A worker that is never done does not keep it for ever.
        std::thread::sleep(Duration::from_secs(1));
        pass(&world, 1);
        let began = Clock::now();
        while opened(&mut world, 7, 20) {
            assert!(began.elapsed() < Duration::from_secs(30), "it waits for ever");
        }
        assert!(began.elapsed() >= Duration::from_millis(3980), "{:?}", began.elapsed());
    }
}

/// Packets that no program of this version opens.
#[test]
fn opened_packets_that_fit_no_flow_are_discarded() {
    let mut world = World::new(false);
    world.announce(0, 7, 5, 1, true);
    let rows = [
        (0, 7, PacketForm::Whole, None),
        (0, 8, PacketForm::Whole, Some(InDiscard::UnknownFlow)),
        (1, 7, PacketForm::Whole, Some(InDiscard::UnknownFlow)),
        (0, 7, PacketForm::First, Some(InDiscard::BadHeader)),
        (0, 7, PacketForm::LongForm, Some(InDiscard::BadHeader)),
    ];
    for (peer, index, form, discarded) in rows {
        let header = world.header(index, form, 1, true).encode();
        let payload = [&[0x3c; 6], &[0, 0][..], &header, &[7; 41]].concat();
        let delivered = world.rust.handle_packet(world.now(), PacketSource::Opened(PeerId(peer)), &payload);
        assert_eq!(delivered.err(), discarded.map(|reason| Discard::Of(PeerId(peer), reason)));
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

/// A number of another key: a program finds it if it reads an element of a hash map after its memory has become that key's.
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
