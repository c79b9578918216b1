//! Cycles, shares, EtherTypes and VLAN tags as the configuration writes them.

use std::ops::RangeInclusive;
use std::time::Duration;

use toml::{Spanned, Value};
use wire::EtherType;
use wire::fieldbus::{ETHERTYPE, Protocol};

use super::super::findings::Findings;
use super::super::reference::{FIELDBUS, VLAN};
use super::VlanTag;

/// PROFINET's shortest and longest cycle: 31.25 us, that up to 16384 times.
const CYCLES: RangeInclusive<Duration> = PROFINET_CLOCK..=Duration::from_millis(512);
/// Unit of PROFINET's cycles: they are multiples of it.
const PROFINET_CLOCK: Duration = Duration::from_nanos(31_250);
/// An end has the keys of two epochs: it must come by the next one while one of them lasts.
const SHORTEST_EPOCH: Duration = Duration::from_secs(1);
const USUAL_ALARM_PERCENT: u32 = 50;

/// EtherTypes that have a meaning, which other boxes on the way or the machines would give to a protected frame.
const TAKEN: [EtherType; 18] = [
    EtherType::IPV4,
    EtherType(0x0806),
    EtherType(0x86dd),
    EtherType::VLAN,
    EtherType::SERVICE_VLAN,
    EtherType::MAC_CONTROL,
    EtherType::SLOW_PROTOCOLS,
    EtherType::MRP,
    EtherType::PTP,
    EtherType::PROFINET,
    EtherType::ETHERCAT,
    EtherType::POWERLINK,
    EtherType::SERCOS,
    EtherType::GOOSE,
    EtherType::SAMPLED_VALUES,
    EtherType::LLDP,
    EtherType::EAPOL,
    EtherType::MACSEC,
];

/// `1ms`, `250us`, `31.25us`.
pub(super) fn cycle(
    label: &str,
    value: &Spanned<String>,
    protocol: Protocol,
    findings: &mut Findings,
) -> Option<Duration> {
    let text = value.get_ref();
    let units = [("us", 1_000), ("ms", 1_000_000)];
    let parsed = units.iter().find_map(|(unit, nanoseconds)| decimal(text.strip_suffix(unit)?, *nanoseconds));
    match parsed.map(Duration::from_nanos).filter(|cycle| CYCLES.contains(cycle)) {
        Some(cycle) => {
            let is_odd = !cycle.as_nanos().is_multiple_of(PROFINET_CLOCK.as_nanos());
            if is_odd && protocol == Protocol::Profinet {
                let odd = format!(
                    "{label}cycle = {text:?} is not a multiple of 31.25 us, as all cycles of PROFINET are; check it"
                );
                findings.warn(value.span(), odd);
            }
            Some(cycle)
        }
        None => {
            let wrong = format!(
                "{label}cycle = {text:?} is no cycle; use 31.25us to 512ms, such as \"1ms\" or \"250us\""
            );
            findings.error(value.span(), wrong);
            None
        }
    }
}

/// A decimal number of `unit` nanoseconds, if it comes to whole ones.
fn decimal(text: &str, unit: u64) -> Option<u64> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
    let digits = |text: &str| !text.is_empty() && text.len() <= 9 && text.bytes().all(|c| c.is_ascii_digit());
    if !digits(whole) || !digits(fraction) {
        return None;
    }
    let scale = 10_u64.pow(u32::try_from(fraction.len()).ok()?);
    let fraction = fraction.parse::<u64>().ok()? * unit;
    (fraction.is_multiple_of(scale)).then_some(whole.parse::<u64>().ok()? * unit + fraction / scale)
}

/// `0x88b5`, or the same in quotation marks.
pub(in super::super) fn ethertype(
    (label, key): (&str, &str),
    value: &Option<Spanned<Value>>,
    cure: &str,
    findings: &mut Findings,
) -> EtherType {
    let Some(value) = value else { return ETHERTYPE };
    let number = match value.get_ref() {
        Value::Integer(number) => u16::try_from(*number).ok(),
        Value::String(text) => text
            .strip_prefix("0x")
            .filter(|digits| digits.len() == 4)
            .and_then(|digits| u16::from_str_radix(digits, 16).ok()),
        _ => None,
    };
    let wrong = match number.map(EtherType) {
        Some(ethertype) if ethertype.0 >= 0x0600 && !TAKEN.contains(&ethertype) => return ethertype,
        Some(EtherType(0..0x0600)) => "is a length, not an EtherType".to_owned(),
        Some(ethertype) => format!("= {ethertype} is another protocol's"),
        None => "is no EtherType".to_owned(),
    };
    let text = format!("{label}{key} {wrong}; {cure}");
    findings.error(value.span(), text);
    ETHERTYPE
}

/// `"none"`, or `{ priority = 6, vid = 0 }`.
pub(super) fn vlan(label: &str, value: &Option<Spanned<Value>>, findings: &mut Findings) -> Option<VlanTag> {
    let usual = VlanTag::PROFINET;
    let Some(value) = value else { return Some(usual) };
    match value.get_ref() {
        Value::String(text) if text == "none" => return None,
        Value::Table(table) if table.keys().all(|key| VLAN.iter().any(|known| key == known.name)) => {
            let [priority, vid] = VLAN.map(|key| match table.get(key.name) {
                None => Some(key.default_number()),
                Some(value) => value.as_integer().and_then(|number| key.in_range::<u16>(number)),
            });
            let priority = priority.and_then(|priority| u8::try_from(priority).ok());
            if let Some(tag) = priority.zip(vid).and_then(|(priority, vid)| VlanTag::new(priority, vid)) {
                return Some(tag);
            }
        }
        _ => {}
    }
    let text = format!(
        "{label}vlan is neither \"none\" nor a tag; use {{ priority = 6, vid = 0 }} with priority 0 to 7 and vid 0 to 4094"
    );
    findings.error(value.span(), text);
    Some(usual)
}

/// Frames of an epoch, of relations with these cycles.
pub(super) fn epoch_frames(
    label: &str,
    frames: &Option<Spanned<i64>>,
    cycles: impl Iterator<Item = Duration>,
    findings: &mut Findings,
) -> u32 {
    let key = FIELDBUS.epoch_frames;
    let Some(value) = frames else { return key.default_number() };
    let number: Option<u32> = key.in_range(*value.get_ref());
    if let (Some(number), Some(cycle)) = (number, cycles.min())
        && cycle * number < SHORTEST_EPOCH
    {
        let text = format!(
            "{label}epoch_frames = {number} at a cycle of {cycle:?} is less than a second; use {} or more",
            SHORTEST_EPOCH.as_nanos().div_ceil(cycle.as_nanos())
        );
        findings.error(value.span(), text);
    }
    number.unwrap_or_else(|| {
        let text = format!(
            "{label}epoch_frames = {} is out of range; use {} to {} frames of a direction, or remove it for the maximum",
            value.get_ref(),
            key.range().start(),
            key.range().end()
        );
        findings.error(value.span(), text);
        key.default_number()
    })
}

/// Watchdog, in cycles, and the part of it at which there is an alarm, in percent.
pub(super) fn watchdog(
    label: &str,
    watchdog: &Option<Spanned<i64>>,
    alarm: &Option<Spanned<Value>>,
    findings: &mut Findings,
) -> (u32, u32) {
    let key = FIELDBUS.watchdog;
    let cycles = match watchdog {
        None => key.default_number(),
        Some(value) => key.in_range(*value.get_ref()).unwrap_or_else(|| {
            let text = format!(
                "{label}watchdog = {} is out of range; use {} to {} cycles, as the machines' engineering tool has it",
                value.get_ref(),
                key.range().start(),
                key.range().end()
            );
            findings.error(value.span(), text);
            key.default_number()
        }),
    };
    let Some(value) = alarm else {
        // Half of a watchdog of 2 cycles is reached by every frame.
        return (cycles, USUAL_ALARM_PERCENT.max(150 / cycles));
    };
    let Some(percent) = share(value.get_ref()) else {
        let text = format!(
            "{label}alarm is not a share of the watchdog; use more than 0 and up to 1, such as 0.5 or \"50%\""
        );
        findings.error(value.span(), text);
        return (cycles, USUAL_ALARM_PERCENT);
    };
    if percent * cycles <= 100 {
        let text = format!(
            "{label}alarm = {percent}% of {cycles} cycles is not above one cycle, so every frame would raise the alarm; use more than {}%",
            100 / cycles
        );
        findings.error(value.span(), text);
    }
    (cycles, percent)
}

fn share(value: &Value) -> Option<u32> {
    let share = match value {
        Value::Float(share) => *share,
        Value::Integer(1) => 1.0,
        Value::String(text) => text.strip_suffix('%')?.trim_end().parse::<u8>().ok().map(f64::from)? / 100.0,
        _ => return None,
    };
    // At most 100: it fits.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    let percent = |share: f64| (share * 100.0).round() as u32;
    (share > 0.0 && share <= 1.0).then(|| percent(share)).filter(|percent| *percent > 0)
}
