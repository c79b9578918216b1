//! The operator's commands that take a box into the fleet: `fleet approve` and `fleet bundle`.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use clap::Args;
use config::keygen::{self, KeyLength};
use fleet::directory::{Address, enrolment_key, enrolment_prefix};
use fleet::{Bundle, Code, GatewayName, Machine, Request, Validity};
use frameward::privilege;
use suite::identity::{Identity, PublicKey};

use super::audited::Audit;
use super::gateway::{gateway_name, public_key};
use super::signing::{identity, revoked, revoked_as, sync_folder, token_file};
use super::{unix_seconds, word};
use crate::{Failure, print, told};

pub(crate) const APPROVE_HELP: &str = "\
The box has asked with `frameward fleet enrol`, and shows CODE. The command looks into the directory for
what asks under NAME, and takes its identity if it has that code. With --bundle it takes the
identity that has the token of the bundle which `frameward fleet bundle` made for NAME, once. Without
code and bundle it names those who ask.

The identity goes into IDENTITIES. `frameward fleet apply` then gives the box its configuration.

Examples:
  frameward fleet approve press 1234-5678-9012-3456 --operator 1b9f...c7 \\
      --identities identities --directory etcd://10.0.0.1
  frameward fleet approve press --bundle --operator 1b9f...c7 --identities identities \\
      --directory etcd://10.0.0.1

Exit status: 0 the box is taken; 1 it is refused; 2 usage; 3 the directory cannot be reached, or
nobody asks under that name.";

/// Usage in lines of at most 100 columns: clap does not split it.
pub(crate) const APPROVE_USAGE: &str = "\
frameward fleet approve [OPTIONS] [NAME] [CODE] --directory <DIRECTORY> --operator <HEX>
                               --identities <FOLDER>";

pub(crate) const BUNDLE_HELP: &str = "\
Carry the file to the box on a stick, as a secret. The box uses it with `frameward fleet enrol --bundle`,
and the operator takes the box with `frameward fleet approve NAME --bundle`. MACHINE says for which box
it is:
  machine-id:HEX     what /etc/machine-id has there
  serial:TEXT        what /sys/class/dmi/id/product_serial has there
  identity:HEX       the public key of an identity that the box has

Whoever has the file before the operator has taken the box can ask in the box's place, and the box is
not taken then. With identity:HEX nobody else can. A second bundle for NAME ends the first, and so
do the end of its time, `approve` and `revoke`.

Example:
  frameward fleet bundle press --for serial:4711 --directory etcd://10.0.0.1 \\
      --signing-key operator.key --identities identities --out press.bundle";

/// The same.
pub(crate) const BUNDLE_USAGE: &str = "\
frameward fleet bundle [OPTIONS] --for <MACHINE> --directory <DIRECTORY> --signing-key <FILE>
                              --identities <FOLDER> --out <FILE> <NAME>";

#[derive(Args)]
pub(crate) struct Approve {
    /// The name under which the box asks
    #[arg(value_parser = gateway_name)]
    name: Option<GatewayName>,
    /// The code that the box shows
    #[arg(requires = "name")]
    code: Option<Code>,
    /// Take the box that has the token of the bundle for this name
    #[arg(long, requires = "name", conflicts_with = "code")]
    bundle: bool,
    /// Where the box asks: a file, etcd://HOST:PORT,... or etcds://HOST:PORT,...?ca=FILE
    #[arg(long)]
    directory: Address,
    /// The operator's public key
    #[arg(long, value_name = "HEX", value_parser = public_key)]
    operator: PublicKey,
    /// The folder with the gateways' public identities
    #[arg(long, value_name = "FOLDER")]
    identities: PathBuf,
    /// Who asked for it, for the audit log: a word, beside the login of this machine
    #[arg(long, value_name = "NAME", value_parser = word)]
    by: Option<String>,
}

#[derive(Args)]
pub(crate) struct MakeBundle {
    /// The name that the box gets
    #[arg(value_parser = gateway_name)]
    name: GatewayName,
    /// The box that it is for
    #[arg(long = "for", value_name = "MACHINE")]
    machine: Machine,
    /// Where the box asks: a file, etcd://HOST:PORT,... or etcds://HOST:PORT,...?ca=FILE
    #[arg(long)]
    directory: Address,
    /// The operator's signing key: its file, or the PKCS#11 URI of one in a token
    #[arg(long, value_name = "FILE|URI")]
    signing_key: PathBuf,
    /// The folder with the gateways' public identities
    #[arg(long, value_name = "FOLDER")]
    identities: PathBuf,
    /// The file to make
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    /// Days in which the box can use it, and the operator take the box by it
    #[arg(long, value_name = "DAYS", default_value_t = 30, value_parser = clap::value_parser!(u16).range(1..=3650))]
    valid: u16,
}

/// Record of a bundle that the operator keeps: the public key of its token, until when it counts, and for which box.
struct Issued {
    token: PublicKey,
    until: u64,
    machine: Machine,
}

impl Issued {
    fn text(&self) -> String {
        format!("{}\n{}\n{}\n", self.token, self.until, self.machine)
    }

    fn parse(text: &str) -> Option<Self> {
        let mut lines = text.lines();
        let mut next = || lines.next();
        let token = public_key(next()?).ok()?;
        let until = next()?.parse().ok()?;
        Some(Self { token, until, machine: next()?.parse().ok()? })
    }
}

fn failed(error: &dyn std::fmt::Display) -> Failure {
    told(error, Failure::Failed)
}

impl Approve {
    pub(crate) fn run(&self) -> Result<(), Failure> {
        let Some(name) = &self.name else { return self.list() };
        if self.code.is_none() && !self.bundle {
            return Err(told(&format_args!("type the code that {name} shows, or --bundle"), Failure::Usage));
        }
        let by = self.code.map_or_else(|| "--bundle".to_owned(), |code| code.to_string());
        let audit = Audit::of(&self.identities, "approve", vec![name.to_string(), by]);
        audit.is_of(self.operator);
        audit.is_for(self.by.as_deref());
        audit.ends(self.take(name, &audit))
    }

    fn take(&self, name: &GatewayName, audit: &Audit) -> Result<(), Failure> {
        let request = self.request(name)?;
        if let Some(code) = self.code
            && request.code() != code
        {
            return Err(failed(&format_args!(
                "{name} asks with another code: it was mistyped, or somebody put another box into the place of this one; compare it with what the box shows"
            )));
        }
        if self.bundle {
            self.has_token(name, &request)?;
        }
        let key = request.member.key();
        let revoked = revoked(&self.identities)?;
        if let Some(file) = revoked.get(&key.0) {
            return Err(failed(&format_args!(
                "{name} asks with an identity that was revoked ({}); have the box make another one",
                file.display()
            )));
        }
        refuse_revoked_name(&revoked, name)?;
        let file = self.identities.join(format!("{name}.identity"));
        let is_known = file.exists();
        if is_known {
            let known = identity(&file).map_err(|why| failed(&format_args!("{}: {why}", file.display())))?;
            if known != request.member {
                return Err(failed(&format_args!(
                    "{name} has an identity already, and asks with another one; if its box was replaced, remove {} first",
                    file.display()
                )));
            }
        }
        audit.begins(&[key.to_string()])?;
        if !is_known {
            replace(&file, &format!("{}\n", request.member))?;
        }
        // Whoever still has the bundle has nothing of it from here on.
        let token = token_file(&self.identities, name);
        let ended = match fs::remove_file(&token) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            removed => removed.and_then(|()| sync_folder(&self.identities)),
        };
        ended.map_err(|error| failed(&format_args!("{}: {error}; remove it", token.display())))?;
        print(&format_args!("{name} {key}: taken; it gets its configuration with: frameward fleet apply\n"))
    }

    fn request(&self, name: &GatewayName) -> Result<Request, Failure> {
        let away = |error| told(&error, Failure::Undecided);
        let mut directory = self.directory.open().map_err(away)?;
        let Some(entry) = directory.get(&enrolment_key(self.operator, name)).map_err(away)? else {
            let line =
                format_args!("nobody asks under the name {name}; have the box ask: frameward fleet enrol");
            return Err(told(&line, Failure::Undecided));
        };
        let request = Request::parse(&entry.value).map_err(|why| failed(&format_args!("{name}: {why}")))?;
        if request.fleet != self.operator || request.gateway != *name {
            return Err(failed(&format_args!(
                "{name}: the request is for another fleet or name: somebody put it into this place in the directory"
            )));
        }
        Ok(request)
    }

    fn has_token(&self, name: &GatewayName, request: &Request) -> Result<(), Failure> {
        let path = token_file(&self.identities, name);
        let Ok(text) = fs::read_to_string(&path) else {
            return Err(failed(&format_args!(
                "{} is not there: no bundle was made for {name}, or it was used; take the box by its code, or make another one: frameward fleet bundle",
                path.display()
            )));
        };
        let again = "make another bundle: frameward fleet bundle";
        let Some(issued) = Issued::parse(&text) else {
            return Err(failed(&format_args!("{}: is damaged; {again}", path.display())));
        };
        if issued.until <= unix_seconds() {
            return Err(failed(&format_args!("the bundle for {name} has ended; {again}")));
        }
        if !request.has_token(issued.token) {
            return Err(failed(&format_args!(
                "{name} asks without the token of its last bundle; if the box has used that, somebody put another request into its place"
            )));
        }
        let key = request.member.key();
        if let Machine::Identity(named) = &issued.machine
            && *named != key.to_string()
        {
            return Err(failed(&format_args!(
                "{name} asks with the identity {key}, and its bundle is for {}; somebody else has used it: {again}",
                issued.machine
            )));
        }
        Ok(())
    }

    /// Names of those who ask. Their codes are read on the boxes.
    fn list(&self) -> Result<(), Failure> {
        let away = |error| told(&error, Failure::Undecided);
        let prefix = enrolment_prefix(self.operator);
        let listing =
            self.directory.open().and_then(|mut directory| directory.list(&prefix)).map_err(away)?;
        let names =
            listing.entries.iter().filter_map(|entry| GatewayName::new(entry.key.strip_prefix(&prefix)?));
        let is_new = |name: &GatewayName| !self.identities.join(format!("{name}.identity")).exists();
        names.filter(is_new).try_for_each(|name| {
            print(&format_args!(
                "{name} asks; take it with the code that it shows: frameward fleet approve {name} CODE\n"
            ))
        })
    }
}

/// Fails if a gateway of this name was revoked: none is taken under it again.
fn refuse_revoked_name(revoked: &BTreeMap<[u8; 32], PathBuf>, name: &GatewayName) -> Result<(), Failure> {
    let Some(file) = revoked_as(revoked, name.as_str()) else { return Ok(()) };
    Err(failed(&format_args!(
        "a gateway of the name {name} was revoked ({}); give this box another name, in the inventory, too",
        file.display()
    )))
}

impl MakeBundle {
    pub(crate) fn run(&self) -> Result<(), Failure> {
        privilege::keep_from_being_dumped().map_err(|error| failed(&error))?;
        let objects = vec![self.name.to_string(), self.machine.to_string()];
        let audit = Audit::of(&self.identities, "bundle", objects);
        audit.ends(self.make(&audit))
    }

    fn make(&self, audit: &Audit) -> Result<(), Failure> {
        refuse_revoked_name(&revoked(&self.identities)?, &self.name)?;
        let operator = audit.operator(&self.signing_key)?;
        let (token, _) = keygen::draw(KeyLength::Bits256).map_err(|error| failed(&error))?;
        let now = unix_seconds();
        // Clocks of boxes that were never on a network.
        let validity = Validity {
            from: now.saturating_sub(86_400),
            until: now.saturating_add(u64::from(self.valid) * 86_400),
        };
        let directory = self.absolute_directory()?;
        let bundle =
            Bundle::new(operator, &self.name, (now, validity), self.machine.clone(), &directory, &token)
                .map_err(|error| failed(&error))?;
        audit.begins(&[])?;
        keygen::write_new_text(&self.out, bundle.text().as_bytes()).map_err(|error| failed(&error))?;
        let issued = Issued {
            token: Identity::new(&token).public(),
            until: validity.until,
            machine: self.machine.clone(),
        };
        if let Err(failure) = replace(&token_file(&self.identities, &self.name), &issued.text()) {
            // Nobody would be taken with it; the same command makes another one.
            let _ = fs::remove_file(&self.out);
            return Err(failure);
        }
        print(&format_args!(
            "{}: for {} of the box with {}, for {} days: a SECRET until the operator has taken the box\n",
            self.out.display(),
            self.name,
            self.machine,
            self.valid
        ))
    }
}

impl MakeBundle {
    /// Address of the directory as the box takes it: the command there runs in another folder than this one.
    fn absolute_directory(&self) -> Result<String, Failure> {
        let Some(path) = self.directory.file() else { return Ok(self.directory.to_string()) };
        let path = std::path::absolute(path).map_err(|error| failed(&error))?;
        Ok(path.display().to_string())
    }
}

/// Writes a file whole, or not at all.
fn replace(path: &Path, text: &str) -> Result<(), Failure> {
    let next = path.with_extension("new");
    let write = || -> io::Result<()> {
        let mut file = File::create(&next)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(&next, path)?;
        sync_folder(path.parent().unwrap_or(Path::new("")))
    };
    write().map_err(|error| {
        failed(&format_args!(
            "cannot write {}: {error}; name a folder that this user can write",
            path.display()
        ))
    })
}
