//! The command line.

use std::path::PathBuf;

use clap::{Parser, Subcommand, ValueEnum};
use perf::bench::fleet;

/// Show gateways at work on this machine, and measure them beside their limits and rivals
#[derive(Parser)]
#[command(name = "frameward-lab", version, about, after_help = AFTER_HELP, arg_required_else_help = true, max_term_width = 100)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Command,
}

const AFTER_HELP: &str = "\
It runs the program frameward from its own directory.

Examples:
  sudo frameward-lab demo
  frameward-lab bench suites
  sudo frameward-lab evidence run

Exit status: 0 done, 1 failed, 2 usage.";

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Show a link, a tunnel or a fieldbus at work on this machine: gateways, machines, real frames, in network namespaces
    #[command(after_help = "\
Requires root, ip, tc, ethtool and ping. It takes about 20 seconds, and leaves nothing behind.

Examples:
  sudo frameward-lab demo
  sudo frameward-lab demo tunnel
  sudo frameward-lab demo fieldbus")]
    Demo {
        /// The demo to show
        #[arg(value_enum, default_value = "link")]
        what: Demo,
    },
    /// Measure on this machine; every figure is compared with another one of the same run
    #[command(after_help = "\
Progress goes to standard error, the figures to standard output at the end: as a table, or with
--json as one line of JSON for each figure. Nothing is left behind. `suites`, `precompute`, `fleet`
and most of `fieldbus` need no root; the others need root, ip, tc and ethtool. `fleet` needs Debian's
etcd-server and openssl, and takes ten open files for each agent. `precompute` also shows a
microcontroller and AES in software, if scripts/precompute.sh has measured them (make bench-mcu).
With --judge it measures nothing, and fails if the microcontroller has missed a target.

Examples:
  frameward-lab bench suites
  frameward-lab bench fieldbus --quick
  frameward-lab bench fleet --agents 100 --agents 1000
  sudo frameward-lab bench link --quick
  sudo frameward-lab bench link --only '1514-octet frames, unprotected' --only 'TCP, gcm-aes-128, af_xdp'
  sudo frameward-lab bench tunnel --only 'a quarter load'
  sudo frameward-lab bench overload --quick
  sudo frameward-lab bench overload --quick --only 'VXLAN' --only 'site'
  sudo frameward-lab bench fragment --quick
  sudo frameward-lab bench antedate --quick")]
    Bench {
        /// The bench to run
        #[arg(value_enum)]
        what: Measured,
        /// Run short rounds; the figures spread more
        #[arg(long)]
        quick: bool,
        /// For `link` and `tunnel`: measure only figures with this text in their name, and those they are compared with;
        /// for `overload`: only cases with it, such as `site`; repeatable
        #[arg(long, value_name = "TEXT")]
        only: Vec<String>,
        /// For `fleet`: the number of agents; repeatable
        #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(i64::from(fleet::FEWEST)..=i64::from(fleet::MOST)))]
        agents: Vec<u32>,
        /// For `precompute`: the directory with the rows of scripts/precompute.sh
        #[arg(long, value_name = "DIRECTORY", default_value = "target/precompute")]
        rows: PathBuf,
        /// For `precompute`: compare the rows of scripts/precompute.sh mcu with their targets, and measure nothing
        #[arg(long, conflicts_with_all = ["json", "quick"])]
        judge: bool,
        /// Print one line of JSON for each figure
        #[arg(long)]
        json: bool,
    },
    /// Forward in clear between the two ports of a bench's box, for gateways to be compared with
    #[command(hide = true, name = perf::bench::forwarder::COMMAND)]
    BareForwarder {
        /// The kind of port
        #[arg(value_enum)]
        io: PortKind,
        /// The directory for the interfaces' state meanwhile
        records: PathBuf,
    },
    /// Run agents of a fleet's bench, which ends them
    #[command(hide = true, name = fleet::agents::COMMAND)]
    FleetAgents(FleetAgents),
    /// Run every bench beside its rivals, store the figures, and draw them as one page
    #[command(subcommand, arg_required_else_help = true)]
    Evidence(Evidence),
    /// Draw an answer of `frameward plan --json` into an SVG file
    #[command(after_help = "\
Example:
  frameward plan --cycle 1ms --json > budget.json; frameward-lab plot budget.json budget.svg")]
    Plot {
        /// The JSON answer
        answer: PathBuf,
        /// The SVG file to write
        svg: PathBuf,
    },
}

#[derive(clap::Args)]
pub(crate) struct FleetAgents {
    /// Where the directory is
    #[arg(long)]
    pub(crate) directory: String,
    /// The operator's public key
    #[arg(long, value_name = "HEX")]
    pub(crate) operator: String,
    /// The folder of their folders
    #[arg(long)]
    pub(crate) place: PathBuf,
    /// Number of the first one
    #[arg(long)]
    pub(crate) first: u32,
    /// How many
    #[arg(long)]
    pub(crate) count: u32,
}

#[derive(Subcommand)]
pub(crate) enum Evidence {
    /// Measure everything that is not stored yet, and write evidence.json and index.html; requires root
    Run(EvidenceRun),
    /// Judge the figures of a run by the targets of today, and draw its page
    Page {
        /// The run's evidence.json, whose verdicts are written anew
        evidence: PathBuf,
        /// The HTML file to write
        page: PathBuf,
    },
}

#[derive(clap::Args)]
pub(crate) struct EvidenceRun {
    /// Run short rounds, to see whether everything runs
    #[arg(long)]
    pub(crate) quick: bool,
    /// Measure stored steps again
    #[arg(long)]
    pub(crate) fresh: bool,
    /// Measure only this bench now, and use stored figures of the others; repeatable
    #[arg(long, value_name = "BENCH")]
    pub(crate) only: Vec<String>,
    /// Measure only steps with these words in their names, such as a contestant's name or `round 1,`; repeatable
    #[arg(long, value_name = "WORDS")]
    pub(crate) step: Vec<String>,
    /// The directory for steps, evidence.json and index.html
    #[arg(long, value_name = "DIRECTORY", default_value = "target/evidence")]
    pub(crate) out: PathBuf,
    /// The directory with the rows of scripts/precompute.sh
    #[arg(long, value_name = "DIRECTORY", default_value = "target/precompute")]
    pub(crate) rows: PathBuf,
}

#[derive(Clone, Copy, ValueEnum)]
pub(crate) enum Demo {
    /// A link between two gateways with static keys
    Link,
    /// Two plants whose frames travel between two site gateways, over a routed internet
    Tunnel,
    /// A PLC and its devices that exchange IO data every millisecond between two gateways
    Fieldbus,
}

#[derive(Clone, Copy, ValueEnum)]
pub(crate) enum Measured {
    /// Round trips through gateways that antedate, on this CPU and on one without AES instructions
    Antedate,
    /// Cyclic frames of 1 to 1024 relations, each under its own key, beside the paper's figures
    Fieldbus,
    /// Agents of 100 to 5000 gateways on one etcd: cold start, revocation, memory
    Fleet,
    /// Costs and gains of splitting payloads and sharing frames
    Fragment,
    /// Throughput, round trips and CPU of a link, beside a bridge and a bare forwarder, with each suite
    Link,
    /// Delivery under up to ten times the frames that fit, and beside garbage, replayed and clear frames
    Overload,
    /// Savings by antedated encryption and templates, beside the paper's figures
    Precompute,
    /// Time of a frame with each cipher suite, beside the bare call of the cipher's crate
    Suites,
    /// Tunnels between two plants, beside kernel VXLAN, alone and over WireGuard
    Tunnel,
}

#[derive(Clone, Copy, ValueEnum)]
pub(crate) enum PortKind {
    #[value(name = "af_xdp")]
    AfXdp,
    #[value(name = "af_packet")]
    AfPacket,
    /// None: a program in the drivers
    #[value(name = "xdp")]
    Xdp,
    /// None: a link's programs in the drivers, in the first box
    #[value(name = "link-a")]
    LinkA,
    /// The same in the second box
    #[value(name = "link-b")]
    LinkB,
    /// As link-a, with keystream made ahead
    #[value(name = "link-ahead-a")]
    LinkAheadA,
    /// The same in the second box
    #[value(name = "link-ahead-b")]
    LinkAheadB,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Command lines of the Makefile, of scripts and of the help, behind the words that start the program.
    #[test]
    fn what_scripts_and_help_type_is_understood() {
        let makefile = include_str!("../../../Makefile");
        let precompute = include_str!("../../../scripts/precompute.sh");
        let help = include_str!("arguments.rs").split("#[cfg(test)]").next().expect("a first part");
        let mut understood = 0;
        for line in [makefile, precompute, help].into_iter().flat_map(str::lines) {
            let line = line.trim_start();
            let typed = [
                "target/release/frameward-lab ",
                "cargo run --quiet --locked --package frameward-perf -- ",
                "sudo frameward-lab ",
                "frameward-lab ",
            ]
            .into_iter()
            .find_map(|start| line.strip_prefix(start));
            let Some(typed) = typed else { continue };
            // A quoted text is one word, whatever it contains.
            let typed = typed.trim_end_matches("\")]").trim_end_matches("\";");
            let words: Vec<String> = typed
                .split(['\'', '"'])
                .enumerate()
                .flat_map(|(quoted, part)| match quoted % 2 {
                    1 => vec![part.to_owned()],
                    _ => part.split_whitespace().map(str::to_owned).collect(),
                })
                .collect();
            let parsed = Arguments::try_parse_from(std::iter::once("frameward-lab".to_owned()).chain(words));
            assert!(
                parsed.is_ok(),
                "{line}: {}",
                parsed.err().map(|error| error.to_string()).unwrap_or_default()
            );
            understood += 1;
        }
        assert!(understood > 20, "{understood} command lines found");
    }
}
