//! `frameward fleet`: many gateways from one place.

use std::path::PathBuf;

use clap::Subcommand;

use crate::Failure;

mod approve;
mod audit;
mod audited;
mod due;
mod enrol;
mod files;
mod gateway;
mod how;
mod keys;
mod metrics;
mod note;
mod operator;
mod revoke;
mod serve;
mod signing;
mod signing_key;
mod standing;
mod top;
mod watched;

#[derive(Subcommand)]
pub(crate) enum Fleet {
    /// Show what another rendering of the inventory would change, gateway by gateway, and what that interrupts
    #[command(after_help = "\
The command changes nothing. Keys that are missing are counted as new; `fleet render` makes them.
CAKs that are due by rotate_every are named, and those whose exchange has begun.

  + - ~     a gateway is added, removed or changed
  !         frames are lost that would have passed

Example:
  frameward fleet plan inventory --against rendering

Exit status: 0 nothing would change; 1 failed; 2 usage, or the inventory has mistakes; 4 something
would change.")]
    Plan {
        #[command(flatten)]
        inventory: files::Place,
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
        inventory: files::Place,
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
    /// Make an operator's signing key in a new file of mode 0600, and print the public key for the gateways
    #[command(after_help = operator::OPERATOR_HELP)]
    Operator(operator::MakeOperator),
    /// Print a gateway's public identity for the operator; make the identity if there is none
    #[command(after_help = gateway::IDENTITY_HELP)]
    Identity(gateway::ShowIdentity),
    /// Have this box ask to be taken into a fleet, and show its code; or with the operator's bundle, without one
    #[command(after_help = enrol::ENROL_HELP, override_usage = enrol::ENROL_USAGE)]
    Enrol(enrol::Enrol),
    /// Take a box into the fleet that asks for it, by the code that it shows or by its bundle
    #[command(after_help = approve::APPROVE_HELP, override_usage = approve::APPROVE_USAGE)]
    Approve(approve::Approve),
    /// Make a bundle for one box, which it uses once to be taken into the fleet by itself
    #[command(after_help = approve::BUNDLE_HELP, override_usage = approve::BUNDLE_USAGE)]
    Bundle(approve::MakeBundle),
    /// Sign and seal the configurations of gateways, and publish those that changed
    #[command(after_help = operator::APPLY_HELP, override_usage = operator::APPLY_USAGE)]
    Apply(operator::Apply),
    /// Show which version each gateway has confirmed, taken back or refused, and who is silent
    #[command(after_help = standing::STATUS_HELP, override_usage = standing::STATUS_USAGE)]
    Status(standing::Status),
    /// Show or verify the audit logs: who changed what in the fleet, and how it ended
    #[command(subcommand, arg_required_else_help = true, disable_help_subcommand = true)]
    Audit(audit::AuditLogs),
    /// Stay and show the fleet to browsers and programs: gateways, connections, plants, the last day, audit logs
    #[command(after_help = serve::SERVE_HELP, override_usage = serve::SERVE_USAGE)]
    Serve(serve::Serve),
    /// Show the fleet on this terminal, as it changes
    #[command(after_help = top::TOP_HELP, override_usage = top::TOP_USAGE)]
    Top(top::Top),
    /// Write a note into the audit log: what somebody saw or decided
    #[command(after_help = note::NOTE_HELP)]
    Note(note::Note),
    /// Make a token of somebody who may look at what fleet serve shows
    #[command(after_help = serve::TOKEN_HELP)]
    Token(serve::MakeToken),
    /// Write which gateways serve metrics, for Prometheus' file_sd_configs
    #[command(after_help = metrics::TARGETS_HELP)]
    Targets(metrics::Targets),
    /// Give a link, group or tunnel a new CAK, in two steps that lose no frame
    #[command(after_help = keys::ROTATE_HELP, override_usage = keys::ROTATE_USAGE)]
    Rotate(keys::Rotate),
    /// Have nobody speak with a gateway any more: new keys for all that it was in
    #[command(after_help = revoke::REVOKE_HELP, override_usage = revoke::REVOKE_USAGE)]
    Revoke(revoke::Revoke),
    /// Fetch this gateway's configuration: verify it, open it, write it into a folder
    #[command(after_help = gateway::FETCH_HELP, override_usage = gateway::FETCH_USAGE)]
    Fetch(gateway::Fetch),
    /// Stay and fetch whatever is published; have the gateway reload; take back what makes links fall
    #[command(after_help = gateway::FOLLOW_HELP, override_usage = gateway::FOLLOW_USAGE)]
    Follow(gateway::Follow),
}

impl Fleet {
    pub(crate) fn run(&self) -> Result<(), Failure> {
        match self {
            Self::Plan { inventory, against } => files::plan(inventory, against),
            Self::Render { inventory, to } => files::render(inventory, to),
            Self::Import { folder, to } => files::import(folder, to),
            Self::Operator(operator) => operator.run(),
            Self::Identity(identity) => identity.run(),
            Self::Enrol(enrol) => enrol.run(),
            Self::Approve(approve) => approve.run(),
            Self::Bundle(bundle) => bundle.run(),
            Self::Apply(apply) => apply.run(),
            Self::Status(status) => status.run(),
            Self::Audit(logs) => logs.run(),
            Self::Serve(serve) => serve.run(),
            Self::Top(top) => top.run(),
            Self::Note(note) => note.run(),
            Self::Token(token) => token.run(),
            Self::Targets(targets) => targets.run(),
            Self::Rotate(rotate) => rotate.run(),
            Self::Revoke(revoke) => revoke.run(),
            Self::Fetch(fetch) => fetch.run(),
            Self::Follow(follow) => follow.run(),
        }
    }
}

/// A name that a command and a line of a file can have.
fn word(text: &str) -> Result<String, &'static str> {
    let is_word = config::is_name(text);
    is_word.then(|| text.to_owned()).ok_or("use 1 to 32 of a-z, 0-9, _ and -, a letter or digit first")
}

/// Seconds since 1970 by this machine's clock.
fn unix_seconds() -> u64 {
    let now = std::time::SystemTime::now();
    now.duration_since(std::time::SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs())
}
