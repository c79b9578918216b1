//! Two peers that are boxes of one LAN, and a third one; and a partner on the own LAN.

use std::time::Duration;

use tunnel::{
    Command, Delivery, Destination, Discard, Event, Forwarding, Generation, InDiscard, Limits, Mode,
    PacketSource, PeerId, PeerSettings, Settings,
};
use wire::{Instant, MacAddr};

const FIRST: PeerId = PeerId(0);
const SECOND: PeerId = PeerId(1);
const OTHER: PeerId = PeerId(2);
const ALL: [PeerId; 3] = [FIRST, SECOND, OTHER];

fn at(ms: u64) -> Instant {
    Instant::after_start(Duration::from_millis(1000 + ms))
}

fn half(peers: usize) -> Forwarding {
    half_with(peers, Limits::default())
}

fn half_with(peers: usize, limits: Limits) -> Forwarding {
    Forwarding::new(Settings {
        peers: vec![PeerSettings { mode: Mode::Plain { vni: 7 }, path_payload: 1472 }; peers],
        lan_frame: 1600,
        limits,
        window: 64,
        table_seed: [7; 16],
    })
}

fn address(station: u8) -> [u8; 6] {
    [2, 0, 0, 0, 0, station]
}

fn frame(from: u8, to: u8) -> Vec<u8> {
    let tag = [0x88, 0xe5, 0x2c, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 9, 0, 1];
    [&address(to)[..], &address(from), &tag, &[from; 60]].concat()
}

/// A frame of a station that a peer sends.
fn hear(site: &mut Forwarding, now: Instant, peer: PeerId, station: u8) -> Result<(), Discard> {
    let (mut sender, octets) = (half(1), frame(station, 99));
    let route = sender.route(now, &octets).expect("a route");
    let packet = sender.dispatch(now, &route, PeerId(0), &octets).remove(0);
    let packet = [&packet.header[..], &octets[packet.body]].concat();
    let heard = site.handle_packet(now, PacketSource::From(peer), &packet);
    heard.map(|delivery| assert!(matches!(delivery, Delivery::Frame { from, .. } if from == peer)))
}

fn destination(site: &mut Forwarding, now: Instant, to: u8) -> Destination {
    site.route(now, &frame(1, to)).expect("a route").destination
}

fn passed_over(site: &Forwarding) -> Vec<PeerId> {
    ALL.into_iter().filter(|peer| site.is_passed_over(*peer)).collect()
}

#[test]
fn twins_are_one_place_and_the_one_that_was_heard_last_gets_all() {
    let mut site = half(3);
    site.join_twins(FIRST, SECOND);
    assert_eq!(passed_over(&site), [], "neither was heard");
    hear(&mut site, at(0), FIRST, 10).unwrap();
    hear(&mut site, at(0), FIRST, 11).unwrap();
    assert_eq!(
        (destination(&mut site, at(1), 11), passed_over(&site)),
        (Destination::Peer(FIRST), vec![SECOND])
    );
    // One frame of one station moves all, at once.
    hear(&mut site, at(2), SECOND, 10).unwrap();
    for station in [10, 11] {
        assert_eq!(destination(&mut site, at(3), station), Destination::Peer(SECOND));
    }
    assert_eq!(passed_over(&site), [FIRST]);
    // A peer that is none of them moves nothing before its second of silence, as ever.
    hear(&mut site, at(4), OTHER, 11).unwrap();
    assert_eq!(destination(&mut site, at(5), 11), Destination::Peer(SECOND));
    assert_eq!(passed_over(&site), [FIRST]);
    assert_eq!(destination(&mut site, at(6), 77), Destination::All);
    // What the first one lets pass while it hands over moves nothing back: it would be sent frames for which it is no more there.
    for ms in [7, 500, 1501] {
        hear(&mut site, at(ms), FIRST, 10).unwrap();
        assert_eq!(
            (destination(&mut site, at(ms), 11), passed_over(&site)),
            (Destination::Peer(SECOND), vec![FIRST])
        );
    }
    hear(&mut site, at(1502), FIRST, 10).unwrap();
    assert_eq!(
        (destination(&mut site, at(1503), 11), passed_over(&site)),
        (Destination::Peer(FIRST), vec![SECOND])
    );
}

/// What a third site sent comes out of one box of a LAN, and goes into the other one if both forward. Delivered again, it would go on from
/// LAN to LAN where two LANs are in that state.
#[test]
fn what_another_peer_has_just_sent_does_not_come_from_a_box_of_two() {
    let mut site = half(3);
    site.join_twins(FIRST, SECOND);
    hear(&mut site, at(0), FIRST, 10).unwrap();
    hear(&mut site, at(1), OTHER, 20).unwrap();
    for box_of_two in [FIRST, SECOND] {
        let heard = hear(&mut site, at(2), box_of_two, 20);
        assert_eq!(heard, Err(Discard::Of(box_of_two, InDiscard::SourceElsewhere)));
        assert_eq!(site.peer_counters(box_of_two).in_pkts_source_elsewhere, 1);
    }
    assert_eq!(passed_over(&site), [SECOND], "it moves nothing");
    // A source that nobody learns.
    let group = |site: &mut Forwarding, peer| {
        let (mut sender, mut octets) = (half(1), frame(20, 99));
        octets[6] |= 1;
        let route = sender.route(at(2), &octets).expect("a route");
        let packet = sender.dispatch(at(2), &route, PeerId(0), &octets).remove(0);
        let packet = [&packet.header[..], &octets[packet.body]].concat();
        site.handle_packet(at(2), PacketSource::From(peer), &packet).map(drop)
    };
    assert_eq!(group(&mut site, FIRST), Err(Discard::Of(FIRST, InDiscard::SourceElsewhere)));
    group(&mut site, OTHER).unwrap();
    // A station that has moved there is heard after its second of silence, as ever.
    hear(&mut site, at(1002), SECOND, 20).unwrap();
    assert_eq!(destination(&mut site, at(1003), 20), Destination::Peer(SECOND));
}

/// Where frames may be dropped behind the half, it learns what it is told, when a frame has got through.
#[test]
fn a_half_that_hears_later_learns_nothing_of_a_packet() {
    let mut site = half(4);
    let of = |station: u8| MacAddr(address(station));
    site.join_twins(FIRST, SECOND);
    site.set_partner(PeerId(3));
    site.hear_later(true);
    hear(&mut site, at(0), FIRST, 10).unwrap();
    assert_eq!((site.stations().count(), passed_over(&site)), (0, vec![]));
    site.hear(at(0), FIRST, of(10)).unwrap();
    assert_eq!(
        (destination(&mut site, at(1), 10), passed_over(&site)),
        (Destination::Peer(FIRST), vec![SECOND])
    );
    // A box shows that it forwards, and is no station.
    site.hear_box(at(2), SECOND, of(66));
    assert_eq!(
        (destination(&mut site, at(2000), 10), passed_over(&site)),
        (Destination::Peer(SECOND), vec![FIRST])
    );
    assert!(site.stations().all(|known| known.address != of(66)));
    // What comes back from its LAN shows nothing, be it of this LAN or of another peer's.
    site.hear(at(2000), OTHER, of(20)).unwrap();
    for station in [1, 20] {
        site.hear_box(at(2001), FIRST, of(station));
        assert_eq!(passed_over(&site), [FIRST]);
    }
    assert_eq!(site.hear(at(2001), OTHER, of(1)), Err(Discard::Of(OTHER, InDiscard::SourceHere)));
    let partner = PeerId(3);
    let refused = hear(&mut site, at(2001), partner, 30);
    assert_eq!(refused, Err(Discard::Of(partner, InDiscard::Partner)));
    site.hear_later(false);
    hear(&mut site, at(2001), OTHER, 40).unwrap();
    assert_eq!(destination(&mut site, at(2002), 40), Destination::Peer(OTHER));
}

/// Nobody who forwards beside the half is asked whether a station has moved whose frame may not get through.
#[test]
fn a_half_that_hears_later_asks_for_no_station_of_a_packet() {
    let mut site = half(2);
    let station = MacAddr(address(10));
    site.handle_command(at(0), Command::OfferFlows);
    site.hear_later(true);
    site.hear(at(0), FIRST, station).unwrap();
    hear(&mut site, at(1500), SECOND, 10).unwrap();
    assert_eq!(site.poll_event(), None);
    site.hear(at(1500), SECOND, station).unwrap();
    assert!(matches!(site.poll_event(), Some(Event::StationMoves { .. })));
}

/// The box that took over may have announced itself in vain.
#[test]
fn a_box_that_starts_anew_is_no_more_the_one_that_gets_all() {
    let mut site = half(3);
    site.join_twins(FIRST, SECOND);
    for (dead, other) in [(FIRST, SECOND), (SECOND, FIRST)] {
        hear(&mut site, at(0), dead, 10).unwrap();
        site.handle_command(at(1), Command::Begin { peer: OTHER, generation: Generation(7) });
        assert_eq!(
            (destination(&mut site, at(1), 10), passed_over(&site)),
            (Destination::Peer(dead), vec![other])
        );
        site.handle_command(at(2), Command::Begin { peer: dead, generation: Generation(8) });
        assert_eq!(
            (destination(&mut site, at(3), 10), passed_over(&site)),
            (Destination::Peer(other), vec![dead])
        );
    }
}

/// Both boxes forward, and one sends back what the other one delivered.
#[test]
fn a_frame_that_comes_back_does_not_move_the_twins() {
    let mut site = half(3);
    site.join_twins(FIRST, SECOND);
    hear(&mut site, at(0), FIRST, 10).unwrap();
    let _ = site.route(at(1), &frame(1, 10));
    assert_eq!(hear(&mut site, at(2), SECOND, 1), Err(Discard::Of(SECOND, InDiscard::SourceHere)));
    assert_eq!(
        (destination(&mut site, at(3), 10), passed_over(&site)),
        (Destination::Peer(FIRST), vec![SECOND])
    );
}

#[test]
fn nothing_comes_from_a_partner_and_nothing_goes_there() {
    let mut site = half(3);
    site.set_partner(SECOND);
    let heard = hear(&mut site, at(0), SECOND, 10);
    assert_eq!(heard, Err(Discard::Of(SECOND, InDiscard::Partner)));
    assert_eq!(site.peer_counters(SECOND).in_pkts_partner, 1);
    assert_eq!(destination(&mut site, at(1), 10), Destination::All, "it was not learned there");
    assert_eq!(passed_over(&site), [SECOND]);
}

/// A box that drains hears on its LAN what its partner delivers.
#[test]
fn a_box_that_drains_learns_nothing_and_knows_the_way_to_stations_of_peers_alone() {
    let mut site = half(3);
    hear(&mut site, at(0), OTHER, 10).unwrap();
    site.route(at(0), &frame(1, 10)).unwrap();
    let mut to = |ms, from, to| site.route_draining(at(ms), &frame(from, to)).map(|route| route.destination);
    assert_eq!(to(1, 2, 10), Some(Destination::Peer(OTHER)));
    assert_eq!((to(1, 2, 1), to(1, 2, 77)), (None, None), "here, and nowhere");
    // However long ago it was heard there.
    assert_eq!(to(5000, 10, 10), None);
    // Neither 2 nor 10 is here for that.
    assert_eq!(destination(&mut site, at(5001), 2), Destination::All);
    assert_eq!(destination(&mut site, at(5001), 10), Destination::Peer(OTHER));
}

#[test]
fn a_box_that_begins_to_forward_knows_no_station_and_has_room_for_all() {
    let limits = Limits { stations: 8, ..Limits::default() };
    let mut site = half_with(3, limits);
    for station in 10..14 {
        hear(&mut site, at(0), OTHER, station).unwrap();
    }
    assert_eq!(destination(&mut site, at(1), 10), Destination::Peer(OTHER));
    site.forget_stations(at(2));
    assert_eq!((destination(&mut site, at(2), 10), site.stations().count()), (Destination::All, 1));
    let mut told = Vec::new();
    site.stations_behind(&mut 0, &mut told, 32);
    assert_eq!(told, []);
    // One is heard on the LAN, without a second of silence, and one at another peer.
    site.route(at(3), &frame(10, 77)).unwrap();
    hear(&mut site, at(3), FIRST, 11).unwrap();
    assert!(site.route(at(4), &frame(1, 10)).is_none(), "it is here");
    assert_eq!(destination(&mut site, at(4), 11), Destination::Peer(FIRST));
    // And the others leave their places.
    for ms in 4..200 {
        site.handle_timeout(at(ms));
    }
    for station in 20..23 {
        hear(&mut site, at(200), OTHER, station).unwrap();
        assert_eq!(destination(&mut site, at(201), station), Destination::Peer(OTHER));
    }
    assert_eq!(site.counters().stations_refused, 0);
}

#[test]
fn stations_of_others_are_told_some_at_a_time_and_those_of_this_lan_are_not() {
    let mut site = half(3);
    for station in 10..60 {
        hear(&mut site, at(0), OTHER, station).unwrap();
    }
    site.route(at(1), &frame(1, 200)).unwrap();
    let (mut cursor, mut told) = (0, Vec::<MacAddr>::new());
    for _ in 0..40 {
        let before = told.len();
        site.stations_behind(&mut cursor, &mut told, 32);
        assert!(told.len() - before <= 32);
    }
    let all: std::collections::BTreeSet<_> = told.iter().map(|address| address.0).collect();
    assert_eq!(all, (10..60).map(address).collect());
}
