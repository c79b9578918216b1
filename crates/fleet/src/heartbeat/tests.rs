use proptest::prelude::*;

use super::*;

const NOW: u64 = 1_800_000_000;

fn name(text: &str) -> GatewayName {
    GatewayName::new(text).unwrap()
}

fn identity(seed: u8) -> Identity {
    Identity::new(&[seed; 32])
}

fn heartbeat(counter: u64) -> Heartbeat {
    Heartbeat {
        fleet: PublicKey([1; 32]),
        gateway: name("press"),
        member: identity(7).public(),
        counter,
        time: NOW,
        in_use: Some(17),
        outcome: Outcome::Confirmed,
        why: String::new(),
        unused: None,
        parts: None,
    }
}

fn verified(octets: &[u8], seen: Option<&Heartbeat>) -> Result<Heartbeat, HeartbeatRefusal> {
    let press = name("press");
    let known = Known { fleet: PublicKey([1; 32]), gateway: &press, member: identity(7).public() };
    Heartbeat::verify(octets, known, seen, NOW)
}

#[test]
fn a_heartbeat_is_of_one_gateway_and_newer_than_all_that_were_seen() {
    let of = |change: &dyn Fn(&mut Heartbeat)| {
        let mut changed = heartbeat(9);
        change(&mut changed);
        changed
    };
    let signed = |heartbeat: &Heartbeat| heartbeat.sign(&identity(7));
    let (seen, same) = (heartbeat(9), heartbeat(9));
    assert_eq!(verified(&signed(&same), None), Ok(same.clone()));
    assert_eq!(verified(&signed(&same), Some(&seen)), Ok(same), "the very same is no news, and no lie");
    assert_eq!(verified(&signed(&heartbeat(10)), Some(&seen)), Ok(heartbeat(10)));
    // A box that was replaced counts for itself.
    let replaced = of(&|other| (other.member, other.counter) = (identity(8).public(), 1000));
    assert_eq!(verified(&signed(&heartbeat(1)), Some(&replaced)), Ok(heartbeat(1)));
    let others = [
        (signed(&heartbeat(8)), HeartbeatRefusal::Older { counter: 8, seen: 9 }),
        (signed(&of(&|other| other.time -= 1)), HeartbeatRefusal::SameCounter { counter: 9 }),
        (
            signed(&of(&|other| other.fleet = PublicKey([2; 32]))),
            HeartbeatRefusal::OtherFleet { fleet: PublicKey([2; 32]) },
        ),
        (
            signed(&of(&|other| other.gateway = name("crane"))),
            HeartbeatRefusal::OtherGateway { gateway: name("crane") },
        ),
        (
            of(&|other| other.member = identity(8).public()).sign(&identity(8)),
            HeartbeatRefusal::OtherIdentity { member: identity(8).public() },
        ),
        (heartbeat(10).sign(&identity(8)), HeartbeatRefusal::NotSigned),
        (
            signed(&of(&|other| (other.counter, other.time) = (10, NOW + 601))),
            HeartbeatRefusal::Ahead(Span(601)),
        ),
        (b"garbage".to_vec(), HeartbeatRefusal::Malformed),
        (Vec::new(), HeartbeatRefusal::Malformed),
        (vec![0x82; HEARTBEAT_OCTETS + 1], HeartbeatRefusal::Malformed),
    ];
    for (octets, refusal) in others {
        assert_eq!(verified(&octets, Some(&seen)), Err(refusal));
    }
}

#[test]
fn what_makes_no_sense_is_no_heartbeat() {
    let malformed = |change: &dyn Fn(&mut Heartbeat)| {
        let mut changed = heartbeat(9);
        change(&mut changed);
        assert_eq!(
            Heartbeat::parse(&changed.sign(&identity(7))),
            Err(HeartbeatRefusal::Malformed),
            "{changed:?}"
        );
    };
    malformed(&|it| it.counter = 0);
    malformed(&|it| it.in_use = None);
    malformed(&|it| it.unused = Some(18));
    malformed(&|it| (it.outcome, it.unused) = (Outcome::Refused, Some(0)));
    // A reason goes to a terminal.
    let told =
        Heartbeat {
            why: format!("\u{1b}[2J{}", "ü".repeat(500)), outcome: Outcome::Refused, ..heartbeat(9)
        };
    let octets = told.sign(&identity(7));
    let read = Heartbeat::parse(&octets).unwrap();
    assert!(read.why.starts_with(" [2Jü") && read.why.len() <= REASON_OCTETS, "{read:?}");
    assert!(octets.len() <= HEARTBEAT_OCTETS);
    // Longer names, counters and times fit too.
    let longest = Heartbeat {
        gateway: name(&"a".repeat(32)),
        counter: u64::MAX,
        time: u64::MAX,
        in_use: Some(u64::MAX),
        why: "x".repeat(REASON_OCTETS),
        ..heartbeat(1)
    };
    let octets = longest.sign(&identity(7));
    assert_eq!(Heartbeat::parse(&octets), Ok(longest));
    // A control character that was signed so is refused.
    let body = Heartbeat { why: "x".to_owned(), ..heartbeat(9) }.body();
    let at = body.len() - 1;
    let mut bell = body;
    bell[at] = 7;
    let octets = signed(&bell, &identity(7).sign(SIGNED, &bell));
    assert_eq!(Heartbeat::parse(&octets), Err(HeartbeatRefusal::Malformed));
}

proptest! {
    /// Whatever is changed in a heartbeat, it is refused, and no counter that was seen comes again.
    #[test]
    fn what_was_changed_is_refused(at in any::<prop::sample::Index>(), flip in 1_u8.., cut in 0..3_usize) {
        let valid = heartbeat(9).sign(&identity(7));
        let mut octets = valid.clone();
        octets.truncate(valid.len() - cut);
        let at = at.index(octets.len());
        octets[at] ^= flip;
        prop_assert!(verified(&octets, None).is_err());
    }

    /// Of heartbeats in any order, those that are believed have ever greater counters, or are the same once more.
    #[test]
    fn counters_rise(counters in proptest::collection::vec(1_u64..20, 1..40)) {
        let mut seen: Option<Heartbeat> = None;
        for counter in counters {
            let believed = verified(&heartbeat(counter).sign(&identity(7)), seen.as_ref());
            prop_assert_eq!(believed.is_ok(), seen.as_ref().is_none_or(|seen| counter >= seen.counter));
            seen = believed.ok().or(seen);
        }
    }
}

fn part(kind: PartKind, name: &str, level: PartLevel, state: &str) -> Part {
    Part { kind, name: name.to_owned(), level, state: state.to_owned(), peers: None }
}

fn told_so(parts: Parts) -> Heartbeat {
    Heartbeat { parts: Some(parts), ..heartbeat(9) }
}

#[test]
fn the_worst_parts_are_told_and_the_others_counted() {
    use PartKind::{Cell, Link, Site};
    use PartLevel::{Alarm, Attention, Good};
    let rows = [
        (vec![], vec![], 0),
        (
            vec![
                part(Link, "a", Good, "protecting"),
                part(Site, "b", Alarm, "cut"),
                part(Cell, "c", Alarm, "no session"),
            ],
            vec![
                part(Site, "b", Alarm, "cut"),
                part(Cell, "c", Alarm, "no session"),
                part(Link, "a", Good, "protecting"),
            ],
            0,
        ),
        // Words that break a rule reach neither a terminal nor a page.
        (
            vec![
                part(Link, "A b", Alarm, "cut"),
                part(Link, "a", Alarm, "\u{1b}[2J"),
                part(Link, "b", Alarm, ""),
                part(Link, "c", Alarm, &"x".repeat(25)),
                part(Link, "d", Attention, "one way"),
            ],
            vec![part(Link, "d", Attention, "one way")],
            4,
        ),
    ];
    for (all, told, left_out) in rows {
        let parts = Parts::new(all);
        assert_eq!((parts.told(), parts.left_out()), (told.as_slice(), left_out));
        let beat = told_so(parts);
        assert_eq!(verified(&beat.sign(&identity(7)), None), Ok(beat));
    }
    // As many as there can be, with the longest names, beside the longest reason.
    let secured: Vec<String> = (0..100).map(|number| format!("{number:s>32}")).collect();
    let peers =
        Peers::new(secured.iter().map(|name| Some(name.as_str())), secured.iter().map(String::as_str));
    let long = |at: usize, level| Part {
        peers: Some(peers.clone()),
        ..part(Cell, &format!("{at:0>32}"), level, &"x".repeat(24))
    };
    let good = (0..100).map(|at| long(at, Good));
    let parts = Parts::new(good.chain([long(100, Attention)]).collect());
    assert_eq!((parts.told().len(), parts.left_out()), (MOST_PARTS, 37));
    // The worst part has its names first: those that are absent, and then the others.
    let [first, next] = [0, 1].map(|at| parts.told()[at].peers.as_ref().unwrap());
    assert_eq!((parts.told()[0].level, parts.told()[0].name.ends_with("0100")), (Attention, true));
    assert_eq!((first.absent().len(), first.secured().len(), first.others()), (100, 28, 72));
    assert_eq!((next.absent().len(), next.secured().len(), next.others()), (0, 0, 200));
    let longest = Heartbeat {
        gateway: name(&"a".repeat(32)),
        counter: u64::MAX,
        time: u64::MAX,
        in_use: Some(u64::MAX),
        why: "x".repeat(REASON_OCTETS),
        ..told_so(parts)
    };
    let octets = longest.sign(&identity(7));
    assert!(octets.len() <= HEARTBEAT_OCTETS, "{} octets", octets.len());
    assert_eq!(Heartbeat::parse(&octets), Ok(longest));
}

/// The signature does not matter: the order, the number and the words of parts are those that [`Parts::new`] makes.
#[test]
fn parts_that_break_a_rule_are_malformed() {
    use PartKind::Link;
    use PartLevel::{Alarm, Good};
    let of = |parts: Vec<Part>| {
        let beat = told_so(Parts::unchecked(parts));
        Heartbeat::parse(&beat.sign(&identity(7))).map(drop)
    };
    assert_eq!(of(vec![part(Link, "a", Alarm, "cut"), part(Link, "b", Good, "protecting")]), Ok(()));
    let bad = [
        vec![part(Link, "a", Good, "protecting"), part(Link, "b", Alarm, "cut")],
        vec![part(Link, "<img onerror=x>", Alarm, "cut")],
        vec![part(Link, "a", Alarm, "\u{7}")],
        vec![part(Link, "a", Alarm, "")],
        vec![part(Link, "a", Alarm, &"x".repeat(25))],
        vec![part(Link, "a", Alarm, "cut"); MOST_PARTS + 1],
    ];
    for parts in bad {
        assert_eq!(of(parts.clone()), Err(HeartbeatRefusal::Malformed), "{parts:?}");
    }
    // The number of a later release's kind or level; a format without its keys.
    let body = told_so(Parts::new(vec![part(Link, "a", Alarm, "cut")])).body();
    let at = body.windows(2).rposition(|two| two == b"\x61a").unwrap();
    for (at, octet) in [(at - 1, 3), (at + 2, 4), (2, 1), (2, 3)] {
        let mut other = body.clone();
        other[at] = octet;
        let octets = signed(&other, &identity(7).sign(SIGNED, &other));
        assert_eq!(Heartbeat::parse(&octets), Err(HeartbeatRefusal::Malformed), "octet {at} is {octet}");
    }
}

const ANY_NAME: &str = "[a-z0-9][a-z0-9_-]{0,33}|.{0,5}";

fn any_part() -> impl Strategy<Value = Part> {
    let (kinds, levels) = (0..3_usize, 0..4_usize);
    let names = || proptest::collection::vec(ANY_NAME, 0..8);
    let peers = proptest::option::of((names(), names()).prop_map(|(secured, absent)| {
        Peers::new(secured.iter().map(|name| Some(name.as_str())), absent.iter().map(String::as_str))
    }));
    (kinds, ANY_NAME, levels, ".{0,26}", peers).prop_map(|(kind, name, level, state, peers)| Part {
        peers,
        ..part(PartKind::ALL[kind], &name, PartLevel::ALL[level], &state)
    })
}

proptest! {
    /// A heartbeat with any parts is believed, says the worst of them, and leaves none out uncounted.
    #[test]
    fn whatever_parts_there_are_the_heartbeat_is_believed(all in proptest::collection::vec(any_part(), 0..90)) {
        let count = all.len() as u64;
        let beat = told_so(Parts::new(all));
        let octets = beat.sign(&identity(7));
        prop_assert!(octets.len() <= HEARTBEAT_OCTETS);
        let read = verified(&octets, None);
        prop_assert_eq!(read.as_ref(), Ok(&beat));
        let parts = read.unwrap().parts.unwrap();
        prop_assert_eq!(parts.told().len() as u64 + parts.left_out(), count);
        prop_assert!(parts.told().is_sorted_by(|one, next| one.level >= next.level));
        let peers = parts.told().iter().filter_map(|part| part.peers.as_ref());
        prop_assert!(peers.map(|peers| peers.secured().len() + peers.absent().len()).sum::<usize>() <= MOST_PEERS);
    }
}

/// Names that live peers say, and those that are missed; which are told as secured and as absent, and how many others.
type Row<'r> = (&'r [Option<&'r str>], &'r [&'r str], &'r [&'r str], &'r [&'r str], u64);

#[test]
fn peers_are_names_of_a_fleet_in_their_order_and_the_others_are_counted() {
    let rows: [Row<'_>; 4] = [
        (&[], &[], &[], &[], 0),
        (&[Some("saw"), Some("crane"), Some("saw")], &["press", "a"], &["crane", "saw"], &["a", "press"], 0),
        // A station that says no name, or one that no gateway can have, may be any.
        (&[None, Some("Halle 3"), Some("\u{1b}[2J"), Some("saw")], &["<img>"], &["saw"], &[], 3),
        (&[Some(""), Some("x-------------------------------x")], &[], &[], &[], 2),
    ];
    for (said, missed, secured, absent, others) in rows {
        let peers = Peers::new(said.iter().copied(), missed.iter().copied());
        assert_eq!(
            (peers.secured(), peers.absent(), peers.others()),
            (strings(secured).as_slice(), strings(absent).as_slice(), others)
        );
        let beat = told_so(Parts::new(vec![Part {
            peers: Some(peers),
            ..part(PartKind::Link, "a", PartLevel::Good, "protecting")
        }]));
        assert_eq!(verified(&beat.sign(&identity(7)), None), Ok(beat));
    }
}

fn strings(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

#[test]
fn peers_that_break_a_rule_are_malformed() {
    let named = |secured: &[&str]| {
        let peers = Peers::new(secured.iter().copied().map(Some), []);
        let told = Part { peers: Some(peers), ..part(PartKind::Link, "line", PartLevel::Good, "protecting") };
        told_so(Parts::new(vec![told])).body()
    };
    let is_read = |body: &[u8]| Heartbeat::parse(&signed(body, &identity(7).sign(SIGNED, body))).is_ok();
    let body = named(&["aa", "ab"]);
    assert!(is_read(&body));
    let at = |what: &[u8]| body.windows(what.len()).rposition(|seen| seen == what).unwrap();
    let (first, second) = (at(b"\x62aa"), at(b"\x62ab"));
    // Twice the same; not in their order; no name of a fleet; one more than there are; as of format 2; as of a later release.
    for (at, octet) in
        [(second + 2, b'a'), (first + 2, b'z'), (first + 1, b'A'), (first - 1, 0x83), (2, 2), (2, 4)]
    {
        let mut other = body.clone();
        other[at] = octet;
        assert!(!is_read(&other), "octet {at} is {octet}");
    }
    // Format 3 of a heartbeat in which no part has peers.
    let mut none = told_so(Parts::new(vec![part(PartKind::Link, "a", PartLevel::Good, "protecting")])).body();
    assert!(is_read(&none));
    none[2] = 3;
    assert!(!is_read(&none));
}

/// The corpus of the fuzzers has one that is signed, since none can guess a signature.
#[test]
fn the_fuzzers_corpus_has_a_heartbeat_of_this_format() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/corpus/fleet_record/heartbeat");
    let expected = [&[8], heartbeat(9).sign(&identity(7)).as_slice()].concat();
    assert_eq!(std::fs::read(path).ok(), Some(expected.clone()), "{}", hex::encode(&expected));
}

/// The same with verdicts.
#[test]
fn the_fuzzers_corpus_has_a_heartbeat_with_verdicts() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/corpus/fleet_record/heartbeat-parts");
    let all = [
        part(PartKind::Link, "press", PartLevel::Good, "protecting"),
        part(PartKind::Cell, "cell-4", PartLevel::Alarm, "no session"),
    ];
    let beat = told_so(Parts::new(all.to_vec()));
    let expected = [&[8], beat.sign(&identity(7)).as_slice()].concat();
    assert_eq!(std::fs::read(path).ok(), Some(expected.clone()), "{}", hex::encode(&expected));
}

/// The same with peers.
#[test]
fn the_fuzzers_corpus_has_a_heartbeat_with_peers() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/corpus/fleet_record/heartbeat-peers");
    let peers = Some(Peers::new([Some("cabinet-1"), None], ["robot-1"]));
    let press = Part { peers, ..part(PartKind::Link, "press", PartLevel::Good, "protecting") };
    let beat =
        told_so(Parts::new(vec![press, part(PartKind::Cell, "cell-4", PartLevel::Alarm, "no session")]));
    let expected = [&[8], beat.sign(&identity(7)).as_slice()].concat();
    assert_eq!(std::fs::read(path).ok(), Some(expected.clone()), "{}", hex::encode(&expected));
}

/// A heartbeat names the version that was taken back, with parts, peers or neither; those that name none keep their format.
#[test]
fn a_heartbeat_names_the_version_that_is_not_in_use() {
    let bare = part(PartKind::Link, "line", PartLevel::Alarm, "keys differ");
    let with_peers = Part { peers: Some(Peers::new([Some("crane")], ["saw"])), ..bare.clone() };
    for (parts, before) in [
        (None, WITHOUT_PARTS),
        (Some(Parts::new(vec![bare])), WITH_PARTS),
        (Some(Parts::new(vec![with_peers])), WITH_PEERS),
    ] {
        let of =
            |unused| Heartbeat { outcome: Outcome::TakenBack, unused, parts: parts.clone(), ..heartbeat(9) };
        for (unused, format) in [(None, before), (Some(18), WITH_UNUSED), (Some(u64::MAX), WITH_UNUSED)] {
            let octets = of(unused).sign(&identity(7));
            assert_eq!(Heartbeat::parse(&octets), Ok(of(unused)));
            // The map's length, key 0, the format.
            assert_eq!(of(unused).body()[1..3], [0, format as u8]);
            assert!(octets.len() <= HEARTBEAT_OCTETS);
        }
    }
}
