//! `[link.mka]`: keys that are agreed on under a CAK from a file.
//!
//! What must not be: two stations with one SCI in a group, for they would share nonces under its SAK. The SCI is the
//! protected interface's address unless one is named, so only named ones can be judged here; the KaY refuses a peer
//! with its own.

use std::ops::Range;
use std::path::Path;
use std::time::{Duration, SystemTime};

use mka::{OnPeerLoss, SuiteRule};
use secy::{ConfidentialityOffset, Protection, SciInclusion};
use suite::CipherSuite;
use time::{Date, Month, UtcOffset};
use toml::Spanned;
use toml::value::{Datetime, Offset};
use wire::{MacAddr, Sci};

use super::ReadCak;
use super::findings::{Findings, list};
use super::keys::{Expected, Mka};
use super::raw::{RawLink, RawMka};
use crate::key_file::{NamedCak, is_zeros, zeros};

/// Without a `priority`.
const DEFAULT_PRIORITY: u8 = 16;
/// The priority of who is never key server.
const NEVER_KEY_SERVER: u8 = 255;
/// Where EAPOL may go as to a group (IEEE 802.1X-2020 table 11-1, and broadcast, which some switches are told to use).
pub const GROUPS: [MacAddr; 6] = [
    DEFAULT_DESTINATION,
    MacAddr([0x01, 0x80, 0xc2, 0, 0, 0x00]),
    MacAddr([0x01, 0x80, 0xc2, 0, 0, 0x0e]),
    MacAddr([0x01, 0x80, 0xc2, 0, 0, 0x0b]),
    MacAddr([0x01, 0x80, 0xc2, 0, 0, 0x1f]),
    MacAddr([0xff; 6]),
];
/// The nearest non-TPMR bridge's: without a `destination`.
const DEFAULT_DESTINATION: MacAddr = MacAddr([0x01, 0x80, 0xc2, 0, 0, 0x03]);
/// The shortest life of a SAK: another one takes about ten seconds to be the only one.
const SHORTEST_REKEY: Duration = Duration::from_secs(30);

/// The life of a SAK without `rekey`: who takes one out of a box has what was sent since then, at most.
const DEFAULT_REKEY: Duration = Duration::from_secs(8 * 3600);
/// A group has at most so many others.
const MOST_PEERS: usize = 32;

/// Where CAKs come from.
pub(super) struct CakSource<'k> {
    /// Relative paths start here.
    pub(super) directory: &'k Path,
    pub(super) read: ReadCak<'k>,
}

/// What of a link is judged elsewhere, and matters here.
pub(super) struct Scope<'s> {
    pub(super) label: &'s str,
    pub(super) raw: &'s RawLink,
    pub(super) suite: SuiteRule,
    pub(super) protection: Protection,
    pub(super) sci_inclusion: SciInclusion,
}

impl Scope<'_> {
    pub(super) fn validate(
        &self,
        section: &Spanned<RawMka>,
        caks: &CakSource,
        findings: &mut Findings,
    ) -> Option<Mka> {
        let (label, raw) = (self.label, section.get_ref());
        self.link(findings);
        let cak = match &raw.cak_file {
            Some(file) => self.cak("cak_file", file, caks, findings),
            None => {
                let text = format!("{label}cak_file is missing; add cak_file = \"FILE\"");
                findings.error(section.span(), text);
                None
            }
        };
        let fallback =
            raw.fallback_cak_file.as_ref().map(|file| self.cak("fallback_cak_file", file, caks, findings));
        if let (Some(cak), Some(Some(fallback)), Some(value)) = (&cak, &fallback, &raw.fallback_cak_file) {
            self.two_caks(cak, fallback, value.span(), findings);
        }
        let fallback_until = raw.fallback_until.as_ref().and_then(|until| self.until(until, raw, findings));
        let loss = [("block", OnPeerLoss::Block), ("hold", OnPeerLoss::Hold)];
        let on_peer_loss =
            findings.choice(label, "on_peer_loss", &raw.on_peer_loss, &loss, OnPeerLoss::Block);
        let priority = self.priority(raw, findings);
        let destination = self.destination(raw, findings);
        let rekey = match &raw.rekey {
            Some(value) => self.rekey(value, findings),
            None => Some(DEFAULT_REKEY),
        };
        let sci = self.sci(section, findings);
        let peers = raw.peers.as_ref().map(|peers| self.peers(peers, sci, findings)).unwrap_or_default();
        let accept_integrity =
            raw.accept_integrity.as_ref().is_some_and(|accept| self.accept_integrity(accept, findings));
        let is_on = |value: &Option<Spanned<String>>| value.as_ref().is_some_and(|on| on.get_ref() == "on");
        let cak = cak?;
        Some(Mka {
            suite: match self.suite {
                // SAKs are as long as what they are wrapped with.
                SuiteRule::Standard(_) if cak.octets().len() > 16 => {
                    SuiteRule::Standard(CipherSuite::GcmAes256)
                }
                other => other,
            },
            cak,
            fallback: match fallback {
                Some(fallback) => Some(fallback?).filter(|_| !is_over(fallback_until)),
                None => None,
            },
            fallback_until: fallback_until.filter(|until| !is_over(Some(*until))),
            priority,
            destination,
            on_peer_loss,
            rekey,
            delay_protect: raw.delay_protect.as_ref().is_some_and(|on| *on.get_ref()),
            sci,
            peers,
            accept_integrity,
            record: raw.record.as_ref().map(|file| caks.directory.join(file.get_ref())),
            expects: Expected {
                fragment: is_on(&self.raw.fragment),
                concatenate: is_on(&self.raw.concatenate),
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
        caks: &CakSource,
        findings: &mut Findings,
    ) -> Option<NamedCak> {
        let path = caks.directory.join(file.get_ref());
        match (caks.read)(&path) {
            Ok(cak) if is_zeros(cak.octets()) => {
                findings.error(file.span(), format!("{}{}", self.label, zeros(&path, "cak")));
                None
            }
            Ok(cak) => {
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
            Err(error) => {
                findings.error(file.span(), format!("{}{error}", self.label));
                None
            }
        }
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

    /// When the fallback's time is over: a day in UTC counts whole.
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
        let Some(value) = &raw.priority else { return DEFAULT_PRIORITY };
        let label = self.label;
        match u8::try_from(*value.get_ref()) {
            Ok(NEVER_KEY_SERVER) => {
                let text = format!(
                    "{label}priority = 255: this box never becomes key server; if the whole group has 255, there are no keys, and nothing passes"
                );
                findings.warn(value.span(), text);
                NEVER_KEY_SERVER
            }
            Ok(priority) => priority,
            Err(_) => {
                let text = format!(
                    "{label}priority = {} is out of range; use 0 (first choice for key server) to 255 (never)",
                    value.get_ref()
                );
                findings.error(value.span(), text);
                DEFAULT_PRIORITY
            }
        }
    }

    fn destination(&self, raw: &RawMka, findings: &mut Findings) -> MacAddr {
        let Some(value) = &raw.destination else { return DEFAULT_DESTINATION };
        let label = self.label;
        let wrong = match value.get_ref().parse::<MacAddr>() {
            Ok(address) if GROUPS.contains(&address) => return address,
            Ok(address) if !address.is_group() && address != MacAddr::default() => return address,
            Ok(_) => "is no address for EAPOL".to_owned(),
            Err(error) => format!("is {error}"),
        };
        let text = format!(
            "{label}destination = {:?} {wrong}; use {}, or the address of the only peer",
            value.get_ref(),
            list(&GROUPS.map(|group| group.to_string()))
        );
        findings.error(value.span(), text);
        DEFAULT_DESTINATION
    }

    /// `30s`, `10m`, `1h`, `7d` or `off`.
    fn rekey(&self, value: &Spanned<String>, findings: &mut Findings) -> Option<Duration> {
        let text = value.get_ref();
        if text == "off" {
            return None;
        }
        let units = [("s", 1), ("m", 60), ("h", 3600), ("d", 86_400)];
        let time = units.iter().find_map(|(unit, seconds)| {
            let number = text.strip_suffix(unit)?.parse::<u32>().ok()?;
            Some(Duration::from_secs(u64::from(number) * seconds))
        });
        let time = time.filter(|time| *time >= SHORTEST_REKEY);
        if time.is_none() {
            let wrong = format!(
                "{}rekey = {text:?} is no life of a key; use {}s or more, such as \"10m\", \"1h\" or \"7d\", or \"off\"",
                self.label,
                SHORTEST_REKEY.as_secs()
            );
            findings.error(value.span(), wrong);
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

    fn accept_integrity(&self, value: &Spanned<bool>, findings: &mut Findings) -> bool {
        let encrypts = matches!(self.protection, Protection::Encrypt(_));
        if *value.get_ref() && encrypts {
            let text = format!(
                "{}accept_integrity = true: frames leave authenticated, but readable, if the key server says so",
                self.label
            );
            findings.warn(value.span(), text);
        }
        *value.get_ref()
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

/// Named SCIs that stood already, with their lines.
#[derive(Default)]
pub(super) struct SeenScis(Vec<(Sci, usize)>);

impl SeenScis {
    /// Refuses an SCI that another link has.
    pub(super) fn once(
        &mut self,
        label: &str,
        section: &Spanned<RawMka>,
        mka: &Mka,
        findings: &mut Findings,
    ) {
        let (Some(sci), Some(value)) = (mka.sci, &section.get_ref().sci) else { return };
        if let Some((_, line)) = self.0.iter().find(|(seen, _)| *seen == sci) {
            let text =
                format!("{label}sci = \"{sci}\" is already used on line {line}; give each link its own");
            findings.error(value.span(), text);
        }
        self.0.push((sci, findings.line(&value.span())));
    }
}

#[cfg(test)]
mod tests;

/// The end of a day in UTC, or a moment with its offset.
fn moment(written: Datetime) -> Option<SystemTime> {
    let date = written.date?;
    let month = Month::try_from(date.month).ok()?;
    let day = Date::from_calendar_date(date.year.into(), month, date.day).ok()?;
    let (at, offset) = match (written.time, written.offset) {
        (None, None) => (day.next_day()?.midnight(), UtcOffset::UTC),
        (Some(time), Some(offset)) => {
            let minutes = match offset {
                Offset::Z => 0,
                Offset::Custom { minutes } => i32::from(minutes),
            };
            let at = day.with_hms(time.hour, time.minute, time.second.unwrap_or(0)).ok()?;
            (at, UtcOffset::from_whole_seconds(minutes * 60).ok()?)
        }
        _ => return None,
    };
    Some(at.assume_offset(offset).into())
}

fn is_over(until: Option<SystemTime>) -> bool {
    until.is_some_and(|until| SystemTime::now() >= until)
}
