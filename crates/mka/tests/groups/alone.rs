//! Peers that vanish, and what is configured for that; key servers that die; delay protection.

use mka::{OnPeerLoss, Reason, Report};
use wire::Ki;
use wire::mkpdu::Capability;

use crate::scripted::{Alone, Scripted};
use crate::station::{cak, ms, seconds, settings};
use crate::world::World;

fn group(seed: u64, stations: usize, on_peer_loss: OnPeerLoss) -> World {
    let mut world = World::new(seed);
    for i in 0..stations {
        let mut settings = settings(i);
        settings.on_peer_loss = on_peer_loss;
        world.add(settings);
        world.switch_on(i, vec![cak(1)]);
    }
    world
}

#[test]
fn without_peers_nothing_passes() {
    let mut world = group(30, 2, OnPeerLoss::Block);
    world.secure(&[0, 1], seconds(6));
    world.part(&[0], &[1]);
    let parted = world.now;
    let end = world.now + seconds(20);
    assert!(world.run_until(end, |world| world.stations[0].secy.saks.is_empty()));
    let took = world.now.since(parted);
    assert!(took > seconds(4) && took <= seconds(7), "{took:?}");
    world.run(seconds(2));
    assert!(world.stations.iter().all(|station| station.secy.saks.is_empty()));
    assert!(world.status(0).fault.is_some());
    world.cut.clear();
    world.secure(&[0, 1], seconds(3));
}

#[test]
fn with_hold_the_sak_goes_on() {
    let mut world = group(31, 3, OnPeerLoss::Hold);
    world.data_each = Some(ms(10));
    world.secure(&[0, 1, 2], seconds(6));
    let ki = world.ki(0);
    // MKPDUs alone are lost.
    world.loss = 100;
    world.run(seconds(60));
    assert_eq!((world.ki(0), world.ki(1), world.ki(2)), (ki, ki, ki));
    assert_eq!(world.lost, 0);
    let told = |world: &World| {
        let changes = world.status(0).changes;
        changes.iter().filter(|change| change.reason == Reason::Alone { held: true }).count()
    };
    assert_eq!(told(&world), 1);
    world.loss = 0;
    let end = world.now + seconds(10);
    assert!(world.run_until(end, |world| world.is_secured(&[0, 1, 2]) && world.ki(0) != ki), "another SAK");
    assert_eq!(world.lost, 0);
}

/// A KaY stood still for longer than a life time, and an MKPDU of its peer waits: the peer was not silent.
#[test]
fn what_waits_is_heard_before_silence_counts() {
    let (mut alone, mut member) = (Alone::new(settings(0)), Scripted::new(1));
    alone.meets(&mut member);
    alone.now = alone.now + ms(6200);
    // The SecY's word comes first.
    let ki = Ki { server: member.basic.mi, kn: 1 };
    alone.kay.handle_report(alone.now, Report::NextPn { ki, next_pn: 2 });
    alone.pump();
    alone.hears(&member.mkpdu());
    alone.pass(ms(10));
    assert_eq!(alone.told("is gone"), 0);
    assert!(alone.kay.status(alone.now).members.iter().any(|peer| peer.mi == member.basic.mi && peer.live));
    // Nothing waits.
    alone.pass(ms(6200));
    assert_eq!(alone.told("is gone"), 1);
}

/// One direction of MKPDUs fails: both ends give up and say so, and come back.
#[test]
fn one_direction_alone_is_no_connection() {
    let mut world = group(32, 2, OnPeerLoss::Block);
    world.secure(&[0, 1], seconds(6));
    world.cut.insert((0, 1));
    world.run(seconds(20));
    assert!(world.stations.iter().all(|station| station.secy.transmits.is_none()));
    assert!(world.status(0).fault.expect("there is trouble").to_string().contains("one direction"));
    world.cut.clear();
    world.secure(&[0, 1], seconds(3));
}

#[test]
fn a_key_server_that_dies_is_replaced_without_a_lost_frame() {
    let mut world = group(33, 4, OnPeerLoss::Block);
    world.data_each = Some(ms(2));
    let all = world.all();
    world.secure(&all, seconds(6));
    world.run(seconds(10));
    world.switch_off(0);
    let took = world.secure(&[1, 2, 3], seconds(12));
    assert!(took > seconds(4), "the life time has to pass");
    world.run(seconds(10));
    world.with(1, |kay, now| kay.rekey(now));
    world.run(seconds(5));
    // It comes back, and is elected again.
    world.switch_on(0, vec![cak(1)]);
    world.secure(&all, seconds(9));
    assert!(world.status(0).is_key_server);
    assert_eq!(world.lost, 0);
}

/// At each point of handing out a SAK the key server may die.
#[test]
fn a_key_server_may_die_at_any_moment() {
    for moment in 0..30 {
        let mut world = group(34, 4, OnPeerLoss::Block);
        let all = world.all();
        world.secure(&all, seconds(6));
        world.run(seconds(10));
        world.data_each = Some(ms(10));
        world.run(ms(100));
        world.with(0, |kay, now| kay.rekey(now));
        world.run(std::time::Duration::from_micros(100 * moment));
        world.switch_off(0);
        world.secure(&[1, 2, 3], seconds(20));
        world.run(seconds(10));
        assert_eq!(world.lost, 0, "{moment}");
    }
}

/// A station may restart at any moment, and quickly: the others lose nothing among themselves.
#[test]
fn a_member_may_restart_at_any_moment() {
    for moment in 0..30 {
        for who in [0, 3] {
            let mut world = group(35, 4, OnPeerLoss::Block);
            let all = world.all();
            world.secure(&all, seconds(6));
            world.run(seconds(10));
            world.data_each = Some(ms(10));
            world.run(ms(100));
            world.with(0, |kay, now| kay.rekey(now));
            world.run(std::time::Duration::from_micros(100 * moment));
            world.switch_on(who, vec![cak(1)]);
            world.secure(&all, seconds(9));
            assert_eq!(world.lost, 0, "{moment}");
        }
    }
}

/// The key server dies, and one member finds out earlier than the one who is to follow: it waits for him.
#[test]
fn who_finds_out_first_does_not_make_himself_key_server() {
    let mut world = group(39, 4, OnPeerLoss::Block);
    world.data_each = Some(ms(10));
    let all = world.all();
    world.secure(&all, seconds(6));
    world.run(seconds(10));
    world.deaf.insert((0, 3));
    world.run(seconds(2));
    world.switch_off(0);
    world.secure(&[1, 2, 3], seconds(12));
    let was_server = |i: usize| {
        let changes = world.status(i).changes;
        changes.iter().filter(|change| change.reason == Reason::KeyServerMyself).count()
    };
    assert_eq!([1, 2, 3].map(was_server), [1, 0, 0]);
    assert_eq!(world.lost, 0);
}

/// MKPDUs fail between two halves for a little more than a life time, data passes: who loses his key server does not leave the
/// other half behind at once. If it takes longer each half has its SAK, and they find together again.
#[test]
fn a_new_key_server_does_not_hurry() {
    for (outage, loses_nothing) in [(ms(5500), true), (ms(7500), false), (ms(15_000), false)] {
        let mut world = group(44, 4, OnPeerLoss::Hold);
        world.data_each = Some(ms(10));
        let all = world.all();
        world.secure(&all, seconds(6));
        world.run(seconds(10));
        for (a, b) in [(0, 1), (0, 2), (3, 1), (3, 2)] {
            world.deaf.extend([(a, b), (b, a)]);
        }
        world.run(outage);
        assert!(world.status(0).is_key_server && world.status(1).is_key_server);
        world.deaf.clear();
        world.secure(&all, seconds(6));
        assert_eq!(world.lost == 0, loses_nothing, "{outage:?}");
        let lost = world.lost;
        world.run(seconds(20));
        world.secure(&all, ms(1));
        assert_eq!(world.lost, lost);
    }
}

/// A station with a better priority joins, and hears some of the group late: it waits for those whom the others have.
#[test]
fn who_takes_over_waits_for_the_whole_group() {
    let mut world = World::new(45);
    for i in 0..4 {
        world.add(settings(i));
    }
    for i in 1..4 {
        world.switch_on(i, vec![cak(1)]);
    }
    world.data_each = Some(ms(10));
    world.secure(&[1, 2, 3], seconds(6));
    world.run(seconds(5));
    world.deaf.insert((3, 0));
    world.switch_on(0, vec![cak(1)]);
    world.run(ms(1500));
    assert!(world.stations[0].secy.transmits.is_none());
    world.deaf.clear();
    world.secure(&[0, 1, 2, 3], seconds(6));
    assert!(world.status(0).is_key_server);
    assert_eq!(world.lost, 0);
}

/// A member that has not heard a newcomer yet does not say that it accepts the SAK: nobody sends before all accept all.
#[test]
fn a_sak_waits_for_those_who_have_not_heard_a_newcomer() {
    let mut world = World::new(46);
    for i in 0..3 {
        world.add(settings(i));
    }
    (0..2).for_each(|i| world.switch_on(i, vec![cak(1)]));
    world.data_each = Some(ms(10));
    world.secure(&[0, 1], seconds(6));
    world.run(seconds(5));
    let before = world.ki(0);
    world.deaf.insert((2, 1));
    world.switch_on(2, vec![cak(1)]);
    world.run(seconds(2));
    assert_eq!(world.ki(0), before);
    assert!(world.stations[1].secy.saks.len() == 2, "it has the SAK, without the newcomer's SC");
    world.deaf.clear();
    world.secure(&[0, 1, 2], seconds(4));
    assert_eq!(world.lost, 0);
}

#[test]
fn who_never_wants_to_be_key_server_never_is() {
    let mut world = World::new(36);
    for i in 0..2 {
        let mut settings = settings(i);
        settings.priority = 255;
        world.add(settings);
        world.switch_on(i, vec![cak(1)]);
    }
    world.run(seconds(10));
    assert!(world.status(0).fault.expect("there is trouble").to_string().contains("no key server"));
    let mut settings = settings(2);
    settings.priority = 254;
    world.add(settings);
    world.switch_on(2, vec![cak(1)]);
    world.secure(&[0, 1, 2], seconds(6));
    assert!(world.status(2).is_key_server);
}

#[test]
fn who_does_no_macsec_gets_no_sak_and_hinders_nobody() {
    let mut world = group(37, 2, OnPeerLoss::Block);
    world.data_each = Some(ms(10));
    world.secure(&[0, 1], seconds(6));
    let mut settings = settings(2);
    settings.capability = Capability::None;
    world.add(settings);
    world.switch_on(2, vec![cak(1)]);
    world.run(seconds(20));
    world.with(0, |kay, now| kay.rekey(now));
    world.run(seconds(20));
    assert!(world.stations[2].secy.saks.is_empty());
    assert!(world.status(0).fault.expect("there is trouble").to_string().contains("left out"));
    assert_eq!(world.ki(0), world.ki(1));
    assert_eq!(world.lost, 0);
}

#[test]
fn delay_protection_raises_lowest_pns_and_loses_nothing() {
    let mut world = World::new(38);
    for i in 0..3 {
        let mut settings = settings(i);
        settings.delay_protect = true;
        world.add(settings);
        world.switch_on(i, vec![cak(1)]);
    }
    world.data_each = Some(ms(1));
    world.secure(&[0, 1, 2], seconds(6));
    world.run(seconds(10));
    let ki = world.ki(0);
    let sender = world.stations[1].settings.sci;
    let next = world.stations[1].secy.find(ki).expect("installed").next_pn;
    let lowest = world.stations[0].secy.find(ki).expect("installed").receive[&sender];
    // One frame a millisecond; a delay of 2 s is granted, and MKPDUs come each half second.
    assert!(next - lowest <= 2_800 && next - lowest >= 2_000, "{next} {lowest}");
    let before = world.mkpdus;
    world.run(seconds(10));
    assert!((60..=66).contains(&(world.mkpdus - before)), "one each half second");
    world.with(2, |kay, now| kay.rekey(now));
    world.run(seconds(10));
    assert_ne!(world.ki(0), ki, "a member's wish is heard under delay protection too");
    assert_eq!(world.lost, 0);
}
