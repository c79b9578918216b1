//! Figures of a fleet for Prometheus, read by Prometheus' own parsers; and where its gateways are scraped.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Command, Stdio};

use super::keys::{SIGNED, planted};

/// Reads what node_exporter reads (text format), and what Prometheus reads (OpenMetrics): they agree.
const READS: &str = "
import json, sys
from prometheus_client import parser
from prometheus_client.openmetrics import parser as openmetrics
text = sys.stdin.read()
read = lambda families: [[s.name, s.labels, s.value] for f in families for s in f.samples if f.documentation]
samples = read(parser.text_string_to_metric_families(text))
assert samples == read(openmetrics.text_string_to_metric_families(text))
print(json.dumps(samples))
";

type Samples = BTreeMap<String, f64>;

/// Samples by their names, with the state in brackets.
fn samples(text: &str) -> Samples {
    let mut child = Command::new("/usr/bin/python3")
        .args(["-c", READS])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{text}");
    let read: Vec<(String, BTreeMap<String, String>, f64)> = serde_json::from_slice(&output.stdout).unwrap();
    let sample = |(name, labels, value): (String, BTreeMap<String, String>, f64)| {
        let name = name.strip_prefix("frameward_fleet_").unwrap().to_owned();
        (labels.get("state").map_or(name.clone(), |state| format!("{name}[{state}]")), value)
    };
    read.into_iter().map(sample).collect()
}

/// Returns the samples that are not 0, but for times.
fn counts(samples: &Samples) -> Vec<(&str, f64)> {
    let is_count = |(name, count): &(&String, &f64)| !name.ends_with("timestamp_seconds") && **count != 0.0;
    samples.iter().filter(is_count).map(|(name, count)| (name.as_str(), *count)).collect()
}

#[test]
fn a_fleet_is_a_few_series_however_many_gateways_it_has() {
    let fleet = planted("fleet-metrics");
    let command = format!("{} --inventory inventory --format prometheus", fleet.status());
    let seen = samples(&fleet.done(&command));
    assert_eq!(counts(&seen), [("gateways[never heard]", 3.0)]);
    assert!(!seen.contains_key("oldest_heartbeat_timestamp_seconds"), "{seen:?}");
    ["press", "crane"].iter().for_each(|name| fleet.beats(name));
    let seen = samples(&fleet.done(&command));
    assert_eq!(counts(&seen), [("gateways[confirmed]", 2.0), ("gateways[never heard]", 1.0)]);
    let (heard, made) = (seen["oldest_heartbeat_timestamp_seconds"], seen["status_timestamp_seconds"]);
    assert!(heard <= made && heard > made - 600.0, "{seen:?}");
    // Something else is published; CAKs are due, and one has begun.
    fleet.done(&format!("rotate line {SIGNED} --wait 0"));
    let plant = fs::read_to_string(fleet.path("inventory/plant.toml")).unwrap();
    fs::write(fleet.path("inventory/plant.toml"), format!("{plant}rotate_every = \"1h\"\n")).unwrap();
    let seen = samples(&fleet.done(&command));
    let all = [
        ("caks[begun]", 1.0),
        ("caks[later]", 1.0),
        ("gateways[never heard]", 1.0),
        ("gateways[waiting]", 2.0),
    ];
    assert_eq!(counts(&seen), all);
    let begun = seen["oldest_begun_cak_timestamp_seconds"];
    assert!(begun <= made + 600.0 && begun >= heard, "{seen:?}");
    // An old key.
    let key = fleet.path("inventory/keys/ring.cak");
    let text = fs::read_to_string(&key).unwrap();
    fs::write(&key, format!("# made 1000000000\n{}", text.split_once('\n').unwrap().1)).unwrap();
    let seen = samples(&fleet.done(&command));
    assert_eq!(seen["caks[due]"], 1.0);
    assert_eq!(seen["oldest_due_cak_timestamp_seconds"], 1_000_003_600.0);
    // As node_exporter wants it: whole, in the place of the one before, and nothing beside it.
    let folder = fleet.path("exported");
    fs::create_dir(&folder).unwrap();
    for _ in 0..2 {
        assert_eq!(fleet.done(&format!("{command} --out exported/fleet.prom")), "");
    }
    let text = fs::read_to_string(folder.join("fleet.prom")).unwrap();
    assert_eq!(counts(&samples(&text)), counts(&seen));
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 1);
    let mode = fs::metadata(folder.join("fleet.prom")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o644, "node_exporter is another user");
    let refused = fleet.failed(1, &format!("{command} --out none/fleet.prom"));
    assert!(refused.contains("cannot write none/fleet.prom: "), "{refused}");
    rules_and_panels_name_metrics_that_exist(&seen);
}

/// A misspelt name in a rule would be an alert that never comes, and one in the dashboard an empty panel.
fn rules_and_panels_name_metrics_that_exist(seen: &Samples) {
    let text = concat!(
        include_str!("../../../../contrib/prometheus/frameward-fleet.rules.yml"),
        include_str!("../../../../contrib/grafana/frameward-fleet.json")
    );
    serde_json::from_str::<serde_json::Value>(include_str!(
        "../../../../contrib/grafana/frameward-fleet.json"
    ))
    .unwrap();
    let known: BTreeSet<_> = seen.keys().map(|name| name.split('[').next().unwrap()).collect();
    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    let named: BTreeSet<_> = words.filter_map(|word| word.strip_prefix("frameward_fleet_")).collect();
    assert!(named.len() > 5, "{named:?}");
    assert!(named.is_subset(&known), "{:?} are no metrics", named.difference(&known));
    // States, too.
    for state in text.split("state=\"").skip(1).map(|rest| rest.split('"').next().unwrap()) {
        assert!(seen.keys().any(|name| name.ends_with(&format!("[{state}]"))), "{state}");
    }
}

/// Prometheus' own program has to have no objection.
fn promtool(arguments: &[&str]) {
    let told = Command::new("promtool").args(arguments).output();
    let told = told.expect("promtool of Debian's package prometheus: scripts/setup.sh test");
    let text = String::from_utf8_lossy(&told.stdout) + String::from_utf8_lossy(&told.stderr);
    assert!(told.status.success(), "promtool {arguments:?}: {text}");
}

/// Two rules of one alert with the same labels would be one series.
#[test]
fn prometheus_takes_the_alert_rules() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../contrib/prometheus");
    for rules in ["frameward.rules.yml", "frameward-fleet.rules.yml"] {
        promtool(&["check", "rules", "--lint-fatal", &format!("{folder}/{rules}")]);
    }
    promtool(&["check", "config", &format!("{folder}/prometheus.yml")]);
}

#[test]
fn gateways_are_targets_by_the_address_that_their_inventory_gives_them() {
    let fleet = planted("fleet-targets");
    assert_eq!(fleet.done("targets inventory"), "[]\n");
    let plant = fs::read_to_string(fleet.path("inventory/plant.toml")).unwrap();
    let with = |name: &str, more: &str| format!("[gateway.{name}]\n{more}\n");
    let plant = plant
        .replace("[gateway.press]\n", &with("press", "http = \"10.0.0.5:9464\"\nsite = \"dresden\""))
        .replace("[gateway.crane]\n", &with("crane", "http = \"[2001:db8::1]:9464\""))
        .replace("[gateway.robot]\n", &with("robot", "http = \"127.0.0.1:9464\""));
    fs::write(fleet.path("inventory/plant.toml"), plant).unwrap();
    let (status, shown, told) = fleet.run("targets inventory");
    assert_eq!(status, Some(0), "{told}");
    let lines: Vec<_> = told.lines().filter(|line| line.contains("is no target")).collect();
    assert!(lines.len() == 1 && lines[0].starts_with("robot: http = \"127.0.0.1:9464\" "), "{told}");
    let listed: serde_json::Value = serde_json::from_str(&shown).unwrap();
    let expected = serde_json::json!([
        { "targets": ["[2001:db8::1]:9464"], "labels": { "gateway": "crane" } },
        { "targets": ["10.0.0.5:9464"], "labels": { "gateway": "press", "site": "dresden" } },
    ]);
    assert_eq!(listed, expected);
    assert_eq!(fleet.run("targets inventory --out targets.json").1, "");
    assert_eq!(fs::read_to_string(fleet.path("targets.json")).unwrap(), shown);
    let scrapes =
        "scrape_configs:\n- job_name: frameward\n  file_sd_configs:\n  - files: [targets.json]\n".to_owned();
    fs::write(fleet.path("prometheus.yml"), scrapes).unwrap();
    promtool(&["check", "config", &fleet.path("prometheus.yml").display().to_string()]);
}

/// `fleet status` of whoever only watches needs no key.
#[test]
fn whoever_watches_needs_no_secret() {
    let fleet = planted("fleet-watches");
    fleet.beats("press");
    let status = fleet.status();
    for secret in ["operator.key", "inventory", "rendering"] {
        fs::rename(fleet.path(secret), fleet.path(&format!("away-{secret}"))).unwrap();
    }
    let seen = samples(&fleet.done(&format!("{status} --format prometheus")));
    assert_eq!(counts(&seen), [("gateways[confirmed]", 1.0), ("gateways[never heard]", 2.0)]);
    assert!(!seen.keys().any(|name| name.starts_with("caks")), "{seen:?}");
}
