//! `fragment`, `concatenate` and `hold`: what may be done to SDUs so that they fit and fill frames.
//!
//! All three need peers that understand it. With static keys nobody announces anything, so `auto` means off, and `on`
//! is a promise that both ends are configured alike.

use std::time::Duration;

use engine::divide::{Dividing, LONGEST_HOLD};
use secy::{ConfidentialityOffset, Protection, ValidateFrames};
use toml::Spanned;

use super::findings::Findings;
use super::raw::RawLink;

/// Judges the three keys of a link; `None` if frames stay as the standard has them.
pub(super) fn judge(
    label: &str,
    raw: &RawLink,
    protection: Protection,
    validate_frames: ValidateFrames,
    findings: &mut Findings,
) -> Option<Dividing> {
    let choices = [("auto", false), ("on", true), ("off", false)];
    let fragment = findings.choice(label, "fragment", &raw.fragment, &choices, false);
    let concatenate = findings.choice(label, "concatenate", &raw.concatenate, &choices, false);
    let hold = raw.hold.as_ref().map_or(Duration::ZERO, |value| hold(label, value, concatenate, findings));
    let key = if fragment { ("fragment", &raw.fragment) } else { ("concatenate", &raw.concatenate) };
    let (true, (key, Some(value))) = (fragment || concatenate, key) else { return None };
    let offset = match protection {
        Protection::Encrypt(offset) => offset,
        Protection::Integrity => ConfidentialityOffset::Zero,
    };
    for (wrong, cure) in [
        (offset != ConfidentialityOffset::Zero, "set confidentiality_offset = 0"),
        (validate_frames != ValidateFrames::Strict, "set validate_frames = \"strict\""),
        (raw.protect_frames.as_ref().is_some_and(|on| !on.get_ref()), "remove protect_frames = false"),
    ] {
        if wrong {
            findings.error(value.span(), format!("{label}{key} = \"on\" is not safe like this; {cure}"));
        }
    }
    Some(Dividing { fragment, concatenate, hold })
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
                "{label}hold = {text:?} is no time to hold a frame; use 0us to {}us, or ms",
                LONGEST_HOLD.as_micros()
            );
            findings.error(value.span(), text);
            Duration::ZERO
        }
    }
}
