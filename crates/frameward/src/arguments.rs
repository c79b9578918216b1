//! What can be typed. Commands whose arguments are a page of their own stand in rooms of their own, with what they do.

use std::path::PathBuf;

use clap::{Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use frameward::keygen::KeyLength;
use wire::Ckn;

pub(crate) mod doctor;
pub(crate) mod init;
pub(crate) mod inspect;
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
Needs CAP_NET_ADMIN, CAP_NET_RAW and CAP_BPF; CAP_PERFMON at the start, for cells in the kernel.
Started as root it keeps the first three, CAP_IPC_LOCK and CAP_SYS_NICE, gives up all others and becomes user frameward, before the configuration is read:
configuration, keys and state directory have to be that user's to read. Says on standard error
what it does, one line each. When it stops, the interfaces are as they were; what a killed gateway
left is put right at the next start.

Example:
  frameward run /etc/frameward/press-line.toml")]
    Run {
        /// Started as root, become this user, by name or number, instead of frameward
        #[arg(long, value_name = "NAME")]
        user: Option<String>,
        /// Stay who started it, root as well: who takes the process over then owns every file of the box
        #[arg(long, conflicts_with = "user")]
        keep_user: bool,
        /// The configuration file (TOML)
        config: PathBuf,
    },
    /// Validate a configuration and print the plan: interfaces, MTUs, overheads, largest payload
    #[command(after_help = "\
Errors and warnings go to standard error, one line each: file:line: what is wrong; what to do. The
plan goes to standard output; for each peer of a site, how large a frame of the LAN its path
carries. Key files are read. With --verbose it measures how fast the cipher suites are on this CPU,
which takes less than a tenth of a second.

Examples:
  frameward check press-line.toml
  frameward check --offline press-line.toml     (on a machine without the interfaces)")]
    Check {
        /// Do not look at this machine's interfaces
        #[arg(long)]
        offline: bool,
        /// Say also how fast the cipher suites are on this CPU, which would be faster, and whether it pays to antedate
        #[arg(long, conflicts_with = "offline")]
        verbose: bool,
        /// The configuration file (TOML)
        config: PathBuf,
    },
    /// Show the state of a running gateway: links, sites, ports, SecYs, SCs, SAs, peers and their counters
    #[command(after_help = "\
NAME is a gateway, its unit (frameward@NAME), its configuration file, or one of its links, sites or
fieldbuses, which is then shown alone. A gateway goes before a file, a file before a link. If
nothing has the name, the command says what runs. Sockets are searched in /run/frameward, or in the
directory that FRAMEWARD_RUNTIME_DIR names. Root, the gateway's own user and the members of group
frameward-status may ask.

Examples:
  frameward status                     (the only running gateway)
  frameward status press               (whatever of that name runs here)
  frameward status --all press-line    (also counters that are 0)
  frameward status --json press-line
  frameward status --watch press-line
  frameward status --clear press-line  (counters of the whole gateway; its metrics go on)")]
    Status {
        /// Print the report as JSON
        #[arg(long)]
        json: bool,
        /// Show rates, discards, SAs and peers, again every second, until q is pressed; on a pipe, a line for each link or site
        #[arg(long, conflicts_with_all = ["json", "all"])]
        watch: bool,
        /// Show also counters that are 0 (JSON always has them)
        #[arg(long)]
        all: bool,
        /// Say also what was measured at the start: how fast the cipher suites are, which would be faster, whether it pays to antedate
        #[arg(long, conflicts_with_all = ["json", "watch"])]
        verbose: bool,
        /// Have the gateway show its counters from here on; needs to be root, or the gateway's own user
        #[arg(long, conflicts_with_all = ["json", "watch", "all", "verbose"])]
        clear: bool,
        /// A gateway, a link, a site, a fieldbus or a configuration; may be left out if only one gateway is running
        name: Option<String>,
    },
    /// Find out what is wrong with this box and with the path to the other one, and what cures it
    #[command(after_help = doctor::AFTER_HELP)]
    Doctor(doctor::Doctor),
    /// Say what a capture holds: decode, verify, decrypt, reassemble; and why a frame of it is bad
    #[command(after_help = inspect::AFTER_HELP)]
    Inspect(inspect::Inspect),
    /// Have a running gateway read its configuration and keys again, without losing a frame; says how it went
    #[command(after_help = "\
Links and sites that stay as they are go on untouched. Keys and settings change between two
frames; a link whose interfaces, io or mtu change is restarted alone, and so is a site that
changes at all; links and sites are added and removed; of [gateway], io, http, log and unguarded
change, and all else needs a restart. If anything is wrong nothing is changed. Prints each key that is
different, with its old and its new value; keys in files as fingerprints. The same as SIGHUP, with
an answer. Needs to be root, or the gateway's own user.

To change a key and lose no frame: give it an AN of its own; first add it to the peers of the
other end, and reload there; then name it in [link.static] here, and reload; then remove the old
key there, and reload.

Examples:
  frameward reload --dry-run press-line    (says the same, and changes nothing)
  frameward reload press-line")]
    Reload {
        /// Say what a reload would change, or what is wrong, and change nothing
        #[arg(long)]
        dry_run: bool,
        /// The gateway, or what is of it as for status; may be left out if only one is running
        name: Option<String>,
    },
    /// Have a running gateway agree on another key for a link with [link.mka], without losing a frame; says its name
    #[command(after_help = "\
If this box is key server it makes the key at once; if not, it asks the key server for one by the
standard's means. The key before goes on until all peers have the other one. Needs to be root, or
the gateway's own user.

Examples:
  frameward rekey press
  frameward rekey press-line press")]
    Rekey {
        /// The gateway or the link
        name: String,
        /// The link; may be left out if it was named already, or is the gateway's only one
        link: Option<String>,
    },
    /// Say whether cyclic frames can be protected in time: relations, time for a frame, and what this CPU takes for it
    #[command(after_help = plan::AFTER_HELP)]
    Plan(plan::Plan),
    /// Print the reference of the configuration: a JSON Schema for editors, a manual page or a page of the book
    #[command(after_help = "\
The schema is of draft 4, as Taplo and Even Better TOML read it. Save it beside the
configurations, and name it in the first line of each: #:schema ./frameward.schema.json

Examples:
  frameward schema >frameward.schema.json
  frameward schema --format man | man -l -")]
    Schema {
        /// What to print
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
        /// The command, and one of its own if it has some
        command: Vec<String>,
    },
    /// Print the release
    Version,
    /// Print completions for a shell; the package installs them
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
        /// The directory; it exists
        directory: PathBuf,
    },
    /// Make the configuration and the keys of a first link, cell or site, and what the other box needs
    #[command(subcommand, arg_required_else_help = true, disable_help_subcommand = true)]
    Init(init::Init),
    /// Make keys
    #[command(subcommand, arg_required_else_help = true, disable_help_subcommand = true)]
    Keygen(Keygen),
}

#[derive(Subcommand)]
pub(crate) enum Keygen {
    /// Make a static key: a new file of mode 0600; the key's fingerprint goes to standard output
    #[command(after_help = "\
A file that exists is never overwritten. Copy the file to the other end over a channel that is
itself secret. The fingerprint (the first 8 octets of SHA-256 over \"frameward key\" and the key)
tells whether both ends have the same key; `check` and `status` show it too.

Suites with 128 bits: gcm-aes-128, gcm-aes-xpn-128, aegis-128l, morus-640-128, morus-1280-128.
Suites with 256 bits: gcm-aes-256, gcm-aes-xpn-256, chacha20-poly1305, aegis-256.

Examples:
  frameward keygen static --out press.key
  frameward keygen static --bits 256 --salt --out press.key     (for gcm-aes-xpn-256)")]
    Static {
        /// The length of the key
        #[arg(long, value_enum, default_value = "128")]
        bits: Bits,
        /// Print also a salt, which the XPN suites need: not secret, the same at all ends of a key
        #[arg(long)]
        salt: bool,
        /// The file to make
        #[arg(long, value_name = "FILE")]
        out: PathBuf,
    },
    /// Make a CAK, from which links with [link.mka] agree on their keys: a new file of mode 0600; its name (CKN) and its
    /// fingerprint go to standard output
    #[command(after_help = "\
A file that exists is never overwritten. Copy the file to every box of the group over a channel
that is itself secret: who has it can make himself a member. Name and key belong together: `check`
and `status` show the name and the fingerprint. Without --ckn a name of 32 random digits is drawn;
a switch or wpa_supplicant at the other end is given both lines of the file (wpa_supplicant:
mka_ckn and mka_cak).

Examples:
  frameward keygen cak --out line.cak
  frameward keygen cak --bits 128 --ckn 6c696e652d37 --out line.cak     (for a switch that takes no other)")]
    Cak {
        /// The length of the CAK
        #[arg(long, value_enum, default_value = "256")]
        bits: Bits,
        /// Its name: 2 to 64 hexadecimal digits
        #[arg(long, value_name = "HEX", value_parser = ckn)]
        ckn: Option<Ckn>,
        /// The file to make
        #[arg(long, value_name = "FILE")]
        out: PathBuf,
    },
    /// Make a site's identity: a new file of mode 0600; the public key, for its peers, goes to standard output
    #[command(after_help = "\
An Ed25519 key pair. A file that exists is never overwritten, and never leaves this box: each site
makes its own. What is printed is no secret; it is the line that every peer has in its
[[site.peer]] for this site. `check` prints it again.

Example:
  frameward keygen site --out /etc/frameward/dresden.key")]
    Site {
        /// The file to make
        #[arg(long, value_name = "FILE")]
        out: PathBuf,
    },
    /// Make the master key of a [[fieldbus]], from which the keys of all its relations are derived: a new file of mode 0600;
    /// its fingerprint goes to standard output
    #[command(after_help = "\
256 bits. A file that exists is never overwritten. Copy the file to the other gateway of the cell
over a channel that is itself secret; each cell has a key of its own. The fingerprint tells
whether both gateways have the same key; `check` and `status` show it too.

Example:
  frameward keygen fieldbus --out /etc/frameward/cell-4.key")]
    Fieldbus {
        /// The file to make
        #[arg(long, value_name = "FILE")]
        out: PathBuf,
    },
}

fn ckn(digits: &str) -> Result<Ckn, &'static str> {
    let octets = hex::decode(digits).ok();
    octets
        .and_then(|octets| Ckn::new(&octets))
        .ok_or("a name is 2 to 64 hexadecimal digits, two for each octet")
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

#[derive(Clone, Copy, ValueEnum)]
pub(crate) enum Bits {
    #[value(name = "128")]
    Bits128,
    #[value(name = "256")]
    Bits256,
}

impl From<Bits> for KeyLength {
    fn from(bits: Bits) -> Self {
        match bits {
            Bits::Bits128 => Self::Bits128,
            Bits::Bits256 => Self::Bits256,
        }
    }
}
