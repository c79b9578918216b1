use super::*;
use crate::Level;
use crate::samples::sample_cell;

#[test]
fn a_percentile_is_never_more_than_the_worst() {
    let cell = sample_cell();
    let times = &cell.relations[0].jitter;
    let at = |permille| times.at_permille(permille, &cell.bounds_ns);
    assert_eq!((at(99), at(500), at(999), at(1000)), (10_000, 20_000, 20_000, 70_000));
    assert_eq!(HistogramReport::default().at_permille(500, &cell.bounds_ns), 0);
}

#[test]
fn each_weakness_is_said() {
    let said = |change: &dyn Fn(&mut CellReport)| {
        let mut cell = sample_cell();
        change(&mut cell);
        cell.findings(&RecentTraffic::default())
            .into_iter()
            .map(|finding| (finding.level == Level::Alarm, finding.text))
            .collect::<Vec<_>>()
    };
    assert_eq!(said(&|_| {}), []);
    let no_session = |cell: &mut CellReport| cell.relations[0].state = "no session".into();
    type Row<'r> = (&'r dyn Fn(&mut CellReport), bool, &'r str);
    let rows: [Row<'_>; 4] = [
        (&|cell| cell.relations[0].mode = "shadow".into(), true, "in shadow mode"),
        (&|cell| cell.relations[0].silent_ns = Some(3_000_000), false, "no verified frame"),
        (
            &|cell| cell.relations[0].master_key = Some("8899aabbccddeeff".into()),
            false,
            "1 of 1 relations do not rest on the preferred master key, 0011223344556677",
        ),
        (&no_session, true, "no session with the other gateway, so their cyclic frames do not pass"),
    ];
    for (change, grave, words) in rows {
        let found = said(change);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].0 == grave && found[0].1.contains(words), "{found:?}");
    }
    for (counter, words) in [
        ("InHelloNotValid", "do not fit the master key; compare its fingerprint, 0011223344556677"),
        ("InHelloOtherMode", "another protect or suite"),
        ("InHelloReflected", "no HELLO has come"),
        ("InHelloReflected", "and compare the master key's fingerprint, 0011223344556677"),
    ] {
        let found = said(&|cell| {
            no_session(cell);
            cell.hello_lately = [(counter.to_owned().into(), 1)].into_iter().collect();
        });
        assert!(found[0].1.contains(words), "{found:?}");
    }
    let found = said(&|cell| {
        no_session(cell);
        cell.kernel_faults = Some("for 1 of them the kernel does not take the keys".into());
    });
    assert!(
        found[0].1.ends_with("do not pass: for 1 of them the kernel does not take the keys."),
        "{found:?}"
    );
    // The other end has lost the session, and asks under another key; here it still stands.
    let other_key = |cell: &mut CellReport| {
        cell.hello_lately = [("InHelloNotValid".to_owned().into(), 88)].into_iter().collect();
    };
    for deaf in [Some(3_000_000), None] {
        let found = said(&|cell| {
            other_key(cell);
            cell.relations[0].silent_ns = deaf;
        });
        assert!(found.len() == 1 && found[0].0, "{found:?}");
        assert!(found[0].1.contains("compare its fingerprint, 0011223344556677"), "{found:?}");
    }
    // While frames come, or none is missed, a stranger sent it.
    assert_eq!(said(&other_key), []);
    let idle = |cell: &mut CellReport| {
        (cell.relations[0].silent_ns, cell.relations[0].transmit) = (None, Counters::default());
    };
    assert_eq!(
        said(&|cell| {
            other_key(cell);
            idle(cell);
        }),
        []
    );
    let found = said(&|cell| {
        other_key(cell);
        let mut other = cell.relations[0].clone();
        other.silent_ns = Some(3_000_000);
        cell.relations.push(other);
    });
    assert!(found.len() == 1 && !found[0].0 && found[0].1.contains("1 of 2 relations"), "{found:?}");
    // A stranger's HELLO of long ago says nothing of why there is no session now.
    let found = said(&|cell| {
        no_session(cell);
        cell.hello = [("InHelloNotValid".to_owned().into(), 1)].into_iter().collect();
    });
    assert!(found[0].1.ends_with("do not pass."), "{found:?}");
}

/// A state a row: what is seen, and what is said of it.
#[test]
fn a_cell_has_a_verdict_of_what_was_verified() {
    let silent = |cell: &mut CellReport| cell.relations[0].silent_ns = None;
    let failing = |not_valid, late| RecentTraffic {
        failing: vec![FailingSc { sci: "0x8002 from 02:00:00:00:01:02".into(), not_valid, late }],
        ..RecentTraffic::default()
    };
    let lately = |recent: RecentTraffic| RecentTraffic { valid: Some(Duration::from_secs(1)), ..recent };
    let clear = RecentTraffic { clear: Some(7), ..RecentTraffic::default() };
    type Row<'r> = (&'r dyn Fn(&mut CellReport), RecentTraffic, State, Level, bool);
    let rows: [Row<'_>; 11] = [
        (&|_| {}, RecentTraffic::default(), State::Protecting, Level::Good, true),
        // It sends, and nothing verified has ever come: nothing shows that the other end has the keys.
        (&silent, RecentTraffic::default(), State::PeerAbsent, Level::Attention, false),
        (
            &|cell| {
                silent(cell);
                cell.relations[0].transmit = Counters::default();
            },
            RecentTraffic::default(),
            State::Idle,
            Level::Idle,
            true,
        ),
        (
            &|cell| cell.relations[0].silent_ns = Some(3_000_000),
            RecentTraffic::default(),
            State::Silent,
            Level::Attention,
            false,
        ),
        (
            &|cell| cell.relations[0].mode = "shadow".into(),
            RecentTraffic::default(),
            State::SendsInClear,
            Level::Alarm,
            false,
        ),
        (
            &|cell| cell.relations[0].state = "no session".into(),
            RecentTraffic::default(),
            State::NoSession,
            Level::Alarm,
            false,
        ),
        (&|_| {}, failing(Some(9), None), State::KeysDiffer, Level::Alarm, false),
        (&|_| {}, lately(failing(Some(9), None)), State::KeysDiffer, Level::Attention, true),
        (&|_| {}, failing(None, Some(9)), State::LateFrames, Level::Alarm, false),
        (&|_| {}, clear.clone(), State::ClearFrames, Level::Alarm, false),
        (&|_| {}, lately(clear), State::ClearFrames, Level::Attention, true),
    ];
    for (number, (change, recent, state, level, protecting)) in rows.into_iter().enumerate() {
        let mut cell = sample_cell();
        change(&mut cell);
        let verdict = cell.judged(&recent);
        assert_eq!(
            (verdict.state.as_str(), verdict.level, verdict.protecting),
            (state.word(), level, protecting),
            "row {number}: {verdict:?}"
        );
    }
}

#[test]
fn a_report_comes_back_as_it_was() {
    let cell = sample_cell();
    assert_eq!(serde_json::from_str::<CellReport>(&serde_json::to_string(&cell).unwrap()).unwrap(), cell);
}
