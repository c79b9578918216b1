//! `bypass`: EtherTypes that pass in clear, both ways, and what each lets a stranger on the network do.
//!
//! The rule without a bypass is one sentence: everything a machine sends is protected, and nothing else is delivered.
//! A bypass is for one reason only: somebody between the gateways has to take part in the protocol.

use std::fmt;

use toml::Spanned;
use wire::EtherType;

use super::findings::Findings;
use super::reference::RawLink;

/// Protocols between neighbours, which a bypass is for.
const NAMED: [(&str, EtherType); 3] =
    [("lldp", EtherType::LLDP), ("ptp", EtherType::PTP), ("mrp", EtherType::MRP)];

/// An EtherType of a bypass, by its name if it has one: `lldp (0x88cc)`.
pub struct Named(pub EtherType);

impl fmt::Display for Named {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match NAMED.iter().find(|(_, ether_type)| *ether_type == self.0) {
            Some((name, ether_type)) => write!(f, "{name} ({ether_type})"),
            None => write!(f, "{}", self.0),
        }
    }
}

/// Risk where an EtherType passes in clear: what a stranger on the network may do.
pub const fn risk(ether_type: EtherType) -> &'static str {
    match ether_type {
        EtherType::LLDP => {
            "a stranger on the network reads what the machine tells its neighbours, and can pose as one"
        }
        EtherType::PTP => {
            "a stranger on the network can set the machine's clock; the measured delay includes forwarding times in any case"
        }
        EtherType::MRP => "a stranger on the network can open or close the machine's ring",
        EtherType::SLOW_PROTOCOLS => {
            "a stranger on the network can join or break the machine's link aggregation"
        }
        EtherType::PROFINET => {
            "all PROFINET frames pass in clear: a stranger on the network can read and steer the machine"
        }
        _ => "a stranger on the network can read them, and send others to the machine",
    }
}

pub(super) fn validate(label: &str, raw: &RawLink, findings: &mut Findings) -> Vec<EtherType> {
    let mut bypass = Vec::new();
    for value in raw.bypass.iter().flat_map(Spanned::get_ref) {
        match ether_type(value.get_ref()) {
            Ok(ether_type) if bypass.contains(&ether_type) => {
                let text = format!("{label}bypass names {:?} twice; once is enough", value.get_ref());
                findings.error(value.span(), text);
            }
            Ok(ether_type) => {
                let text = format!(
                    "{label}bypass {:?}: such frames pass in clear, both ways: {}",
                    value.get_ref(),
                    risk(ether_type)
                );
                findings.warn(value.span(), text);
                bypass.push(ether_type);
            }
            Err(why) => {
                findings.error(value.span(), format!("{label}bypass {:?} {why}", value.get_ref()));
            }
        }
    }
    bypass
}

/// An EtherType by name or as `0x` and four digits, if it may pass in clear.
fn ether_type(text: &str) -> Result<EtherType, &'static str> {
    let digits = text.strip_prefix("0x").filter(|digits| digits.len() == 4 && !digits.starts_with('+'));
    let named = NAMED.iter().find(|(name, _)| *name == text).map(|(_, ether_type)| *ether_type);
    let numbered = digits.and_then(|digits| u16::from_str_radix(digits, 16).ok()).map(EtherType);
    match named.or(numbered) {
        None => Err("is not an EtherType; use lldp, ptp, mrp or four digits such as \"0x88cc\""),
        Some(EtherType(0..0x0600)) => Err("is a length, not an EtherType; use 0x0600 or above"),
        Some(EtherType::MACSEC | EtherType::EAPOL) => Err("is the gateway's own protocol; remove it"),
        Some(EtherType::MAC_CONTROL) => Err("is MAC control (PAUSE), which no bridge forwards; remove it"),
        Some(EtherType::VLAN | EtherType::SERVICE_VLAN) => {
            Err("would pass all that a VLAN tag covers; remove it")
        }
        Some(ether_type) => Ok(ether_type),
    }
}
