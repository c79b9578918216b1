//! The verdicts on links and sites: looked at once a second, told when they change, and a part of each report.
//!
//! Cells are looked at only when somebody asks: their figures are many, and a worker copies them between two turns. Their
//! sessions and silences have lines of the log of their own (`cell.rs`).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use control::{Gateway as Control, Notice};
use tracing::{info, warn};

use super::Running;
use super::link::RunningLink;
use super::report::requested;
use report::cell::{CLEAR_TWIN, CellReport};
use report::link_verdict::{Facts, beside_express, link_verdict};
use report::mka::MkaReport;
use report::recent::{Counted, CountedCover, CountedSc, LastValid, RecentCounters, RecentTraffic};
use report::site::delivery::{BothEnds, Deliveries};
use report::site::site_verdict::{FORGED, LATE, SiteEvent, SiteFacts, site_verdict};
use report::site::{CountedThereReport, SitePeerReport, SiteReport, StandbyReport};
use report::{Counters, LinkReport, TransmitScReport, Verdict};
use tunnel::PacketOctets;

/// Interval between looks at counters.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Time a verdict has to hold before it is logged.
const HOLDS: Duration = Duration::from_secs(3);
/// Between two lines about one link.
const LINE_EVERY: Duration = Duration::from_secs(5);
/// Between two lines about one event of one peer, which whoever sends packets can make happen.
const EVENT_EVERY: Duration = Duration::from_secs(60);
/// Time a fault of the disk stays in the verdict: leases and floors come to it more often.
const DISK: Duration = Duration::from_secs(60);
/// A disk that is late by less is slow, which the log says.
const STALLED: Duration = Duration::from_secs(5);

/// Watch over all links and sites.
#[derive(Default)]
pub(super) struct Verdicts {
    links: BTreeMap<String, Watched>,
    sites: BTreeMap<String, Watched>,
    next: Option<Instant>,
    disk: Option<(Instant, String)>,
}

/// Watch over one of them.
#[derive(Default)]
struct Watched {
    lately: RecentCounters,
    /// By name: a site's.
    peers: BTreeMap<String, WatchedPeer>,
    /// A cell's discards.
    cell: RecentCounters,
    /// Of a site that shares its LAN: role and number of take-overs that were told.
    role: Option<(String, u64)>,
    /// The other box's `takeover` that was told.
    other_takeover: Option<u64>,
    log: Log,
}

/// Watch over a site's peer.
#[derive(Default)]
struct WatchedPeer {
    lately: RecentCounters,
    deliveries: Deliveries,
    /// Time at which each event was told last.
    told: BTreeMap<SiteEvent, Duration>,
}

impl Watched {
    /// Looks at what a site has counted by now, and tells what concerns its security.
    fn look(&mut self, now: Duration, site: &SiteReport) {
        self.lately.look(now, of_site(site));
        self.tell_role(site);
        self.peers.retain(|name, _| site.peers.iter().any(|peer| peer.name == *name));
        for peer in &site.peers {
            let watched = self.peers.entry(peer.name.clone()).or_default();
            watched.lately.look(now, of_peer(peer));
            watched.deliveries.look(now, both_ends(peer));
            for (event, count) in watched.events(now) {
                let (name, text) = (event.name(), event.text(&peer.name, count));
                warn!(event = name, site = site.name, count, "{name}: {text}");
            }
        }
    }

    /// Tells a changed role of a box that shares its LAN with another.
    fn tell_role(&mut self, site: &SiteReport) {
        let Some(standby) = &site.standby else { return };
        let role = Some((standby.role.clone(), standby.takeovers));
        if self.role != role {
            self.role = role;
            let StandbyReport { role, cause, since_ms, .. } = standby;
            info!(event = "standby-role", site = site.name, role, "{role} since {since_ms} ms: {cause}");
        }
        if self.other_takeover != standby.other_takeover_ms {
            self.other_takeover = standby.other_takeover_ms;
            if let Some(milliseconds) = standby.other_takeover_ms {
                warn!(
                    event = "standby-takeover-differs",
                    site = site.name,
                    "the other box has takeover = {milliseconds}, and both use the larger one; write the same in both configurations"
                );
            }
        }
    }
}

impl WatchedPeer {
    /// The events that are to be told, each with its count.
    fn events(&mut self, now: Duration) -> Vec<(SiteEvent, u64)> {
        let recent = self.lately.traffic(now);
        let happens = SiteEvent::ALL.into_iter().filter_map(|event| Some((event, event.count(&recent)?)));
        let is_due = |(event, _): &(SiteEvent, u64)| {
            let due = self.told.get(event).is_none_or(|told| now >= *told + EVENT_EVERY);
            if due {
                self.told.insert(*event, now);
            }
            due
        };
        happens.filter(is_due).collect()
    }
}

/// Verdict that was told last.
#[derive(Default)]
struct Log {
    told: Option<(String, Duration)>,
    /// The verdict that is to be told, since when it holds.
    next: Option<(String, Duration)>,
}

impl Log {
    /// Whether this verdict is to be told: it is another one than the last, holds, and the last line is some time ago. The
    /// first one is told only if it is no good one.
    fn is_news(&mut self, now: Duration, verdict: &Verdict, is_well: bool) -> bool {
        let known = self.told.as_ref().map(|(state, _)| state.as_str());
        if known == Some(&verdict.state) {
            self.next = None;
            return false;
        }
        let since = match &self.next {
            Some((state, since)) if *state == verdict.state => *since,
            _ => {
                self.next = Some((verdict.state.clone(), now));
                now
            }
        };
        let line_is_due = self.told.as_ref().is_none_or(|(_, told)| now >= *told + LINE_EVERY);
        if now < since + HOLDS || !line_is_due {
            return false;
        }
        let is_first = self.told.is_none();
        self.told = Some((verdict.state.clone(), if is_first && is_well { Duration::ZERO } else { now }));
        self.next = None;
        !(is_first && is_well)
    }
}

fn does_not_answer(silent: Duration) -> String {
    format!(
        "The state directory's disk has not answered for {} s: replay floors are not written, and sending ends when the reserved packet numbers are used up.",
        silent.as_secs()
    )
}

impl Verdicts {
    /// Moments of a link's last valid frames.
    pub(super) fn last_valid(&self, link: &str) -> LastValid {
        self.links.get(link).map(|watched| watched.lately.last_valid()).unwrap_or_default()
    }

    /// Goes on with them in the next program.
    pub(super) fn go_on(&mut self, link: String, last: LastValid) {
        self.links.entry(link).or_default().lately = RecentCounters::going_on(last);
    }

    /// Hears what the engine has to say about its disk.
    pub(super) fn handle_notice(&mut self, now: Instant, notice: &Notice) {
        let why = match notice {
            Notice::LeaseFailed { error, .. } => format!("Packet numbers cannot be reserved: {error}."),
            Notice::FloorsFailed { error } => {
                format!(
                    "Replay floors cannot be written: {error}; after a crash, recorded frames could be replayed."
                )
            }
            Notice::FloorsLate { open } if *open >= STALLED => format!(
                "Replay floors reached the disk {} ms late: the disk or the CPU is too slow.",
                open.as_millis()
            ),
            _ => return,
        };
        self.disk = Some((now, why));
    }

    /// Whether a link's machine has left checksums unfilled lately.
    pub(super) fn has_unfilled_checksums(&self, link: &str, now: Duration) -> bool {
        self.links.get(link).is_some_and(|watched| watched.lately.traffic(now).unfilled.is_some())
    }

    /// Puts the verdict into a link's report.
    pub(super) fn of_link(
        &mut self,
        now: Duration,
        report: &mut LinkReport,
        links: &[RunningLink],
        control: &Control,
    ) {
        let Some(running) = links.iter().find(|link| link.config.name == report.name) else { return };
        let disk = self.disk.as_ref().filter(|(at, _)| at.elapsed() < DISK).map(|(_, why)| why.clone());
        // Key agreement has all it needs in memory.
        let silent = control.disk_silent().filter(|_| running.config.static_sas().is_some());
        let disk = silent.map(does_not_answer).or(disk);
        let watched = self.links.entry(report.name.clone()).or_default();
        let mut recent = watched.lately.traffic(now);
        let mut of_cell = RecentTraffic::default();
        // Without relations nobody asked for its figures.
        if let Some(cell) = report.fieldbus.as_mut().filter(|cell| !cell.relations.is_empty()) {
            watched.cell.look(now, self::of_cell(cell));
            of_cell = watched.cell.traffic(now);
            cell.verdict = cell.judged(&of_cell);
            recent.discards.extend(of_cell.discards.clone());
        }
        report.last_valid_seconds = recent.valid.map(|ago| ago.as_secs());
        let facts = Facts {
            recent,
            machine_end: running.machine_end.clone(),
            cell: of_cell,
            // Nothing is missing before it was looked for.
            without_carrier: running.carriers.unwrap_or([true; 2]).map(|there| !there),
            requested: requested(running, control),
            disk,
            has_no_secy: !running.is_seated,
        };
        (report.verdict, report.concerns) = link_verdict(report, &facts);
    }

    /// Puts the verdict into a site's report.
    pub(super) fn of_site(&mut self, now: Duration, report: &mut SiteReport) {
        let watched = self.sites.entry(report.name.clone()).or_default();
        let peers = watched.peers.iter().map(|(name, peer)| (name.clone(), peer.lately.traffic(now)));
        let telling = watched.peers.iter().filter(|(_, peer)| peer.deliveries.are_told(now));
        let undelivered = telling.map(|(name, peer)| (name.clone(), peer.deliveries.undelivered(now)));
        let facts = SiteFacts {
            recent: watched.lately.traffic(now),
            peers: peers.collect(),
            undelivered: undelivered.collect(),
        };
        (report.verdict, report.concerns) = site_verdict(report, &facts);
    }

    fn is_due(&mut self, now: Instant) -> bool {
        let due = self.next.is_none_or(|next| now >= next);
        if due {
            self.next = Some(now + LOOK_EVERY);
        }
        due
    }
}

impl Running {
    /// Looks at what links and sites count, if that is due, and tells verdicts that have changed.
    pub(super) fn poll_verdicts(&mut self, at: Instant) {
        if !self.verdicts.is_due(at) {
            return;
        }
        let now = self.started.elapsed();
        let (mut links, mut sites) = (self.link_reports(&[]), self.site_reports());
        // Zeros in place of figures would be told to peers, and their return be taken for traffic.
        for (running, (site, _)) in self.sites.iter().zip(&sites).filter(|(_, (_, is_known))| *is_known) {
            running.tell_octets(site.peers.iter().map(octets));
        }
        if let Some(baseline) = &mut self.baseline {
            let baseline = Arc::make_mut(baseline);
            baseline.forget_renewed(&mut links, &mut []);
            for (site, _) in sites.iter_mut().filter(|(_, is_known)| *is_known) {
                baseline.forget_renewed(&mut [], std::slice::from_mut(site));
            }
        }
        let verdicts = &mut self.verdicts;
        verdicts.links.retain(|name, _| links.iter().any(|link| link.name == *name));
        verdicts.sites.retain(|name, _| sites.iter().any(|(site, _)| site.name == *name));
        for mut link in links {
            // Inside of such a site, a peer's box that stands by sends nothing.
            let has_twins =
                self.sites.iter().any(|site| site.config.name == link.name && site.config.has_twins());
            let counted = of_link(&link, !has_twins);
            verdicts.links.entry(link.name.clone()).or_default().lately.look(now, counted);
            verdicts.of_link(now, &mut link, &self.links, &self.control);
            let watched = verdicts.links.entry(link.name.clone()).or_default();
            if watched.log.is_news(now, &link.verdict, link.concerns.is_empty()) {
                let Verdict { state, text, .. } = &link.verdict;
                info!(event = "verdict", link = link.name, state, "{state}: {text}");
            }
        }
        for (mut site, is_known) in sites {
            let watched = verdicts.sites.entry(site.name.clone()).or_default();
            if is_known {
                watched.look(now, &site);
            }
            verdicts.of_site(now, &mut site);
            let watched = verdicts.sites.entry(site.name.clone()).or_default();
            if watched.log.is_news(now, &site.verdict, site.concerns.is_empty()) {
                let Verdict { state, text, .. } = &site.verdict;
                info!(event = "verdict", site = site.name, state, "{state}: {text}");
            }
        }
    }
}

fn discards(
    counters: &Counters,
    row: impl Fn(&str) -> Option<&'static wire::Counter>,
    counted: &mut Counted,
) {
    for (name, count) in counters.iter() {
        if count > 0 && row(name).is_some_and(|row| row.discard) {
            *counted.discards.entry(name.to_owned()).or_default() += count;
        }
    }
}

/// `all_speak`: each peer is to answer, by itself.
fn of_link(link: &LinkReport, all_speak: bool) -> Counted {
    let secy = &link.secy;
    let sent =
        |sc: &TransmitScReport| sc.counters.value("OutPktsProtected") + sc.counters.value("OutPktsEncrypted");
    let scs = [Some(&secy.transmit), secy.express.as_ref()];
    // A frame of padding alone asks nobody for an answer.
    let empty = secy.counters.value("OutPktsCoverEmpty");
    let [ordinary, express] = scs.map(|sc| sc.filter(|_| all_speak).map_or(0, sent));
    let ordinary = ordinary.saturating_sub(empty);
    let mut counted = Counted {
        sent: secy.transmit_scs().map(sent).sum::<u64>().saturating_sub(empty),
        clear: secy.counters.value("InPktsNoTag"),
        no_sa: secy.counters.value("InPktsNoSAError"),
        passed: secy.counters.value("InPktsOtherSci"),
        cover: CountedCover {
            sent: secy.counters.value("OutPktsCover"),
            missed: secy.counters.value("OutTicksMissed"),
            empty: secy.counters.value("InPktsPadding"),
        },
        unfilled: link.plain.counters.value("RxChecksumsUnfilled"),
        ..Counted::default()
    };
    for sc in &secy.receive {
        let value = |name| sc.counters.value(name);
        let is_express = beside_express(&sc.sci).is_some();
        let of_sc = CountedSc {
            valid: value("InPktsOK") + value("InPktsDelayed"),
            not_valid: value("InPktsNotValid"),
            late: value("InPktsLate") + value("InPktsDuplicate"),
            sent: if is_express { express } else { ordinary },
            express: is_express,
            sas: sc.sas.iter().map(|sa| (sa.an, sa.key.clone())).collect(),
            told: link.mka.as_ref().and_then(|mka| told(mka, &sc.sci)),
        };
        counted.scs.insert(sc.sci.clone(), of_sc);
    }
    for (_, counters, row) in link.groups() {
        discards(counters, row, &mut counted);
    }
    counted
}

/// The SAK that a live member protects with, and its lowest PN.
fn told(mka: &MkaReport, sci: &str) -> Option<(String, u64)> {
    let member = mka.members.iter().find(|member| member.live && member.sci == sci)?;
    member.sends_under.as_ref().map(|under| (under.ki.clone(), under.lowest_pn))
}

fn of_cell(cell: &CellReport) -> Counted {
    let mut counted = Counted::default();
    for relation in &cell.relations {
        let value = |name| relation.receive.value(name);
        counted.sent += relation.transmit.value("OutPktsProtected");
        // A twin comes beside the protected frame, and misses nobody.
        counted.clear += value("InPktsClearRefused").saturating_sub(value("InPktsClearTwin"));
        let of_relation = CountedSc {
            valid: value("InPktsOK"),
            not_valid: value("InPktsNotValid"),
            late: value("InPktsLate"),
            ..CountedSc::default()
        };
        counted.scs.insert(relation.inward_name(), of_relation);
    }
    for (group, _, counters) in cell.groups() {
        discards(counters, |name| group.counter(name), &mut counted);
    }
    let twins = cell.relations.iter().map(|relation| relation.receive.value(CLEAR_TWIN)).sum();
    counted.discards.insert(CLEAR_TWIN.to_owned(), twins);
    counted
}

fn of_site(site: &SiteReport) -> Counted {
    let mut counted = Counted::default();
    for (group, _, counters) in site.groups() {
        discards(counters, |name| group.counter(name), &mut counted);
    }
    counted
}

fn of_peer(peer: &SitePeerReport) -> Counted {
    let valid = peer.counters.value("InPktsTunnelled");
    let late = LATE.iter().map(|name| peer.counters.value(name)).sum();
    let scs = [(peer.name.clone(), CountedSc { valid, late, ..CountedSc::default() })].into();
    let forged = FORGED.map(|name| (name.to_owned(), peer.counters.value(name)));
    let discards = forged.into_iter().filter(|(_, count)| *count > 0).collect();
    Counted { sent: peer.counters.value("OutPktsTunnelled"), scs, discards, ..Counted::default() }
}

/// Octets of a peer's packets, as this site has counted them.
fn octets(peer: &SitePeerReport) -> PacketOctets {
    let value = |name| peer.counters.value(name);
    PacketOctets { sent: value("OutOctetsTunnelled"), accepted: value("InOctetsTunnelled") }
}

/// The same, and as the peer has, if it says so. Without a channel it cannot: what is sent then is missed by nobody when it is back.
fn both_ends(peer: &SitePeerReport) -> Option<BothEnds> {
    let told = peer.counted_there.filter(|_| peer.state == "connected");
    let CountedThereReport { sent_octets, accepted_octets, messages } = told?;
    let PacketOctets { sent, accepted } = octets(peer);
    Some(BothEnds { sent, accepted, peer_sent: sent_octets, peer_accepted: accepted_octets, messages })
}

#[cfg(test)]
mod tests {
    use super::*;
    use fieldbus::ReceiveCounters;
    use report::Level;
    use report::site::delivery::Undelivered;

    /// An SC has to answer the frames that were sent on the own one of its kind; boxes that stand by answer nothing.
    #[test]
    fn ordinary_and_express_frames_wait_for_answers_of_their_kind() {
        let mut link = report::samples::sample("g").links.remove(0);
        link.secy.transmit.counters = Counters::new(&["OutPktsEncrypted"], [7]);
        let mut express = link.secy.transmit.clone();
        express.counters = Counters::new(&["OutPktsProtected"], [2]);
        link.secy.express = Some(express);
        let mut other = link.secy.receive[0].clone();
        other.sci = "02:00:00:00:00:02/32769".into();
        link.secy.receive.push(other);
        let sent =
            |all_speak| of_link(&link, all_speak).scs.into_values().map(|sc| sc.sent).collect::<Vec<_>>();
        assert_eq!(sent(true), [7, 2]);
        assert_eq!(sent(false), [0, 0]);
    }

    /// While the other gateway alone is in shadow mode, its frames come in clear and as protected twins: the verdict names the cause.
    #[test]
    fn frames_in_clear_beside_their_twins_show_shadow_mode_at_the_other_end() {
        let (mut cell, mut lately) = (report::samples::sample_cell(), RecentCounters::default());
        let mut after = |second: u64, twins: u64| {
            let values = ReceiveCounters {
                in_pkts_ok: 10 * second,
                in_pkts_clear_refused: twins,
                in_pkts_clear_twin: twins,
                ..Default::default()
            };
            cell.relations[0].receive = Counters::new(ReceiveCounters::NAMES, values.values());
            lately.look(Duration::from_secs(second), of_cell(&cell));
            cell.judged(&lately.traffic(Duration::from_secs(second)))
        };
        assert_eq!(after(0, 7).state, "protecting", "before the first look");
        assert_eq!(after(1, 7).state, "protecting");
        let verdict = after(2, 12);
        assert_eq!(
            (verdict.state.as_str(), verdict.level, verdict.protecting),
            ("clear frames", Level::Attention, true)
        );
        assert!(
            verdict.text.contains("the other gateway is in shadow mode") && verdict.text.contains(", 5 in"),
            "{verdict:?}"
        );
        assert_eq!(after(13, 12).state, "protecting", "it has ended");
    }

    /// Words of a live peer about its own frames, and the SAs under which they are verified.
    #[test]
    fn what_a_live_peer_tells_is_counted_with_its_sc() {
        let mut link = report::samples::agreed("g").links.remove(0);
        let of_peer = |link: &LinkReport| of_link(link, true).scs.remove("02:00:00:00:00:02/1").unwrap();
        let (ki, counted) = (link.mka.as_ref().unwrap().saks[0].ki.clone(), of_peer(&link));
        assert_eq!((counted.told, counted.sas), (Some((ki.clone(), 41)), vec![(1, ki)]));
        link.mka.as_mut().unwrap().members[0].live = false;
        assert_eq!(of_peer(&link).told, None, "a recording may be what is heard");
    }

    /// A way that is cut cuts the channel too. When both are back, the peer says what it had got until then, and nothing has been sent since.
    #[test]
    fn what_was_sent_without_a_channel_accuses_no_peer_when_it_is_back() {
        let (mut watched, mut site) = (Watched::default(), report::samples::sample_site());
        for second in 0..80_u64 {
            let (now, is_away) = (Duration::from_secs(second), (10..60).contains(&second));
            let peer = &mut site.peers[0];
            let state = if is_away { "waiting" } else { "connected" };
            peer.state = state.into();
            peer.counters = Counters::new(&["OutOctetsTunnelled"], [100 * second.min(59)]);
            let messages = if is_away { 9 } else { second };
            let accepted_octets = 100 * second.min(9);
            peer.counted_there = Some(CountedThereReport { sent_octets: 0, accepted_octets, messages });
            watched.look(now, &site);
            let undelivered = watched.peers["berlin"].deliveries.undelivered(now);
            assert_eq!(undelivered, Undelivered::default(), "second {second}");
        }
    }

    #[test]
    fn an_event_is_told_at_once_and_not_too_often() {
        let mut peer = WatchedPeer::default();
        let mut told = Vec::new();
        for second in 0..200_u64 {
            let now = Duration::from_secs(second);
            // Two forged packets a second, and at the end nothing but late ones.
            let mut counted =
                Counted { discards: [(FORGED[0].to_owned(), 2 * second)].into(), ..Counted::default() };
            let late = second.saturating_sub(150);
            counted
                .scs
                .insert("berlin".into(), CountedSc { valid: second.min(140), late, ..CountedSc::default() });
            peer.lately.look(now, counted);
            told.extend(peer.events(now).into_iter().map(|(event, _)| (second, event.name())));
        }
        let forged = [1, 61, 121, 181].map(|second| (second, "forged-long-form"));
        assert!(forged.iter().all(|line| told.contains(line)), "{told:?}");
        assert_eq!(told.len(), forged.len() + 1, "{told:?}");
        assert!(told.contains(&(151, "late-without-new")), "{told:?}");
    }

    #[test]
    fn a_verdict_is_told_when_it_holds_and_not_too_often() {
        let mut log = Log::default();
        let verdict =
            |state: &str| Verdict { state: state.into(), level: Level::Alarm, ..Verdict::default() };
        let mut told = Vec::new();
        // A second each.
        let states = [
            vec!["idle"; 5],
            vec!["cut"; 2],
            vec!["idle"; 2],
            vec!["cut"; 5],
            ["idle", "cut"].repeat(20),
            vec!["idle"; 20],
        ]
        .concat();
        for (second, state) in states.iter().enumerate() {
            let now = Duration::from_secs(20 + second as u64);
            if log.is_news(now, &verdict(state), *state == "idle") {
                told.push((second, *state));
            }
        }
        assert_eq!(told, [(12, "cut"), (57, "idle")]);
    }
}
