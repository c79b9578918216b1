//! The audit logs beside the identities: those that are there, and whether they are as they were written and as the directory says.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use fleet::audit::{self, Fault, Head, Line, Log};
use fleet::directory::{Directory, DirectoryError, audit_prefix};
use serde::Serialize;
use suite::identity::PublicKey;

/// Entries that the API shows, at most.
const ENTRIES: usize = 1000;

/// Octets of the directory in the places of logs' heads, by the names of the logs.
pub type Heads = BTreeMap<String, Vec<u8>>;

/// Findings about logs.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Verified {
    /// Lines about those that are as they were written, each with its end.
    pub fine: Vec<String>,
    /// A line for each that is not, or is not here.
    pub faults: Vec<String>,
    /// True if an unaltered log has lines behind the last signature of this operator.
    pub has_unsigned: bool,
}

/// The logs for the API.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Audit {
    verified: bool,
    /// True if signatures of the operator cover all lines of the unaltered logs.
    signed: bool,
    /// Findings about the unaltered logs.
    told: Vec<String>,
    problems: Vec<String>,
    entries: Vec<Line>,
}

/// The logs in a folder of identities, by their files.
///
/// # Errors
/// A line: what cannot be read.
pub fn read(identities: &Path) -> Result<BTreeMap<PathBuf, Vec<u8>>, String> {
    let unusable = |error: std::io::Error| format!("{}: {error}", identities.display());
    let mut logs = BTreeMap::new();
    for entry in std::fs::read_dir(identities).map_err(unusable)? {
        let path = entry.map_err(unusable)?.path();
        if path.extension().is_some_and(|ending| ending == audit::ENDING) {
            let octets = std::fs::read(&path).map_err(|error| format!("{}: {error}", path.display()))?;
            logs.insert(path, octets);
        }
    }
    Ok(logs)
}

/// The heads that a directory has of this operator's logs.
///
/// # Errors
/// [`DirectoryError`].
pub fn heads(directory: &mut dyn Directory, operator: PublicKey) -> Result<Heads, DirectoryError> {
    let prefix = audit_prefix(operator);
    let of_log = |name: &str| name.strip_prefix(&prefix).unwrap_or_default().to_owned();
    let listing = directory.list(&prefix)?;
    Ok(listing.entries.into_iter().map(|entry| (of_log(&entry.key), entry.value)).collect())
}

/// Verifies logs, and compares them with heads if those are known; but not the logs whose names are `known`.
pub fn verify(
    logs: &BTreeMap<PathBuf, Vec<u8>>,
    heads: Option<&Heads>,
    operator: PublicKey,
    known: &[String],
) -> Verified {
    let (mut here, mut verified) = (BTreeSet::new(), Verified::default());
    for (path, octets) in logs {
        let name = audit::name(octets);
        let head = heads.map(|heads| heads.get(&name)).filter(|_| !known.contains(&name));
        match of_one(&path.display().to_string(), octets, head, operator) {
            Ok((text, is_signed)) => {
                verified.fine.push(text);
                verified.has_unsigned |= !is_signed;
            }
            Err(why) => verified.faults.push(why),
        }
        here.insert(name);
    }
    for (name, head) in heads.into_iter().flatten() {
        match Head::parse(head, operator, name) {
            _ if here.contains(name) || known.contains(name) => {}
            Some(Head { host, line, time, .. }) => verified.faults.push(format!(
                "the directory has the head of log {name} of {host}, which is not here: its line {line} of {time}; put a copy of it beside the others, or if you know where it is: --known {name}"
            )),
            None => verified.faults.push(format!(
                "the directory has something else in the place of the head of log {name}: somebody wrote it, not this operator"
            )),
        }
    }
    verified
}

/// Finding about an unaltered log, and true if it is signed to its end; or the fault. `head`: its place in the directory, if that is
/// looked at.
fn of_one(
    path: &str,
    octets: &[u8],
    head: Option<Option<&Vec<u8>>>,
    operator: PublicKey,
) -> Result<(String, bool), String> {
    let of_file = |fault: Fault| format!("{path}:{fault}");
    let name = audit::name(octets);
    let log = Log::verify(octets).map_err(of_file)?;
    let signed = log.signed(operator);
    let compared = match head {
        None => {
            "not compared with a directory, so lines that were cut off at its end are not missed".to_owned()
        }
        Some(None) if signed == 0 => "the directory has no head of this log".to_owned(),
        Some(None) => {
            return Err(format!(
                "{path}: the directory has no head of this log: somebody removed it, or nothing was published since the log began; then: frameward fleet apply"
            ));
        }
        Some(Some(head)) => {
            let head = Head::parse(head, operator, &name).ok_or_else(|| {
                format!("{path}: this operator did not sign what the directory has in the place of its head: somebody wrote it")
            })?;
            log.has(&head).map_err(of_file)?;
            format!("the directory has the head of line {}", head.line)
        }
    };
    let mut text = String::new();
    for line in log.cut_off() {
        text += &format!("{path}:{line}: was cut off while it was written; the log goes on behind it\n");
    }
    for Line { line, action, .. } in log.open() {
        let action = plain(action);
        text +=
            &format!("{path}:{line}: no line says how this {action} ended: it runs still, or was cut off\n");
    }
    let covered = if signed == 0 { "none of them".to_owned() } else { format!("lines 1 to {signed}") };
    let count = log.count();
    text += &format!(
        "{path}: log {name}: {count} lines chain; a signature of this operator covers {covered}; {compared}\n"
    );
    Ok((text, signed == count))
}

/// Without what a terminal would obey: whoever writes the file may have put it there.
pub fn plain(text: &str) -> String {
    text.replace(char::is_control, " ")
}

impl Audit {
    /// Of the logs that are there. `heads`: why those of the directory are not known, if they are not.
    pub fn new(identities: &Path, heads: Result<Heads, String>, operator: PublicKey) -> Self {
        let (logs, mut problems) = match read(identities) {
            Ok(logs) if logs.is_empty() => {
                let place = identities.display();
                (logs, vec![format!("{place}: no audit log is there: no command has changed anything yet")])
            }
            Ok(logs) => (logs, Vec::new()),
            Err(why) => (BTreeMap::new(), vec![why]),
        };
        problems.extend(heads.as_ref().err().cloned());
        let verified = verify(&logs, heads.as_ref().ok(), operator, &[]);
        problems.extend(verified.faults.iter().map(|fault| plain(fault)));
        let lines = logs.values().flat_map(|octets| octets.split(|octet| *octet == b'\n'));
        let mut entries: Vec<_> = lines.filter_map(Line::parse).collect();
        // Of several machines by their clocks; of one as it wrote them.
        entries.sort_by(|one, other| one.time.cmp(&other.time));
        entries.drain(..entries.len().saturating_sub(ENTRIES));
        let told = verified.fine.iter().flat_map(|text| text.lines()).map(plain).collect();
        let is_verified = !logs.is_empty() && problems.is_empty();
        let signed = is_verified && !verified.has_unsigned;
        Self { verified: is_verified, signed, told, problems, entries }
    }
}
