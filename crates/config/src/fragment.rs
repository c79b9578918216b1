//! `fragment`, `concatenate`, `hold`, `express_classes` and `padding`: what may be done to SDUs so that they fit and fill frames.
//!
//! The first three need peers that understand it. With MKA they announce it, and `auto`, the default, means: under each SAK
//! that all live peers announced it for. `on` can promise no more; it means that status says so where peers do not. With
//! static keys nobody announces anything, so `auto` means off, and `on` is a promise that both ends are configured alike.
//!
//! Programs in the kernel take whole SDUs alone. So where the three keys leave it to the gateway, SDUs stay whole while a
//! link's SAs can be in the kernel ([`WholeSdus`]).

use std::time::Duration;

use dataplane::fragmenter::FragmentConfig;
use secy::{ConfidentialityOffset, Protection, ValidateFrames};
use toml::Spanned;

use super::express_classes;
use super::findings::Findings;
use super::padding;
use super::reference::{Key, LINK, RawLink};
use super::words::Division;

/// Whether SDUs stay whole for programs in the kernel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WholeSdus {
    /// As [`super::Link::fragmentation`] says, whatever the kernel has.
    AsConfigured,
    /// While the programs have the link's SAs, and its network and those of its peers carry SDUs whole.
    ForKernel,
    /// Always: `io = "kernel"` demands it.
    Demanded,
}

/// Judges these keys of a link; `None` if frames stay as the standard has them.
pub(super) fn validate(
    label: &str,
    raw: &RawLink,
    protection: Protection,
    validate_frames: ValidateFrames,
    findings: &mut Findings,
) -> (Option<FragmentConfig>, WholeSdus) {
    let offset = match protection {
        Protection::Encrypt(offset) => offset,
        Protection::Integrity => ConfidentialityOffset::Zero,
    };
    let unsafe_with = [
        (offset != ConfidentialityOffset::Zero, "set confidentiality_offset = 0"),
        (validate_frames != ValidateFrames::Strict, "set validate_frames = \"strict\""),
        (raw.protect_frames.as_ref().is_some_and(|on| !on.get_ref()), "remove protect_frames = false"),
    ];
    let auto = raw.mka.is_some() && unsafe_with.iter().all(|(wrong, _)| !wrong);
    let mut fragments = |key: Key, value| match key.choice(label, value, findings) {
        Division::Auto => auto,
        Division::On => true,
        Division::Off => false,
    };
    let fragment = fragments(LINK.fragment, &raw.fragment);
    let concatenate = fragments(LINK.concatenate, &raw.concatenate);
    let hold = hold(label, raw, concatenate, findings);
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
    let padding = padding::validate(label, raw, protection, findings);
    let divides = fragment || concatenate || !padding.is_none();
    let express_classes = express_classes::validate(label, raw, divides, findings);
    if !divides {
        return (None, WholeSdus::AsConfigured);
    }
    // SDUs that are held are to share frames, and express frames go ahead of those that are split.
    let express = LINK.express.switch(&raw.express);
    let left_to_gateway = on.is_none() && hold.is_zero() && !express && padding.is_none();
    let whole = if left_to_gateway { WholeSdus::ForKernel } else { WholeSdus::AsConfigured };
    (Some(FragmentConfig { fragment, concatenate, padding, hold, express: express_classes }), whole)
}

/// `250us` or `2ms`.
fn hold(label: &str, raw: &RawLink, concatenate: bool, findings: &mut Findings) -> Duration {
    let text = LINK.hold.text(&raw.hold);
    let wrong = match LINK.hold.time(text) {
        Some(time) if time.is_zero() || concatenate => return time,
        Some(_) => "does nothing without concatenation; set concatenate = \"on\"".to_owned(),
        None => {
            let longest = LINK.hold.times().end().as_micros();
            format!("is not a valid time; use 0us to {longest}us, or ms")
        }
    };
    let span = raw.hold.as_ref().map_or(0..0, Spanned::span);
    findings.error(span, format!("{label}hold = {text:?} {wrong}"));
    Duration::ZERO
}
