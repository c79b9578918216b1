//! Extensions of the standard, XPN, and strangers.

use std::collections::HashSet;

use mka::{Announced, SuiteRule, SuiteTiming};
use proptest::prelude::*;
use suite::CipherSuite;
use wire::mkpdu::Capability;

use crate::station::{cak, ms, seconds, settings};
use crate::world::World;

/// A station that announces nothing of ours: it lists GCM-AES-128, and no figures.
fn stranger(i: usize) -> mka::Settings {
    let mut settings = settings(i);
    settings.priority = 100;
    settings.capability = Capability::Confidentiality;
    settings.announced = Announced {
        reassembles: false,
        splits: false,
        express: false,
        takes_padded: false,
        largest_sdu: 1500,
        suites: vec![],
        ..settings.announced
    };
    settings
}

fn fragmented(world: &World, i: usize) -> bool {
    let secy = &world.stations[i].secy;
    let fragmentation = secy.find(secy.transmits.expect("it transmits")).expect("installed").fragmentation;
    assert_eq!(fragmentation.fragment, fragmentation.concatenate);
    assert_eq!(fragmentation.fragment, fragmentation.pad);
    let announces_express = world.stations[i].settings.announced.express;
    assert_eq!(fragmentation.fragment && announces_express, fragmentation.express);
    fragmentation.fragment
}

#[test]
fn with_xpn_everybody_has_his_ssci_by_descending_sci() {
    for suite in [CipherSuite::GcmAesXpn128, CipherSuite::GcmAesXpn256] {
        let mut world = World::new(5);
        for i in 0..4 {
            let mut settings = settings(i);
            settings.suite = SuiteRule::Only(suite);
            world.add(settings);
            world.switch_on(i, vec![cak(1)]);
        }
        let all = world.all();
        world.secure(&all, seconds(12));
        world.run(seconds(5));
        let ki = world.ki(0);
        let mut salts = HashSet::new();
        for (i, station) in world.stations.iter().enumerate() {
            let sas = station.secy.find(ki).unwrap();
            assert_eq!(sas.suite, suite);
            let (salt, own) = sas.xpn.unwrap();
            salts.insert(salt.0);
            assert_eq!(own.0, 4 - i as u32);
            for (j, other) in world.stations.iter().enumerate().filter(|(j, _)| *j != i) {
                assert_eq!(sas.sscis[&other.settings.sci].unwrap().0, 4 - j as u32);
            }
        }
        assert_eq!(salts.len(), 1);
    }
}

/// A member that missed an XPN SAK hears of it with a list of members that has grown: it must not count SSCIs by that.
#[test]
fn with_xpn_a_newcomer_in_between_confuses_nobody() {
    let mut world = World::new(9);
    for i in 0..4 {
        let mut settings = settings(i);
        settings.suite = SuiteRule::Only(CipherSuite::GcmAesXpn128);
        world.add(settings);
    }
    // The newcomer's SCI is between the others'.
    for i in [0, 1, 3] {
        world.switch_on(i, vec![cak(1)]);
    }
    world.data_each = Some(ms(5));
    world.secure(&[0, 1, 3], seconds(12));
    world.run(seconds(5));
    world.deaf.insert((0, 1));
    world.with(0, |kay, now| kay.rekey(now));
    world.run(ms(30));
    world.switch_on(2, vec![cak(1)]);
    world.run(ms(50));
    world.deaf.clear();
    let all = world.all();
    world.secure(&all, seconds(9));
    world.run(seconds(5));
    assert_eq!(world.lost, 0);
}

/// The same if the list has become shorter.
#[test]
fn with_xpn_a_member_that_leaves_in_between_confuses_nobody() {
    let mut world = World::new(10);
    for i in 0..4 {
        let mut settings = settings(i);
        settings.suite = SuiteRule::Only(CipherSuite::GcmAesXpn128);
        world.add(settings);
        world.switch_on(i, vec![cak(1)]);
    }
    let all = world.all();
    world.secure(&all, seconds(12));
    world.run(seconds(5));
    world.switch_off(3);
    let three = world.stations[3].settings.sci;
    let has_three = |world: &World| world.status(0).members.iter().any(|member| member.sci == three);
    let end = world.now + seconds(7);
    // Just before it is found out: a SAK that one member misses.
    while has_three(&world) {
        assert!(world.now < end);
        let rest = world
            .status(0)
            .members
            .iter()
            .map(|member| (member.sci, world.now.since(member.heard)))
            .collect::<Vec<_>>();
        let (_, unheard) = rest.iter().find(|(sci, _)| *sci == three).expect("it is there");
        if *unheard > ms(5800) && world.deaf.is_empty() {
            world.deaf.insert((0, 1));
            world.with(0, |kay, now| kay.rekey(now));
        }
        world.run(ms(10));
    }
    assert!(!world.deaf.is_empty());
    world.deaf.clear();
    world.run(seconds(3));
    world.secure(&[0, 1, 2], seconds(6));
}

/// One of our suites is configured: who does not have it is left out, and the others go on as if he were not there.
#[test]
fn a_configured_suite_of_ours_leaves_strangers_out() {
    let only = |mut settings: mka::Settings| {
        settings.suite = SuiteRule::Only(CipherSuite::Aegis128L);
        settings
    };
    let mut world = World::new(19);
    for i in 0..3 {
        world.add(only(settings(i)));
    }
    let guest = world.add(stranger(3));
    for i in [0, 1, guest] {
        world.switch_on(i, vec![cak(1)]);
    }
    world.data_each = Some(ms(5));
    let both = |world: &World| {
        world.stations[0].secy.transmits.is_some_and(|ki| world.stations[1].secy.transmits == Some(ki))
    };
    let end = world.now + seconds(6);
    assert!(world.run_until(end, both));
    world.run(seconds(20));
    let status = world.status(0);
    assert!(status.fault.expect("there is trouble").to_string().contains("left out"));
    assert!(world.status(guest).fault.is_some());
    assert!(world.stations[guest].secy.saks.is_empty());
    // Keys roll, and a station that has the suite joins.
    let before = world.ki(0);
    world.with(1, |kay, now| kay.rekey(now));
    world.run(seconds(5));
    assert_ne!(world.ki(0), before);
    world.switch_on(2, vec![cak(1)]);
    world.run(seconds(5));
    assert_eq!(world.stations[2].secy.transmits, world.stations[0].secy.transmits);
    assert_eq!(world.lost, 0);
}

/// Settings are changed while everything runs.
#[test]
fn another_suite_is_configured_without_a_lost_frame() {
    let mut world = World::group(20, 3);
    world.data_each = Some(ms(5));
    let all = world.all();
    world.secure(&all, seconds(6));
    for suite in [CipherSuite::GcmAes256, CipherSuite::GcmAesXpn256, CipherSuite::GcmAes128] {
        for i in all.iter().rev() {
            // Members first, that take any; then all keep to the one.
            let mut settings = world.stations[*i].settings.clone();
            settings.announced.suites.push(SuiteTiming { suite, nanoseconds: 1 });
            world.stations[*i].settings = settings.clone();
            world.change(*i, settings, vec![cak(1)]);
        }
        let end = world.now + seconds(10);
        let is_so = |world: &World| {
            world.is_secured(&all)
                && world.stations[2].secy.find(world.ki(2)).expect("installed").suite == suite
        };
        for i in 0..3 {
            let mut settings = world.stations[i].settings.clone();
            settings.announced.suites.retain(|figure| figure.suite == suite);
            world.stations[i].settings = settings.clone();
            world.change(i, settings, vec![cak(1)]);
        }
        assert!(world.run_until(end, is_so), "{suite}");
    }
    assert_eq!(world.lost, 0);
}

#[test]
fn a_stranger_switches_the_extensions_off_and_on_again() {
    let mut world = World::group(6, 3);
    world.data_each = Some(ms(2));
    world.secure(&[0, 1, 2], seconds(6));
    assert!((0..3).all(|i| fragmented(&world, i)));
    let guest = world.add(stranger(3));
    world.switch_on(guest, vec![cak(1)]);
    world.secure(&[0, 1, 2, 3], seconds(6));
    assert!((0..3).all(|i| !fragmented(&world, i)));
    world.switch_off(guest);
    world.secure(&[0, 1, 2], seconds(9));
    world.run(seconds(1));
    assert!((0..3).all(|i| fragmented(&world, i)), "it has gone");
    assert_eq!(world.lost, 0);
}

/// Each peer takes two receive SCs then, and a SecY has 32: a larger group has no express SCs.
#[test]
fn a_group_of_more_than_17_has_no_express_scs() {
    let mut world = World::group(8, 17);
    let express = |world: &World, i: usize| {
        let secy = &world.stations[i].secy;
        secy.find(secy.transmits.expect("it transmits")).expect("installed").fragmentation.express
    };
    let all = world.all();
    world.secure(&all, seconds(20));
    world.run(seconds(5));
    assert!((0..17).all(|i| express(&world, i)));
    let last = world.add(settings(17));
    world.switch_on(last, vec![cak(1)]);
    let all = world.all();
    world.secure(&all, seconds(20));
    world.run(seconds(5));
    assert!((0..18).all(|i| !express(&world, i)));
}

#[test]
fn auto_takes_the_suite_that_is_fastest_for_the_slowest() {
    let figure = |suite, nanoseconds| SuiteTiming { suite, nanoseconds };
    let mut world = World::new(7);
    for (i, (gcm, chacha, aegis)) in
        [(100, 300, Some(50)), (900, 400, Some(60)), (90, 350, None)].iter().enumerate()
    {
        let mut settings = settings(i);
        settings.announced.suites =
            vec![figure(CipherSuite::GcmAes128, *gcm), figure(CipherSuite::ChaCha20Poly1305, *chacha)];
        settings.announced.suites.extend(aegis.map(|ns| figure(CipherSuite::Aegis128L, ns)));
        settings.announced.suites.push(figure(CipherSuite::Morus640, 1));
        world.add(settings);
    }
    let suite = |world: &World| world.stations[0].secy.find(world.ki(0)).unwrap().suite;
    for i in 0..2 {
        world.switch_on(i, vec![cak(1)]);
    }
    world.secure(&[0, 1], seconds(6));
    assert_eq!(suite(&world), CipherSuite::Aegis128L, "never MORUS by itself");
    world.switch_on(2, vec![cak(1)]);
    world.secure(&[0, 1, 2], seconds(6));
    assert_eq!(suite(&world), CipherSuite::ChaCha20Poly1305);
    let guest = world.add(stranger(3));
    world.switch_on(guest, vec![cak(1)]);
    world.secure(&[0, 1, 2, 3], seconds(6));
    assert_eq!(suite(&world), CipherSuite::GcmAes128);
}

#[test]
fn only_suites_of_the_standard_are_agreed_on_unless_any_is_allowed() {
    let figure = |suite, nanoseconds| SuiteTiming { suite, nanoseconds };
    let announced = [CipherSuite::GcmAes128, CipherSuite::GcmAes256, CipherSuite::GcmAesXpn128];
    let suites = announced.map(|suite| figure(suite, 100));
    // The fastest by far is ours; the second box, which has the 256-bit suite, would take it.
    for (wanted, second, expected) in [
        (CipherSuite::GcmAes256, SuiteRule::Standard(CipherSuite::GcmAes256), CipherSuite::GcmAes256),
        (CipherSuite::GcmAes128, SuiteRule::Standard(CipherSuite::GcmAes256), CipherSuite::GcmAes128),
        (CipherSuite::GcmAes256, SuiteRule::Any, CipherSuite::GcmAes256),
        (CipherSuite::GcmAes256, SuiteRule::Only(CipherSuite::GcmAes128), CipherSuite::GcmAes128),
    ] {
        for server in [0, 1] {
            let mut world = World::new(11);
            for (i, rule) in [SuiteRule::Standard(wanted), second].into_iter().enumerate() {
                let mut settings = settings(i);
                settings.suite = rule;
                settings.priority = if i == server { 1 } else { 200 };
                settings.announced.suites = suites.to_vec();
                settings.announced.suites.push(figure(CipherSuite::Aegis128L, 1));
                world.add(settings);
                world.switch_on(i, vec![cak(1)]);
            }
            world.secure(&[0, 1], seconds(9));
            let suite = world.stations[0].secy.find(world.ki(0)).unwrap().suite;
            assert!(suite.is_standard(), "{wanted} {second:?} server {server}: {suite}");
            if server == 0 {
                assert_eq!(suite, expected, "{wanted} {second:?}");
            }
            assert_eq!(world.lost, 0);
        }
    }
}

/// Whether a station pads its frames: it wants to, and its SAK permits it.
fn padded(world: &World, i: usize) -> bool {
    let station = &world.stations[i];
    let sas = station.secy.find(station.secy.transmits.expect("it transmits")).expect("installed");
    station.settings.pad && sas.fragmentation.pad
}

/// Somebody keeps a newcomer's MKPDUs from one member until the key server has made a SAK for all. What is not padded under it shows
/// lengths: with the newcomer heard there is another SAK, if this member pads.
#[test]
fn a_member_that_pads_does_not_stay_unpadded_for_one_that_was_unheard() {
    for pads in [true, false] {
        let mut world = World::new(90);
        for i in 0..3 {
            let mut settings = settings(i);
            settings.pad = pads;
            world.add(settings);
        }
        [0, 1].into_iter().for_each(|i| world.switch_on(i, vec![cak(1)]));
        world.data_each = Some(ms(10));
        world.secure(&[0, 1], seconds(6));
        world.run(seconds(2));
        assert!(world.status(0).is_key_server && (0..2).all(|i| padded(&world, i) == pads));
        let before = world.ki(1);
        world.deaf.insert((2, 1));
        world.switch_on(2, vec![cak(1)]);
        let new = |world: &World| world.status(1).saks.into_iter().find(|sak| sak.ki != before);
        let end = world.now + seconds(6);
        assert!(world.run_until(end, |world| new(world).is_some()));
        let unheard = new(&world).expect("it is installed");
        assert!(!unheard.fragmentation.pad, "it does not know whether the newcomer takes such frames");
        world.deaf.clear();
        world.run(seconds(5));
        world.secure(&[0, 1, 2], seconds(6));
        assert_eq!((padded(&world, 1), world.ki(1) != unheard.ki), (pads, pads));
        let (ki, lost) = (world.ki(1), world.lost);
        world.run(seconds(60));
        assert_eq!((world.ki(1), world.lost), (ki, lost), "one SAK is enough");
    }
}

/// A station begins to pad by other settings. What it announces is as before, so nobody makes another SAK: the one that is there permits it.
#[test]
fn a_station_that_begins_to_pad_does_so_under_the_sak_that_is_there() {
    for i in 0..2 {
        let mut world = World::new(92);
        for station in 0..2 {
            let mut settings = settings(station);
            settings.pad = false;
            world.add(settings);
            world.switch_on(station, vec![cak(1)]);
        }
        world.data_each = Some(ms(10));
        world.secure(&[0, 1], seconds(6));
        world.run(seconds(2));
        let ki = world.ki(0);
        assert!(!padded(&world, i));
        let mut pads = world.stations[i].settings.clone();
        pads.pad = true;
        world.stations[i].settings = pads.clone();
        world.change(i, pads, vec![cak(1)]);
        assert!(padded(&world, i) && !padded(&world, 1 - i), "station {i}");
        world.run(seconds(5));
        assert_eq!((world.ki(0), world.lost), (ki, 0), "station {i}");
    }
}

/// A member that pads, and neither splits nor joins frames itself, needs a peer that takes padded frames in user space.
#[test]
fn a_member_that_pads_takes_its_peer_out_of_the_kernel() {
    for server in [0, 1] {
        let mut world = World::new(91);
        let mut pads = without_programs(in_kernel(0, CHACHA));
        let announced = &mut pads.announced;
        (announced.reassembles, announced.splits, announced.carries_whole) = (false, false, false);
        (pads.fragment, pads.concatenate) = (false, false);
        let mut peer = in_kernel(1, CHACHA);
        peer.pad = false;
        for (i, mut settings) in [pads, peer].into_iter().enumerate() {
            settings.priority = if i == server { 1 } else { 200 };
            world.add(settings);
            world.switch_on(i, vec![cak(1)]);
        }
        world.secure(&[0, 1], seconds(6));
        world.run(seconds(5));
        assert_eq!((padded(&world, 0), padded(&world, 1), whole(&world, 1)), (true, false, false));
    }
}

/// A station with programs in the kernel for ChaCha20-Poly1305. Its network carries SDUs whole.
fn in_kernel(i: usize, suite: SuiteRule) -> mka::Settings {
    let mut settings = settings(i);
    settings.suite = suite;
    settings.announced.suites.push(SuiteTiming { suite: CipherSuite::ChaCha20Poly1305, nanoseconds: 300 });
    (settings.announced.carries_whole, settings.announced.in_kernel) = (true, true);
    settings.announced.express = false;
    settings
}

/// The same station without programs.
fn without_programs(mut settings: mka::Settings) -> mka::Settings {
    settings.announced.in_kernel = false;
    settings
}

const CHACHA: SuiteRule = SuiteRule::Only(CipherSuite::ChaCha20Poly1305);

fn whole(world: &World, i: usize) -> bool {
    let secy = &world.stations[i].secy;
    secy.find(secy.transmits.expect("it transmits")).expect("installed").whole
}

/// Programs take whole SDUs alone: nobody sends them others, from the first SAK on.
#[test]
fn for_programs_in_the_kernel_sdus_stay_whole() {
    for server in [0, 1] {
        let mut world = World::new(40);
        // The other one fragments where it may.
        for (i, mut settings) in
            [in_kernel(0, CHACHA), without_programs(in_kernel(1, CHACHA))].into_iter().enumerate()
        {
            settings.priority = if i == server { 1 } else { 200 };
            world.add(settings);
            world.switch_on(i, vec![cak(1)]);
        }
        world.secure(&[0, 1], seconds(6));
        world.run(seconds(5));
        assert!(whole(&world, 0) && !fragmented(&world, 0) && !fragmented(&world, 1));
        assert!(!whole(&world, 1), "it takes others");
        assert_eq!(world.ki(0).kn, 1, "the first SAK was that");
    }
}

/// A member whose network does not carry whole SDUs needs fragments: all understand them until it has left.
#[test]
fn a_member_that_needs_fragments_gets_them_until_it_leaves() {
    for needy_first in [false, true] {
        let mut world = World::new(41);
        world.add(in_kernel(0, CHACHA));
        world.add(in_kernel(1, CHACHA));
        let mut needy = without_programs(in_kernel(2, CHACHA));
        needy.announced.carries_whole = false;
        world.add(needy);
        world.data_each = Some(ms(5));
        let first: &[usize] = if needy_first { &[0, 2] } else { &[0, 1] };
        first.iter().for_each(|i| world.switch_on(*i, vec![cak(1)]));
        world.secure(first, seconds(6));
        world.run(seconds(1));
        assert_eq!(whole(&world, 0), !needy_first);
        world.switch_on(if needy_first { 1 } else { 2 }, vec![cak(1)]);
        world.secure(&[0, 1, 2], seconds(6));
        world.run(seconds(1));
        assert!((0..3).all(|i| fragmented(&world, i) && !whole(&world, i)));
        world.switch_off(2);
        world.secure(&[0, 1], seconds(9));
        world.run(seconds(2));
        assert!((0..2).all(|i| !fragmented(&world, i) && whole(&world, i)), "it has gone");
        assert_eq!(world.lost, 0);
    }
}

/// Programs that come and go, as when a port takes none any more, with an MKPDU lost on the way to a third member.
#[test]
fn a_member_that_misses_an_announcement_sends_no_fragments_for_long() {
    for server in [0, 1, 2] {
        let mut world = World::new(42);
        for i in 0..3 {
            let mut settings = without_programs(in_kernel(i, CHACHA));
            settings.priority = if i == server { 1 } else { 200 };
            world.add(settings);
            world.switch_on(i, vec![cak(1)]);
        }
        world.data_each = Some(ms(5));
        world.secure(&[0, 1, 2], seconds(6));
        world.run(seconds(1));
        assert!((0..3).all(|i| fragmented(&world, i)));
        world.deaf.insert((0, 2));
        let mut with_programs = world.stations[0].settings.clone();
        with_programs.announced.in_kernel = true;
        world.change(0, with_programs, vec![cak(1)]);
        world.run(ms(500));
        world.deaf.clear();
        world.run(seconds(6));
        assert!(whole(&world, 0), "server {server}");
        assert!((0..3).all(|i| !fragmented(&world, i)), "server {server}");
        assert_eq!(world.lost, 0);
    }
}

#[test]
fn any_takes_the_suite_of_the_programs_if_all_have_some() {
    let mut world = World::new(43);
    let mut second = in_kernel(1, SuiteRule::Any);
    for settings in [in_kernel(0, SuiteRule::Any), second.clone()] {
        world.add(settings);
    }
    world.data_each = Some(ms(5));
    (0..2).for_each(|i| world.switch_on(i, vec![cak(1)]));
    world.secure(&[0, 1], seconds(6));
    world.run(seconds(1));
    let suite = |world: &World| world.stations[0].secy.find(world.ki(0)).unwrap().suite;
    assert_eq!(suite(&world), CipherSuite::ChaCha20Poly1305, "the other one is faster in user space");
    assert!((0..2).all(|i| whole(&world, i)));
    // One has none any more: as without them, with fragments.
    second.announced.in_kernel = false;
    world.change(1, second, vec![cak(1)]);
    world.run(seconds(5));
    world.secure(&[0, 1], seconds(6));
    assert_eq!(suite(&world), CipherSuite::GcmAes128);
    assert!((0..2).all(|i| fragmented(&world, i)));
    assert_eq!(world.lost, 0);
    // Nobody chooses a suite that a member does not have, whatever it says of programs.
    let mut third = in_kernel(2, SuiteRule::Any);
    third.announced.suites.pop();
    let mut world = World::new(44);
    for (i, settings) in [in_kernel(0, SuiteRule::Any), third].into_iter().enumerate() {
        world.add(settings);
        world.switch_on(i, vec![cak(1)]);
    }
    world.secure(&[0, 1], seconds(6));
    assert_eq!(suite(&world), CipherSuite::GcmAes128);
}

/// Sets whether a station's network carries whole SDUs: only then its programs can take them.
fn set_mtu(world: &mut World, i: usize, carries_whole: bool) {
    let mut settings = world.stations[i].settings.clone();
    (settings.announced.carries_whole, settings.announced.in_kernel) = (carries_whole, carries_whole);
    world.stations[i].settings = settings.clone();
    world.change(i, settings, vec![cak(1)]);
}

/// A group of stations with programs, of which one is key server.
fn group_in_kernel(seed: u64, stations: usize, server: usize) -> World {
    let mut world = World::new(seed);
    for i in 0..stations {
        let mut settings = in_kernel(i, CHACHA);
        settings.priority = if i == server { 1 } else { 200 };
        world.add(settings);
        world.switch_on(i, vec![cak(1)]);
    }
    world.data_each = Some(ms(5));
    let all = world.all();
    world.secure(&all, seconds(6));
    world.run(seconds(1));
    world
}

fn saks_made(world: &mut World) -> u64 {
    world.all().into_iter().map(|i| world.kay(i).counters().saks_made).sum()
}

/// One whose network carries whole SDUs again, with MKPDUs lost on the way to or from another one: nobody stays in user space.
#[test]
fn a_member_that_comes_back_to_whole_frames_brings_all_back() {
    for stations in [3, 4, 5] {
        for (server, needy, deaf) in
            [(0, 1, (1, 2)), (0, 1, (2, 1)), (0, 0, (0, 2)), (2, 0, (2, 0)), (2, 0, (0, 1))]
        {
            let mut world = group_in_kernel(45, stations, server);
            let all = world.all();
            assert!(all.iter().all(|i| whole(&world, *i)));
            set_mtu(&mut world, needy, false);
            world.run(seconds(8));
            assert!(all.iter().all(|i| !whole(&world, *i)), "{stations} {server} {needy}");
            let before = saks_made(&mut world);
            world.deaf.insert(deaf);
            set_mtu(&mut world, needy, true);
            world.run(ms(1500));
            world.deaf.clear();
            world.run(seconds(8));
            let left: Vec<_> = all.iter().filter(|i| !whole(&world, **i)).collect();
            assert!(left.is_empty(), "{stations} {server} {needy} {deaf:?}: {left:?} stay in user space");
            let made = saks_made(&mut world) - before;
            assert!(made <= 3, "{stations} {server} {needy} {deaf:?}: {made} SAKs");
            world.run(seconds(60));
            assert_eq!(saks_made(&mut world) - before, made, "it is quiet then");
            assert_eq!(world.lost, 0);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 1 } else { 24 }))]

    /// However an MTU flaps, and whatever is lost meanwhile: each change brings a few SAKs at most, and all are whole at the end.
    #[test]
    fn an_mtu_that_flaps_makes_a_bounded_number_of_saks(
        seed in 100_u64..10_000,
        stations in 3_usize..6,
        server in 0_usize..3,
        loss in 0_u64..30,
        flaps in prop::collection::vec((0_usize..3, any::<bool>(), 10_u64..9_000), 1..20),
    ) {
        let mut world = group_in_kernel(seed, stations, server);
        let before = saks_made(&mut world);
        world.loss = loss;
        let mut changes = 0;
        for (needy, carries, wait) in flaps {
            changes += u64::from(world.stations[needy].settings.announced.carries_whole != carries);
            set_mtu(&mut world, needy, carries);
            world.run(ms(wait));
        }
        world.loss = 0;
        for needy in 0..3 {
            changes += u64::from(!world.stations[needy].settings.announced.carries_whole);
            set_mtu(&mut world, needy, true);
        }
        world.run(seconds(20));
        prop_assert!(world.all().into_iter().all(|i| whole(&world, i)));
        let made = saks_made(&mut world) - before;
        prop_assert!(made <= 3 * changes + 2, "{made} SAKs by {changes} changes");
        world.run(seconds(60));
        prop_assert_eq!(saks_made(&mut world) - before, made, "it is quiet then");
    }
}
