use std::time::Duration;

use super::*;
use crate::mka::MemberReport;
use crate::samples::{agreed, sample};
use crate::{Counters, StrangerReport};

/// A link with static keys whose receive SA is in use.
fn fixed() -> LinkReport {
    let mut link = sample("g").links.remove(0);
    link.secy.receive[0].sas[0].in_use = true;
    link
}

fn agreeing() -> LinkReport {
    agreed("g").links.remove(0)
}

/// The same with a peer that does not tell what it sent.
fn mute() -> LinkReport {
    let mut link = agreeing();
    link.mka.as_mut().unwrap().members[0].announced = false;
    link
}

/// A group of three.
fn group() -> LinkReport {
    let mut link = agreeing();
    let members = &mut link.mka.as_mut().unwrap().members;
    members.push(MemberReport { sci: "02:00:00:00:00:03/1".into(), ..members[0].clone() });
    link
}

const WISHES: Requested = Requested { fragmentation: true, encrypted: true, no_sci: false, trouble: None };

fn facts(recent: RecentTraffic) -> Facts {
    Facts { recent, requested: Some(WISHES), ..Facts::default() }
}

/// Valid frames come.
fn lively() -> RecentTraffic {
    RecentTraffic {
        watched: Duration::from_secs(100),
        valid: Some(Duration::from_secs(1)),
        ..RecentTraffic::default()
    }
}

/// The last valid frame came 40 s ago, and nobody answers.
fn lonely() -> RecentTraffic {
    RecentTraffic { valid: Some(Duration::from_secs(40)), unanswered: Some(9), ..lively() }
}

const PEER: &str = "02:00:00:00:00:02/1";

fn failing(not_valid: Option<u64>, late: Option<u64>) -> Vec<FailingSc> {
    vec![FailingSc { sci: PEER.into(), not_valid, late }]
}

/// The SC of its express frames.
const EXPRESS: &str = "02:00:00:00:00:02/32769";

/// An SC of which nothing has come for so many seconds, or since the start, though nine frames were sent.
fn silent(sci: &str, seconds: Option<u64>) -> RecentSc {
    RecentSc {
        sci: sci.into(),
        valid: seconds.map(Duration::from_secs),
        unanswered: Some(9),
        ..RecentSc::default()
    }
}

/// The peer's SC, of whose frames none has come for so long, though it has sent seven.
fn losing(seconds: Option<u64>) -> RecentSc {
    RecentSc { tells: true, lost: Some(7), ..silent(PEER, seconds) }
}

fn heard(sci: &str) -> RecentSc {
    RecentSc { sci: sci.into(), valid: Some(Duration::from_secs(1)), ..RecentSc::default() }
}

/// Both ends have express channels, and no frame has come on the peer's.
fn express_none_came(link: &mut LinkReport) {
    let mut express = link.secy.transmit.clone();
    express.counters = Counters::new(&["OutPktsEncrypted"], [1]);
    link.secy.express = Some(express);
    link.secy.receive[0].counters = Counters::new(&["InPktsOK"], [1]);
    let mut other = link.secy.receive[0].clone();
    (other.sci, other.counters) = (EXPRESS.into(), Counters::default());
    link.secy.receive.push(other);
}

fn troubled(state: State, words: &str) -> (LinkReport, Facts) {
    let mut link = agreeing();
    (link.mka.as_mut().unwrap().secured, link.mka.as_mut().unwrap().trouble) = (false, Some(words.into()));
    link.mka.as_mut().unwrap().members.clear();
    (link, Facts { requested: Some(Requested { trouble: Some(state), ..WISHES }), ..facts(lively()) })
}

/// A row: the link, what was seen, and state, level, whether it counts as protecting, and words of cause and cure.
type Row = ((LinkReport, Facts), &'static str, Level, bool, &'static [&'static str]);

fn with(change: impl FnOnce(&mut LinkReport), recent: RecentTraffic) -> (LinkReport, Facts) {
    let mut link = fixed();
    change(&mut link);
    (link, facts(recent))
}

fn stranger(sci: &str, an: u8) -> impl FnOnce(&mut LinkReport) {
    let stranger = StrangerReport { sci: Some(sci.into()), an };
    move |link| link.secy.stranger = Some(stranger)
}

/// A peer inside of a site whose SCI is another one than here looks like a station: it is named where nothing valid comes.
#[test]
fn whose_frames_pass_to_stations_is_said_while_no_valid_frame_comes() {
    let other = || Some(StrangerReport { sci: Some("02:00:00:00:00:09/1".into()), an: 2 });
    let words = ["of 02:00:00:00:00:09/1 under AN 2, 7 since", PEER, "set sci to this"];
    for (seen, state, level) in [
        (lonely(), "silent", Level::Attention),
        (RecentTraffic { valid: None, ..lonely() }, "peer absent", Level::Attention),
        (RecentTraffic { valid: None, ..lively() }, "idle", Level::Idle),
        (lively(), "protecting", Level::Good),
    ] {
        let (link, facts) =
            with(|link| link.secy.passed = other(), RecentTraffic { passed: Some(7), ..seen });
        let (verdict, concerns) = link_verdict(&link, &facts);
        assert_eq!((verdict.state.as_str(), verdict.level), (state, level));
        let said = words.iter().all(|words| verdict.text.contains(words));
        assert_eq!(said, state != "protecting", "{}", verdict.text);
        assert_eq!(concerns.is_empty(), level != Level::Attention);
    }
    // Key agreement knows its peers' SCIs: those that pass are stations'.
    let mut link = agreeing();
    link.secy.passed = other();
    link.mka.as_mut().unwrap().members.clear();
    let (verdict, _) = link_verdict(&link, &facts(RecentTraffic { passed: Some(7), ..lonely() }));
    assert!(!verdict.text.contains("00:09/1"), "{}", verdict.text);
}

#[test]
fn each_state_has_its_level_its_cause_and_its_cure() {
    use Level::{Alarm, Attention, Good, Idle};
    let nothing = |_: &mut LinkReport| {};
    let never = RecentTraffic { valid: None, unanswered: None, ..lively() };
    let two_peers = |link: &mut LinkReport| {
        let other = link.secy.receive[0].clone();
        link.secy.receive.push(other);
    };
    let rows: Vec<Row> = vec![
        (with(nothing, lively()), "protecting", Good, true, &["valid frames come", "1 s ago"]),
        (with(nothing, never.clone()), "idle", Idle, true, &["nothing has come yet"]),
        (
            with(nothing, RecentTraffic { valid: Some(Duration::from_secs(70)), ..lively() }),
            "idle",
            Idle,
            true,
            &["nothing has come for 70 s"],
        ),
        ((agreeing(), facts(never.clone())), "protecting", Good, true, &["live peers: 1"]),
        (
            with(nothing, RecentTraffic { failing: failing(Some(7), None), ..never.clone() }),
            "keys differ",
            Alarm,
            false,
            &["fails its ICV, 7", "fingerprint 0011223344556677", "frameward status"],
        ),
        (
            with(nothing, RecentTraffic { failing: failing(Some(7), None), ..lonely() }),
            "keys differ",
            Alarm,
            false,
            &["40 s ago"],
        ),
        // Failing frames are no alarm while valid ones come: a stranger may send them. Nor are those of one of two peers.
        (
            with(nothing, RecentTraffic { failing: failing(Some(7), None), ..lively() }),
            "keys differ",
            Attention,
            true,
            &[PEER],
        ),
        (
            with(two_peers, RecentTraffic { failing: failing(Some(7), None), ..lively() }),
            "keys differ",
            Attention,
            true,
            &[PEER],
        ),
        (
            with(nothing, RecentTraffic { failing: failing(None, Some(7)), ..lonely() }),
            "late frames",
            Alarm,
            false,
            &["is late, 7", "new key"],
        ),
        (
            with(stranger("02:00:00:00:00:09/1", 2), RecentTraffic { no_sa: Some(3), ..lonely() }),
            "sci differs",
            Alarm,
            false,
            &["of 02:00:00:00:00:09/1 come under AN 2", PEER],
        ),
        (
            with(stranger("02:00:00:00:00:02/32769", 1), RecentTraffic { no_sa: Some(3), ..lonely() }),
            "sci differs",
            Alarm,
            false,
            &["Express frames of 02:00:00:00:00:02/1", "/32769, 3", "set express = true", "keys and ANs too"],
        ),
        (
            // All other frames of the peer are valid.
            with(
                stranger("02:00:00:00:00:02/32769", 1),
                RecentTraffic { discards: vec![("InPktsNoSAError".into(), 5)], ..lively() },
            ),
            "sci differs",
            Attention,
            true,
            &["Express frames of 02:00:00:00:00:02/1", "/32769, 5", "set express = true"],
        ),
        (
            with(
                |link| {
                    let mut express = link.secy.transmit.clone();
                    express.sas[0].pns_left = Some(1 << 29);
                    link.secy.express = Some(express);
                },
                lively(),
            ),
            "PNs run out",
            Attention,
            true,
            &["packet numbers of express frames"],
        ),
        // One of two peers is silent; the other one answers.
        (
            with(two_peers, RecentTraffic { scs: vec![silent(PEER, Some(40))], ..lively() }),
            "partial mesh",
            Attention,
            true,
            &["Nothing comes of 02:00:00:00:00:02/1", "others answer", "came 40 s ago, and 9", "cable"],
        ),
        (
            with(two_peers, RecentTraffic { scs: vec![silent(PEER, None)], ..lively() }),
            "partial mesh",
            Attention,
            true,
            &["no valid frame of it has come for 100 s"],
        ),
        // It speaks on its other SC.
        (
            with(nothing, RecentTraffic { scs: vec![silent(PEER, Some(40)), heard(EXPRESS)], ..lively() }),
            "protecting",
            Good,
            true,
            &[],
        ),
        // Key agreement knows who is there, and a member need not speak.
        (
            (agreeing(), facts(RecentTraffic { scs: vec![silent(PEER, Some(40))], ..lively() })),
            "protecting",
            Good,
            true,
            &[],
        ),
        // Express frames are lost whole, and no others.
        (
            with(nothing, RecentTraffic { scs: vec![silent(EXPRESS, Some(40)), heard(PEER)], ..lively() }),
            "express silent",
            Attention,
            true,
            &["Express frames of 02:00:00:00:00:02/1", "until 40 s ago", "/32769, and 9"],
        ),
        (
            (
                agreeing(),
                facts(RecentTraffic { scs: vec![silent(EXPRESS, Some(40)), heard(PEER)], ..lively() }),
            ),
            "express silent",
            Attention,
            true,
            &["Express frames of 02:00:00:00:00:02/1", "until 40 s ago", "drops such frames"],
        ),
        // None ever came: perhaps none was sent.
        (
            with(express_none_came, RecentTraffic { scs: vec![silent(EXPRESS, None)], ..lively() }),
            "protecting",
            Good,
            true,
            &["none has come on 02:00:00:00:00:02/32769", "set express = true at the other end"],
        ),
        (
            {
                let mut link = agreeing();
                express_none_came(&mut link);
                (link, facts(RecentTraffic { scs: vec![silent(EXPRESS, None)], ..lively() }))
            },
            "protecting",
            Good,
            true,
            &["none has come on 02:00:00:00:00:02/32769", "look for what drops them"],
        ),
        (
            {
                let mut link = agreeing();
                link.mka.as_mut().unwrap().missing = vec!["02:00:00:00:00:0c/1 \"press-c\"".into()];
                (link, facts(lively()))
            },
            "partial mesh",
            Attention,
            true,
            &["not in the group: 02:00:00:00:00:0c/1 \"press-c\""],
        ),
        (
            with(stranger(PEER, 3), RecentTraffic { no_sa: Some(3), ..lonely() }),
            "an differs",
            Alarm,
            false,
            &["AN 3", "AN 1", "set the same an"],
        ),
        (
            with(nothing, RecentTraffic { clear: Some(3), valid: Some(Duration::from_secs(70)), ..lonely() }),
            "clear frames",
            Alarm,
            false,
            &["in clear, 3", "protect_frames"],
        ),
        // Frames in clear, where the other end has the keys, are a stranger's: STP, or one stray frame.
        (
            with(nothing, RecentTraffic { clear: Some(3), valid: Some(Duration::from_secs(12)), ..lively() }),
            "clear frames",
            Attention,
            true,
            &["in clear, 3", "may be bypassed, or another station sends them"],
        ),
        // Nothing answers meanwhile: that is said first, and it is no alarm either.
        (
            with(nothing, RecentTraffic { clear: Some(3), ..lonely() }),
            "silent",
            Attention,
            false,
            &["40 s ago"],
        ),
        (
            (agreeing(), facts(RecentTraffic { clear: Some(3), ..lonely() })),
            "clear frames",
            Attention,
            true,
            &["in clear, 3", "another station sends them"],
        ),
        (
            (agreeing(), facts(RecentTraffic { clear: Some(3), unanswered: Some(9), ..never.clone() })),
            "clear frames",
            Attention,
            true,
            &["in clear, 3 since this link started", "another station"],
        ),
        (
            with(nothing, RecentTraffic { clear: Some(3), ..never.clone() }),
            "clear frames",
            Attention,
            true,
            &[],
        ),
        (with(nothing, lonely()), "silent", Attention, false, &["last valid frame came 40 s ago", "0x88e5"]),
        (
            with(nothing, RecentTraffic { unanswered: Some(9), ..never.clone() }),
            "peer absent",
            Attention,
            false,
            &["no valid frame has come for 100 s"],
        ),
        // The peer would tell of frames that do not come, and does not: frames go one way alone, as GOOSE and SV do.
        (
            (agreeing(), facts(lonely())),
            "protecting",
            Good,
            true,
            &["live peers: 1", "no frame has come back for 40 s", "none is missing"],
        ),
        (
            (agreeing(), facts(RecentTraffic { unanswered: Some(9), ..never.clone() })),
            "protecting",
            Good,
            true,
            &["no frame has come back yet"],
        ),
        (
            (
                mute(),
                facts(RecentTraffic {
                    scs: vec![RecentSc { tells: true, ..silent(PEER, None) }],
                    ..lonely()
                }),
            ),
            "protecting",
            Good,
            true,
            &["none is missing"],
        ),
        // It tells of frames, and none of them comes.
        (
            (agreeing(), facts(RecentTraffic { scs: vec![losing(Some(40))], ..lonely() })),
            "one way",
            Attention,
            false,
            &[
                "MKPDUs of 02:00:00:00:00:02/1 \"press-b\" come",
                "it sent 7 since its last valid one, 40 s ago",
                "0x88e5 both ways",
            ],
        ),
        // Whether anything is sent here or not.
        (
            (agreeing(), facts(RecentTraffic { scs: vec![losing(None)], ..never.clone() })),
            "one way",
            Attention,
            false,
            &["it sent 7, and none was ever valid here"],
        ),
        // Those of one of several peers may be for the others alone, as long as anything comes.
        (
            (group(), facts(RecentTraffic { scs: vec![losing(Some(40))], ..lively() })),
            "protecting",
            Good,
            true,
            &["live peers: 2"],
        ),
        (
            (group(), facts(RecentTraffic { scs: vec![losing(Some(40))], ..lonely() })),
            "one way",
            Attention,
            false,
            &["MKPDUs come", "both ways"],
        ),
        ((group(), facts(lonely())), "protecting", Good, true, &["live peers: 2", "none is missing"]),
        // It is gone: what it told is no news.
        (
            {
                let mut link = agreeing();
                link.mka.as_mut().unwrap().members[0].live = false;
                (link, facts(RecentTraffic { scs: vec![losing(Some(40))], ..lonely() }))
            },
            "silent",
            Attention,
            false,
            &["All peers are gone"],
        ),
        // It does not tell.
        ((mute(), facts(lonely())), "one way", Attention, false, &["MKPDUs come", "both ways"]),
        // Nor of express frames, which may be all that it sends.
        (
            (
                agreeing(),
                facts(RecentTraffic { scs: vec![silent(PEER, None), silent(EXPRESS, None)], ..lonely() }),
            ),
            "one way",
            Attention,
            false,
            &["MKPDUs come", "both ways"],
        ),
        (
            with(
                |link| {
                    let why = "eth1 has no carrier, so eth0 is held down".into();
                    link.waiting = Some(WaitingReport { seconds: 7, why, cut: true });
                },
                lonely(),
            ),
            "cut",
            Alarm,
            false,
            &["eth1 has no carrier", "7 s"],
        ),
        (
            (fixed(), Facts { without_carrier: [false, true], ..facts(lonely()) }),
            "cut",
            Alarm,
            false,
            &["eth1", "cable"],
        ),
        (
            (fixed(), Facts { without_carrier: [true, false], ..facts(lonely()) }),
            "cut",
            Attention,
            true,
            &["eth0"],
        ),
        (
            with(
                |link| {
                    let why = "interface eth1 is missing".into();
                    link.waiting = Some(WaitingReport { seconds: 7, why, cut: false });
                },
                lively(),
            ),
            "waiting",
            Alarm,
            false,
            &["eth1 is missing"],
        ),
        (
            with(|link| link.unread = true, lively()),
            "waiting",
            Alarm,
            false,
            &["worker does not answer", "restart"],
        ),
        (troubled(State::WrongCak, "compare the cak"), "wrong CAK", Alarm, false, &["Compare the cak."]),
        (troubled(State::WrongCkn, "compare the ckn"), "wrong CKN", Alarm, false, &["Compare the ckn."]),
        (troubled(State::OneWay, "not heard"), "one way", Alarm, false, &["Not heard."]),
        (troubled(State::PeerAbsent, "nobody"), "peer absent", Alarm, false, &["Nobody."]),
        (
            {
                let (mut link, facts) = troubled(State::PartialMesh, "a does not hear b");
                link.mka.as_mut().unwrap().secured = true;
                link.mka.as_mut().unwrap().members = agreeing().mka.unwrap().members;
                (link, facts)
            },
            "partial mesh",
            Attention,
            true,
            &["A does not hear b."],
        ),
        (
            with(|link| link.secy.transmit.sas[0].pns_left = Some(PNS / 4 - 1), lively()),
            "PNs run out",
            Attention,
            true,
            &["Three quarters", "Change the key"],
        ),
        (
            with(|link| link.secy.transmit.sas[0].next_pn = None, lively()),
            "PNs used up",
            Alarm,
            false,
            &["Change the key"],
        ),
        (with(|link| link.secy.protect_frames = false, lively()), "sends in clear", Alarm, false, &[]),
        (with(|link| link.secy.transmit.sas.clear(), lively()), "no keys", Alarm, false, &["no transmit SA"]),
        (with(|link| link.secy.receive.clear(), lively()), "no keys", Attention, true, &["no peer's frame"]),
        (
            with(|link| link.secy.validate_frames = "check".into(), lively()),
            "weak settings",
            Attention,
            true,
            &["validate_frames is check"],
        ),
        (
            with(|link| link.secy.replay_protect = false, lively()),
            "weak settings",
            Attention,
            true,
            &["replay_protect is false"],
        ),
        (
            (fixed(), Facts { disk: Some("The disk is too slow.".into()), ..facts(lively()) }),
            "disk stalled",
            Attention,
            true,
            &["too slow"],
        ),
        (
            with(nothing, RecentTraffic { discards: vec![("InPktsNoTag".into(), 5)], ..lively() }),
            "discards",
            Attention,
            true,
            &["InPktsNoTag 5", "frameward status --verbose explains"],
        ),
        (
            with(nothing, RecentTraffic { ticks_missed: Some((700, 60_000)), ..lively() }),
            "cover gaps",
            Attention,
            true,
            &["700 of 60000 ticks", "OutTicksMissed", "CPUs of their own"],
        ),
        (
            (agreeing(), facts(RecentTraffic { is_cover_alone: true, ..never.clone() })),
            "weak settings",
            Attention,
            true,
            &["sends no cover", "at both ends"],
        ),
        // Nobody is there to send any.
        (with(nothing, RecentTraffic { is_cover_alone: true, ..never.clone() }), "idle", Idle, true, &[]),
    ];
    for ((report, facts), state, level, protecting, words) in rows {
        let (verdict, concerns) = link_verdict(&report, &facts);
        assert_eq!(
            (verdict.state.as_str(), verdict.level, verdict.protecting),
            (state, level, protecting),
            "{verdict:?} {concerns:#?}"
        );
        for word in words {
            assert!(verdict.text.contains(word), "{word:?} is not in {:?}", verdict.text);
        }
        assert_eq!(level <= Idle, concerns.is_empty(), "{concerns:?}");
        assert!(concerns.is_empty() || concerns[0].text == verdict.text, "the verdict comes first");
        let one_sentence = verdict.text.ends_with('.') && !verdict.text.contains('\n');
        assert!(one_sentence && verdict.text.starts_with(char::is_uppercase), "{}", verdict.text);
    }
}

/// Nowhere green when nothing valid arrives though something is sent, unless peers that would tell of lost frames tell of none.
#[test]
fn what_is_not_answered_is_never_green() {
    for (report, loses) in [(fixed(), false), (mute(), false), (agreeing(), true)] {
        for valid in [None, Some(Duration::from_secs(11))] {
            let scs = loses.then(|| losing(valid.map(|ago| ago.as_secs())));
            let recent =
                RecentTraffic { valid, unanswered: Some(1), scs: scs.into_iter().collect(), ..lively() };
            let (verdict, _) = link_verdict(&report, &facts(recent));
            assert!(verdict.level > Level::Idle && !verdict.protecting, "{verdict:?}");
        }
    }
}

/// A peer has the keys if they are agreed on and it is heard now. Otherwise its gateway may be bypassed.
#[test]
fn frames_in_clear_are_a_strangers_only_beside_a_peer_that_has_the_keys() {
    let clear = |valid| RecentTraffic { clear: Some(3), valid: Some(Duration::from_secs(valid)), ..lively() };
    let changed = |change: fn(&mut MkaReport)| {
        let mut link = agreeing();
        change(link.mka.as_mut().unwrap());
        link
    };
    let (wrong_cak, mut requested) = troubled(State::WrongCak, "compare the cak");
    requested.recent = clear(10);
    let unheard = changed(|mka| mka.members[0].heard_ms_ago = 5_000);
    let rows = [
        ((agreeing(), facts(clear(10))), true),
        ((unheard, facts(clear(10))), false),
        ((changed(|mka| mka.members.clear()), facts(clear(10))), false),
        ((wrong_cak, requested), false),
        ((fixed(), facts(clear(4))), false),
        ((fixed(), facts(clear(59))), false),
        ((changed(|mka| mka.members.clear()), facts(clear(70))), false),
    ];
    for (i, ((report, facts), has_keys)) in rows.into_iter().enumerate() {
        let (_, concerns) = link_verdict(&report, &facts);
        let told: Vec<_> = concerns.iter().filter(|concern| concern.text.contains("in clear, 3")).collect();
        assert_eq!(told.len(), 1, "{i}: {concerns:#?}");
        let text = &told[0].text;
        assert_eq!(text.contains("The peer has the keys"), has_keys, "{i}: {text}");
        assert!(has_keys || text.contains("bypassed") && !text.contains("protect_frames"), "{i}: {text}");
    }
}
