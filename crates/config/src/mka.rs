//! `[link.mka]`: keys that are agreed on under a CAK from a file.
//!
//! The rule: no two stations of a group have one SCI, for they would share nonces under its SAK. The SCI is the protected
//! interface's address unless one is named, so only named ones can be compared here. The KaY refuses a peer that has its own SCI.

mod moment;
mod scis;

use std::ops::Range;
use std::time::{Duration, SystemTime};

use mka::SuiteRule;
use secy::{ConfidentialityOffset, Protection, SciInclusion};
use suite::CipherSuite;
use toml::Spanned;
use toml::value::Datetime;
use wire::{MacAddr, Sci};

use super::findings::{Findings, list};
use super::key_source::KeySource;
use super::keys::{Expected, MOST_PEERS, Mka};
use super::reference::{MKA, RawLink, RawMka};
use crate::key_file::{NamedCak, is_zeros};
use moment::{is_over, moment};
pub(super) use scis::SeenScis;

/// Key server priority of a station that never becomes key server.
const NEVER_KEY_SERVER: u8 = 255;
/// Group addresses that EAPOL may be sent to: those of IEEE 802.1X-2020 table 11-1, the nearest non-TPMR bridge's first, and
/// broadcast, which some switches are configured for.
pub const GROUPS: [MacAddr; 6] = [
    MacAddr([0x01, 0x80, 0xc2, 0, 0, 0x03]),
    MacAddr([0x01, 0x80, 0xc2, 0, 0, 0x00]),
    MacAddr([0x01, 0x80, 0xc2, 0, 0, 0x0e]),
    MacAddr([0x01, 0x80, 0xc2, 0, 0, 0x0b]),
    MacAddr([0x01, 0x80, 0xc2, 0, 0, 0x1f]),
    MacAddr([0xff; 6]),
];

/// Settings of a link that are validated elsewhere, and matter here.
pub(super) struct Scope<'s> {
    pub(super) label: &'s str,
    /// It is inside of a site, whose modes leave payloads as the SecY makes them.
    pub(super) in_site: bool,
    pub(super) raw: &'s RawLink,
    pub(super) suite: SuiteRule,
    pub(super) protection: Protection,
    pub(super) sci_inclusion: SciInclusion,
}

impl Scope<'_> {
    pub(super) fn validate(
        &self,
        section: &Spanned<RawMka>,
        keys: &KeySource,
        findings: &mut Findings,
    ) -> Option<Mka> {
        let (label, raw) = (self.label, section.get_ref());
        self.link(findings);
        let file = MKA.cak_file.required(
            label,
            &section.span(),
            &raw.cak_file,
            "; add cak_file = \"FILE\"",
            findings,
        );
        let cak = file.and_then(|file| self.cak("cak_file", file, keys, findings));
        let fallback =
            raw.fallback_cak_file.as_ref().map(|file| self.cak("fallback_cak_file", file, keys, findings));
        if let (Some(cak), Some(Some(fallback)), Some(value)) = (&cak, &fallback, &raw.fallback_cak_file) {
            self.two_caks(cak, fallback, value.span(), findings);
        }
        let fallback_until = raw.fallback_until.as_ref().and_then(|until| self.until(until, raw, findings));
        let sci = self.sci(section, findings);
        let peers = raw.peers.as_ref().map(|peers| self.peers(peers, sci, findings)).unwrap_or_default();
        let is_on = |value: &Option<Spanned<String>>| value.as_ref().is_some_and(|on| on.get_ref() == "on");
        // SAKs are as long as what they are wrapped with.
        let long = cak.as_ref().is_some_and(|cak| cak.octets().len() > 16);
        // Fields with a question mark come last: all others are judged, whatever is missing.
        Some(Mka {
            suite: match self.suite {
                SuiteRule::Standard(_) if long => SuiteRule::Standard(CipherSuite::GcmAes256),
                other => other,
            },
            fallback_until: fallback_until.filter(|until| !is_over(Some(*until))),
            priority: self.priority(raw, findings),
            destination: self.destination(raw, findings),
            on_peer_loss: MKA.on_peer_loss.choice(label, &raw.on_peer_loss, findings),
            rekey: self.rekey(raw, findings),
            delay_protect: MKA.delay_protect.switch(&raw.delay_protect),
            sci,
            announced_name: None,
            peers,
            accept_integrity: self.accept_integrity(raw, findings),
            record: raw.record.as_ref().map(|file| keys.path(file)),
            expects: Expected {
                fragment: is_on(&self.raw.fragment),
                concatenate: is_on(&self.raw.concatenate),
            },
            cak: cak?,
            fallback: match fallback {
                Some(fallback) => Some(fallback?).filter(|_| !is_over(fallback_until)),
                None => None,
            },
        })
    }

    /// Settings of the link that make no sense with keys that are agreed on.
    fn link(&self, findings: &mut Findings) {
        let label = self.label;
        if let Some(value) = self.raw.protect_frames.as_ref().filter(|on| !on.get_ref()) {
            let text = format!(
                "{label}protect_frames = false does not go with [link.mka], whose keys protect frames; remove one of them"
            );
            findings.error(value.span(), text);
        }
        let offset = match self.protection {
            Protection::Encrypt(offset) => offset,
            Protection::Integrity => ConfidentialityOffset::Zero,
        };
        if let (SuiteRule::Any, Some(value)) = (self.suite, &self.raw.confidentiality_offset)
            && offset != ConfidentialityOffset::Zero
        {
            let text = format!(
                "{label}confidentiality_offset = {} needs a suite with offsets; set one, such as suite = \"gcm-aes-128\"",
                offset.octets()
            );
            findings.error(value.span(), text);
        }
    }

    fn cak(
        &self,
        key: &str,
        file: &Spanned<String>,
        keys: &KeySource,
        findings: &mut Findings,
    ) -> Option<NamedCak> {
        let is_zeros = |cak: &NamedCak| is_zeros(cak.octets());
        let cak = keys.read(self.label, file, "cak", keys.files.cak, is_zeros, findings)?;
        if let SuiteRule::Only(suite) = self.suite
            && suite.key_octets() > cak.octets().len()
        {
            let text = format!(
                "{}{key}: keys of {suite} are no stronger than their CAK of {} bits; make one with: frameward keygen cak --bits 256 --out FILE",
                self.label,
                8 * cak.octets().len()
            );
            findings.warn(file.span(), text);
        }
        Some(cak)
    }

    fn two_caks(&self, cak: &NamedCak, fallback: &NamedCak, span: Range<usize>, findings: &mut Findings) {
        let label = self.label;
        if cak.ckn() == fallback.ckn() {
            let text = format!(
                "{label}fallback_cak_file has the ckn of cak_file, {}, but the ckn tells them apart; give each its own",
                cak.ckn()
            );
            findings.error(span, text);
        } else if cak.has_same_key(fallback) {
            let text = format!(
                "{label}fallback_cak_file holds the key of cak_file under another name, so it adds nothing; make another key with: frameward keygen cak --out FILE"
            );
            findings.error(span, text);
        }
    }

    /// Reads the end of the fallback's time: a day in UTC counts whole.
    fn until(&self, value: &Spanned<Datetime>, raw: &RawMka, findings: &mut Findings) -> Option<SystemTime> {
        let (label, written) = (self.label, value.get_ref());
        let Some(until) = moment(*written) else {
            let text = format!(
                "{label}fallback_until = {written} is neither a day nor a time in UTC; write it such as 2027-03-31 or 2027-03-31T18:00:00Z"
            );
            findings.error(value.span(), text);
            return None;
        };
        if raw.fallback_cak_file.is_none() {
            let text = format!("{label}fallback_until without fallback_cak_file ends nothing; remove it");
            findings.error(value.span(), text);
        } else if is_over(Some(until)) {
            let text = format!(
                "{label}fallback_until = {written} is over: the fallback CAK is not used; remove both keys, or set the clock"
            );
            findings.warn(value.span(), text);
        }
        Some(until)
    }

    fn priority(&self, raw: &RawMka, findings: &mut Findings) -> u8 {
        let (key, label) = (MKA.priority, self.label);
        let Some(value) = &raw.priority else { return key.default_number() };
        match key.in_range(*value.get_ref()) {
            Some(NEVER_KEY_SERVER) => {
                let text = format!(
                    "{label}priority = 255: this box never becomes key server; if the whole group has 255, there are no keys, and nothing passes"
                );
                findings.warn(value.span(), text);
                NEVER_KEY_SERVER
            }
            Some(priority) => priority,
            None => {
                let text = format!(
                    "{label}priority = {} is out of range; use 0 (first choice for key server) to 255 (never)",
                    value.get_ref()
                );
                findings.error(value.span(), text);
                key.default_number()
            }
        }
    }

    fn destination(&self, raw: &RawMka, findings: &mut Findings) -> MacAddr {
        let (text, label) = (MKA.destination.text(&raw.destination), self.label);
        let wrong = match text.parse::<MacAddr>() {
            Ok(address) if GROUPS.contains(&address) => return address,
            Ok(address) if !address.is_group() && address != MacAddr::default() => return address,
            Ok(_) => "is no address for EAPOL".to_owned(),
            Err(error) => format!("is {error}"),
        };
        let [group, ..] = GROUPS;
        let groups = list(&GROUPS.map(|group| group.to_string()));
        let wrong =
            format!("{label}destination = {text:?} {wrong}; use {groups}, or the address of the only peer");
        findings.error(raw.destination.as_ref().map_or(0..0, Spanned::span), wrong);
        group
    }

    /// `30s`, `10m`, `1h`, `7d` or `off`.
    fn rekey(&self, raw: &RawMka, findings: &mut Findings) -> Option<Duration> {
        let text = MKA.rekey.text(&raw.rekey);
        if text == "off" {
            return None;
        }
        let time = MKA.rekey.time(text);
        if let (Some(given), None) = (&raw.rekey, time) {
            let wrong = format!(
                "{}rekey = {text:?} is no life of a key; use {}s or more, such as \"10m\", \"1h\" or \"7d\", or \"off\"",
                self.label,
                MKA.rekey.times().start().as_secs()
            );
            findings.error(given.span(), wrong);
        }
        time
    }

    /// The SCIs of the others.
    fn peers(
        &self,
        value: &Spanned<Vec<Spanned<String>>>,
        own: Option<Sci>,
        findings: &mut Findings,
    ) -> Vec<Sci> {
        let label = self.label;
        let mut peers: Vec<Sci> = Vec::new();
        for entry in value.get_ref() {
            let wrong = match entry.get_ref().parse::<Sci>() {
                Ok(sci) if sci.system().is_group() || sci.system() == MacAddr::default() => {
                    "is no station's: a group address, or none".to_owned()
                }
                Ok(sci) if Some(sci) == own => "is this box's own".to_owned(),
                Ok(sci) if peers.contains(&sci) => "stands there twice".to_owned(),
                Ok(sci) => {
                    peers.push(sci);
                    continue;
                }
                Err(error) => format!("is {error}"),
            };
            let text = format!(
                "{label}peers: {:?} {wrong}; name each other box of the link once, by the SCI that its frameward status shows",
                entry.get_ref()
            );
            findings.error(entry.span(), text);
        }
        if value.get_ref().is_empty() || peers.len() > MOST_PEERS {
            let text = format!(
                "{label}peers names {} boxes; name 1 to {MOST_PEERS}, or remove it",
                value.get_ref().len()
            );
            findings.error(value.span(), text);
        }
        peers
    }

    fn accept_integrity(&self, raw: &RawMka, findings: &mut Findings) -> bool {
        let accepts = MKA.accept_integrity.switch(&raw.accept_integrity);
        if let (Some(value), true, Protection::Encrypt(_)) = (&raw.accept_integrity, accepts, self.protection)
        {
            let readable = if self.in_site { "readable on the internet" } else { "readable" };
            let text = format!(
                "{}accept_integrity = true: frames leave authenticated, but {readable}, if the key server says so",
                self.label
            );
            findings.warn(value.span(), text);
        }
        accepts
    }

    fn sci(&self, section: &Spanned<RawMka>, findings: &mut Findings) -> Option<Sci> {
        let label = self.label;
        let Some(value) = &section.get_ref().sci else {
            if self.sci_inclusion == SciInclusion::EndStation
                && let Some(inclusion) = &self.raw.sci
            {
                let text = format!(
                    "{label}sci = \"end-station\" implies the machine's address with port 1; set sci = \"MACHINE/1\" in [link.mka] or use \"always\""
                );
                findings.error(inclusion.span(), text);
            }
            return None;
        };
        let text = value.get_ref();
        let wrong = match text.parse::<Sci>() {
            Ok(sci) if sci.system().is_group() || sci.system() == MacAddr::default() => {
                "is no station's: a group address, or none".to_owned()
            }
            Ok(sci) if sci.port() == Sci::PORT_SINGLE_COPY_BROADCAST => {
                "has port 0, which is reserved".to_owned()
            }
            Ok(sci)
                if self.sci_inclusion == SciInclusion::EndStation && sci.port() != Sci::PORT_END_STATION =>
            {
                "does not go with sci = \"end-station\", which implies port 1".to_owned()
            }
            Ok(sci) => return Some(sci),
            Err(error) => format!("is {error}"),
        };
        findings.error(value.span(), format!("{label}sci = {text:?} {wrong}; correct it"));
        None
    }
}

#[cfg(test)]
mod tests;
