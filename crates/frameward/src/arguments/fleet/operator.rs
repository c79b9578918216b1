//! The operator's commands: `fleet operator` and `fleet apply`.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use fleet::directory::{Address, Directory, configuration_prefix};
use fleet::publish::{Difference, Place, compare, publish};
use fleet::rendering::{self, Rendered};
use fleet::{Draft, Operator, PublicIdentity};
use frameward::{keygen, privilege};

use super::unix_seconds;
use crate::{Failure, print, tell, told};

pub(crate) const OPERATOR_HELP: &str = "\
The key is an Ed25519 key pair. It signs all that gateways accept, so keep the file off-line, and a
copy of it somewhere safe. The command never overwrites a file. The printed public key is no
secret: it names the fleet, and each gateway is told it once.

Example:
  frameward fleet operator --out operator.key";

/// Usage in lines of at most 100 columns: clap does not split it.
pub(crate) const APPLY_USAGE: &str = "\
frameward fleet apply [OPTIONS] --directory <DIRECTORY> --signing-key <FILE>
                             --identities <FOLDER> <RENDERING>";

pub(crate) const APPLY_HELP: &str = "\
RENDERING is a folder with one folder for each gateway, named after it. In there stand
frameward.toml and the key files that it names, as on the gateway's box. All configurations have
to pass `frameward check --offline`; if one does not, nothing is published.

IDENTITIES is a folder with a file NAME.identity for each gateway: what `frameward fleet identity`
printed there.

DIRECTORY is a file, or the members of an etcd:
  fleet.redb
  etcd://HOST:PORT,HOST:PORT
  etcds://HOST:PORT?ca=FILE&certificate=FILE&key=FILE     (with TLS; client certificate if needed)

A gateway whose files are as they were published is left alone, unless less than a third of its
time is left; --anew publishes all. If somebody else published meanwhile, theirs stays, and the
command says so.

Behind a gateway's name stands its public key. Compare it once with the line with # that
`frameward fleet identity` prints on its box. A gateway with another identity than before gets
static keys only if they are new (--static-keys-are-new): its box does not know which packet
numbers they had.

Examples:
  frameward fleet apply rendering --signing-key operator.key --identities identities \\
      --directory fleet.redb
  frameward fleet apply --dry-run rendering --signing-key operator.key --identities identities \\
      --directory etcd://10.0.0.1

Exit status: 0 all gateways have these files in the directory; 1 some have not; 2 usage or
configuration.";

/// What gateways accept for a year, so that an operator who is away does not stop new boxes.
const DAYS: u16 = 365;

#[derive(Args)]
pub(crate) struct MakeOperator {
    /// The file to make
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
}

#[derive(Args)]
pub(crate) struct Apply {
    /// The folder with a folder for each gateway
    rendering: PathBuf,
    /// Where to publish: a file, etcd://HOST:PORT,... or etcds://HOST:PORT,...?ca=FILE
    #[arg(long)]
    directory: Address,
    /// The operator's signing key
    #[arg(long, value_name = "FILE")]
    signing_key: PathBuf,
    /// The folder with the gateways' public identities
    #[arg(long, value_name = "FOLDER")]
    identities: PathBuf,
    /// Days in which gateways accept what is published
    #[arg(long, value_name = "DAYS", default_value_t = DAYS, value_parser = clap::value_parser!(u16).range(1..=3650))]
    valid: u16,
    /// Show what would be published, and publish nothing
    #[arg(long)]
    dry_run: bool,
    /// Publish also what is the same: a gateway took it back, or refuses it
    #[arg(long)]
    anew: bool,
    /// Gateways with a new identity get static keys that no other box had
    #[arg(long)]
    static_keys_are_new: bool,
}

/// A gateway of the rendering.
struct Gateway {
    rendered: Rendered,
    member: PublicIdentity,
}

impl Gateway {
    const fn draft(&self) -> Draft<'_> {
        Draft { gateway: &self.rendered.name, member: &self.member, files: &self.rendered.files }
    }

    /// Name and key: people compare the latter with what its box prints.
    fn title(&self) -> String {
        format!("{} {}", self.rendered.name, self.member.key())
    }
}

impl MakeOperator {
    pub(crate) fn run(&self) -> Result<(), Failure> {
        privilege::keep_from_being_dumped().map_err(|error| told(&error, Failure::Failed))?;
        let public = keygen::site(&self.out).map_err(|error| told(&error, Failure::Failed))?;
        print(&format_args!("operator = \"{public}\"\n"))
    }
}

impl Apply {
    pub(crate) fn run(&self) -> Result<(), Failure> {
        privilege::keep_from_being_dumped().map_err(|error| told(&error, Failure::Failed))?;
        let operator = self.operator()?;
        let gateways = self.gateways()?;
        let failed = |error| told(&error, Failure::Failed);
        let mut directory = self.directory.open().map_err(failed)?;
        let (now, valid) = (unix_seconds(), Duration::from_secs(u64::from(self.valid) * 86_400));
        // All of them before the first is written: what somebody else writes from here on is noticed.
        let places: Vec<_> = gateways
            .iter()
            .map(|gateway| compare(&mut *directory, &operator, gateway.draft(), valid, now))
            .collect::<Result<_, _>>()
            .map_err(failed)?;
        let mut all = Ok(());
        for (gateway, place) in gateways.iter().zip(&places) {
            let title = gateway.title();
            if self.repeats_packet_numbers(gateway, place) {
                let line = format_args!(
                    "{title}: its box is another one, and does not know which packet numbers the static keys had; make new keys for both ends of the link, and apply with --static-keys-are-new"
                );
                all = Err(told(&line, Failure::Failed));
                continue;
            }
            let is_same = matches!(place.difference, Difference::Same { .. }) && !self.anew;
            if self.dry_run || is_same {
                print(&format_args!("{title}: {}\n", planned(&place.difference)))?;
                continue;
            }
            match publish(&mut *directory, &operator, gateway.draft(), place, valid, now) {
                Ok(version) => print(&format_args!("{title}: {}\n", done(place, version)))?,
                Err(error) => all = Err(told(&format_args!("{title}: {error}"), Failure::Failed)),
            }
        }
        self.tell_of_others(&mut *directory, &operator, &gateways)?;
        all
    }

    /// True if a box without marks would get static keys that another one had: it would begin at packet number 1 again. What the other
    /// one had is sealed, so the operator has to say that keys in changed files are new.
    const fn repeats_packet_numbers(&self, gateway: &Gateway, place: &Place) -> bool {
        gateway.rendered.has_static_keys
            && match place.difference {
                Difference::OtherIdentity { same_files, .. } => same_files || !self.static_keys_are_new,
                _ => false,
            }
    }

    fn operator(&self) -> Result<Operator, Failure> {
        let path = &self.signing_key;
        if !path.exists() {
            let line = format_args!(
                "{} does not exist; name the operator's signing key, or make one with: frameward fleet operator --out FILE",
                path.display()
            );
            return Err(told(&line, Failure::Usage));
        }
        let identity = config::key_file::read_identity(path);
        identity.map(Operator::new).map_err(|error| told(&error, Failure::Usage))
    }

    /// The rendering with the identities that belong to it.
    fn gateways(&self) -> Result<Vec<Gateway>, Failure> {
        let rendered = rendering::read(&self.rendering).map_err(|errors| {
            errors.iter().for_each(|error| tell(error));
            Failure::Usage
        })?;
        let mut gateways = Vec::new();
        let mut all = Ok(());
        for rendered in rendered {
            let path = self.identities.join(format!("{}.identity", rendered.name));
            match identity(&path) {
                Ok(member) => gateways.push(Gateway { rendered, member }),
                Err(why) => {
                    tell(&format_args!("{}: {why}", path.display()));
                    all = Err(Failure::Usage);
                }
            }
        }
        all.map(|()| gateways)
    }

    /// Gateways of the fleet that are not in the rendering go on with what they have.
    fn tell_of_others(
        &self,
        directory: &mut dyn Directory,
        operator: &Operator,
        gateways: &[Gateway],
    ) -> Result<(), Failure> {
        let prefix = configuration_prefix(operator.fleet());
        let known: BTreeSet<_> = gateways.iter().map(|gateway| gateway.rendered.name.as_str()).collect();
        let listing = directory.list(&prefix).map_err(|error| told(&error, Failure::Failed))?;
        let names = listing.entries.iter().filter_map(|entry| entry.key.strip_prefix(&prefix));
        names.filter(|name| !known.contains(name)).try_for_each(|name| {
            let place = self.rendering.display();
            print(&format_args!("{name}: is in the directory, and not in {place}; left as it is\n"))
        })
    }
}

fn identity(path: &Path) -> Result<PublicIdentity, String> {
    let text = std::fs::read_to_string(path);
    let text = text.map_err(|error| {
        format!("cannot be read: {error}; put there what this prints on the gateway: frameward fleet identity FILE")
    })?;
    text.parse().map_err(|error: fleet::NotAnIdentity| error.to_string())
}

fn planned(difference: &Difference) -> String {
    match difference {
        Difference::New => "new".to_owned(),
        Difference::Changed { version } => format!("changed since version {version}"),
        Difference::OtherIdentity { version, .. } => {
            format!("has another identity than in version {version}")
        }
        Difference::Ending { version } => {
            format!("unchanged; version {version} ends soon, has ended, or begins later")
        }
        Difference::Foreign => "what is in the directory was not signed by this operator".to_owned(),
        Difference::Same { version } => format!("unchanged, version {version}"),
    }
}

fn done(place: &Place, version: u64) -> String {
    format!("published version {version}: {}", planned(&place.difference))
}
