//! `fleet top`: the fleet on a terminal.

use std::sync::Arc;

use clap::Args;
use frameward::cockpit::logs::{Audit, Heads};
use frameward::cockpit::{Following, Surface};
use frameward::fleet_top::{self, TopError};

use super::watched::Watched;
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
no terminal; 3 there is no such directory.";

/// Usage in lines of at most 100 columns: clap does not split it.
pub(crate) const TOP_USAGE: &str = "\
frameward fleet top --directory <DIRECTORY> --operator <HEX> --identities <FOLDER>
                           <INVENTORY>";

#[derive(Args)]
pub(crate) struct Top {
    #[command(flatten)]
    watched: Watched,
}

impl Top {
    pub(crate) fn run(&self) -> Result<(), Failure> {
        fleet_top::needs_terminal().map_err(|error| told(&error, Failure::Usage))?;
        let layout = self.watched.layout()?;
        self.watched.is_there()?;
        let sources = self.watched.sources();
        // The logs are not shown here.
        let (place, fleet) = (sources.identities.clone(), sources.fleet);
        let surface = Arc::new(Surface::new(layout, move || Audit::new(&place, Ok(Heads::new()), fleet)));
        let failed = |error: TopError| told(&error, Failure::Failed);
        let _following =
            Following::start(sources, Arc::clone(&surface)).map_err(|error| failed(error.into()))?;
        fleet_top::top(&surface).map_err(failed)
    }
}
