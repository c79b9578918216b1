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

/// A receive SC goes with its peer, so its counters say nothing of the time before.
#[test]
fn figures_of_peers_are_said_to_be_of_those_that_are_there() {
    let mut link = sample("line").links.remove(0);
    let verified = value(&link.secy.receive[0].counters, "InPktsOK");
    assert!(verified > 0, "the sample has a peer that sends");
    let told = |link: &LinkReport| {
        let findings = of_counters(link, "since the start");
        findings.into_iter().map(|finding| finding.text).collect::<Vec<_>>()
    };
    let of_present: u64 = link.secy.receive.iter().map(|sc| value(&sc.counters, "InPktsOK")).sum();
    let words = format!("; {PRESENT}: {of_present} received and verified");
    assert!(told(&link).iter().any(|text| text.starts_with("since the start: ") && text.ends_with(&words)));
    link.secy.receive.clear();
    let words = format!("{PRESENT}: 0 received and verified");
    assert!(told(&link).iter().any(|text| text.contains(&words)), "{:?}", told(&link));
}
