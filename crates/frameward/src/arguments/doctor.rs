//! `frameward doctor`: its arguments.

use std::fmt::Display;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use diagnosis::doctor::{self, Options};

use crate::{Failure, load, of_fleet, print, tell, told};

pub(crate) const AFTER_HELP: &str = "\
Stop the gateways, and start doctor on both boxes, in any order, within the time of --wait. For a
link it sends only from protected ports, and at most --rate probes a second (200 are 1.3 Mbit/s each
way). It does not change the interfaces. If a gateway runs, doctor does not disturb it: it checks
this box, and reads the gateway's counters.

For a site, doctor calls its peers for up to 15 seconds. Their gateways may run, or their doctors.
It checks whether they answer and know the site's key, the round trip, and what the path carries.
It does not touch the LAN. Frames that peers send to the site meanwhile are dropped. Beside a
running gateway it calls nobody. Either way it sends up to 25 packets towards each of four peers
that do not answer, and says where they end; beside a gateway from a free port. One goes to UDP
33434.

Each finding is one line: ok, note or PROBLEM; what it means; the cure. Exit status: 0 no problem,
1 a problem, 2 usage or configuration.

Examples:
  frameward doctor /etc/frameward/press-line.toml
  frameward doctor --local --json press-line.toml";

#[derive(Args)]
pub(crate) struct Doctor {
    /// Check this box only; send nothing
    #[arg(long)]
    local: bool,
    /// Time to wait for the other box's doctor, in seconds
    #[arg(long, value_name = "SECONDS", default_value = "60", value_parser = clap::value_parser!(u64).range(1..=86_400))]
    wait: u64,
    /// Number of frames to send to measure loss
    #[arg(long, value_name = "FRAMES", default_value = "1000", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    probes: u32,
    /// Limit on probes per second
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
        if let Some(configuration) = of_fleet(&config)? {
            let line = format_args!(
                "links and sites come from the fleet; examine them with: frameward doctor {}",
                configuration.display()
            );
            return Err(told(&line, Failure::Usage));
        }
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
