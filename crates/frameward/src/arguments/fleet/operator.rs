//! The operator's commands: `fleet operator` and `fleet apply`.

use std::path::{Path, PathBuf};

use clap::Args;
use fleet::{Kind, Token, TokenError};
use frameward::{keygen, privilege};
use suite::identity::PublicKey;

use super::audited::given;
use super::how::How;
use super::signing::Signing;
use super::signing_key;
use crate::{Failure, print, told};

pub(crate) const OPERATOR_HELP: &str = "\
The key is an Ed25519 key pair. It signs all that gateways accept, so keep the file off-line, and a
copy of it somewhere safe. The command never overwrites a file. The printed public key is no
secret: it names the fleet, and each gateway is told it once.

A key can be in a PKCS#11 token instead, which it never leaves. It is named by a URI (RFC 7512)
wherever a signing key is named. The PIN is typed, or in a file of mode 0600: add
&pin-source=file:FILE
  pkcs11:token=fleet;object=operator?module-path=/usr/lib/softhsm/libsofthsm2.so

Examples:
  frameward fleet operator --out operator.key
  frameward fleet operator --show operator.key

Exit status: 0 done; 1 the file or key is there already, or cannot be written; 2 usage, or the key or
its token cannot be used.";

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

Exit status: 0 all gateways have these files in the directory; 1 some have not, or the audit log has
no line of it; 2 usage or configuration.";

#[derive(Args)]
#[group(required = true, multiple = false)]
pub(crate) struct MakeOperator {
    /// The file to make, or the PKCS#11 URI of a key to make in a token
    #[arg(long, value_name = "FILE|URI")]
    out: Option<PathBuf>,
    /// Print the public key of the one that is in this file, or in a token
    #[arg(long, value_name = "FILE|URI")]
    show: Option<PathBuf>,
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
        let public = match (&self.out, &self.show) {
            (Some(out), _) => make(out)?,
            (None, Some(shown)) => signing_key::operator(shown)?.fleet(),
            (None, None) => return Err(told(&"name a file or a URI with --out or --show", Failure::Usage)),
        };
        print(&format_args!("operator = \"{public}\"\n"))
    }
}

/// Makes a key pair that was not there.
fn make(out: &Path) -> Result<PublicKey, Failure> {
    match signing_key::uri(out)? {
        None => keygen::site(out).map_err(|error| told(&error, Failure::Failed)),
        Some(uri) => Token::make(&uri, &mut signing_key::ask).map_err(|error| {
            // As with a file.
            let is_there = matches!(error, TokenError::Exists(_));
            told(&error, if is_there { Failure::Failed } else { Failure::Usage })
        }),
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
            over: None,
        };
        let publish = || signing.publish(rendering, how).map(drop);
        if *dry_run {
            return publish();
        }
        let switches =
            [("--anew", *anew), ("--static-keys-are-new", *static_keys_are_new), ("--on-trial", *on_trial)];
        let objects = std::iter::once(rendering.display().to_string()).chain(given(&switches)).collect();
        signing.audited("apply", objects, publish)
    }
}
