//! Strangers' packets: each kind has a part of the worker's time, and what is proved passes beside them.

use std::net::SocketAddr;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant as Clock};

use proptest::prelude::*;
use tunnel::{Command, Discard, PacketSource, PeerId, UnknownDiscard};
use wire::EtherType;
use wire::tunnel::PacketForm;
use xdp::site::{MOST_HERE, MOST_KNOWN, Site, Stranger};
use xdp::{Verdict, XdpError};

use crate::packets::{addresses, datagram, datagram_between, frame, packet, secret, station, udp_payload};
use crate::world::{GENERATION, PEERS, WINDOW, World, load};

/// Offset at which the worker tells the cost of a packet.
const COST: usize = 4;
/// One packet takes the part of minutes.
const DEAR: Duration = Duration::from_secs(10);
/// Parts of the worker's time, and the time for which a kind has its part at once (`bpf/strangers.h`).
const PARTS: u32 = 16;
const AT_ONCE: Duration = Duration::from_millis(16);
/// The lane that peers send on in user space.
const USER_SPACE: u8 = 0;
/// The first lane behind those that the programs take.
const WATCHED: u32 = 2 * PEERS as u32;

fn set_cost(site: &Site, cost: Duration) {
    site.turns().unwrap().words()[COST].store(cost.as_nanos() as u64, Ordering::SeqCst);
}

/// A packet with an identifier that nobody has.
fn made_up(v6: bool) -> Vec<u8> {
    datagram(v6, false, &[0x3f; 60])
}

/// As Ethernet pads what is too short.
fn padded(mut packet: Vec<u8>) -> Vec<u8> {
    packet.resize(packet.len().max(60), 0);
    packet
}

fn verdict(site: &Site, packet: &[u8]) -> Verdict {
    let ran = site.run_inward(packet, 1).unwrap();
    assert!(ran.verdict == Verdict::Drop || ran.frame == packet, "what passes is left as it came");
    ran.verdict
}

#[test]
fn what_strangers_send_beyond_their_part_is_dropped_and_counted() {
    for v6 in [false, true] {
        let here = addresses(v6)[0];
        let mut site = load(WINDOW);
        let strange = made_up(v6);
        let passes = |site: &Site, why: &str| {
            for _ in 0..3 {
                assert_eq!(verdict(site, &strange), Verdict::Pass, "{why}");
            }
        };
        passes(&site, "nobody has said what it costs, nor where this box is");
        set_cost(&site, DEAR);
        passes(&site, "this box is nowhere");
        site.bound_strangers(here.ip(), &[Stranger::LongHeader]).unwrap();
        passes(&site, "this kind is not bounded");
        set_cost(&site, Duration::ZERO);
        site.bound_strangers(here.ip(), &Stranger::ALL).unwrap();
        passes(&site, "the worker has told no cost yet");
        assert_eq!(site.floods().unwrap(), [0; 5]);

        set_cost(&site, DEAR);
        assert_eq!(verdict(&site, &strange), Verdict::Pass);
        for _ in 0..3 {
            assert_eq!(verdict(&site, &strange), Verdict::Drop);
        }
        assert_eq!(site.floods().unwrap(), [3, 0, 0, 0, 0]);
        let elsewhere =
            SocketAddr::new(if v6 { "fd00::1:3" } else { "192.0.2.3" }.parse().unwrap(), here.port());
        let for_others = datagram_between([elsewhere, addresses(v6)[1]], false, &[0x3f; 60]);
        assert_eq!(verdict(&site, &for_others), Verdict::Pass, "it only passes through this box");
        site.free_strangers(here.ip()).unwrap();
        passes(&site, "it is somebody else's address now");
    }
}

/// The more a packet costs the worker, the fewer pass; a part that nobody took is not saved for later.
#[test]
fn a_part_is_as_many_packets_as_the_worker_has_time_for() {
    const SENT: u32 = 20_000;
    for cost in [Duration::from_micros(5), Duration::from_micros(50)] {
        let mut site = load(WINDOW);
        site.bound_strangers(addresses(false)[0].ip(), &Stranger::ALL).unwrap();
        set_cost(&site, cost);
        let at_once = (AT_ONCE.as_nanos() / (PARTS * cost).as_nanos()) as u64;
        for round in 0..2 {
            let (before, began) = (site.floods().unwrap()[0], Clock::now());
            site.run_inward(&made_up(false), SENT).unwrap();
            let took = began.elapsed();
            let passed = u64::from(SENT) - (site.floods().unwrap()[0] - before);
            let meanwhile = (took.as_nanos() / (PARTS * cost).as_nanos()) as u64;
            println!("{cost:?}: {passed} of {SENT} passed in {took:?}");
            assert!(passed >= at_once.min(SENT.into()), "round {round}: {passed} passed");
            assert!(passed <= at_once + meanwhile + 2, "round {round}: {passed} passed in {took:?}");
            std::thread::sleep(4 * AT_ONCE);
        }
    }
}

#[test]
fn no_kind_takes_the_part_of_another() {
    const VXLAN: u16 = 4789;
    let [here, there] = addresses(false);
    let mut site = load(WINDOW);
    site.set_plain_port(VXLAN).unwrap();
    let peer = "198.51.100.99:9".parse().unwrap();
    site.set_plain_peer(SocketAddr::ip(&peer), 0).unwrap();
    site.bound_strangers(here.ip(), &Stranger::ALL).unwrap();
    set_cost(&site, DEAR);
    let plain = SocketAddr::new(here.ip(), VXLAN);
    let inner = [&[8, 0, 0, 0, 0, 0, 7, 0][..], &frame(5, 1, true, 1, 40)].concat();
    let kinds = [
        [made_up(false), padded(datagram(false, false, &[0x3f; 15]))],
        [[0xc0_u8, 0xff], [0xc1, 0xfe]].map(|first| datagram(false, false, &[&first[..], &[1; 40]].concat())),
        [[0x40_u8, 0x7f], [0x41, 0x7e]].map(|first| datagram(false, false, &[&first[..], &[1; 40]].concat())),
        [&inner[..], &[1; 3]].map(|payload| padded(datagram_between([plain, there], false, payload))),
    ];
    for (number, packets) in kinds.iter().enumerate() {
        let verdicts = [0, 1, 0, 1].map(|which| verdict(&site, &packets[which]));
        assert_eq!(verdicts[0], Verdict::Pass, "kind {number} has its part still");
        assert_eq!(verdicts[1..], [Verdict::Drop; 3], "kind {number}: the same part");
    }
    assert_eq!(site.floods().unwrap(), [3, 3, 3, 3, 0]);
    let of_peer = datagram_between([plain, peer], false, &inner);
    for _ in 0..3 {
        assert_eq!(verdict(&site, &of_peer), Verdict::Pass, "a plain peer is none");
    }
    assert_eq!(verdict(&site, &datagram_between([plain, there], false, &inner)), Verdict::Drop);
}

/// QUIC with a short header, with a long one, and an unknown identifier.
const FIRSTS: [u8; 3] = [0x40, 0xc0, 0x3f];

/// Packets that begin like these, from somewhere.
fn unproved(from: SocketAddr) -> [Vec<u8>; 3] {
    let here = addresses(from.is_ipv6())[0];
    FIRSTS.map(|first| datagram_between([here, from], false, &[&[first][..], &[0x3f; 40]].concat()))
}

#[test]
fn a_flood_of_strangers_leaves_a_peers_address_its_own_part() {
    for v6 in [false, true] {
        let [here, peer] = addresses(v6);
        let mut site = load(WINDOW);
        site.bound_strangers(here.ip(), &Stranger::ALL).unwrap();
        set_cost(&site, DEAR);
        let other_port = SocketAddr::new(peer.ip(), peer.port() ^ 1);
        let other_host =
            SocketAddr::new(if v6 { "fd00::99" } else { "192.0.2.99" }.parse().unwrap(), peer.port());
        site.share_among(1).unwrap();
        site.know(7, peer, false).unwrap();
        for from in [other_port, other_host] {
            for packet in unproved(from) {
                verdict(&site, &packet);
            }
            let verdicts = unproved(from).map(|packet| verdict(&site, &packet));
            assert_eq!(verdicts, [Verdict::Drop; 3], "{from} is a stranger's");
        }
        let [short, long, identifier] = unproved(peer);
        assert_eq!(verdict(&site, &identifier), Verdict::Drop, "what it has sent is known by itself");
        let before = site.floods().unwrap();
        assert_eq!(verdict(&site, &short), Verdict::Pass, "its own part");
        assert_eq!(
            [&short, &long].map(|packet| verdict(&site, packet)),
            [Verdict::Drop; 2],
            "one for all of QUIC"
        );
        let [_, longs, shorts, ..] =
            std::array::from_fn::<_, 5, _>(|kind| site.floods().unwrap()[kind] - before[kind]);
        assert_eq!([longs, shorts], [1, 1]);
        // With it, another peer's packets have theirs still.
        site.share_among(2).unwrap();
        site.know(8, other_port, false).unwrap();
        assert_eq!(verdict(&site, &unproved(other_port)[1]), Verdict::Pass);
        site.forget_known(other_port).unwrap();
        site.forget_known(peer).unwrap();
        site.know(9, peer, true).unwrap();
        assert_eq!(
            [0; 3].map(|_| verdict(&site, &identifier)),
            [Verdict::Pass; 3],
            "of lanes that are not watched"
        );
        assert_eq!(
            verdict(&site, &unproved(other_host)[2]),
            Verdict::Drop,
            "strangers are bounded beside it"
        );
        assert_eq!(
            [0; 2].map(|_| verdict(&site, &short)),
            [Verdict::Pass, Verdict::Drop],
            "number 9 has its own"
        );
        site.forget_known(peer).unwrap();
        assert_eq!(unproved(peer).map(|packet| verdict(&site, &packet)), [Verdict::Drop; 3]);
        assert!(site.forget_known(peer).is_err());
    }
}

/// A flood in the names of some peers takes these peers' shares. Others and strangers together get no more than without known addresses.
#[test]
fn known_addresses_share_a_sixteenth_and_take_it_from_strangers() {
    const COST: Duration = Duration::from_micros(20);
    const SENT: u32 = 20_000;
    let [here, peer] = addresses(false);
    let from = |number: u16| SocketAddr::new(peer.ip(), 1000 + number);
    let at_once = |parts: u32| (4 * AT_ONCE.as_nanos() / (parts * PARTS * COST).as_nanos()) as u64;
    for knowns in [1_u32, 8] {
        let mut site = load(WINDOW);
        site.bound_strangers(here.ip(), &Stranger::ALL).unwrap();
        site.share_among(knowns).unwrap();
        (0..knowns).for_each(|number| site.know(number, from(number as u16), false).unwrap());
        set_cost(&site, COST);
        let run = |site: &Site, packet: &[u8]| {
            let (before, began) = (site.floods().unwrap()[2], Clock::now());
            site.run_inward(packet, SENT).unwrap();
            (u64::from(SENT) - (site.floods().unwrap()[2] - before), began.elapsed())
        };
        // Strangers have used up their part, so what passes has a part of its own.
        let [strange, ..] = unproved(SocketAddr::new("192.0.2.99".parse().unwrap(), 5));
        let began = Clock::now();
        let (mut all, _) = run(&site, &strange);
        for number in 0..knowns {
            let [short, ..] = unproved(from(number as u16));
            let (passed, took) = run(&site, &short);
            let meanwhile = (began.elapsed().as_nanos() / (PARTS * COST).as_nanos()) as u64;
            println!("address {number} of {knowns}: {passed} in {took:?}");
            assert!(passed >= at_once(knowns), "{passed}");
            assert!(passed <= at_once(knowns) + meanwhile + 2, "{passed}");
            all += passed;
        }
        let time = (began.elapsed().as_nanos() / (PARTS * COST).as_nanos()) as u64;
        assert!(
            all <= at_once(1) + at_once(4) + time + 4 + u64::from(knowns),
            "{all} in {:?}",
            began.elapsed()
        );
    }
}

#[test]
fn what_a_known_address_takes_is_strangers_no_more() {
    let [here, peer] = addresses(false);
    let stranger = SocketAddr::new("192.0.2.99".parse().unwrap(), 5);
    for (kind, other) in [(0, 1), (1, 0)] {
        let mut site = load(WINDOW);
        site.bound_strangers(here.ip(), &Stranger::ALL).unwrap();
        site.share_among(1).unwrap();
        site.know(0, peer, false).unwrap();
        set_cost(&site, DEAR);
        let verdicts = [(peer, kind), (stranger, kind), (stranger, other)];
        let verdicts = verdicts.map(|(from, kind)| verdict(&site, &unproved(from)[kind]));
        assert_eq!(verdicts, [Verdict::Pass, Verdict::Drop, Verdict::Pass]);
    }
}

#[test]
fn a_share_is_the_smaller_the_more_addresses_are_known() {
    // Two packets at once are the part of one that has it for itself.
    let cost = Duration::from_millis(3);
    let [here, peer] = addresses(false);
    let stranger = SocketAddr::new("192.0.2.99".parse().unwrap(), 5);
    for (knowns, second) in [(1, Verdict::Pass), (1000, Verdict::Drop)] {
        let mut site = load(WINDOW);
        site.bound_strangers(here.ip(), &Stranger::ALL).unwrap();
        site.share_among(knowns).unwrap();
        site.know(0, peer, false).unwrap();
        // Strangers take their part for minutes, so that nothing of it is left for this address however slow the box is.
        set_cost(&site, DEAR);
        assert_eq!(verdict(&site, &unproved(stranger)[0]), Verdict::Pass);
        set_cost(&site, cost);
        let [short, ..] = unproved(peer);
        let verdicts = [0; 2].map(|_| verdict(&site, &short));
        assert_eq!(verdicts, [Verdict::Pass, second], "{knowns}");
    }
}

/// Without a flood of its own an address has the strangers' part besides, as before it was known.
#[test]
fn a_known_address_beyond_its_part_is_as_good_as_a_strangers() {
    let [here, peer] = addresses(false);
    let mut site = load(WINDOW);
    site.bound_strangers(here.ip(), &Stranger::ALL).unwrap();
    site.share_among(1000).unwrap();
    site.know(0, peer, false).unwrap();
    set_cost(&site, DEAR / 100_000);
    let [short, ..] = unproved(peer);
    assert_eq!([0; 5].map(|_| verdict(&site, &short)), [Verdict::Pass; 5], "its own part has room for one");
}

#[test]
fn addresses_beyond_the_room_are_refused() {
    let mut site = load(WINDOW);
    let here = |number: u32| std::net::IpAddr::from((0x0a00_0000 + number).to_be_bytes());
    let from = |number: u32| SocketAddr::new(here(number), 5);
    for number in 0..MOST_HERE {
        site.bound_strangers(here(number), &Stranger::ALL).unwrap();
    }
    assert!(matches!(site.bound_strangers(here(MOST_HERE), &Stranger::ALL), Err(XdpError::Map(_))));
    site.free_strangers(here(0)).unwrap();
    site.bound_strangers(here(MOST_HERE), &Stranger::ALL).unwrap();
    for number in 0..MOST_KNOWN {
        site.know(number, from(number), false).unwrap();
    }
    assert!(matches!(site.know(0, from(MOST_KNOWN), false), Err(XdpError::Map(_))));
    site.forget_known(from(1)).unwrap();
    site.know(1, from(MOST_KNOWN), false).unwrap();
}

#[test]
fn frames_of_the_lan_that_no_site_carries_have_a_part_too() {
    let mut site = load(WINDOW);
    let frame = |ether_type: u16| {
        let head = [&station(5).0[..], &station(1).0, &ether_type.to_be_bytes()].concat();
        [&head[..], &[7; 50]].concat()
    };
    let verdict = |site: &Site, ether_type| site.run_outward(&frame(ether_type), 1).unwrap().verdict;
    assert_eq!([0x0800; 3].map(|kind| verdict(&site, kind)), [Verdict::Pass; 3], "no cost is known");
    set_cost(&site, DEAR);
    let others = [0x0800, 0x0800, 0x86dd, 0x88b5, 0].map(|kind| verdict(&site, kind));
    assert_eq!(others[0], Verdict::Pass);
    assert_eq!(others[1..], [Verdict::Drop; 4]);
    assert_eq!(site.floods().unwrap(), [0, 0, 0, 0, 4]);
    for carried in [0x88e5, 0x888e, 0x8100, 0x88a8, 0x88b6] {
        assert_eq!(verdict(&site, carried), Verdict::Pass, "{carried:04x}");
    }
    site.carry_cyclic(Some(EtherType(0x88b5))).unwrap();
    assert_eq!([0x88b5, 0x0800].map(|kind| verdict(&site, kind)), [Verdict::Pass, Verdict::Drop]);
    site.carry_cyclic(None).unwrap();
    assert_eq!(verdict(&site, 0x88b5), Verdict::Drop);
}

/// A site of which the programs watch a peer's lane, on which strangers have used up their part.
fn besieged(window: u64) -> World {
    let mut world = World::with(false, window);
    world.kernel.watch_receive(WATCHED, &secret(0, 1, true).lane_key(USER_SPACE)).unwrap();
    while world.kernel.fill(WATCHED).unwrap().missing > 0 {}
    world.kernel.bound_strangers(addresses(false)[0].ip(), &Stranger::ALL).unwrap();
    set_cost(&world.kernel, DEAR);
    assert_eq!(verdict(&world.kernel, &made_up(false)), Verdict::Pass);
    assert_eq!(verdict(&world.kernel, &made_up(false)), Verdict::Drop);
    world
}

/// A packet of peer 0's on the lane that is user space's.
fn of_user_space(world: &World, seq: u64, form: PacketForm) -> Vec<u8> {
    let header = world.header(7, form, 1, true);
    datagram(false, false, &packet(&secret(0, 1, true), USER_SPACE, seq, header, &[0; 60]))
}

/// True if the half has no such identifier.
fn is_strange(world: &mut World, packet: &[u8]) -> bool {
    let now = world.now();
    let handled = world.rust.handle_packet(now, PacketSource::Identifier, udp_payload(packet).unwrap());
    matches!(handled, Err(Discard::Unknown(UnknownDiscard::UnknownIdentifier)))
}

#[test]
fn packets_of_user_space_pass_beside_a_flood_and_each_once() {
    let mut world = besieged(WINDOW);
    let before = world.counters();
    for seq in 1..4 * WINDOW {
        let form = if seq % 2 == 0 { PacketForm::Whole } else { PacketForm::LongForm };
        let packet = of_user_space(&world, seq, form);
        assert_eq!(verdict(&world.kernel, &packet), Verdict::Pass, "{seq}");
        assert_eq!(verdict(&world.kernel, &packet), Verdict::Drop, "{seq} once more");
        assert_eq!(verdict(&world.kernel, &made_up(false)), Verdict::Drop);
    }
    assert_eq!(world.counters(), before, "they are counted where they are opened");
    // The peer's other lane goes on beside it.
    world.announce(0, 7, 5, 1, true);
    let taken = world.of_peer((0, 1, 1), 7, 1, true, 40);
    assert_eq!(world.kernel.run_inward(&taken, 1).unwrap().verdict, Verdict::Redirect);
    let far = (1 << 40) + WINDOW / 2;
    assert_eq!(verdict(&world.kernel, &of_user_space(&world, far + 1, PacketForm::Whole)), Verdict::Drop);
    assert!(world.kernel.advance(WATCHED, far).unwrap().advanced);
    while world.kernel.fill(WATCHED).unwrap().missing > 0 {}
    assert_eq!(verdict(&world.kernel, &of_user_space(&world, far + 1, PacketForm::Whole)), Verdict::Pass);
    world.kernel.close_receive(WATCHED).unwrap();
    assert_eq!(verdict(&world.kernel, &of_user_space(&world, far + 2, PacketForm::Whole)), Verdict::Drop);
}

/// The half may have a watched packet still when the next frame of its flow comes on the other lane.
#[test]
fn a_frame_stays_behind_watched_packets() {
    for is_watched in [false, true] {
        let mut world = World::new(false);
        world.announce(0, 7, 5, 1, true);
        world.kernel.watch_receive(WATCHED, &secret(0, 1, true).lane_key(USER_SPACE)).unwrap();
        while world.kernel.fill(WATCHED).unwrap().missing > 0 {}
        let turns = world.kernel.turns().unwrap();
        turns.words().iter().zip([7, 0, 7]).for_each(|(word, turn)| word.store(turn, Ordering::SeqCst));
        if is_watched {
            assert_eq!(verdict(&world.kernel, &of_user_space(&world, 1, PacketForm::Whole)), Verdict::Pass);
        }
        let taken = world.of_peer((0, 1, 1), 7, 1, true, 40);
        let expected = if is_watched { Verdict::Pass } else { Verdict::Redirect };
        assert_eq!(world.kernel.run_inward(&taken, 1).unwrap().verdict, expected);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    /// All packets in all orders: the programs take for a stranger's those without an identifier of the half, and no others.
    #[test]
    fn the_programs_know_the_lanes_of_the_half(
        window in prop::sample::select(vec![64_u64, 256]),
        steps in prop::collection::vec((0..8_u8, 0..1200_i64), 1..120),
    ) {
        let mut world = besieged(window);
        let mut newest = 1_i64;
        for (kind, step) in steps {
            let half = (window / 2) as i64;
            let seq = match kind {
                // The next ones, late ones, an anchor, and anywhere.
                0..=3 => newest + step % 3,
                4 | 5 => newest - step,
                6 => (newest / half + step) * half,
                _ => newest + step,
            };
            let Ok(seq) = u64::try_from(seq.max(1)) else { continue };
            let packet = of_user_space(&world, seq, PacketForm::Whole);
            let strange = is_strange(&mut world, &packet);
            let passes = verdict(&world.kernel, &packet) == Verdict::Pass;
            prop_assert_eq!(passes, !strange, "{} behind {}", seq, newest);
            if !strange {
                newest = newest.max(seq as i64);
            }
            world.fill();
            while world.kernel.fill(WATCHED).unwrap().missing > 0 {}
        }
        let seq = (newest as u64 / window + 5000) * window;
        world.rust.handle_command(
            world.now(),
            Command::Position { peer: PeerId(0), generation: GENERATION, epoch: 1, lane: USER_SPACE, seq },
        );
        world.kernel.advance(WATCHED, seq).unwrap();
        world.fill();
        while world.kernel.fill(WATCHED).unwrap().missing > 0 {}
        for seq in seq - window..seq + 2 * window {
            let packet = of_user_space(&world, seq, PacketForm::Whole);
            let strange = is_strange(&mut world, &packet);
            prop_assert_eq!(verdict(&world.kernel, &packet) == Verdict::Pass, !strange, "{}", seq);
        }
    }
}
