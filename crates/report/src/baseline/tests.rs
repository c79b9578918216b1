use super::*;
use crate::samples::agreed;
use crate::samples::sample_cell;
use crate::samples::sample_site;

/// A link with everything that a link can have, and a site.
fn sample() -> GatewayReport {
    let mut report = agreed("line");
    report.links[0].fieldbus = Some(sample_cell());
    report.sites = vec![sample_site()];
    report
}

/// All counters and all figures of histograms.
fn figures(report: &GatewayReport) -> Vec<u64> {
    let mut figures = Vec::new();
    each(&mut report.clone(), &mut |_, found| match found {
        Figures::Counters(counters) => figures.extend(counters.iter().map(|(_, value)| value)),
        Figures::Histogram(histogram) => {
            figures.extend([histogram.count, histogram.sum_ns]);
            figures.extend(&histogram.buckets);
        }
    });
    figures
}

/// Counters that the JSON of a report has: what `each` leaves out is found here.
fn all_counters(value: &serde_json::Value, path: &str, found: &mut Vec<String>) {
    if let serde_json::Value::Object(fields) = value {
        for (name, value) in fields {
            let is_set = ["counters", "hello", "transmit", "receive", "path", "tunnel", "channel", "session"];
            let numbers =
                value.as_object().is_some_and(|object| object.values().all(serde_json::Value::is_u64));
            if is_set.contains(&name.as_str()) && numbers {
                found.push(format!("{path}/{name}"));
            } else {
                all_counters(value, &format!("{path}/{name}"), found);
            }
        }
    } else if let serde_json::Value::Array(items) = value {
        items.iter().for_each(|item| all_counters(item, path, found));
    }
}

#[test]
fn what_is_cleared_is_shown_as_nothing_and_counts_from_there() {
    let report = sample();
    let (mut places, mut found) = (Vec::new(), Vec::new());
    each(&mut report.clone(), &mut |place, figures| {
        if matches!(figures, Figures::Counters(_)) {
            places.push(place);
        }
    });
    all_counters(&serde_json::to_value(&report).unwrap(), "", &mut found);
    assert_eq!(places.len(), found.len(), "{places:?}\n{found:?}");
    places.sort();
    places.dedup();
    assert_eq!(places.len(), found.len(), "each place has a name of its own");

    let baseline = Arc::new(Baseline::of(report.clone()));
    let mut counted = CountedReport { report, baseline: Some(Arc::clone(&baseline)) };
    assert!(figures(&counted.report).iter().any(|value| *value > 0));
    assert!(figures(&counted.shown()).iter().all(|value| *value == 0));
    assert_eq!(counted.shown().cleared_seconds, Some(0));
    // Later: more of one, and what is no counter.
    counted.report.uptime_ms += 61_000;
    counted.report.links[0].secy.receive[0].counters = Counters::new(&["InPktsOK"], [10]);
    counted.report.links[0].secy.transmit.sas[0].next_pn = Some(99);
    let shown = counted.shown();
    assert_eq!(shown.cleared_seconds, Some(61));
    assert_eq!(shown.links[0].secy.receive[0].counters.value("InPktsOK"), 7);
    assert_eq!(shown.links[0].secy.transmit.sas[0].next_pn, Some(99));
    assert_eq!(shown.links[0].verdict, counted.report.links[0].verdict);
    assert_eq!(counted.report.links[0].secy.receive[0].counters.value("InPktsOK"), 10, "nothing is lost");
}

#[test]
fn what_began_anew_counts_from_nothing() {
    let report = sample();
    let mut baseline = Baseline::of(report.clone());
    let mut again = report.clone();
    assert!(!baseline.forget_renewed(&mut again.links, &mut again.sites), "nothing is less");
    // The interface was opened again, the peer has another key under the same AN, and the peer of a site is new.
    again.links[0].plain.counters = Counters::new(&["RxFrames", "TxFrames"], [2, 0]);
    let sa = &mut again.links[0].secy.receive[0].sas[0];
    (sa.key, sa.counters) = ("other".into(), Counters::new(&["InPktsLate"], [4]));
    again.sites[0].peers[0].counters =
        Counters::new(&["OutPktsTunnelled", "InPktsLate", "InPktsTooShort"], [1, 0, 0]);
    let shown = |baseline: &Baseline, report: &GatewayReport| {
        CountedReport { report: report.clone(), baseline: Some(Arc::new(baseline.clone())) }
            .shown()
            .into_owned()
    };
    let at_once = shown(&baseline, &again);
    assert_eq!(at_once.links[0].plain.counters.value("RxFrames"), 2);
    assert_eq!(at_once.links[0].secy.receive[0].sas[0].counters.value("InPktsLate"), 4);
    assert_eq!(at_once.sites[0].peers[0].counters.value("OutPktsTunnelled"), 1);
    // Nothing is taken off either once it has passed what it was before.
    assert!(baseline.forget_renewed(&mut again.links, &mut again.sites));
    again.links[0].plain.counters = Counters::new(&["RxFrames", "TxFrames"], [9, 0]);
    assert_eq!(shown(&baseline, &again).links[0].plain.counters.value("RxFrames"), 9);
    assert_eq!(shown(&baseline, &again).links[0].protected.counters.value("RxFrames"), 0);
}
