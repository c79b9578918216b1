//! A gateway that runs, as doctor sees it.

use super::*;
use crate::doctor::finding;
use report::samples::sample;

#[test]
fn what_status_calls_an_alarm_is_a_problem() {
    let mut link = sample("line").links.remove(0);
    let problems = |link: &LinkReport| {
        let findings = of_counters(link, "since the start");
        let problems = findings.into_iter().filter(|of| of.level == finding::Level::Problem);
        problems.map(|of| format!("{}: {}", of.about, of.text)).collect::<Vec<_>>()
    };
    link.verdict.level = Level::Good;
    assert_eq!(problems(&link), [""; 0]);
    link.verdict.level = Level::Alarm;
    link.verdict.text = "Another CKN is heard; compare cak_file".into();
    assert_eq!(problems(&link), ["verdict: Another CKN is heard; compare cak_file"]);
    link.verdict.state = State::UnfilledChecksums.word().into();
    assert_eq!(problems(&link).len(), 1, "said once");
}
