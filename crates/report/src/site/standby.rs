//! From a site's snapshot to the report of a box that shares its LAN with another.

use dataplane::site::StandbySnapshot;
use tunnel::standby::{Cause, Role};
use wire::Instant;

use super::StandbyReport;

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
