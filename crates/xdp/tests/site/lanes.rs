//! Lanes, their windows, and the change of epochs.

use std::time::Duration;

use tunnel::{Command, InDiscard, PeerId};
use xdp::site::{Room, Settings, Site};
use xdp::{Unclaimed, Verdict};

use crate::packets::{PORT, frame, receive_lane, secret};
use crate::world::{GENERATION, LAN_FRAME, LANE, Outcome, WINDOW, World, load, token_key};

/// Opened anew, a lane begins at seq 1: under the same key each identifier would come twice, and old ones would be taken again.
#[test]
fn an_open_lane_is_not_opened_again() {
    let mut site = load(WINDOW);
    let key = || secret(0, 1, false).lane_key(LANE);
    site.open_transmit(0, &key()).unwrap();
    assert!(site.open_transmit(0, &key()).is_err());
    site.close_transmit(0).unwrap();
    site.open_transmit(0, &key()).unwrap();
    site.open_receive(0, 0, &key()).unwrap();
    while site.fill(0).unwrap().missing > 0 {}
    let before = site.look(0).unwrap();
    assert!(site.open_receive(0, 0, &key()).is_err());
    assert_eq!(site.look(0).unwrap().missing, before.missing, "nothing has changed");
    site.close_receive(0).unwrap();
    site.open_receive(0, 0, &key()).unwrap();
}

/// Every place of a window, from far below to far above, is accepted or not as in user space, and no seq twice.
#[test]
fn windows_reach_as_far_as_in_user_space() {
    for window in [64, 256] {
        let mut world = World::with(false, window);
        world.announce(0, 7, 5, 1, true);
        let deliver = |world: &mut World, seq: u64| {
            let packet = world.of_peer((0, 1, seq), 7, seq as u32, true, 40);
            matches!(world.receive(true, &packet), Outcome::Sent(_))
        };
        assert!(deliver(&mut world, window - 1));
        for seq in 1..4 * window {
            deliver(&mut world, seq);
        }
        // From an anchor far ahead, then around it in both directions.
        let half = window / 2;
        let newest = 4 * window;
        for anchor in [1024, 700, 1025, 2000].map(|anchor| newest + anchor * half) {
            deliver(&mut world, anchor);
            for step in 1..3 * window {
                deliver(&mut world, anchor.saturating_sub(step));
                deliver(&mut world, anchor + step);
            }
        }
        assert_eq!(world.window, window);
    }
}

/// Anchors whose packets were lost are known as long as others, and then nobody's.
#[test]
fn lost_anchors_expire_as_others() {
    let mut world = World::new(false);
    world.announce(0, 7, 5, 1, true);
    let half = WINDOW / 2;
    let mut outcomes = Vec::new();
    for lost in [true, false] {
        for seq in (1..8 * WINDOW).filter(|seq| seq.is_multiple_of(half) != lost) {
            let packet = world.of_peer((0, 1, seq), 7, 1, true, 40);
            outcomes.push(world.receive(true, &packet));
        }
    }
    let anchors = outcomes.split_off(outcomes.len() - 15);
    assert!(matches!(anchors[12], Outcome::ForUserSpace), "another seq has its place");
    assert!(matches!(anchors[13], Outcome::Discarded(Some(InDiscard::Late))));
    assert!(matches!(anchors[14], Outcome::Sent(_)));
}

#[test]
fn a_lost_lane_is_found_again_by_its_position() {
    let mut world = World::new(false);
    world.announce(0, 7, 5, 1, true);
    let lane = receive_lane(0, 1);
    let deliver = |world: &mut World, seq: u64| {
        let packet = world.of_peer((0, 1, seq), 7, 1, true, 40);
        matches!(world.receive(true, &packet), Outcome::Sent(_))
    };
    assert!(deliver(&mut world, 1));
    let far = (1 << 40) + WINDOW / 2;
    assert!(!deliver(&mut world, far - 1));
    for (seq, moves) in [(far + 1, false), (WINDOW / 2, false), (1 << 48, false), (far, true), (far, false)] {
        assert_eq!(world.kernel.advance(lane, seq).unwrap().advanced, moves, "{seq}");
        world.rust.handle_command(
            world.now(),
            Command::Position { peer: PeerId(0), generation: GENERATION, epoch: 1, lane: LANE, seq },
        );
    }
    world.fill();
    for seq in far - 2 * WINDOW..far + 2 * WINDOW {
        deliver(&mut world, seq);
    }
    assert!(!deliver(&mut world, 2));
}

#[test]
fn epochs_follow_one_another_and_the_last_but_one_is_gone() {
    let mut world = World::new(false);
    world.announce(0, 7, 5, 1, true);
    world.hear(0, 1, 5, 1);
    world.send_known(0, 1, 5, true);
    for epoch in 1..6_u32 {
        for old in [epoch, epoch - 1, epoch.saturating_sub(2)] {
            // Not yet used, in this round: each epoch is heard in three of them.
            let packet = world.of_peer((0, old, u64::from(epoch)), 7, 1, true, 40);
            let passes = matches!(world.receive(true, &packet), Outcome::Sent(_));
            assert_eq!(passes, old + 2 > epoch && old > 0, "epoch {old} in {epoch}");
        }
        assert!(matches!(world.send(&frame(1, 5, true, epoch, 40)), Outcome::Sent(_)));
        world.install(0);
    }
}

#[test]
fn more_lanes_than_there_is_room_for_are_refused() {
    let settings = Settings {
        window: 4096,
        lan_frame: LAN_FRAME,
        port: PORT,
        station_age: Duration::ZERO,
        quiet: Duration::ZERO,
        token_key: token_key(),
    };
    let with = |lanes, settings: &Settings| {
        Site::load(
            &Room { peers: 1, lanes, watched: 0, paths: 1, flows: 1, stations: 1 },
            settings,
            Unclaimed::Pass,
        )
        .map(drop)
    };
    assert!(matches!(with(114, &settings), Err(xdp::XdpError::Lanes { wanted: 114, most: 113 })));
    assert!(matches!(with(1, &Settings { window: 100, ..settings.clone() }), Err(xdp::XdpError::Malformed)));
    with(113, &settings).unwrap();
}

/// On all CPUs at once no seq is sent twice, and no identifier is taken twice or lost.
#[test]
fn cpus_share_lanes_and_windows() {
    let mut world = World::with(false, 256);
    world.announce(0, 7, 5, 1, true);
    world.hear(0, 1, 5, 1);
    world.send_known(0, 1, 5, true);
    let packets: Vec<_> = (1..6000).map(|seq| world.of_peer((0, 1, seq), 7, 1, true, 40)).collect();
    let site = &world.kernel;
    let (sent, taken): (Vec<_>, Vec<_>) = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..2)
            .map(|_| {
                scope.spawn(|| {
                    let frame = frame(1, 5, true, 1, 40);
                    let each = packets.iter().map(|packet| {
                        let sent = site.run_outward(&frame, 1).unwrap();
                        assert_eq!(sent.verdict, Verdict::Redirect);
                        let taken = site.run_inward(packet, 1).unwrap().verdict;
                        assert!(matches!(taken, Verdict::Redirect | Verdict::Pass), "{taken:?}");
                        (sent.frame, usize::from(taken == Verdict::Redirect))
                    });
                    each.collect::<Vec<_>>()
                })
            })
            .collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).unzip()
    });
    let (first, second) = taken.split_at(packets.len());
    let wrong: Vec<_> = (0..packets.len()).filter(|at| first[*at] + second[*at] != 1).collect();
    assert!(wrong.is_empty(), "{wrong:?}");
    let mut identifiers: Vec<_> = sent.iter().map(|frame| frame[42..48].to_vec()).collect();
    identifiers.sort();
    identifiers.dedup();
    assert_eq!(identifiers.len(), 2 * packets.len());
    let counters = world.kernel.counters(0).unwrap().0;
    assert_eq!(counters.in_pkts_tunnelled, packets.len() as u64);
    assert_eq!(counters.out_pkts_tunnelled, 2 * packets.len() as u64);
    assert_eq!(world.kernel.look(receive_lane(0, 1)).unwrap().missing, 0);
}
