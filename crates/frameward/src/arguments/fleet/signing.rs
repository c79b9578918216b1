//! Who signs what is published, for whom, and where that is.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use fleet::directory::{Address, Directory, configuration_key, configuration_prefix};
use fleet::publish::{Difference, Place, compare, publish};
use fleet::rendering::{self, Rendered};
use fleet::{Draft, GatewayName, Kind, Operator, PublicIdentity};

use super::unix_seconds;
use crate::{Failure, print, tell, told};

/// What the file of an identity that was revoked ends with.
const REVOKED: &str = "revoked";

/// What gateways accept for a year, so that an operator who is away does not stop new boxes.
const DAYS: u16 = 365;

/// Who signs, for whom, and where it is published.
#[derive(Args)]
pub(super) struct Signing {
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
}

/// How a rendering is published.
#[derive(Clone, Copy)]
pub(super) struct How {
    pub(super) kind: Kind,
    pub(super) dry_run: bool,
    pub(super) anew: bool,
    pub(super) static_keys_are_new: bool,
}

impl How {
    /// What changed, as this kind of record.
    pub(super) const fn changes(kind: Kind) -> Self {
        Self { kind, dry_run: false, anew: false, static_keys_are_new: false }
    }
}

/// A gateway of the rendering.
struct Gateway {
    rendered: Rendered,
    member: PublicIdentity,
}

impl Gateway {
    const fn draft(&self, kind: Kind) -> Draft<'_> {
        Draft { gateway: &self.rendered.name, member: &self.member, kind, files: &self.rendered.files }
    }

    /// Name and key: people compare the latter with what its box prints.
    fn title(&self) -> String {
        format!("{} {}", self.rendered.name, self.member.key())
    }
}

impl How {
    /// True if a box without marks would get static keys that another one had: it would begin at packet number 1 again. What the other
    /// one had is sealed, so the operator has to say that keys in changed files are new.
    const fn repeats_packet_numbers(self, gateway: &Gateway, place: &Place) -> bool {
        gateway.rendered.has_static_keys
            && match place.difference {
                Difference::OtherIdentity { same_files, .. } => same_files || !self.static_keys_are_new,
                _ => false,
            }
    }
}

/// Gateways of a rendering, with their places in the directory.
type Places = Vec<(Gateway, Place)>;

impl Signing {
    /// Publishes what is not in the directory yet.
    pub(super) fn publish(&self, rendering: &Path, how: How) -> Result<(), Failure> {
        let operator = self.operator()?;
        let gateways = self.gateways(rendering)?;
        let mut directory = self.open()?;
        let (now, valid) = (unix_seconds(), self.validity());
        let places = self.places(&mut *directory, &operator, gateways, how.kind)?;
        let mut all = Ok(());
        for (gateway, place) in &places {
            let title = gateway.title();
            if how.repeats_packet_numbers(gateway, place) {
                let line = format_args!(
                    "{title}: its box is another one, and does not know which packet numbers the static keys had; make new keys for both ends of the link, and apply with --static-keys-are-new"
                );
                all = Err(told(&line, Failure::Failed));
                continue;
            }
            let is_same = matches!(place.difference, Difference::Same { .. }) && !how.anew;
            if how.dry_run || is_same {
                print(&format_args!("{title}: {}\n", planned(&place.difference)))?;
                continue;
            }
            match publish(&mut *directory, &operator, gateway.draft(how.kind), place, valid, now) {
                Ok(version) => print(&format_args!("{title}: {}\n", done(place, version)))?,
                Err(error) => all = Err(told(&format_args!("{title}: {error}"), Failure::Failed)),
            }
        }
        self.tell_of_others(&mut *directory, &operator, rendering, &places)?;
        all
    }

    /// Names of gateways whose files are not in the directory as they are in the rendering.
    pub(super) fn unpublished(&self, rendering: &Path) -> Result<Vec<String>, Failure> {
        let operator = self.operator()?;
        let gateways = self.gateways(rendering)?;
        let places = self.places(&mut *self.open()?, &operator, gateways, Kind::Configuration)?;
        let is_other = |(_, place): &&(Gateway, Place)| !matches!(place.difference, Difference::Same { .. });
        Ok(places.iter().filter(is_other).map(|(gateway, _)| gateway.rendered.name.to_string()).collect())
    }

    /// Publishes that nobody speaks with a gateway any more, and keeps its identity among those that are not taken again.
    pub(super) fn revoke(&self, name: &GatewayName) -> Result<(), Failure> {
        let failed = |error: &dyn std::fmt::Display| told(error, Failure::Failed);
        let operator = self.operator()?;
        let (known, revoked) = (self.identity_file(name), self.revoked_file(name));
        if known.exists() {
            std::fs::rename(&known, &revoked).map_err(|error| {
                failed(&format_args!(
                    "{} cannot be renamed: {error}; run the same command again",
                    known.display()
                ))
            })?;
        }
        if !revoked.exists() {
            return print(&format_args!(
                "{name}: never had an identity, so the directory has nothing for it\n"
            ));
        }
        let member = identity(&revoked);
        let member = member.map_err(|why| failed(&format_args!("{}: {why}", revoked.display())))?;
        let mut directory = self.open()?;
        let version = fleet::publish::revoke(
            &mut *directory,
            &operator,
            name,
            &member,
            self.validity(),
            unix_seconds(),
        );
        let version = version.map_err(|error| failed(&format_args!("{name}: {error}")))?;
        print(&match version {
            Some(version) => format!("{name} {}: published version {version}: revoked\n", member.key()),
            None => format!("{name} {}: unchanged, revoked\n", member.key()),
        })
    }

    /// Fails if the directory does not answer, or there is no signing key.
    pub(super) fn try_out(&self, name: &GatewayName) -> Result<(), Failure> {
        let key = configuration_key(self.operator()?.fleet(), name);
        self.open()?.get(&key).map(drop).map_err(|error| told(&error, Failure::Failed))
    }

    pub(super) fn identity_file(&self, name: &GatewayName) -> PathBuf {
        self.identities.join(format!("{name}.identity"))
    }

    fn revoked_file(&self, name: &GatewayName) -> PathBuf {
        self.identities.join(format!("{name}.{REVOKED}"))
    }

    pub(super) fn open(&self) -> Result<Box<dyn Directory + Send>, Failure> {
        self.directory.open().map_err(|error| told(&error, Failure::Failed))
    }

    fn validity(&self) -> Duration {
        Duration::from_secs(u64::from(self.valid) * 86_400)
    }

    /// Looks at all of them before the first is written: what somebody else writes from there on is noticed.
    fn places(
        &self,
        directory: &mut dyn Directory,
        operator: &Operator,
        gateways: Vec<Gateway>,
        kind: Kind,
    ) -> Result<Places, Failure> {
        let (now, valid) = (unix_seconds(), self.validity());
        let mut places = Places::new();
        for gateway in gateways {
            let place = compare(directory, operator, gateway.draft(kind), valid, now);
            places.push((gateway, place.map_err(|error| told(&error, Failure::Failed))?));
        }
        Ok(places)
    }

    pub(super) fn operator(&self) -> Result<Operator, Failure> {
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
    fn gateways(&self, rendering: &Path) -> Result<Vec<Gateway>, Failure> {
        let rendered = rendering::read(rendering).map_err(|errors| {
            errors.iter().for_each(|error| tell(error));
            Failure::Usage
        })?;
        let revoked = revoked(&self.identities)?;
        let mut gateways = Vec::new();
        let mut all = Ok(());
        for rendered in rendered {
            let path = self.identity_file(&rendered.name);
            let member = identity(&path).and_then(|member| match revoked.get(&member.key().0) {
                Some(file) => Err(format!(
                    "this identity was revoked ({}); make another one on the box, or take the gateway out of the rendering",
                    file.display()
                )),
                None => Ok(member),
            });
            match member {
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
        rendering: &Path,
        places: &Places,
    ) -> Result<(), Failure> {
        let prefix = configuration_prefix(operator.fleet());
        let known: BTreeSet<_> = places.iter().map(|(gateway, _)| gateway.rendered.name.as_str()).collect();
        let listing = directory.list(&prefix).map_err(|error| told(&error, Failure::Failed))?;
        let names = listing.entries.iter().filter_map(|entry| entry.key.strip_prefix(&prefix));
        let is_revoked =
            |name: &str| GatewayName::new(name).is_some_and(|name| self.revoked_file(&name).exists());
        names.filter(|name| !known.contains(name) && !is_revoked(name)).try_for_each(|name| {
            let place = rendering.display();
            print(&format_args!("{name}: is in the directory, and not in {place}; left as it is\n"))
        })
    }
}

/// Public keys of identities that were revoked, with their files.
pub(super) fn revoked(identities: &Path) -> Result<BTreeMap<[u8; 32], PathBuf>, Failure> {
    let unreadable = |path: &Path, why: &dyn std::fmt::Display| {
        told(&format_args!("{}: {why}", path.display()), Failure::Usage)
    };
    let entries = match std::fs::read_dir(identities) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(BTreeMap::new()),
        entries => entries.map_err(|error| unreadable(identities, &error))?,
    };
    let mut revoked = BTreeMap::new();
    for entry in entries {
        let path = entry.map_err(|error| unreadable(identities, &error))?.path();
        if path.extension().is_some_and(|ending| ending == REVOKED) {
            let member = identity(&path).map_err(|why| unreadable(&path, &why))?;
            revoked.insert(member.key().0, path);
        }
    }
    Ok(revoked)
}

pub(super) fn identity(path: &Path) -> Result<PublicIdentity, String> {
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
