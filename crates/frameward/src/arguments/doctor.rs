//! `frameward doctor`: its arguments.

use std::fmt::Display;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use diagnosis::doctor::{self, Options};

use crate::{Failure, load, print, tell};

pub(crate) const AFTER_HELP: &str = "\
Start it on both boxes within the time it waits, in any order, while no gateway runs there. It
sends out of protected ports only, at most so many probes a second each way (200: 1.3 Mbit/s), and
leaves the interfaces as they are. A gateway that runs is not disturbed: then only this box is
looked at, and the gateway's counters are read.

Of a site it calls the peers, be it running gateways or doctors, for up to 15 seconds: whether
they answer and know its key, the round trip, and what the path carries. Its LAN is left alone;
frames that peers send to it meanwhile are dropped.

Each finding is one line: ok, note or PROBLEM; what it means; the cure. Exit status: 0 no problem,
1 a problem, 2 usage or configuration.

Examples:
  frameward doctor /etc/frameward/press-line.toml
  frameward doctor --local --json press-line.toml";

#[derive(Args)]
pub(crate) struct Doctor {
    /// Look at this box only; send nothing
    #[arg(long)]
    local: bool,
    /// How long to wait for the other box's doctor, in seconds
    #[arg(long, value_name = "SECONDS", default_value = "60", value_parser = clap::value_parser!(u64).range(1..=86_400))]
    wait: u64,
    /// How many frames to send to count what is lost
    #[arg(long, value_name = "FRAMES", default_value = "1000", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    probes: u32,
    /// The most probes a second
    #[arg(long, value_name = "FRAMES", default_value = "200", value_parser = clap::value_parser!(u32).range(10..=10_000))]
    rate: u32,
    /// Print the report as JSON
    #[arg(long)]
    json: bool,
    /// The configuration file (TOML)
    config: PathBuf,
}

impl Doctor {
    pub(crate) fn run(self) -> Result<(), Failure> {
        let config = load(&self.config)?;
        let patience = (!self.local).then(|| Duration::from_secs(self.wait));
        let options = Options { patience, probes: self.probes, rate: self.rate };
        let tell_line = |line: &dyn Display| tell(&format_args!("doctor: {line}"));
        let report = doctor::examine(&config, &options, &report::runtime_dir(), &tell_line);
        if self.json {
            let document =
                serde_json::to_string(&report).expect("invariant: a report has only names as keys");
            print(&format_args!("{document}\n"))?;
        } else {
            print(&report)?;
        }
        if report.problems == 0 { Ok(()) } else { Err(Failure::Failed) }
    }
}
