//! `fleet revoke`: nobody speaks with a gateway any more.
//!
//! ```text
//!  inventory, rendering, directory: as they have to be? ──▶ [revoked.NAME] ──▶ its record ──▶ new keys ──▶ records of those concerned ──▶ rendering
//! ```
//!
//! A revocation is not to wait for gateways that it does not concern. Those that it does are rendered in memory and published at once. The
//! folder of the rendering follows. A command that is cut off between both leaves it behind the directory, and goes on from there. Nobody else
//! publishes what is old there meanwhile: it has the gateway still, and the directory says that it was revoked. A folder without the gateway, as
//! before the second step, could be applied: that is written first.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use clap::Args;
use fleet::publish::Difference;
use fleet::rendering::{Rendered, RenderingError};
use fleet::{FileName, Files, GatewayName, Kind};
use frameward::privilege;
use inventory::{CONFIGURATION, Inventory, KeyFolder, Rendering, Renewal, Revocation};
use zeroize::Zeroizing;

use super::audited::{REVOKE, given};
use super::files::{self, mistakes};
use super::gateway::gateway_name;
use super::keys::{Options, Plant, failed};
use super::signing::identity;
use super::standing::Versions;
use crate::{Failure, print, told};

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
pub(crate) const REVOKE_USAGE: &str = "\
frameward fleet revoke [OPTIONS] --to <FOLDER> --directory <DIRECTORY> --signing-key <FILE>
                              --identities <FOLDER> <NAME> <INVENTORY>";

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

/// A revocation that is written down.
struct Step<'p> {
    plant: &'p Plant<'p>,
    /// The gateway.
    name: &'p GatewayName,
    /// The inventory in which it is.
    inventory: Inventory,
    revocation: Revocation,
    /// Gateways that get something else by it.
    concerned: BTreeSet<String>,
}

impl Step<'_> {
    /// Rendering of those concerned, with the keys as they are now.
    fn render(&self) -> Result<(Rendering, KeyFolder), Failure> {
        let mut keys = self.plant.place.keys();
        let rendering = self.inventory.render_some(&mut keys, &self.concerned);
        Ok((rendering.map_err(|findings| mistakes(&findings))?, keys))
    }

    /// Publishes that, and renders all.
    fn publish(&self) -> Result<(Rendering, Versions), Failure> {
        self.plant.begins(&[])?;
        let (rendering, keys) = self.render()?;
        files::refuse_known_keys(&self.inventory, &rendering, &keys)?;
        let to = self.plant.to;
        let is_safe_to_be_old = to.join(self.name.as_str()).exists();
        if !is_safe_to_be_old {
            files::write(&self.plant.place, to)?;
        }
        let versions = match self.concerned.is_empty() {
            true => Versions::new(),
            false => {
                let rendered = to_publish(&rendering, to)?;
                self.plant.signing.publish_some(rendered, Kind::ConfigurationToKeep)?
            }
        };
        if is_safe_to_be_old {
            files::write(&self.plant.place, to)?;
        }
        Ok((rendering, versions))
    }

    /// Fails if one of those concerned cannot have what is rendered for it from the directory.
    fn is_published(&self, rendering: &Rendering) -> Result<(), Failure> {
        let is_there = |difference: &Difference| matches!(difference, Difference::Same { .. });
        let rendered = to_publish(rendering, self.plant.to)?;
        let unpublished = self.plant.signing.differing_some(rendered, Kind::ConfigurationToKeep, is_there)?;
        Plant::has_first_step(&unpublished)
    }

    /// Exchanges the keys that it knew, and that others still have.
    fn renew(&self, is_at_once: bool) -> Result<(), Failure> {
        let (rendering, keys) = self.render()?;
        for file in self.revocation.keys_in_use(&rendering, &keys) {
            let members = rendering.gateways.values().filter(|one| one.key_files.contains_key(file)).count();
            // A gateway left alone speaks with nobody, a cell's master key ends at once, and of two CAKs that it knew none stays.
            let at_once = is_at_once
                || members < 2
                || keys.is_under_way(file)
                || config::key_file::read_cak(&keys.path_of(file)).is_err();
            let renewal = if at_once { Renewal::AtOnce } else { Renewal::Overlapping };
            keys.renew(file, renewal).map_err(|error| failed(&error))?;
            print(&format_args!("{file}: a new key, which {} does not get\n", self.name))?;
        }
        Ok(())
    }

    /// Ends the old CAKs.
    fn finish(&self) -> Result<(), Failure> {
        let keys = self.plant.place.keys();
        for file in self.revocation.under_way(&keys) {
            keys.finish(file).map_err(|error| failed(&error))?;
        }
        Ok(())
    }
}

impl Revoke {
    pub(crate) fn run(&self) -> Result<(), Failure> {
        privilege::keep_from_being_dumped().map_err(|error| failed(&error))?;
        let switches = [("--finish", self.finish), ("--now", self.now)];
        let objects = std::iter::once(self.name.to_string()).chain(given(&switches)).collect();
        self.options.signing.audited(REVOKE, objects, || self.revoke())
    }

    fn revoke(&self) -> Result<(), Failure> {
        let Self { name, finish, now, .. } = self;
        let plant = &self.options.plant(&self.inventory);
        let _lock = plant.place.lock()?;
        plant.signing.try_out(name)?;
        let inventory = plant.place.read()?;
        let known = inventory.revoked().get(name.as_str()).cloned();
        let step = match known {
            Some(revocation) => self.go_on(plant, inventory, revocation)?,
            None if *finish => {
                return Err(told(
                    &format_args!("{name} is not revoked; take the first step, without --finish"),
                    Failure::Usage,
                ));
            }
            None => self.begin(plant, &inventory)?,
        };
        plant.signing.revoke(name, &step.revocation)?;
        step.renew(*now)?;
        if *finish || *now {
            step.finish()?;
        }
        let (rendering, published) = step.publish()?;
        let keys = plant.place.keys();
        let under_way = step.revocation.under_way(&keys);
        let command = format!("until then {name} can speak. frameward fleet revoke {name}");
        if under_way.is_empty() || !plant.is_confirmed(&under_way, &rendering, &published, &command)? {
            return Ok(());
        }
        step.is_published(&rendering)?;
        step.finish()?;
        step.publish().map(drop)
    }

    /// Fails if something is not as the step before has left it.
    fn go_on<'p>(
        &'p self,
        plant: &'p Plant<'p>,
        inventory: Inventory,
        revocation: Revocation,
    ) -> Result<Step<'p>, Failure> {
        let Self { name, finish, .. } = self;
        let mut keys = plant.place.keys();
        let rendering = inventory.render(&mut keys).map_err(|findings| mistakes(&findings))?;
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
        let concerned = inventory.concerned(name.as_str(), &revocation, &rendering, &keys);
        let step = Step { plant, name, inventory, revocation, concerned };
        if *finish && is_under_way {
            step.is_published(&step.render()?.0)?;
        }
        Ok(step)
    }

    /// Writes down that it is revoked, and which keys it knew. Whatever is wrong with that is told before.
    fn begin<'p>(&'p self, plant: &'p Plant<'p>, inventory: &Inventory) -> Result<Step<'p>, Failure> {
        let Self { name, now, .. } = self;
        let usage = |why: &dyn std::fmt::Display| told(why, Failure::Usage);
        let mut keys = plant.place.keys();
        let rendering = inventory.render(&mut keys).map_err(|findings| mistakes(&findings))?;
        plant.is_rendered(&rendering, &keys, false)?;
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
        let concerned = revoking.inventory.concerned(name.as_str(), &revocation, &rendering, &keys);
        let others = to_publish(&only(rendering, &concerned), plant.to)?;
        plant.is_unchanged(&plant.signing.differing_some(
            others,
            Kind::Configuration,
            Difference::has_files,
        )?)?;
        let mut keys = plant.place.keys();
        let rendered = revoking.inventory.render_some(&mut keys, &concerned);
        rendered.map_err(|findings| mistakes(&findings))?;
        plant.begins(&[])?;
        revoking.write().map_err(|(path, error)| write_failed(&path, &error))?;
        Ok(Step { plant, name, inventory: revoking.inventory, revocation, concerned })
    }
}

/// A rendering of these gateways alone.
fn only(mut rendering: Rendering, gateways: &BTreeSet<String>) -> Rendering {
    rendering.gateways.retain(|name, _| gateways.contains(name));
    rendering
}

/// Gateways as they would be read from the rendering's folder.
fn to_publish(rendering: &Rendering, folder: &Path) -> Result<Vec<Rendered>, Failure> {
    let wrong = |error: RenderingError| told(&error, Failure::Usage);
    let gateways = rendering.gateways.iter().map(|(name, one)| {
        let own = folder.join(name);
        let mut files = Files::default();
        let configuration = (CONFIGURATION, one.text.as_bytes());
        let keys = one.key_files.iter().map(|(file, octets)| (file.as_str(), octets.as_slice()));
        for (file, octets) in keys.chain([configuration]) {
            let file = FileName::new(file).ok_or_else(|| wrong(RenderingError::FileName(own.join(file))))?;
            files
                .insert(file, Zeroizing::new(octets.to_vec()))
                .map_err(|source| wrong(RenderingError::Files { path: own.clone(), source }))?;
        }
        let name = GatewayName::new(name).ok_or_else(|| wrong(RenderingError::GatewayName(own)))?;
        let has_static_keys = one.config.links.iter().any(|link| link.static_sas().is_some());
        Ok(Rendered { name, files, has_static_keys })
    });
    gateways.collect()
}

fn write_failed(path: &Path, error: &std::io::Error) -> Failure {
    failed(&format_args!("cannot write {}: {error}; run the same command again", path.display()))
}
