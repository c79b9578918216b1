//! What the standard does not have, XPN, and strangers.

use std::collections::HashSet;

use mka::{Announced, SuiteFigure, SuiteRule};
use suite::CipherSuite;
use wire::mkpdu::Capability;

use crate::station::{cak, ms, seconds, settings};
use crate::world::World;

/// A station that announces nothing of ours: it lists GCM-AES-128, and no figures.
fn stranger(i: usize) -> mka::Settings {
    let mut settings = settings(i);
    settings.priority = 100;
    settings.capability = Capability::Confidentiality;
    settings.announced = Announced { reassembles: false, splits: false, largest_sdu: 1500, suites: vec![] };
    settings
}

fn divided(world: &World, i: usize) -> bool {
    let secy = &world.stations[i].secy;
    let division = secy.find(secy.transmits.expect("it transmits")).expect("installed").division;
    assert_eq!(division.fragment, division.concatenate);
    division.fragment
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

#[test]
fn a_stranger_switches_the_extensions_off_and_on_again() {
    let mut world = World::group(6, 3);
    world.data_each = Some(ms(2));
    world.secure(&[0, 1, 2], seconds(6));
    assert!((0..3).all(|i| divided(&world, i)));
    let guest = world.add(stranger(3));
    world.switch_on(guest, vec![cak(1)]);
    world.secure(&[0, 1, 2, 3], seconds(6));
    assert!((0..3).all(|i| !divided(&world, i)));
    world.switch_off(guest);
    world.secure(&[0, 1, 2], seconds(9));
    world.run(seconds(1));
    assert!((0..3).all(|i| divided(&world, i)), "it has gone");
    assert_eq!(world.lost, 0);
}

#[test]
fn auto_takes_the_suite_that_is_fastest_for_the_slowest() {
    let figure = |suite, nanoseconds| SuiteFigure { suite, nanoseconds };
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
