//! KaYs that are replaced by others which go on with what they pass on: nobody else sees it.

use std::collections::BTreeSet;
use std::time::Duration;

use mka::{Kay, PASSED_KAY_FORM, PassedKay, PassedKayError, Report};
use serde_json::Value;

use crate::station::{Random, cak, ms, named_cak, seconds, settings};
use crate::storm::storm;
use crate::world::World;

/// A storm in which KaYs are replaced in so many of 100 moments.
fn replaced(seed: u64, percent: u64) -> World {
    storm(seed, |world| {
        world.records = true;
        world.passed = Some(vec![]);
        world.replacing = Some((Random(seed ^ 0x5eed), percent));
    })
}

/// `FRAMEWARD_MKA_STORMS` is another number.
fn seeds(usual: u64) -> u64 {
    std::env::var("FRAMEWARD_MKA_STORMS").ok().map_or(usual, |text| text.parse().expect("a number"))
}

/// In all events, MKPDUs are octet for octet those of KaYs that nobody replaced, and so are their moments.
#[test]
fn nobody_sees_that_a_kay_was_replaced() {
    let mut count = 0;
    for seed in 0..seeds(8) {
        let plain = replaced(seed, 0);
        let world = replaced(seed, [3, 30, 100][seed as usize % 3]);
        let at = plain.recorded.iter().zip(&world.recorded).position(|(one, other)| one != other);
        assert_eq!(at, None, "seed {seed}: another MKPDU");
        assert_eq!((plain.recorded.len(), plain.now), (world.recorded.len(), world.now), "seed {seed}");
        assert_eq!((plain.lost, plain.delivered), (world.lost, world.delivered), "seed {seed}");
        for i in world.all() {
            let (one, other) = (plain.stations[i].kay.as_ref(), world.stations[i].kay.as_ref());
            assert_eq!(one.map(|kay| kay.status(plain.now)), other.map(|kay| kay.status(world.now)));
        }
        assert_eq!(plain.replaced, 0);
        count += world.replaced;
    }
    assert!(count > 5_000, "{count}");
}

/// Two stations that are secured, and what the one with this number passes on.
fn secured(seed: u64, i: usize) -> (World, Value) {
    let mut world = World::group(seed, 2);
    world.secure(&[0, 1], seconds(6));
    world.run(seconds(1));
    let passed = world.kay(i).pass_on().expect("nothing is under way");
    (world, serde_json::to_value(passed).expect("a value"))
}

#[test]
fn another_cak_another_sci_and_garbled_states_are_refused() {
    let (world, passed) = secured(1, 0);
    let go_on = |passed: &Value, settings, caks| {
        let passed: PassedKay = serde_json::from_value(passed.clone()).expect("a state");
        Kay::go_on(world.now, passed, settings, caks, &[1; 32]).err()
    };
    assert_eq!(go_on(&passed, settings(0), vec![cak(1)]), None);
    for caks in
        [vec![], vec![cak(2)], vec![named_cak(&[1], 2)], vec![named_cak(&[2], 1)], vec![cak(1), cak(2)]]
    {
        assert_eq!(go_on(&passed, settings(0), caks), Some(PassedKayError::Caks));
    }
    assert_eq!(go_on(&passed, settings(1), vec![cak(1)]), Some(PassedKayError::Sci));
    let mut garbled = passed.clone();
    garbled["station"]["counters"].as_array_mut().expect("counters").pop();
    assert_eq!(go_on(&garbled, settings(0), vec![cak(1)]), Some(PassedKayError::Garbled));
    let mut crowded = passed.clone();
    let peers = crowded["in_order"][0]["peers"]["known"].as_array_mut().expect("peers");
    (0..40).for_each(|_| peers.push(peers[0].clone()));
    assert_eq!(go_on(&crowded, settings(0), vec![cak(1)]), Some(PassedKayError::Garbled));
}

/// Two CAKs: their order counts, for the first one is preferred.
#[test]
fn caks_in_another_order_are_others() {
    let mut world = World::new(2);
    for i in 0..2 {
        world.add(settings(i));
        world.switch_on(i, vec![cak(1), cak(9)]);
    }
    world.secure(&[0, 1], seconds(6));
    let passed = world.kay(0).pass_on().expect("nothing is under way");
    assert_eq!(passed.check_caks(&[cak(1), cak(9)]), Ok(()));
    assert_eq!(passed.check_caks(&[cak(9), cak(1)]), Err(PassedKayError::Caks));
}

/// No key is in it, neither a CAK nor a SAK, and the SAK can be unwrapped by a KaY that goes on under its CAK alone.
#[test]
fn nothing_that_is_passed_on_is_secret() {
    for i in 0..2 {
        let (mut world, passed) = secured(3, i);
        let (now, ki) = (world.now, world.ki(0));
        let key = world.stations[i].secy.find(ki).expect("installed").key.clone();
        let sak = suite::Sak::new(suite::CipherSuite::GcmAes128, &key).expect("a SAK");
        let wrapped = world.kay(i).wrap_sak(ki, &sak).expect("its CAK is there");
        let text = passed.to_string();
        for secret in [&key[..], &[1; 16]] {
            let octets: Vec<String> = secret[..8].iter().map(u8::to_string).collect();
            let digits: Vec<String> = secret[..8].iter().map(|octet| format!("{octet:02x}")).collect();
            assert!(!text.contains(&octets.join(",")), "a secret is passed on");
            assert!(!text.to_lowercase().contains(&digits.concat()), "a secret is passed on");
        }
        assert_ne!(wrapped[8..], key);
        let passed: PassedKay = serde_json::from_value(passed).expect("a state");
        let next = Kay::go_on(now, passed, settings(i), vec![cak(1)], &[1; 32]).expect("it goes on");
        let unwrapped = |octets: &[u8]| next.unwrap_sak(ki, suite::CipherSuite::GcmAes128, octets);
        assert_eq!(unwrapped(&wrapped).expect("the same KEK").octets(), key);
        let mut altered = wrapped;
        altered[20] ^= 1;
        assert!(unwrapped(&altered).is_none());
    }
}

/// While the SecY installs a SAK, or enables one, its report may be lost with the program: such a KaY is not passed on.
#[test]
fn a_kay_that_waits_for_its_secy_is_not_passed_on() {
    let (mut world, _) = secured(4, 0);
    world.stations[0].secy.delay = ms(50);
    world.deaf.insert((0, 1));
    world.with(0, |kay, now| kay.rekey(now));
    assert!(world.kay(0).pass_on().is_none(), "a SAK is being installed");
    world.run(ms(51));
    assert!(world.kay(0).pass_on().is_some(), "the others do not accept it yet");
    world.deaf.clear();
    let end = world.now + seconds(3);
    let is_enabling = |world: &World| {
        world.stations[0].secy.reports.iter().any(|(_, report)| matches!(report, Report::Transmitting(_)))
    };
    assert!(world.run_until(end, is_enabling));
    assert!(world.kay(0).pass_on().is_none(), "it is being enabled");
    world.run(seconds(1));
    assert!(world.kay(0).pass_on().is_some());
}

/// A program that announces something else goes on as one whose settings change.
#[test]
fn other_settings_are_announced() {
    let (mut world, passed) = secured(5, 0);
    let (now, mut other) = (world.now, settings(0));
    other.announced.largest_sdu = 1510;
    let passed: PassedKay = serde_json::from_value(passed).expect("a state");
    let seed = world.stations[0].given.as_ref().expect("switched on").2;
    let mut next = Kay::go_on(now, passed, other.clone(), vec![cak(1)], &seed).expect("it goes on");
    world.kay(0).change(now, other, vec![cak(1)]);
    let later = now + ms(10);
    let sent = next.poll_transmit(later);
    assert!(sent.is_some());
    assert_eq!(sent, world.kay(0).poll_transmit(later));
    assert_eq!(format!("{next:?}"), format!("{:?}", world.kay(0)));
    assert!(next.status(later).changes.iter().any(|change| change.words == "settings changed"));
}

/// Random values of a new seed, and should it be the one before, none of its values again.
#[test]
fn random_values_never_come_again() {
    let (world, passed) = secured(6, 0);
    let mis = |seed: &[u8; 32]| {
        let passed: PassedKay = serde_json::from_value(passed.clone()).expect("a state");
        let mut next = Kay::go_on(world.now, passed, settings(0), vec![cak(1)], seed).expect("it goes on");
        let before = next.status(world.now).mi;
        // Alone, it gives its SAK up and draws another MI.
        next.handle_timeout(world.now + Duration::from_secs(10));
        [before, next.status(world.now + Duration::from_secs(10)).mi]
    };
    let [before, one] = mis(&[1; 32]);
    let [_, two] = mis(&[2; 32]);
    let [_, again] = mis(&world.stations[0].given.as_ref().expect("switched on").2);
    assert_eq!(BTreeSet::from([before, one, two, again]).len(), 4);
}

/// Names and kinds of all that a state can have, as storms show it. Another form needs another number.
#[test]
fn the_form_is_that_of_its_number() {
    let mut form = BTreeSet::new();
    for seed in 0..40 {
        let world = replaced(seed, 5);
        for text in world.passed.iter().flatten() {
            collect(&serde_json::from_slice(text).expect("JSON"), String::new(), &mut form);
        }
    }
    let now: String = form.into_iter().map(|line| line + "\n").collect();
    let now = format!("form {PASSED_KAY_FORM}\n{now}");
    if std::env::var_os("FRAMEWARD_RENEW_FORM").is_some() {
        std::fs::write(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/passed_kay.form"), &now).expect("a file");
    }
    let known = include_str!("../passed_kay.form");
    assert!(
        now == known,
        "another form: raise PASSED_KAY_FORM, and renew the file with FRAMEWARD_RENEW_FORM=1"
    );
}

fn collect(value: &Value, path: String, form: &mut BTreeSet<String>) {
    let kind = match value {
        Value::Null => return,
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(of) => return of.iter().for_each(|one| collect(one, format!("{path}[]"), form)),
        Value::Object(of) => {
            return of.iter().for_each(|(name, one)| collect(one, format!("{path}.{name}"), form));
        }
    };
    form.insert(format!("{path}: {kind}"));
}
