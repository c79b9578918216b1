//! `fleet audit`: what was changed from operators' machines, and whether their logs are as they were written.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use fleet::audit::Line;
use fleet::directory::Address;
use frameward::cockpit::logs::{self, Heads, plain};
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
    let logs = logs::read(identities).map_err(|why| told(&why, Failure::Usage))?;
    if logs.is_empty() {
        let place = identities.display();
        let line =
            format_args!("{place}: no audit log is there; name the folder with the gateways' identities");
        return Err(told(&line, Failure::Usage));
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
    let by = line.by.as_ref().map_or_else(String::new, |by| format!(" for {by}"));
    let mut text = format!("{host}:{} {time} {login}{by}: {action}", line.line);
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

impl Verify {
    fn run(&self) -> Result<(), Failure> {
        let logs = logs(&self.identities)?;
        let verified = logs::verify(&logs, self.heads()?.as_ref(), self.operator, &self.known);
        print(&verified.fine.concat())?;
        let mut outcome = Ok(());
        for fault in &verified.faults {
            outcome = Err(told(&plain(fault), Failure::Failed));
        }
        outcome
    }

    /// Heads in the directory.
    fn heads(&self) -> Result<Option<Heads>, Failure> {
        let Some(address) = &self.directory else { return Ok(None) };
        let away = |error| told(&error, Failure::Undecided);
        address.is_there().map_err(away)?;
        let heads = address.open().and_then(|mut directory| logs::heads(&mut *directory, self.operator));
        heads.map(Some).map_err(away)
    }
}
