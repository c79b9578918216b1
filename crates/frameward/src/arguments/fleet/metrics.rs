//! `fleet status --format prometheus`: the fleet in a few series, however many gateways there are. And `fleet targets`: where the gateways' own
//! metrics are.
//!
//! Nothing here has a gateway's name, so the number of series is that of the states. `fleet status` names gateways, and their own metrics
//! have the rest.

use std::fs::{OpenOptions, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicI64;

use clap::Args;
use fleet::Standing;
use frameward::cockpit::overview::State as Gateway;
use frameward::privilege;
use inventory::{Rendering, Rotations, State};
use prometheus_client::encoding::text;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use super::files::Place;
use super::standing::Standings;
use crate::{Failure, print, tell, told};

pub(crate) const TARGETS_HELP: &str = "\
Prometheus reads the file by file_sd_configs, and again whenever it changes. Each gateway with `http`
in its configuration is a target, labelled with its name (gateway) and its plant (site). An address
that is reached on its box alone, such as 127.0.0.1, is no target, and is named.

Example:
  frameward fleet targets inventory --out /etc/prometheus/frameward.json

Exit status: 0 done; 1 the file cannot be written; 2 usage, or the inventory has mistakes.";

/// States of a CAK with a schedule.
const ROTATIONS: [&str; 5] = ["later", "due", "begun", "ahead of the clock", "impossible"];

type States = Family<[(&'static str, &'static str); 1], Gauge>;

#[derive(Args)]
pub(crate) struct Targets {
    #[command(flatten)]
    place: Place,
    /// The file to replace, whole [default: standard output]
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

/// A gauge of each state: those that nobody is in are 0, so that a rule can compare them.
fn count(registry: &mut Registry, name: &str, help: &str, all: &[&'static str], seen: &[&'static str]) {
    let family = States::default();
    for state in all {
        let count = seen.iter().filter(|one| *one == state).count();
        family.get_or_create(&[("state", state)]).set(i64::try_from(count).unwrap_or(i64::MAX));
    }
    registry.register(name, help, family);
}

fn gauge(registry: &mut Registry, name: &str, help: &str, value: u64) {
    let gauge = Gauge::<i64, AtomicI64>::default();
    gauge.set(i64::try_from(value).unwrap_or(i64::MAX));
    registry.register(name, help, gauge);
}

/// Encodes the standings of all gateways, and CAKs with a schedule if an inventory is known.
pub(super) fn metrics(standings: &Standings, rotations: Option<&Rotations>, now: u64) -> String {
    let mut registry = Registry::with_prefix("frameward_fleet");
    let states: Vec<_> = standings.iter().map(|(_, standing)| Gateway::of(standing, now).word()).collect();
    count(
        &mut registry,
        "gateways",
        "Gateways by what they say of what is published for them",
        &Gateway::ALL.map(Gateway::word),
        &states,
    );
    let mut doubt = |name, help, is_so: fn(&Standing) -> bool| {
        let count = standings.iter().filter(|(_, standing)| is_so(standing)).count();
        gauge(&mut registry, name, help, count as u64);
    };
    let help = "Gateways whose heartbeat in the directory is forged, older or of another box";
    doubt("heartbeats_refused", help, |one| one.refusal.is_some());
    let help = "Gateways whose heartbeat was removed from the directory";
    doubt("heartbeats_withheld", help, |one| one.is_withheld);
    let help = "Gateways for which the directory shows an older record than before";
    doubt("records_hidden", help, |one| one.hidden.is_some());
    let heard = standings.iter().filter_map(|(_, standing)| Some(standing.heartbeat.as_ref()?.time));
    if let Some(oldest) = heard.min() {
        let help = "When the gateway was heard that is silent for the longest time";
        gauge(&mut registry, "oldest_heartbeat_timestamp_seconds", help, oldest);
    }
    if let Some(rotations) = rotations {
        of_rotations(&mut registry, rotations);
    }
    gauge(&mut registry, "status_timestamp_seconds", "When these figures were made", now);
    let mut out = String::new();
    text::encode(&mut out, &registry).expect("invariant: a string takes all that is written to it");
    out
}

fn of_rotations(registry: &mut Registry, Rotations { rotations, refused }: &Rotations) {
    let state = |state: &State| match state {
        State::Later { .. } => "later",
        State::Due { .. } => "due",
        State::UnderWay { .. } => "begun",
        State::Ahead { .. } => "ahead of the clock",
    };
    let states = rotations.iter().map(|one| state(&one.state));
    let states: Vec<_> = states.chain(refused.iter().map(|_| "impossible")).collect();
    count(registry, "caks", "CAKs with a schedule, or whose exchange has begun", &ROTATIONS, &states);
    let due = rotations.iter().filter_map(|one| match one.state {
        State::Due { since } => since,
        _ => None,
    });
    if let Some(oldest) = due.min() {
        let help = "Since when the CAK is due that is due for the longest time";
        gauge(registry, "oldest_due_cak_timestamp_seconds", help, oldest);
    }
    let begun = rotations.iter().filter_map(|one| match one.state {
        State::UnderWay { since } => since,
        _ => None,
    });
    if let Some(oldest) = begun.min() {
        let help = "When the exchange of a CAK has begun that was not confirmed for the longest time";
        gauge(registry, "oldest_begun_cak_timestamp_seconds", help, oldest);
    }
}

impl Targets {
    pub(crate) fn run(&self) -> Result<(), Failure> {
        privilege::keep_from_being_dumped().map_err(|error| told(&error, Failure::Failed))?;
        let (rendering, _) = self.place.render()?;
        put(self.out.as_deref(), &targets(&rendering))
    }
}

/// Service discovery of Prometheus: a list of targets with labels (`file_sd_configs`).
fn targets(rendering: &Rendering) -> String {
    let mut targets = Vec::new();
    for (name, one) in &rendering.gateways {
        let Some(http) = one.config.gateway.http else { continue };
        let ip = http.address.ip();
        if ip.is_loopback() || ip.is_unspecified() {
            tell(&format_args!(
                "{name}: http = \"{}\" says no address by which others reach it, so it is no target; give it an address of a management network",
                http.address
            ));
            continue;
        }
        let mut labels = serde_json::json!({ "gateway": name });
        if let Some(site) = &one.site {
            labels["site"] = site.as_str().into();
        }
        targets.push(serde_json::json!({ "targets": [http.address.to_string()], "labels": labels }));
    }
    format!("{:#}\n", serde_json::Value::from(targets))
}

/// Prints a text, or puts it whole into the place of a file: whoever reads that finds the text before, or this one.
pub(super) fn put(out: Option<&Path>, text: &str) -> Result<(), Failure> {
    let Some(path) = out else { return print(&text) };
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    // Of an ending that neither node_exporter nor Prometheus reads.
    let next = path.with_file_name(format!(".{name}.{}", std::process::id()));
    let write = || -> io::Result<()> {
        // Nothing that others put there is followed or written; node_exporter and Prometheus read it, whatever the umask.
        let _ = std::fs::remove_file(&next);
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&next)?;
        file.write_all(text.as_bytes())?;
        file.set_permissions(Permissions::from_mode(0o644))?;
        file.sync_all()?;
        std::fs::rename(&next, path)
    };
    write().map_err(|error| {
        let _ = std::fs::remove_file(&next);
        let line =
            format_args!("cannot write {}: {error}; name a file that this user can write", path.display());
        told(&line, Failure::Failed)
    })
}
