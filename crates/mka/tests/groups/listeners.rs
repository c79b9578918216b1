//! Members of another make that come to hear each other after they have taken a SAK: they get another one, under which they
//! take each other's frames.

use wire::mkpdu::{Mkpdu, ParameterSet};
use wire::{An, Ki, Mi};

use crate::scripted::{Alone, Scripted};
use crate::station::{ms, seconds, settings};

/// Whether the KaY said with its last MKPDU that the PNs of this SAK run out.
fn asks_to_replace(alone: &Alone, ki: Ki) -> bool {
    let mkpdu = Mkpdu::parse(alone.last_sent()).expect("an MKPDU of ours");
    mkpdu.sets().any(|set| match set {
        ParameterSet::SakUse(used) => {
            let keys = [used.latest, used.old];
            keys.into_iter().flatten().any(|key| key.ki == ki && key.lowest_pn > 0xc000_0000)
        }
        _ => false,
    })
}

/// A member of a group whose key server is the KaY.
fn member(number: u8, mi: u8) -> Scripted {
    let mut member = Scripted::new(number);
    member.basic.mi = Mi([mi; 12]);
    (member.basic.priority, member.basic.key_server) = (200, false);
    member
}

/// It speaks: it hears the KaY and nobody but these, and uses the latest SAK.
fn says(alone: &mut Alone, member: &mut Scripted, hears: &[&[u8]]) {
    let latest = *alone.installed().last().expect("a SAK");
    let last = alone.last_sent().to_vec();
    member.live.clear();
    for frame in hears.iter().copied().chain([&last[..]]) {
        member.hears(frame);
    }
    member.uses(latest, An::ALL[0], true, true);
    alone.hears(&member.mkpdu());
    alone.pass(ms(10));
}

/// A key server with two members, of which the first starts anew and hears the second one at once.
fn one_of_two_starts_anew() -> (Alone, Scripted, Scripted) {
    let (mut alone, mut first, mut second) = (Alone::new(settings(0)), member(1, 1), member(2, 2));
    alone.meets(&mut first);
    alone.meets(&mut second);
    alone.pass(ms(500));
    for _ in 0..2 {
        let (of_first, of_second) = (first.mkpdu(), second.mkpdu());
        says(&mut alone, &mut first, &[&of_second]);
        says(&mut alone, &mut second, &[&of_first]);
        alone.pass(seconds(1));
    }
    let mut first = member(1, 11);
    alone.meets(&mut first);
    alone.pass(seconds(1));
    says(&mut alone, &mut second, &[]);
    let before = alone.installed().len();
    let of_second = second.mkpdu();
    says(&mut alone, &mut first, &[&of_second]);
    alone.pass(ms(200));
    assert_eq!(alone.installed().len(), before + 1, "it hears one that it did not hear");
    (alone, first, second)
}

#[test]
fn who_was_thought_to_hear_a_member_and_does_not_gets_another_sak_when_it_does() {
    let (mut alone, mut first, mut second) = one_of_two_starts_anew();
    let saks = alone.installed().len();
    // wpa_supplicant lists the new MI as potential, since the key server has it live, and takes no MKPDU from it while the MI
    // before is live under the same SCI.
    says(&mut alone, &mut second, &[]);
    alone.pass(seconds(1));
    let (of_first, of_second) = (first.mkpdu(), second.mkpdu());
    says(&mut alone, &mut first, &[&of_second]);
    assert_eq!(alone.installed().len(), saks);
    says(&mut alone, &mut second, &[&of_first]);
    alone.pass(ms(200));
    assert_eq!(
        alone.installed().len(),
        saks + 1,
        "it has met the other one under a SAK that it had taken before"
    );
}

#[test]
fn who_hears_a_member_at_once_keeps_its_sak() {
    let (mut alone, mut first, mut second) = one_of_two_starts_anew();
    let saks = alone.installed().len();
    for _ in 0..3 {
        let (of_first, of_second) = (first.mkpdu(), second.mkpdu());
        says(&mut alone, &mut second, &[&of_first]);
        says(&mut alone, &mut first, &[&of_second]);
        alone.pass(seconds(1));
    }
    assert_eq!(alone.installed().len(), saks);
}

#[test]
fn another_sak_is_asked_for_when_the_key_server_meets_one_that_nobody_knew() {
    // The key server makes its SAK for this station alone; the third one is live for all a moment later, and has the SAK.
    let (mut alone, mut server, mut third) = (Alone::new(settings(0)), Scripted::new(1), member(2, 2));
    alone.meets(&mut server);
    server.hand_out(1, 0, 5);
    alone.hears(&server.mkpdu());
    server.hands_out = None;
    let ki = alone.installed()[0];
    says(&mut alone, &mut server, &[]);
    alone.meets(&mut third);
    let of_server = server.mkpdu();
    says(&mut alone, &mut third, &[&of_server]);
    assert!(!asks_to_replace(&alone, ki));
    let of_third = third.mkpdu();
    says(&mut alone, &mut server, &[&of_third]);
    alone.pass(ms(200));
    assert!(asks_to_replace(&alone, ki), "the key server takes no frame of the third one");
}
