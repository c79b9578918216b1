//! From figures to findings: what a path's behaviour means for this link, and what to do.

mod peer;

use std::fmt::Write as _;

use dataplane::fragmenter::FragmentConfig;
use secy::ClearVlan;
use suite::CipherSuite;

use super::exam::{End, Outcome, TagFate};
use super::frame::{EXPERIMENT, ReceiveRecord};
use super::machine::Misplaced;
use super::path::{DIVIDES, EXPRESS, PADS, Seen, facts};
use super::targets::{self, Meaning};
use super::{Direction, Figures, Finding};
use config::check::{self, Mtus, overhead_octets};
use config::{Keys, Link, mka};

/// Both directions, if they were examined to the end.
pub(super) fn figures(outcome: &Outcome) -> Option<Figures> {
    let there = (outcome.end == End::Examined)
        .then(|| direction(outcome.probed.largest, outcome.probed.sent, outcome.theirs.record))?;
    let largest = Some(outcome.theirs.largest).filter(|largest| *largest > 0);
    Some(Figures { there, back: direction(largest, outcome.theirs.sent, outcome.record) })
}

fn direction(mtu: Option<u16>, sent: u32, tally: ReceiveRecord) -> Direction {
    let ReceiveRecord { received, duplicates, reordered, displacement, damaged, .. } = tally;
    let lost = sent.saturating_sub(received);
    Direction { mtu, sent, lost, duplicated: duplicates, reordered, displacement, damaged }
}

/// All that an examination says of a link.
pub(super) fn findings(link: &Link, mtus: Mtus, seen: &Seen) -> Vec<Finding> {
    let outcome = &seen.outcome;
    let mut findings = Vec::new();
    findings.extend(seen.misplaced.map(|frame| exchanged(link, frame)));
    peer::rejections(link, seen, &mut findings);
    match (outcome.end, figures(outcome)) {
        (End::Unanswered, _) | (_, None) if outcome.peer.is_none() => {
            if findings.is_empty() {
                findings.push(peer::unanswered(link));
            }
        }
        (_, None) => findings.push(Finding::problem(
            "peer",
            "the other box answered and then fell silent. If doctor was stopped there, start both again; if not, the path fails after a while",
        )),
        (_, Some(figures)) => {
            findings.push(peer::met(link, outcome));
            mix_ups(link, mtus, outcome, &mut findings);
            sizes(link, mtus, &figures, &mut findings);
            addresses(outcome, &mut findings);
            if !matches!(link.keys, Keys::None) {
                eapol(link, outcome, &mut findings);
            }
            findings.extend(cell(link));
            tags(link, outcome, &mut findings);
            quality(link, "there", &figures.there, &mut findings);
            quality(link, "back", &figures.back, &mut findings);
        }
    }
    if seen.lost_here > 0 {
        findings.push(Finding::note(
            "path",
            format!("this box itself lost {} frames during the test: the path is better than the figures; try again with less load", seen.lost_here),
        ));
    }
    findings
}

/// A peer's frames come to the plain port: the two ports are exchanged, or the network reaches both.
fn exchanged(link: &Link, frame: Misplaced) -> Finding {
    let Link { plain, protected, .. } = link;
    let what = match frame {
        Misplaced::Doctor(sci) => format!("the doctor of the box with SCI {sci} is heard"),
        Misplaced::Mkpdu(source) => format!("MKPDUs of this link come from {source}"),
    };
    Finding::problem(
        "ports",
        format!(
            "on {plain}, the machine's side, {what}, which belong on {protected}: are the ports exchanged? Exchange their cables, or plain and protected in the configuration; if they are right, find where the network reaches the machine past this box"
        ),
    )
}

/// Findings about a cell's frames: two doctors that hear each other do so in frames of the usual EtherType.
fn cell(link: &Link) -> Option<Finding> {
    let cell = link.cell.as_ref()?;
    Some(match cell.ethertype {
        EXPERIMENT => {
            Finding::ok("fieldbus", format!("EtherType {EXPERIMENT}, that of protected frames, crosses"))
        }
        other => Finding::note(
            "fieldbus",
            format!("EtherType {other}, that of protected frames, was not tried: doctor uses {EXPERIMENT}"),
        ),
    })
}

fn mix_ups(link: &Link, mtus: Mtus, outcome: &Outcome, findings: &mut Vec<Finding>) {
    let (own, theirs) = (facts(link, mtus), &outcome.theirs);
    // Zeros: the key server chooses, and whoever names none takes any.
    let named = own.suite != [0; 8] && theirs.suite != [0; 8];
    if let (true, Some(suite)) = (named && own.suite != theirs.suite, link.suite()) {
        let name = CipherSuite::from_identifier(theirs.suite).map_or("another suite", CipherSuite::name);
        findings.push(Finding::problem(
            "peer",
            format!("its suite is {name}, that of this box is {suite}: set the same suite at both ends"),
        ));
    }
    // Agreed settings need not be alike.
    let differ = |bits| link.static_sas().is_some() && (own.fragmentation ^ theirs.fragmentation) & bits != 0;
    if differ(DIVIDES) {
        let on = |bits: u8| match bits & DIVIDES {
            0 => "neither fragment nor concatenate",
            1 => "fragment",
            2 => "concatenate",
            _ => "fragment and concatenate",
        };
        findings.push(Finding::problem(
            "peer",
            format!(
                "it has {} on, and this box has {}: set both alike at both ends",
                on(theirs.fragmentation),
                on(own.fragmentation)
            ),
        ));
    }
    if differ(EXPRESS) {
        let text = match link.express {
            true => {
                "this box has express = true, and it has not: it discards this box's express frames; set express alike at both ends"
            }
            false => {
                "it has express = true, and this box has not: this box discards its express frames; set express alike at both ends"
            }
        };
        findings.push(Finding::problem("peer", text));
    }
    let takes_none = |bits: u8| bits & (DIVIDES | PADS) == 0;
    if differ(PADS) && (takes_none(own.fragmentation) || takes_none(theirs.fragmentation)) {
        let text = match takes_none(theirs.fragmentation) {
            true => {
                "this box has padding, and it takes no padded frames: set padding or fragment = \"on\" there"
            }
            false => {
                "it has padding, and this box takes no padded frames: set padding or fragment = \"on\" here"
            }
        };
        findings.push(Finding::problem("peer", text));
    }
    if own.plain_mtu != theirs.plain_mtu {
        findings.push(Finding::note("MTU", format!("the machine's side has {} here and {} there: full frames of the larger one do not reach the other; set them alike", own.plain_mtu, theirs.plain_mtu)));
    }
}

fn sizes(link: &Link, mtus: Mtus, figures: &Figures, findings: &mut Vec<Finding>) {
    let needed = mtus.plain + overhead_octets(link);
    let fragments = link.fragmentation.is_some_and(|FragmentConfig { fragment, .. }| fragment);
    for (way, largest) in [("there", figures.there.mtu), ("back", figures.back.mtu)] {
        let Some(largest) = largest.map(usize::from) else { continue };
        // The other end may be set lower, and has tried no more than that.
        let full = mtus.protected;
        let finding = if largest >= full || (!fragments && largest >= needed) {
            Finding::ok(
                "MTU",
                format!(
                    "{way}: frames of {largest} octets cross ({} with the Ethernet header)",
                    largest + 14
                ),
            )
        } else if way == "back" && figures.there.mtu.is_some_and(|there| usize::from(there) >= full) {
            Finding::note(
                "MTU",
                format!(
                    "{way}: frames of {largest} octets cross, and larger ones were not tried or did not; doctor at the other end shows which"
                ),
            )
        } else if fragments {
            Finding::problem(
                "MTU",
                format!(
                    "{way}: the path drops frames above {} octets, and this link sends them up to {}: set mtu = {largest} at both ends, or raise the MTU of the switches on the path to {full}",
                    largest + 14,
                    full + 14
                ),
            )
        } else {
            Finding::problem(
                "MTU",
                format!(
                    "{way}: the path drops frames above {} octets, and full frames of the machine need {}: raise the MTU of the switches on the path to {needed} or more, or set mtu = {largest} and fragment = \"on\" at both ends",
                    largest + 14,
                    needed + 14
                ),
            )
        };
        findings.push(finding);
    }
}

fn addresses(outcome: &Outcome, findings: &mut Vec<Finding>) {
    let (crossed, tried) = (outcome.probed.crossed, outcome.probed.tried);
    let names = |meaning, wanted: bool| {
        let all = targets::of(meaning).filter(|(bit, _)| tried & bit != 0 && (crossed & bit != 0) == wanted);
        all.map(|(_, target)| target.name).collect::<Vec<_>>().join(", ")
    };
    let lost = names(Meaning::All, false);
    if lost.is_empty() {
        findings.push(Finding::ok("addresses", "MACsec frames cross, to one station and to all"));
    } else {
        findings.push(Finding::problem("addresses", format!("do not cross: {lost}. Find the switch that filters EtherType 0x88E5 or broadcasts (802.1X, MACsec, storm control), and let them pass")));
    }
    let lost = names(Meaning::Machines, false);
    if !lost.is_empty() {
        findings.push(Finding::problem("addresses", format!("frames to group addresses do not cross: {lost}. If the machines need them, switch off multicast filtering (IGMP snooping of unknown groups) on the path")));
    }
    let lost = names(Meaning::Reserved, false);
    if lost.is_empty() {
        findings.push(Finding::ok("addresses", "the machines' STP, LACP, LLDP and peer delay frames cross"));
    } else {
        findings.push(Finding::note("addresses", format!("switches on the path do not forward reserved addresses (IEEE 802.1Q). These protocols of the machines do not cross: {lost}. If they must, use a cable, or let the switches pass them (Linux: group_fwd_mask)")));
    }
}

/// Whether key agreement can be.
fn eapol(link: &Link, outcome: &Outcome, findings: &mut Vec<Finding>) {
    let (crossed, tried) = (outcome.probed.crossed, outcome.probed.tried);
    let names = |wanted: bool| {
        let all = targets::of(Meaning::KeyAgreement)
            .filter(|(bit, _)| tried & bit != 0 && (crossed & bit != 0) == wanted);
        all.map(|(_, target)| target.name).collect::<Vec<_>>().join(", ")
    };
    let (across, lost) = (names(true), names(false));
    let Some(mka) = link.mka() else {
        return findings.push(match (across.as_str(), lost.as_str()) {
            (_, "") => Finding::ok("EAPOL", "crosses, to its own address 01:80:c2:00:00:03 and to others"),
            ("", _) => Finding::note("EAPOL", "does not cross to any address: static keys work; key agreement (MKA) works only if the switch's 802.1X lets EAPOL pass"),
            _ => Finding::note("EAPOL", format!("crosses to {across}, and not to {lost}: static keys need neither; key agreement (MKA) needs one of the former as destination")),
        });
    };
    let to = Some(mka.destination).filter(|to| mka::GROUPS.contains(to));
    let own =
        targets::of(Meaning::KeyAgreement).find(|(_, target)| target.to == to).map_or(0, |(bit, _)| bit);
    let destination = mka.destination;
    findings.push(if tried & own == 0 {
        Finding::note("EAPOL", format!("whether MKPDUs cross to {destination} was not tried"))
    } else if crossed & own != 0 {
        Finding::ok("EAPOL", format!("MKPDUs cross to {destination}"))
    } else if across.is_empty() {
        Finding::problem("EAPOL", "does not cross to any address, so no keys can be agreed on: let the switches on the path pass EAPOL (switch their 802.1X off on these ports), or use [link.static]")
    } else {
        Finding::problem(
            "EAPOL",
            format!(
                "does not cross to {destination}, so no keys can be agreed on: {}; or set destination at all boxes to one that crosses: {across}",
                check::keys::passage(destination)
            ),
        )
    });
}

fn tags(link: &Link, outcome: &Outcome, findings: &mut Vec<Finding>) {
    if outcome.record.tagged > 0 {
        findings.push(match link.clear_vlan {
            ClearVlan::Strip => Finding::ok("VLAN", "the network adds a VLAN tag in front, and clear_vlan = \"strip\" removes it"),
            ClearVlan::Refuse => Finding::problem("VLAN", "the network adds a VLAN tag in front of frames: make the switch's port untagged, or set clear_vlan = \"strip\""),
        });
    }
    findings.push(match outcome.probed.tag {
        TagFate::Kept => Finding::ok("VLAN", "priority tags are kept"),
        TagFate::TakenOff => Finding::ok("VLAN", "the path removes priority tags: the machines' own are inside the protected frames, and stay"),
        TagFate::Dropped | TagFate::Unknown => Finding::ok("VLAN", "the path drops frames with a priority tag: the machines' own tags are inside the protected frames, and cross"),
    });
    if outcome.record.looped > 0 {
        findings.push(Finding::problem("loop", format!("{} of this box's own frames came back: the network has a loop; remove it, or switch on STP there", outcome.record.looped)));
    }
}

fn quality(link: &Link, way: &str, figures: &Direction, findings: &mut Vec<Finding>) {
    let Direction { sent, lost, duplicated, reordered, displacement, damaged, .. } = *figures;
    let before = findings.len();
    let fragmentation = link.fragmentation.is_some_and(|how| how.fragment || how.concatenate);
    let vanished = lost - damaged.min(lost);
    if damaged > 0 {
        findings.push(Finding::problem("quality", format!("{way}: {damaged} frames arrived damaged, although every frame check sequence was right: a switch or card has bad memory; replace them one by one")));
    }
    if vanished > 0 {
        let mut text = format!(
            "{way}: {vanished} of {sent} frames were lost ({}): look for half duplex, a bad cable, or an overflowing queue",
            percent(vanished, sent)
        );
        if fragmentation {
            let _ = write!(text, "; if a fragment is lost, the whole payload is lost");
        }
        // A frame in a thousand is what a bad cable costs; one alone may have been a switch that was busy.
        let bad = u64::from(vanished) * 1000 > u64::from(sent) && vanished > 1;
        findings.push(if bad { Finding::problem("quality", text) } else { Finding::note("quality", text) });
    }
    if reordered > 0 {
        let window = link.replay_window;
        let enough = displacement.saturating_mul(2).next_power_of_two();
        let text = format!("{way}: {reordered} of {sent} frames were overtaken, by up to {displacement}");
        findings.push(if fragmentation {
            Finding::problem("quality", format!("{text}: reordering loses split payloads; find what sends frames along two paths (link aggregation, several queues): no window helps"))
        } else if link.replay_protect && window < displacement {
            Finding::problem("quality", format!("{text}, and replay_window = {window} discards them as late: set replay_window = {enough} or more at both ends, or find what sends frames along two paths"))
        } else {
            Finding::note("quality", format!("{text}: replay_window = {window} bears that"))
        });
    }
    if duplicated > 0 {
        let fate = if link.replay_protect {
            "replay protection discards the copies"
        } else {
            "with replay_protect = false, the machine gets them twice"
        };
        findings.push(Finding::note(
            "quality",
            format!(
                "{way}: {duplicated} of {sent} frames arrived twice: {fate}; look for a loop or a mirror port"
            ),
        ));
    }
    if findings.len() == before {
        findings.push(Finding::ok(
            "quality",
            format!("{way}: {sent} frames, none lost, reordered, duplicated or damaged"),
        ));
    }
}

fn percent(part: u32, whole: u32) -> String {
    format!("{:.2} %", 100.0 * f64::from(part) / f64::from(whole.max(1)))
}

#[cfg(test)]
mod tests;
