//! `[[sa]]`: SAs by themselves, for [`diagnosis::inspect`]. No gateway runs with such a file.
//!
//! ```toml
//! [[sa]]
//! suite    = "gcm-aes-128"
//! sci      = "02:00:00:00:00:0a/1"
//! an       = 0
//! key_file = "from-a.key"              # or key = "32 or 64 hexadecimal digits", in a file of mode 0600
//! # confidentiality_offset = 0         0, 30 or 50
//! # ssci = 1, salt = "24 digits"       XPN suites, and only they
//! # pn_high = 0, or lowest_pn = 1      where the packet numbers of the capture begin; found out if left out
//! ```
//!
//! Several entries may share SCI and AN: the keys that an SA had one after the other.

use std::ops::Range;
use std::path::{Path, PathBuf};

use secy::{ConfidentialityOffset, SciInclusion};
use serde::Deserialize;
use suite::{CipherSuite, Sak};
use toml::{Spanned, Value};
use wire::Pn;
use zeroize::Zeroizing;

use super::findings::{Finding, Findings, list};
use super::key_source::KeySource;
use super::mistakes;
use super::static_keys::{RawSa, Scope};
use super::{Config, KeyFiles, Origin, StaticSa};
use crate::key_file;

/// First PN of an SA in a capture.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Begins {
    /// Not told.
    Unknown,
    /// Anywhere with this high half.
    High(u32),
    /// Not below this one.
    At(Pn),
}

/// An SA that stands by itself.
#[derive(Debug)]
pub struct FileSa {
    /// The line on which it begins, from 1.
    pub line: usize,
    /// Its cipher suite.
    pub suite: CipherSuite,
    /// AN, SCI, key, SSCI and salt.
    pub sa: StaticSa,
    /// The confidentiality offset.
    pub offset: ConfidentialityOffset,
    /// First PN in the capture.
    pub begins: Begins,
}

/// Content of a file with keys.
#[derive(Debug)]
pub enum Keys {
    /// A gateway's configuration.
    Config(Box<Config>),
    /// SAs by themselves, at least one.
    Sas(Vec<FileSa>),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawFile {
    sa: Vec<Spanned<RawFileSa>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawFileSa {
    suite: Option<Spanned<String>>,
    sci: Option<Spanned<String>>,
    an: Option<Spanned<i64>>,
    key: Option<Spanned<Secret>>,
    key_file: Option<Spanned<String>>,
    ssci: Option<Spanned<Value>>,
    salt: Option<Spanned<String>>,
    confidentiality_offset: Option<Spanned<i64>>,
    pn_high: Option<Spanned<i64>>,
    lowest_pn: Option<Spanned<i64>>,
}

/// A text that is wiped.
#[derive(Deserialize)]
#[serde(from = "String")]
struct Secret(Zeroizing<String>);

impl From<String> for Secret {
    fn from(text: String) -> Self {
        Self(Zeroizing::new(text))
    }
}

/// Reads a file with keys: `[[sa]]` entries, or a gateway's configuration.
///
/// # Errors
///
/// All that is wrong, line by line.
pub fn load(file: &Path) -> Result<Keys, Vec<Finding>> {
    let text = super::read(file)?;
    let keys = parse(file, &text, KeyFiles::ON_DISK)?;
    if let Keys::Sas(_) = keys {
        // Whether a key stands in it or not: it is kept as key files are.
        key_file::check_file(file)
            .map_err(|error| vec![Finding { file: file.to_owned(), line: None, text: error.to_string() }])?;
    }
    Ok(keys)
}

/// Judges the text of the file with keys `file`. Key files are searched relative to it and read with `files`.
///
/// # Errors
///
/// All that is wrong, line by line.
pub fn parse(file: &Path, text: &str, files: KeyFiles) -> Result<Keys, Vec<Finding>> {
    let refused = |error: toml::de::Error| vec![mistakes::explain_toml_error(file, text, &error, &[])];
    let sections: std::collections::BTreeMap<String, serde::de::IgnoredAny> =
        toml::from_str(text).map_err(refused)?;
    if !sections.contains_key("sa") {
        return super::parse(file, text, files).map(|(config, _)| Keys::Config(Box::new(config)));
    }
    let raw: RawFile = toml::from_str(text).map_err(refused)?;
    let mut findings = Findings::new(file, text);
    let keys = KeySource { directory: file.parent().unwrap_or(Path::new("")), files };
    let sas: Vec<_> = raw.sa.iter().filter_map(|raw| sa(raw, &keys, &mut findings)).collect();
    if raw.sa.is_empty() {
        findings.error(0..0, "there is no [[sa]]; add one");
    }
    if findings.errors.is_empty() { Ok(Keys::Sas(sas)) } else { Err(findings.errors) }
}

fn sa(raw: &Spanned<RawFileSa>, keys: &KeySource, findings: &mut Findings) -> Option<FileSa> {
    let (span, raw) = (raw.span(), raw.get_ref());
    let scope = Scope {
        label: "[[sa]] ",
        section: "link",
        link: span.clone(),
        sci: &None,
        sci_inclusion: SciInclusion::Always,
    };
    let suite = suite(raw, &span, findings);
    let RawFileSa { sci, an, key_file, ssci, salt, .. } = raw;
    let common = RawSa { an, sci, key_file, ssci, salt };
    let an = scope.an(&common, &span, findings);
    let sci = scope.sci(&common, &span, findings);
    let offset = offset(raw, findings);
    let begins = begins(raw, findings);
    let suite = suite?;
    let xpn = scope.xpn(&common, &span, suite, findings);
    if offset != Some(ConfidentialityOffset::Zero) && !suite.allows_confidentiality_offset() {
        findings
            .error(span.clone(), "[[sa]] confidentiality_offset does not go with an XPN suite; remove it");
    }
    let key = match (&raw.key, key_file) {
        (Some(key), Some(_)) => {
            findings.error(key.span(), "[[sa]] has key and key_file; remove one of them");
            None
        }
        (Some(key), None) => inline_key(key, suite, findings).map(|key| (key, PathBuf::new())),
        (None, _) => scope.key(&common, &span, suite, keys, findings),
    };
    let line = findings.line(&span);
    let (key, key_file) = key?;
    let sa = StaticSa {
        an: an?,
        sci: sci?,
        key,
        key_file: Origin(key_file),
        line: Origin(line),
        xpn: xpn?,
        replay_floor: true,
    };
    Some(FileSa { line, suite, sa, offset: offset?, begins: begins? })
}

fn suite(raw: &RawFileSa, span: &Range<usize>, findings: &mut Findings) -> Option<CipherSuite> {
    let known = || list(&CipherSuite::ALL.map(|suite| suite.name().to_owned()));
    let Some(value) = &raw.suite else {
        findings.error(span.clone(), format!("[[sa]] suite is missing; use {}", known()));
        return None;
    };
    let suite = value.get_ref().parse().ok();
    if suite.is_none() {
        let text = format!("[[sa]] suite = {:?} is unknown; use {}", value.get_ref(), known());
        findings.error(value.span(), text);
    }
    suite
}

fn offset(raw: &RawFileSa, findings: &mut Findings) -> Option<ConfidentialityOffset> {
    let Some(value) = &raw.confidentiality_offset else { return Some(ConfidentialityOffset::Zero) };
    match value.get_ref() {
        0 => Some(ConfidentialityOffset::Zero),
        30 => Some(ConfidentialityOffset::Thirty),
        50 => Some(ConfidentialityOffset::Fifty),
        other => {
            let text = format!("[[sa]] confidentiality_offset = {other} is no choice; use 0, 30 or 50");
            findings.error(value.span(), text);
            None
        }
    }
}

/// `None`: an error was found.
fn begins(raw: &RawFileSa, findings: &mut Findings) -> Option<Begins> {
    let (value, begins) = match (&raw.pn_high, &raw.lowest_pn) {
        (None, None) => return Some(Begins::Unknown),
        (Some(high), None) => (high, u32::try_from(*high.get_ref()).ok().map(Begins::High)),
        (None, Some(lowest)) => {
            (lowest, u64::try_from(*lowest.get_ref()).ok().and_then(Pn::new).map(Begins::At))
        }
        (Some(high), Some(_)) => {
            findings.error(high.span(), "[[sa]] has pn_high and lowest_pn; remove one of them");
            return None;
        }
    };
    if begins.is_none() {
        findings.error(
            value.span(),
            "[[sa]] this is not a packet number; use 0 to 4294967295 for pn_high, 1 or more for lowest_pn",
        );
    }
    begins
}

fn inline_key(key: &Spanned<Secret>, suite: CipherSuite, findings: &mut Findings) -> Option<Sak> {
    let digits = &key.get_ref().0;
    let mut octets = Zeroizing::new([0; 32]);
    let wanted = octets.get_mut(..suite.key_octets())?;
    if hex::decode_to_slice(&**digits, wanted).is_err() {
        let text = format!(
            "[[sa]] key is not {} hexadecimal digits, as {suite} needs; correct it",
            2 * wanted.len()
        );
        findings.error(key.span(), text);
        return None;
    }
    Sak::new(suite, wanted).ok()
}
