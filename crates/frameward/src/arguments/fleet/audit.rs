//! `fleet audit`: what was changed from operators' machines, and whether their logs are as they were written.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use fleet::audit::{self, Fault, Head, Line, Log};
use fleet::directory::{Address, audit_prefix};
use suite::identity::PublicKey;

use super::gateway::public_key;
use crate::{Failure, print, tell, told};

const SHOW_HELP: &str = "\
Each command that changes something in a fleet writes a line into the audit log of its machine and
user before, and one that says how it ended: IDENTITIES/MACHINE-USER.audit. The command shows all
logs that are there, and verifies none of them: `frameward fleet audit verify` does.

Example:
  frameward fleet audit show --identities identities

Exit status: 0 done; 2 usage, or no log is there.";

const VERIFY_HELP: &str = "\
The command names the first line of each log that was changed, removed, inserted or exchanged. With
--directory it also misses lines that were cut off at the end, and whole logs: the commands that
publish put there, signed, how long their log is. Lines behind the last signed one can be written
anew by whoever writes the file.

A log of another machine, or one that was put away, is not asked for if it is --known.

Example:
  frameward fleet audit verify --operator 1b9f...c7 --identities identities --directory fleet.redb

Exit status: 0 the logs are as they were written; 1 one is not, or is not here; 2 usage, or no
log is there; 3 the directory cannot be reached.";

#[derive(Subcommand)]
pub(crate) enum AuditLogs {
    /// Show who changed what from which machine, and how it ended
    #[command(after_help = SHOW_HELP)]
    Show(Show),
    /// Verify that no line of the logs was changed, removed, inserted or exchanged
    #[command(after_help = VERIFY_HELP)]
    Verify(Verify),
}

#[derive(Args)]
pub(crate) struct Show {
    /// The folder with the gateways' public identities, beside which the logs are
    #[arg(long, value_name = "FOLDER")]
    identities: PathBuf,
    /// Print the lines as JSON
    #[arg(long)]
    json: bool,
}

#[derive(Args)]
pub(crate) struct Verify {
    /// The operator's public key
    #[arg(long, value_name = "HEX", value_parser = public_key)]
    operator: PublicKey,
    /// The folder with the gateways' public identities, beside which the logs are
    #[arg(long, value_name = "FOLDER")]
    identities: PathBuf,
    /// Where the operator publishes: a file, etcd://HOST:PORT,... or etcds://HOST:PORT,...?ca=FILE
    #[arg(long)]
    directory: Option<Address>,
    /// A log, by the name that this command shows, which is not compared with the directory
    #[arg(long, value_name = "LOG")]
    known: Vec<String>,
}

impl AuditLogs {
    pub(crate) fn run(&self) -> Result<(), Failure> {
        match self {
            Self::Show(show) => show.run(),
            Self::Verify(verify) => verify.run(),
        }
    }
}

/// The logs in a folder of identities, by their files.
fn logs(identities: &Path) -> Result<BTreeMap<PathBuf, Vec<u8>>, Failure> {
    let unusable =
        |why: &dyn std::fmt::Display| told(&format_args!("{}: {why}", identities.display()), Failure::Usage);
    let mut logs = BTreeMap::new();
    for entry in std::fs::read_dir(identities).map_err(|error| unusable(&error))? {
        let path = entry.map_err(|error| unusable(&error))?.path();
        if path.extension().is_some_and(|ending| ending == audit::ENDING) {
            let octets = std::fs::read(&path);
            let octets =
                octets.map_err(|error| told(&format_args!("{}: {error}", path.display()), Failure::Usage))?;
            logs.insert(path, octets);
        }
    }
    if logs.is_empty() {
        return Err(unusable(&"no audit log is there; name the folder with the gateways' identities"));
    }
    Ok(logs)
}

impl Show {
    fn run(&self) -> Result<(), Failure> {
        let mut lines = Vec::new();
        for (path, octets) in logs(&self.identities)? {
            for (number, octets) in (1..).zip(octets.split(|octet| *octet == b'\n')) {
                match Line::parse(octets) {
                    Some(line) => lines.push(line),
                    None if octets.is_empty() => {}
                    None => tell(&format_args!("{}:{number}: is no line of an audit log", path.display())),
                }
            }
        }
        if self.json {
            let lines = serde_json::to_string_pretty(&lines).expect("invariant: lines are JSON");
            return print(&format_args!("{lines}\n"));
        }
        lines.iter().try_for_each(|line| print(&format_args!("{}\n", plain(&shown(line)))))
    }
}

/// A line for people.
fn shown(line: &Line) -> String {
    let Line { time, login, host, action, outcome, begun, versions, reason, .. } = line;
    let mut text = format!("{host}:{} {time} {login}: {action}", line.line);
    line.objects.iter().for_each(|object| text += &format!(" {object}"));
    text += &format!(": {}", outcome.word());
    if let Some(begun) = begun {
        text += &format!(", begun in line {begun}");
    }
    let published = versions.iter().map(|(gateway, version)| format!("; {gateway}: version {version}"));
    text.extend(published);
    if !reason.is_empty() {
        text += &format!(": {reason}");
    }
    text + if line.signature.is_some() { "; signed" } else { "" }
}

/// Without what a terminal would obey: whoever writes the file may have put it there.
fn plain(text: &str) -> String {
    text.replace(char::is_control, " ")
}

impl Verify {
    fn run(&self) -> Result<(), Failure> {
        let logs = logs(&self.identities)?;
        let heads = self.heads()?;
        let (mut here, mut all) = (BTreeSet::new(), Ok(()));
        let mut fail = |why: &str| all = Err(told(&plain(why), Failure::Failed));
        for (path, octets) in &logs {
            let name = audit::name(octets);
            let head = heads.as_ref().map(|heads| heads.get(&name).cloned());
            let head = head.filter(|_| !self.known.contains(&name));
            match self.verified(&path.display().to_string(), octets, head) {
                Ok(text) => print(&text)?,
                Err(why) => fail(&why),
            }
            here.insert(name);
        }
        for (name, head) in heads.unwrap_or_default() {
            match Head::parse(&head, self.operator, &name) {
                _ if here.contains(&name) || self.known.contains(&name) => {}
                Some(Head { host, line, time, .. }) => fail(&format!(
                    "the directory has the head of log {name} of {host}, which is not here: its line {line} of {time}; put a copy of it beside the others, or if you know where it is: --known {name}"
                )),
                None => fail(&format!(
                    "the directory has something else in the place of the head of log {name}: somebody wrote it, not this operator"
                )),
            }
        }
        all
    }

    /// Heads in the directory, by the names of their logs.
    fn heads(&self) -> Result<Option<BTreeMap<String, Vec<u8>>>, Failure> {
        let Some(address) = &self.directory else { return Ok(None) };
        let away = |error| told(&error, Failure::Undecided);
        address.is_there().map_err(away)?;
        let prefix = audit_prefix(self.operator);
        let listing = address.open().and_then(|mut directory| directory.list(&prefix)).map_err(away)?;
        let of_log = |name: &str| name.strip_prefix(&prefix).unwrap_or_default().to_owned();
        Ok(Some(listing.entries.into_iter().map(|entry| (of_log(&entry.key), entry.value)).collect()))
    }

    /// What there is to say of a log that is as it was written; or what is wrong with it. `head`: its place in the directory, if that is
    /// looked at.
    fn verified(&self, path: &str, octets: &[u8], head: Option<Option<Vec<u8>>>) -> Result<String, String> {
        let of_file = |fault: Fault| format!("{path}:{fault}");
        let name = audit::name(octets);
        let log = Log::verify(octets).map_err(of_file)?;
        let signed = log.signed(self.operator);
        let compared = match head {
            None => "not compared with a directory, so lines that were cut off at its end are not missed"
                .to_owned(),
            Some(None) if signed == 0 => "the directory has no head of this log".to_owned(),
            Some(None) => {
                return Err(format!(
                    "{path}: the directory has no head of this log: somebody removed it, or nothing was published since the log began; then: frameward fleet apply"
                ));
            }
            Some(Some(head)) => {
                let head = Head::parse(&head, self.operator, &name).ok_or_else(|| {
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
            text += &format!(
                "{path}:{line}: no line says how this {action} ended: it runs still, or was cut off\n"
            );
        }
        let covered = if signed == 0 { "none of them".to_owned() } else { format!("lines 1 to {signed}") };
        let count = log.count();
        text += &format!(
            "{path}: log {name}: {count} lines chain; a signature of this operator covers {covered}; {compared}\n"
        );
        Ok(text)
    }
}
