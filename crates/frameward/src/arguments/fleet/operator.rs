//! The operator's commands: `fleet operator` and `fleet apply`.

use std::path::PathBuf;

use clap::Args;
use fleet::Kind;
use frameward::{keygen, privilege};

use super::signing::{How, Signing};
use crate::{Failure, print, told};

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

What takes the place of what `frameward fleet revoke` published has no trial either, until
--on-trial. A gateway that the directory has as revoked is refused, and all others with it.

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
    #[command(flatten)]
    signing: Signing,
    /// Show what would be published, and publish nothing
    #[arg(long)]
    dry_run: bool,
    /// Publish also what is the same: a gateway took it back, or refuses it
    #[arg(long)]
    anew: bool,
    /// Gateways with a new identity get static keys that no other box had
    #[arg(long)]
    static_keys_are_new: bool,
    /// Changes are on trial again where a revocation was published without one: all boxes have fetched that
    #[arg(long)]
    on_trial: bool,
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
        let Self { rendering, signing, dry_run, anew, static_keys_are_new, on_trial } = self;
        let how = How {
            kind: Kind::Configuration,
            dry_run: *dry_run,
            anew: *anew,
            static_keys_are_new: *static_keys_are_new,
            on_trial: *on_trial,
        };
        signing.publish(rendering, how).map(drop)
    }
}
