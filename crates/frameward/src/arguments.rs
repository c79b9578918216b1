//! The command line. Commands with many arguments have a module of their own, with the code that runs them.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use frameward::privilege;

use crate::{Failure, told};

pub(crate) mod cell;
pub(crate) mod doctor;
pub(crate) mod fleet;
pub(crate) mod init;
pub(crate) mod inspect;
pub(crate) mod keygen;
pub(crate) mod plan;

#[derive(Parser)]
#[command(name = "frameward", version, about, after_help = AFTER_HELP, arg_required_else_help = true, max_term_width = 100, disable_help_subcommand = true)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Command,
}

const AFTER_HELP: &str = "\
Examples:
  frameward init link --plain enp1s0 --protected enp2s0 --name press-line
  frameward check /etc/frameward/press-line.toml
  frameward run /etc/frameward/press-line.toml
  frameward status press-line
  frameward inspect press.pcapng --keys /etc/frameward/press-line.toml --bad

Exit status: 0 done, 1 failed, 2 usage or configuration.";

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Run the gateway in the foreground until SIGTERM or SIGINT
    #[command(after_help = "\
Requires CAP_NET_ADMIN, CAP_NET_RAW and CAP_BPF; CAP_NET_BIND_SERVICE for ports below 1024;
CAP_PERFMON at the start, for cells in the kernel. Started as root, it keeps the first four,
CAP_IPC_LOCK and CAP_SYS_NICE. It gives up all others and becomes user frameward before it reads the
configuration. So that user must be able to read configuration, keys and state directory.

It logs to standard error, one line for each event. When it stops, it restores the interfaces. The
next start restores what a killed gateway left changed.

Example:
  frameward run /etc/frameward/press-line.toml")]
    Run {
        /// If started as root, become this user (name or number) instead of frameward
        #[arg(long, value_name = "NAME")]
        user: Option<String>,
        /// Keep the user who started it, even root: an attacker who takes over the process then owns every file of the box
        #[arg(long, conflicts_with = "user")]
        keep_user: bool,
        /// The configuration file (TOML)
        config: PathBuf,
    },
    /// Validate a configuration and print the plan: interfaces, MTUs, overheads, largest payload
    #[command(after_help = "\
Errors and warnings go to standard error, one line each: file:line: what is wrong; what to do. The
plan goes to standard output. For each peer of a site it shows the largest LAN frame that the path
carries. Key files are read. --verbose measures the cipher suites on this CPU, which takes less
than a tenth of a second.

Examples:
  frameward check press-line.toml
  frameward check --offline press-line.toml     (on a machine without the interfaces)")]
    Check {
        /// Do not look at this machine's interfaces
        #[arg(long)]
        offline: bool,
        /// Also measure the cipher suites on this CPU: their speed, a faster choice, and whether antedating pays; and what the
        /// counters mean that a verdict names
        #[arg(long, conflicts_with = "offline")]
        verbose: bool,
        /// The configuration file (TOML)
        config: PathBuf,
    },
    /// Show the state of a running gateway: links, sites, ports, SecYs, SCs, SAs, peers and their counters
    #[command(after_help = "\
NAME is a gateway, its unit (frameward@NAME), its configuration file, or one of its links, sites or
fieldbuses. A link, site or fieldbus is shown alone. If several things have the name, a gateway
comes before a file, and a file before a link. If nothing has the name, the command lists what
runs. It looks for sockets in /run/frameward, or in the directory that FRAMEWARD_RUNTIME_DIR names.
Root, the gateway's own user and the members of group frameward-status may ask.

Examples:
  frameward status                     (the only running gateway)
  frameward status press               (the gateway, link, site or fieldbus of that name)
  frameward status --all press-line    (with counters that are 0)
  frameward status --json press-line
  frameward status --watch press-line
  frameward status --clear press-line  (counters of the whole gateway; its metrics go on)")]
    Status {
        /// Print the report as JSON
        #[arg(long)]
        json: bool,
        /// Show rates, discards, SAs and peers every second until q is pressed; on a pipe, one line for each link or site
        #[arg(long, conflicts_with_all = ["json", "all"])]
        watch: bool,
        /// Also show counters that are 0 (JSON always has them)
        #[arg(long)]
        all: bool,
        /// Also show what the start measured: the speed of the cipher suites, a faster choice, and whether antedating pays
        #[arg(long, conflicts_with_all = ["json", "watch"])]
        verbose: bool,
        /// Count from 0 in status from now on (metrics go on); requires root or the gateway's own user
        #[arg(long, conflicts_with_all = ["json", "watch", "all", "verbose"])]
        clear: bool,
        /// A gateway, link, site, fieldbus or configuration; optional if only one gateway is running
        name: Option<String>,
    },
    /// Check this box and the path to the other one before the first start; each problem comes with its cure
    #[command(after_help = doctor::AFTER_HELP)]
    Doctor(doctor::Doctor),
    /// Analyse a capture: decode, verify, decrypt and reassemble its frames, and explain each bad one
    #[command(after_help = inspect::AFTER_HELP)]
    Inspect(inspect::Inspect),
    /// Reload the configuration and keys of a running gateway without losing a frame, and print the changes
    #[command(after_help = "\
Requires root or the gateway's own user. SIGHUP does the same, without an answer.

  changed                            a reload
  nothing                            leaves a link or site untouched
  keys and settings of a link        changes them between two frames
  interfaces, io or mtu of a link    restarts that link alone
  anything of a site                 restarts that site alone
  a new or removed link or site      adds or removes it
  io, http, log and unguarded        changes them
  anything else in [gateway]         refuses: restart the gateway

If anything is wrong, nothing changes. The command prints each key that differs, with its old and
new value. It shows keys in files as fingerprints.

To change a static key without losing a frame:
  1. Give the new key an AN of its own.
  2. Add it to the peers of the other end, and reload there.
  3. Name it in [link.static] here, and reload.
  4. Remove the old key at the other end, and reload there.

Examples:
  frameward reload --dry-run press-line    (prints the same, and changes nothing)
  frameward reload press-line")]
    Reload {
        /// Print what a reload would change, or what is wrong, and change nothing
        #[arg(long)]
        dry_run: bool,
        /// The gateway, by any name that status takes; optional if only one is running
        name: Option<String>,
    },
    /// Replace the SAK of a link with [link.mka], or the session keys of a fieldbus, without losing a frame
    #[command(after_help = "\
Requires root or the gateway's own user. If this box is the key server, it makes the key at once.
If not, it asks the key server, as the standard provides. The old key stays in use until all peers
have the new one. The command prints the name of the new SAK.

All relations of a fieldbus agree on new sessions with the other gateway. The master key stays: to
exchange it, see fallback_master_key_file in the book's page on cells.

Examples:
  frameward rekey press
  frameward rekey press-line press
  frameward rekey press-line cell-4    (a fieldbus)")]
    Rekey {
        /// The gateway, the link or the fieldbus
        name: String,
        /// The link or fieldbus; optional if NAME is one, or the gateway has only one
        link: Option<String>,
    },
    /// Have a running gateway become the program that is installed now, without losing a frame
    #[command(after_help = "\
Requires root or the gateway's own user. The new program first reads the configuration and says
whether it can go on. If it cannot, or anything else is wrong, nothing changes. Frames wait in the
sockets meanwhile, and packet numbers, replay windows and counters go on.

The peers notice nothing: keys that were agreed on stay, and so does this member of the group.

Sites, links that hold frames back, and links that demand the kernel are refused: restart those
gateways.

Example:
  frameward upgrade press-line")]
    Upgrade {
        /// Ask again for so many seconds if something is under way that ends by itself, such as the trial of a version
        #[arg(long, value_name = "SECONDS", default_value_t = 0)]
        wait: u32,
        /// The gateway, by any name that status takes; optional if only one is running
        name: Option<String>,
    },
    /// Judge what a running gateway would pass on to this program; it asks for it itself
    #[command(hide = true)]
    GoOn {
        /// The configuration file (TOML)
        config: PathBuf,
    },
    /// Have the other box of a site's LAN forward, for maintenance of this one
    #[command(after_help = "\
Requires root or the gateway's own user. For a site with [site.standby], whose other box is ready to
take over. Frames from one station to another are neither lost nor delivered twice. A frame that a
station sends to a group at that very moment may be lost.

Examples:
  frameward hand-over dresden
  frameward hand-over press-line dresden")]
    HandOver {
        /// The gateway or the site
        name: String,
        /// The site; optional if NAME is a site, or only one shares its LAN
        site: Option<String>,
    },
    /// Check whether this CPU can protect cyclic frames in time: relations, the time limit of a frame, and the measured time
    #[command(after_help = plan::AFTER_HELP)]
    Plan(plan::Plan),
    /// Learn the relations of a cell from the frames of a network
    #[command(subcommand, arg_required_else_help = true, disable_help_subcommand = true)]
    Cell(cell::Cell),
    /// Print the reference of the configuration: a JSON Schema for editors, a manual page or a page of the book
    #[command(after_help = "\
The schema is of draft 4, as Taplo and Even Better TOML read it. Save it beside the
configurations, and name it in the first line of each: #:schema ./frameward.schema.json

Examples:
  frameward schema >frameward.schema.json
  frameward schema --format man | man -l -")]
    Schema {
        /// The format
        #[arg(long, value_enum, default_value = "json")]
        format: ReferenceFormat,
    },
    /// Print the help of a command
    #[command(after_help = "\
Examples:
  frameward help
  frameward help inspect
  frameward help init link")]
    Help {
        /// The command, and its subcommand if it has any
        command: Vec<String>,
    },
    /// Print the release
    Version,
    /// Print completions for a shell (the package installs them)
    #[command(after_help = "\
Example:
  frameward completions bash > ~/.local/share/bash-completion/completions/frameward")]
    Completions {
        /// The shell
        shell: Shell,
    },
    /// Write manual pages and shell completions into a directory, for packages
    #[command(hide = true)]
    Manual {
        /// The directory; it must exist
        directory: PathBuf,
    },
    /// Make the configuration and keys of a first link, cell or site, and the bundle for the other box
    #[command(subcommand, arg_required_else_help = true, disable_help_subcommand = true)]
    Init(init::Init),
    /// Keep many gateways as one inventory, and bring each its configuration through a directory that nobody has to trust
    #[command(subcommand, arg_required_else_help = true, disable_help_subcommand = true)]
    Fleet(fleet::Fleet),
    /// Make keys
    #[command(subcommand, arg_required_else_help = true, disable_help_subcommand = true)]
    Keygen(keygen::Keygen),
}

/// Whose new files of a gateway are.
#[derive(Args)]
pub(crate) struct Owner {
    /// The owner of the files [default: user frameward, if it exists and root runs this]
    #[arg(long, value_name = "NAME")]
    user: Option<String>,
}

impl Owner {
    /// User and group; none: whoever writes the files.
    pub(crate) fn numbers(&self) -> Result<Option<(u32, u32)>, Failure> {
        privilege::files_owner(self.user.as_deref()).map_err(|error| told(&error, Failure::Failed))
    }
}

#[derive(Clone, Copy, ValueEnum)]
pub(crate) enum ReferenceFormat {
    /// A JSON Schema
    Json,
    /// frameward.toml(5)
    Man,
    /// A page of the book
    Markdown,
}
