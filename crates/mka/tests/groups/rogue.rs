//! Rogues with the fallback CAK alone: out of a box that was lost, whose CAK is being replaced. The preferred CAK is intact.

use mka::{Fault, Reason};
use wire::Sci;

use crate::station::{cak, ms, seconds, settings};
use crate::world::World;

/// The preferred and the fallback CAK of these tests, and a third one.
const PREFERRED: u8 = 1;
const FALLBACK: u8 = 9;
const NEXT: u8 = 2;

/// A secured group of this many stations with both CAKs.
fn group(seed: u64, stations: usize) -> World {
    let mut world = World::new(seed);
    for i in 0..stations {
        world.add(settings(i));
        world.switch_on(i, vec![cak(PREFERRED), cak(FALLBACK)]);
    }
    world.data_each = Some(ms(20));
    let all = world.all();
    world.secure(&all, seconds(6));
    world
}

/// Somebody with one CAK alone, who wants to be key server. `number`: of its SCI.
fn rogue(world: &mut World, number: usize, octet: u8) -> usize {
    let mut wants_all = settings(number);
    wants_all.priority = 0;
    let rogue = world.add(wants_all);
    world.switch_on(rogue, vec![cak(octet)]);
    rogue
}

fn sci(number: usize) -> Sci {
    settings(number).sci
}

fn are_under(world: &World, who: &[usize], octet: u8) -> bool {
    who.iter().all(|i| world.status(*i).ckn.octets() == [octet])
}

/// For a minute all of these stay with their CAK, and with each other.
fn holds(world: &mut World, who: &[usize], octet: u8) {
    let end = world.now + seconds(60);
    let left = world.run_until(end, |world| !are_under(world, who, octet));
    assert!(!left, "another CAK at {:?}", world.now);
    assert_secured(world, who);
}

/// All of these protect with one SAK, of one of them.
fn assert_secured(world: &World, who: &[usize]) {
    let ki = world.ki(who[0]);
    assert!(who.iter().all(|i| world.stations[*i].secy.transmits == Some(ki)), "one SAK");
    assert!(who.iter().any(|i| world.status(*i).is_key_server), "one of them made it");
}

fn change(world: &mut World, i: usize, caks: &[u8], peers: &[usize]) {
    let mut settings = world.stations[i].settings.clone();
    settings.peers = peers.iter().map(|number| sci(*number)).collect();
    world.stations[i].settings = settings.clone();
    world.change(i, settings, caks.iter().map(|octet| cak(*octet)).collect());
}

#[test]
fn who_has_the_fallback_alone_takes_no_link_over() {
    for (seed, stations, rogues) in [(70, 2, 1), (71, 2, 6), (72, 4, 3)] {
        let mut world = group(seed, stations);
        let members = world.all();
        let rogues: Vec<usize> = (0..rogues).map(|i| rogue(&mut world, 10 + i, FALLBACK)).collect();
        holds(&mut world, &members, PREFERRED);
        assert_eq!(world.lost, 0);
        // Nor when they have been there all the time, and all begin anew.
        world.forgive();
        members.iter().for_each(|i| world.switch_on(*i, vec![cak(PREFERRED), cak(FALLBACK)]));
        world.run(seconds(10));
        holds(&mut world, &members, PREFERRED);
        // Each of them is told, and not all at once.
        for i in &members {
            let status = world.status(*i);
            assert_eq!((status.strangers.len(), status.under_fallback), (rogues.len(), false));
            assert!(status.strangers.iter().all(|(sci, ckn)| {
                world.stations.iter().any(|rogue| rogue.settings.sci == *sci) && ckn.octets() == [FALLBACK]
            }));
            assert_eq!(world.kay(*i).counters().strangers, rogues.len() as u64);
        }
        rogues.iter().for_each(|i| world.switch_off(*i));
        world.run(seconds(10));
        assert!(members.iter().all(|i| world.status(*i).strangers.is_empty()));
    }
}

/// Members that start and stop are no strangers to each other for a moment.
#[test]
fn members_that_come_and_go_are_never_strangers() {
    let mut world = group(73, 3);
    for i in [0, 1, 2, 0] {
        world.switch_off(i);
        world.run(seconds(9));
        world.switch_on(i, vec![cak(PREFERRED), cak(FALLBACK)]);
        let end = world.now + seconds(12);
        assert!(
            !world.run_until(end, |world| world.all().iter().any(|i| !world.status(*i).strangers.is_empty()))
        );
        world.secure(&[0, 1, 2], seconds(1));
    }
}

/// All members are away but one: it waits for them, and says why it does not speak with who is there.
#[test]
fn who_is_left_alone_takes_no_sak_of_a_stranger() {
    let mut world = group(74, 2);
    rogue(&mut world, 7, FALLBACK);
    world.run(seconds(10));
    world.switch_off(1);
    world.forgive();
    let end = world.now + seconds(40);
    world.run_until(end, |world| !are_under(world, &[0], PREFERRED));
    assert_eq!(world.now, end);
    assert!(world.stations[0].secy.saks.is_empty(), "without members nothing passes");
    assert_eq!(world.status(0).fault, Some(Fault::Strangers));
    world.switch_on(1, vec![cak(PREFERRED), cak(FALLBACK)]);
    world.run(seconds(10));
    holds(&mut world, &[0, 1], PREFERRED);
    assert_eq!(world.status(0).fault, None);
}

/// One of two stands still, and is lost under one CAK before the other: whether it comes back in between or not, the other one stays
/// with its CAK. So it takes no SAK of the rogue, under which nobody else would hear it.
#[test]
fn who_stands_still_drives_nobody_to_the_fallback() {
    for (who, time) in [0, 1].into_iter().flat_map(|who| [3500, 4500, 5500, 8000].map(|time| (who, time))) {
        for moment in (0..2000).step_by(250) {
            let mut world = group(80 + moment, 2);
            world.data_each = Some(ms(50));
            // The rogue has both speak under the fallback at another time than under the preferred CAK.
            world.run(seconds(4));
            rogue(&mut world, 7, FALLBACK);
            // It protects with its SAK by now.
            world.run(seconds(9) + ms(moment));
            assert!(are_under(&world, &[0, 1], PREFERRED));
            world.stand_still(who);
            let goes_on = world.now + ms(time);
            let mut left = world.run_until(goes_on, |world| !are_under(world, &[1 - who], PREFERRED));
            world.go_on(who);
            let end = world.now + seconds(10);
            left |= world.run_until(end, |world| !are_under(world, &[0, 1], PREFERRED));
            assert!(!left, "{who} stood still for {time} ms at {moment}: another CAK at {:?}", world.now);
            assert_secured(&world, &[0, 1]);
            let blocked = |i: &usize| {
                let changes = world.status(*i).changes;
                changes.iter().any(|change| matches!(change.reason, Reason::Alone { .. }))
            };
            assert!(world.lost == 0 || [0, 1].iter().any(blocked), "{who}, {time} ms at {moment}");
            assert!(world.lost == 0 || time > 4000, "{who}, {time} ms at {moment}");
        }
    }
}

/// The rogue has the SCI of a member that is there: under the preferred CAK the member goes on.
#[test]
fn who_plays_a_member_that_is_there_wins_nothing() {
    let mut world = group(75, 3);
    let double = rogue(&mut world, 1, FALLBACK);
    world.run(seconds(30));
    assert!(are_under(&world, &[0, 1, 2], PREFERRED), "{double}");
    assert_eq!(world.lost, 0);
}

/// A CAK is changed, and one box does not have the new one yet: all go on with it under the old one, whoever of the others
/// begins anew meanwhile and has never met it.
#[test]
fn who_has_not_got_the_new_cak_yet_stays_in() {
    let mut world = World::new(76);
    for i in 0..4 {
        world.add(settings(i));
        world.switch_on(i, vec![cak(PREFERRED)]);
    }
    world.data_each = Some(ms(20));
    let all = world.all();
    world.secure(&all, seconds(6));
    for i in [0, 1, 2] {
        change(&mut world, i, &[NEXT, PREFERRED], &[]);
        world.run(seconds(7));
    }
    holds(&mut world, &all, PREFERRED);
    assert_eq!(world.lost, 0);
    for i in [0, 2] {
        world.forgive();
        world.switch_on(i, vec![cak(NEXT), cak(PREFERRED)]);
        world.run(seconds(25));
        holds(&mut world, &all, PREFERRED);
    }
    change(&mut world, 3, &[NEXT, PREFERRED], &[]);
    world.run(seconds(12));
    holds(&mut world, &all, NEXT);
    assert_eq!(world.lost, 0);
}

/// The same when all begin anew: the box that has the old CAK alone is left behind and told, unless it is named.
#[test]
fn who_is_named_is_waited_for_after_a_power_failure() {
    for named in [false, true] {
        let mut world = World::new(77);
        for i in 0..3 {
            let mut settings = settings(i);
            if named {
                settings.peers = (0..3).filter(|other| *other != i).map(sci).collect();
            }
            world.add(settings);
            let caks = if i == 2 { vec![cak(PREFERRED)] } else { vec![cak(NEXT), cak(PREFERRED)] };
            world.switch_on(i, caks);
        }
        world.run(seconds(20));
        if named {
            holds(&mut world, &[0, 1, 2], PREFERRED);
            assert!(world.status(0).strangers.is_empty() && world.status(0).under_fallback);
        } else {
            holds(&mut world, &[0, 1], NEXT);
            assert_eq!(world.status(1).strangers.len(), 1);
        }
    }
}

/// A box is lost while it runs. Who names those that are left goes over to the new CAK without it.
#[test]
fn a_lost_box_that_is_not_named_keeps_nobody_with_the_old_cak() {
    for named in [true, false] {
        let mut world = World::new(78);
        for i in 0..3 {
            world.add(settings(i));
            world.switch_on(i, vec![cak(PREFERRED)]);
        }
        let all = world.all();
        world.secure(&all, seconds(6));
        for i in 0..2 {
            let peers: &[usize] = if named { &[1 - i] } else { &[] };
            change(&mut world, i, &[NEXT, PREFERRED], peers);
        }
        world.run(seconds(12));
        if named {
            holds(&mut world, &[0, 1], NEXT);
            assert_eq!(world.status(0).strangers[0].0, sci(2));
        } else {
            holds(&mut world, &all, PREFERRED);
        }
    }
}

/// Somebody with the preferred CAK who is not named is a member, and told.
#[test]
fn who_has_the_preferred_cak_and_is_not_named_is_told() {
    let mut world = World::group(79, 2);
    change(&mut world, 0, &[PREFERRED], &[1]);
    world.secure(&[0, 1], seconds(6));
    let thief = rogue(&mut world, 7, PREFERRED);
    world.run(seconds(10));
    assert!(world.is_secured(&[0, 1, thief]));
    assert_eq!(world.status(0).strangers[0].0, sci(7));
    assert!(world.status(1).strangers.is_empty());
}
