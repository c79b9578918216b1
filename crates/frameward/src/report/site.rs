//! A site: its LAN, its UDP ports, its peers, and what it knows of flows and stations.
//!
//! Counters stand in groups, since each part of a site counts for itself and some of them use one word: a
//! [`Group`](super::table::Group) says which.

use serde::{Deserialize, Serialize};

use std::collections::BTreeMap;

use super::judge::{discards, waiting};
use super::lately::{RECENT, Seen};
use super::table::Group;
use super::verdict::{Finding, Level, State, judge};
use super::{Concern, Counters, PortReport, Verdict, WaitingReport};

/// A site.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct SiteReport {
    /// The site's name.
    pub name: String,
    /// How it is, made of what was verified lately.
    #[serde(default)]
    pub verdict: Verdict,
    /// What is not as it should be, the worst first; empty if all is well.
    pub concerns: Vec<Concern>,
    /// What it waits for, if nothing passes between its LAN and its peers.
    pub waiting: Option<WaitingReport>,
    /// What its peers know it by; none if all of them are plain.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub public_key: Option<String>,
    /// The side of the LAN.
    pub lan: PortReport,
    /// The side of the other sites.
    pub udp: Vec<UdpReport>,
    /// What was counted between the ports: what kind of frame or packet it was.
    pub path: Counters,
    /// What was counted of MACsec frames and of packets, as far as they are no peer's.
    pub tunnel: Counters,
    /// What the management channel counted; none if all peers are plain.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub channel: Option<Counters>,
    /// The other sites, in the order of the configuration.
    pub peers: Vec<SitePeerReport>,
    /// Stations whose place is known: a limited number of them.
    pub stations: Vec<StationReport>,
    /// Flows towards peers: a limited number of them.
    pub flows: Vec<FlowReport>,
}

/// A UDP port.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct UdpReport {
    /// `data`, `header` or `plain`.
    pub what: String,
    /// What it is bound to.
    pub address: String,
    /// Packets and octets, and what was lost.
    pub counters: Counters,
}

/// Another site.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct SitePeerReport {
    /// Its name.
    pub name: String,
    /// `identifier`, `header-encryption` or `plain`.
    pub mode: String,
    /// Where it is configured to be; none: it connects from anywhere.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub endpoint: Option<String>,
    /// `plain`, `waiting`, `connecting`, `refused`, `greeting` or `connected`.
    pub state: String,
    /// For so long, in seconds.
    pub seconds: u64,
    /// Why there is no connection, or why the last one ended; empty if there is nothing to say.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// Where its data goes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    /// Microseconds of a round trip over the management channel.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub round_trip_us: Option<u64>,
    /// Octets of the largest UDP payload towards it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path_payload: Option<u16>,
    /// Where this site is, as the peer sees it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seen_at: Option<String>,
    /// How the connection's keys were agreed on: `X25519MLKEM768`, or `X25519` alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key_exchange: Option<String>,
    /// Seconds for which the peer has been running, as far as is known here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instance_seconds: Option<u64>,
    /// The epoch that is sent under.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transmit_epoch: Option<EpochReport>,
    /// The newest epoch that is received under.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub receive_epoch: Option<EpochReport>,
    /// Flows towards it that it knows.
    pub flows_acknowledged: usize,
    /// Flows towards it whose announcement it has not answered yet.
    pub flows_announced: usize,
    /// Flows of its own that are known here.
    pub peer_flows: usize,
    /// What was counted of its frames and packets.
    pub counters: Counters,
    /// What was counted of what was agreed on with it; none if it is plain.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<Counters>,
}

/// An epoch.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct EpochReport {
    /// Its number.
    pub epoch: u32,
    /// Its age in seconds.
    pub seconds: u64,
}

/// A station whose place is known.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct StationReport {
    /// Its MAC address.
    pub address: String,
    /// The peer behind which it is; none: on this LAN.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peer: Option<String>,
    /// Seconds since it was heard there last.
    pub seconds: u64,
}

/// A flow of frames towards a peer.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct FlowReport {
    /// The peer.
    pub peer: String,
    /// Its number towards that peer.
    pub index: u16,
    /// Its SCI, if its frames have one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sci: Option<String>,
    /// Its source address.
    pub source: String,
    /// Its destination address.
    pub destination: String,
    /// Whether the peer knows it.
    pub acknowledged: bool,
    /// Seconds since a frame of it came last.
    pub seconds: u64,
}

impl SiteReport {
    /// All groups of counters, with the words for where each counts, in the order of a report.
    pub fn groups(&self) -> Vec<(Group, String, &Counters)> {
        let mut groups = vec![(Group::Lan, self.lan.interface.clone(), &self.lan.counters)];
        groups.extend(
            self.udp.iter().map(|port| (Group::Udp, format!("UDP {}", port.address), &port.counters)),
        );
        groups.push((Group::Path, "between the ports".to_owned(), &self.path));
        groups.push((Group::Tunnel, "tunnel".to_owned(), &self.tunnel));
        groups.extend(
            self.channel.iter().map(|channel| (Group::Channel, "management channel".to_owned(), channel)),
        );
        for peer in &self.peers {
            groups.push((Group::Peer, format!("peer {}", peer.name), &peer.counters));
            groups.extend(
                peer.session
                    .iter()
                    .map(|session| (Group::Session, format!("session with {}", peer.name), session)),
            );
        }
        groups
    }
}

/// What a verdict on a site is made of, beside its report.
#[derive(Clone, Debug, Default)]
pub(crate) struct SiteFacts {
    /// What was discarded lately.
    pub(crate) seen: Seen,
    /// What passed to and from each peer, and of its discards [`FORGED`].
    pub(crate) peers: BTreeMap<String, Seen>,
}

/// The verdict on a site, and all that is not as it should be.
pub(crate) fn verdict(report: &SiteReport, facts: &SiteFacts) -> (Verdict, Vec<Concern>) {
    let mut findings: Vec<Finding> = report.waiting.as_ref().map(waiting).into_iter().collect();
    // Before a channel that is away: who changes packets may have cut it, too.
    let seen = |peer: &SitePeerReport| facts.peers.get(&peer.name);
    findings.extend(report.peers.iter().filter_map(|peer| forged(peer, seen(peer)?)));
    findings.extend(report.peers.iter().filter_map(|peer| late(peer, seen(peer)?)));
    for peer in &report.peers {
        findings.extend(peer_finding(peer));
        findings.extend(seen(peer).and_then(|seen| one_way(peer, seen)));
    }
    findings.extend(discards(&facts.seen));
    let text = format!("All peers are connected: {}.", report.peers.len());
    judge(findings, Finding::new(State::Protecting, Level::Good, text))
}

fn peer_finding(peer: &SitePeerReport) -> Option<Finding> {
    let SitePeerReport { name, state, seconds, reason, .. } = peer;
    let because = if reason.is_empty() { String::new() } else { format!(": {reason}") };
    Some(match state.as_str() {
        "connected" => return None,
        "plain" => Finding::alarm(
            State::SendsInClear,
            format!(
                "Peer {name} is plain: who is on the way sees the addresses of all frames, and can put frames of any sender into the LAN."
            ),
        ),
        "refused" => Finding::alarm(
            State::Refused,
            format!("Peer {name} is refused, or refuses this site, for {seconds} s{because}."),
        ),
        _ => Finding::attention(
            State::NoChannel,
            format!("There is no management channel to peer {name}, for {seconds} s{because}."),
        ),
    })
}

/// A peer whose data has a UDP port of its own: the channel may pass where that does not.
fn one_way(peer: &SitePeerReport, seen: &Seen) -> Option<Finding> {
    let count = seen.unanswered.filter(|_| peer.state == "connected" && peer.mode == "header-encryption")?;
    let last = match seen.valid {
        Some(ago) => format!("the last valid packet came {} s ago", ago.as_secs()),
        None => "no valid packet has come".to_owned(),
    };
    let name = &peer.name;
    let text = format!(
        "Peer {name} is connected, and {last}; {count} were sent meanwhile: see whether the way between lets the UDP port of header encryption pass."
    );
    Some(Finding::attention(State::OneWay, text))
}

/// Packets that somebody changed, or made of a true one: what came on its own looks otherwise.
fn forged(peer: &SitePeerReport, seen: &Seen) -> Option<Finding> {
    let of =
        |wanted: &str| seen.discards.iter().filter(|(name, _)| name == wanted).map(|(_, count)| count).sum();
    let [long_forms, headers]: [u64; 2] = FORGED.map(of);
    let name = &peer.name;
    let text = format!(
        "Packets of peer {name} are changed on their way, in the last ten seconds: {long_forms} long forms, {headers} other headers. They were discarded, and nothing was learned of them: see who is between the sites."
    );
    (long_forms + headers > 0).then(|| Finding::attention(State::ForgedHeaders, text))
}

/// Late packets, and no others.
fn late(peer: &SitePeerReport, seen: &Seen) -> Option<Finding> {
    let late: u64 =
        seen.discards.iter().filter(|(name, _)| name == "InPktsLate").map(|(_, count)| count).sum();
    let is_silent = seen.valid.is_none_or(|ago| ago >= RECENT);
    let name = &peer.name;
    let text = format!(
        "{late} packets of peer {name} were late in the last ten seconds, and no other came: somebody between the sites holds packets back or repeats them."
    );
    (late > 0 && is_silent).then(|| Finding::attention(State::LateFrames, text))
}

/// Discards of a peer that no accident makes: long forms, and other headers.
pub(crate) const FORGED: [&str; 2] = ["InPktsForgedLongForm", "InPktsForgedHeader"];

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A site with something in every part.
    pub(crate) fn sample_site() -> SiteReport {
        let peers = vec![SitePeerReport {
            name: "berlin".into(),
            mode: "identifier".into(),
            endpoint: Some("berlin.example.net:7787".into()),
            state: "connected".into(),
            seconds: 61,
            reason: String::new(),
            address: Some("198.51.100.7:7787".into()),
            round_trip_us: Some(812),
            path_payload: Some(1472),
            seen_at: Some("203.0.113.9:20007".into()),
            key_exchange: Some("X25519MLKEM768".into()),
            instance_seconds: Some(3600),
            transmit_epoch: Some(EpochReport { epoch: 3, seconds: 12 }),
            receive_epoch: None,
            flows_acknowledged: 5,
            flows_announced: 1,
            peer_flows: 4,
            counters: Counters::new(&["OutPktsTunnelled", "InPktsLate", "InPktsTooShort"], [9, 2, 0]),
            session: Some(Counters::new(&["PeerInstances"], [1])),
        }];
        let mut report = SiteReport {
            name: "dresden".into(),
            verdict: Verdict::default(),
            concerns: Vec::new(),
            waiting: None,
            public_key: Some("00ff".into()),
            lan: PortReport {
                interface: "eth2".into(),
                engine: "af_xdp native".into(),
                mtu: 1470,
                guard: "tcx".into(),
                counters: Counters::new(&["RxFrames", "RxOctets"], [7, 700]),
            },
            udp: vec![UdpReport {
                what: "data".into(),
                address: "0.0.0.0:7787".into(),
                counters: Counters::new(&["TxPackets", "TxOctets", "TxDropped"], [8, 800, 1]),
            }],
            path: Counters::new(&["OutPktsMacControl"], [3]),
            tunnel: Counters::new(&["InPktsUnknownIdentifier", "InPktsTooShort"], [4, 6]),
            channel: Some(Counters::new(&["Connections"], [1])),
            peers,
            stations: vec![
                StationReport { address: "02:00:00:00:00:01".into(), peer: None, seconds: 1 },
                StationReport {
                    address: "02:00:00:00:00:02".into(),
                    peer: Some("berlin".into()),
                    seconds: 2,
                },
            ],
            flows: vec![FlowReport {
                peer: "berlin".into(),
                index: 3,
                sci: Some("02:00:00:00:00:0a/1".into()),
                source: "02:00:00:00:00:01".into(),
                destination: "02:00:00:00:00:02".into(),
                acknowledged: true,
                seconds: 0,
            }],
        };
        (report.verdict, report.concerns) = super::verdict(&report, &SiteFacts::default());
        report
    }

    #[test]
    fn each_state_of_a_peer_is_judged() {
        for (state, grave, words) in [
            ("plain", Some(true), "is plain"),
            ("refused", Some(true), "is refused"),
            ("waiting", Some(false), "no management channel to peer berlin, for 61 s: why"),
            ("connecting", Some(false), "no management channel"),
            ("greeting", Some(false), "no management channel"),
            ("connected", None, ""),
        ] {
            let mut site = sample_site();
            site.peers[0].state = state.into();
            site.peers[0].reason = "why".into();
            let (is, found) = verdict(&site, &SiteFacts::default());
            assert_eq!(found.first().map(|concern| concern.grave), grave, "{state}");
            assert!(found.iter().all(|concern| concern.text.contains(words)), "{found:?}");
            assert_eq!(is.protecting, grave != Some(true), "{state}");
            assert_eq!(is.level == Level::Good, grave.is_none(), "{state}");
        }
        let mut site = sample_site();
        let why = "interface eth2 is missing".into();
        site.waiting = Some(WaitingReport { seconds: 7, why, cut: false });
        let (is, found) = verdict(&site, &SiteFacts::default());
        assert!(found.len() == 1 && found[0].grave && found[0].text.contains("eth2"), "{found:?}");
        assert_eq!((is.state.as_str(), is.protecting), ("waiting", false));
    }

    #[test]
    fn data_that_comes_one_way_alone_is_told() {
        let mut site = sample_site();
        let seen = Seen { unanswered: Some(9), ..Seen::default() };
        let facts = SiteFacts { peers: [("berlin".to_owned(), seen)].into(), ..SiteFacts::default() };
        assert_eq!(verdict(&site, &facts).0.state, "protecting", "data goes with the channel");
        site.peers[0].mode = "header-encryption".into();
        let (is, _) = verdict(&site, &facts);
        assert_eq!((is.state.as_str(), is.level, is.protecting), ("one way", Level::Attention, false));
    }

    #[test]
    fn changed_packets_are_told_with_their_peer() {
        let mut site = sample_site();
        let peer = Seen { discards: vec![("InPktsForgedLongForm".into(), 3)], ..Seen::default() };
        let facts = SiteFacts { seen: peer.clone(), peers: [("berlin".to_owned(), peer)].into() };
        let (is, concerns) = verdict(&site, &facts);
        assert_eq!((is.state.as_str(), is.level, is.protecting), ("forged headers", Level::Attention, true));
        assert!(is.text.contains("peer berlin") && is.text.contains("3 long forms"), "{}", is.text);
        assert_eq!(concerns.len(), 2, "and the discards: {concerns:?}");
        site.peers[0].state = "connecting".into();
        assert_eq!(
            verdict(&site, &facts).0.state,
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
        let of = |valid: Option<u64>| {
            let valid = valid.map(std::time::Duration::from_secs);
            let peer = Seen { valid, discards: vec![("InPktsLate".into(), 7)], ..Seen::default() };
            verdict(&site, &SiteFacts { seen: peer.clone(), peers: [("berlin".to_owned(), peer)].into() }).0
        };
        for valid in [None, Some(11)] {
            let is = of(valid);
            assert_eq!((is.state.as_str(), is.level), ("late frames", Level::Attention));
            assert!(is.text.contains("7 packets of peer berlin"), "{}", is.text);
        }
        assert_ne!(of(Some(3)).state, "late frames");
    }

    #[test]
    fn a_report_comes_back_as_it_was() {
        let text = serde_json::to_string(&sample_site()).unwrap();
        assert_eq!(serde_json::from_str::<SiteReport>(&text).unwrap(), sample_site());
    }
}
