//! What can be typed.

use std::path::PathBuf;

use clap::{Parser, Subcommand, ValueEnum};

/// Show gateways at work on this machine, and measure them beside their limits and rivals
#[derive(Parser)]
#[command(name = "frameward-lab", version, about, after_help = AFTER_HELP, arg_required_else_help = true, max_term_width = 100)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Command,
}

const AFTER_HELP: &str = "\
It runs the program frameward that stands in the same directory.

Examples:
  sudo frameward-lab demo
  frameward-lab bench suites
  sudo frameward-lab evidence run

Exit status: 0 done, 1 failed, 2 usage.";

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Show a link, a tunnel or a fieldbus at work on this machine: gateways, machines, real frames, in network namespaces
    #[command(after_help = "\
Needs root, ip, tc, ethtool and ping. Leaves nothing behind. Takes about 20 seconds.

Examples:
  sudo frameward-lab demo
  sudo frameward-lab demo tunnel
  sudo frameward-lab demo fieldbus")]
    Demo {
        /// What to show
        #[arg(value_enum, default_value = "link")]
        what: Demo,
    },
    /// Measure on this machine; every figure is compared with another one of the same run
    #[command(after_help = "\
Leaves nothing behind. Says on standard error what it measures, and the figures at the end on
standard output: as a table, or with --json as one line of JSON for each figure. `suites` and
`precompute` need no root; the others need root, ip, tc and ethtool, but most of `fieldbus` does
not. `precompute` shows a microcontroller and AES in software, too, if scripts/precompute.sh has
measured them (make bench-mcu). With --judge it measures nothing: it fails if the microcontroller
has missed a target.

Examples:
  frameward-lab bench suites
  frameward-lab bench fieldbus --quick
  sudo frameward-lab bench link --quick
  sudo frameward-lab bench link --only '1514-octet frames, unprotected' --only 'TCP, gcm-aes-128, af_xdp'
  sudo frameward-lab bench tunnel --only 'a quarter load'
  sudo frameward-lab bench overload --quick
  sudo frameward-lab bench overload --quick --only 'VXLAN' --only 'site'
  sudo frameward-lab bench fragment --quick
  sudo frameward-lab bench antedate --quick")]
    Bench {
        /// What to measure
        #[arg(value_enum)]
        what: Measured,
        /// Short rounds: the figures spread more
        #[arg(long)]
        quick: bool,
        /// Of `link` and `tunnel`: measure only figures with this text in their name, and what they are compared with; of `overload`:
        /// only cases with it, such as `site`; may be given several times
        #[arg(long, value_name = "TEXT")]
        only: Vec<String>,
        /// Of `precompute`: where scripts/precompute.sh has left what it measured
        #[arg(long, value_name = "DIRECTORY", default_value = "target/precompute")]
        rows: PathBuf,
        /// Of `precompute`: judge what scripts/precompute.sh mcu has left by its targets, and measure nothing
        #[arg(long, conflicts_with_all = ["json", "quick"])]
        judge: bool,
        /// One line of JSON for each figure
        #[arg(long)]
        json: bool,
    },
    /// Forward in clear between the two ports of a bench's box: what gateways are compared with
    #[command(hide = true, name = perf::bench::forwarder::COMMAND)]
    BareForwarder {
        /// The kind of port
        #[arg(value_enum)]
        io: PortKind,
        /// Where the interfaces' state is kept meanwhile
        records: PathBuf,
    },
    /// Run every bench beside its rivals, keep what was measured, and draw it as one page
    #[command(subcommand, arg_required_else_help = true)]
    Evidence(Evidence),
    /// Draw an answer of `frameward plan --json` into an SVG file
    #[command(after_help = "\
Example:
  frameward plan --cycle 1ms --json > budget.json; frameward-lab plot budget.json budget.svg")]
    Plot {
        /// The answer
        answer: PathBuf,
        /// The drawing
        svg: PathBuf,
    },
}

#[derive(Subcommand)]
pub(crate) enum Evidence {
    /// Measure everything that is not stored yet, and write evidence.json and index.html; root
    Run(EvidenceRun),
    /// Draw the page of a run
    Page {
        /// The run's evidence.json
        evidence: PathBuf,
        /// The page
        page: PathBuf,
    },
}

#[derive(clap::Args)]
pub(crate) struct EvidenceRun {
    /// Short rounds that tell whether everything runs
    #[arg(long)]
    pub(crate) quick: bool,
    /// Measure anew what is stored
    #[arg(long)]
    pub(crate) fresh: bool,
    /// Measure only this bench now, and take of the others what is stored; may be given several times
    #[arg(long, value_name = "BENCH")]
    pub(crate) only: Vec<String>,
    /// Measure only steps with these words in their names, such as a contestant's name or `round 1,`; may be given several times
    #[arg(long, value_name = "WORDS")]
    pub(crate) step: Vec<String>,
    /// Where steps, evidence.json and index.html stand
    #[arg(long, value_name = "DIRECTORY", default_value = "target/evidence")]
    pub(crate) out: PathBuf,
    /// Where scripts/precompute.sh has left its rows
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
    /// Round trips through gateways that make keystreams ahead, on this CPU and on one without AES instructions
    Antedate,
    /// Cyclic frames of 1 to 1024 relations, each under its own key, beside the paper's figures
    Fieldbus,
    /// What it costs and gains to split frames and to put them together
    Fragment,
    /// Throughput, round trips and CPU of a link, beside a bridge and a bare forwarder, with each suite
    Link,
    /// What arrives of up to ten times the frames that there is room for, and beside garbage, replayed and clear frames
    Overload,
    /// What antedated encryption and templates save, beside the paper's figures
    Precompute,
    /// What a frame costs with each cipher suite, beside the bare call of the cipher's crate
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
            // What stands between quotation marks is one word, whatever it is.
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
