//! The audit log of an operator on a machine: what was changed in a fleet from there, and how it ended. Lines are appended to one file
//! beside the public identities.
//!
//! ```text
//!  MACHINE-USER.audit: a record a line, in JSON:
//!    line       1 at first, then one more each
//!    time       in UTC
//!    previous   SHA-256 of the line before, without its end; zeros in the first one
//!    operator   the fleet's public key, as far as the command knows it
//!    login      who gave the command
//!    by         for whom, if somebody asked for it who is not logged in: by the cockpit, say
//!    host       the machine
//!    action     the command
//!    objects    what it is about
//!    outcome    begun; then done or failed. Or refused: nothing was changed
//!    begun      the line that says that it begins
//!    versions   what was published, by gateway
//!    reason     why it failed or was refused
//!    signature  the operator's, of the record without it; where the command has the signing key
//! ```
//!
//! - A line has one encoding: what is read encodes to itself.
//! - A signature covers all lines before it, since each of them names the one before.
//! - A line that was cut off while it was written stays as it is. The log goes on behind it, and the next line names it as any other.
//! - A [`Head`] says how long a log was, signed. It stands in the directory, so that lines that are cut off are missed.
//!
//! Left out on purpose: what nobody signed behind the last signed line. Whoever writes the file can write that anew.

mod file;

use std::collections::{BTreeMap, BTreeSet};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use suite::identity::{IDENTITY_KEY_OCTETS, PublicKey, SIGNATURE_OCTETS};

pub use file::{Appended, AuditError, append, put_head};

use crate::operator::Operator;
use crate::token::TokenError;

/// Suffix of a log's file name.
pub const ENDING: &str = "audit";
/// Context of a line's signature.
const LINE: &[u8] = b"frameward fleet audit line 1\0";
/// Context of a head's signature.
const HEAD: &[u8] = b"frameward fleet audit head 1\0";
/// Digits of a log's name.
const NAME_DIGITS: usize = 32;

/// State of a command.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    /// It changes something from here on.
    #[default]
    Begun,
    /// It did what it was to do.
    Done,
    /// It failed after it had begun: a part may be changed.
    Failed,
    /// It failed before it had begun: nothing is changed.
    Refused,
}

/// A record of the log.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Line {
    /// Its number. The log gives it.
    pub line: u64,
    /// When it was written, in UTC.
    pub time: String,
    /// Digest of the line before. The log gives it.
    pub previous: String,
    /// The fleet's public key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub operator: Option<String>,
    /// Person or service that gave the command.
    pub login: String,
    /// Person who asked for it, if somebody did who is not logged in there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// The machine.
    pub host: String,
    /// The command.
    pub action: String,
    /// Subject of the command.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub objects: Vec<String>,
    /// Its state.
    pub outcome: Outcome,
    /// The line that says that it begins.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub begun: Option<u64>,
    /// Versions that it published, by gateway.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub versions: BTreeMap<String, u64>,
    /// Why it failed or was refused.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// The operator's signature. The log gives it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub signature: Option<String>,
}

/// A log whose lines chain.
#[derive(Debug)]
pub struct Log<'o> {
    /// Their octets, and what they say. `None`: it was cut off, and the log goes on behind it.
    lines: Vec<(&'o [u8], Option<Line>)>,
    /// Their digests.
    digests: Vec<String>,
    /// Whether the last one has no end.
    is_cut_off: bool,
}

/// The operator's word on how long a log was.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Head {
    /// The log, by its [`name`].
    pub log: String,
    /// Its last line.
    pub line: u64,
    /// Digest of that.
    pub digest: String,
    /// The machine.
    pub host: String,
    /// When this was signed, in UTC.
    pub time: String,
    signature: Option<String>,
}

/// Fault of a log, and its first place.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{line}: {broken}")]
pub struct Fault {
    /// The line.
    pub line: u64,
    /// The fault.
    pub broken: Broken,
}

/// Fault of a line.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Broken {
    /// Something else.
    #[error("is no line of an audit log: it was changed, or somebody put it there")]
    NoLine,
    /// A line of another place.
    #[error("says that it is line {0}: lines were removed, inserted or exchanged")]
    Number(u64),
    /// It names another line before.
    #[error("does not name the line before it: one of the two was changed")]
    Chain,
    /// It is not what was signed.
    #[error("is not what was signed: it was changed, or somebody forged it")]
    Signature,
    /// It has no end.
    #[error(
        "was cut off: the machine stopped or its disk was full while it was written, or somebody cut it; the next command goes on behind it"
    )]
    CutOff,
    /// The log was longer.
    #[error(
        "is missing: the directory has the signed head of line {0}; lines were cut off, or this is an old copy"
    )]
    Missing(u64),
    /// The log was another one.
    #[error(
        "is not the one that the directory has the signed head of: lines were written anew, or the log went on from an old copy"
    )]
    Other,
}

impl Outcome {
    /// As the log has it.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Begun => "begun",
            Self::Done => "done",
            Self::Failed => "failed",
            Self::Refused => "refused",
        }
    }
}

impl Line {
    /// Parses a line without its end; `None` for anything else. Whether it is in its place, it does not know.
    pub fn parse(octets: &[u8]) -> Option<Self> {
        parse(octets)
    }

    fn sign(&mut self, operator: &Operator) -> Result<(), TokenError> {
        self.operator = Some(operator.fleet().to_string());
        self.signature = Some(hex::encode(operator.sign(LINE, &self.signed())?));
        Ok(())
    }

    /// The octets that are signed.
    fn signed(&self) -> Vec<u8> {
        encode(&Self { signature: None, ..self.clone() })
    }

    /// True if it has no signature, or that of the operator whom it names.
    fn is_true(&self) -> bool {
        let key = self.operator.as_deref().and_then(of_digits::<IDENTITY_KEY_OCTETS>).map(PublicKey);
        self.signature.is_none()
            || key.is_some_and(|key| is_signed(key, LINE, &self.signed(), self.signature.as_deref()))
    }
}

impl<'o> Log<'o> {
    /// Parses a log: its lines are in order, and each names the one before. Signatures are not looked at. The last line may be cut off.
    ///
    /// # Errors
    /// [`Fault`]: the first line that does not chain.
    pub fn parse(octets: &'o [u8]) -> Result<Self, Fault> {
        Self::read(octets, |_| true)
    }

    /// The same. Signatures have to be those of the operators whom the lines name, and the last line has to be whole.
    ///
    /// # Errors
    /// [`Fault`].
    pub fn verify(octets: &'o [u8]) -> Result<Self, Fault> {
        let log = Self::read(octets, Line::is_true)?;
        if log.is_cut_off { Err(Fault { line: log.count(), broken: Broken::CutOff }) } else { Ok(log) }
    }

    fn read(octets: &'o [u8], is_true: impl Fn(&Line) -> bool) -> Result<Self, Fault> {
        let is_cut_off = octets.last().is_some_and(|last| *last != b'\n');
        let mut all: Vec<_> = octets.split(|octet| *octet == b'\n').collect();
        if !is_cut_off {
            // Octets behind the last line's end.
            all.pop();
        }
        let mut log =
            Self { lines: Vec::with_capacity(all.len()), digests: Vec::with_capacity(all.len()), is_cut_off };
        let count = all.len() as u64;
        for octets in all {
            let number = log.count() + 1;
            let line = Line::parse(octets);
            let broken = match &line {
                Some(line) if line.line != number => Some(Broken::Number(line.line)),
                Some(line) if !is_true(line) => Some(Broken::Signature),
                Some(line) if line.previous != log.digest() => Some(Broken::Chain),
                // It was cut off. If the log goes on behind it, the next line names it.
                None if number == count && !is_cut_off => Some(Broken::NoLine),
                _ => None,
            };
            if let Some(broken) = broken {
                return Err(Fault { line: number, broken });
            }
            // A line that was cut off names none before it, so its digest is made of that one's too.
            let digest = match &line {
                Some(_) => digest(octets),
                None => digest(&[log.digest().as_bytes(), octets].concat()),
            };
            log.lines.push((octets, line));
            log.digests.push(digest);
        }
        Ok(log)
    }

    /// Number of lines.
    pub const fn count(&self) -> u64 {
        self.lines.len() as u64
    }

    /// Digest of the last line.
    fn digest(&self) -> String {
        self.digests.last().cloned().unwrap_or_else(|| hex::encode([0_u8; 32]))
    }

    /// Numbers of lines that were cut off, and that the log goes on behind.
    pub fn cut_off(&self) -> impl Iterator<Item = u64> {
        (1..).zip(&self.lines).filter_map(|(number, (_, line))| line.is_none().then_some(number))
    }

    /// Lines that say that something begins, where no line says how it ended.
    pub fn open(&self) -> impl Iterator<Item = &Line> {
        let lines = self.lines.iter().filter_map(|(_, line)| line.as_ref());
        let ended: BTreeSet<u64> = lines.clone().filter_map(|line| line.begun).collect();
        lines.filter(move |line| line.outcome == Outcome::Begun && !ended.contains(&line.line))
    }

    /// Number of the last line that names this operator and has a signature; 0 if there is none. All lines before it are covered by it.
    pub fn signed(&self, fleet: PublicKey) -> u64 {
        let fleet = fleet.to_string();
        let is_signed = |line: &&Line| line.signature.is_some() && line.operator.as_ref() == Some(&fleet);
        let last = self.lines.iter().rev().filter_map(|(_, line)| line.as_ref()).find(is_signed);
        last.map_or(0, |line| line.line)
    }

    /// Sees that the log has the line of a head, as it was.
    ///
    /// # Errors
    /// [`Fault`].
    pub fn has(&self, head: &Head) -> Result<(), Fault> {
        let index = usize::try_from(head.line).ok().and_then(|line| line.checked_sub(1));
        match index.and_then(|index| self.digests.get(index)) {
            None => Err(Fault { line: self.count() + 1, broken: Broken::Missing(head.line) }),
            Some(digest) if *digest != head.digest => Err(Fault { line: head.line, broken: Broken::Other }),
            Some(_) => Ok(()),
        }
    }

    /// The octets that a record appends to the log. It gets its number, names the line before, and is signed by `signer`, if there is one.
    ///
    /// # Errors
    /// [`TokenError`] of a key in a token.
    pub fn appended(&self, record: Line, signer: Option<&Operator>) -> Result<Vec<u8>, TokenError> {
        let mut line = Line { line: self.count() + 1, previous: self.digest(), signature: None, ..record };
        if let Some(signer) = signer {
            line.sign(signer)?;
        }
        // A line that was cut off ends here.
        let end: &[u8] = if self.is_cut_off { b"\n" } else { b"" };
        Ok([end, encode(&line).as_slice(), b"\n"].concat())
    }

    /// The operator's word on how long the log is.
    ///
    /// # Errors
    /// [`TokenError`] of a key in a token.
    pub fn head(&self, operator: &Operator, host: &str, time: &str) -> Result<Vec<u8>, TokenError> {
        let (host, time) = (host.to_owned(), time.to_owned());
        let log = self.lines.first().map_or_else(String::new, |(octets, _)| name(octets));
        let mut head = Head { log, line: self.count(), digest: self.digest(), host, time, signature: None };
        head.signature = Some(hex::encode(operator.sign(HEAD, &encode(&head))?));
        Ok(encode(&head))
    }
}

impl Head {
    /// Parses the head of a log; `None` unless the fleet's operator signed it for that log.
    pub fn parse(octets: &[u8], fleet: PublicKey, log: &str) -> Option<Self> {
        let head: Self = parse(octets)?;
        let signed = encode(&Self { signature: None, ..head.clone() });
        let is_true = head.log == log && is_signed(fleet, HEAD, &signed, head.signature.as_deref());
        is_true.then_some(head)
    }
}

/// Name of the log that has these octets, or begins with them: it is made of the first line.
pub fn name(octets: &[u8]) -> String {
    let first = octets.split(|octet| *octet == b'\n').next().unwrap_or_default();
    digest(first)[..NAME_DIGITS].to_owned()
}

fn digest(octets: &[u8]) -> String {
    let digest: [u8; 32] = Sha256::digest(octets).into();
    hex::encode(digest)
}

fn encode(value: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(value).expect("invariant: texts and numbers are JSON")
}

/// The value whose encoding is these very octets.
fn parse<T: Serialize + DeserializeOwned>(octets: &[u8]) -> Option<T> {
    serde_json::from_slice(octets).ok().filter(|value| encode(value) == octets)
}

fn is_signed(by: PublicKey, context: &[u8], octets: &[u8], signature: Option<&str>) -> bool {
    let signature: Option<[u8; SIGNATURE_OCTETS]> = signature.and_then(of_digits);
    signature.is_some_and(|signature| by.verifies(context, octets, &signature))
}

/// Octets in the one form that digits have here.
fn of_digits<const OCTETS: usize>(digits: &str) -> Option<[u8; OCTETS]> {
    let octets: [u8; OCTETS] = hex::decode(digits).ok()?.try_into().ok()?;
    (hex::encode(octets) == digits).then_some(octets)
}

#[cfg(test)]
mod tests;
