//! Three sites on a virtual clock, each with both halves: frames in, packets over wires that lose, swap and duplicate,
//! messages over channels that break, and sites that start anew at any moment.
//!
//! ```text
//!   station ─ site 0 ═════ site 1 ─ station          ═ packets, and a channel
//!                 ╲       ╱
//!                  site 2 ─ station
//! ```
//!
//! Held at all times (in `net.rs`): no identifier comes twice on any wire, over all restarts, so that no seq is used
//! twice under a key; every frame that leaves a site is octet for octet one that entered the other, and leaves it once.

mod three_sites {
    pub(crate) mod net;
}

use proptest::collection::vec;
use proptest::prelude::*;

use three_sites::net::{Net, SITES, Station, WINDOW};

/// Lets everything settle: channels up, epochs in both directions.
fn settle(net: &mut Net) {
    (0..SITES).for_each(|without| net.connect(without));
    net.run(200);
    for site in 0..SITES {
        for other in (0..SITES).filter(|&other| other != site) {
            assert_ne!(net.epoch(site, other), 0, "site {site} has no epoch towards {other}");
        }
    }
}

/// A frame from each site to each other one arrives there, whatever was before.
fn assert_all_reach_all(net: &mut Net) {
    net.arrive_all();
    (0..SITES).for_each(|site| drop(net.take_delivered(site)));
    for from in 0..SITES {
        for to in (0..SITES).filter(|&to| to != from) {
            let frame = net.send(Station(from, 1), Station(to, 1), 100);
            net.arrive_all();
            assert!(net.take_delivered(to).contains(&frame), "from site {from} to site {to}");
        }
    }
}

/// A burst of losses longer than the window is healed by the next anchor: after W/2 packets at the latest.
fn get_back_onto_lanes(net: &mut Net) {
    for _ in 0..=WINDOW / 2 {
        for from in 0..SITES {
            for to in (0..SITES).filter(|&to| to != from) {
                net.send(Station(from, 1), Station(to, 1), 100);
            }
        }
    }
    net.arrive_all();
    net.run(10);
}

fn settled() -> Net {
    let mut net = Net::new();
    settle(&mut net);
    assert_all_reach_all(&mut net);
    net.run(100);
    net
}

#[test]
fn every_frame_of_a_new_flow_arrives_and_in_order_from_the_first_one_on() {
    let mut net = settled();
    let mut sent = Vec::new();
    for number in 0..200 {
        sent.push(net.send(Station(0, 9), Station(1, 1), if number % 3 == 0 { 1400 } else { 100 }));
        net.arrive_all();
        // The announcement and its answer come somewhere among them.
        if number > 50 {
            net.turn(0, 1);
            net.turn(1, 1);
            net.carry(0, 1, 1);
            net.carry(1, 0, 1);
        }
    }
    assert_eq!(net.take_delivered(1), sent);
    assert!(net.all_acknowledged(0, 1));
    assert!((51..200).contains(&net.long_forms(0, 1)), "{}", net.long_forms(0, 1));
}

#[test]
fn known_and_new_flows_go_on_while_the_channels_are_down() {
    let mut net = settled();
    (0..SITES).for_each(|without| net.break_channel(without, true));
    for second in 0..120 {
        net.run(100);
        net.wait(900);
        for station in [1, 10 + second % 4] {
            let frame = net.send(Station(0, station), Station(2, 1), 100);
            net.arrive_all();
            assert_eq!(net.take_delivered(2), [frame], "second {second}, station {station}");
        }
        // Keeps stations known.
        net.send(Station(2, 1), Station(0, 1), 100);
        net.arrive_all();
    }
    assert_eq!(net.epoch(0, 2), 1, "the epoch lasts longer");
    settle(&mut net);
    assert_all_reach_all(&mut net);
    net.run(1200);
    assert_eq!(net.epoch(0, 2), 2);
    assert!(
        (0..SITES).all(|site| (0..SITES).all(|other| site == other || net.all_acknowledged(site, other)))
    );
}

#[test]
fn a_change_of_epochs_loses_no_frame() {
    let mut net = settled();
    for _ in 0..150 {
        let frame = net.send(Station(0, 1), Station(1, 1), 100);
        net.arrive_all();
        assert_eq!(net.take_delivered(1), [frame]);
        net.send(Station(1, 1), Station(0, 1), 100);
        net.arrive_all();
        net.run(100);
        net.wait(900);
    }
    assert_eq!(net.epoch(0, 1), 3, "two minutes and a half, of epochs of one minute");
}

#[test]
fn a_restart_of_one_or_several_sites_heals_and_repeats_no_seq() {
    let mut net = settled();
    for sites in [&[0][..], &[1], &[0, 1], &[1, 2], &[0, 1, 2]] {
        for _ in 0..50 {
            net.send(Station(0, 1), Station(1, 1), 100);
            net.send(Station(1, 1), Station(0, 1), 100);
        }
        sites.iter().for_each(|&site| net.restart(site, false));
        // Frames go on in the meantime; whatever arrives is of use or is not.
        for _ in 0..50 {
            net.send(Station(0, 1), Station(1, 1), 100);
            net.send(Station(1, 1), Station(0, 1), 100);
        }
        settle(&mut net);
        assert_all_reach_all(&mut net);
    }
}

#[derive(Clone, Debug)]
enum Operation {
    Send { from: (usize, u8), to: (usize, u8), long: bool, times: u8 },
    Arrive { from: usize, to: usize, packets: u8 },
    Lose { from: usize, to: usize, packets: u8 },
    Duplicate { from: usize, to: usize },
    Swap { from: usize, to: usize },
    Connect(usize),
    Break(usize, bool),
    Restart(usize, bool),
    Carry { from: usize, to: usize, messages: u8 },
    Turn { site: usize, exchanged: u8 },
    Run(u8),
    Wait(u16),
}

fn operation() -> impl Strategy<Value = Operation> {
    let site = || 0..SITES;
    let two = || (0..SITES, 1..SITES).prop_map(|(from, ahead)| (from, (from + ahead) % SITES));
    prop_oneof![
        6 => (two(), 1..4_u8, 1..4_u8, any::<bool>(), 1..40_u8).prop_map(|((from, to), one, another, long, times)| {
            Operation::Send { from: (from, one), to: (to, another), long, times }
        }),
        6 => (two(), 1..40_u8).prop_map(|((from, to), packets)| Operation::Arrive { from, to, packets }),
        1 => (two(), 1..100_u8).prop_map(|((from, to), packets)| Operation::Lose { from, to, packets }),
        1 => two().prop_map(|(from, to)| Operation::Duplicate { from, to }),
        1 => two().prop_map(|(from, to)| Operation::Swap { from, to }),
        2 => site().prop_map(Operation::Connect),
        1 => (site(), any::<bool>()).prop_map(|(without, noticed)| Operation::Break(without, noticed)),
        1 => (site(), any::<bool>()).prop_map(|(site, noticed)| Operation::Restart(site, noticed)),
        4 => (two(), 1..6_u8).prop_map(|((from, to), messages)| Operation::Carry { from, to, messages }),
        4 => (site(), 0..6_u8).prop_map(|(site, exchanged)| Operation::Turn { site, exchanged }),
        2 => (1..30_u8).prop_map(Operation::Run),
        1 => (0..2000_u16).prop_map(Operation::Wait),
    ]
}

fn carry_out(net: &mut Net, operation: &Operation) {
    match *operation {
        Operation::Send { from, to, long, times } => {
            for _ in 0..times {
                net.send(Station(from.0, from.1), Station(to.0, to.1), if long { 1400 } else { 60 });
            }
        }
        Operation::Arrive { from, to, packets } => (0..packets).for_each(|_| net.arrive(from, to)),
        Operation::Lose { from, to, packets } => (0..packets).for_each(|_| net.lose_packet(from, to)),
        Operation::Duplicate { from, to } => net.duplicate_packet(from, to),
        Operation::Swap { from, to } => net.swap_packets(from, to),
        Operation::Connect(without) => net.connect(without),
        Operation::Break(without, noticed) => net.break_channel(without, noticed),
        Operation::Restart(site, noticed) => net.restart(site, noticed),
        Operation::Carry { from, to, messages } => net.carry(from, to, messages.into()),
        Operation::Turn { site, exchanged } => net.turn(site, exchanged.into()),
        Operation::Run(milliseconds) => net.run(milliseconds.into()),
        Operation::Wait(milliseconds) => net.wait(milliseconds.into()),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn whatever_is_lost_broken_or_restarted_no_seq_comes_twice_and_all_sites_reach_all(
        operations in vec(operation(), 0..80),
    ) {
        let mut net = Net::new();
        for operation in &operations {
            carry_out(&mut net, operation);
        }
        settle(&mut net);
        // A station is believed to be where it was heard for a second.
        net.run(1100);
        get_back_onto_lanes(&mut net);
        assert_all_reach_all(&mut net);
    }
}
