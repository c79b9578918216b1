//! `fragment`, `concatenate` and `hold`: what may be done to SDUs so that they fit and fill frames.
//!
//! All three need peers that understand it. With MKA they announce it, and `auto`, the default, means: under each SAK
//! that all live peers announced it for. `on` can promise no more; it means that status says so where peers do not. With
//! static keys nobody announces anything, so `auto` means off, and `on` is a promise that both ends are configured alike.

use std::time::Duration;

use dataplane::fragmenter::{FragmentConfig, LONGEST_HOLD};
use secy::{ConfidentialityOffset, Protection, ValidateFrames};
use toml::Spanned;

use super::findings::Findings;
use super::raw::RawLink;

/// What a key says.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Wish {
    Auto,
    On,
    Off,
}

/// Judges the three keys of a link; `None` if frames stay as the standard has them.
pub(super) fn validate(
    label: &str,
    raw: &RawLink,
    protection: Protection,
    validate_frames: ValidateFrames,
    findings: &mut Findings,
) -> Option<FragmentConfig> {
    let offset = match protection {
        Protection::Encrypt(offset) => offset,
        Protection::Integrity => ConfidentialityOffset::Zero,
    };
    let unsafe_with = [
        (offset != ConfidentialityOffset::Zero, "set confidentiality_offset = 0"),
        (validate_frames != ValidateFrames::Strict, "set validate_frames = \"strict\""),
        (raw.protect_frames.as_ref().is_some_and(|on| !on.get_ref()), "remove protect_frames = false"),
    ];
    let choices = [("auto", Wish::Auto), ("on", Wish::On), ("off", Wish::Off)];
    let auto = raw.mka.is_some() && unsafe_with.iter().all(|(wrong, _)| !wrong);
    let mut fragments = |key, value| match findings.choice(label, key, value, &choices, Wish::Auto) {
        Wish::Auto => auto,
        Wish::On => true,
        Wish::Off => false,
    };
    let fragment = fragments("fragment", &raw.fragment);
    let concatenate = fragments("concatenate", &raw.concatenate);
    let hold = raw.hold.as_ref().map_or(Duration::ZERO, |value| hold(label, value, concatenate, findings));
    let keys = [("fragment", &raw.fragment), ("concatenate", &raw.concatenate)];
    let on = keys.into_iter().find_map(|(key, value)| {
        value.as_ref().filter(|value| value.get_ref() == "on").map(|value| (key, value))
    });
    for (_, cure) in unsafe_with.iter().filter(|(wrong, _)| *wrong) {
        if let Some((key, value)) = on {
            findings.error(
                value.span(),
                format!("{label}{key} = \"on\" is not safe with these settings; {cure}"),
            );
        }
    }
    if !fragment && !concatenate {
        return None;
    }
    Some(FragmentConfig { fragment, concatenate, hold })
}

/// `250us` or `2ms`.
fn hold(label: &str, value: &Spanned<String>, concatenate: bool, findings: &mut Findings) -> Duration {
    let text = value.get_ref();
    let time = match (text.strip_suffix("us"), text.strip_suffix("ms")) {
        (Some(number), _) => number.parse().ok().map(Duration::from_micros),
        (_, Some(number)) => number.parse().ok().map(Duration::from_millis),
        _ => None,
    };
    match time.filter(|time| *time <= LONGEST_HOLD) {
        Some(time) if time.is_zero() || concatenate => time,
        Some(_) => {
            let text = format!(
                "{label}hold = {text:?} does nothing without concatenation; set concatenate = \"on\""
            );
            findings.error(value.span(), text);
            Duration::ZERO
        }
        None => {
            let text = format!(
                "{label}hold = {text:?} is not a valid time; use 0us to {}us, or ms",
                LONGEST_HOLD.as_micros()
            );
            findings.error(value.span(), text);
            Duration::ZERO
        }
    }
}
