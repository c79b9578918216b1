//! Names that stations announce: for people, and nothing else depends on them.

use mka::{Announced, Reason};
use wire::Sci;
use wire::mkpdu::{Mkpdu, ParameterSet, SystemName, Tlv};

use crate::scripted::{Alone, Scripted};
use crate::station::{cak, ms, named_cak, seconds, settings};
use crate::world::World;

fn name(text: &str) -> Option<SystemName> {
    Some(SystemName::new(text.as_bytes()).expect("a name"))
}

fn named(i: usize, text: &str) -> mka::Settings {
    let own = settings(i);
    mka::Settings { announced: Announced { name: name(text), ..own.announced }, ..own }
}

/// Returns the name that a KaY has for the station with this SCI: of the member, and in words.
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
    for (i, text) in ["press-a", "Nord 2", "press-a"].into_iter().enumerate() {
        world.add(named(i, text));
        world.switch_on(i, vec![cak(1)]);
    }
    let all = world.all();
    world.secure(&all, seconds(12));
    world.run(seconds(3));
    let called = |world: &World, i: usize, of: usize| world.status(i).names.of(settings(of).sci).copied();
    for i in 0..3 {
        for (of, text) in ["press-a", "Nord 2", "press-a"].into_iter().enumerate().filter(|(of, _)| *of != i)
        {
            assert_eq!(called(&world, i, of), name(text), "{i} of {of}");
        }
    }
    let ki = world.ki(0);
    world.change(0, named(0, "press-x"), vec![cak(1)]);
    world.run(seconds(1));
    assert_eq!([1, 2].map(|i| called(&world, i, 0)), [name("press-x"); 2], "the change is announced at once");
    world.change(1, settings(1), vec![cak(1)]);
    world.run(seconds(10));
    assert_eq!(
        [0, 2].map(|i| called(&world, i, 1)),
        [None; 2],
        "a name that is not announced any more is forgotten"
    );
    assert_eq!([0, 1, 2].map(|i| world.ki(i)), [ki; 3], "no other SAK");
    let said = world.status(1).changes;
    let [before, now] = ["press-a", "press-x"].map(|text| name(text).expect("one"));
    let renamed = Reason::Renamed { sci: settings(0).sci, before, now };
    assert_eq!(said.iter().filter(|change| change.reason == renamed).count(), 1);
    let words: Vec<_> = said.into_iter().map(|change| change.words).collect();
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
    let rows: [(&[u8], [u64; 2]); 8] = [
        (b"", [1, 0]),
        (&[b'n'; 64], [1, 0]),
        (b"press\xff", [0, 1]),
        (b"\x1b[2J\x1b[H", [0, 1]),
        (b"a\nkey agreement: secured", [0, 1]),
        ("\u{202e}a".as_bytes(), [0, 1]),
        ("x” is key server".as_bytes(), [0, 1]),
        (b"x\" is key server, 02:00:00:00:00:01/1 \"", [0, 1]),
    ];
    for (octets, counted) in rows {
        let (mut alone, mut member) = alone_with(b"press-b");
        renames(&mut alone, &mut member, Some(octets));
        let counters = alone.kay.counters();
        let seen_counters = [counters.names_bad_length, counters.names_not_printable];
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

/// Nor does one that has none in between, or a bad one.
#[test]
fn no_name_in_between_makes_no_line_sooner() {
    for between in [None, Some(&b"a\"b"[..]), Some(&b""[..])] {
        let (mut alone, mut member) = alone_with(b"press-b");
        for _ in 0..33 {
            for name in [Some(&b"a"[..]), Some(&b"b"[..]), between] {
                alone.pass(ms(300));
                renames(&mut alone, &mut member, name);
            }
        }
        let told = alone.told("has another name");
        assert!((5..=6).contains(&told), "one in 6 s of 31 after {between:?}: {told}");
        assert_eq!(seen(&alone, member.basic.sci).0, None);
    }
}

/// The list of changes keeps the names that stations had then.
#[test]
fn what_was_told_keeps_its_names() {
    let (mut alone, mut member) = alone_with(b"a");
    for octets in [b"b", b"a"] {
        alone.pass(ms(2000));
        for _ in 0..3 {
            renames(&mut alone, &mut member, Some(octets));
            alone.pass(ms(2000));
        }
    }
    let sci = member.basic.sci;
    let told: Vec<_> = alone.kay.status(alone.now).changes.into_iter().map(|change| change.words).collect();
    for line in [
        format!("member {sci} \"a\" is live"),
        format!("member {sci} \"b\" has another name: it was \"a\""),
        format!("member {sci} \"a\" has another name: it was \"b\""),
    ] {
        assert!(told.contains(&line), "{line}: {told:?}");
    }
}

/// A station with the fallback CAK alone renames nobody that is live under the preferred one.
#[test]
fn a_holder_of_the_fallback_renames_no_member_that_is_present() {
    let fallback = 9;
    let mut alone = Alone::with(settings(0), vec![cak(1), cak(fallback)]);
    let (mut member, mut thief) = (Scripted::new(9), Scripted::under(8, cak(fallback)));
    member.name = Some(b"press-b".to_vec());
    thief.name = Some(b"mallory".to_vec());
    thief.basic.sci = member.basic.sci;
    alone.meets(&mut member);
    for _ in 0..10 {
        alone.hears(&thief.mkpdu());
        alone.pass(ms(2000));
        alone.sent.clone().iter().for_each(|frame| {
            let basic = Mkpdu::parse(frame).expect("ours").basic;
            if basic.ckn == thief.ckn { thief.hears(frame) } else { member.hears(frame) }
        });
        alone.hears(&thief.mkpdu());
        alone.hears(&member.mkpdu());
        let beside = alone.kay.names().beside(member.basic.sci).to_string();
        assert_eq!(beside, format!("{} \"press-b\"", member.basic.sci));
    }
    assert_eq!(alone.told("another name"), 0);
    assert!(!alone.kay.status(alone.now).strangers.is_empty() || !thief.live.is_empty(), "it is heard");
    // Once the member is gone, its SCI is the thief's: SECURITY.md says so.
    for _ in 0..5 {
        alone.pass(ms(2000));
        let frame =
            alone.sent.iter().rev().find(|frame| Mkpdu::parse(frame).expect("ours").basic.ckn == thief.ckn);
        thief.hears(&frame.expect("it speaks under both").clone());
        alone.hears(&thief.mkpdu());
    }
    assert_eq!(alone.kay.names().of(member.basic.sci).map(|name| name.as_str()), Some("mallory"));
}

/// A member that began anew: late MKPDUs of its MI before do not bring its old name back.
#[test]
fn a_withheld_mkpdu_of_an_earlier_mi_renames_nobody() {
    let (mut alone, mut member) = alone_with(b"press-b");
    let mut before = Scripted::new(8);
    before.basic.sci = member.basic.sci;
    before.name = Some(b"before".to_vec());
    before.hears(alone.last_sent());
    let withheld = before.mkpdu();
    alone.pass(ms(2000));
    renames(&mut alone, &mut member, Some(b"press-b"));
    alone.hears(&withheld);
    let sci = member.basic.sci;
    assert_eq!(alone.kay.names().beside(sci).to_string(), format!("{sci} \"press-b\""));
    assert_eq!(alone.told("another name"), 0);
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

/// Every part as long as it can be: the CKN, both lists, a SAK of 32 octets that is in use and handed out, its XPN, all suites, the name.
#[test]
fn the_longest_name_of_the_largest_group_fits_an_mkpdu() {
    let mut own = named(0, &"n".repeat(63));
    let every = suite::CipherSuite::ALL.map(|suite| mka::SuiteTiming { suite, nanoseconds: 100 });
    own.announced.suites = every.to_vec();
    own.priority = 0;
    let name = own.announced.name.expect("one");
    let group = || named_cak(&[b'c'; 32], 1);
    let member = |number| {
        let mut member = Scripted::under(number, group());
        (member.basic.priority, member.basic.key_server) = (255, false);
        member.suite = Some(suite::CipherSuite::GcmAesXpn256);
        member
    };
    let mut alone = Alone::with(own, vec![group()]);
    let mut members: Vec<_> = (1..=32).map(member).collect();
    members.iter_mut().for_each(|member| alone.meets(member));
    let potential: Vec<_> = (33..=64).map(member).collect();
    potential.into_iter().for_each(|mut member| alone.hears(&member.mkpdu()));
    alone.pass(seconds(1));
    alone.kay.rekey(alone.now);
    alone.pass(seconds(1));
    let longest = alone.sent.iter().max_by_key(|frame| frame.len()).expect("it has spoken");
    assert_eq!(longest.len(), 1466);
    let mkpdu = Mkpdu::parse(longest).expect("ours");
    let tlvs = mkpdu.sets().find_map(|set| match set {
        ParameterSet::Announcement(tlvs) => Some(tlvs),
        _ => None,
    });
    let last = tlvs.expect("one").iter().last();
    assert_eq!(last, Some(Tlv::Name(name.as_str().as_bytes())));
    let has = |wanted: fn(&ParameterSet<'_>) -> bool| mkpdu.sets().any(|set| wanted(&set));
    assert!(has(|set| matches!(set, ParameterSet::SakUse(_))));
    assert!(has(|set| matches!(set, ParameterSet::DistributedSak(Some(sak)) if sak.wrapped.len() == 40)));
    assert!(has(|set| matches!(set, ParameterSet::Xpn { .. })));
}
