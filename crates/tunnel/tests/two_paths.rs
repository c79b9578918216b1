//! Copies of each packet over two paths: the first one that comes counts, the other is known as a copy.

mod ends;

use std::collections::VecDeque;

use ends::{Dice, Sites, frame, settings};
use proptest::prelude::*;
use tunnel::{Command, Discard, InDiscard, PeerId};

const P0: PeerId = PeerId(0);

/// Two sites, the second of which expects copies of the first one's packets; one flow is known.
fn acquainted() -> Sites {
    let mut sites = Sites::strangers(2, &settings(1));
    sites.command(1, Command::ExpectCopies { peer: P0 });
    sites.begin(0);
    sites.begin(1);
    sites.send(0, &frame(1, 2, 0, 100));
    sites.deliver_all(0);
    sites.settle();
    sites.take_delivered(1);
    sites
}

/// A path that loses some packets, and delivers the others after so many later ones.
struct Path {
    loss_per_mille: u64,
    delay: usize,
    under_way: VecDeque<Option<Vec<u8>>>,
}

impl Path {
    fn new(loss_per_mille: u64, delay: usize) -> Self {
        Self { loss_per_mille, delay, under_way: VecDeque::new() }
    }

    fn carry(&mut self, dice: &mut Dice, packet: &[u8]) -> Option<Vec<u8>> {
        let lost = dice.roll(1000) < self.loss_per_mille;
        self.under_way.push_back((!lost).then(|| packet.to_vec()));
        if self.under_way.len() > self.delay { self.under_way.pop_front().flatten() } else { None }
    }
}

/// Sends frames, whole ones and split ones, over both paths. Returns how many were sent and delivered.
fn run(frames: u32, paths: &mut [Path; 2], seed: u64) -> (Sites, u32, u64) {
    let (mut sites, mut dice) = (acquainted(), Dice::new(seed));
    let before = sites.sites[1].forwarding.peer_counters(P0).in_pkts_tunnelled;
    for pn in 1..=frames {
        sites.send(0, &frame(1, 2, pn, if pn % 16 == 0 { 1510 } else { 100 }));
        for (_, packet) in sites.take_sent(0) {
            for path in &mut *paths {
                if let Some(packet) = path.carry(&mut dice, &packet) {
                    sites.arrive(0, 1, &packet);
                }
            }
        }
    }
    for path in paths {
        for packet in std::mem::take(&mut path.under_way).into_iter().flatten() {
            sites.arrive(0, 1, &packet);
        }
    }
    let delivered = sites.sites[1].forwarding.peer_counters(P0).in_pkts_tunnelled - before;
    (sites, frames, delivered)
}

fn no_frame_came_twice(sites: &mut Sites) {
    let mut frames = sites.take_delivered(1);
    let all = frames.len();
    frames.sort_unstable();
    frames.dedup();
    assert_eq!(frames.len(), all);
}

#[test]
fn a_path_that_dies_costs_no_frame_and_no_frame_comes_twice() {
    for dead in [0, 1] {
        let mut paths = [Path::new(0, 0), Path::new(0, 40)];
        paths[dead].loss_per_mille = 1000;
        let (mut sites, sent, delivered) = run(2000, &mut paths, 7);
        assert_eq!(delivered, u64::from(sent));
        no_frame_came_twice(&mut sites);
        assert_eq!(sites.sites[1].forwarding.peer_counters(P0).in_pkts_duplicate, 0);
    }
    let (mut sites, sent, delivered) = run(2000, &mut [Path::new(0, 3), Path::new(0, 90)], 7);
    assert_eq!(delivered, u64::from(sent));
    no_frame_came_twice(&mut sites);
    let counters = sites.sites[1].forwarding.peer_counters(P0);
    assert_eq!(counters.in_pkts_duplicate, 2000 + 2000 / 16, "each packet of each frame");
    // A copy is no sign of a lost lane, and none of an attack.
    assert!(!sites.events.contains_key("Lost"));
    assert_eq!(sites.sites[1].forwarding.counters().in_pkts_unknown_identifier, 0);
}

/// Without the session's word a copy is nobody's packet, as it ever was.
#[test]
fn copies_are_known_only_where_they_are_expected() {
    for expected in [false, true] {
        let mut sites = Sites::strangers(2, &settings(1));
        if expected {
            sites.command(1, Command::ExpectCopies { peer: P0 });
        }
        sites.begin(0);
        sites.begin(1);
        sites.send(0, &frame(1, 2, 1, 100));
        let (_, packet) = sites.take_sent(0).remove(0);
        assert!(sites.arrive(0, 1, &packet).is_some());
        assert!(sites.arrive(0, 1, &packet).is_none());
        let known = sites.sites[1].discards.last() == Some(&Discard::Of(P0, InDiscard::Duplicate));
        assert_eq!(known, expected);
    }
}

/// 1 % lost on each of two paths, independently: at most 2 in 10,000 frames are lost.
#[test]
fn independent_loss_on_both_paths_is_multiplied() {
    let (mut lost, mut sent) = (0, 0);
    for seed in 1..=4 {
        let (mut sites, frames, delivered) = run(50_000, &mut [Path::new(10, 0), Path::new(10, 30)], seed);
        (lost, sent) = (lost + u64::from(frames) - delivered, sent + u64::from(frames));
        no_frame_came_twice(&mut sites);
    }
    println!("{lost} of {sent} lost");
    assert!(lost * 10_000 <= 2 * sent && lost > 0, "{lost} of {sent}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Whatever two paths lose and delay inside the window: a frame arrives once if one of its copies does.
    #[test]
    fn each_frame_that_one_path_carries_arrives_once(
        losses in any::<[u8; 2]>(), delays in [0..60_usize, 0..60_usize], seed in any::<u64>()
    ) {
        let (mut sites, mut dice) = (acquainted(), Dice::new(seed));
        let mut paths = [0, 1].map(|path| Path::new(u64::from(losses[path]) * 2, delays[path]));
        let mut carried = std::collections::BTreeSet::new();
        for pn in 1..=300 {
            sites.send(0, &frame(1, 2, pn, 100));
            let (_, packet) = sites.take_sent(0).remove(0);
            for path in &mut paths {
                if let Some(packet) = path.carry(&mut dice, &packet) {
                    let first = carried.insert(packet.clone());
                    prop_assert_eq!(sites.arrive(0, 1, &packet).is_some(), first);
                }
            }
        }
        prop_assert_eq!(sites.take_delivered(1).len(), carried.len());
        prop_assert_eq!(sites.sites[1].forwarding.counters().in_pkts_unknown_identifier, 0);
    }
}
