//! From a site's snapshot to the report of a box that shares its LAN with another.

use dataplane::site::StandbySnapshot;
use tunnel::standby::{Cause, Role};
use wire::Instant;

use super::super::recent::RecentTraffic;
use super::super::verdict::{Finding, State};
use super::StandbyReport;

/// Silence of the other box, in milliseconds, that is told: the longest `takeover`, and a start.
const UNHEARD: u64 = 10_000;

/// The box at this moment. `partner`: the name of the other one.
pub fn standby_report(now: Instant, snapshot: &StandbySnapshot, partner: &str) -> StandbyReport {
    let StandbySnapshot { role, cause, since, takeovers, partner: heard, other_takeover } = snapshot;
    let ms = |since: Instant| u64::try_from(now.since(since).as_millis()).unwrap_or(u64::MAX);
    StandbyReport {
        role: role_word(*role).into(),
        cause: cause_words(*cause).into(),
        since_ms: ms(*since),
        takeovers: *takeovers,
        partner: partner.into(),
        partner_role: heard.map(|(role, _)| role_word(role).into()),
        heard_ms_ago: heard.map(|(_, at)| ms(at)),
        other_takeover_ms: other_takeover.map(|takeover| takeover.as_millis() as u64),
    }
}

/// Finds faults between the two boxes, as far as this one sees. `recent`: discards of the site.
pub(super) fn standby_finding(standby: &StandbyReport, recent: &RecentTraffic) -> Option<Finding> {
    let StandbyReport { role, cause, partner, partner_role, heard_ms_ago, since_ms, .. } = standby;
    let silent = heard_ms_ago.unwrap_or(*since_ms);
    if silent < UNHEARD {
        let partner_listens = partner_role.as_deref() == Some(role_word(Role::Listening));
        // Either box may know why.
        let text = if cause == cause_words(Cause::SameSci) {
            format!("This box does not forward: {cause}.")
        } else if *since_ms >= UNHEARD && role == role_word(Role::Active) && partner_listens {
            format!(
                "{partner}, the other box of the LAN, does not take over from this one. Its status says why."
            )
        } else {
            return None;
        };
        return Some(Finding::attention(State::NoStandby, text));
    }
    let seconds = silent / 1000;
    let unheard = format!("{partner}, the other box of the LAN, has not been heard for {seconds} s");
    let comes = |name| recent.discards.iter().any(|(other, count)| other == name && *count > 0);
    let text = if role != role_word(Role::Active) {
        format!("{unheard}, and this box does not forward: {cause}.")
    } else if comes("InBeatsBad") {
        format!(
            "{unheard}. Beats come that it did not make; perhaps both forward. Compare identity and public_key of both configurations."
        )
    } else if comes("InBeatsUnproved") {
        format!(
            "{unheard}. Beats come that are recorded ones, or its own, and it does not hear this box; perhaps both forward. Check whether the LAN's switches carry frames both ways."
        )
    } else {
        format!("{unheard}: nobody takes over from this one. Check that box and the LAN between both.")
    };
    Some(Finding::attention(State::NoStandby, text))
}

const fn role_word(role: Role) -> &'static str {
    match role {
        Role::Listening => "listening",
        Role::Standby => "standby",
        Role::Active => "active",
        Role::Leaving => "leaving",
    }
}

const fn cause_words(cause: Cause) -> &'static str {
    match cause {
        Cause::Started => "it has started",
        Cause::PartnerSilent => "the other box was not heard",
        Cause::PartnerLeft => "the other box handed over",
        Cause::PartnerListens => "the other box stopped forwarding: it has restarted, or stood still",
        Cause::ComesFirst => "neither forwarded, and this box comes first",
        Cause::PartnerActive => "the other box forwards",
        Cause::Yielded => "both forwarded, and this box yielded",
        Cause::Stalled => "this box stood still for longer than its lease",
        Cause::HandOver => "it was asked to hand over",
        Cause::NotTakenOver => "the other box did not take over",
        Cause::SameSci => {
            "the other box has the same SCI: give each its own, and a key of its own with [site.static]; then restart"
        }
        Cause::NoLink => "the LAN's interface was not ready",
    }
}

#[cfg(test)]
mod tests {
    use super::super::site_verdict::{SiteFacts, site_verdict};
    use super::*;
    use crate::Level;
    use crate::samples::sample_site;
    use crate::site::SitePeerReport;

    fn verdict(standby: impl FnOnce(&mut StandbyReport), discard: &str) -> (String, Level, String) {
        let mut site = sample_site();
        standby(site.standby.as_mut().unwrap());
        let discards = if discard.is_empty() { vec![] } else { vec![(discard.into(), 3)] };
        let recent = RecentTraffic { discards, ..RecentTraffic::default() };
        // The other box is a peer too.
        if site.standby.as_ref().unwrap().heard_ms_ago.is_none_or(|ago| ago >= UNHEARD) {
            let partner = site.standby.as_ref().unwrap().partner.clone();
            let away = SitePeerReport { name: partner, state: "connecting".into(), ..site.peers[0].clone() };
            site.peers.push(away);
        }
        let (is, _) = site_verdict(&site, &SiteFacts { recent, ..SiteFacts::default() });
        assert!(is.protecting, "what this box forwards is protected");
        (is.state, is.level, is.text)
    }

    #[test]
    fn a_box_that_does_not_hear_the_other_one_says_so_and_why() {
        for (heard_ms_ago, since_ms, discard, expected) in [
            (Some(10_000), 1, "", "nobody takes over"),
            (None, 61_000, "InPktsLate", "nobody takes over"),
            (None, 61_000, "InBeatsBad", "public_key"),
            (Some(12_000), 61_000, "InBeatsUnproved", "both ways"),
        ] {
            let unheard = |standby: &mut StandbyReport| {
                standby.role = "active".into();
                (standby.heard_ms_ago, standby.since_ms) = (heard_ms_ago, since_ms);
            };
            let (state, level, text) = verdict(unheard, discard);
            assert_eq!((state.as_str(), level), ("no standby", Level::Attention), "{text}");
            let seconds = heard_ms_ago.unwrap_or(since_ms) / 1000;
            let silence = format!("dresden-2, the other box of the LAN, has not been heard for {seconds} s");
            assert!(text.starts_with(&silence) && text.contains(expected), "{text}");
        }
        for (heard_ms_ago, since_ms) in [(Some(9_999), 60_000), (None, 9_999), (Some(7), 60_000)] {
            let mut standby = sample_site().standby.unwrap();
            (standby.heard_ms_ago, standby.since_ms) = (heard_ms_ago, since_ms);
            assert!(standby_finding(&standby, &RecentTraffic::default()).is_none());
        }
        for name in ["InBeatsBad", "InBeatsUnproved"] {
            let rows = dataplane::site::SitePathCounters::TABLE;
            assert!(rows.iter().any(|row| row.name == name && row.discard), "{name}");
        }
    }

    #[test]
    fn a_box_that_does_not_forward_says_why() {
        let no_link = |standby: &mut StandbyReport| {
            (standby.role, standby.cause) = ("listening".into(), cause_words(Cause::NoLink).into());
            standby.heard_ms_ago = Some(10_000);
        };
        let (state, _, text) = verdict(no_link, "");
        assert_eq!(state, "no standby");
        assert!(text.contains("this box does not forward: the LAN's interface was not ready"), "{text}");
        assert!(!text.contains("nobody takes over"), "{text}");
    }

    #[test]
    fn two_boxes_of_which_one_can_never_take_over_are_not_well() {
        let same_sci = |standby: &mut StandbyReport| {
            (standby.role, standby.cause) = ("listening".into(), cause_words(Cause::SameSci).into());
        };
        let (state, level, text) = verdict(same_sci, "");
        assert_eq!((state.as_str(), level), ("no standby", Level::Attention));
        assert!(text.contains("same SCI"), "{text}");
        for (since_ms, partner_role, expected) in [
            (10_000, "listening", "no standby"),
            (9_999, "listening", "protecting"),
            (10_000, "standby", "protecting"),
        ] {
            let active = |standby: &mut StandbyReport| {
                (standby.role, standby.partner_role) = ("active".into(), Some(partner_role.into()));
                standby.since_ms = since_ms;
            };
            let (state, _, text) = verdict(active, "");
            assert_eq!(state, expected, "{text}");
        }
    }
}
