//! `frameward fleet plan`, `render` and `import`: an inventory and the files of its gateways.

use std::path::{Path, PathBuf};

use clap::Args;
use frameward::privilege;
use inventory::import::{self, ImportError};
use inventory::plan::FleetPlan;
use inventory::{Inventory, KeyFolder, Rendering, Written};

use crate::{Failure, print, tell_all, told};

/// Where the inventory and its keys are.
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
    /// Renders it in memory.
    fn render(&self) -> Result<(Rendering, KeyFolder), Failure> {
        let beside = if self.path.is_dir() { Some(self.path.as_path()) } else { self.path.parent() };
        let folder =
            self.keys.clone().unwrap_or_else(|| beside.unwrap_or(Path::new("")).join(inventory::KEYS));
        let mut keys = KeyFolder::new(folder);
        let rendered = Inventory::read(&self.path).and_then(|inventory| inventory.render(&mut keys));
        let rendering = rendered.map_err(|findings| {
            tell_all("", &findings);
            Failure::Usage
        })?;
        tell_all("warning: ", &rendering.warnings);
        Ok((rendering, keys))
    }
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
    if plan.is_empty() && keys.missing().next().is_none() { Ok(()) } else { Err(Failure::Changes) }
}

pub(super) fn render(place: &Place, to: &Path) -> Result<(), Failure> {
    privilege::keep_from_being_dumped().map_err(|error| told(&error, Failure::Failed))?;
    let (rendering, mut keys) = place.render()?;
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
