//! `fleet serve`: the fleet's view for browsers and programs. `fleet token`: who may look.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use frameward::cockpit::logs::{self, Audit};
use frameward::cockpit::tokens::{self, Role};
use frameward::cockpit::{
    Actions, Following, Listening, NotListening, Server, Settings, SigningFiles, Sources, Surface,
};
use frameward::privilege;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use super::watched::Watched;
use super::word;
use crate::{Failure, print, told};

pub(crate) const SERVE_HELP: &str = "\
The command stays, follows the directory, and answers at /api/: gateways with their states and the
verdicts on their links, sites and cells; connections and plants of the inventory; what was in the
last day; the audit logs; and a gateway's own status, which it asks for where the inventory has
http for that gateway. /api/openapi.json describes it.

It changes nothing by itself. Who has a token of --tokens with a role may order changes, each of which
is a command of this program, with its line in the audit log:
  viewer     reads
  operator   also writes notes, and stops a command that runs
  signer     also takes boxes into the fleet by their code; with --signing-key and --to also rotates
             keys and revokes gateways

Without --signing-key it needs no key of the fleet: neither that one nor the folder of keys.

On a loopback address every user of this machine may look. Any other address needs TLS, and tokens
or client certificates. Files of certificates and tokens are read at the start; inventory and
identities whenever they change.

Examples:
  frameward fleet serve inventory --operator 1b9f...c7 --identities identities \\
      --directory etcd://10.0.0.1
  frameward fleet serve inventory --operator 1b9f...c7 --identities identities \\
      --directory etcd://10.0.0.1 --listen 10.0.0.9:9480 --tls-cert cockpit.pem \\
      --tls-key cockpit.key --tokens viewers

Exit status: 0 ended by a signal; 1 cannot listen; 2 usage, a file that cannot be used, or the inventory
has mistakes; 3 there is no such directory.";

/// Usage in lines of at most 100 columns: clap does not split it.
pub(crate) const SERVE_USAGE: &str = "\
frameward fleet serve [OPTIONS] --directory <DIRECTORY> --operator <HEX>
                             --identities <FOLDER> <INVENTORY>";

pub(crate) const TOKEN_HELP: &str = "\
The token is shown once: the file has its hash alone. Remove the line to end it, and start fleet serve
anew.

With --certificate no token is made: the line is for whoever has that client certificate, which is of
an authority in --client-ca of fleet serve. Roles: `frameward fleet serve --help`.

Examples:
  frameward fleet token anna --to viewers
  frameward fleet token bert --role signer --to viewers

Exit status: 0 done; 1 the file cannot be used.";

#[derive(Args)]
#[command(mut_arg("identities", |folder| {
    folder.help("The folder with the gateways' public identities, beside which the audit logs are")
}))]
pub(crate) struct Serve {
    #[command(flatten)]
    watched: Watched,
    /// The address to listen on
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:9480")]
    listen: SocketAddr,
    /// The server's certificates (PEM)
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// Its key (PEM), which others must not be able to read
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// Let only clients in that have a certificate of one of these authorities (PEM)
    #[arg(long, value_name = "FILE")]
    client_ca: Option<PathBuf>,
    /// Answer only requests with one of these tokens or certificates, each of which has a role
    #[arg(long, value_name = "FILE")]
    tokens: Option<PathBuf>,
    /// The operator's signing key, with which signers may rotate and revoke: its file, or a PKCS#11 URI
    #[arg(long, value_name = "FILE|URI", requires_all = ["to", "tokens"])]
    signing_key: Option<PathBuf>,
    /// The rendering that was applied, for rotations and revocations
    #[arg(long, value_name = "FOLDER", requires = "signing_key")]
    to: Option<PathBuf>,
    /// The inventory's folder of keys, for these [default: INVENTORY/keys]
    #[arg(long, value_name = "FOLDER", requires = "signing_key")]
    keys: Option<PathBuf>,
    /// A name by which clients may ask, beside IP addresses and this machine's name
    #[arg(long, value_name = "NAME")]
    host: Vec<String>,
}

#[derive(Args)]
pub(crate) struct MakeToken {
    /// Whose token it is: a word, so that its line can be found
    #[arg(value_parser = word)]
    name: String,
    /// The file to add it to; it is made with mode 0600 if it is not there
    #[arg(long, value_name = "FILE")]
    to: PathBuf,
    /// What the owner may do: viewer, operator or signer
    #[arg(long, value_name = "ROLE", default_value = "viewer")]
    role: Role,
    /// A client certificate (PEM), which takes the place of a token
    #[arg(long, value_name = "FILE")]
    certificate: Option<PathBuf>,
}

impl Serve {
    pub(crate) fn run(&self) -> Result<(), Failure> {
        let failed = |error: &dyn std::fmt::Display| told(error, Failure::Failed);
        privilege::keep_from_being_dumped().map_err(|error| failed(&error))?;
        let layout = self.watched.layout()?;
        let settings = Settings {
            address: self.listen,
            tls: self.tls_cert.clone().zip(self.tls_key.clone()),
            client_ca: self.client_ca.clone(),
            tokens: self.tokens.clone(),
            hosts: self.host.clone(),
        };
        // From here on a signal ends it in order.
        let mut signals = Signals::new([SIGTERM, SIGINT]).map_err(|error| failed(&error))?;
        self.watched.is_there()?;
        let listening = Listening::start(&settings).map_err(|why| match why {
            NotListening::Settings(_) => told(&why, Failure::Usage),
            NotListening::Address(_) => told(&why, Failure::Failed),
        })?;
        let address = listening.address().map_err(|error| failed(&error))?;
        let surface = Arc::new(Surface::new(layout, self.audit()).with_actions(self.actions()));
        let _following =
            Following::start(self.watched.sources(), Arc::clone(&surface)).map_err(|error| failed(&error))?;
        let _server = Server::start(listening, surface).map_err(|error| failed(&error))?;
        let scheme = if settings.tls.is_some() { "https" } else { "http" };
        print(&format_args!("the fleet is shown at {scheme}://{address}/\n"))?;
        signals.forever().next();
        Ok(())
    }

    /// Changes that signers and operators may order.
    fn actions(&self) -> Actions {
        let signing = self.signing_key.clone().zip(self.to.clone());
        let keys = self.keys.clone();
        Actions::new(
            self.watched.sources(),
            signing.map(|(key, rendering)| SigningFiles { key, rendering, keys }),
        )
    }

    /// Looks at the audit logs, and at their heads in the directory.
    fn audit(&self) -> impl Fn() -> Audit + Send + Sync + 'static {
        let Sources { fleet, directory, identities, .. } = self.watched.sources();
        move || {
            let heads = directory.is_there().and_then(|()| directory.open());
            let heads = heads.and_then(|mut directory| logs::heads(&mut *directory, fleet));
            Audit::new(&identities, heads.map_err(|error| error.to_string()), fleet)
        }
    }
}

impl MakeToken {
    pub(crate) fn run(&self) -> Result<(), Failure> {
        privilege::keep_from_being_dumped().map_err(|error| told(&error, Failure::Failed))?;
        let Self { name, to, role, certificate } = self;
        let failed = |why: String| told(&why, Failure::Failed);
        if let Some(certificate) = certificate {
            return tokens::add_certificate(to, name, *role, certificate).map_err(failed);
        }
        let token = tokens::add(to, name, *role).map_err(failed)?;
        print(&format_args!("{}\n", token.as_str()))
    }
}
