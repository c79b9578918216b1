//! From facts about a link to its verdict: what was counted lately, its keys and its settings.

use super::mka::{MkaReport, Requested};
use super::recent::{FRESH, FailingSc, RecentSc, RecentTraffic};
use super::verdict::{Concern, Finding, Level, State, Verdict, worst};
use super::{CellReport, LinkReport, PortReport, SecYReport, WaitingReport};

/// Of a suite with 32-bit PNs.
const PNS: u64 = 1 << 32;
/// Discards that are named in a verdict.
const NAMED: usize = 3;

/// Milliseconds for which an MKPDU shows that its peer is there: it sends one every two seconds.
const HEARD_NOW_MS: u64 = 4_500;

/// Facts for a verdict, beside the report.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    /// Recent counters.
    pub recent: RecentTraffic,
    /// Recent counters of its cell.
    pub cell: RecentTraffic,
    /// Interfaces without a carrier that nobody holds down: plain, protected.
    pub without_carrier: [bool; 2],
    /// Requests of the configuration to key agreement, and the state of the KaY's fault.
    pub requested: Option<Requested>,
    /// The machine's end of the plain interface, if it is a veth pair's in this network namespace.
    pub machine_end: Option<String>,
    /// Fault of the disk that leases and floors are written to.
    pub disk: Option<String>,
    /// It waits since the start, and has no SecY yet.
    pub has_no_secy: bool,
}

/// The verdict on a link, and all that is not as it should be.
pub fn link_verdict(report: &LinkReport, facts: &Facts) -> (Verdict, Vec<Concern>) {
    let mut findings = Vec::new();
    findings.extend(report.waiting.as_ref().map(waiting));
    findings.extend(report.unread.then(unread));
    if findings.is_empty() {
        carriers(report, facts.without_carrier, &mut findings);
    }
    let mka = report.mka.as_ref().zip(facts.requested);
    if report.has_secy() && !facts.has_no_secy {
        match mka {
            // Keys come and go by themselves: what is missing is for it to say.
            Some((mka, requested)) => findings.extend(mka.findings(requested)),
            None => static_keys(&report.secy, &mut findings),
        }
        // A link that is down gets nothing, and needs no other reason.
        if !findings.iter().any(|finding| matches!(finding.state, State::Waiting | State::Cut)) {
            traffic(report, &facts.recent, &mut findings);
        }
        settings(&report.secy, &mut findings);
    }
    findings.extend([&report.plain, &report.protected].into_iter().filter_map(unguarded));
    findings.extend(cover(report, &facts.recent));
    findings.extend(facts.recent.unfilled.map(|count| unfilled(report, count, facts.machine_end.as_deref())));
    findings.extend(report.fieldbus.iter().flat_map(|cell| cell.findings(&facts.cell)));
    findings.extend(facts.disk.iter().map(|why| Finding::attention(State::DiskStalled, why.as_str())));
    findings.extend(discards(&facts.recent));
    worst(findings, well(report, &facts.recent))
}

/// Nothing is known of its frames.
pub(super) fn unread() -> Finding {
    let text = "Its worker does not answer, so nothing shows whether frames pass; the counters are those of before. If this lasts, restart the gateway.";
    Finding::alarm(State::Waiting, text)
}

/// Holes of cover: ticks without a frame, and replies that leave when machines send.
fn cover(report: &LinkReport, recent: &RecentTraffic) -> Vec<Finding> {
    let gaps = recent.ticks_missed.map(|(missed, ticks)| {
        let text = format!(
            "Cover has gaps: {missed} of {ticks} ticks of the last minute had no frame (OutTicksMissed), so the network sees when this box is busy. Give the workers CPUs of their own (cpus in [gateway]), or lower the rate in [link.cover]."
        );
        Finding::attention(State::CoverGaps, text)
    });
    let has_peer = report.is_agreed() || recent.is_fresh();
    let alone = (recent.is_cover_alone && has_peer).then(|| {
        let text = "Cover leaves here, and no frame of padding alone has come for a minute (InPktsPadding): the other end sends no cover, so a reply tells that something came; or its machine fills every frame. Set [link.cover] at both ends.";
        Finding::attention(State::WeakSettings, text)
    });
    gaps.into_iter().chain(alone).collect()
}

/// Why no frame passes at all.
pub(super) fn waiting(waiting: &WaitingReport) -> Finding {
    let WaitingReport { seconds, why, cut } = waiting;
    let state = if *cut { State::Cut } else { State::Waiting };
    Finding::alarm(state, format!("No frame passes, for {seconds} s by now: {why}."))
}

/// Finding about an unguarded port.
fn unguarded(port: &PortReport) -> Option<Finding> {
    let text = || {
        format!(
            "Nothing keeps this box's own stack off {}: it can receive and send there in clear.",
            port.interface
        )
    };
    (port.guard == "none").then(|| Finding::attention(State::WeakSettings, text()))
}

/// The machine leaves checksums to hardware that is not there.
fn unfilled(report: &LinkReport, count: u64, machine_end: Option<&str>) -> Finding {
    let text = format!(
        "TCP and UDP checksums of the machine on {} are unfilled, {count} of a sample in the last 30 s: ping works, and TCP does not; {}.",
        report.plain.interface,
        fill_checksums(&report.plain.interface, machine_end)
    );
    Finding::attention(State::UnfilledChecksums, text)
}

/// The command that has a machine fill its checksums, and where it is typed.
pub fn fill_checksums(plain: &str, machine_end: Option<&str>) -> String {
    match machine_end {
        Some(end) => format!("type on this box: ethtool -K {end} tx off txvlan off"),
        None => format!(
            "type in the machine, VM or container at the other end of {plain}, where IF is its interface: ethtool -K IF tx off txvlan off"
        ),
    }
}

fn carriers(report: &LinkReport, [plain, protected]: [bool; 2], findings: &mut Vec<Finding>) {
    if protected {
        let text = format!(
            "The protected side, {}, has no carrier: check its cable and the device at the other end.",
            report.protected.interface
        );
        findings.push(Finding::alarm(State::Cut, text));
    }
    if plain {
        let text = format!(
            "The plain side, {}, has no carrier: the machine is off, or its cable is unplugged.",
            report.plain.interface
        );
        findings.push(Finding::attention(State::Cut, text));
    }
}

fn static_keys(secy: &SecYReport, findings: &mut Vec<Finding>) {
    if !secy.protect_frames {
        let text = "Frames leave in clear: protect_frames is false.";
        findings.push(Finding::alarm(State::SendsInClear, text));
    } else {
        findings.extend(match secy.transmit.sas.iter().find(|sa| sa.in_use) {
            None => Some(Finding::alarm(State::NoKeys, "Nothing is sent: no transmit SA is in use.")),
            Some(sa) if sa.next_pn.is_none() => Some(Finding::alarm(
                State::PnsUsedUp,
                "No frame is sent: the key's packet numbers are used up. Change the key at both ends.",
            )),
            Some(sa) if sa.pns_left.is_some_and(|left| left < PNS / 4) => Some(Finding::attention(
                State::PnsRunOut,
                "Three quarters of the key's packet numbers are used. Change the key at both ends.",
            )),
            Some(_) => None,
        });
        let express = secy.express.iter().flat_map(|sc| &sc.sas).filter(|sa| sa.in_use);
        if express.into_iter().any(|sa| sa.pns_left.is_some_and(|left| left < PNS / 4)) {
            let text = "Three quarters of the packet numbers of express frames are used. Change the key at both ends.";
            findings.push(Finding::attention(State::PnsRunOut, text));
        }
    }
    if !secy.receive.iter().any(|sc| sc.sas.iter().any(|sa| sa.in_use)) {
        let text = "No receive SA is in use, so no peer's frame can be verified.";
        findings.push(Finding::attention(State::NoKeys, text));
    }
}

fn settings(secy: &SecYReport, findings: &mut Vec<Finding>) {
    let mut say = |text: String| findings.push(Finding::attention(State::WeakSettings, text));
    if secy.validate_frames != "strict" {
        let mode = &secy.validate_frames;
        say(format!("Frames that cannot be verified may be delivered: validate_frames is {mode}."));
    }
    if !secy.replay_protect {
        say("Frames can be replayed: replay_protect is false.".into());
    }
}

/// Time since the last valid frame, as the end of a sentence.
fn since(recent: &RecentTraffic) -> String {
    match recent.valid {
        Some(ago) => format!("since the last valid frame, {} s ago", ago.as_secs()),
        None => "since this link started".to_owned(),
    }
}

fn traffic(report: &LinkReport, recent: &RecentTraffic, findings: &mut Vec<Finding>) {
    let before = findings.len();
    // A stranger's frames to an idle link are no alarm.
    let nothing = recent.valid.is_none() || recent.unanswered.is_some();
    let level = if nothing { Level::Alarm } else { Level::Attention };
    findings.extend(recent.failing.iter().map(|failing| fails(report, failing, level, recent)));
    let of_express = express_differs(report, recent, level);
    let is_explained = of_express.is_some();
    findings.extend(of_express);
    if let Some(count) = recent.no_sa.filter(|_| !is_explained) {
        findings.push(no_sa(report, count, level, recent));
    }
    let agreed = report.mka.as_ref().filter(|mka| mka.is_agreed());
    let has_peer = agreed.is_some() || recent.is_fresh();
    if let Some(count) = recent.clear.filter(|_| !has_peer) {
        let level = if recent.unanswered.is_some() { Level::Alarm } else { Level::Attention };
        // Only static keys have the setting.
        let cure = match report.mka {
            None => "has a gateway, and protect_frames = true",
            Some(_) => "has its gateway, and whether that is bypassed",
        };
        let text = format!(
            "Frames come in clear, {count} {}, and are discarded; no valid frame comes. Check whether the other end {cure}.",
            since(recent)
        );
        findings.push(Finding::new(State::ClearFrames, level, text));
    }
    if findings.len() == before {
        findings.extend(recent.scs.iter().find_map(|sc| lost(report, sc)));
    }
    match recent.unanswered {
        Some(count) if findings.len() == before => {
            // Peers that would tell have sent nothing: there is no answer to miss.
            let is_missed = agreed.is_none_or(|mka| !have_sent_nothing(mka, recent));
            findings.extend(is_missed.then(|| silence(report, count, recent)));
        }
        Some(_) => {}
        // Some peer answers, which says nothing of the others.
        None => findings.extend(recent.scs.iter().filter_map(|sc| silent_sc(report, sc, recent))),
    }
    let has_keys = agreed.is_some_and(is_heard_now);
    let of_clear = recent.clear.filter(|_| has_peer);
    findings.extend(of_clear.map(|count| clear_beside_peer(count, has_keys, recent)));
}

/// Whether a live peer's MKPDUs come now. Live members count for six seconds after their last one.
fn is_heard_now(mka: &MkaReport) -> bool {
    mka.members.iter().any(|member| member.live && member.heard_ms_ago < HEARD_NOW_MS)
}

/// Frames in clear where valid ones came lately, or a peer is there: no reason for an alarm. A peer with the keys does not send them; one that
/// was bypassed since, or has no keys yet, may.
fn clear_beside_peer(count: u64, has_keys: bool, recent: &RecentTraffic) -> Finding {
    let sender = match has_keys {
        true => {
            "The peer has the keys, so another station sends them: a switch (STP, LLDP), or a machine that is not behind its gateway."
        }
        false => {
            "Nothing shows now that the other end has the keys: its gateway may be bypassed, or another station sends them (STP, LLDP). Check that gateway."
        }
    };
    let text = format!("Frames come in clear, {count} {}, and are discarded. {sender}", since(recent));
    Finding::attention(State::ClearFrames, text)
}

/// Whether all live peers tell what they have sent, and have sent nothing that has not come. Those that announce Frameward's capabilities tell,
/// but nobody tells of express frames.
fn have_sent_nothing(mka: &MkaReport, recent: &RecentTraffic) -> bool {
    if recent.scs.iter().any(|sc| beside_express(&sc.sci).is_some()) {
        return false;
    }
    let sc = |sci: &String| recent.scs.iter().find(|sc| sc.sci == *sci);
    mka.members.iter().filter(|member| member.live).all(|member| match sc(&member.sci) {
        Some(sc) => sc.lost.is_none() && (sc.tells || member.announced),
        None => member.announced,
    })
}

/// The only live peer tells of frames, and none comes. Those of one of several may be for the others alone.
fn lost(report: &LinkReport, sc: &RecentSc) -> Option<Finding> {
    let mut live = report.mka.as_ref()?.members.iter().filter(|member| member.live);
    let is_only = live.next().is_some_and(|member| member.sci == sc.sci) && live.next().is_none();
    let count = sc.lost.filter(|_| is_only)?;
    let last = match sc.valid {
        Some(ago) => format!(" since its last valid one, {} s ago", ago.as_secs()),
        None => ", and none was ever valid here".to_owned(),
    };
    let text = format!(
        "MKPDUs of {} come, but its frames do not: by its packet numbers it sent {count}{last}. Check whether the network passes EtherType 0x88e5 both ways; if the machine there sends nothing but LLDP or STP, a switch between keeps it.",
        report.named(&sc.sci)
    );
    Some(Finding::attention(State::OneWay, text))
}

fn fails(report: &LinkReport, failing: &FailingSc, level: Level, recent: &RecentTraffic) -> Finding {
    let FailingSc { sci, not_valid, late } = failing;
    let (since, sender) = (since(recent), report.named(sci));
    let Some(count) = not_valid else {
        let count = late.unwrap_or_default();
        return Finding::new(
            State::LateFrames,
            level,
            format!(
                "Every frame of {sender} is late, {count} {since}: it restarted at low packet numbers without its state, or somebody replays frames. Give both ends a new key."
            ),
        );
    };
    let sc = report.secy.receive.iter().find(|sc| sc.sci == *sci);
    let key = sc.and_then(|sc| sc.sas.iter().find(|sa| sa.in_use)).map(|sa| sa.key.as_str());
    let cure = match (&report.mka, key) {
        (None, Some(key)) => format!(
            "the keys differ, or somebody forges frames; compare fingerprint {key} with that of the other end's transmit key (frameward status)"
        ),
        _ => "it has another SAK, or somebody forges frames; get a new one with frameward rekey".to_owned(),
    };
    let text = format!("Every frame of {sender} fails its ICV, {count} {since}: {cure}.");
    Finding::new(State::KeysDiffer, level, text)
}

/// Frames for which there is no SA: which ones came, and which ones there are.
fn no_sa(report: &LinkReport, count: u64, level: Level, recent: &RecentTraffic) -> Finding {
    let (secy, since) = (&report.secy, since(recent));
    let known = |sci: &String| secy.receive.iter().find(|sc| sc.sci == *sci);
    let (stranger, an) = match &secy.stranger {
        Some(stranger) => (stranger.sci.as_ref(), format!("AN {}", stranger.an)),
        None => (None, "an AN".to_owned()),
    };
    if let Some(sc) = stranger.and_then(known) {
        let here: Vec<_> = sc.sas.iter().map(|sa| format!("AN {}", sa.an)).collect();
        let here = if here.is_empty() { "none".to_owned() } else { here.join(", ") };
        let cure = if report.mka.is_some() { "a SAK was missed" } else { "set the same an at both ends" };
        let text = format!(
            "Frames of {} come under {an}, {count} {since}, and are discarded: this end expects {here}; {cure}.",
            report.named(&sc.sci)
        );
        return Finding::new(State::AnDiffers, level, text);
    }
    let from = stranger.map_or_else(|| "without an SCI".to_owned(), |sci| format!("of {sci}"));
    let here = known_scis(report);
    let cure = if report.mka.is_some() { "it is not of this group" } else { SET_SCI };
    let text = format!(
        "Frames {from} come under {an}, {count} {since}, and are discarded. Known here: {here}; {cure}."
    );
    Finding::new(State::SciDiffers, level, text)
}

/// The SCI of the other SC of an express SC's station, as text.
pub fn beside_express(sci: &str) -> Option<String> {
    let (system, port) = sci.split_once('/')?;
    let port = port.parse::<u16>().ok()?.checked_sub(1 << 15)?;
    Some(format!("{system}/{port}"))
}

/// A peer sends on an express SC, and this end has none: also while all other frames of the peer are valid.
fn express_differs(report: &LinkReport, recent: &RecentTraffic, level: Level) -> Option<Finding> {
    let secy = &report.secy;
    let sci = secy.stranger.as_ref()?.sci.as_ref()?;
    let is_known = |sci: &String| secy.receive.iter().any(|sc| sc.sci == *sci);
    let peer = beside_express(sci).filter(|peer| is_known(peer) && !is_known(sci))?;
    let lately = recent.discards.iter().find(|(name, _)| name.starts_with("InPktsNoSA"));
    let count = recent.no_sa.or(lately.map(|(_, count)| *count)).filter(|_| report.mka.is_none())?;
    let text = format!(
        "Express frames of {peer} come on its channel {sci}, {count} lately, and are discarded: this end has no express channels. In this link, set express = true, or set express = false at the other end."
    );
    // Its other frames have a cause of their own then.
    let others = match level {
        Level::Alarm => " No other frame is valid either: compare keys and ANs too.",
        _ => "",
    };
    Some(Finding { level, ..Finding::attention(State::SciDiffers, text + others) })
}

/// Express frames leave on a channel of their own, and none comes on a peer's, though others do: whether the other end has such channels
/// cannot be told from here.
fn express_unanswered(report: &LinkReport) -> Option<String> {
    let secy = &report.secy;
    let express = secy.express.as_ref()?;
    let came = |sci: &str| {
        secy.receive.iter().find(|sc| sc.sci == sci).map_or(0, |sc| sc.counters.value("InPktsOK"))
    };
    let sent: u64 =
        ["OutPktsEncrypted", "OutPktsProtected"].iter().map(|name| express.counters.value(name)).sum();
    let mut of_peers = secy.receive.iter().filter_map(|sc| Some((sc.sci.as_str(), beside_express(&sc.sci)?)));
    let (sci, _) = of_peers.find(|(sci, peer)| came(sci) == 0 && came(peer) > 0)?;
    // Key agreement lets both ends have such channels, or neither.
    let cure = match report.mka {
        None => "set express = true at the other end",
        Some(_) => "look for what drops them on the way",
    };
    (sent > 0)
        .then(|| format!(" Express frames leave, and none has come on {sci}: if they do not arrive, {cure}."))
}

/// The cure where a peer has another SCI than is configured here.
const SET_SCI: &str = "if it is the peer, set sci to this in its section here";

fn known_scis(report: &LinkReport) -> String {
    let here: Vec<_> = report.secy.receive.iter().map(|sc| report.named(&sc.sci)).collect();
    if here.is_empty() { "none".to_owned() } else { here.join(", ") }
}

/// The sender of frames that pass to stations inside of a site: a peer with another SCI than is configured looks like one. No finding by
/// itself: stations are usual there. Key agreement knows its peers' SCIs.
fn passed(report: &LinkReport, recent: &RecentTraffic) -> Option<String> {
    let (count, last) = recent.passed.zip(report.secy.passed.as_ref())?;
    if report.mka.is_some() {
        return None;
    }
    let from = last.sci.as_ref().map_or_else(|| "without an SCI".to_owned(), |sci| format!("of {sci}"));
    Some(format!(
        "MACsec frames {from} under AN {}, {count} {}, pass to stations in the LAN. Known here: {}; {SET_SCI}.",
        last.an,
        since(recent),
        known_scis(report)
    ))
}

/// One SC is silent, and others are not. Key agreement knows which peers are there; frames of those that are need not come.
fn silent_sc(report: &LinkReport, sc: &RecentSc, recent: &RecentTraffic) -> Option<Finding> {
    let RecentSc { sci, valid, unanswered, .. } = sc;
    let count = (*unanswered)?;
    if recent.failing.iter().any(|failing| failing.sci == *sci) {
        return None;
    }
    if let Some(peer) = beside_express(sci) {
        // Express frames may go one way: if none ever came, that is no loss.
        let ago = valid.as_ref()?.as_secs();
        let text = format!(
            "Express frames of {} came until {ago} s ago on its channel {sci}, and {count} were sent meanwhile. Check whether its machine sends some, and what drops such frames on the way.",
            report.named(&peer)
        );
        return Some(Finding::attention(State::ExpressSilent, text));
    }
    let is_heard = |other: &RecentSc| {
        beside_express(&other.sci).as_ref() == Some(sci) && other.valid.is_some_and(|ago| ago < FRESH)
    };
    if report.mka.is_some() || recent.scs.iter().any(is_heard) {
        return None;
    }
    let last = match valid {
        Some(ago) => format!("its last valid frame came {} s ago", ago.as_secs()),
        None => format!("no valid frame of it has come for {} s", recent.watched.as_secs()),
    };
    let text = format!(
        "Nothing comes of {}, though others answer: {last}, and {count} frames were sent meanwhile. Check whether that gateway runs, and its cable.",
        report.named(sci)
    );
    Some(Finding::attention(State::PartialMesh, text))
}

/// Frames are sent, and nothing valid comes.
fn silence(report: &LinkReport, count: u64, recent: &RecentTraffic) -> Finding {
    let peers = report.mka.as_ref().map_or(0, MkaReport::live_peers);
    let last = match recent.valid {
        Some(ago) => format!("the last valid frame came {} s ago", ago.as_secs()),
        None => {
            format!("no valid frame has come for {} s, since this link started", recent.watched.as_secs())
        }
    };
    let sent = format!("{count} frames were sent meanwhile");
    if peers > 0 {
        let text = format!(
            "MKPDUs come, but {last}; {sent}. Check whether the network passes EtherType 0x88e5 both ways, and whether the machines there answer."
        );
        return Finding::attention(State::OneWay, text);
    }
    let state = if recent.valid.is_some() { State::Silent } else { State::PeerAbsent };
    let cure = passed(report, recent).unwrap_or_else(|| {
        "Check whether the other gateway runs, and whether the network passes EtherType 0x88e5.".to_owned()
    });
    let text = format!("Nothing answers: {last}; {sent}. {cure}");
    Finding::attention(state, text)
}

/// Valid frames come, and others do not fit.
pub(super) fn discards(recent: &RecentTraffic) -> Option<Finding> {
    if recent.discards.is_empty() {
        return None;
    }
    let named: Vec<_> =
        recent.discards.iter().take(NAMED).map(|(name, count)| format!("{name} {count}")).collect();
    let more = if recent.discards.len() > NAMED { " and others" } else { "" };
    let text = format!(
        "Frames were discarded in the last ten seconds: {}{more}. frameward status --verbose explains each counter.",
        named.join(", ")
    );
    Some(Finding::attention(State::Discards, text))
}

/// Nothing is wrong: whether something shows that all is well.
fn well(report: &LinkReport, recent: &RecentTraffic) -> Finding {
    let peers = report.mka.as_ref().map_or(0, MkaReport::live_peers);
    let may_lack = recent.scs.iter().any(|sc| sc.may_lack);
    let back = if may_lack { "" } else { "; by the peers' packet numbers none is missing" };
    let frames = match recent.valid {
        Some(ago) if peers > 0 && recent.unanswered.is_some() => {
            format!("no frame has come back for {} s{back}", ago.as_secs())
        }
        None if peers > 0 && recent.unanswered.is_some() => format!("no frame has come back yet{back}"),
        Some(ago) if recent.is_fresh() => format!("valid frames come, the last one {} s ago", ago.as_secs()),
        Some(ago) => format!("nothing has come for {} s", ago.as_secs()),
        None => "nothing has come yet".to_owned(),
    };
    if peers > 0 {
        let of_express = express_unanswered(report).filter(|_| recent.is_fresh()).unwrap_or_default();
        let text = format!("Keys are agreed on with live peers: {peers}; {frames}.{of_express}");
        return Finding::new(State::Protecting, Level::Good, text);
    }
    if !report.has_secy() {
        let cell = report.fieldbus.as_ref().filter(|cell| !cell.relations.is_empty());
        return cell
            .map_or_else(|| Finding::new(State::Idle, Level::Idle, "Its ports are open."), CellReport::well);
    }
    if recent.is_fresh() {
        let of_express = express_unanswered(report).unwrap_or_default();
        let text = format!("Frames leave protected, and {frames}.{of_express}");
        return Finding::new(State::Protecting, Level::Good, text);
    }
    let hint = passed(report, recent)
        .unwrap_or_else(|| "Traffic will show whether the other end has the keys.".to_owned());
    let text = format!("Frames leave protected; {frames}, and nothing sent waits for an answer. {hint}");
    Finding::new(State::Idle, Level::Idle, text)
}

#[cfg(test)]
mod tests;
