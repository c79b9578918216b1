//! A gateway's commands: `fleet identity`, `fleet fetch` and `fleet follow`.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use clap::Args;
use fleet::directory::{Address, configuration_key};
use fleet::install::{ConfigurationFolder, InstallError};
use fleet::{Acceptor, GatewayName, Member, PublicIdentity};
use frameward::fleet_agent::{Agent, BesideGateway};
use frameward::log::Log;
use frameward::{keygen, membership, privilege};
use signal_hook::consts::{SIGINT, SIGTERM};
use suite::identity::{Identity, PublicKey};

use super::unix_seconds;
use crate::{Failure, print, tell_all, told};

pub(crate) const IDENTITY_HELP: &str = "\
The identity is an Ed25519 key pair, from which the key for sealed files is derived. The box makes
it itself, in a file of mode 0600, and the file never leaves the box. What is printed is no secret.
But whoever exchanges it on its way gets the gateway's configuration and keys. So compare the line
with # with what `frameward fleet apply --dry-run` prints behind the gateway's name.

Example:
  frameward fleet identity /etc/frameward/press/fleet.key > press.identity";

/// Usage in lines of at most 100 columns: clap does not split it.
pub(crate) const FETCH_USAGE: &str = "\
frameward fleet fetch [OPTIONS] --directory <DIRECTORY> --operator <HEX> --identity <FILE>
                             --name <NAME> <FOLDER>";

/// The same.
pub(crate) const FOLLOW_USAGE: &str = "\
frameward fleet follow [OPTIONS] --directory <DIRECTORY> --operator <HEX> --identity <FILE>
                              --name <NAME> <FOLDER>";

pub(crate) const FETCH_HELP: &str = "\
FOLDER gets a folder for each version, and `current`, which leads to the newest one. So run the
gateway with FOLDER/current/frameward.toml. Run the command as the owner of FOLDER.

The command accepts what the operator signed for this gateway, what is valid now by this box's
clock, and what is newer than all that it accepted before. It remembers the version in the state
directory. A configuration that `frameward run` would refuse is not put in the place of one that
is in use.

Example:
  frameward fleet fetch --directory etcd://10.0.0.1 --operator 1b9f...c7 \\
      --identity /etc/frameward/press/fleet.key --name press /etc/frameward/press
  frameward reload press

Exit status: 0 FOLDER has what the directory has, new or as before; 1 it was refused, and FOLDER is
as it was; 2 usage; 3 the directory cannot be reached, or has nothing for this gateway.";

pub(crate) const FOLLOW_HELP: &str = "\
The command runs until SIGTERM or SIGINT, beside the gateway, and does what `frameward fleet fetch`
does whenever something is published. It has the running gateway reload. Links and sites that
protected before have 30 seconds to protect again. If one does not, the version before is put back,
the gateway reloads that, and the new version is not tried again.

While the directory is away the gateway runs on. It logs to standard error, one line for each event.
It has to be the owner of FOLDER, and root or the gateway's own user.

Example:
  frameward fleet follow --directory etcd://10.0.0.1 --operator 1b9f...c7 \\
      --identity /etc/frameward/press/fleet.key --name press /etc/frameward/press";

/// Default folder that remembers which version was accepted.
pub(super) const STATE: &str = "/var/lib/frameward/fleet";

#[derive(Args)]
pub(crate) struct ShowIdentity {
    /// The file with the identity
    file: PathBuf,
}

#[derive(Args)]
pub(crate) struct Fetch {
    #[command(flatten)]
    gateway: Gateway,
}

#[derive(Args)]
pub(crate) struct Follow {
    #[command(flatten)]
    gateway: Gateway,
}

/// A gateway of a fleet, and its directory.
#[derive(Args)]
struct Gateway {
    /// Where to fetch from: a file, etcd://HOST:PORT,... or etcds://HOST:PORT,...?ca=FILE
    #[arg(long)]
    directory: Address,
    /// The operator's public key
    #[arg(long, value_name = "HEX", value_parser = public_key)]
    operator: PublicKey,
    /// This gateway's identity
    #[arg(long, value_name = "FILE")]
    identity: PathBuf,
    /// This gateway's name: in the fleet, and in its configuration
    #[arg(long, value_parser = gateway_name)]
    name: GatewayName,
    /// Where it is remembered which version was accepted
    #[arg(long, value_name = "FOLDER", default_value = STATE)]
    state: PathBuf,
    /// The folder to write into
    folder: PathBuf,
}

pub(super) fn public_key(digits: &str) -> Result<PublicKey, &'static str> {
    let octets = hex::decode(digits).ok().and_then(|octets| octets.try_into().ok());
    octets
        .map(PublicKey)
        .ok_or("a public key is 64 hexadecimal digits, as `frameward fleet operator` printed them")
}

pub(super) fn gateway_name(text: &str) -> Result<GatewayName, &'static str> {
    GatewayName::new(text).ok_or("a name is 1 to 32 of a-z, 0-9, _ and -, a letter or digit first")
}

/// Refuses folders of another user. Root would follow the links in them, and write what their owner cannot read.
pub(super) fn own<'p>(folders: impl IntoIterator<Item = &'p Path>) -> Result<(), Failure> {
    for folder in folders {
        if let Some(owner) = membership::other_owner(folder) {
            let line = format_args!(
                "{} belongs to another user; run this as its owner: sudo -u '#{owner}' frameward ...",
                folder.display()
            );
            return Err(told(&line, Failure::Usage));
        }
    }
    Ok(())
}

impl ShowIdentity {
    pub(crate) fn run(&self) -> Result<(), Failure> {
        privilege::keep_from_being_dumped().map_err(|error| told(&error, Failure::Failed))?;
        print(&format_args!("{}\n", PublicIdentity::of(&made_identity(&self.file)?)))
    }
}

/// The identity in a file, which is made if it is not there.
pub(super) fn made_identity(file: &Path) -> Result<Identity, Failure> {
    if !file.exists() {
        own(file.parent().filter(|folder| !folder.as_os_str().is_empty()))?;
        keygen::site(file).map_err(|error| told(&error, Failure::Failed))?;
    }
    config::key_file::read_identity(file).map_err(|error| told(&error, Failure::Usage))
}

impl Gateway {
    fn key(&self) -> String {
        configuration_key(self.operator, &self.name)
    }

    fn acceptor(&self) -> Result<Acceptor, Failure> {
        Acceptor::open(self.member()?, &self.state).map_err(|error| told(&error, Failure::Failed))
    }

    fn member(&self) -> Result<Member, Failure> {
        own([self.folder.as_path(), &self.state])?;
        if !self.identity.exists() {
            let path = self.identity.display();
            let line = format_args!(
                "{path} does not exist; make this box's identity with: frameward fleet identity {path}"
            );
            return Err(told(&line, Failure::Usage));
        }
        let identity = config::key_file::read_identity(&self.identity);
        let identity = identity.map_err(|error| told(&error, Failure::Usage))?;
        Ok(Member { fleet: self.operator, name: self.name.clone(), identity })
    }
}

impl Fetch {
    pub(crate) fn run(&self) -> Result<(), Failure> {
        privilege::keep_from_being_dumped().map_err(|error| told(&error, Failure::Failed))?;
        let Self { gateway } = self;
        let mut acceptor = gateway.acceptor()?;
        let away = |error| told(&error, Failure::Undecided);
        let directory = gateway.directory.open();
        let entry = directory.and_then(|mut directory| directory.get(&gateway.key())).map_err(away)?;
        let Some(entry) = entry else {
            let line = format_args!(
                "directory {} has nothing for {} of this operator",
                gateway.directory, gateway.name
            );
            return Err(told(&line, Failure::Undecided));
        };
        let accepted = acceptor.accept(&entry.value, unix_seconds());
        let accepted = accepted.map_err(|error| told(&error, Failure::Failed))?;
        let installed = ConfigurationFolder::new(&gateway.folder).install(&accepted).map_err(|error| {
            if let InstallError::Refused { findings, .. } = &error {
                tell_all("", findings);
            }
            told(&error, Failure::Failed)
        })?;
        let (version, what) = (accepted.version, if installed { "installed" } else { "unchanged" });
        print(&format_args!("{}: version {version} {what}\n", gateway.name))
    }
}

impl Follow {
    pub(crate) fn run(&self) -> Result<(), Failure> {
        privilege::keep_from_being_dumped().map_err(|error| told(&error, Failure::Failed))?;
        let failed = |error: &dyn std::fmt::Display| told(error, Failure::Failed);
        let stop = Arc::new(AtomicBool::new(false));
        for signal in [SIGTERM, SIGINT] {
            signal_hook::flag::register(signal, Arc::clone(&stop)).map_err(|error| failed(&error))?;
        }
        let Self { gateway } = self;
        gateway.directory.open().map(drop).map_err(|error| failed(&error))?;
        let log = Log::start().map_err(|error| failed(&error))?;
        log.install();
        let folder = ConfigurationFolder::new(&gateway.folder);
        let agent = Agent::open(gateway.member()?, gateway.directory.clone(), &gateway.state, folder);
        let mut agent = agent.map_err(|error| failed(&error))?;
        let beside = BesideGateway { name: gateway.name.to_string(), runtime: report::runtime_dir() };
        agent.run(&beside, &stop);
        log.flush();
        Ok(())
    }
}
