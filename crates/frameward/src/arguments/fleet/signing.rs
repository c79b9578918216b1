//! Signing and publishing: the operator's key, the gateways, and the directory.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use fleet::directory::{Address, Directory, Listing, configuration_key, configuration_prefix};
use fleet::publish::{self, Difference, Place, compare_with};
use fleet::rendering::{self, Rendered};
use fleet::{Draft, GatewayName, Kind, Operator, PublicIdentity};

use inventory::{CutOff, Revocation};
use suite::identity::PublicKey;

use super::audited::Audit;
use super::how::{Gateway, How, Turn, planned, published};
use super::standing::{Standings, Versions, keep_published, standings};
use super::{unix_seconds, word};
use crate::{Failure, print, tell, told};

/// Ending of the name of a revoked identity's file.
const REVOKED: &str = "revoked";

/// Number of gateways up to which each is looked at by itself: for more, a list of a whole fleet takes no longer.
const FEW: usize = 256;

/// Days for which gateways accept a version: a year, so that an operator who is away does not stop new boxes.
const DAYS: u16 = 365;

/// Signer, gateways, and directory to publish in.
#[derive(Args)]
pub(super) struct Signing {
    /// Where to publish: a file, etcd://HOST:PORT,... or etcds://HOST:PORT,...?ca=FILE
    #[arg(long)]
    directory: Address,
    /// The operator's signing key: its file, or the PKCS#11 URI of one in a token
    #[arg(long, value_name = "FILE|URI")]
    signing_key: PathBuf,
    #[arg(skip)]
    pub(super) audit: Box<Audit>,
    /// The folder with the gateways' public identities
    #[arg(long, value_name = "FOLDER")]
    identities: PathBuf,
    /// Days in which gateways accept what is published
    #[arg(long, value_name = "DAYS", default_value_t = DAYS, value_parser = clap::value_parser!(u16).range(1..=3650))]
    valid: u16,
    /// Who asked for it, for the audit log: a word, beside the login of this machine
    #[arg(long, value_name = "NAME", value_parser = word)]
    by: Option<String>,
}

/// Gateways of a rendering, with their places in the directory.
type Places = Vec<(Gateway, Place)>;

impl Signing {
    /// Has the command written down, and the directory learn how long the log is.
    pub(super) fn audited(
        &self,
        action: &'static str,
        objects: Vec<String>,
        command: impl FnOnce() -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        self.audit.is(&self.identities, action, objects);
        self.audit.is_for(self.by.as_deref());
        let done = self.audit.ends(command());
        if !self.audit.has_news(done.is_ok()) {
            return done;
        }
        done.and(self.audit.put_head(&mut *self.open()?, self.operator()?))
    }

    /// Publishes what is not in the directory yet. The versions that have the rendering's files.
    pub(super) fn publish(&self, rendering: &Path, how: How<'_>) -> Result<Versions, Failure> {
        let operator = self.operator()?;
        let gateways = self.gateways(rendering)?;
        let mut directory = self.open()?;
        let listing = self.listing(&mut *directory, operator)?;
        let places = self.places(&listing, operator, gateways, how.kind)?;
        // Each place is written over what was looked at here, and nothing else.
        let others = how.over.map(|known| overtaken(&places, known)).unwrap_or_default();
        if !others.is_empty() {
            let line = format_args!(
                "somebody else has published for {} meanwhile, so nothing is published here; look at it",
                others.join(", ")
            );
            return Err(told(&line, Failure::Failed));
        }
        let (versions, all) = self.put(&mut *directory, &places, how)?;
        self.tell_of_others(&listing, operator, rendering, &places)?;
        all.map(|()| versions)
    }

    /// The same for some gateways alone: how many others there are makes no difference.
    pub(super) fn publish_some(&self, rendered: Vec<Rendered>, kind: Kind) -> Result<Versions, Failure> {
        let mut directory = self.open()?;
        let places = self.places_of(&mut *directory, rendered, kind)?;
        let (versions, all) = self.put(&mut *directory, &places, How::changes(kind, None))?;
        all.map(|()| versions)
    }

    /// Publishes for all places that are not as they have to be. With the versions, whether all that had to be was published.
    fn put(
        &self,
        directory: &mut dyn Directory,
        places: &Places,
        how: How<'_>,
    ) -> Result<(Versions, Result<(), Failure>), Failure> {
        let is_recognized =
            !self.operator()?.is_of_token() || places.iter().any(|(_, place)| place.difference.has_files());
        let is_new = |place: &Place| how.anew || !matches!(place.difference, Difference::Same { .. });
        let changing = names(places.iter().filter(|(_, place)| is_new(place)));
        let drafts: Vec<_> =
            places.iter().map(|(gateway, place)| (gateway.draft(how.kind(place)), place)).collect();
        let (mut all, mut versions, mut done) = (Ok(()), Versions::new(), 0);
        while done < places.len() {
            let end = done + publish::at_once(&drafts[done..]);
            let turns =
                places[done..end].iter().map(|(gateway, place)| how.turn(gateway, place, is_recognized));
            let turns: Vec<_> = turns.collect();
            let goes = drafts[done..end].iter().zip(&turns).filter(|(_, turn)| matches!(turn, Turn::Goes));
            let going: Vec<_> = goes.map(|(draft, _)| *draft).collect();
            if !going.is_empty() {
                self.audit.begins(&changing)?;
            }
            let mut outcomes = self.publish_all(directory, &going).into_iter();
            for (turn, (gateway, place)) in turns.into_iter().zip(&places[done..end]) {
                let (name, title) = (&gateway.rendered.name, gateway.title());
                let version = match turn {
                    Turn::Refused(why) => {
                        all = Err(told(&format_args!("{title}: {why}"), Failure::Failed));
                        continue;
                    }
                    Turn::Stays => {
                        print(&format_args!("{title}: {}\n", planned(&place.difference)))?;
                        place.difference.version().filter(|_| !is_new(place))
                    }
                    Turn::Goes => match outcomes.next() {
                        Some(Ok(version)) => {
                            self.audit.published(name, version);
                            let trial = if how.kind(place) == how.kind {
                                ""
                            } else {
                                "; without a trial, as that was"
                            };
                            print(&format_args!("{title}: {}{trial}\n", published(place, version)))?;
                            Some(version)
                        }
                        Some(Err(why)) => {
                            all = Err(told(&format_args!("{title}: {why}"), Failure::Failed));
                            None
                        }
                        None => None,
                    },
                };
                versions.extend(version.map(|version| (name.clone(), version)));
            }
            done = end;
        }
        if !how.dry_run {
            keep_published(&self.identities, &versions)?;
        }
        Ok((versions, all))
    }

    /// Publishes drafts in one write, or one by one if somebody else wrote in the place of one. What became of each.
    fn publish_all(
        &self,
        directory: &mut dyn Directory,
        drafts: &[(Draft<'_>, &Place)],
    ) -> Vec<Result<u64, String>> {
        let (now, valid) = (unix_seconds(), self.validity());
        let operator = match self.operator() {
            Ok(operator) if !drafts.is_empty() => operator,
            _ => return Vec::new(),
        };
        match publish::publish_all(directory, operator, drafts, valid, now) {
            Ok(Some(versions)) => versions.into_iter().map(Ok).collect(),
            Ok(None) => drafts
                .iter()
                .map(|(draft, place)| {
                    publish::publish(directory, operator, *draft, place, valid, now)
                        .map_err(|error| error.to_string())
                })
                .collect(),
            Err(error) => drafts.iter().map(|_| Err(error.to_string())).collect(),
        }
    }

    /// Names of gateways whose files are not in the directory as they are in the rendering. Records that end are there.
    pub(super) fn changed(&self, rendering: &Path) -> Result<Vec<String>, Failure> {
        self.differing(rendering, Kind::Configuration, Difference::has_files)
    }

    /// Names of gateways that cannot have what is in the rendering from the directory.
    pub(super) fn unpublished(&self, rendering: &Path, kind: Kind) -> Result<Vec<String>, Failure> {
        self.differing(rendering, kind, |difference| matches!(difference, Difference::Same { .. }))
    }

    /// Names of those among some gateways for which `is_there` does not hold of the directory.
    pub(super) fn differing_some(
        &self,
        rendered: Vec<Rendered>,
        kind: Kind,
        is_there: impl Fn(&Difference) -> bool,
    ) -> Result<Vec<String>, Failure> {
        let places = self.places_of(&mut *self.open()?, rendered, kind)?;
        Ok(names(places.iter().filter(|(_, place)| !is_there(&place.difference))))
    }

    /// Versions that gateways of the rendering have in the directory; or the names of those that have something else there. `before`: what
    /// they had before a command that was cut off.
    pub(super) fn versions(
        &self,
        rendering: &Path,
        before: Option<&CutOff>,
    ) -> Result<Result<CutOff, Vec<String>>, Failure> {
        let gateways = self.gateways(rendering)?;
        let listing = self.listing(&mut *self.open()?, self.operator()?)?;
        let places = self.places(&listing, self.operator()?, gateways, Kind::Configuration)?;
        let version = |(gateway, place): &(Gateway, Place)| {
            Some((gateway.rendered.name.to_string(), place.difference.version()?))
        };
        let others = match before {
            Some(before) => overtaken(&places, before),
            None => names(places.iter().filter(|(_, place)| !place.difference.has_files())),
        };
        Ok(if others.is_empty() { Ok(places.iter().filter_map(version).collect()) } else { Err(others) })
    }

    fn differing(
        &self,
        rendering: &Path,
        kind: Kind,
        is_there: impl Fn(&Difference) -> bool,
    ) -> Result<Vec<String>, Failure> {
        let operator = self.operator()?;
        let gateways = self.gateways(rendering)?;
        let listing = self.listing(&mut *self.open()?, operator)?;
        let places = self.places(&listing, operator, gateways, kind)?;
        Ok(names(places.iter().filter(|(_, place)| !is_there(&place.difference))))
    }

    /// Returns the standings of these gateways; undecided while the directory is away.
    pub(super) fn standings(&self, names: &[GatewayName]) -> Result<Standings, Failure> {
        let directory = self.directory.open().map_err(|error| told(&error, Failure::Undecided));
        standings(&mut *directory?, self.operator()?.fleet(), &self.identities, names)
    }

    /// Publishes that nobody speaks with a gateway any more, and keeps its identity among those that are not taken again.
    pub(super) fn revoke(&self, name: &GatewayName, revocation: &Revocation) -> Result<(), Failure> {
        let failed = |error: &dyn std::fmt::Display| told(error, Failure::Failed);
        let operator = self.operator()?;
        self.audit.begins(&[])?;
        self.put_aside(name, revocation)?;
        let is_its = |key: &[u8; 32]| revocation.public_keys.contains(&PublicKey(*key).to_string());
        let revoked = revoked(&self.identities)?;
        let Some((_, file)) = revoked.iter().find(|(key, _)| is_its(key)) else {
            return print(&format_args!(
                "{name}: no identity of it is known here, so nothing is published for it, and none is refused later\n"
            ));
        };
        let member = identity(file);
        let member = member.map_err(|why| failed(&format_args!("{}: {why}", file.display())))?;
        let mut directory = self.open()?;
        let version =
            publish::revoke(&mut *directory, operator, name, &member, self.validity(), unix_seconds());
        let version = version.map_err(|error| failed(&format_args!("{name}: {error}")))?;
        if let Some(version) = version {
            self.audit.published(name, version);
        }
        print(&match version {
            Some(version) => format!("{name} {}: published version {version}: revoked\n", member.key()),
            None => format!("{name} {}: unchanged, revoked\n", member.key()),
        })
    }

    /// Gives the identity that was revoked a name of its own, so that no other one takes its place, and ends the gateway's bundle.
    fn put_aside(&self, name: &GatewayName, revocation: &Revocation) -> Result<(), Failure> {
        let known = self.identity_file(name);
        let failed = |what: &Path, error: &dyn std::fmt::Display| {
            told(&format_args!("{}: {error}; run the same command again", what.display()), Failure::Failed)
        };
        let token = token_file(&self.identities, name);
        match std::fs::remove_file(&token) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(failed(&token, &error)),
            _ => {}
        }
        if !known.exists() {
            return Ok(());
        }
        let key = identity(&known).map_err(|why| failed(&known, &why))?.key();
        if !revocation.public_keys.contains(&key.to_string()) {
            return print(&format_args!(
                "{}: of another box than the one that was revoked; left as it is. Give that box another name\n",
                known.display()
            ));
        }
        let aside = self.identities.join(format!("{name}.{key}.{REVOKED}"));
        let renamed = std::fs::rename(&known, aside).and_then(|()| sync_folder(&self.identities));
        renamed.map_err(|error| failed(&known, &error))
    }

    /// Fails if the directory does not answer, or there is no signing key.
    pub(super) fn try_out(&self, name: &GatewayName) -> Result<(), Failure> {
        let key = configuration_key(self.operator()?.fleet(), name);
        self.open()?.get(&key).map(drop).map_err(|error| told(&error, Failure::Failed))
    }

    pub(super) fn identity_file(&self, name: &GatewayName) -> PathBuf {
        self.identities.join(format!("{name}.identity"))
    }

    pub(super) fn open(&self) -> Result<Box<dyn Directory + Send>, Failure> {
        self.directory.open().map_err(|error| told(&error, Failure::Failed))
    }

    fn validity(&self) -> Duration {
        Duration::from_secs(u64::from(self.valid) * 86_400)
    }

    /// Records in the directory for all gateways, before the first one is written: others' writes from there on are noticed.
    fn listing(&self, directory: &mut dyn Directory, operator: &Operator) -> Result<Listing, Failure> {
        let listing = directory.list(&configuration_prefix(operator.fleet()));
        listing.map_err(|error| told(&error, Failure::Failed))
    }

    /// Places of some gateways: each is looked at, or all of the fleet if that is fewer requests.
    fn places_of(
        &self,
        directory: &mut dyn Directory,
        rendered: Vec<Rendered>,
        kind: Kind,
    ) -> Result<Places, Failure> {
        let operator = self.operator()?;
        let gateways = self.identified(rendered)?;
        if gateways.len() > FEW {
            return self.places(&self.listing(directory, operator)?, operator, gateways, kind);
        }
        let mut listing = Listing { revision: 0, entries: Vec::new() };
        for gateway in &gateways {
            let entry = directory.get(&configuration_key(operator.fleet(), &gateway.rendered.name));
            listing.entries.extend(entry.map_err(|error| told(&error, Failure::Failed))?);
        }
        listing.entries.sort_by(|one, other| one.key.cmp(&other.key));
        self.places(&listing, operator, gateways, kind)
    }

    /// Places of gateways in a listing, which has its entries in the order of their keys.
    fn places(
        &self,
        listing: &Listing,
        operator: &Operator,
        gateways: Vec<Gateway>,
        kind: Kind,
    ) -> Result<Places, Failure> {
        let (now, valid) = (unix_seconds(), self.validity());
        let mut places = Places::new();
        let mut all = Ok(());
        for gateway in gateways {
            let key = configuration_key(operator.fleet(), &gateway.rendered.name);
            let there = listing.entries.binary_search_by(|entry| entry.key.cmp(&key)).ok();
            let there = there.map(|at| &listing.entries[at]);
            let place = compare_with(there, operator, gateway.draft(kind), valid, now);
            if let Difference::Revoked { version } = place.difference {
                let line = format_args!(
                    "{}: was revoked in version {version}; nothing is published: get the inventory with its revoked.toml, its keys and the identities from whoever revoked it, render, and run the same command again",
                    gateway.title()
                );
                all = Err(told(&line, Failure::Failed));
            }
            places.push((gateway, place));
        }
        all.map(|()| places)
    }

    /// Signer.
    pub(super) fn operator(&self) -> Result<&Operator, Failure> {
        self.audit.operator(&self.signing_key)
    }

    /// The rendering, with the identities that belong to it.
    fn gateways(&self, rendering: &Path) -> Result<Vec<Gateway>, Failure> {
        let rendered = rendering::read(rendering).map_err(|errors| {
            errors.iter().for_each(|error| tell(error));
            Failure::Usage
        })?;
        self.identified(rendered)
    }

    /// Gateways with the identities that belong to them.
    fn identified(&self, rendered: Vec<Rendered>) -> Result<Vec<Gateway>, Failure> {
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
        listing: &Listing,
        operator: &Operator,
        rendering: &Path,
        places: &Places,
    ) -> Result<(), Failure> {
        let prefix = configuration_prefix(operator.fleet());
        let known: BTreeSet<_> = places.iter().map(|(gateway, _)| gateway.rendered.name.as_str()).collect();
        let names = listing.entries.iter().filter_map(|entry| entry.key.strip_prefix(&prefix));
        let revoked = revoked(&self.identities)?;
        names.filter(|name| !known.contains(name) && revoked_as(&revoked, name).is_none()).try_for_each(
            |name| {
                let place = rendering.display();
                print(&format_args!("{name}: is in the directory, and not in {place}; left as it is\n"))
            },
        )
    }
}

/// Names of gateways that have something else in the directory than these versions, or the same files.
fn overtaken(places: &Places, known: &CutOff) -> Vec<String> {
    let is_other = |(gateway, place): &&(Gateway, Place)| {
        let known = known.get(gateway.rendered.name.as_str()).copied();
        !matches!(place.difference, Difference::Same { .. }) && place.difference.version() != known
    };
    names(places.iter().filter(is_other))
}

fn names<'p>(places: impl Iterator<Item = &'p (Gateway, Place)>) -> Vec<String> {
    places.map(|(gateway, _)| gateway.rendered.name.to_string()).collect()
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

/// The file of an identity that was revoked under this name.
pub(super) fn revoked_as<'r>(revoked: &'r BTreeMap<[u8; 32], PathBuf>, name: &str) -> Option<&'r Path> {
    let is_its = |file: &&PathBuf| {
        let file = file.file_name().and_then(std::ffi::OsStr::to_str);
        file.and_then(|file| file.split_once('.')).is_some_and(|(of, _)| of == name)
    };
    revoked.values().find(is_its).map(PathBuf::as_path)
}

/// Public key of the token that a bundle for this name has.
pub(super) fn token_file(identities: &Path, name: &GatewayName) -> PathBuf {
    identities.join(format!("{name}.token"))
}

/// Makes renames and removals in a folder survive a power cut.
pub(super) fn sync_folder(folder: &Path) -> std::io::Result<()> {
    std::fs::File::open(if folder.as_os_str().is_empty() { Path::new(".") } else { folder })?.sync_all()
}

pub(super) fn identity(path: &Path) -> Result<PublicIdentity, String> {
    let text = std::fs::read_to_string(path);
    let text = text.map_err(|error| {
        format!("cannot be read: {error}; put there what this prints on the gateway: frameward fleet identity FILE")
    })?;
    text.parse().map_err(|error: fleet::NotAnIdentity| error.to_string())
}
