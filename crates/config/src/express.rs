//! `express`: express frames on an SC of their own, which programs in the kernel can be while all other frames are split in user space.

use ::mka::SuiteRule;
use secy::{SciInclusion, SecY};
use suite::CipherSuite;

use super::findings::Findings;
use super::keys::{Keys, Mka, StaticSas};
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
        Some(Keys::Static(sas)) => static_unfit(sas, sci_inclusion, divides),
        // The keys are what is wrong.
        Some(Keys::None) | None => return false,
    };
    if let Some(why) = wrong {
        findings.error(value.span(), format!("{label}express = true {why}"));
    }
    wrong.is_none()
}

/// Why there can be no express SCs if frames need not carry their SCI.
const NO_SCI: &str = "needs frames that carry their SCI; remove sci = \"never\"";

/// Why there can be no express SCs with these keys, and what to do.
fn static_unfit(sas: &StaticSas, sci_inclusion: SciInclusion, divides: bool) -> Option<&'static str> {
    let all = || std::iter::once(&sas.transmit).chain(&sas.receive);
    let mut scis: Vec<_> = sas.receive.iter().map(|sa| sa.sci).collect();
    scis.sort_unstable();
    scis.dedup();
    if !matches!(sas.suite, CipherSuite::ChaCha20Poly1305 | CipherSuite::ChaCha20Poly1305Xpn) {
        Some("needs suite = \"chacha20-poly1305\" or \"chacha20-poly1305-xpn\"")
    } else if !divides {
        Some("is for links that split frames; set fragment = \"on\" at both ends, or remove express")
    } else if sci_inclusion == SciInclusion::Never {
        Some(NO_SCI)
    } else if all().any(|sa| sa.sci.express().is_none()) {
        Some("needs SCIs whose port numbers are below 32768, at both ends")
    } else if scis.len() * 2 > SecY::RECEIVE_SCS {
        Some("is for at most 16 peers; remove it")
    } else {
        None
    }
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
        Some(NO_SCI)
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
