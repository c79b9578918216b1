//! SAKs that follow each other.

use std::time::Duration;

use mka::{Report, SuiteRule};
use suite::CipherSuite;

use crate::station::{cak, ms, seconds, settings};
use crate::world::World;

/// Many rekeys in a row while MKPDUs are lost, duplicated and reordered: not one frame is lost.
#[test]
fn ten_thousand_rekeys_in_a_row() {
    let mut world = World::group(10, 2);
    world.data_each = Some(ms(20));
    world.secure(&[0, 1], seconds(6));
    (world.loss, world.duplication, world.delay) = (10, 5, (100, 20_000));
    let mut last = world.ki(0);
    for round in 0..10_000 {
        world.with(usize::from(round % 3 == 2), |kay, now| kay.rekey(now));
        let end = world.now + seconds(30);
        let done = world.run_until(end, |world| {
            let [a, b] = [0, 1].map(|i| world.stations[i].secy.transmits);
            a == b && a != Some(last)
        });
        assert!(done, "round {round}");
        last = world.ki(0);
    }
    assert_eq!(world.lost, 0);
    let made: u64 = [0, 1].iter().map(|i| world.kay(*i).counters().saks_made).sum();
    assert!((10_000..10_200).contains(&made), "{made}");
}

#[test]
fn a_group_of_eight_rolls_its_keys_without_a_lost_frame() {
    let mut world = World::group(11, 8);
    world.data_each = Some(ms(10));
    let all = world.all();
    world.secure(&all, seconds(6));
    world.delay = (100, 5_000);
    for round in 0..60 {
        let before = world.ki(0);
        world.with(round % 8, |kay, now| kay.rekey(now));
        let end = world.now + seconds(10);
        assert!(world.run_until(end, |world| world.is_secured(&all) && world.ki(0) != before), "{round}");
    }
    assert_eq!(world.lost, 0);
}

#[test]
fn a_sak_that_has_reached_its_age_is_followed_by_another() {
    let mut world = World::new(12);
    for i in 0..3 {
        let mut settings = settings(i);
        settings.sak_lifetime = Some(seconds(60));
        world.add(settings);
        world.switch_on(i, vec![cak(1)]);
    }
    world.data_each = Some(ms(50));
    world.secure(&[0, 1, 2], seconds(6));
    world.run(seconds(1));
    let next = world.status(0).next_rekey.expect("this one is key server");
    assert!(next > world.now + seconds(50) && next <= world.now + seconds(60));
    let made = world.kay(0).counters().saks_made;
    world.run(seconds(605));
    assert_eq!(world.kay(0).counters().saks_made - made, 10);
    assert_eq!(world.lost, 0);
}

/// PNs that run out: of the key server itself, of a member, with 32 bits and with 64.
#[test]
fn pns_that_run_out_bring_another_sak() {
    for (suite, exhaustion) in
        [(CipherSuite::GcmAes128, 0xc000_0000), (CipherSuite::GcmAesXpn256, 0xc000_0000_0000_0000)]
    {
        for who in 0..2 {
            let mut world = World::new(13);
            for i in 0..2 {
                let mut settings = settings(i);
                settings.suite = SuiteRule::Only(suite);
                world.add(settings);
                world.switch_on(i, vec![cak(1)]);
            }
            world.secure(&[0, 1], seconds(12));
            world.data_each = Some(ms(10));
            world.run(seconds(20));
            let before = world.ki(0);
            let spend = |world: &mut World, pn: u64| {
                let secy = &mut world.stations[who].secy;
                secy.saks.iter_mut().filter(|sas| sas.ki == before).for_each(|sas| sas.next_pn = pn);
            };
            spend(&mut world, exhaustion - 10_000);
            world.run(seconds(10));
            assert_eq!(world.ki(0), before, "not yet");
            spend(&mut world, exhaustion);
            let end = world.now + seconds(8);
            assert!(
                world.run_until(end, |world| world.ki(0) != before && world.is_secured(&[0, 1])),
                "{suite} {who}"
            );
            world.run(seconds(30));
            assert_ne!(world.ki(0), before);
            let made = world.kay(0).counters().saks_made;
            assert_eq!(made, 2, "one rekey is enough");
            assert_eq!(world.lost, 0);
        }
    }
}

/// ANs go round, so a SAK is out of use before its AN is taken again; AN 0 is left to others.
#[test]
fn ans_go_round() {
    let mut world = World::group(14, 2);
    world.secure(&[0, 1], seconds(6));
    let mut ans = vec![];
    for _ in 0..9 {
        let ki = world.ki(1);
        ans.push(world.stations[1].secy.find(ki).expect("installed").an.number());
        world.run(seconds(5));
        world.with(0, |kay, now| kay.rekey(now));
        world.run(seconds(5));
    }
    assert_eq!(ans, [1, 2, 3, 1, 2, 3, 1, 2, 3]);
    assert_eq!(world.stations[1].secy.saks.len(), 1);
}

/// Whoever has had a SAK long enough under his old AN keeps what was in flight.
#[test]
fn the_sak_before_is_accepted_for_three_seconds() {
    let mut world = World::group(15, 2);
    world.secure(&[0, 1], seconds(6));
    world.run(seconds(20));
    let before = world.ki(0);
    world.with(0, |kay, now| kay.rekey(now));
    let end = world.now + seconds(1);
    assert!(world.run_until(end, |world| world.is_secured(&[0, 1]) && world.ki(0) != before));
    let changed = world.now;
    let end = world.now + seconds(10);
    assert!(world.run_until(end, |world| world.stations[1].secy.find(before).is_none()));
    let took = world.now.since(changed);
    assert!(took >= ms(2990) && took < ms(3100), "{took:?}");
}

/// The MKPDUs that report the key server's change are lost for seconds: the member continues with the
/// previous SAK, which is not retired meanwhile.
#[test]
fn a_sak_is_accepted_as_long_as_a_peer_sends_under_it() {
    let mut world = World::group(17, 2);
    world.data_each = Some(ms(5));
    world.secure(&[0, 1], seconds(6));
    world.run(seconds(10));
    let before = world.ki(0);
    world.with(0, |kay, now| kay.rekey(now));
    world.run(ms(2));
    world.deaf.insert((0, 1));
    world.run(ms(4500));
    assert_ne!(world.ki(0), before);
    assert_eq!(world.ki(1), before);
    world.deaf.clear();
    world.secure(&[0, 1], seconds(3));
    assert_eq!(world.lost, 0);
}

/// Rekeys are asked for faster than a slow SecY installs SAKs: each takes effect before the next one comes.
#[test]
fn a_slow_secy_is_waited_for() {
    let mut world = World::group(18, 3);
    world.stations[2].secy.delay = ms(300);
    world.data_each = Some(ms(5));
    world.secure(&[0, 1, 2], seconds(6));
    world.run(seconds(10));
    for _ in 0..60 {
        world.with(0, |kay, now| kay.rekey(now));
        world.run(ms(50));
    }
    world.secure(&[0, 1, 2], seconds(6));
    assert!(world.kay(0).counters().saks_made > 4);
    assert_eq!(world.lost, 0);
}

/// A SecY that says twice what it did, or speaks of a SAK that is gone, confuses nobody.
#[test]
fn reports_that_come_late_or_twice_are_nothing() {
    let mut world = World::group(16, 2);
    world.secure(&[0, 1], seconds(6));
    let old = world.ki(0);
    world.with(0, |kay, now| kay.rekey(now));
    world.run(seconds(20));
    for ki in [old, world.ki(0)] {
        for report in [Report::Installed(ki), Report::Transmitting(ki), Report::NextPn { ki, next_pn: 1 }] {
            world.with(0, |kay, now| kay.handle_report(now, report));
        }
    }
    world.run(Duration::from_secs(10));
    assert!(world.is_secured(&[0, 1]));
    assert_eq!(world.kay(0).counters().saks_made, 2);
}
