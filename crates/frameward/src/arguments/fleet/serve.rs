//! `fleet serve`: the fleet's view for browsers and programs. `fleet token`: who may look.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use frameward::cockpit::logs::{self, Audit};
use frameward::cockpit::{Following, Listening, Server, Settings, Sources, Surface, tokens};
use frameward::privilege;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use super::watched::Watched;
use crate::{Failure, print, told};

pub(crate) const SERVE_HELP: &str = "\
The command stays, follows the directory, and answers at /api/: gateways with their states and the
verdicts on their links, sites and cells; connections and plants of the inventory; what was in the
last day; the audit logs; and a gateway's own status, which it asks for where the inventory has
http for that gateway. /api/openapi.json describes it. It changes nothing and writes nothing. It needs
no key of the fleet: neither the signing key nor the folder of keys.

On a loopback address every user of this machine may look. Any other address needs TLS, and tokens
or client certificates. Files of certificates and tokens are read at the start; inventory and
identities whenever they change.

Examples:
  frameward fleet serve inventory --operator 1b9f...c7 --identities identities \\
      --directory etcd://10.0.0.1
  frameward fleet serve inventory --operator 1b9f...c7 --identities identities \\
      --directory etcd://10.0.0.1 --listen 10.0.0.9:9480 --tls-cert cockpit.pem \\
      --tls-key cockpit.key --tokens viewers

Exit status: 0 ended by a signal; 1 cannot listen; 2 usage, or the inventory has mistakes.";

/// Usage in lines of at most 100 columns: clap does not split it.
pub(crate) const SERVE_USAGE: &str = "\
frameward fleet serve [OPTIONS] --directory <DIRECTORY> --operator <HEX>
                             --identities <FOLDER> <INVENTORY>";

pub(crate) const TOKEN_HELP: &str = "\
The token is shown once: the file has its hash alone. Remove the line to end it, and start fleet serve
anew.

Example:
  frameward fleet token anna --to viewers

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
    /// Answer only requests with one of these tokens
    #[arg(long, value_name = "FILE")]
    tokens: Option<PathBuf>,
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
}

fn word(text: &str) -> Result<String, &'static str> {
    let is_word = config::is_name(text);
    if is_word {
        Ok(text.to_owned())
    } else {
        Err("use 1 to 32 of a-z, 0-9, _ and -, a letter or digit first")
    }
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
        settings.judge().map_err(|why| told(&why, Failure::Usage))?;
        let listening = Listening::start(&settings).map_err(|why| failed(&why))?;
        let address = listening.address().map_err(|error| failed(&error))?;
        let surface = Arc::new(Surface::new(layout, self.audit()));
        let _following =
            Following::start(self.watched.sources(), Arc::clone(&surface)).map_err(|error| failed(&error))?;
        let _server = Server::start(listening, surface).map_err(|error| failed(&error))?;
        let scheme = if settings.tls.is_some() { "https" } else { "http" };
        print(&format_args!("the fleet is shown at {scheme}://{address}/\n"))?;
        signals.forever().next();
        Ok(())
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
        let token = tokens::add(&self.to, &self.name).map_err(|why| told(&why, Failure::Failed))?;
        print(&format_args!("{}\n", token.as_str()))
    }
}
