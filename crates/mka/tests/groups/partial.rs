//! Members that hear each other only in part: the path between two of a mesh is cut, or there never was one (hub and
//! spoke). Who can protect with each other goes on, without SAK after SAK, and each says who is not heard by whom.

use mka::{Fault, Gap, StationName};
use wire::Sci;

use crate::station::{cak, ms, seconds, settings};
use crate::world::World;

/// Number of SAKs that all have made.
fn saks_made(world: &mut World) -> u64 {
    world.all().into_iter().map(|i| world.kay(i).counters().saks_made).sum()
}

/// Two stations have one SAK in use, and take each other's frames.
fn speak(world: &World, (one, other): (usize, usize)) -> bool {
    let [a, b] = [one, other].map(|i| &world.stations[i].secy);
    let accepts = |to: &crate::secy::SecY, ki, from| {
        to.find(ki).is_some_and(|sas| sas.installed && sas.receive.contains_key(&sci(world, from)))
    };
    a.transmits.is_some_and(|ki| accepts(b, ki, one)) && b.transmits.is_some_and(|ki| accepts(a, ki, other))
}

fn sci(world: &World, i: usize) -> Sci {
    world.stations[i].settings.sci
}

/// All pairs but these are one group for ten minutes: not one SAK more, not one frame lost.
fn goes_on(world: &mut World, pairs: &[(usize, usize)], what: &str) {
    let end = world.now + seconds(60);
    assert!(
        world.run_until(end, |world| pairs.iter().all(|pair| speak(world, *pair))),
        "{what}: who speaks?"
    );
    // Another key server may have to take over, and the SAK before to be retired.
    world.run(seconds(60));
    let (made, lost) = (saks_made(world), world.lost);
    world.run(seconds(600));
    assert!(pairs.iter().all(|pair| speak(world, *pair)), "{what}: who still speaks?");
    assert_eq!(saks_made(world), made, "{what}: SAKs go on being made");
    assert_eq!(world.lost, lost, "{what}");
}

fn are_content(world: &mut World) {
    let all = world.all();
    world.secure(&all, seconds(60));
    let end = world.now + seconds(30);
    assert!(world.run_until(end, |world| all.iter().all(|i| world.status(*i).fault.is_none())));
}

/// Three stations, one of the three paths cut: after they have been secured, or from the start.
#[test]
fn one_cut_path_of_three_stops_no_other() {
    for (seed, cut) in [(60, (0, 2)), (61, (0, 1)), (62, (1, 2))] {
        let hub = 3 - cut.0 - cut.1;
        for late in [true, false] {
            let what = format!("{cut:?} cut, late {late}");
            let mut world = World::group(seed, 3);
            world.data_each = Some(ms(10));
            if late {
                world.secure(&[0, 1, 2], seconds(6));
                world.run(seconds(10));
            }
            world.part(&[cut.0], &[cut.1]);
            goes_on(&mut world, &[(hub, cut.0), (hub, cut.1)], &what);
            assert!(!late || world.lost == 0, "{what}: {} frames lost", world.lost);
            let [a, b] = [cut.0, cut.1].map(|i| sci(&world, i));
            for (i, whom) in [(cut.0, b), (cut.1, a)] {
                let gaps = world.status(i).gaps;
                let [Gap::Here { whom: said, heard_by }] = gaps[..] else { panic!("{what}: {gaps:?}") };
                // A station that was never heard is known by its MI alone.
                assert_eq!(heard_by, sci(&world, hub), "{what}");
                assert!(
                    matches!(said, StationName::Mi(_)) || said == StationName::Sci(whom),
                    "{what}: {said:?}"
                );
                assert!(!late || said == StationName::Sci(whom), "{what}: {said:?}");
                assert_eq!(world.status(i).fault, Some(Fault::Partial(gaps[0])));
            }
            for i in 0..3 {
                assert!(world.status(i).saks[0].fragmentation.fragment, "{what}: {i} fragments no SDUs");
            }
            let gaps = world.status(hub).gaps;
            let [Gap::Between { by, whom }] = gaps[..] else { panic!("{what}: {gaps:?}") };
            assert!([(a, b), (b, a)].contains(&(by, whom)), "{what}: {gaps:?}");
            // The path is there again: the best one is key server again, after a while.
            let lost = world.lost;
            world.cut.clear();
            world.forgive();
            are_content(&mut world);
            world.run(seconds(60));
            are_content(&mut world);
            assert!(world.status(0).is_key_server, "{what}");
            assert_eq!(world.lost, lost, "{what}: healing loses frames");
        }
    }
}

/// Five stations of which one hears all and no two others hear each other, whoever would be the best key server.
#[test]
fn hub_and_spokes_are_one_group() {
    for hub in [0, 2, 4] {
        let mut world = World::new(63);
        for i in 0..5 {
            world.add(settings(i));
        }
        let spokes: Vec<usize> = world.all().into_iter().filter(|i| *i != hub).collect();
        for (n, i) in spokes.iter().enumerate() {
            world.part(&[*i], &spokes[n + 1..]);
        }
        (0..5).for_each(|i| world.switch_on(i, vec![cak(1)]));
        world.data_each = Some(ms(20));
        let pairs: Vec<(usize, usize)> = spokes.iter().map(|spoke| (hub, *spoke)).collect();
        goes_on(&mut world, &pairs, &format!("hub {hub}"));
        assert!(world.status(hub).is_key_server);
        assert_eq!(world.status(hub).gaps.len(), 6, "each pair once");
        // A spoke starts anew, and another one goes and comes.
        world.switch_on(spokes[1], vec![cak(1)]);
        goes_on(&mut world, &pairs, &format!("hub {hub}, a spoke anew"));
        world.switch_on(hub, vec![cak(1)]);
        goes_on(&mut world, &pairs, &format!("hub {hub} anew"));
    }
}

/// A chain of four: nobody hears all. Those who hear one key server are a group, and nobody else makes SAKs for it.
#[test]
fn a_chain_of_four_settles() {
    for late in [true, false] {
        let mut world = World::group(64, 4);
        if late {
            world.secure(&[0, 1, 2, 3], seconds(6));
            world.run(seconds(10));
        }
        world.part(&[0], &[2, 3]);
        world.part(&[1], &[3]);
        // A station outside of the group is owed nothing.
        world.run(seconds(60));
        world.data_each = Some(ms(20));
        world.forgive();
        goes_on(&mut world, &[(0, 1), (1, 2)], &format!("late {late}"));
        assert!(world.status(3).fault.is_some_and(|fault| matches!(fault, Fault::Partial(_))));
        world.cut.clear();
        world.forgive();
        are_content(&mut world);
    }
}

/// A path that comes and goes each few seconds: SAKs are not made with it.
#[test]
fn a_path_that_comes_and_goes_makes_no_saks() {
    let mut world = World::group(65, 3);
    world.secure(&[0, 1, 2], seconds(6));
    world.data_each = Some(ms(10));
    world.run(seconds(10));
    let made = saks_made(&mut world);
    for _ in 0..60 {
        world.deaf.extend([(0, 2), (2, 0)]);
        world.run(seconds(9));
        world.deaf.clear();
        world.run(seconds(5));
    }
    let more = saks_made(&mut world) - made;
    assert!(more <= 60, "{more} SAKs");
    are_content(&mut world);
}
