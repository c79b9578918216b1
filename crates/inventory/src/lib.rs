//! The inventory of a fleet: from files in TOML that people keep in git to what each gateway gets.
//!
//! ```text
//! *.toml ── tree ──▶ tables with places ── sections, templates ──▶ Inventory
//!   Inventory + keys ── member, tunnel ──▶ tables of a gateway ── text ──▶ frameward.toml, judged by `config` ──▶ Rendering
//!   Rendering ── write ──▶ a folder with one folder for each gateway, or ── plan ──▶ what would be different, and what that interrupts
//! ```
//!
//! An option stands in the inventory under the name that it has in the configuration of a single box, so there is one reference for both.
//! Rendered configurations are judged by the code of `frameward check`; what it says of a rendered line is told of the line of the
//! inventory that made it. Keys are never in the inventory.

#![forbid(unsafe_code)]

mod gateway;
pub mod import;
mod judge;
mod keys;
mod layout;
mod member;
mod mistakes;
pub mod plan;
mod read;
mod rendered_text;
mod renewal;
mod revoked;
mod schedule;
mod sections;
mod templates;
mod tree;
mod tunnel;
mod write;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use config::{Config, Finding};
use zeroize::Zeroizing;

use gateway::Gateway;
pub use judge::read_rendered;
pub use keys::KeyFolder;
pub use layout::{Connection, Layout, Placed};
pub use renewal::{Renewal, RenewalError};
pub use revoked::{Revocation, Revoking};
pub use schedule::{CutOff, Rotation, Rotations, State};
pub use sections::Kind as ConnectionKind;
use sections::Shared;
pub use write::{WriteError, Written, rendered_gateways, write};

/// The configuration of a gateway in its folder of a rendering.
pub const CONFIGURATION: &str = "frameward.toml";
/// The folder of keys, unless another one is named: beside the files of the inventory.
pub const KEYS: &str = "keys";

/// A valid inventory, but for what only a rendering shows.
#[derive(Debug)]
pub struct Inventory {
    files: Vec<PathBuf>,
    gateways: BTreeMap<String, Gateway>,
    shared: Vec<Shared>,
    revoked: BTreeMap<String, Revocation>,
    /// Gateways that share a section with one that was revoked, by its name.
    companions: BTreeMap<String, BTreeSet<String>>,
}

impl Inventory {
    /// Names of its gateways, in their order.
    pub fn gateways(&self) -> impl Iterator<Item = &str> {
        self.gateways.keys().map(String::as_str)
    }
}

/// Configurations and keys of all gateways.
#[derive(Debug)]
pub struct Rendering {
    /// By their names.
    pub gateways: BTreeMap<String, Rendered>,
    /// Warnings of `check`, each with the line of the inventory.
    pub warnings: Vec<Finding>,
}

/// Configuration and keys of a gateway.
#[derive(Debug)]
pub struct Rendered {
    /// The plant that it stands in, if the inventory says so.
    pub site: Option<String>,
    /// Its configuration.
    pub text: String,
    /// The key files that the configuration names, by their paths in the gateway's folder.
    pub key_files: BTreeMap<String, Zeroizing<Vec<u8>>>,
    /// The configuration, as it was judged. Key files that only the box has, such as its site's identity, are stand-ins.
    pub config: Config,
}

#[cfg(test)]
mod tests;
