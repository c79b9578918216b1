//! More than one CAK: a fallback, a change while everything runs, wrong ones.

use mka::{Fault, Reason};

use crate::station::{cak, ms, named_cak, seconds, settings};
use crate::world::World;

fn group(seed: u64, stations: usize, caks: &[u8]) -> World {
    let mut world = World::new(seed);
    for i in 0..stations {
        world.add(settings(i));
        world.switch_on(i, caks.iter().map(|octet| cak(*octet)).collect());
    }
    world
}

fn change(world: &mut World, i: usize, caks: &[u8]) {
    let settings = world.stations[i].settings.clone();
    world.change(i, settings, caks.iter().map(|octet| cak(*octet)).collect());
}

/// First each station gets the new CAK beside the old one, then the old one is taken away.
#[test]
fn a_cak_is_changed_without_a_lost_frame() {
    let mut world = group(20, 4, &[1]);
    world.data_each = Some(ms(2));
    let all = world.all();
    world.secure(&all, seconds(6));
    for i in [2, 0, 3, 1] {
        change(&mut world, i, &[2, 1]);
        world.run(seconds(7));
    }
    let end = world.now + seconds(20);
    let name = |world: &World, i: usize| world.status(i).ckn.octets().to_vec();
    assert!(
        world.run_until(end, |world| world.is_secured(&all) && all.iter().all(|i| name(world, *i) == [2]))
    );
    for i in [1, 3, 0, 2] {
        change(&mut world, i, &[2]);
        world.run(seconds(7));
    }
    world.secure(&all, seconds(1));
    assert_eq!(world.lost, 0);
}

/// The preferred CAK of one station is wrong all of a sudden: the group goes on under the fallback.
#[test]
fn a_fallback_takes_over_without_a_lost_frame() {
    let mut world = group(21, 3, &[1, 9]);
    world.data_each = Some(ms(2));
    let all = world.all();
    world.secure(&all, seconds(6));
    world.run(seconds(5));
    assert_eq!(world.status(0).ckn.octets(), [1]);
    let settings = world.stations[1].settings.clone();
    world.change(1, settings, vec![named_cak(&[1], 0xee), cak(9)]);
    let end = world.now + seconds(20);
    let under_fallback = |world: &World| all.iter().all(|i| world.status(*i).ckn.octets() == [9]);
    assert!(world.run_until(end, |world| world.is_secured(&all) && under_fallback(world)));
    world.run(seconds(10));
    assert_eq!(world.lost, 0);
    // It is put right again.
    change(&mut world, 1, &[1, 9]);
    let end = world.now + seconds(20);
    assert!(world.run_until(end, |world| {
        world.is_secured(&all) && all.iter().all(|i| world.status(*i).ckn.octets() == [1])
    }));
    assert_eq!(world.lost, 0);
}

#[test]
fn a_fallback_alone_is_enough() {
    let mut world = World::new(22);
    for (i, first) in [3, 4].into_iter().enumerate() {
        world.add(settings(i));
        world.switch_on(i, vec![cak(first), cak(9)]);
    }
    let took = world.secure(&[0, 1], seconds(6));
    assert!(took < ms(500), "{took:?}");
}

#[test]
fn a_wrong_cak_and_a_wrong_ckn_are_named() {
    for (other, words, count) in
        [(named_cak(&[1], 2), "another CAK", [1, 0]), (named_cak(&[2], 1), "another CKN", [0, 1])]
    {
        let mut world = World::new(23);
        world.add(settings(0));
        world.add(settings(1));
        world.switch_on(0, vec![cak(1)]);
        assert_eq!(world.status(0).fault, Some(Fault::Alone));
        world.switch_on(1, vec![other]);
        world.run(seconds(10));
        let fault = world.status(0).fault.expect("there is trouble").to_string();
        assert!(fault.contains(words), "{fault}");
        let counters = world.kay(0).counters();
        assert_eq!([counters.mkpdus_wrong_icv, counters.mkpdus_unknown_ckn].map(|n| n.min(1)), count);
        assert!(world.stations[0].secy.saks.is_empty());
        let changes = world.status(0).changes;
        let told = |reason: &Reason| matches!(reason, Reason::WrongCak { .. } | Reason::OtherCkn { .. });
        assert_eq!(
            changes.iter().filter(|change| told(&change.reason)).count(),
            1,
            "once, not each two seconds"
        );
        world.switch_on(1, vec![cak(1)]);
        world.secure(&[0, 1], seconds(6));
        assert_eq!(world.status(0).fault, None);
    }
}

/// A third box under another CKN does not hide that a member is gone. The member itself under another CKN does.
#[test]
fn a_lost_member_is_named_beside_a_stranger_under_another_ckn() {
    let mut world = group(26, 2, &[1]);
    world.secure(&[0, 1], seconds(6));
    world.add(settings(2));
    world.switch_on(2, vec![cak(3)]);
    world.run(seconds(4));
    assert_eq!(world.status(0).fault, None);
    world.switch_off(1);
    world.run(seconds(20));
    let fault = world.status(0).fault.expect("nobody is live");
    let Fault::Gone { member, ago: Some(ago), other, ckn } = fault else { panic!("{fault}") };
    assert_eq!((member, other, ckn.octets()), (settings(1).sci, settings(2).sci, &[3][..]));
    assert!(ago >= seconds(12) && ago <= seconds(17), "{ago:?}");
    let words = fault.to_string();
    assert!(words.starts_with(&format!("member {member} is gone for {} s: ", ago.as_secs())), "{words}");
    assert!(words.contains(&format!("no member, {other}, speaks under another CKN, 03: ")), "{words}");
    world.switch_off(2);
    world.switch_on(1, vec![named_cak(&[2], 1)]);
    world.run(seconds(10));
    assert_eq!(world.status(0).fault, Some(Fault::OtherCkn));
}

/// A changed CAK does not inherit the observations of the previous one.
#[test]
fn another_cak_has_no_trouble_of_the_one_before() {
    for (other, before) in [(named_cak(&[1], 2), Fault::WrongCak), (named_cak(&[2], 1), Fault::OtherCkn)] {
        let mut world = World::new(24);
        world.add(settings(0));
        world.add(settings(1));
        world.switch_on(0, vec![cak(1)]);
        world.switch_on(1, vec![other]);
        world.run(seconds(4));
        assert_eq!(world.status(0).fault, Some(before));
        // The other one is off, and the CKN changed to a third one, or to that which was heard.
        world.switch_off(1);
        let third = if before == Fault::WrongCak { named_cak(&[3], 3) } else { named_cak(&[2], 1) };
        let settings = world.stations[0].settings.clone();
        world.change(0, settings, vec![third]);
        assert_eq!(world.status(0).fault, Some(Fault::Alone));
    }
}
