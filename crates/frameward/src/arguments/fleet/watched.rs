//! Arguments of the commands that follow a fleet: `fleet serve` and `fleet top`.

use std::path::PathBuf;

use clap::Args;
use fleet::directory::Address;
use frameward::cockpit::Sources;
use inventory::{Inventory, Layout};
use suite::identity::PublicKey;

use super::files::mistakes;
use super::gateway::public_key;
use crate::{Failure, told};

/// Files and directory of a fleet that is followed.
#[derive(Args)]
pub(crate) struct Watched {
    /// The folder of the inventory's files (TOML)
    #[arg(value_name = "INVENTORY")]
    inventory: PathBuf,
    /// Where the fleet is published: a file, etcd://HOST:PORT,... or etcds://HOST:PORT,...?ca=FILE
    #[arg(long)]
    directory: Address,
    /// The operator's public key
    #[arg(long, value_name = "HEX", value_parser = public_key)]
    operator: PublicKey,
    /// The folder with the gateways' public identities
    #[arg(long, value_name = "FOLDER")]
    identities: PathBuf,
}

impl Watched {
    /// The inventory's layout; fails if its files or the folder of identities cannot be used.
    pub(super) fn layout(&self) -> Result<Layout, Failure> {
        let layout = Inventory::read(&self.inventory).map_err(|findings| mistakes(&findings))?.layout();
        if !self.identities.is_dir() {
            let place = self.identities.display();
            let line = format_args!(
                "{place}: is no folder; name the folder in which frameward fleet approve put NAME.identity"
            );
            return Err(told(&line, Failure::Usage));
        }
        Ok(layout)
    }

    /// Fails if the directory is a file that is not there. A server may come later.
    pub(super) fn is_there(&self) -> Result<(), Failure> {
        self.directory.is_there().map_err(|error| told(&error, Failure::Undecided))
    }

    pub(super) fn sources(&self) -> Sources {
        Sources {
            fleet: self.operator,
            directory: self.directory.clone(),
            identities: self.identities.clone(),
            inventory: self.inventory.clone(),
        }
    }
}
