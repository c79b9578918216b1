//! Epochs and generations: keys that come and go, with packets of the old ones still under way.

mod ends;

use std::time::Duration;

use ends::{Sites, frame, frame_between, settings};
use proptest::prelude::*;
use suite::tunnel::EpochSecret;
use tunnel::{Command, EPOCH_OVERLAP, Limits, PeerId};

const P0: PeerId = PeerId(0);

fn packet(sites: &mut Sites, pn: u32) -> Vec<u8> {
    sites.send(0, &frame(1, 2, pn, 100));
    sites.take_sent(0).remove(0).1
}

#[test]
fn packets_of_two_epochs_arrive_for_two_seconds() {
    let mut sites = Sites::new(2, &settings(1));
    let old: Vec<_> = (0..10).map(|pn| packet(&mut sites, pn)).collect();
    assert!(sites.arrive(0, 1, &old[0]).is_some());
    sites.next_epoch(0, 1);
    sites.settle();
    assert_eq!(sites.sites[0].forwarding.transmit_epoch(P0), 2);
    // As long as nothing of the new one comes, the old one stays.
    sites.pass(Duration::from_secs(10));
    assert!(sites.arrive(0, 1, &old[1]).is_some());
    let new: Vec<_> = (0..10).map(|pn| packet(&mut sites, pn)).collect();
    assert!(sites.arrive(0, 1, &new[3]).is_some());
    sites.pass(EPOCH_OVERLAP - Duration::from_millis(20));
    assert!(sites.arrive(0, 1, &old[2]).is_some());
    assert!(sites.arrive(0, 1, &new[2]).is_some());
    sites.pass(Duration::from_millis(40));
    assert!(sites.arrive(0, 1, &old[3]).is_none());
    assert!(sites.arrive(0, 1, &new[1]).is_some());
    assert_eq!(sites.sites[1].forwarding.receive_epochs(P0).collect::<Vec<_>>(), [2]);
}

/// Somebody else receives a lane of the same epochs, as programs in the kernel do. Whoever hears the new one first tells the other.
#[test]
fn the_new_epoch_ends_the_old_one_wherever_its_first_packet_comes() {
    let two_epochs = || {
        let mut sites = Sites::new(2, &settings(1));
        sites.command(1, Command::OfferFlows);
        let old: Vec<_> = (0..10).map(|pn| packet(&mut sites, pn)).collect();
        sites.next_epoch(0, 1);
        sites.settle();
        (sites, old)
    };
    let heard = |sites: &Sites| sites.events.get("EpochInUse").copied();
    let (mut sites, old) = two_epochs();
    assert!(sites.arrive(0, 1, &old[0]).is_some());
    sites.pass(EPOCH_OVERLAP);
    assert_eq!(heard(&sites), None);
    let new = [packet(&mut sites, 0), packet(&mut sites, 1)];
    assert!(new.iter().all(|new| sites.arrive(0, 1, new).is_some()));
    sites.pass(Duration::from_millis(100));
    assert_eq!(heard(&sites), Some(1));

    let (mut sites, old) = two_epochs();
    let generation = sites.sites[1].generations[0];
    let elsewhere = |sites: &mut Sites, epoch| {
        sites.command(1, Command::EpochInUse { peer: P0, generation, epoch });
    };
    elsewhere(&mut sites, 1);
    sites.pass(2 * EPOCH_OVERLAP);
    assert!(sites.arrive(0, 1, &old[0]).is_some(), "the old one is in use");
    elsewhere(&mut sites, 2);
    sites.pass(EPOCH_OVERLAP - Duration::from_millis(20));
    assert!(sites.arrive(0, 1, &old[1]).is_some());
    // What comes here then begins nothing anew.
    let new = packet(&mut sites, 0);
    assert!(sites.arrive(0, 1, &new).is_some());
    sites.pass(Duration::from_millis(40));
    assert!(sites.arrive(0, 1, &old[2]).is_none());
    assert_eq!(sites.sites[1].forwarding.receive_epochs(P0).collect::<Vec<_>>(), [2]);
}

#[test]
fn a_third_epoch_ends_the_first_at_once() {
    let mut sites = Sites::new(2, &settings(1));
    let packets: Vec<_> = (0..3)
        .map(|epoch| {
            let packets = [packet(&mut sites, 2 * epoch), packet(&mut sites, 2 * epoch + 1)];
            sites.next_epoch(0, 1);
            sites.settle();
            packets
        })
        .collect();
    let accepted: Vec<_> = packets.iter().map(|[packet, _]| sites.arrive(0, 1, packet).is_some()).collect();
    // Epochs 1 and 2 have made room for 3 and 4.
    assert_eq!(accepted, [false, false, true]);
}

/// A command that comes twice, or late, makes no key begin again.
#[test]
fn a_key_never_begins_again() {
    let mut sites = Sites::strangers(2, &settings(1));
    let (peer, generation) = (P0, sites.sites[0].generations[0]);
    let install = |sites: &mut Sites, epoch: u32| {
        let secret = EpochSecret::new(&[epoch as u8; 32]);
        sites.command(0, Command::InstallTransmit { peer, generation, epoch, secret });
    };
    for epoch in [1, 1, 2, 1, 2, 3, 3] {
        install(&mut sites, epoch);
        for pn in 0..10 {
            // An identifier that was sent before fails in there.
            packet(&mut sites, pn);
        }
    }
    assert_eq!(sites.sites[0].forwarding.transmit_epoch(P0), 3);
}

/// Both ends begin anew: what is on its way, or was recorded, belongs to nobody any more.
#[test]
fn a_restart_voids_everything_but_counters_and_stations() {
    let mut sites = Sites::new(2, &settings(1));
    let recorded: Vec<_> = (0..200).map(|pn| packet(&mut sites, pn)).collect();
    sites.arrive(0, 1, &recorded[0]);
    sites.settle();
    assert_eq!(sites.sites[0].forwarding.flows(P0).count(), 1);
    for _ in 0..5 {
        sites.restart(0, 1);
        assert_eq!(sites.sites[0].forwarding.flows(P0).count(), 0);
        assert_eq!(sites.sites[1].forwarding.announced_flows(P0), 0);
        assert!(recorded.iter().all(|packet| sites.arrive(0, 1, packet).is_none()));
        let fresh = frame(1, 2, 999, 100);
        sites.send(0, &fresh);
        sites.deliver_all(0);
        assert_eq!(sites.take_delivered(1).last(), Some(&fresh));
        sites.settle();
    }
    assert_eq!(sites.sites[1].forwarding.stations().count(), 1);
    assert_eq!(sites.sites[1].forwarding.peer_counters(P0).in_pkts_tunnelled, 6);
}

/// More flows than there are numbers come and go: the next epoch is asked for in time, and no frame is lost.
#[test]
fn numbers_of_flows_never_run_out() {
    let mut settings = settings(1);
    settings.limits = Limits {
        flows: 512,
        flows_per_sci: 512,
        flow_age: Duration::from_millis(50),
        new_flows_per_second: 100_000,
        ..Limits::default()
    };
    let mut sites = Sites::new(2, &settings);
    for round in 0..140_u8 {
        for number in 0..512_u16 {
            let [high, low] = number.to_be_bytes();
            let frame = frame_between([2, 0, round, 0, high, low], [2, 0, 0, 9, 0, 0], 1, 60);
            sites.send(0, &frame);
            let packet = sites.take_sent(0).remove(0).1;
            assert!(sites.arrive(0, 1, &packet).is_some_and(|arrived| arrived == frame), "{round}, {number}");
        }
        sites.pass(Duration::from_millis(200));
    }
    assert_eq!(sites.sites[0].forwarding.transmit_epoch(P0), 2);
    assert_eq!(sites.events["EpochWanted"], 1);
    assert_eq!(sites.sites[0].forwarding.peer_counters(P0).out_pkts_flow_indexes, 0);
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Send(u8),
    NextEpoch(bool),
    Restart,
    /// Only one of the two begins anew: the other one hears of it later.
    RestartHalf(bool),
    Pass(u16),
    Channel(bool),
    Arrive(u8),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => (0..4_u8).prop_map(Step::Send),
        1 => any::<bool>().prop_map(Step::NextEpoch),
        1 => Just(Step::Restart),
        1 => any::<bool>().prop_map(Step::RestartHalf),
        3 => (0..3000_u16).prop_map(Step::Pass),
        2 => any::<bool>().prop_map(Step::Channel),
        8 => any::<u8>().prop_map(Step::Arrive),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    /// Whatever restarts when: no identifier, so no seq under a key, is sent twice (asserted in [`Sites::send`]), no
    /// packet is accepted twice, and after a last restart frames arrive again.
    #[test]
    fn restarts_at_any_moment(steps in prop::collection::vec(step(), 0..60)) {
        let mut sites = Sites::new(2, &settings(1));
        let mut wire: Vec<(Vec<u8>, bool)> = Vec::new();
        for (pn, step) in steps.into_iter().enumerate() {
            match step {
                Step::Send(count) => for number in 0..count {
                    sites.send(0, &frame(number, 9, pn as u32, 90));
                    wire.extend(sites.take_sent(0).into_iter().map(|(_, packet)| (packet, false)));
                }
                Step::NextEpoch(forward) => if forward { sites.next_epoch(0, 1) } else { sites.next_epoch(1, 0) },
                Step::Restart => sites.restart(0, 1),
                Step::RestartHalf(first) => {
                    let at = usize::from(!first);
                    let generation = tunnel::Generation(sites.sites[at].generations[0].0 + 1);
                    sites.sites[at].generations[0] = generation;
                    sites.command(at, Command::Begin { peer: P0, generation });
                }
                Step::Pass(ms) => sites.pass(Duration::from_millis(u64::from(ms) / 10)),
                Step::Channel(works) => sites.channel = works,
                Step::Arrive(number) => if !wire.is_empty() {
                    let at = usize::from(number) % wire.len();
                    let accepted = sites.arrive(0, 1, &wire[at].0.clone()).is_some();
                    prop_assert!(!(accepted && wire[at].1), "accepted twice");
                    wire[at].1 |= accepted;
                }
            }
        }
        sites.channel = true;
        sites.restart(0, 1);
        sites.take_delivered(1);
        let fresh = frame(7, 9, 1, 90);
        sites.send(0, &fresh);
        sites.deliver_all(0);
        prop_assert_eq!(sites.take_delivered(1), [fresh]);
    }
}
