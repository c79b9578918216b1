//! Rates: differences of two reports, over the time between them.

use std::collections::BTreeMap;

use crate::report::{Counters, GatewayReport, LinkReport, PortReport, table};

/// For how many seconds a discard counts as rising.
const RECENT: f64 = 10.0;

/// What passes a port in one sense.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(super) struct Pace {
    pub(super) frames_per_second: f64,
    pub(super) megabits_per_second: f64,
}

/// Both sides of a link in one direction.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(super) struct Way {
    /// At the plain port: what the machine sends or gets.
    pub(super) plain: Pace,
    /// At the protected port: what is on the network.
    pub(super) protected: Pace,
}

/// A reason for which frames were discarded.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Discard {
    /// Where in the link it is counted.
    pub(super) place: String,
    /// The counter.
    pub(super) name: String,
    pub(super) count: u64,
    /// How fast it rose at last, if that was in the last ten seconds.
    pub(super) per_second: Option<f64>,
}

/// What a link did lately. `None` before there are two reports.
#[derive(Clone, PartialEq, Debug, Default)]
pub(super) struct Activity {
    /// To the network, and from there.
    pub(super) ways: Option<[Way; 2]>,
    /// Those that are not 0; rising ones first, then the larger.
    pub(super) discards: Vec<Discard>,
}

/// Follows a gateway from report to report.
#[derive(Debug, Default)]
pub(super) struct Follower {
    last: Option<GatewayReport>,
    /// When, in seconds of the gateway's uptime, a discard rose last, and how fast.
    rose: BTreeMap<(String, String, String), (f64, f64)>,
}

impl Follower {
    /// What each link of a new report has been doing, in its order.
    pub(super) fn follow(&mut self, report: &GatewayReport) -> Vec<Activity> {
        let now = seconds(report);
        let before = self.last.replace(report.clone());
        // A gateway that was started anew counts from 0.
        let before = before.filter(|before| seconds(before) <= now);
        if before.is_none() {
            self.rose.clear();
        }
        self.rose.retain(|_, (at, _)| now - *at <= RECENT);
        report.links.iter().map(|link| self.activity(link, before.as_ref(), now)).collect()
    }

    fn activity(&mut self, link: &LinkReport, before: Option<&GatewayReport>, now: f64) -> Activity {
        let elapsed = before.map_or(0.0, |before| now - seconds(before));
        let before = before.and_then(|before| before.links.iter().find(|known| known.name == link.name));
        let before = before.filter(|_| elapsed > 0.0);
        let ways = before.map(|before| {
            let plain = |sense| pace(&before.plain, &link.plain, sense, elapsed);
            let protected = |sense| pace(&before.protected, &link.protected, sense, elapsed);
            [
                Way { plain: plain(Sense::Received), protected: protected(Sense::Sent) },
                Way { plain: plain(Sense::Sent), protected: protected(Sense::Received) },
            ]
        });
        let known: BTreeMap<_, _> = before.into_iter().flat_map(discards).collect();
        let mut found = Vec::new();
        for ((place, name), count) in discards(link) {
            let key = (link.name.clone(), place, name);
            // A reason that was not there before was 0: only those that count are listed.
            let more = count - known.get(&(key.1.clone(), key.2.clone())).copied().unwrap_or(0).min(count);
            if before.is_some() && more > 0 {
                self.rose.insert(key.clone(), (now, more as f64 / elapsed));
            }
            let per_second = self.rose.get(&key).map(|(_, rate)| *rate);
            found.push(Discard { place: key.1, name: key.2, count, per_second });
        }
        found.sort_by_key(|discard| (discard.per_second.is_none(), std::cmp::Reverse(discard.count)));
        Activity { ways, discards: found }
    }
}

fn seconds(report: &GatewayReport) -> f64 {
    report.uptime_ms as f64 / 1e3
}

#[derive(Clone, Copy)]
enum Sense {
    Received,
    Sent,
}

fn pace(before: &PortReport, now: &PortReport, sense: Sense, elapsed: f64) -> Pace {
    let [frames, octets] = match sense {
        Sense::Received => ["RxFrames", "RxOctets"],
        Sense::Sent => ["TxFrames", "TxOctets"],
    };
    let per_second = |name| {
        let more = now.counters.value(name).saturating_sub(before.counters.value(name));
        more as f64 / elapsed
    };
    Pace { frames_per_second: per_second(frames), megabits_per_second: per_second(octets) * 8.0 / 1e6 }
}

/// All discards of a link that are not 0, by place and name.
fn discards(link: &LinkReport) -> Vec<((String, String), u64)> {
    let secy = &link.secy;
    let mut places: Vec<(String, &Counters)> = vec![
        (link.plain.interface.clone(), &link.plain.counters),
        (link.protected.interface.clone(), &link.protected.counters),
        ("SecY".to_owned(), &secy.counters),
        (format!("transmit SC {}", secy.transmit.sci), &secy.transmit.counters),
    ];
    places.extend(secy.receive.iter().map(|sc| (format!("receive SC {}", sc.sci), &sc.counters)));
    let mut found = Vec::new();
    for (place, counters) in places {
        let counted = counters
            .iter()
            .filter(|(name, value)| *value > 0 && table::counter(name).is_some_and(|row| row.discard));
        found.extend(counted.map(|(name, value)| ((place.clone(), name.to_owned()), value)));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::sample;

    fn at(uptime_ms: u64, rx_frames: u64, rx_octets: u64, bad_tags: u64) -> GatewayReport {
        let mut report = sample("g");
        report.uptime_ms = uptime_ms;
        let link = &mut report.links[0];
        link.plain.counters = Counters::new(&["RxFrames", "RxOctets"], [rx_frames, rx_octets]);
        link.protected.counters = Counters::new(&["TxFrames", "TxOctets"], [2 * rx_frames, 2 * rx_octets]);
        link.secy.counters = Counters::new(&["OutPktsUntagged", "InPktsBadTag"], [3, bad_tags]);
        link.secy.transmit.counters = Counters::default();
        link.secy.receive.clear();
        report
    }

    fn bad_tags(count: u64, per_second: Option<f64>) -> Vec<Discard> {
        vec![Discard { place: "SecY".into(), name: "InPktsBadTag".into(), count, per_second }]
    }

    #[test]
    fn rates_are_differences_over_the_gateways_own_time() {
        let mut follower = Follower::default();
        let first = follower.follow(&at(10_000, 100, 1_000_000, 6));
        assert_eq!(first, [Activity { ways: None, discards: bad_tags(6, None) }]);
        let second = follower.follow(&at(12_000, 300, 2_000_000, 10)).remove(0);
        let [out, back] = second.ways.unwrap();
        assert_eq!(out.plain, Pace { frames_per_second: 100.0, megabits_per_second: 4.0 });
        assert_eq!(out.protected, Pace { frames_per_second: 200.0, megabits_per_second: 8.0 });
        assert_eq!(back, Way::default());
        assert_eq!(second.discards, bad_tags(10, Some(2.0)));
        // It is marked for a while after it has stopped.
        assert_eq!(follower.follow(&at(22_000, 300, 2_000_000, 10))[0].discards, bad_tags(10, Some(2.0)));
        assert_eq!(follower.follow(&at(22_500, 300, 2_000_000, 10))[0].discards, bad_tags(10, None));
        // The same report again has no rates, and a restart begins anew.
        assert_eq!(follower.follow(&at(22_500, 300, 2_000_000, 10))[0].ways, None);
        assert_eq!(
            follower.follow(&at(500, 1, 100, 1)),
            [Activity { ways: None, discards: bad_tags(1, None) }]
        );
    }
}
