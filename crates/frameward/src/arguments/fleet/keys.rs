//! `fleet rotate`: exchanges a key; and what it has in common with `fleet revoke`.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::Args;
use fleet::{GatewayName, Kind};
use frameward::privilege;
use inventory::plan::FleetPlan;
use inventory::{CutOff, KeyFolder, Rendering, Renewal};

use super::audited::given;
use super::due;
use super::files::{self, Place};
use super::how::How;
use super::signing::Signing;
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

/// Usage in lines of at most 100 columns: clap does not split it.
pub(crate) const ROTATE_USAGE: &str = "\
frameward fleet rotate [OPTIONS] --to <FOLDER> --directory <DIRECTORY> --signing-key <FILE>
                              --identities <FOLDER> <GROUP> <INVENTORY>
       frameward fleet rotate [OPTIONS] --to <FOLDER> --directory <DIRECTORY> --signing-key <FILE>
                              --identities <FOLDER> --due <INVENTORY>";

/// Seconds in which gateways confirm a step: a trial, and as long again.
const WAIT: u64 = 90;
/// Time between two looks at what they say.
const LOOK: Duration = Duration::from_millis(500);
/// The same at first, and then twice as long each time: what is on no trial is confirmed at once.
const FIRST_LOOK: Duration = Duration::from_millis(20);
/// The same, if the directory did not answer.
const AWAY: Duration = Duration::from_secs(5);

/// Options of both commands beside an inventory.
#[derive(Args)]
pub(super) struct Options {
    /// The inventory's folder of keys, which is not for git [default: INVENTORY/keys]
    #[arg(long, value_name = "FOLDER")]
    keys: Option<PathBuf>,
    /// The rendering that was applied
    #[arg(long, value_name = "FOLDER")]
    to: PathBuf,
    #[command(flatten)]
    pub(super) signing: Signing,
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

pub(super) fn failed(error: &dyn std::fmt::Display) -> Failure {
    told(error, Failure::Failed)
}

impl Options {
    pub(super) fn plant(&self, inventory: &Path) -> Plant<'_> {
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
    pub(super) fn is_applied(&self) -> Result<(), Failure> {
        self.is_unchanged(&self.signing.changed(self.to)?)
    }

    /// Fails if these gateways have something else in the directory than in the rendering.
    pub(super) fn is_unchanged(&self, changed: &[String]) -> Result<(), Failure> {
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
    fn is_published(&self) -> Result<(), Failure> {
        Self::has_first_step(&self.signing.unpublished(self.to, Kind::Configuration)?)
    }

    /// Fails if the directory does not have the first step for these gateways.
    pub(super) fn has_first_step(unpublished: &[String]) -> Result<(), Failure> {
        if unpublished.is_empty() {
            return Ok(());
        }
        Err(failed(&format_args!(
            "the directory does not have the first step for {}; take that again, without --finish",
            unpublished.join(", ")
        )))
    }

    /// Renders and applies.
    fn publish(&self) -> Result<Versions, Failure> {
        self.begins(&[])?;
        files::write(&self.place, self.to)?;
        self.signing.publish(self.to, How::changes(Kind::Configuration, None))
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
    pub(super) fn is_confirmed(
        &self,
        files: &[&str],
        rendering: &Rendering,
        published: &Versions,
        command: &str,
    ) -> Result<bool, Failure> {
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
        let (mut is_told, mut look) = (false, FIRST_LOOK);
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
            std::thread::sleep(if is_seen { look } else { AWAY });
            look = (2 * look).min(LOOK);
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
                plant.is_published()?;
                plant.begins(&[])?;
                keys.finish(&file).map_err(|error| failed(&error))?;
            }
            print(&format_args!("{group}: the old {word} ends\n"))?;
            return plant.publish().map(drop);
        }
        plant.is_rendered(&rendering, &keys, is_under_way)?;
        if !is_under_way {
            if let Some(why) = inventory.hindrance(&file, &rendering, &keys, None) {
                return Err(told(&why, Failure::Usage));
            }
            plant.is_applied()?;
            plant.begins(&[])?;
            keys.renew(&file, Renewal::Overlapping).map_err(|error| failed(&error))?;
        }
        print(&format_args!("{group}: a new {word} begins, and the old one stays beside it\n"))?;
        let published = plant.publish()?;
        let (rendering, _) = plant.place.render()?;
        let command = format!("frameward fleet rotate {group}");
        if !plant.is_confirmed(&[&file], &rendering, &published, &command)? {
            return Ok(());
        }
        // Somebody else may have published something else meanwhile.
        plant.is_published()?;
        let (_, keys) = plant.place.render()?;
        keys.finish(&file).map_err(|error| failed(&error))?;
        print(&format_args!("{group}: the old {word} ends\n"))?;
        plant.publish().map(drop)
    }
}

/// Names behind each other.
pub(super) fn list(names: &[GatewayName]) -> String {
    names.iter().map(GatewayName::as_str).collect::<Vec<_>>().join(", ")
}
