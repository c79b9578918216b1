//! The verdict on a site, and what happens to its packets that has a name of its own in the log.

use std::collections::BTreeMap;

use super::super::link_verdict::{discards, unread, waiting};
use super::super::recent::RecentTraffic;
use super::super::verdict::{Finding, Level, State, worst};
use super::super::{Concern, Verdict};
use super::delivery::Undelivered;
use super::standby::standby_finding;
use super::{SitePeerReport, SiteReport};

/// Facts for a verdict on a site, beside its report.
#[derive(Clone, Debug, Default)]
pub struct SiteFacts {
    /// Recent discards.
    pub recent: RecentTraffic,
    /// Recent traffic of each peer, and of its discards [`FORGED`].
    pub peers: BTreeMap<String, RecentTraffic>,
    /// Of each peer that says what it has counted: what does not arrive.
    pub undelivered: BTreeMap<String, Undelivered>,
}

/// The verdict on a site, and all that is not as it should be.
pub fn site_verdict(report: &SiteReport, facts: &SiteFacts) -> (Verdict, Vec<Concern>) {
    let mut findings: Vec<Finding> = report.waiting.as_ref().map(waiting).into_iter().collect();
    findings.extend(report.unread.then(unread));
    // Before a channel that is away: who changes packets may have cut it, too.
    let recent = |peer: &SitePeerReport| facts.peers.get(&peer.name);
    findings.extend(report.peers.iter().filter_map(|peer| forged(peer, recent(peer)?)));
    findings.extend(report.peers.iter().filter_map(|peer| late(peer, recent(peer)?)));
    // Before its channel: the other box is a peer too.
    findings.extend(report.standby.as_ref().and_then(|standby| standby_finding(standby, &facts.recent)));
    let carries = carries(report);
    for peer in &report.peers {
        findings.extend(peer_finding(report, peer, carries));
        findings.extend(match facts.undelivered.get(&peer.name) {
            Some(undelivered) => nothing_arrives(peer, *undelivered),
            None => recent(peer).and_then(|recent| unanswered(peer, recent)),
        });
    }
    let mut recent = facts.recent.clone();
    recent.discards.retain(|(name, _)| !CHOSEN.contains(&name.as_str()));
    findings.extend(discards(&recent));
    let text = format!("All peers are connected: {}.", report.peers.len());
    worst(findings, Finding::new(State::Protecting, Level::Good, text))
}

/// Whether some other LAN can get frames. The other box of this site's own LAN is no way to one.
fn carries(report: &SiteReport) -> bool {
    let partner = report.standby.as_ref().map(|standby| standby.partner.as_str());
    let is_there = |peer: &SitePeerReport| matches!(peer.state.as_str(), "connected" | "plain");
    let mut others = report.peers.iter().filter(|peer| Some(peer.name.as_str()) != partner).peekable();
    others.peek().is_none() || others.any(is_there)
}

fn peer_finding(report: &SiteReport, peer: &SitePeerReport, carries: bool) -> Option<Finding> {
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
        _ => {
            let (level, alone) =
                if carries { (Level::Attention, "") } else { (Level::Alarm, "No peer is connected. ") };
            let ended = match reason.as_str() {
                "" => String::new(),
                reason => format!("; the latest connection, or try of one, ended: {reason}"),
            };
            let way = way_to(report, peer);
            let text =
                format!("{alone}Peer {name} has had no management channel for {seconds} s{ended}. {way}");
            Finding::new(State::NoChannel, level, text)
        }
    })
}

/// The way to a peer without a channel, and its cure.
fn way_to(report: &SiteReport, peer: &SitePeerReport) -> String {
    let bound = report.udp.iter().find(|udp| udp.what == "data");
    let own = bound.map_or_else(String::new, |udp| format!(" ({})", udp.address));
    let doctor = "frameward doctor at both ends says which it is";
    match (&peer.cure, &peer.via, &peer.endpoint) {
        (cure, ..) if !cure.is_empty() => format!("Cure: {cure}."),
        (_, Some(hub), _) => format!(
            "It is reached through {hub}: check whether its gateway runs, whether {hub} has relay = true, and the public keys; {doctor}."
        ),
        (_, None, Some(endpoint)) => format!(
            "This site calls it at {endpoint}: check whether its gateway runs, whether firewalls and NAT there let that UDP port in, and the public keys; {doctor}."
        ),
        (_, None, None) => format!(
            "It has no endpoint here, so it has to call this site: check whether its gateway runs, whether firewalls and NAT here let in the UDP port of bind{own}, and the public keys; {doctor}."
        ),
    }
}

/// Both ends have counted: what one sends does not arrive at the other. Traffic that goes one way alone is none of this.
fn nothing_arrives(peer: &SitePeerReport, undelivered: Undelivered) -> Option<Finding> {
    let name = &peer.name;
    let what = match (undelivered.outward, undelivered.inward) {
        _ if peer.state != "connected" => return None,
        (None, None) => return None,
        (Some(sent), None) => format!("it got none of the last {sent} octets that were sent to it"),
        (None, Some(sent)) => format!("none of the last {sent} octets that it sent is valid here, or came"),
        (Some(there), Some(here)) => format!(
            "no packet arrives: it got none of the last {there} octets that were sent to it, and none of the last {here} octets that it sent came"
        ),
    };
    let text = format!("Peer {name} is connected, but {what}. {}", cure(peer));
    Some(Finding::alarm(State::OneWay, text))
}

/// A peer that does not say what it got: frames may go one way alone, so this proves nothing against it.
fn unanswered(peer: &SitePeerReport, recent: &RecentTraffic) -> Option<Finding> {
    let name = &peer.name;
    let state = match peer.state.as_str() {
        "connected" => "connected",
        "plain" => "plain, so that nobody says what arrives",
        _ => return None,
    };
    let count = recent.unanswered?;
    let last = match recent.valid {
        Some(ago) => format!("the last valid packet came {} s ago", ago.as_secs()),
        None => "no valid packet has come".to_owned(),
    };
    let text = format!("Peer {name} is {state}, but {last}; {count} were sent meanwhile. {}", cure(peer));
    Some(Finding::attention(State::Unanswered, text))
}

/// Names the part to check on the way of a peer's packets, as it differs from the channel's.
fn cure(peer: &SitePeerReport) -> String {
    match (peer.via.as_ref().filter(|_| peer.relayed), peer.mode.as_str()) {
        (Some(hub), _) => format!("Check whether {hub} relays (relay = true there), and what it discards."),
        (None, "header-encryption") => {
            "Check whether the path passes the UDP port of header encryption.".to_owned()
        }
        (None, "plain") => "Check whether the path passes VXLAN's UDP port both ways.".to_owned(),
        (None, _) => "Check whether a firewall on the path drops UDP packets that are no QUIC, or long ones."
            .to_owned(),
    }
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
/// Discards that a site's configuration asks for: frames of VLANs that `vlans` does not list. No verdict has them.
pub const CHOSEN: [&str; 2] = ["OutPktsOtherVlan", "InPktsOtherVlan"];
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
            (
                "waiting",
                Some(true),
                "No peer is connected. Peer berlin has had no management channel for 61 s; the latest connection, or try of one, ended: why. This site calls it at berlin.example.net:7787",
            ),
            ("connecting", Some(true), "had no management channel"),
            ("greeting", Some(true), "no management channel"),
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
        (site.waiting, site.unread) = (None, true);
        let (is, found) = site_verdict(&site, &SiteFacts::default());
        assert!(found[0].grave && is.text.contains("worker does not answer"), "{found:?}");
        assert_eq!((is.state.as_str(), is.protecting), ("waiting", false));
    }

    /// As a link does that has no live peer. With another peer connected, frames still reach a LAN, but not by way of the other box of this one.
    #[test]
    fn without_any_connected_peer_nothing_is_protected() {
        for (states, partner, protecting, level) in [
            (&["connecting"][..], None, false, Level::Alarm),
            (&["connecting", "waiting"], None, false, Level::Alarm),
            (&["connecting", "connected"], None, true, Level::Attention),
            (&["connected", "connected"], None, true, Level::Good),
            (&["connecting", "connected"], Some("peer-1"), false, Level::Alarm),
            (&["connected", "connecting"], Some("peer-1"), true, Level::Attention),
        ] {
            let mut site = sample_site();
            let of = |(number, state): (usize, &&str)| SitePeerReport {
                name: format!("peer-{number}"),
                state: (*state).to_owned(),
                ..site.peers[0].clone()
            };
            site.peers = states.iter().enumerate().map(of).collect();
            site.standby = partner.map(|partner: &str| super::super::StandbyReport {
                role: "active".into(),
                cause: String::new(),
                since_ms: 0,
                takeovers: 0,
                partner: partner.into(),
                partner_role: Some("standby".into()),
                heard_ms_ago: Some(10),
                other_takeover_ms: None,
            });
            let (is, concerns) = site_verdict(&site, &SiteFacts::default());
            assert_eq!((is.protecting, is.level), (protecting, level), "{states:?} {is:?}");
            let away = states.iter().filter(|state| **state != "connected").count();
            assert_eq!(concerns.len(), away, "{concerns:?}");
            assert_eq!(is.text.starts_with("No peer is connected."), !protecting, "{is:?}");
        }
    }

    /// A peer that is away has a cause and a cure: the one that its last try had, or what to check on the way there.
    #[test]
    fn a_peer_that_is_away_has_a_cure() {
        for (endpoint, via, cure, words) in [
            (Some("berlin.example.net:7787"), None, "", "This site calls it at berlin.example.net:7787"),
            (
                None,
                None,
                "",
                "it has to call this site: check whether its gateway runs, whether firewalls and NAT here let in the UDP port of bind (0.0.0.0:7787)",
            ),
            (None, Some("hub"), "", "whether hub has relay = true"),
            (Some("berlin:7"), None, "correct the name", "Cure: correct the name."),
        ] {
            let mut site = sample_site();
            let peer = &mut site.peers[0];
            peer.state = "connecting".into();
            (peer.endpoint, peer.via) = (endpoint.map(str::to_owned), via.map(str::to_owned));
            peer.cure = cure.to_owned();
            let (is, _) = site_verdict(&site, &SiteFacts::default());
            assert!(is.text.contains(words), "{is:?}");
        }
    }

    /// Nowhere green when nothing valid arrives though something is sent.
    #[test]
    fn what_does_not_arrive_is_told() {
        let there = Undelivered { outward: Some(900), inward: None };
        let here = Undelivered { outward: None, inward: Some(700) };
        let both = Undelivered { outward: Some(900), inward: Some(700) };
        let silent = RecentTraffic { unanswered: Some(9), ..RecentTraffic::default() };
        // Of peers that say what they got, that alone counts: frames may go one way.
        let (one_way, well, unanswered) = ("one way", "protecting", "unanswered");
        for (told, recent, state, level, words) in [
            (Some(Undelivered::default()), silent.clone(), well, Level::Good, "connected: 1"),
            (Some(there), silent.clone(), one_way, Level::Alarm, "it got none of the last 900 octets"),
            (Some(here), silent.clone(), one_way, Level::Alarm, "none of the last 700 octets that it sent"),
            (Some(both), silent.clone(), one_way, Level::Alarm, "no packet arrives"),
            (None, silent.clone(), unanswered, Level::Attention, "no valid packet has come; 9 were sent"),
            (None, RecentTraffic::default(), well, Level::Good, ""),
        ] {
            for (mode, cure) in
                [("identifier", "no QUIC"), ("header-encryption", "port of header encryption")]
            {
                let mut site = sample_site();
                site.peers[0].mode = mode.into();
                let facts = SiteFacts {
                    peers: [("berlin".to_owned(), recent.clone())].into(),
                    undelivered: told.map(|told| ("berlin".to_owned(), told)).into_iter().collect(),
                    ..SiteFacts::default()
                };
                let (is, _) = site_verdict(&site, &facts);
                assert_eq!((is.state.as_str(), is.level), (state, level), "{is:?}");
                // Silence alone wakes nobody: an earlier build does not tell what it got.
                assert_eq!(is.protecting, state != one_way, "{is:?}");
                assert!(is.text.contains(words) && is.text.contains(cure) != (state == well), "{is:?}");
                // A channel that is away has words of its own.
                site.peers[0].state = "connecting".into();
                assert_eq!(site_verdict(&site, &facts).0.state, "no channel");
            }
        }
        let mut site = sample_site();
        (site.peers[0].relayed, site.peers[0].via) = (true, Some("hub".into()));
        let undelivered = [("berlin".to_owned(), there)].into();
        let (is, _) = site_verdict(&site, &SiteFacts { undelivered, ..SiteFacts::default() });
        assert!(is.text.contains("Check whether hub relays"), "{is:?}");
        // A plain peer is an alarm by itself, and it says nothing.
        (site.peers[0].state, site.peers[0].mode) = ("plain".into(), "plain".into());
        let facts = SiteFacts { peers: [("berlin".to_owned(), silent)].into(), ..SiteFacts::default() };
        let (is, concerns) = site_verdict(&site, &facts);
        assert_eq!((is.state.as_str(), is.level), ("sends in clear", Level::Alarm));
        assert!(
            concerns[1].text.contains("is plain, so that nobody says what arrives, but no valid"),
            "{concerns:?}"
        );
    }

    /// On a trunk there are always frames of VLANs that stay.
    #[test]
    fn frames_of_vlans_that_stay_are_no_concern_and_others_are() {
        let of = |names: &[&str]| {
            let discards = names.iter().map(|name| ((*name).to_owned(), 9)).collect();
            let recent = RecentTraffic { discards, ..RecentTraffic::default() };
            site_verdict(&sample_site(), &SiteFacts { recent, ..SiteFacts::default() })
        };
        let (is, concerns) = of(&CHOSEN);
        assert_eq!((is.state.as_str(), is.level, concerns.len()), ("protecting", Level::Good, 0));
        let (is, _) = of(&[CHOSEN[0], "OutPktsLoop", CHOSEN[1]]);
        assert_eq!((is.state.as_str(), is.level), ("discards", Level::Attention));
        assert!(is.text.contains("OutPktsLoop 9") && !is.text.contains("OtherVlan"), "{}", is.text);
        for name in CHOSEN {
            let mut rows = dataplane::site::SitePathCounters::TABLE.iter();
            assert!(rows.any(|row| row.name == name && row.discard), "{name}");
        }
    }

    #[test]
    fn changed_packets_are_told_with_their_peer() {
        let mut site = sample_site();
        let peer =
            RecentTraffic { discards: vec![("InPktsForgedLongForm".into(), 3)], ..RecentTraffic::default() };
        let facts = SiteFacts {
            recent: peer.clone(),
            peers: [("berlin".to_owned(), peer)].into(),
            ..SiteFacts::default()
        };
        let (is, concerns) = site_verdict(&site, &facts);
        assert_eq!((is.state.as_str(), is.level, is.protecting), ("forged headers", Level::Attention, true));
        assert!(is.text.contains("peer berlin") && is.text.contains("3 long forms"), "{}", is.text);
        assert_eq!(concerns.len(), 2, "and the discards: {concerns:?}");
        // Before a channel that is away, unless nothing passes at all.
        site.peers.push(SitePeerReport { name: "hamburg".into(), ..site.peers[0].clone() });
        site.peers[0].state = "connecting".into();
        assert_eq!(
            site_verdict(&site, &facts).0.state,
            "forged headers",
            "whoever does that may have cut the channel"
        );
        site.peers.pop();
        let (is, concerns) = site_verdict(&site, &facts);
        assert_eq!((is.state.as_str(), concerns.len()), ("no channel", 3), "{concerns:?}");
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
                &SiteFacts {
                    recent: peer.clone(),
                    peers: [("berlin".to_owned(), peer)].into(),
                    ..SiteFacts::default()
                },
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
