//! `[site.limits]`: what bounds memory and work, whatever a LAN sends.

use std::time::Duration;

use toml::Spanned;
use tunnel::Limits;

use super::super::findings::Findings;
use super::super::reference::{Key, LIMITS, RawSite, SITE};

/// The limits of a site. One that protects its LAN has one SCI for all of it.
pub(super) fn validate(label: &str, site: &RawSite, findings: &mut Findings) -> Limits {
    let protects = SITE.protect.switch(&site.protect);
    let Some(raw) = site.limits.as_ref().map(Spanned::get_ref) else {
        let one = if protects { Limits::DEFAULT.flows } else { Limits::DEFAULT.flows_per_sci };
        return Limits { flows_per_sci: one, ..Limits::DEFAULT };
    };
    let mut number = |key: Key, value| key.number_or_default(label, value, findings);
    let (flows, stations) = (number(LIMITS.flows, &raw.flows), number(LIMITS.stations, &raw.stations));
    let flows_per_sci = match raw.flows_per_sci {
        None if protects => flows,
        _ => number(LIMITS.flows_per_sci, &raw.flows_per_sci),
    };
    let flows_per_source = number(LIMITS.flows_per_source, &raw.flows_per_source);
    let new = LIMITS.new_flows_per_second;
    Limits {
        flows,
        flow_numbers: Limits::DEFAULT.flow_numbers,
        flows_per_sci,
        flows_per_source,
        new_flows_per_second: new.number_or_default(label, &raw.new_flows_per_second, findings),
        flow_age: age(label, LIMITS.flow_age, &raw.flow_age, findings),
        stations,
        station_age: age(label, LIMITS.station_age, &raw.station_age, findings),
        relayed_per_second: {
            LIMITS.relayed_per_second.number_or_default(label, &raw.relayed_per_second, findings)
        },
    }
}

/// `300s`, `5m` or `1h`.
fn age(label: &str, key: Key, value: &Option<Spanned<String>>, findings: &mut Findings) -> Duration {
    let text = key.text(value);
    key.time(text).unwrap_or_else(|| {
        let wrong = format!(
            "{label}{} = {text:?} is no age; use 30 seconds to a day, such as \"300s\", \"5m\" or \"1h\"",
            key.name
        );
        findings.error(value.as_ref().map_or(0..0, Spanned::span), wrong);
        key.time(key.default_text()).unwrap_or_default()
    })
}
