//! Rates: differences of two reports, over the time between them.

use std::collections::BTreeMap;

use report::cell::CellReport;
use report::site::SiteReport;
use report::{Counters, GatewayReport, LinkReport};
use wire::Counter;

/// For how many seconds a discard counts as rising.
const RECENT: f64 = 10.0;

/// Traffic of a port in one direction.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(super) struct Pace {
    pub(super) frames_per_second: f64,
    pub(super) megabits_per_second: f64,
}

/// Both sides of a link or a site in one direction.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(super) struct Way {
    /// At the plain port, or on the LAN: what the machines send or get.
    pub(super) plain: Pace,
    /// At the protected port, or at the UDP ports: what is on the network.
    pub(super) protected: Pace,
}

/// A reason for which frames were discarded.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Discard {
    /// Part of the link or site that counts it.
    pub(super) place: String,
    /// The counter.
    pub(super) name: String,
    /// Its meaning.
    pub(super) meaning: &'static str,
    pub(super) count: u64,
    /// Its last rate, if it rose in the last ten seconds.
    pub(super) per_second: Option<f64>,
}

/// Recent activity of a link or a site. `None` before there are two reports.
#[derive(Clone, PartialEq, Debug, Default)]
pub(super) struct Activity {
    /// To the network, and from there.
    pub(super) ways: Option<[Way; 2]>,
    /// Those that are not 0; rising ones first, then the larger.
    pub(super) discards: Vec<Discard>,
}

/// Sum of all.
#[derive(Clone, PartialEq, Debug, Default)]
pub(super) struct Activities {
    pub(super) links: Vec<Activity>,
    pub(super) sites: Vec<Activity>,
}

/// Follows a gateway from report to report.
#[derive(Debug, Default)]
pub(super) struct Follower {
    last: Option<GatewayReport>,
    /// Time at which a discard rose last, in seconds of the gateway's uptime, and its rate.
    rose: BTreeMap<(String, String, String), (f64, f64)>,
}

impl Follower {
    /// Activity of each link and each site of a new report, in their order.
    pub(super) fn follow(&mut self, report: &GatewayReport) -> Activities {
        let now = seconds(report);
        let before = self.last.replace(report.clone());
        // A gateway that was started anew counts from 0.
        let before = before.filter(|before| seconds(before) <= now);
        if before.is_none() {
            self.rose.clear();
        }
        self.rose.retain(|_, (at, _)| now - *at <= RECENT);
        let elapsed = before.as_ref().map_or(0.0, |before| now - seconds(before));
        let before = before.as_ref().filter(|_| elapsed > 0.0);
        let links = report.links.iter().map(|link| {
            let before = before.and_then(|before| before.links.iter().find(|known| known.name == link.name));
            self.activity(&Figures::of_link(link), before.map(Figures::of_link), elapsed, now)
        });
        let links = links.collect();
        let sites = report.sites.iter().map(|site| {
            let before = before.and_then(|before| before.sites.iter().find(|known| known.name == site.name));
            self.activity(&Figures::of_site(site), before.map(Figures::of_site), elapsed, now)
        });
        Activities { links, sites: sites.collect() }
    }

    fn activity(
        &mut self,
        figures: &Figures<'_>,
        before: Option<Figures<'_>>,
        elapsed: f64,
        now: f64,
    ) -> Activity {
        let ways = before.as_ref().map(|before| {
            let pace =
                |side: fn(&Figures<'_>) -> Side, sense| side(figures).since(side(before), sense, elapsed);
            let (plain, wire) = (|one: &Figures<'_>| one.plain, |one: &Figures<'_>| one.wire);
            [
                Way { plain: pace(plain, Sense::Received), protected: pace(wire, Sense::Sent) },
                Way { plain: pace(plain, Sense::Sent), protected: pace(wire, Sense::Received) },
            ]
        });
        let known: BTreeMap<_, _> = before
            .iter()
            .flat_map(|before| &before.discards)
            .map(|discard| ((&discard.place, &discard.name), discard.count))
            .collect();
        let mut found = Vec::new();
        for discard in &figures.discards {
            let Discard { place, name, count, .. } = discard;
            let key = (figures.name.to_owned(), place.clone(), name.clone());
            // A reason that was not there before was 0: only those that count are listed.
            let more = count - known.get(&(place, name)).copied().unwrap_or(0).min(*count);
            if before.is_some() && more > 0 {
                self.rose.insert(key.clone(), (now, more as f64 / elapsed));
            }
            let per_second = self.rose.get(&key).map(|(_, rate)| *rate);
            found.push(Discard { per_second, ..discard.clone() });
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

/// Frames and octets that one side of a link or a site has counted: received, sent.
#[derive(Clone, Copy, Default)]
struct Side {
    frames: [u64; 2],
    octets: [u64; 2],
}

impl Side {
    fn of(counters: &Counters) -> Self {
        // Frames on an Ethernet, packets on a UDP port; a port has one of both.
        let frames = |sense: &str| {
            counters.value(&format!("{sense}Frames")) + counters.value(&format!("{sense}Packets"))
        };
        Self {
            frames: ["Rx", "Tx"].map(frames),
            octets: ["RxOctets", "TxOctets"].map(|name| counters.value(name)),
        }
    }

    fn and(self, other: Self) -> Self {
        let sum = |one: [u64; 2], other: [u64; 2]| [one[0] + other[0], one[1] + other[1]];
        Self { frames: sum(self.frames, other.frames), octets: sum(self.octets, other.octets) }
    }

    fn since(self, before: Self, sense: Sense, elapsed: f64) -> Pace {
        let per_second = |now: [u64; 2], before: [u64; 2]| {
            now[sense as usize].saturating_sub(before[sense as usize]) as f64 / elapsed
        };
        Pace {
            frames_per_second: per_second(self.frames, before.frames),
            megabits_per_second: per_second(self.octets, before.octets) * 8.0 / 1e6,
        }
    }
}

/// Watched counters of a link or a site.
struct Figures<'r> {
    name: &'r str,
    plain: Side,
    wire: Side,
    /// All that are not 0.
    discards: Vec<Discard>,
}

impl<'r> Figures<'r> {
    fn of_link(link: &'r LinkReport) -> Self {
        let places = link.groups().into_iter();
        let of_link = places.flat_map(|(place, counters, row)| discards(place, counters, row));
        let groups = link.fieldbus.iter().flat_map(CellReport::groups);
        let of_cell =
            groups.flat_map(|(group, place, counters)| discards(place, counters, |name| group.counter(name)));
        let discards = of_link.chain(of_cell);
        Self {
            name: &link.name,
            plain: Side::of(&link.plain.counters),
            wire: Side::of(&link.protected.counters),
            discards: discards.collect(),
        }
    }

    fn of_site(site: &'r SiteReport) -> Self {
        let discards = site
            .groups()
            .into_iter()
            .flat_map(|(group, place, counters)| discards(place, counters, |name| group.counter(name)));
        Self {
            name: &site.name,
            plain: Side::of(&site.lan.counters),
            wire: site.udp.iter().map(|port| Side::of(&port.counters)).fold(Side::default(), Side::and),
            discards: discards.collect(),
        }
    }
}

fn discards(
    place: String,
    counters: &Counters,
    row: impl Fn(&str) -> Option<&'static Counter>,
) -> Vec<Discard> {
    let found = counters.iter().filter(|(_, count)| *count > 0).filter_map(|(name, count)| {
        let row = row(name).filter(|row| row.discard)?;
        let (place, name) = (place.clone(), name.to_owned());
        Some(Discard { place, name, meaning: row.meaning, count, per_second: None })
    });
    found.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use report::samples::sample;
    use report::table;

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
        let meaning = table::counter("InPktsBadTag").unwrap().meaning;
        vec![Discard { place: "SecY".into(), name: "InPktsBadTag".into(), meaning, count, per_second }]
    }

    #[test]
    fn rates_are_differences_over_the_gateways_own_time() {
        let mut follower = Follower::default();
        let first = follower.follow(&at(10_000, 100, 1_000_000, 6)).links;
        assert_eq!(first, [Activity { ways: None, discards: bad_tags(6, None) }]);
        let second = follower.follow(&at(12_000, 300, 2_000_000, 10)).links.remove(0);
        let [out, back] = second.ways.unwrap();
        assert_eq!(out.plain, Pace { frames_per_second: 100.0, megabits_per_second: 4.0 });
        assert_eq!(out.protected, Pace { frames_per_second: 200.0, megabits_per_second: 8.0 });
        assert_eq!(back, Way::default());
        assert_eq!(second.discards, bad_tags(10, Some(2.0)));
        // It is marked for a while after it has stopped.
        assert_eq!(
            follower.follow(&at(22_000, 300, 2_000_000, 10)).links[0].discards,
            bad_tags(10, Some(2.0))
        );
        assert_eq!(follower.follow(&at(22_500, 300, 2_000_000, 10)).links[0].discards, bad_tags(10, None));
        // The same report again has no rates, and a restart begins anew.
        assert_eq!(follower.follow(&at(22_500, 300, 2_000_000, 10)).links[0].ways, None);
        assert_eq!(
            follower.follow(&at(500, 1, 100, 1)).links,
            [Activity { ways: None, discards: bad_tags(1, None) }]
        );
    }
}
