//! What stations call themselves: for people, and nothing else depends on it.

use mka::{Announced, Reason};
use wire::Sci;
use wire::mkpdu::SystemName;

use crate::scripted::{Alone, Scripted};
use crate::station::{cak, ms, seconds, settings};
use crate::world::World;

fn name(text: &str) -> Option<SystemName> {
    Some(SystemName::new(text.as_bytes()).expect("a name"))
}

fn named(i: usize, text: &str) -> mka::Settings {
    let own = settings(i);
    mka::Settings { announced: Announced { name: name(text), ..own.announced }, ..own }
}

/// What a KaY calls the station with this SCI, by its members and in words.
fn seen(alone: &Alone, sci: Sci) -> (Option<String>, String) {
    let status = alone.kay.status(alone.now);
    let member = status.members.iter().find(|member| member.sci == sci).expect("a member");
    (member.name.map(|name| name.to_string()), status.names.beside(sci).to_string())
}

/// A KaY with a live member of this name.
fn alone_with(octets: &[u8]) -> (Alone, Scripted) {
    let (mut alone, mut member) = (Alone::new(settings(0)), Scripted::new(9));
    member.name = Some(octets.to_vec());
    alone.meets(&mut member);
    (alone, member)
}

/// The member says something else, and has heard the KaY's last MKPDU.
fn renames(alone: &mut Alone, member: &mut Scripted, octets: Option<&[u8]>) {
    member.name = octets.map(<[u8]>::to_vec);
    member.hears(alone.last_sent());
    alone.hears(&member.mkpdu());
    alone.pass(ms(10));
}

#[test]
fn stations_hear_each_others_names_and_a_change_costs_no_sak() {
    let mut world = World::new(3);
    for (i, text) in ["press-a", "Süd 2", "press-a"].into_iter().enumerate() {
        world.add(named(i, text));
        world.switch_on(i, vec![cak(1)]);
    }
    let all = world.all();
    world.secure(&all, seconds(12));
    world.run(seconds(3));
    let called = |world: &World, i: usize, of: usize| world.status(i).names.of(settings(of).sci).copied();
    for i in 0..3 {
        for (of, text) in ["press-a", "Süd 2", "press-a"].into_iter().enumerate().filter(|(of, _)| *of != i)
        {
            assert_eq!(called(&world, i, of), name(text), "{i} of {of}");
        }
    }
    let ki = world.ki(0);
    world.with(0, |kay, now| kay.change(now, named(0, "press-x"), vec![cak(1)]));
    world.run(seconds(1));
    assert_eq!([1, 2].map(|i| called(&world, i, 0)), [name("press-x"); 2], "the change is announced at once");
    world.with(1, |kay, now| kay.change(now, settings(1), vec![cak(1)]));
    world.run(seconds(10));
    assert_eq!(
        [0, 2].map(|i| called(&world, i, 1)),
        [None; 2],
        "a name that is not announced any more is forgotten"
    );
    assert_eq!([0, 1, 2].map(|i| world.ki(i)), [ki; 3], "no other SAK");
    let said = world.status(1).changes;
    let renamed = Reason::Renamed { sci: settings(0).sci, before: name("press-a").expect("one") };
    assert_eq!(said.iter().filter(|(_, reason)| *reason == renamed).count(), 1);
    let words: Vec<_> =
        said.iter().map(|(_, reason)| world.status(1).names.within(reason).to_string()).collect();
    assert!(
        words.iter().any(|line| line == "member 02:00:00:00:00:01/1 \"press-x\" has another name: it was \"press-a\""),
        "{words:?}"
    );
}

#[test]
fn a_name_stands_beside_its_sci_in_whatever_is_told() {
    let (mut alone, member) = alone_with(b"press-b");
    let sci = member.basic.sci;
    assert_eq!(seen(&alone, sci), (Some("press-b".into()), format!("{sci} \"press-b\"")));
    alone.pass(seconds(7));
    let names = alone.kay.names();
    let notices = alone.events.iter().filter_map(|event| match event {
        mka::Event::Notice(reason) => Some(names.within(reason).to_string()),
        _ => None,
    });
    let notices: Vec<_> = notices.collect();
    for words in ["is live", "is key server", "is gone: 6 s without an MKPDU that lists us"] {
        let line = notices.iter().find(|line| line.contains(words)).expect(words);
        assert!(line.contains(&format!("{sci} \"press-b\"")), "{line}");
    }
}

/// Whoever has the CAK can say anything. What is no name is discarded and counted, and the member stays what it is.
#[test]
fn what_is_no_name_is_discarded_and_counted() {
    let rows: [(&[u8], [u64; 3]); 7] = [
        (b"", [1, 0, 0]),
        (&[b'n'; 64], [1, 0, 0]),
        (b"press\xff", [0, 1, 0]),
        (b"\x1b[2J\x1b[H", [0, 0, 1]),
        (b"a\nkey agreement: secured", [0, 0, 1]),
        ("\u{202e}a".as_bytes(), [0, 0, 1]),
        (b"x\" is key server, 02:00:00:00:00:01/1 \"", [0, 0, 1]),
    ];
    for (octets, counted) in rows {
        let (mut alone, mut member) = alone_with(b"press-b");
        renames(&mut alone, &mut member, Some(octets));
        let counters = alone.kay.counters();
        let seen_counters =
            [counters.names_bad_length, counters.names_bad_encoding, counters.names_not_printable];
        assert_eq!(seen_counters, counted, "{octets:?}");
        let sci = member.basic.sci;
        assert_eq!(seen(&alone, sci), (None, sci.to_string()), "{octets:?}: nor does it keep the one before");
        assert_eq!(counters.mkpdus_malformed, 0, "the MKPDU counts");
        assert!(alone.kay.status(alone.now).members[0].live);
    }
}

#[test]
fn a_name_under_another_cak_is_none() {
    let (mut alone, mut member) = alone_with(b"press-b");
    let sci = member.basic.sci;
    member.cak = cak(2).cak;
    renames(&mut alone, &mut member, Some(b"mallory"));
    assert_eq!(alone.kay.counters().mkpdus_wrong_icv, 1);
    assert_eq!(seen(&alone, sci), (Some("press-b".into()), format!("{sci} \"press-b\"")));
}

/// The recording of a station that had the SCI under another MI, and another name.
#[test]
fn a_recorded_mkpdu_renames_nobody() {
    let (mut alone, member) = alone_with(b"press-b");
    let sci = member.basic.sci;
    let mut recorded = Scripted::new(8);
    recorded.basic.sci = sci;
    recorded.name = Some(b"last-year".to_vec());
    alone.hears(&recorded.mkpdu());
    let status = alone.kay.status(alone.now);
    assert_eq!(status.names.beside(sci).to_string(), format!("{sci} \"press-b\""));
    let potential = status.members.iter().find(|member| !member.live).expect("heard");
    assert_eq!(potential.name, name("last-year"), "its own line says what it said");
    assert_eq!(alone.told("another name"), 0);
}

#[test]
fn a_member_that_changes_its_name_all_the_time_fills_no_log() {
    let (mut alone, mut member) = alone_with(b"press-b");
    for i in 0..100 {
        alone.pass(ms(300));
        renames(&mut alone, &mut member, Some(format!("name-{i}").as_bytes()));
    }
    let told = alone.told("has another name");
    assert!((5..=6).contains(&told), "one in 6 s of 31: {told}");
    assert_eq!(seen(&alone, member.basic.sci).0.as_deref(), Some("name-99"));
}

/// The names of a flood of SCIs push out those that are not heard, and nothing grows.
#[test]
fn names_of_many_scis_are_bounded() {
    let mut alone = Alone::new(settings(0));
    let mut scis = Vec::new();
    for round in 0..5 {
        for number in 1..=30 {
            let mut member = Scripted::new(30 * round + number);
            member.name = Some(format!("flood-{round}-{number}").into_bytes());
            scis.push(member.basic.sci);
            alone.meets(&mut member);
        }
        alone.pass(seconds(7));
    }
    let names = alone.kay.names();
    let known: Vec<_> = scis.iter().map(|sci| names.of(*sci).is_some()).collect();
    assert_eq!(known, [vec![false; 150 - 64], vec![true; 64]].concat());
}

#[test]
fn the_longest_name_of_the_largest_group_fits_an_mkpdu() {
    let mut own = named(0, &"n".repeat(63));
    let every = suite::CipherSuite::ALL.map(|suite| mka::SuiteTiming { suite, nanoseconds: 100 });
    own.announced.suites = every.to_vec();
    let mut alone = Alone::new(own);
    for number in 1..=32 {
        alone.meets(&mut Scripted::new(number));
    }
    for number in 33..=64 {
        alone.hears(&Scripted::new(number).mkpdu());
    }
    alone.pass(seconds(1));
    let longest = alone.sent.iter().map(|frame| frame.len()).max().expect("it has spoken");
    assert!((1300..=1514).contains(&longest), "{longest}");
}
