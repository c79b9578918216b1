//! Two forwarding halves over a wire that loses, swaps and repeats, on a clock held in the hand.
//!
//! Whatever the wire does: every frame that is delivered is octet for octet one that was sent, and none comes twice.

mod ends;

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use ends::{Dice, Sites, frame, settings};
use proptest::prelude::*;
use tunnel::{PeerId, Settings};

const P0: PeerId = PeerId(0);
/// The window of the tests' sites.
const W: u64 = 256;

/// Sends frame number `pn` of a known flow and returns its packets.
fn packets(sites: &mut Sites, pn: u32) -> Vec<Vec<u8>> {
    sites.send(0, &frame(1, 2, pn, 100));
    sites.take_sent(0).into_iter().map(|(_, packet)| packet).collect()
}

fn packet(sites: &mut Sites, pn: u32) -> Vec<u8> {
    packets(sites, pn).remove(0)
}

/// One flow from site 0 to site 1 that is acknowledged.
fn acquainted(settings: &Settings) -> Sites {
    let mut sites = Sites::new(2, settings);
    sites.send(0, &frame(1, 2, 0, 100));
    sites.deliver_all(0);
    sites.settle();
    sites.take_delivered(1);
    sites
}

/// Sends and loses so many packets.
fn outage(sites: &mut Sites, count: u32) {
    let (now, frame) = (sites.now, frame(1, 2, 0, 60));
    let forwarding = &mut sites.sites[0].forwarding;
    let route = forwarding.route(now, &frame).expect("somewhere");
    for _ in 0..count {
        assert_eq!(forwarding.dispatch(now, &route, P0, &frame).len(), 1);
    }
}

/// Loss up to 20 %, and what is swapped stays inside the window: exactly what the wire did not lose arrives.
#[test]
fn what_the_wire_carries_arrives() {
    for (seed, loss) in [(1, 0), (2, 1), (3, 5), (4, 20)] {
        let mut sites = acquainted(&settings(1));
        let mut dice = Dice::new(seed);
        let mut wire: Vec<(u32, Vec<u8>)> = Vec::new();
        let mut carried = 0;
        for pn in 0..3000 {
            let packet = packet(&mut sites, pn);
            if dice.roll(100) >= loss {
                wire.push((pn, packet));
            }
            // Up to 64 packets are under way, and come in any order, but none later than half a window.
            while wire.len() > 64 || (pn == 2999 && !wire.is_empty()) {
                let oldest = (0..wire.len()).min_by_key(|&at| wire[at].0).expect("not empty");
                let late = u64::from(pn - wire[oldest].0) >= W / 2 - 1;
                let next = if late { oldest } else { dice.roll(wire.len() as u64) as usize };
                let (_, packet) = wire.swap_remove(next);
                assert!(sites.arrive(0, 1, &packet).is_some(), "{loss} % lost, {pn}");
                assert!(sites.arrive(0, 1, &packet).is_none(), "a duplicate");
                carried += 1;
            }
        }
        assert_eq!(sites.take_delivered(1).len(), carried);
        assert!(!sites.events.contains_key("Lost"));
    }
}

/// A packet from behind the window is rejected; one from ahead of it is known once the window gets there.
#[test]
fn reordering_beyond_the_window() {
    let mut sites = acquainted(&settings(1));
    let packets: Vec<_> = (0..600).map(|pn| packet(&mut sites, pn)).collect();
    // Packet i has seq i + 2; newest is 1, and the window reaches up to 257, to anchors 128, 256, 384, 512, ...
    let too_new = 257;
    assert!(sites.arrive(0, 1, &packets[too_new]).is_none());
    assert!(sites.arrive(0, 1, &packets[254]).is_some(), "an anchor");
    assert!(sites.arrive(0, 1, &packets[too_new]).is_some());
    assert!(sites.arrive(0, 1, &packets[254 - 128 + 3]).is_some(), "the lower edge");
    assert!(sites.arrive(0, 1, &packets[254 - 128 + 2]).is_none(), "below it");
    assert!(sites.arrive(0, 1, &packets[400]).is_some(), "nothing is lost behind what was refused");
}

/// A burst longer than the window is lost: the first anchor that comes heals it, without the channel.
#[test]
fn a_burst_longer_than_the_window_heals_at_the_next_anchor() {
    for lost in [W as u32, W as u32 + 1, 300, 1000] {
        let mut sites = acquainted(&settings(1));
        sites.channel = false;
        outage(&mut sites, lost);
        let mut missed = 0;
        while {
            let packet = packet(&mut sites, missed);
            sites.arrive(0, 1, &packet).is_none()
        } {
            missed += 1;
        }
        assert!(u64::from(missed) < W / 2, "{missed} packets after {lost}");
        for pn in 0..500 {
            let packet = packet(&mut sites, 1000 + pn);
            assert!(sites.arrive(0, 1, &packet).is_some(), "right behind the anchor, and on: {pn}");
        }
    }
}

/// An outage of a million packets heals within W/2 packets, without the channel, with the window that is the default.
#[test]
fn an_outage_of_a_million_packets_heals_within_half_a_window() {
    let mut settings = settings(1);
    settings.window = Settings::WINDOW;
    let mut sites = acquainted(&settings);
    sites.channel = false;
    outage(&mut sites, 1_000_000);
    let mut missed = 0;
    while {
        let packet = packet(&mut sites, missed);
        sites.arrive(0, 1, &packet).is_none()
    } {
        missed += 1;
    }
    assert!(u64::from(missed) < Settings::WINDOW / 2, "{missed}");
    for pn in 0..10_000 {
        let packet = packet(&mut sites, pn);
        assert!(sites.arrive(0, 1, &packet).is_some(), "{pn}");
    }
}

/// Beyond the anchors nothing heals by itself: the peer is asked once a second, and what comes is looked at for 100 ms.
#[test]
fn beyond_the_anchors_the_peer_is_asked() {
    let mut sites = acquainted(&settings(1));
    // 1,024 anchors, each half a window from the next.
    outage(&mut sites, 1025 * 128 + 50);
    let at = sites.now;
    let lost = packet(&mut sites, 1);
    assert!(sites.arrive(0, 1, &lost).is_none());
    sites.channel = false;
    sites.settle();
    assert!(!sites.events.contains_key("Lost"), "something valid came a moment ago");
    sites.pass(Duration::from_millis(110));
    assert!(!sites.events.contains_key("Lost"), "nothing unknown came since");
    for _ in 0..200 {
        assert!(sites.arrive(0, 1, &lost).is_none());
        sites.pass(Duration::from_millis(10));
    }
    let seconds = sites.now.since(at).as_secs_f64();
    assert!(sites.events["Lost"] >= 2 && (sites.events["Lost"] as f64) < seconds + 1.0);
    assert_eq!(sites.sites[1].forwarding.peer_counters(P0).resyncs, sites.events["Lost"] as u64);
    sites.channel = true;
    sites.settle();
    for pn in 0..1000 {
        let packet = packet(&mut sites, pn);
        assert!(sites.arrive(0, 1, &packet).is_some(), "{pn}");
    }
    let known = sites.events["Lost"];
    assert!(sites.arrive(0, 1, &lost).is_none(), "before the answer's anchor");
    sites.pass(Duration::from_secs(1));
    assert_eq!(sites.events["Lost"], known);
}

/// Random octets on the data port beside a peer that is silent: one question a second, and its answers change nothing.
#[test]
fn noise_makes_a_silent_lane_ask_and_loses_nothing() {
    let mut sites = acquainted(&settings(1));
    let mut dice = Dice::new(9);
    for _ in 0..1000 {
        let noise: Vec<u8> = (0..60).map(|_| dice.roll(256) as u8 & 0xbf).collect();
        assert!(sites.arrive(0, 1, &noise).is_none());
        sites.pass(Duration::from_millis(10));
    }
    assert!((9..=11).contains(&sites.events["Lost"]), "{:?}", sites.events);
    assert_eq!(sites.events["Position"], sites.events["Lost"]);
    for pn in 0..1000 {
        let packet = packet(&mut sites, pn);
        assert!(sites.arrive(0, 1, &packet).is_some());
    }
    assert_eq!(sites.sites[1].forwarding.stations().count(), 1, "noise teaches nothing");
}

/// Somebody keeps packets back, lets nothing through for longer than anchors reach, and then lets one of those go now and
/// then, so that the lane is never silent. It is judged by how much of what comes is unknown.
#[test]
fn a_lost_lane_is_asked_for_though_packets_that_were_held_drip_in() {
    for every in [9, 2] {
        let mut sites = acquainted(&settings(1));
        let mut held: Vec<_> = (0..100).map(|pn| packet(&mut sites, pn)).collect();
        outage(&mut sites, 1025 * 128 + 50);
        let mut arrived = 0;
        for turn in 0..300 {
            if turn % every == 0
                && let Some(drip) = held.pop()
            {
                sites.arrive(0, 1, &drip);
            }
            let packet = packet(&mut sites, turn);
            arrived += usize::from(sites.arrive(0, 1, &packet).is_some());
            sites.pass(Duration::from_millis(10));
        }
        assert!(arrived > 250, "one in {every}: {arrived} of 300 in three seconds, {:?}", sites.events);
    }
}

/// Noise beside a lane that is well: the peer may be asked once a second, and what is under way meanwhile, half a window
/// behind what it says, arrives.
#[test]
fn the_answer_to_noise_takes_nothing_from_what_is_under_way() {
    let mut sites = acquainted(&settings(1));
    let mut dice = Dice::new(11);
    let mut wire = VecDeque::new();
    let mut pn = 0;
    for _ in 0..300 {
        for _ in 0..3 {
            pn += 1;
            let packet = packet(&mut sites, pn);
            wire.push_back((pn, packet));
            let noise: Vec<u8> = (0..60).map(|_| dice.roll(256) as u8 & 0xbf).collect();
            assert!(sites.arrive(0, 1, &noise).is_none());
        }
        // The management channel is faster than the path of data by up to two hundred packets.
        while wire.len() > 200 {
            let (pn, packet) = wire.pop_front().expect("some");
            assert!(sites.arrive(0, 1, &packet).is_some(), "{pn}, {:?}", sites.events);
        }
        sites.pass(Duration::from_millis(10));
    }
    assert!((2..=4).contains(&sites.events["Lost"]), "{:?}", sites.events);
}

/// Lost halves cost the frames they belong to, and no other.
#[test]
fn halves_are_lost_each_with_its_frame() {
    let mut settings = settings(1);
    settings.peers[0].path_payload = 700;
    let mut sites = acquainted(&settings);
    let mut dice = Dice::new(5);
    let mut wire: Vec<(u32, Vec<u8>)> = Vec::new();
    let mut halves = BTreeMap::<u32, u32>::new();
    let frames = 2000;
    for pn in 0..frames {
        sites.send(0, &frame(1, 2, pn, 1200));
        for (_, packet) in sites.take_sent(0) {
            if dice.roll(100) >= 10 {
                wire.push((pn, packet));
            }
        }
        while wire.len() > 20 || (pn + 1 == frames && !wire.is_empty()) {
            let (pn, packet) = wire.swap_remove(dice.roll(wire.len() as u64) as usize);
            *halves.entry(pn).or_default() += 1;
            sites.arrive(0, 1, &packet);
        }
        sites.now = sites.now + Duration::from_micros(300);
        sites.settle();
    }
    let whole = halves.values().filter(|&&halves| halves == 2).count();
    let delivered = sites.take_delivered(1);
    for frame in &delivered {
        let pn = u32::from_be_bytes(*frame[16..].first_chunk().expect("a PN"));
        assert_eq!(*frame, self::frame(1, 2, pn, 1200));
    }
    let counters = sites.sites[1].forwarding.peer_counters(P0);
    // A frame whose halves were under way for more than 50 ms apart is lost too: none of 20 packets should be.
    assert!(delivered.len() <= whole && delivered.len() + 10 >= whole, "{} of {whole}", delivered.len());
    assert_eq!(counters.in_pkts_joined as usize, delivered.len());
    assert!(counters.in_parts_expired > 0);
}

/// Fate of a packet.
#[derive(Clone, Copy, Debug)]
enum Fate {
    Arrive,
    Lose,
    Twice,
    Late(u8),
    /// Octet and bit that flip.
    Flip(u16, u8),
    /// The next so many are lost.
    Burst(u16),
}

fn fate() -> impl Strategy<Value = Fate> {
    prop_oneof![
        12 => Just(Fate::Arrive),
        2 => Just(Fate::Lose),
        2 => Just(Fate::Twice),
        3 => any::<u8>().prop_map(Fate::Late),
        1 => (any::<u16>(), 0..8_u8).prop_map(|(at, bit)| Fate::Flip(at, bit)),
        1 => (0..700_u16).prop_map(Fate::Burst),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Three flows, frames of two lengths one of which goes in halves, and a wire that does what it likes. Frames that
    /// were not touched come out as they went in, once each; a touched one changes nothing for the others.
    #[test]
    fn frames_come_out_as_they_went_in(fates in prop::collection::vec((0..3_u8, any::<bool>(), fate()), 1..300)) {
        let mut settings = settings(1);
        settings.peers[0].path_payload = 300;
        let mut sites = Sites::new(2, &settings);
        let mut sent = BTreeMap::new();
        let mut late: Vec<(usize, Vec<u8>)> = Vec::new();
        let mut touched = 0;
        let mut burst = 0;
        for (number, (station, long, fate)) in fates.into_iter().enumerate() {
            let frame = frame(station, 9, number as u32, if long { 500 } else { 90 });
            sites.send(0, &frame);
            sent.insert(frame, 0);
            for (_, mut packet) in sites.take_sent(0) {
                if burst > 0 {
                    burst -= 1;
                    continue;
                }
                match fate {
                    Fate::Arrive => { sites.arrive(0, 1, &packet); }
                    Fate::Lose => {}
                    Fate::Twice => {
                        sites.arrive(0, 1, &packet);
                        prop_assert_eq!(sites.arrive(0, 1, &packet), None);
                    }
                    Fate::Late(by) => late.push((number + usize::from(by), packet)),
                    Fate::Flip(at, bit) => {
                        let at = usize::from(at) % packet.len();
                        packet[at] ^= 1 << bit;
                        sites.arrive(0, 1, &packet);
                        touched += 1;
                    }
                    Fate::Burst(count) => burst = count,
                }
            }
            while let Some(ready) = late.iter().position(|(when, _)| *when <= number) {
                let (_, packet) = late.swap_remove(ready);
                sites.arrive(0, 1, &packet);
            }
            if number % 3 == 0 {
                sites.now = sites.now + Duration::from_millis(1);
                sites.settle();
            }
        }
        let mut strange = 0;
        for frame in sites.take_delivered(1) {
            match sent.get_mut(&frame) {
                Some(times) => {
                    *times += 1;
                    prop_assert_eq!(*times, 1, "a frame came twice");
                }
                None => strange += 1,
            }
        }
        prop_assert!(strange <= touched, "{} strange, {} touched", strange, touched);
    }
}
