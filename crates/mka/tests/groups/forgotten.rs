//! Key servers of another make that hand no SAK out, to a member that has one from before them.

use wire::mkpdu::{Mkpdu, ParameterSet, SakUse};
use wire::{An, Ki, Mi};

use crate::scripted::{Alone, Scripted};
use crate::station::{ms, seconds, settings};

/// The SAK that the key server protects with.
const ITS_SAK: Ki = Ki { server: Mi([1; 12]), kn: 4 };

/// SAK Use of the KaY's last MKPDU.
fn sak_use(alone: &Alone) -> SakUse {
    let mkpdu = Mkpdu::parse(alone.last_sent()).expect("an MKPDU of ours");
    let used = mkpdu.sets().find_map(|set| match set {
        ParameterSet::SakUse(used) => Some(used),
        _ => None,
    });
    used.expect("it uses a SAK")
}

/// A KaY that has made a SAK for a member, and then a better key server of another make.
fn with_a_sak_of_its_own() -> (Alone, Scripted, Scripted) {
    let (mut alone, mut member) = (Alone::new(settings(0)), Scripted::new(2));
    (member.basic.priority, member.basic.key_server) = (200, false);
    alone.meets(&mut member);
    alone.pass(ms(500));
    let own = *alone.installed().last().expect("a SAK");
    member.uses(own, An::ALL[0], true, true);
    alone.hears(&member.mkpdu());
    alone.pass(seconds(1));
    let mut server = Scripted::new(1);
    alone.meets(&mut server);
    (alone, member, server)
}

/// All say something once a second, for so many seconds.
fn go_on<const COUNT: usize>(alone: &mut Alone, members: [&mut Scripted; COUNT], seconds_: u64) {
    let mut members = members;
    for _ in 0..seconds_ {
        for member in &mut members {
            member.live.clear();
            member.hears(alone.last_sent());
            alone.hears(&member.mkpdu());
        }
        alone.pass(seconds(1));
    }
}

/// wpa_supplicant looks at the latest key if it is received with, else at the old one, and acts if that is its own.
#[test]
fn who_has_another_sak_asks_a_key_server_that_keeps_its_own_to_itself() {
    let (mut alone, mut member, mut server) = with_a_sak_of_its_own();
    server.uses(ITS_SAK, An::ALL[3], true, true);
    go_on(&mut alone, [&mut member, &mut server], 2);
    assert_ne!(sak_use(&alone).old.map(|key| key.ki), Some(ITS_SAK), "it may still come");
    go_on(&mut alone, [&mut member, &mut server], 4);
    let SakUse { latest, old, delay_protect, .. } = sak_use(&alone);
    assert_eq!((latest, delay_protect), (None, false));
    let asked = old.expect("the key server's");
    assert_eq!((asked.ki, asked.an, asked.tx, asked.rx), (ITS_SAK, An::ALL[3], false, false));
    assert!(asked.lowest_pn > 0xc000_0000, "{asked:?}");
    // Then it comes, and there is nothing more to ask for.
    server.hand_out(5, 0, 7);
    go_on(&mut alone, [&mut member, &mut server], 2);
    assert_eq!(alone.installed().last(), Some(&Ki { kn: 5, ..ITS_SAK }));
    let SakUse { latest, old, .. } = sak_use(&alone);
    assert!([latest, old].into_iter().flatten().all(|key| key.ki != ITS_SAK));
    assert_eq!(alone.told("begins anew"), 0);
}

/// A key server without any SAK acts on no SAK Use: only a new member is a reason for one.
#[test]
fn who_has_another_sak_begins_anew_with_a_key_server_that_makes_none() {
    let (mut alone, mut member, mut server) = with_a_sak_of_its_own();
    let mi = alone.kay.status(alone.now).mi;
    go_on(&mut alone, [&mut member, &mut server], 13);
    assert_eq!(alone.kay.status(alone.now).mi, mi);
    go_on(&mut alone, [&mut member, &mut server], 4);
    assert_ne!(alone.kay.status(alone.now).mi, mi);
}

/// The delay between two restarts doubles, also if the key server was away meanwhile.
#[test]
fn who_begins_anew_waits_longer_for_a_key_server_that_was_silent_meanwhile() {
    let (mut alone, mut member, mut server) = with_a_sak_of_its_own();
    go_on(&mut alone, [&mut member, &mut server], 17);
    let mi = alone.kay.status(alone.now).mi;
    go_on(&mut alone, [&mut member], 8);
    let status = alone.kay.status(alone.now);
    assert!(!status.members.iter().any(|other| other.mi == server.basic.mi && other.live), "it has expired");
    go_on(&mut alone, [&mut member, &mut server], 27);
    let status = alone.kay.status(alone.now);
    assert!(status.members.iter().any(|other| other.mi == server.basic.mi && other.live), "it is back");
    assert_eq!(status.mi, mi);
    go_on(&mut alone, [&mut member, &mut server], 6);
    assert_ne!(alone.kay.status(alone.now).mi, mi);
}
