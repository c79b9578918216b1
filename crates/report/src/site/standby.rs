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

/// What is wrong between the two boxes, as far as this one sees. `recent`: discards of the site.
pub(super) fn standby_finding(standby: &StandbyReport, recent: &RecentTraffic) -> Option<Finding> {
    let StandbyReport { partner, heard_ms_ago, since_ms, .. } = standby;
    let silent = heard_ms_ago.unwrap_or(*since_ms);
    if silent < UNHEARD {
        return None;
    }
    let comes = |name| recent.discards.iter().any(|(other, count)| other == name && *count > 0);
    let seconds = silent / 1000;
    let text = if comes("InBeatsBad") {
        format!(
            "Beats come on the LAN that {partner}, the other box, did not make; both may forward. Compare identity and public_key of both configurations."
        )
    } else if comes("InBeatsUnproved") {
        format!(
            "Beats of {partner}, the other box of the LAN, come, and it has not heard this one for {seconds} s; both may forward. Check whether the LAN's switches carry frames both ways."
        )
    } else {
        format!(
            "{partner}, the other box of the LAN, has not been heard for {seconds} s: nobody takes over from this one. Check that box and the LAN between both."
        )
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

    #[test]
    fn a_box_that_does_not_hear_the_other_one_says_so_and_why() {
        for (heard_ms_ago, since_ms, discard, expected) in [
            (Some(9_999), 60_000, "InBeatsBad", None),
            (None, 9_999, "InBeatsBad", None),
            (Some(7), 60_000, "InBeatsUnproved", None),
            (Some(10_000), 1, "", Some("has not been heard for 10 s")),
            (None, 61_000, "InPktsLate", Some("dresden-2, the other box of the LAN,")),
            (None, 61_000, "InBeatsBad", Some("public_key")),
            (Some(12_000), 61_000, "InBeatsUnproved", Some("this one for 12 s")),
        ] {
            let mut site = sample_site();
            let standby = site.standby.as_mut().unwrap();
            (standby.heard_ms_ago, standby.since_ms) = (heard_ms_ago, since_ms);
            let recent = RecentTraffic { discards: vec![(discard.into(), 3)], ..RecentTraffic::default() };
            let found = standby_finding(standby, &recent).map(|finding| finding.text);
            assert_eq!(found.is_some(), expected.is_some(), "{found:?}");
            if let Some(words) = expected {
                assert!(found.unwrap().contains(words), "{words}");
                let facts = SiteFacts { recent, ..SiteFacts::default() };
                let (is, _) = site_verdict(&site, &facts);
                assert_eq!((is.state.as_str(), is.level), ("no standby", Level::Attention));
                assert!(is.protecting, "this box forwards");
            }
        }
        for name in ["InBeatsBad", "InBeatsUnproved"] {
            let rows = dataplane::site::SitePathCounters::TABLE;
            assert!(rows.iter().any(|row| row.name == name && row.discard), "{name}");
        }
    }
}
