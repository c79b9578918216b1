use fleet::{GatewayName, Heartbeat, HeartbeatRefusal, Part, Parts, Peers};

use super::*;

const NOW: u64 = 1_800_000_000;
const FLEET: PublicKey = PublicKey([1; 32]);

fn part(kind: PartKind, name: &str, level: PartLevel, state: &str) -> Part {
    Part { kind, name: name.to_owned(), level, state: state.to_owned(), peers: None }
}

/// A gateway that has confirmed version 7 just now, and says this of its parts.
fn standing(parts: &[Part]) -> Standing {
    let heartbeat = Heartbeat {
        fleet: FLEET,
        gateway: GatewayName::new("press").unwrap(),
        member: PublicKey([2; 32]),
        counter: 1,
        time: NOW - 10,
        in_use: Some(7),
        outcome: Outcome::Confirmed,
        why: String::new(),
        unused: None,
        parts: Some(Parts::new(parts.to_vec())),
    };
    Standing {
        published: Some(7),
        heartbeat: Some(heartbeat),
        refusal: None,
        hidden: None,
        is_withheld: false,
        newer: None,
    }
}

fn changed(mut of: Standing, change: impl FnOnce(&mut Standing, &mut Heartbeat)) -> Standing {
    let mut heartbeat = of.heartbeat.take().unwrap();
    change(&mut of, &mut heartbeat);
    Standing { heartbeat: Some(heartbeat), ..of }
}

fn layout(gateways: &[&str], connections: Vec<Connection>) -> Layout {
    let placed = |name: &str| Placed {
        plant: Some(if name == "berlin" { "berlin" } else { "dresden" }.to_owned()),
        http: "10.0.0.1:9464".parse().ok(),
        announced: Some(name.to_owned()),
    };
    let gateways = gateways.iter().map(|name| ((*name).to_owned(), placed(name)));
    Layout { gateways: gateways.collect(), connections }
}

fn view(standing: Option<Standing>) -> GatewayView {
    let standings = standing.map(|standing| ("press".to_owned(), standing)).into_iter().collect();
    Overview::new(FLEET, &layout(&["press"], Vec::new()), &standings, NOW).gateways.remove(0)
}

#[test]
fn the_verdict_on_a_gateway_is_the_worst_with_its_cause_and_cure() {
    use PartKind::{Cell, Link};
    use PartLevel::{Alarm, Attention, Good, Idle};
    let good = part(Link, "line", Good, "protecting");
    let well = || standing(std::slice::from_ref(&good));
    let rows = [
        ("all is well", Some(well()), State::Confirmed, Verdict::Good, "", ""),
        (
            "tells nothing",
            Some(changed(well(), |_, beat| beat.parts = None)),
            State::Confirmed,
            Verdict::Unknown,
            "tells no verdicts",
            "frameward status press",
        ),
        (
            "no identity",
            None,
            State::NeverHeard,
            Verdict::Unknown,
            "no identity of press",
            "frameward fleet approve press",
        ),
        (
            "never heard",
            Some(Standing { heartbeat: None, ..well() }),
            State::NeverHeard,
            Verdict::Unknown,
            "version 7 is published; it was never heard",
            "reaches the directory",
        ),
        (
            "stale",
            Some(changed(well(), |_, beat| beat.time = NOW - 901)),
            State::Stale,
            Verdict::Attention,
            "it says nothing any more",
            "see that the box runs",
        ),
        (
            "waiting",
            Some(Standing { published: Some(8), ..well() }),
            State::Waiting,
            Verdict::Idle,
            "version 8 is published; it has not confirmed it yet",
            "wait until its trial",
        ),
        (
            "taken back",
            Some(changed(Standing { published: Some(8), ..well() }, |_, beat| {
                (beat.outcome, beat.why) =
                    (Outcome::TakenBack, "link line does not stand any more".to_owned());
            })),
            State::TakenBack,
            Verdict::Attention,
            "taken back: link line does not stand",
            "apply again",
        ),
        // What became of an earlier version is not the published one's fault.
        (
            "the one before was taken back",
            Some(changed(Standing { published: Some(9), ..well() }, |_, beat| {
                (beat.outcome, beat.unused) = (Outcome::TakenBack, Some(8));
            })),
            State::Waiting,
            Verdict::Idle,
            "version 9 is published; it has not confirmed it yet",
            "wait until its trial",
        ),
        (
            "this one was taken back",
            Some(changed(Standing { published: Some(9), ..well() }, |_, beat| {
                (beat.outcome, beat.unused) = (Outcome::TakenBack, Some(9));
            })),
            State::TakenBack,
            Verdict::Attention,
            "version 9 is published; taken back: ",
            "apply again",
        ),
        (
            "the one before was refused",
            Some(changed(Standing { published: Some(9), ..well() }, |_, beat| {
                (beat.outcome, beat.unused) = (Outcome::Refused, Some(8));
            })),
            State::Waiting,
            Verdict::Idle,
            "it has not confirmed it yet",
            "wait until its trial",
        ),
        (
            "refused",
            Some(changed(well(), |_, beat| beat.outcome = Outcome::Refused)),
            State::Refused,
            Verdict::Attention,
            "refused:",
            "apply again",
        ),
        (
            "forged",
            Some(Standing { refusal: Some(HeartbeatRefusal::NotSigned), ..well() }),
            State::Confirmed,
            Verdict::Attention,
            "not signed by the gateway",
            "find out who writes the directory",
        ),
        (
            "withheld",
            Some(Standing { is_withheld: true, ..well() }),
            State::Confirmed,
            Verdict::Attention,
            "no heartbeat of it any more",
            "find out who writes",
        ),
        (
            "hidden",
            Some(Standing { hidden: Some(9), ..well() }),
            State::Waiting,
            Verdict::Attention,
            "version 9 was published before",
            "--anew",
        ),
        (
            "an idle link",
            Some(standing(&[part(Link, "line", Idle, "idle")])),
            State::Confirmed,
            Verdict::Idle,
            "link line: idle",
            "",
        ),
        (
            "the worst part",
            Some(standing(&[
                good.clone(),
                part(Link, "two", Attention, "one way"),
                part(Cell, "cell", Alarm, "no session"),
            ])),
            State::Confirmed,
            Verdict::Alarm,
            "cell cell: no session",
            "frameward status press there, or its page here",
        ),
        (
            "a change that did not stay comes before a link that is worse",
            Some(changed(standing(&[part(Link, "line", Alarm, "keys differ")]), |_, beat| {
                (beat.outcome, beat.why) =
                    (Outcome::TakenBack, "member b of link line does not stand any more".to_owned());
            })),
            State::TakenBack,
            Verdict::Alarm,
            "taken back: member b of link line does not stand",
            "apply again; the same files with: frameward fleet apply --anew",
        ),
        (
            "a link is worse than a version",
            Some(changed(standing(&[part(Link, "line", Alarm, "cut")]), |_, beat| {
                beat.outcome = Outcome::Refused
            })),
            State::Refused,
            Verdict::Alarm,
            "link line: cut",
            "look at line",
        ),
    ];
    for (what, standing, state, verdict, cause, cure) in rows {
        let seen = view(standing);
        assert_eq!((seen.state, seen.verdict), (state, verdict), "{what}: {seen:?}");
        assert!(
            seen.cause.contains(cause) && seen.cause.is_empty() == cause.is_empty(),
            "{what}: {}",
            seen.cause
        );
        assert!(seen.cure.contains(cure) && seen.cure.is_empty() == cure.is_empty(), "{what}: {}", seen.cure);
    }
}

#[test]
fn nothing_good_is_said_that_was_not_heard_lately() {
    let good = part(PartKind::Link, "line", PartLevel::Good, "protecting");
    let line = Connection {
        kind: ConnectionKind::Link,
        name: "line".to_owned(),
        ends: [("press", "line"), ("crane", "to-press")]
            .map(|(end, name)| (end.to_owned(), name.to_owned()))
            .into(),
    };
    let layout = layout(&["crane", "press"], vec![line]);
    let both = |press: Standing, crane: Option<Standing>| {
        let crane = crane.map(|crane| ("crane".to_owned(), crane));
        let standings = [("press".to_owned(), press)].into_iter().chain(crane).collect();
        Overview::new(FLEET, &layout, &standings, NOW)
    };
    let of = |name: &str| Part { name: name.to_owned(), ..good.clone() };
    let well = standing(&[of("line")]);
    let crane = standing(&[of("to-press")]);
    let seen = both(well.clone(), Some(crane.clone()));
    assert_eq!(
        (seen.verdict, seen.connections[0].verdict, seen.connections[0].words.as_str()),
        (Verdict::Good, Verdict::Good, "")
    );
    let rows = [
        (well.clone(), None, "crane: says nothing of it"),
        (well.clone(), Some(standing(&[of("other")])), "crane: says nothing of it"),
        (
            changed(well.clone(), |_, beat| beat.time = NOW - 901),
            Some(crane.clone()),
            "press: protecting when heard last",
        ),
        (
            Standing { is_withheld: true, ..well.clone() },
            Some(crane.clone()),
            "press: protecting when heard last",
        ),
        (
            Standing { refusal: Some(HeartbeatRefusal::Malformed), ..well.clone() },
            Some(crane.clone()),
            "press: protecting when heard last",
        ),
        (changed(well.clone(), |_, beat| beat.parts = None), Some(crane), "press: says nothing of it"),
    ];
    for (press, crane, words) in rows {
        let seen = both(press, crane);
        assert_eq!(
            (seen.connections[0].verdict, seen.connections[0].words.as_str()),
            (Verdict::Unknown, words)
        );
    }
    let broken = standing(&[part(PartKind::Link, "to-press", PartLevel::Alarm, "keys differ")]);
    let seen = both(well, Some(broken));
    assert_eq!(
        (seen.connections[0].verdict, seen.connections[0].words.as_str()),
        (Verdict::Alarm, "crane: keys differ")
    );
}

/// Words of a connection's gateways about their peers, and members that are missing by them.
#[test]
fn a_member_that_the_others_do_not_hear_is_missing_before_it_is_stale() {
    use PartLevel::{Alarm, Attention, Good};
    const NAMES: [&str; 3] = ["crane", "press", "saw"];
    let peers = |secured: &[&str]| Some(Peers::new(secured.iter().copied().map(Some), []));
    let site = |secured: &[&str], absent: &[&str]| {
        Some(Peers::new(secured.iter().copied().map(Some), absent.iter().copied()))
    };
    let nameless = Some(Peers::new([Some("press"), None], []));
    let (all, stranger) = (peers(&["crane", "press", "saw"]), peers(&["Halle 3", "press"]));
    let old = |peers: &Option<Peers>| (Good, peers.clone(), 901);
    let good = |peers: Option<Peers>| (Good, peers, 10);
    let link = ConnectionKind::Group;
    // Words of each of the three: its verdict, its peers, how long ago. Then who is missing, and who says so; and the verdict.
    let rows = [
        (
            "all hear all",
            link,
            [good(all.clone()), good(all.clone()), good(all.clone())],
            None,
            Verdict::Good,
        ),
        (
            "one is gone, and its last word was good",
            link,
            [good(peers(&["press"])), good(peers(&["crane"])), good(all.clone())],
            Some(("saw: not heard by crane, press", "ring: not heard by crane, press")),
            Verdict::Attention,
        ),
        (
            "the same, and its last word is old",
            link,
            [good(peers(&["press"])), good(peers(&["crane"])), old(&all)],
            Some(("saw: not heard by crane, press", "it says nothing any more")),
            Verdict::Attention,
        ),
        (
            "one of those that are left hears it still",
            link,
            [good(peers(&["press"])), good(peers(&["crane", "saw"])), good(all.clone())],
            None,
            Verdict::Good,
        ),
        (
            "one is cut off and tells: it makes nobody missing",
            link,
            [good(peers(&["press"])), good(peers(&["crane"])), (Alarm, peers(&[]), 10)],
            Some(("saw: peer absent", "link ring: peer absent")),
            Verdict::Alarm,
        ),
        (
            "a word that is old makes nobody missing",
            link,
            [old(&peers(&[])), good(None), good(None)],
            None,
            Verdict::Unknown,
        ),
        (
            "an earlier release tells no peers",
            link,
            [good(None), good(None), good(all.clone())],
            None,
            Verdict::Good,
        ),
        (
            "somebody says no name: it may be that one",
            link,
            [good(nameless), good(None), good(all.clone())],
            None,
            Verdict::Good,
        ),
        (
            "somebody says a name of no fleet: it may be that one",
            link,
            [good(stranger), good(None), good(all.clone())],
            None,
            Verdict::Good,
        ),
        (
            "a site's peer has no channel",
            ConnectionKind::Tunnel,
            [
                (Attention, site(&["press"], &["saw"]), 10),
                good(site(&["crane"], &[])),
                good(site(&["crane"], &[])),
            ],
            Some(("saw: not heard by crane", "ring: not heard by crane")),
            Verdict::Attention,
        ),
        (
            "a spoke's peer is the hub alone",
            ConnectionKind::Tunnel,
            [good(site(&["press", "saw"], &[])), good(site(&["crane"], &[])), good(site(&["crane"], &[]))],
            None,
            Verdict::Good,
        ),
        (
            "a cell has stations",
            ConnectionKind::Fieldbus,
            [good(all.clone()), good(site(&[], &["saw"])), good(None)],
            None,
            Verdict::Good,
        ),
    ];
    for (what, kind, said, missing, verdict) in rows {
        let part_kind = match kind {
            ConnectionKind::Link | ConnectionKind::Group => PartKind::Link,
            ConnectionKind::Fieldbus => PartKind::Cell,
            ConnectionKind::Tunnel => PartKind::Site,
        };
        let ends = NAMES.map(|name| (name.to_owned(), "ring".to_owned())).into();
        let layout = layout(&NAMES, vec![Connection { kind, name: "ring".to_owned(), ends }]);
        let of = |(name, (level, peers, ago)): (&&str, (PartLevel, Option<Peers>, u64))| {
            let word = if level == Good { "protecting" } else { "peer absent" };
            let said = Part { peers, ..part(part_kind, "ring", level, word) };
            ((*name).to_owned(), changed(standing(&[said]), |_, beat| beat.time = NOW - ago))
        };
        let standings = NAMES.iter().zip(said).map(of).collect();
        let seen = Overview::new(FLEET, &layout, &standings, NOW);
        let ring = &seen.connections[0];
        assert_eq!(ring.verdict, verdict, "{what}: {ring:?}");
        let saw = seen.gateways.iter().find(|one| one.name == "saw").unwrap();
        match missing {
            Some((words, cause)) => {
                assert_eq!(ring.words, words, "{what}");
                assert_eq!((saw.cause.as_str(), saw.verdict), (cause, verdict), "{what}");
                assert_eq!(seen.verdict, verdict, "{what}");
            }
            None => {
                let causes = seen.gateways.iter().map(|one| one.cause.as_str());
                assert!(
                    causes.chain([ring.words.as_str()]).all(|words| !words.contains("not heard")),
                    "{what}"
                );
            }
        }
    }
}

#[test]
fn plants_have_the_worst_verdict_of_their_gateways() {
    let standings = [("press", standing(&[])), ("crane", Standing { hidden: Some(9), ..standing(&[]) })];
    let standings = standings.map(|(name, standing)| (name.to_owned(), standing)).into();
    let seen = Overview::new(FLEET, &layout(&["berlin", "crane", "press"], Vec::new()), &standings, NOW);
    let plants: Vec<_> =
        seen.plants.iter().map(|plant| (plant.name.as_str(), plant.gateways, plant.verdict)).collect();
    assert_eq!(plants, [("berlin", 1, Verdict::Unknown), ("dresden", 2, Verdict::Attention)]);
    assert_eq!((seen.verdict, seen.fleet), (Verdict::Attention, "01".repeat(32)));
    assert!(seen.gateways.iter().all(|one| one.page));
}

#[test]
fn the_document_is_read_as_it_was_written_and_says_each_state_in_its_words() {
    let standings =
        [("press".to_owned(), standing(&[part(PartKind::Site, "lan", PartLevel::Attention, "no channel")]))]
            .into();
    let seen = Overview::new(FLEET, &layout(&["press"], Vec::new()), &standings, NOW);
    let text = serde_json::to_string(&seen).unwrap();
    assert_eq!(serde_json::from_str::<Overview>(&text).unwrap(), seen);
    for state in State::ALL {
        assert_eq!(serde_json::to_value(state).unwrap(), state.word());
    }
}
