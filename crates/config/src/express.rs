//! `express`: express frames on an SC of their own, which programs in the kernel can be while all other frames are split in user space.

use ::mka::SuiteRule;
use secy::SciInclusion;
use suite::CipherSuite;

use super::findings::Findings;
use super::keys::{Keys, Mka};
use super::reference::{LINK, RawLink};

/// Judges the key of a link: its keys, the rule for SCIs, and whether frames may be divided.
pub(super) fn validate(
    label: &str,
    raw: &RawLink,
    (keys, sci_inclusion, divides): (Option<&Keys>, SciInclusion, bool),
    findings: &mut Findings,
) -> bool {
    let (true, Some(value)) = (LINK.express.switch(&raw.express), &raw.express) else { return false };
    let wrong = match keys {
        Some(Keys::Agreed(mka)) => unfit(mka, sci_inclusion, divides),
        Some(Keys::Static(_)) => Some("needs key agreement; use [link.mka], or remove express"),
        // The keys are what is wrong.
        Some(Keys::None) | None => return false,
    };
    if let Some(why) = wrong {
        findings.error(value.span(), format!("{label}express = true {why}"));
    }
    wrong.is_none()
}

/// Why there can be no express SCs with this key agreement, and what to do.
fn unfit(mka: &Mka, sci_inclusion: SciInclusion, divides: bool) -> Option<&'static str> {
    let suits = match mka.suite {
        SuiteRule::Any => true,
        SuiteRule::Only(suite) | SuiteRule::Standard(suite) => {
            matches!(suite, CipherSuite::ChaCha20Poly1305 | CipherSuite::ChaCha20Poly1305Xpn)
        }
    };
    if !suits {
        Some("needs suite = \"chacha20-poly1305\", \"chacha20-poly1305-xpn\" or \"any\"")
    } else if !divides {
        Some("is for links that split frames; all frames go through the kernel without it: remove express")
    } else if sci_inclusion == SciInclusion::Never {
        Some("needs frames that carry their SCI; remove sci = \"never\"")
    } else if mka.delay_protect {
        Some(
            "cannot be with delay_protect = true, since MKPDUs name no packet numbers of express frames; remove one of them",
        )
    } else if mka.sci.is_some_and(|sci| sci.express().is_none()) {
        Some("needs an own SCI whose port number is below 32768")
    } else {
        None
    }
}
