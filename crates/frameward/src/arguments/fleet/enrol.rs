//! A box's command to come into a fleet: `fleet enrol`.

use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use clap::Args;
use fleet::directory::{Address, Put, enrolment_key};
use fleet::{BUNDLE_OCTETS, Bundle, Enrolled, GatewayName, Machines, Request};
use frameward::privilege;
use suite::identity::{Identity, PublicKey};
use zeroize::Zeroizing;

use super::gateway::{STATE, gateway_name, made_identity, own, public_key};
use super::unix_seconds;
use crate::{Failure, print, told};

pub(crate) const ENROL_HELP: &str = "\
The box makes its identity, if there is none, and writes its public half into the directory with the
name that it wants. It prints a code of 16 digits. Read it to the operator, who types it:
frameward fleet approve NAME CODE. The code covers the operator's key, the name and the identity:
who exchanges one of them in the directory has another code.

With --bundle, a file that the operator made for this box, nothing is typed. Operator, name and
directory stand in there, and are printed as lines for systemd's EnvironmentFile. A bundle is
refused if it is for another box, of another operator than --operator or the one of the last bundle,
changed, too early, too late, used already, or older than the last one.

Examples:
  frameward fleet enrol --directory etcd://10.0.0.1 --operator 1b9f...c7 --name press \\
      --identity /etc/frameward/press/fleet.key
  frameward fleet enrol --bundle /media/stick/press.bundle --identity /etc/frameward/fleet.key

Exit status: 0 the box has asked; 1 the bundle was refused; 2 usage; 3 the directory cannot be
reached.";

/// Usage in lines of at most 100 columns: clap does not split it.
pub(crate) const ENROL_USAGE: &str = "\
frameward fleet enrol --directory <DIRECTORY> --operator <HEX> --name <NAME>
                             --identity <FILE>
       frameward fleet enrol --bundle <FILE> [--operator <HEX>] --identity <FILE>";

#[derive(Args)]
pub(crate) struct Enrol {
    /// The operator's bundle for this box
    #[arg(long, value_name = "FILE", conflicts_with_all = ["directory", "name"])]
    bundle: Option<PathBuf>,
    /// Where to ask: a file, etcd://HOST:PORT,... or etcds://HOST:PORT,...?ca=FILE
    #[arg(long, required_unless_present = "bundle")]
    directory: Option<Address>,
    /// The operator's public key
    #[arg(long, value_name = "HEX", value_parser = public_key, required_unless_present = "bundle")]
    operator: Option<PublicKey>,
    /// The name that this box wants
    #[arg(long, value_parser = gateway_name, required_unless_present = "bundle")]
    name: Option<GatewayName>,
    /// This box's identity
    #[arg(long, value_name = "FILE")]
    identity: PathBuf,
    /// Where it is remembered which bundle was used
    #[arg(long, value_name = "FOLDER", default_value = STATE)]
    state: PathBuf,
}

impl Enrol {
    pub(crate) fn run(&self) -> Result<(), Failure> {
        privilege::keep_from_being_dumped().map_err(|error| told(&error, Failure::Failed))?;
        match (&self.bundle, &self.directory, self.operator, &self.name) {
            (Some(file), ..) => self.with_bundle(file),
            (None, Some(directory), Some(operator), Some(name)) => {
                let request = Request::new(operator, name, &made_identity(&self.identity)?, None);
                ask(directory, &request)?;
                print(&format_args!(
                    "{name} has asked; the operator takes it with: frameward fleet approve {name} {}\n",
                    request.code()
                ))
            }
            _ => Err(told(&"--directory, --operator and --name belong together", Failure::Usage)),
        }
    }

    fn with_bundle(&self, file: &Path) -> Result<(), Failure> {
        own([self.state.as_path()])?;
        let refused =
            |why: &dyn std::fmt::Display| told(&format_args!("{}: {why}", file.display()), Failure::Failed);
        let memory = |error| {
            let path = self.state.join(Enrolled::FILE);
            told(
                &format_args!("cannot keep in {}, which bundle was used: {error}", path.display()),
                Failure::Failed,
            )
        };
        let bundle =
            Bundle::parse(&read(file).map_err(|error| refused(&error))?).map_err(|why| refused(&why))?;
        let used = Enrolled::recall(&self.state).map_err(memory)?;
        let this = bundle.judge(self.operator, used.as_ref(), &self.machines()?, unix_seconds());
        let this = this.map_err(|why| refused(&why))?;
        let directory: Address = bundle.directory.parse().map_err(|why| refused(&why))?;
        let identity = made_identity(&self.identity)?;
        ask(&directory, &Request::new(bundle.fleet, &bundle.gateway, &identity, Some(&bundle.token())))?;
        // Only now: as long as the directory is away, the same bundle asks again, for the same identity.
        this.remember(&self.state).map_err(memory)?;
        let Bundle { fleet, gateway, .. } = &bundle;
        print(&format_args!("DIRECTORY={directory}\nOPERATOR={fleet}\nNAME={gateway}\n"))
    }

    /// By what this box is known.
    fn machines(&self) -> Result<Machines, Failure> {
        let text = |path: &str| fs::read_to_string(path).ok().map(|text| text.trim().to_owned());
        let identity = if self.identity.exists() { Some(made_identity(&self.identity)?) } else { None };
        Ok(Machines {
            id: text("/etc/machine-id"),
            serial: text("/sys/class/dmi/id/product_serial"),
            identity: identity.as_ref().map(Identity::public).map(|key| key.to_string()),
        })
    }
}

/// The text of a bundle, and no more than is too much of it.
fn read(file: &Path) -> Result<Zeroizing<String>, String> {
    let unreadable = |error| format!("cannot be read: {error}; name the file that the operator made");
    let mut octets = Zeroizing::new(vec![0; 2 * BUNDLE_OCTETS]);
    let mut opened = fs::File::open(file).map_err(unreadable)?;
    let mut length = 0;
    while length < octets.len() {
        match opened.read(&mut octets[length..]).map_err(unreadable)? {
            0 => break,
            read => length += read,
        }
    }
    let text =
        std::str::from_utf8(&octets[..length]).map_err(|_| fleet::BundleRefusal::Malformed.to_string())?;
    Ok(Zeroizing::new(text.to_owned()))
}

/// Writes the request into the directory, in the place of one that is there.
fn ask(directory: &Address, request: &Request) -> Result<(), Failure> {
    let away = |error| told(&error, Failure::Undecided);
    let key = enrolment_key(request.fleet, &request.gateway);
    let mut opened = directory.open().map_err(away)?;
    let there = opened.get(&key).map_err(away)?;
    let seen = there.as_ref().map_or(0, |entry| entry.revision);
    if there.is_some_and(|entry| entry.value == request.encode()) {
        return Ok(());
    }
    match opened.put(&key, &request.encode(), seen).map_err(away)? {
        Put::Done(_) => Ok(()),
        Put::Changed(_) => {
            let line = format_args!(
                "somebody else asks under the name {} at this moment; ask again",
                request.gateway
            );
            Err(told(&line, Failure::Undecided))
        }
    }
}
