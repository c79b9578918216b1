use std::collections::BTreeMap;

use inventory::{Layout, Placed};
use suite::identity::PublicKey;

use super::*;

fn overview(names: &[&str], time: u64) -> Overview {
    let gateways = names.iter().map(|name| ((*name).to_owned(), Placed::default())).collect();
    Overview::new(PublicKey([1; 32]), &Layout { gateways, connections: vec![] }, &BTreeMap::new(), time)
}

#[test]
fn minutes_have_counts_and_changes_are_told_in_their_order() {
    let mut history = History::default();
    let mut now = overview(&["a", "b"], 600);
    history.add(&now);
    assert_eq!(
        history.minutes,
        [Minute { time: 600, states: [0, 0, 0, 0, 0, 2], verdicts: [0, 0, 2, 0, 0] }]
    );
    assert!(history.events.is_empty(), "a beginning is no change");
    now.time = 659;
    (now.gateways[0].state, now.gateways[0].verdict) = (State::Confirmed, Verdict::Alarm);
    now.gateways[0].cause = "link line: cut".to_owned();
    history.add(&now);
    assert_eq!(
        history.minutes,
        [Minute { time: 600, states: [1, 0, 0, 0, 0, 1], verdicts: [0, 0, 1, 0, 1] }]
    );
    let before = Standing { state: State::NeverHeard, verdict: Verdict::Unknown };
    let after = Standing { state: State::Confirmed, verdict: Verdict::Alarm };
    let (gateway, cause) = ("a".to_owned(), "link line: cut".to_owned());
    assert_eq!(history.events, [Event { time: 659, gateway, before, after, cause }]);
    now.time = 660;
    history.add(&now);
    assert_eq!((history.minutes.len(), history.events.len()), (2, 1));
    // A clock that is put back.
    now.time = 610;
    history.add(&now);
    assert_eq!(history.minutes.iter().map(|one| one.time).collect::<Vec<_>>(), [600]);
    // A gateway taken out of the inventory, and put in again.
    history.add(&overview(&["b"], 661));
    history.add(&overview(&["a", "b"], 662));
    assert_eq!(history.events.len(), 1);
}

#[test]
fn a_day_and_a_bounded_number_of_changes_are_kept() {
    let mut history = History::default();
    let mut now = overview(&["a"], 0);
    for minute in 0..5_000 {
        now.time = minute * 60;
        now.gateways[0].verdict = [Verdict::Good, Verdict::Alarm][usize::try_from(minute % 2).unwrap()];
        history.add(&now);
    }
    assert_eq!((history.minutes.len(), history.events.len()), (MINUTES, EVENTS));
    assert_eq!(history.minutes.back().unwrap().time, 4_999 * 60);
    assert_eq!((history.minutes[0].time, history.events[0].time), ((5_000 - 1440) * 60, (5_000 - 4096) * 60));
}
