//! `fleet top`: the fleet on a terminal.

use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use fleet::directory::Address;
use frameward::cockpit::logs::{Audit, Heads};
use frameward::cockpit::{Following, Sources, Surface};
use frameward::fleet_top::{self, TopError};
use inventory::Inventory;
use suite::identity::PublicKey;

use super::files::mistakes;
use super::gateway::public_key;
use crate::{Failure, told};

pub(crate) const TOP_HELP: &str = "\
What `fleet serve` shows to browsers, on this terminal: the verdict on the fleet, a table of its
gateways, and what is known of the chosen one. It follows the directory, and writes nothing.

  arrows, page up and down   choose a gateway
  Enter                      opens what is known of it, or closes that
  /                          searches names, plants, states and causes; Esc forgets the search
  f                          shows those that need somebody, or all
  s, r                       sorts by the next column; turns the order
  q, Esc                     quits; closes what is open, then forgets search and filter

Example:
  frameward fleet top inventory --operator 1b9f...c7 --identities identities \\
      --directory etcd://10.0.0.1

Exit status: 0 done; 1 the terminal cannot be used; 2 usage, the inventory has mistakes, or there is
no terminal.";

/// Usage in lines of at most 100 columns: clap does not split it.
pub(crate) const TOP_USAGE: &str = "\
frameward fleet top --directory <DIRECTORY> --operator <HEX> --identities <FOLDER>
                           <INVENTORY>";

#[derive(Args)]
pub(crate) struct Top {
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

impl Top {
    pub(crate) fn run(&self) -> Result<(), Failure> {
        fleet_top::needs_terminal().map_err(|error| told(&error, Failure::Usage))?;
        let layout = Inventory::read(&self.inventory).map_err(|findings| mistakes(&findings))?.layout();
        let Self { inventory, directory, operator, identities } = self;
        if !identities.is_dir() {
            let place = identities.display();
            let line = format_args!(
                "{place}: is no folder; name the folder in which frameward fleet approve put NAME.identity"
            );
            return Err(told(&line, Failure::Usage));
        }
        // The logs are not shown here.
        let (place, fleet) = (identities.clone(), *operator);
        let surface = Arc::new(Surface::new(layout, move || Audit::new(&place, Ok(Heads::new()), fleet)));
        let sources = Sources {
            fleet,
            directory: directory.clone(),
            identities: identities.clone(),
            inventory: inventory.clone(),
        };
        let failed = |error: TopError| told(&error, Failure::Failed);
        let _following =
            Following::start(sources, Arc::clone(&surface)).map_err(|error| failed(error.into()))?;
        fleet_top::top(&surface).map_err(failed)
    }
}
