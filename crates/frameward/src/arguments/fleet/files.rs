//! `frameward fleet plan`, `render` and `import`: an inventory and the files of its gateways.

use std::fs::File;
use std::path::{Path, PathBuf};

use clap::Args;
use frameward::privilege;
use inventory::import::{self, ImportError};
use inventory::plan::FleetPlan;
use inventory::{Inventory, KeyFolder, Rendering, Written};

use super::due;
use crate::{Failure, print, tell_all, told};

/// Folders of the inventory and its keys.
#[derive(Args)]
pub(crate) struct Place {
    /// The folder of the inventory's files (TOML)
    #[arg(value_name = "INVENTORY")]
    path: PathBuf,
    /// The folder of keys, which is not for git [default: INVENTORY/keys]
    #[arg(long, value_name = "FOLDER")]
    keys: Option<PathBuf>,
}

impl Place {
    /// An inventory, and the folder of its keys.
    pub(super) const fn new(path: PathBuf, keys: Option<PathBuf>) -> Self {
        Self { path, keys }
    }

    /// Returns the folder of the inventory.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// The folder of keys.
    pub(super) fn keys(&self) -> KeyFolder {
        let beside = if self.path.is_dir() { Some(self.path.as_path()) } else { self.path.parent() };
        KeyFolder::new(
            self.keys.clone().unwrap_or_else(|| beside.unwrap_or(Path::new("")).join(inventory::KEYS)),
        )
    }

    /// Keeps other commands away from the keys, as long as the answer lives.
    pub(super) fn lock(&self) -> Result<File, Failure> {
        let keys = self.keys().path_of("");
        let place = if keys.is_dir() { &keys } else { self.path() };
        let failed =
            |why: &dyn std::fmt::Display| told(&format_args!("{}: {why}", place.display()), Failure::Failed);
        let file = File::open(place).map_err(|error| failed(&error))?;
        file.try_lock().map_err(|_| {
            failed(&"another frameward fleet command is at work there; run this one again when it is done")
        })?;
        Ok(file)
    }

    pub(super) fn read(&self) -> Result<Inventory, Failure> {
        Inventory::read(&self.path).map_err(|findings| mistakes(&findings))
    }

    /// Renders it in memory.
    pub(super) fn render(&self) -> Result<(Rendering, KeyFolder), Failure> {
        let inventory = self.read()?;
        let mut keys = self.keys();
        let rendering = inventory.render(&mut keys).map_err(|findings| mistakes(&findings))?;
        tell_all("warning: ", &rendering.warnings);
        Ok((rendering, keys))
    }
}

/// Tells what is wrong with an inventory.
pub(super) fn mistakes(findings: &[config::Finding]) -> Failure {
    tell_all("", findings);
    Failure::Usage
}

pub(super) fn plan(place: &Place, against: &Path) -> Result<(), Failure> {
    privilege::keep_from_being_dumped().map_err(|error| told(&error, Failure::Failed))?;
    let (rendering, keys) = place.render()?;
    let plan = FleetPlan::new(&rendering, against, &keys.drawn_fingerprints());
    let plan = plan.map_err(|error| told(&error, Failure::Failed))?;
    for key in keys.missing() {
        print(&format_args!("+ key {}\n", key.display()))?;
    }
    print(&plan)?;
    due::tell_due(&place.read()?, &keys)?;
    if plan.is_empty() && keys.missing().next().is_none() { Ok(()) } else { Err(Failure::Changes) }
}

pub(super) fn render(place: &Place, to: &Path) -> Result<(), Failure> {
    privilege::keep_from_being_dumped().map_err(|error| told(&error, Failure::Failed))?;
    let _lock = place.path().exists().then(|| place.lock()).transpose()?;
    goes_not_along(place, to)?;
    write(place, to)
}

/// Fails if something else than keys would be rendered while a rotation of what is due is cut off: it goes on with the rendering, and
/// publishes what nobody has applied.
fn goes_not_along(place: &Place, to: &Path) -> Result<(), Failure> {
    let cut_off = place.keys().cut_off_file();
    if !cut_off.exists() {
        return Ok(());
    }
    let (rendering, keys) = place.render()?;
    let plan = FleetPlan::new(&rendering, to, &keys.drawn_fingerprints());
    let plan = plan.map_err(|error| told(&error, Failure::Failed))?;
    if plan.is_empty() || plan.is_of_keys() {
        return Ok(());
    }
    let line = format_args!(
        "a rotation of what is due was cut off, and would publish these changes unseen; finish it with the inventory as it was: frameward fleet rotate --due; or remove {}, and apply what is rendered",
        cut_off.display()
    );
    Err(told(&line, Failure::Failed))
}

/// Renders for who has the lock.
pub(super) fn write(place: &Place, to: &Path) -> Result<(), Failure> {
    let inventory = place.read()?;
    let mut keys = place.keys();
    let rendering = inventory.render(&mut keys).map_err(|findings| mistakes(&findings))?;
    tell_all("warning: ", &rendering.warnings);
    refuse_known_keys(&inventory, &rendering, &keys)?;
    inventory::rendered_gateways(to).map_err(|error| told(&error, Failure::Failed))?;
    for key in keys.make().map_err(|error| told(&error, Failure::Failed))? {
        print(&format_args!("made {}: a SECRET\n", key.display()))?;
    }
    let written = inventory::write(&rendering, to).map_err(|error| told(&error, Failure::Failed))?;
    let count = rendering.gateways.len();
    print(&match written {
        Written::Changed => format!("{}: {count} gateways rendered\n", to.display()),
        Written::Unchanged => format!("{}: {count} gateways, all as they were\n", to.display()),
    })
}

/// Fails if somebody would get a key that a revoked gateway knows.
pub(super) fn refuse_known_keys(
    inventory: &Inventory,
    rendering: &Rendering,
    keys: &KeyFolder,
) -> Result<(), Failure> {
    for (name, revocation) in inventory.revoked() {
        if let Some(file) = revocation.keys_in_use(rendering, keys).first() {
            let line = format_args!(
                "{name} was revoked, and knows {file}, which others have still; run the command again that was interrupted: frameward fleet revoke {name}"
            );
            return Err(told(&line, Failure::Failed));
        }
        if let Some(file) = revocation.copies(rendering, keys).first() {
            let line = format!(
                "{name} was revoked, and knows the key in {}; put another one there, for all that have it",
                keys.path_of(file).display()
            );
            return Err(told(&line, Failure::Failed));
        }
    }
    Ok(())
}

pub(super) fn import(from: &Path, to: &Path) -> Result<(), Failure> {
    privilege::keep_from_being_dumped().map_err(|error| told(&error, Failure::Failed))?;
    let imported = import::import(from, to).map_err(|error| match &error {
        ImportError::Refused(findings) => {
            tell_all("", findings);
            Failure::Usage
        }
        _ => told(&error, Failure::Failed),
    })?;
    for line in &imported.as_they_are {
        print(&format_args!("{line}\n"))?;
    }
    print(&format_args!("{}: an inventory of {} gateways\n", to.display(), imported.gateways))
}
