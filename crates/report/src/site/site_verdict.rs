//! The verdict on a site, and what happens to its packets that has a name of its own in the log.

use std::collections::BTreeMap;

use super::super::link_verdict::{discards, waiting};
use super::super::recent::RecentTraffic;
use super::super::verdict::{Finding, Level, State, worst};
use super::super::{Concern, Verdict};
use super::standby::standby_finding;
use super::{SitePeerReport, SiteReport};

/// Facts for a verdict on a site, beside its report.
#[derive(Clone, Debug, Default)]
pub struct SiteFacts {
    /// Recent discards.
    pub recent: RecentTraffic,
    /// Recent traffic of each peer, and of its discards [`FORGED`].
    pub peers: BTreeMap<String, RecentTraffic>,
}

/// The verdict on a site, and all that is not as it should be.
pub fn site_verdict(report: &SiteReport, facts: &SiteFacts) -> (Verdict, Vec<Concern>) {
    let mut findings: Vec<Finding> = report.waiting.as_ref().map(waiting).into_iter().collect();
    // Before a channel that is away: who changes packets may have cut it, too.
    let recent = |peer: &SitePeerReport| facts.peers.get(&peer.name);
    findings.extend(report.peers.iter().filter_map(|peer| forged(peer, recent(peer)?)));
    findings.extend(report.peers.iter().filter_map(|peer| late(peer, recent(peer)?)));
    // Before its channel: the other box is a peer too.
    findings.extend(report.standby.as_ref().and_then(|standby| standby_finding(standby, &facts.recent)));
    for peer in &report.peers {
        findings.extend(peer_finding(peer));
        findings.extend(recent(peer).and_then(|recent| one_way(peer, recent)));
    }
    findings.extend(discards(&facts.recent));
    let text = format!("All peers are connected: {}.", report.peers.len());
    worst(findings, Finding::new(State::Protecting, Level::Good, text))
}

fn peer_finding(peer: &SitePeerReport) -> Option<Finding> {
    let SitePeerReport { name, state, seconds, reason, .. } = peer;
    let because = if reason.is_empty() { String::new() } else { format!(": {reason}") };
    Some(match state.as_str() {
        "connected" => return None,
        "plain" => Finding::alarm(
            State::SendsInClear,
            format!(
                "Peer {name} is plain: a stranger on the path reads the addresses of all frames, and can put frames of any sender into the LAN."
            ),
        ),
        "refused" => Finding::alarm(
            State::Refused,
            format!("Peer {name} is refused, or refuses this site, for {seconds} s{because}."),
        ),
        _ => Finding::attention(
            State::NoChannel,
            format!("Peer {name} has had no management channel for {seconds} s{because}."),
        ),
    })
}

/// A peer whose data has a UDP port of its own: the channel may pass where that does not.
fn one_way(peer: &SitePeerReport, recent: &RecentTraffic) -> Option<Finding> {
    let count =
        recent.unanswered.filter(|_| peer.state == "connected" && peer.mode == "header-encryption")?;
    let last = match recent.valid {
        Some(ago) => format!("the last valid packet came {} s ago", ago.as_secs()),
        None => "no valid packet has come".to_owned(),
    };
    let name = &peer.name;
    let text = format!(
        "Peer {name} is connected, but {last}; {count} were sent meanwhile. Check whether the path passes the UDP port of header encryption."
    );
    Some(Finding::attention(State::OneWay, text))
}

/// Packets that somebody changed, or made of a true one: what came on its own looks otherwise.
fn forged(peer: &SitePeerReport, recent: &RecentTraffic) -> Option<Finding> {
    let [long_forms, headers] = FORGED.map(|name| recent_discards(recent, name));
    let name = &peer.name;
    let text = format!(
        "Somebody changed packets of peer {name} in the last ten seconds: {long_forms} long forms, {headers} other headers. The site discarded them and learned nothing from them. Find out who is between the sites."
    );
    (long_forms + headers > 0).then(|| Finding::attention(State::ForgedHeaders, text))
}

/// Late packets, and no others.
fn late(peer: &SitePeerReport, recent: &RecentTraffic) -> Option<Finding> {
    let late = late_without_new(recent)?;
    let name = &peer.name;
    let text = format!(
        "{late} packets of peer {name} were late, and no new one came: somebody between the sites holds packets back or replays them."
    );
    Some(Finding::attention(State::LateFrames, text))
}

fn recent_discards(recent: &RecentTraffic, wanted: &str) -> u64 {
    recent.discards.iter().filter(|(name, _)| name == wanted).map(|(_, count)| count).sum()
}

fn late_without_new(recent: &RecentTraffic) -> Option<u64> {
    recent.failing.iter().find_map(|failing| failing.late)
}

/// Discards of a peer that no accident makes: long forms, and other headers.
pub const FORGED: [&str; 2] = ["InPktsForgedLongForm", "InPktsForgedHeader"];
/// Discards of packets that were new once.
pub const LATE: [&str; 2] = ["InPktsLate", "InPktsReplayed"];

/// Something that concerns the security of a site, and has a name of its own in the log: for logs that are searched.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum SiteEvent {
    /// Long forms that were changed on their way.
    ForgedLongForm,
    /// Headers that were changed on their way.
    ForgedHeader,
    /// Late packets, and none that is new.
    LateWithoutNew,
}

impl SiteEvent {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::ForgedLongForm, Self::ForgedHeader, Self::LateWithoutNew];

    /// Its name in the log.
    pub const fn name(self) -> &'static str {
        match self {
            Self::ForgedLongForm => "forged-long-form",
            Self::ForgedHeader => "forged-header",
            Self::LateWithoutNew => "late-without-new",
        }
    }

    /// Number of a peer's packets that make it happen now, if any do.
    pub fn count(self, recent: &RecentTraffic) -> Option<u64> {
        let count = match self {
            Self::ForgedLongForm => recent_discards(recent, FORGED[0]),
            Self::ForgedHeader => recent_discards(recent, FORGED[1]),
            Self::LateWithoutNew => late_without_new(recent).unwrap_or(0),
        };
        (count > 0).then_some(count)
    }

    /// The line's words behind its name.
    pub fn text(self, peer: &str, count: u64) -> String {
        match self {
            Self::ForgedLongForm => format!(
                "{count} packets of peer {peer:?} that introduce new flows were changed on the way, and discarded; find out who is between the sites"
            ),
            Self::ForgedHeader => format!(
                "{count} packets of peer {peer:?} had changed headers, and were discarded; find out who is between the sites"
            ),
            Self::LateWithoutNew => format!(
                "{count} packets of peer {peer:?} came late or again, and no new one came; somebody between the sites holds packets back or replays them"
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::WaitingReport;
    use super::super::super::recent::FailingSc;
    use super::*;
    use crate::samples::sample_site;

    #[test]
    fn each_state_of_a_peer_is_judged() {
        for (state, grave, words) in [
            ("plain", Some(true), "is plain"),
            ("refused", Some(true), "is refused"),
            ("waiting", Some(false), "Peer berlin has had no management channel for 61 s: why"),
            ("connecting", Some(false), "had no management channel"),
            ("greeting", Some(false), "no management channel"),
            ("connected", None, ""),
        ] {
            let mut site = sample_site();
            site.peers[0].state = state.into();
            site.peers[0].reason = "why".into();
            let (is, found) = site_verdict(&site, &SiteFacts::default());
            assert_eq!(found.first().map(|concern| concern.grave), grave, "{state}");
            assert!(found.iter().all(|concern| concern.text.contains(words)), "{found:?}");
            assert_eq!(is.protecting, grave != Some(true), "{state}");
            assert_eq!(is.level == Level::Good, grave.is_none(), "{state}");
        }
        let mut site = sample_site();
        let why = "interface eth2 is missing".into();
        site.waiting = Some(WaitingReport { seconds: 7, why, cut: false });
        let (is, found) = site_verdict(&site, &SiteFacts::default());
        assert!(found.len() == 1 && found[0].grave && found[0].text.contains("eth2"), "{found:?}");
        assert_eq!((is.state.as_str(), is.protecting), ("waiting", false));
    }

    #[test]
    fn data_that_comes_one_way_alone_is_told() {
        let mut site = sample_site();
        let recent = RecentTraffic { unanswered: Some(9), ..RecentTraffic::default() };
        let facts = SiteFacts { peers: [("berlin".to_owned(), recent)].into(), ..SiteFacts::default() };
        assert_eq!(site_verdict(&site, &facts).0.state, "protecting", "data goes with the channel");
        site.peers[0].mode = "header-encryption".into();
        let (is, _) = site_verdict(&site, &facts);
        assert_eq!((is.state.as_str(), is.level, is.protecting), ("one way", Level::Attention, false));
    }

    #[test]
    fn changed_packets_are_told_with_their_peer() {
        let mut site = sample_site();
        let peer =
            RecentTraffic { discards: vec![("InPktsForgedLongForm".into(), 3)], ..RecentTraffic::default() };
        let facts = SiteFacts { recent: peer.clone(), peers: [("berlin".to_owned(), peer)].into() };
        let (is, concerns) = site_verdict(&site, &facts);
        assert_eq!((is.state.as_str(), is.level, is.protecting), ("forged headers", Level::Attention, true));
        assert!(is.text.contains("peer berlin") && is.text.contains("3 long forms"), "{}", is.text);
        assert_eq!(concerns.len(), 2, "and the discards: {concerns:?}");
        site.peers[0].state = "connecting".into();
        assert_eq!(
            site_verdict(&site, &facts).0.state,
            "forged headers",
            "whoever does that may have cut the channel"
        );
        for name in FORGED {
            assert!(tunnel::PeerCounters::TABLE.iter().any(|row| row.name == name && row.discard), "{name}");
        }
    }

    #[test]
    fn late_packets_without_a_new_one_are_told() {
        let site = sample_site();
        let of = |late: Option<u64>| {
            let failing =
                late.map(|late| FailingSc { sci: "berlin".into(), not_valid: None, late: Some(late) });
            let discards = vec![("InPktsLate".into(), 7)];
            let peer = RecentTraffic {
                failing: failing.into_iter().collect(),
                discards,
                ..RecentTraffic::default()
            };
            site_verdict(
                &site,
                &SiteFacts { recent: peer.clone(), peers: [("berlin".to_owned(), peer)].into() },
            )
            .0
        };
        let is = of(Some(7));
        assert_eq!((is.state.as_str(), is.level), ("late frames", Level::Attention));
        assert!(is.text.contains("7 packets of peer berlin"), "{}", is.text);
        assert_ne!(of(None).state, "late frames", "others came as well");
        for name in LATE {
            assert!(tunnel::PeerCounters::TABLE.iter().any(|row| row.name == name && row.discard), "{name}");
        }
    }

    #[test]
    fn events_have_names_that_readme_lists() {
        let failing = vec![FailingSc { sci: "berlin".into(), not_valid: None, late: Some(3) }];
        let discards = FORGED.iter().zip(1..).map(|(name, count)| ((*name).to_owned(), count)).collect();
        let recent = RecentTraffic { failing, discards, ..RecentTraffic::default() };
        assert_eq!(SiteEvent::ALL.map(|event| event.count(&recent)), [Some(1), Some(2), Some(3)]);
        assert_eq!(SiteEvent::ALL.map(|event| event.count(&RecentTraffic::default())), [None; 3]);
        let chapter = include_str!("../../../../docs/book/src/watching.md");
        let names = SiteEvent::ALL.map(SiteEvent::name);
        let of_links = ["stranger-under-cak", "fallback-in-use", "fallback-ended", "integrity-refused"];
        for name in names.iter().chain(&of_links) {
            assert!(chapter.contains(&format!("| `{name}` |")), "watching.md does not list {name}");
        }
    }
}
