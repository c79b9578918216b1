use std::collections::BTreeMap;

use inventory::{Connection, ConnectionKind, Layout, Placed};
use serde_json::Value;
use suite::identity::PublicKey;

use super::super::overview::Verdict;
use super::*;

fn overview(names: &[&str], time: u64) -> Overview {
    let gateways = names.iter().map(|name| ((*name).to_owned(), Placed::default())).collect();
    let ends = names.iter().map(|name| ((*name).to_owned(), "line".to_owned())).collect();
    let line = Connection { kind: ConnectionKind::Group, name: "line".to_owned(), ends };
    Overview::new(PublicKey([1; 32]), &Layout { gateways, connections: vec![line] }, &BTreeMap::new(), time)
}

/// Words of an answer: its revision, true if it is whole, and names.
fn said(board: &Board, since: Option<u64>) -> (u64, bool, Vec<String>, Vec<String>) {
    let answer: Value = serde_json::from_slice(&board.overview(since).unwrap()).unwrap();
    let names = |of: &str| {
        let all = answer[of].as_array().unwrap().iter();
        all.map(|one| one["name"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let revision = answer["revision"].as_u64().unwrap();
    (revision, answer["whole"].as_bool().unwrap(), names("gateways"), names("connections"))
}

#[test]
fn who_knows_a_revision_gets_what_changed_since() {
    let mut board = Board::default();
    assert_eq!((board.revision(), board.overview(None)), (None, None));
    board.wait("it is away".to_owned());
    assert_eq!(board.seen(Some(1)), Seen::Waiting(Some("it is away".to_owned())));
    let show = |board: &mut Board, overview: &Overview, away: Option<&str>| {
        let directory = DirectoryView { answered: Some(overview.time), away: away.map(str::to_owned) };
        board.show(overview.clone(), directory, Vec::new());
        board.revision().unwrap()
    };
    let mut now = overview(&["a", "b", "c"], 1_000);
    let first = show(&mut board, &now, None);
    let all = || ["a", "b", "c"].map(str::to_owned).to_vec();
    let line = || vec!["line".to_owned()];
    assert_eq!(said(&board, None), (first, true, all(), line()));
    assert_eq!(said(&board, Some(first)), (first, false, vec![], vec![]));
    // The time alone is no change.
    now.time += 1;
    assert_eq!(show(&mut board, &now, None), first);
    // One gateway, then another one and the connection.
    now.gateways[1].verdict = Verdict::Alarm;
    let second = show(&mut board, &now, None);
    assert_eq!(second, first + 1);
    now.gateways[2].verdict = Verdict::Alarm;
    now.connections[0].verdict = Verdict::Alarm;
    let third = show(&mut board, &now, None);
    assert_eq!(said(&board, Some(second)), (third, false, vec!["c".to_owned()], line()));
    assert_eq!(said(&board, Some(first)), (third, false, vec!["b".to_owned(), "c".to_owned()], line()));
    // Of a controller before this one, or of none.
    for unknown in [0, first - 1, third + 1, u64::MAX] {
        assert_eq!(said(&board, Some(unknown)), (third, true, all(), line()), "{unknown}");
    }
    assert_eq!(board.seen(Some(third)), Seen::Same);
    let Seen::Shown { revision, overview: seen, .. } = board.seen(Some(second)) else { panic!("{board:?}") };
    assert_eq!((revision, *seen), (third, now.clone()));
    // The directory went away: no gateway is another one, but the page has to know.
    let fourth = show(&mut board, &now, Some("etcd is away"));
    assert_eq!(said(&board, Some(third)), (fourth, false, vec![], vec![]));
    // One came, so another one may have gone: all anew.
    let later = overview(&["a", "c", "d"], 1_010);
    let fifth = show(&mut board, &later, None);
    assert_eq!(
        said(&board, Some(fourth)),
        (fifth, true, ["a", "c", "d"].map(str::to_owned).to_vec(), line())
    );
    // The next controller begins above.
    let mut next = Board::default();
    assert!(show(&mut next, &overview(&["a"], 1_011), None) > fifth);
}

#[test]
fn what_nobody_looked_at_for_long_is_not_shown_as_if_it_were_so() {
    let mut board = Board::default();
    assert!(!board.is_frozen(), "it has not begun");
    let now = overview(&["a"], 1_000);
    let show = |board: &mut Board| board.show(now.clone(), DirectoryView::default(), Vec::new());
    show(&mut board);
    let known = board.revision();
    board.age(FROZEN);
    assert!(board.is_frozen());
    let Seen::Waiting(Some(why)) = board.seen(known) else { panic!("{board:?}") };
    assert!(why.contains("has not looked at the fleet for 10 s; see that"), "{why}");
    // The same fleet is news then, to who was told that nobody looks.
    show(&mut board);
    assert!(!board.is_frozen() && matches!(board.seen(known), Seen::Shown { .. }));
    assert_eq!(board.seen(board.revision()), Seen::Same);
}
