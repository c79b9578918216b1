//! `frameward fleet`: its arguments, and what they do.

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use frameward::privilege;
use inventory::import::{self, ImportError};
use inventory::plan::FleetPlan;
use inventory::{Inventory, KeyFolder, Rendering, Written};

use crate::{Failure, print, tell_all, told};

#[derive(Subcommand)]
pub(crate) enum Fleet {
    /// Show what another rendering of the inventory would change, gateway by gateway, and what that interrupts
    #[command(after_help = "\
The command changes nothing. Keys that are missing are counted as new; `fleet render` makes them.

  + - ~     a gateway is added, removed or changed
  !         frames are lost that would have passed

Example:
  frameward fleet plan inventory --against rendering

Exit status: 0 nothing would change; 1 failed; 2 usage, or the inventory has mistakes; 4 something
would change.")]
    Plan {
        #[command(flatten)]
        inventory: Place,
        /// The rendering that the gateways have; if it is missing, all of them are new
        #[arg(long, value_name = "FOLDER")]
        against: PathBuf,
    },
    /// Write what each gateway gets: a folder for each, with its configuration and key files
    #[command(after_help = "\
The folder takes the place of the rendering before at once, or nothing changes. The same inventory
gives the same octets. CAKs and master keys that are missing are made in the folder of keys.

Each configuration is checked as `frameward check` does. What is wrong is told with file and line
of the inventory.

Example:
  frameward fleet render inventory --to rendering")]
    Render {
        #[command(flatten)]
        inventory: Place,
        /// The rendering
        #[arg(long, value_name = "FOLDER")]
        to: PathBuf,
    },
    /// Make an inventory of hand-written configurations
    #[command(after_help = "\
FOLDER has a folder for each gateway, with its configuration and key files, such as a copy of
/etc/frameward of each box. The inventory says the same as they do. Sections that it cannot put
together stay as they are, and are named.

Example:
  frameward fleet import boxes --to inventory")]
    Import {
        /// The configurations
        folder: PathBuf,
        /// The new folder of the inventory
        #[arg(long, value_name = "INVENTORY")]
        to: PathBuf,
    },
}

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

impl Fleet {
    pub(crate) fn run(self) -> Result<(), Failure> {
        privilege::keep_from_being_dumped().map_err(|error| told(&error, Failure::Failed))?;
        match self {
            Self::Plan { inventory, against } => plan(&inventory, &against),
            Self::Render { inventory, to } => render(&inventory, &to),
            Self::Import { folder, to } => import(&folder, &to),
        }
    }
}

fn plan(place: &Place, against: &Path) -> Result<(), Failure> {
    let (rendering, keys) = place.render()?;
    let plan = FleetPlan::new(&rendering, against, &keys.drawn_fingerprints());
    let plan = plan.map_err(|error| told(&error, Failure::Failed))?;
    for key in keys.missing() {
        print(&format_args!("+ key {}\n", key.display()))?;
    }
    print(&plan)?;
    if plan.is_empty() && keys.missing().next().is_none() { Ok(()) } else { Err(Failure::Changes) }
}

fn render(place: &Place, to: &Path) -> Result<(), Failure> {
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

fn import(from: &Path, to: &Path) -> Result<(), Failure> {
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
