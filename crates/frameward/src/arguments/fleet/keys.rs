//! The operator's commands that exchange keys: `fleet rotate` and `fleet revoke`.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::Args;
use fleet::{GatewayName, Kind};
use frameward::privilege;
use inventory::plan::FleetPlan;
use inventory::{CutOff, Inventory, KeyFolder, Rendering, Renewal, Revocation};

use super::audited::{REVOKE, given};
use super::due;
use super::files::{self, Place, mistakes};
use super::gateway::gateway_name;
use super::signing::{How, Signing, identity};
use super::standing::{Versions, line};
use super::unix_seconds;
use crate::{Failure, print, told};

pub(crate) const ROTATE_HELP: &str = "\
GROUP is a link, group or tunnel of the inventory whose keys are agreed on, or a cell (fieldbus). It
gets a new CAK or master key in two steps, and no frame is lost. Without --finish its gateways get
the new key, and the old one to fall back on. They go over to the new one when all of them have it. In the second step they get the
new one alone. Each step renders and applies, so the rendering has to be as it was applied before.

Gateways with an agent confirm the first step after half a minute. The command waits for that, --wait
seconds at most, and then takes the second step by itself. If one was never heard, or does not confirm
in time, it says so and ends. Then give the same command again, or --finish when `frameward status`
shows the new key on all boxes. --finish asks nobody. It is refused if the directory has the first
step for fewer than all.

With --due the command does so for all whose key is older than their rotate_every in the inventory,
and finishes what has begun. It begins where all gateways have confirmed what is published and are
heard. The others are named, and wait for the next time. It can run from a timer: without anything
that is due it changes nothing.

Whatever is interrupted goes on with the same command.

Examples:
  frameward fleet rotate press inventory --to rendering --signing-key operator.key \\
      --identities identities --directory etcd://10.0.0.1
  frameward fleet rotate --due inventory --to rendering --signing-key operator.key \\
      --identities identities --directory etcd://10.0.0.1

Exit status: 0 all gateways have the step in the directory, and with --due nothing is due any more;
1 some have not, or the audit log has no line of it; 2 usage, or the inventory has mistakes.";

pub(crate) const REVOKE_HELP: &str = "\
Nobody shall speak with the gateway NAME any more. The inventory gets a section [revoked.NAME], the
directory a record that says so, and its identity file another ending: it is not taken again. It is
no peer of any tunnel. Each link, group and tunnel that it was in gets a new CAK, in two steps as
with `frameward fleet rotate`, and each cell a new master key. None of them is sealed to it. Gateways
take what this command publishes without a trial: a revoked box cannot have it taken back.

Until the second step it can speak where old CAKs are. The command takes that by itself when all
others have confirmed the first one, as `frameward fleet rotate` does. --now takes both steps at once. A
gateway that has not fetched that yet is alone until it does.

Whatever is interrupted goes on with the same command. --finish is refused until the first step is
whole.

Example:
  frameward fleet revoke cabinet-1 inventory --to rendering --signing-key operator.key \\
      --identities identities --directory etcd://10.0.0.1

Exit status: as of `frameward fleet rotate`.";

/// Usage in lines of at most 100 columns: clap does not split it.
pub(crate) const ROTATE_USAGE: &str = "\
frameward fleet rotate [OPTIONS] --to <FOLDER> --directory <DIRECTORY> --signing-key <FILE>
                              --identities <FOLDER> <GROUP> <INVENTORY>
       frameward fleet rotate [OPTIONS] --to <FOLDER> --directory <DIRECTORY> --signing-key <FILE>
                              --identities <FOLDER> --due <INVENTORY>";

/// The same.
pub(crate) const REVOKE_USAGE: &str = "\
frameward fleet revoke [OPTIONS] --to <FOLDER> --directory <DIRECTORY> --signing-key <FILE>
                              --identities <FOLDER> <NAME> <INVENTORY>";

/// Seconds in which gateways confirm a step: a trial, and as long again.
const WAIT: u64 = 90;
/// Time between two looks at what they say.
const LOOK: Duration = Duration::from_millis(500);
/// The same, if the directory did not answer.
const AWAY: Duration = Duration::from_secs(5);

/// What both commands take beside an inventory.
#[derive(Args)]
struct Options {
    /// The inventory's folder of keys, which is not for git [default: INVENTORY/keys]
    #[arg(long, value_name = "FOLDER")]
    keys: Option<PathBuf>,
    /// The rendering that was applied
    #[arg(long, value_name = "FOLDER")]
    to: PathBuf,
    #[command(flatten)]
    signing: Signing,
    /// Seconds to wait until the gateways have confirmed the first step; 0: the second one is not taken
    #[arg(long, value_name = "SECONDS", default_value_t = WAIT, conflicts_with = "finish", value_parser = clap::value_parser!(u64).range(..=86_400))]
    wait: u64,
}

/// An inventory, its rendering, and who signs that.
pub(super) struct Plant<'o> {
    pub(super) place: Place,
    pub(super) to: &'o Path,
    pub(super) signing: &'o Signing,
    wait: u64,
}

#[derive(Args)]
pub(crate) struct Rotate {
    /// The link, group, cell or tunnel
    #[arg(required_unless_present = "due")]
    group: Option<String>,
    /// The folder of the inventory's files (TOML)
    #[arg(required_unless_present = "due")]
    inventory: Option<PathBuf>,
    #[command(flatten)]
    options: Options,
    /// Take the second step: end the old key
    #[arg(long)]
    finish: bool,
    /// Rotate all of this inventory whose key is due by rotate_every, and finish all that have begun
    #[arg(long, value_name = "INVENTORY", conflicts_with_all = ["group", "inventory", "finish"])]
    due: Option<PathBuf>,
}

#[derive(Args)]
pub(crate) struct Revoke {
    /// The gateway
    #[arg(value_parser = gateway_name)]
    name: GatewayName,
    /// The folder of the inventory's files (TOML)
    inventory: PathBuf,
    #[command(flatten)]
    options: Options,
    /// Take the second step: end the old CAKs
    #[arg(long, conflicts_with = "now")]
    finish: bool,
    /// Take both steps at once
    #[arg(long)]
    now: bool,
}

pub(super) fn failed(error: &dyn std::fmt::Display) -> Failure {
    told(error, Failure::Failed)
}

impl Options {
    fn plant(&self, inventory: &Path) -> Plant<'_> {
        let place = Place::new(inventory.to_owned(), self.keys.clone());
        Plant { place, to: &self.to, signing: &self.signing, wait: self.wait }
    }
}

impl Plant<'_> {
    /// Fails if the inventory says something else than the rendering: that is not to go along with new keys. `with_keys`: new keys alone
    /// may be there already, of a command that was interrupted.
    pub(super) fn is_rendered(
        &self,
        rendering: &Rendering,
        keys: &KeyFolder,
        with_keys: bool,
    ) -> Result<(), Failure> {
        let plan = FleetPlan::new(rendering, self.to, &keys.drawn_fingerprints());
        let plan = plan.map_err(|error| failed(&error))?;
        let is_as_it_was = plan.is_empty() || with_keys && plan.is_of_keys();
        if is_as_it_was && keys.missing().next().is_none() {
            return Ok(());
        }
        let (inventory, to) = (self.place.path().display(), self.to.display());
        Err(failed(&format_args!(
            "{inventory} has changes that are not in {to}; look at them, render and apply them first: frameward fleet plan {inventory} --against {to}"
        )))
    }

    /// Fails if the rendering says something else than the directory.
    pub(super) fn is_applied(&self, gone: Option<&GatewayName>) -> Result<(), Failure> {
        let changed = self.signing.changed(self.to, gone)?;
        if changed.is_empty() {
            return Ok(());
        }
        Err(failed(&format_args!(
            "{} has changes that are not in the directory, for {}; apply them first: frameward fleet apply",
            self.to.display(),
            changed.join(", ")
        )))
    }

    /// Fails if a gateway cannot have the first step yet.
    fn is_published(&self, kind: Kind) -> Result<(), Failure> {
        let unpublished = self.signing.unpublished(self.to, kind)?;
        if unpublished.is_empty() {
            return Ok(());
        }
        Err(failed(&format_args!(
            "the directory does not have the first step for {}; take that again, without --finish",
            unpublished.join(", ")
        )))
    }

    /// Renders and applies.
    pub(super) fn publish(&self, kind: Kind) -> Result<Versions, Failure> {
        self.begins(&[])?;
        files::write(&self.place, self.to)?;
        self.signing.publish(self.to, How::changes(kind, None))
    }

    /// The same, over these versions alone.
    pub(super) fn publish_over(&self, known: &CutOff) -> Result<Versions, Failure> {
        files::write(&self.place, self.to)?;
        self.signing.publish(self.to, How::changes(Kind::Configuration, Some(known)))
    }

    /// Writes down that keys, the inventory or what is published change from here on.
    pub(super) fn begins(&self, about: &[String]) -> Result<(), Failure> {
        self.signing.audit.begins(about)
    }

    /// Waits until all gateways with these files have confirmed the versions that this very command has published, or found as they have to
    /// be: what the directory shows later does not count. False if one was never heard, or does not in time; then it is said what is to be
    /// done before the old CAKs end.
    fn is_confirmed(&self, files: &[&str], published: &Versions, command: &str) -> Result<bool, Failure> {
        let (rendering, _) = self.place.render()?;
        let has = |one: &inventory::Rendered| files.iter().any(|file| one.key_files.contains_key(*file));
        let members = rendering.gateways.iter().filter(|(_, one)| has(one)).map(|(name, _)| name.as_str());
        let members: Vec<_> = members.filter_map(GatewayName::new).collect();
        let is_confirmed = self.unconfirmed(&members, published)?.is_empty();
        if is_confirmed {
            print(&format_args!("{}: confirmed\n", list(&members)))?;
        } else {
            print(&format_args!(
                "not known here: whether {} have fetched this; when `frameward status` there shows the new CAK: {command} --finish\n",
                list(&members)
            ))?;
        }
        Ok(is_confirmed)
    }

    /// Waits for the same until it is too late, or one was never heard. Those that have not confirmed: all of them, if the directory did not
    /// answer.
    pub(super) fn unconfirmed(
        &self,
        members: &[GatewayName],
        published: &Versions,
    ) -> Result<BTreeSet<GatewayName>, Failure> {
        let until = Instant::now() + Duration::from_secs(self.wait);
        let mut is_told = false;
        loop {
            let seen = match self.wait {
                0 => None,
                // A directory that is away for a moment is asked again.
                _ => match self.signing.standings(members) {
                    Err(Failure::Undecided) => None,
                    seen => Some(seen?),
                },
            };
            let is_seen = seen.is_some();
            let now = unix_seconds();
            let has = |name: &GatewayName, standing: &fleet::Standing| {
                published.get(name).is_some_and(|version| standing.confirms(*version, now))
            };
            let open: Vec<_> =
                seen.into_iter().flatten().filter(|(name, standing)| !has(name, standing)).collect();
            if is_seen && open.is_empty() {
                return Ok(BTreeSet::new());
            }
            let never_heard = open.iter().any(|(_, standing)| standing.heartbeat.is_none());
            if self.wait == 0 || never_heard || Instant::now() > until {
                for (name, standing) in open.iter().filter(|_| !never_heard) {
                    print(&format_args!("{name}: {}\n", line(standing, now)))?;
                }
                let open = open.into_iter().map(|(name, _)| name);
                return Ok(if is_seen { open.collect() } else { members.iter().cloned().collect() });
            }
            if !std::mem::replace(&mut is_told, true) {
                print(&format_args!("waits up to {} s until {} confirm\n", self.wait, list(members)))?;
            }
            std::thread::sleep(if is_seen { LOOK } else { AWAY });
        }
    }
}

impl Rotate {
    pub(crate) fn run(&self) -> Result<(), Failure> {
        privilege::keep_from_being_dumped().map_err(|error| failed(&error))?;
        let switches = [("--due", self.due.is_some()), ("--finish", self.finish)];
        let objects = self.group.iter().cloned().chain(given(&switches)).collect();
        self.options.signing.audited("rotate", objects, || self.rotate())
    }

    fn rotate(&self) -> Result<(), Failure> {
        let Self { group, inventory, options, finish, due } = self;
        if let Some(inventory) = due {
            return due::rotate(&options.plant(inventory));
        }
        let (Some(group), Some(inventory)) = (group, inventory) else {
            return Err(told(&"name a group and an inventory, or --due", Failure::Usage));
        };
        let plant = &options.plant(inventory);
        let _lock = plant.place.lock()?;
        let (rendering, keys) = plant.place.render()?;
        let inventory = plant.place.read()?;
        let file = inventory.cak_file(group, &keys);
        let file = file.map_err(|why| told(&why, Failure::Usage))?;
        let word = keys.word(&file);
        plant.signing.operator()?;
        let is_under_way = keys.is_under_way(&file);
        if inventory.revoked().values().any(|one| one.under_way(&keys).contains(&file.as_str())) {
            return Err(failed(&format_args!(
                "{group} gets a new {word} because a gateway was revoked; finish that: frameward fleet revoke NAME --finish"
            )));
        }
        if *finish {
            // The second step may have been interrupted before it was rendered.
            plant.is_rendered(&rendering, &keys, !is_under_way)?;
            if is_under_way {
                plant.is_published(Kind::Configuration)?;
                plant.begins(&[])?;
                keys.finish(&file).map_err(|error| failed(&error))?;
            }
            print(&format_args!("{group}: the old {word} ends\n"))?;
            return plant.publish(Kind::Configuration).map(drop);
        }
        plant.is_rendered(&rendering, &keys, is_under_way)?;
        if !is_under_way {
            if let Some(why) = inventory.hindrance(&file, &rendering, &keys, None) {
                return Err(told(&why, Failure::Usage));
            }
            plant.is_applied(None)?;
            plant.begins(&[])?;
            keys.renew(&file, Renewal::Overlapping).map_err(|error| failed(&error))?;
        }
        print(&format_args!("{group}: a new {word} begins, and the old one stays beside it\n"))?;
        let published = plant.publish(Kind::Configuration)?;
        if !plant.is_confirmed(&[&file], &published, &format!("frameward fleet rotate {group}"))? {
            return Ok(());
        }
        // Somebody else may have published something else meanwhile.
        plant.is_published(Kind::Configuration)?;
        let (_, keys) = plant.place.render()?;
        keys.finish(&file).map_err(|error| failed(&error))?;
        print(&format_args!("{group}: the old {word} ends\n"))?;
        plant.publish(Kind::Configuration).map(drop)
    }
}

impl Revoke {
    fn plant(&self) -> Plant<'_> {
        self.options.plant(&self.inventory)
    }

    pub(crate) fn run(&self) -> Result<(), Failure> {
        privilege::keep_from_being_dumped().map_err(|error| failed(&error))?;
        let switches = [("--finish", self.finish), ("--now", self.now)];
        let objects = std::iter::once(self.name.to_string()).chain(given(&switches)).collect();
        self.options.signing.audited(REVOKE, objects, || self.revoke())
    }

    fn revoke(&self) -> Result<(), Failure> {
        let Self { name, finish, now, .. } = self;
        let plant = &self.plant();
        let _lock = plant.place.lock()?;
        plant.signing.try_out(name)?;
        let known = plant.place.read()?.revoked().get(name.as_str()).cloned();
        let revocation = match known {
            Some(revocation) => self.go_on(revocation)?,
            None if *finish => {
                return Err(told(
                    &format_args!("{name} is not revoked; take the first step, without --finish"),
                    Failure::Usage,
                ));
            }
            None => self.begin()?,
        };
        let keys = plant.place.keys();
        plant.signing.revoke(name, &revocation)?;
        self.renew(&revocation)?;
        if *finish || *now {
            for file in revocation.under_way(&keys) {
                keys.finish(file).map_err(|error| failed(&error))?;
            }
        }
        let published = plant.publish(Kind::ConfigurationToKeep)?;
        let under_way = revocation.under_way(&keys);
        let command = format!("until then {name} can speak. frameward fleet revoke {name}");
        if under_way.is_empty() || !plant.is_confirmed(&under_way, &published, &command)? {
            return Ok(());
        }
        plant.is_published(Kind::ConfigurationToKeep)?;
        for file in under_way {
            keys.finish(file).map_err(|error| failed(&error))?;
        }
        plant.publish(Kind::ConfigurationToKeep).map(drop)
    }

    /// Fails if something is not as the step before has left it.
    fn go_on(&self, revocation: Revocation) -> Result<Revocation, Failure> {
        let (Self { name, finish, .. }, plant) = (self, self.plant());
        let (rendering, keys) = plant.place.render()?;
        if let (true, Some(file)) = (finish, revocation.keys_in_use(&rendering, &keys).first()) {
            return Err(failed(&format_args!(
                "{file} was not exchanged yet, so the old CAK would end for some before they have a new one; take the first step again, without --finish"
            )));
        }
        let is_under_way = !revocation.under_way(&keys).is_empty();
        // Until it was rendered once, more than keys changes.
        let was_rendered = !plant.to.join(name.as_str()).exists();
        if *finish && !was_rendered {
            return Err(failed(&format_args!(
                "{} still has {name}; take the first step again, without --finish",
                plant.to.display()
            )));
        }
        if was_rendered {
            plant.is_rendered(&rendering, &keys, !(*finish && is_under_way))?;
        }
        if *finish && is_under_way {
            plant.is_published(Kind::ConfigurationToKeep)?;
        }
        Ok(revocation)
    }

    /// Writes down that it is revoked, and which keys it knew. Whatever is wrong with that is told before.
    fn begin(&self) -> Result<Revocation, Failure> {
        let (Self { name, now, .. }, plant) = (self, self.plant());
        let usage = |why: &dyn std::fmt::Display| told(why, Failure::Usage);
        let (rendering, keys) = plant.place.render()?;
        plant.is_rendered(&rendering, &keys, false)?;
        plant.is_applied(Some(name))?;
        let inventory = plant.place.read()?;
        let revocation = inventory.revocation(name.as_str(), &rendering, &keys);
        let mut revocation = revocation.map_err(|why| usage(&why))?;
        let mut both = revocation.keys.keys().filter(|file| keys.is_under_way(file));
        if let (Some(file), false) = (both.next(), now) {
            return Err(usage(&format_args!(
                "{file} is being renewed, and {name} knows both CAKs; finish that first: frameward fleet rotate GROUP --finish, or use --now"
            )));
        }
        let in_use = revocation.keys_in_use(&rendering, &keys);
        let hinders = |file| inventory.hindrance(file, &rendering, &keys, Some(name.as_str()));
        if let (Some(why), false) = (in_use.into_iter().find_map(hinders), now) {
            return Err(usage(&format_args!("{why}; or use --now")));
        }
        let file = plant.signing.identity_file(name);
        if file.exists() {
            let member = identity(&file).map_err(|why| usage(&format_args!("{}: {why}", file.display())))?;
            revocation.public_keys.push(member.key().to_string());
        }
        let revoking = Inventory::revoking(plant.place.path(), name.as_str(), &revocation);
        let revoking = revoking.map_err(|findings| mistakes(&findings))?;
        revoking.inventory.render(&mut plant.place.keys()).map_err(|findings| mistakes(&findings))?;
        plant.begins(&[])?;
        revoking.write().map_err(|(path, error)| write_failed(&path, &error))?;
        Ok(revocation)
    }

    /// Exchanges the keys that it knew, and that others still have.
    fn renew(&self, revocation: &Revocation) -> Result<(), Failure> {
        let (rendering, keys) = self.plant().place.render()?;
        for file in revocation.keys_in_use(&rendering, &keys) {
            let members = rendering.gateways.values().filter(|one| one.key_files.contains_key(file)).count();
            // A gateway left alone speaks with nobody, a cell's master key ends at once, and of two CAKs that it knew none stays.
            let at_once = self.now
                || members < 2
                || keys.is_under_way(file)
                || config::key_file::read_cak(&keys.path_of(file)).is_err();
            let renewal = if at_once { Renewal::AtOnce } else { Renewal::Overlapping };
            keys.renew(file, renewal).map_err(|error| failed(&error))?;
            print(&format_args!("{file}: a new key, which {} does not get\n", self.name))?;
        }
        Ok(())
    }
}

/// Names behind each other.
pub(super) fn list(names: &[GatewayName]) -> String {
    names.iter().map(GatewayName::as_str).collect::<Vec<_>>().join(", ")
}

fn write_failed(path: &Path, error: &std::io::Error) -> Failure {
    failed(&format_args!("cannot write {}: {error}; run the same command again", path.display()))
}
