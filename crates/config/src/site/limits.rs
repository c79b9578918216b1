//! `[site.limits]`: what bounds memory and work, whatever a LAN sends.

use std::ops::RangeInclusive;
use std::time::Duration;

use toml::Spanned;
use tunnel::Limits;

use super::super::findings::Findings;
use super::super::raw::RawLimits;

/// A flow has a number of 16 bits, which is not given again within an epoch.
const FLOWS: RangeInclusive<i64> = 16..=32_768;
const FLOWS_OF_ONE: RangeInclusive<i64> = 1..=32_768;
const NEW_FLOWS: RangeInclusive<i64> = 1..=1_000_000;
const STATIONS: RangeInclusive<i64> = 16..=1_048_576;
/// Ages, in seconds: a station that sends once a minute must not be forgotten in between by mistake, and nothing is
/// remembered for ever.
const AGE_SECONDS: RangeInclusive<u64> = 10..=86_400;

pub(super) fn validate(label: &str, raw: Option<&Spanned<RawLimits>>, findings: &mut Findings) -> Limits {
    let usual = Limits::default();
    let Some(raw) = raw.map(Spanned::get_ref) else { return usual };
    let mut number = |key, value: &Option<Spanned<i64>>, range: RangeInclusive<i64>, usual: usize| {
        let Some(value) = value else { return usual };
        let number = Some(*value.get_ref()).filter(|number| range.contains(number));
        match number.and_then(|number| usize::try_from(number).ok()) {
            Some(number) => number,
            None => {
                let text = format!(
                    "{label}{key} = {} is out of range; use {} to {}",
                    value.get_ref(),
                    range.start(),
                    range.end()
                );
                findings.error(value.span(), text);
                usual
            }
        }
    };
    let flows = number("flows", &raw.flows, FLOWS, usual.flows);
    let flows_per_sci = number("flows_per_sci", &raw.flows_per_sci, FLOWS_OF_ONE, usual.flows_per_sci);
    let flows_per_source =
        number("flows_per_source", &raw.flows_per_source, FLOWS_OF_ONE, usual.flows_per_source);
    let usual_new = usize::try_from(usual.new_flows_per_second).unwrap_or(usize::MAX);
    let new = number("new_flows_per_second", &raw.new_flows_per_second, NEW_FLOWS, usual_new);
    let stations = number("stations", &raw.stations, STATIONS, usual.stations);
    Limits {
        flows,
        flows_per_sci,
        flows_per_source,
        new_flows_per_second: u32::try_from(new).unwrap_or(usual.new_flows_per_second),
        flow_age: age(label, "flow_age", &raw.flow_age, usual.flow_age, findings),
        stations,
        station_age: age(label, "station_age", &raw.station_age, usual.station_age, findings),
    }
}

/// `300s`, `5m` or `1h`.
fn age(
    label: &str,
    key: &str,
    value: &Option<Spanned<String>>,
    usual: Duration,
    findings: &mut Findings,
) -> Duration {
    let Some(value) = value else { return usual };
    let text = value.get_ref();
    let seconds = [("s", 1), ("m", 60), ("h", 3600)].iter().find_map(|(unit, seconds)| {
        let number = text.strip_suffix(unit)?;
        number.parse::<u32>().ok().map(|number| u64::from(number) * seconds)
    });
    match seconds.filter(|seconds| AGE_SECONDS.contains(seconds)) {
        Some(seconds) => Duration::from_secs(seconds),
        None => {
            let text = format!(
                "{label}{key} = {text:?} is no age; use 10 seconds to a day, such as \"300s\", \"5m\" or \"1h\""
            );
            findings.error(value.span(), text);
            usual
        }
    }
}
