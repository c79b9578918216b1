//! `fleet status`: where gateways stand, by their heartbeats.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use clap::Args;
use fleet::directory::{Address, Directory};
use fleet::{GatewayName, Heartbeat, Known, Outcome, Span, Standing};
use inventory::Rotations;
use suite::identity::PublicKey;

use super::due;
use super::files::Place;
use super::gateway::public_key;
use super::metrics;
use super::signing::identity;
use super::unix_seconds;
use crate::{Failure, told};

pub(crate) const STATUS_HELP: &str = "\
A gateway with an agent says in the directory which version it has confirmed, taken back or refused,
and why. It signs that, and counts. The command verifies signature and counter, and keeps the newest
one in IDENTITIES (NAME.heartbeat). So it notices if somebody forges heartbeats, puts old ones back
or withholds them: the gateway is then shown as it was heard last, with STALE after a quarter of an
hour. If a box lost its disk and its heartbeats are refused as old, remove that file. NAME.published
beside it has the newest version that was published or seen: older records are noticed, too.

With --inventory the command shows, too, whose CAK is due by rotate_every and since when, and what
has begun and was not confirmed. The exit status says nothing of that.

--format prometheus counts gateways and CAKs by their states: a few figures, however many there are.
With --out it makes the file that node_exporter reads (--collector.textfile.directory), whole.

Examples:
  frameward fleet status --operator 1b9f...c7 --identities identities --directory etcd://10.0.0.1
  frameward fleet status --operator 1b9f...c7 --identities identities --directory etcd://10.0.0.1 \\
      --format prometheus --out /var/lib/prometheus/node-exporter/frameward-fleet.prom

Exit status: 0 all gateways have confirmed what is published, and are heard, or the figures were made;
1 some have not, or are not, or the file cannot be written; 2 usage; 3 the directory cannot be reached.";

/// Usage in lines of at most 100 columns: clap does not split it.
pub(crate) const STATUS_USAGE: &str = "\
frameward fleet status [OPTIONS] --directory <DIRECTORY> --operator <HEX>
                              --identities <FOLDER>";

/// Ending of the name of the file with a gateway's newest heartbeat.
const HEARTBEAT: &str = "heartbeat";
/// Ending of the name of the file with the newest version for a gateway.
const PUBLISHED: &str = "published";

#[derive(Args)]
pub(crate) struct Status {
    /// Where it is published: a file, etcd://HOST:PORT,... or etcds://HOST:PORT,...?ca=FILE
    #[arg(long)]
    directory: Address,
    /// The operator's public key
    #[arg(long, value_name = "HEX", value_parser = public_key)]
    operator: PublicKey,
    /// The folder with the gateways' public identities
    #[arg(long, value_name = "FOLDER")]
    identities: PathBuf,
    /// Also show CAKs of this inventory that are due by rotate_every, or whose exchange has begun
    #[arg(long, value_name = "INVENTORY")]
    inventory: Option<PathBuf>,
    /// The inventory's folder of keys [default: INVENTORY/keys]
    #[arg(long, value_name = "FOLDER", requires = "inventory")]
    keys: Option<PathBuf>,
    /// Print one line a gateway, or figures of all of them for Prometheus
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
    /// The file to replace, whole [default: standard output]
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

/// Output of `fleet status`.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    Text,
    Prometheus,
}

/// A gateway with its standing.
pub(super) type Standings = Vec<(GatewayName, Standing)>;
/// Versions that were published for gateways.
pub(super) type Versions = BTreeMap<GatewayName, u64>;

impl Status {
    pub(crate) fn run(&self) -> Result<(), Failure> {
        let names = names(&self.identities)?;
        let away = |error| told(&error, Failure::Undecided);
        self.directory.is_there().map_err(away)?;
        let mut directory = self.directory.open().map_err(away)?;
        let (standings, now) =
            (standings(&mut *directory, self.operator, &self.identities, &names)?, unix_seconds());
        let rotations = self.rotations(now)?;
        if self.format == Format::Prometheus {
            return metrics::put(self.out.as_deref(), &metrics::metrics(&standings, rotations.as_ref(), now));
        }
        let mut text = String::new();
        let mut all = Ok(());
        for (name, standing) in &standings {
            if !standing.is_confirmed() || !standing.is_heard(now) {
                all = Err(Failure::Failed);
            }
            text += &format!("{name}: {}\n", line(standing, now));
        }
        if let Some(rotations) = &rotations {
            text += &due::lines(rotations, now);
        }
        metrics::put(self.out.as_deref(), &text)?;
        all
    }

    /// CAKs with a schedule, if an inventory is named.
    fn rotations(&self, now: u64) -> Result<Option<Rotations>, Failure> {
        let Some(inventory) = &self.inventory else { return Ok(None) };
        let place = Place::new(inventory.clone(), self.keys.clone());
        Ok(Some(place.read()?.rotations(&place.keys(), now)))
    }
}

/// Gateways whose identities are in a folder.
fn names(identities: &Path) -> Result<Vec<GatewayName>, Failure> {
    let unreadable = |error: std::io::Error| {
        let line = format_args!(
            "{}: cannot be read: {error}; name the folder with the gateways' identities",
            identities.display()
        );
        told(&line, Failure::Usage)
    };
    let mut names = Vec::new();
    for entry in std::fs::read_dir(identities).map_err(unreadable)? {
        let file = entry.map_err(unreadable)?.file_name();
        names.extend(file.to_str().and_then(|file| GatewayName::new(file.strip_suffix(".identity")?)));
    }
    names.sort();
    if names.is_empty() {
        let line = format_args!(
            "{}: no gateway's identity is there; name the folder in which frameward fleet approve put NAME.identity",
            identities.display()
        );
        return Err(told(&line, Failure::Usage));
    }
    Ok(names)
}

/// Records of a gateway that the operator keeps beside its identity.
struct Kept<'i> {
    identities: &'i Path,
    gateway: &'i GatewayName,
}

impl Kept<'_> {
    fn name(&self, ending: &str) -> String {
        format!("{}.{ending}", self.gateway)
    }

    fn unusable(&self, ending: &str, error: &std::io::Error) -> Failure {
        let path = self.identities.join(self.name(ending));
        let line = format_args!(
            "{}: {error}; without it what is old could be played back: free the disk, or give the file to this user",
            path.display()
        );
        told(&line, Failure::Failed)
    }

    fn read(&self, ending: &str) -> Result<Option<Vec<u8>>, Failure> {
        match std::fs::read(self.identities.join(self.name(ending))) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            read => read.map(Some).map_err(|error| self.unusable(ending, &error)),
        }
    }

    fn write(&self, ending: &str, octets: &[u8]) -> Result<(), Failure> {
        pnstore::Directory::open(self.identities)
            .and_then(|mut folder| pnstore::replace(&mut folder, &self.name(ending), octets))
            .map_err(|error| self.unusable(ending, &error))
    }

    /// The newest heartbeat. Taken for none, a damaged one would let old ones in.
    fn heartbeat(&self) -> Result<Option<Vec<u8>>, Failure> {
        let octets = self.read(HEARTBEAT)?;
        match octets.as_ref().is_some_and(|octets| Heartbeat::parse(octets).is_err()) {
            true => Err(self.unusable(HEARTBEAT, &damaged())),
            false => Ok(octets),
        }
    }

    /// The newest version.
    fn published(&self) -> Result<Option<u64>, Failure> {
        let Some(octets) = self.read(PUBLISHED)? else { return Ok(None) };
        let version = std::str::from_utf8(&octets).ok().and_then(|text| text.trim().parse().ok());
        version.map(Some).ok_or_else(|| self.unusable(PUBLISHED, &damaged()))
    }

    /// Keeps a version, if none is newer.
    fn keep_published(&self, version: u64) -> Result<(), Failure> {
        match self.published()?.is_none_or(|before| before < version) {
            true => self.write(PUBLISHED, format!("{version}\n").as_bytes()),
            false => Ok(()),
        }
    }
}

fn damaged() -> std::io::Error {
    std::io::Error::other("is damaged; restore it, or remove it")
}

/// The folder of identities for one command alone, which reads what is kept there and replaces it by what is newer.
pub(super) fn locked(identities: &Path) -> Result<std::fs::File, Failure> {
    let folder = std::fs::File::open(identities).and_then(|folder| folder.lock().map(|()| folder));
    folder.map_err(|error| {
        let place = identities.display();
        told(
            &format_args!(
                "{place}: cannot be locked: {error}; name the folder with the gateways' identities"
            ),
            Failure::Failed,
        )
    })
}

/// Keeps which versions were published: an older one that the directory shows later is noticed.
pub(super) fn keep_published(identities: &Path, versions: &Versions) -> Result<(), Failure> {
    let _lock = locked(identities)?;
    versions.iter().try_for_each(|(gateway, version)| Kept { identities, gateway }.keep_published(*version))
}

/// Returns the standings of these gateways. Keeps in the folder of identities what is newer than what was known.
pub(super) fn standings(
    directory: &mut dyn Directory,
    fleet: PublicKey,
    identities: &Path,
    names: &[GatewayName],
) -> Result<Standings, Failure> {
    let now = unix_seconds();
    let mut standings = Standings::new();
    let _lock = locked(identities)?;
    for gateway in names {
        let path = identities.join(format!("{gateway}.identity"));
        let member = identity(&path)
            .map_err(|why| told(&format_args!("{}: {why}", path.display()), Failure::Usage))?
            .key();
        let kept = Kept { identities, gateway };
        let (seen, newest) = (kept.heartbeat()?, kept.published()?);
        let known = Known { fleet, gateway, member };
        let standing = Standing::look(directory, known, seen.as_deref(), newest, now);
        let standing = standing.map_err(|error| told(&error, Failure::Undecided))?;
        if let Some(newer) = &standing.newer {
            kept.write(HEARTBEAT, newer)?;
        }
        if let Some(published) = standing.published {
            kept.keep_published(published)?;
        }
        standings.push((gateway.clone(), standing));
    }
    Ok(standings)
}

/// Says in a line what a gateway tells, and when it told so.
pub(super) fn line(standing: &Standing, now: u64) -> String {
    let mut line = said(standing);
    if let Some(heartbeat) = &standing.heartbeat {
        line += &match standing.stale(now) {
            Some(since) => format!("; STALE since {} ago", Span(since)),
            None => format!("; heard {} ago", Span(now.saturating_sub(heartbeat.time))),
        };
    }
    if let Some(refusal) = &standing.refusal {
        line += &format!("; {refusal}");
    }
    if let Some(hidden) = standing.hidden {
        line += &format!(
            "; version {hidden} was published before: somebody put an old record back, or removed it; if it was you, apply again with --anew"
        );
    }
    if standing.is_withheld {
        line += "; the directory shows no heartbeat of it any more: somebody removed it, or put another directory there";
    }
    line
}

fn said(standing: &Standing) -> String {
    let published = match standing.published {
        Some(version) => format!("version {version} is published"),
        None => "nothing is published for its identity".to_owned(),
    };
    let Some(heartbeat) = &standing.heartbeat else { return format!("{published}; never heard") };
    let in_use = match heartbeat.in_use {
        Some(version) => format!("version {version} in use"),
        None => "no version in use".to_owned(),
    };
    let why = &heartbeat.why;
    match heartbeat.outcome {
        Outcome::TakenBack | Outcome::Refused if !standing.has_judged() => {
            let what = if heartbeat.outcome == Outcome::TakenBack { "taken back" } else { "refused" };
            let before = heartbeat.unused.unwrap_or_default();
            format!("{in_use}; {published}, not confirmed; version {before} was {what}: {why}")
        }
        Outcome::Confirmed if standing.is_confirmed() => format!("{in_use}, confirmed"),
        Outcome::Confirmed | Outcome::Waits => format!("{in_use}; {published}, not confirmed"),
        Outcome::TakenBack => format!("{in_use}; {published}; TAKEN BACK: {why}"),
        Outcome::Refused => format!("{in_use}; {published}; REFUSED: {why}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A line about a gateway whose version 7 is in use, while `published` is in the directory.
    fn said_of(published: u64, outcome: Outcome, unused: Option<u64>) -> String {
        let (in_use, why) = (Some(7), "link press does not stand any more".to_owned());
        let heartbeat = Heartbeat {
            fleet: PublicKey([1; 32]),
            gateway: GatewayName::new("press").unwrap(),
            member: PublicKey([2; 32]),
            counter: 1,
            time: 0,
            in_use,
            outcome,
            why,
            unused,
            parts: None,
        };
        said(&Standing {
            published: Some(published),
            heartbeat: Some(heartbeat),
            refusal: None,
            hidden: None,
            is_withheld: false,
            newer: None,
        })
    }

    #[test]
    fn what_became_of_one_version_says_nothing_of_a_newer_one() {
        const WHY: &str = "link press does not stand any more";
        for (outcome, loud, quiet) in
            [(Outcome::TakenBack, "TAKEN BACK", "taken back"), (Outcome::Refused, "REFUSED", "refused")]
        {
            let judged = format!("version 7 in use; version 8 is published; {loud}: {WHY}");
            assert_eq!(said_of(8, outcome, Some(8)), judged);
            assert_eq!(said_of(8, outcome, None), judged, "of an earlier release");
            assert_eq!(
                said_of(9, outcome, Some(8)),
                format!(
                    "version 7 in use; version 9 is published, not confirmed; version 8 was {quiet}: {WHY}"
                )
            );
        }
    }
}
