//! Metrics and status over HTTP, of a gateway with traffic: the same figures everywhere.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Command, Stdio};

use lab::{Namespace, PacketSocket, Shape, Topology};
use perf::demo::pair::{Choice, Scratch, configure};
use report::{Counters, GatewayReport, LinkReport, table};

use super::{DEADLINE, EXPERIMENT, exchange, lab, marked, program, wait_for};

/// Address at which the gateways of these tests answer.
pub(crate) const ADDRESS: &str = "127.0.0.1:9464";
/// The line of `[gateway]` that says so.
pub(crate) const HTTP: &str = "http = \"127.0.0.1:9464\"";

/// The body that a gateway answers with, from inside of its namespace.
pub(crate) fn get(namespace: &Namespace, path: &str) -> String {
    let answer = namespace.enter(|| {
        let mut client = TcpStream::connect(ADDRESS)?;
        client.set_read_timeout(Some(DEADLINE))?;
        write!(client, "GET {path} HTTP/1.1\r\nHost: {ADDRESS}\r\n\r\n")?;
        let mut answer = String::new();
        client.read_to_string(&mut answer)?;
        std::io::Result::Ok(answer)
    });
    let answer = answer.unwrap().unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
    body.to_owned()
}

/// Labels and value of every sample that a metric has.
pub(crate) type Samples = BTreeMap<String, Vec<(BTreeMap<String, String>, u64)>>;

/// Reads metrics with the parser of Prometheus' own Python client.
pub(crate) fn parse_metrics(scratch: &Scratch, text: &str) -> Samples {
    let file = scratch.write("metrics", text).unwrap();
    // Debian's interpreter: the package is installed for that one.
    let parser = Command::new("/usr/bin/python3")
        .args(["-c", include_str!("openmetrics.py")])
        .stdin(Stdio::from(File::open(file).unwrap()))
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&parser.stderr);
    assert!(parser.status.success(), "{told}\n(no module? scripts/setup.sh test installs it)\n{text}");
    let mut samples = Samples::new();
    for line in String::from_utf8(parser.stdout).unwrap().lines() {
        let (family, kind, name, labels, value): (String, String, String, _, u64) =
            serde_json::from_str(line).unwrap();
        assert!(family.starts_with("frameward_"), "{family}");
        assert_eq!(kind == "counter", name.ends_with("_total"), "{name}");
        samples.entry(name).or_default().push((labels, value));
    }
    samples
}

/// Takes each counter of an object out of the samples, where it must stand under exactly these labels.
fn take(samples: &mut Samples, object: &str, labels: &[(&str, &str)], counters: &Counters) {
    let labels: BTreeMap<String, String> =
        labels.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    for (name, value) in counters.iter() {
        let metric = format!("frameward_{object}_{}_total", table::counter(name).unwrap().metric);
        let found = samples.get_mut(&metric).unwrap_or_else(|| panic!("no {metric}"));
        let at = found.iter().position(|(known, _)| *known == labels);
        let at = at.unwrap_or_else(|| panic!("{metric} has no {labels:?}: {found:?}"));
        assert_eq!(found.remove(at).1, value, "{metric}");
    }
}

fn take_link(samples: &mut Samples, link: &LinkReport) {
    let of_link = ("link", link.name.as_str());
    for (side, port) in [("plain", &link.plain), ("protected", &link.protected)] {
        let labels = [of_link, ("side", side), ("interface", &port.interface)];
        take(samples, "port", &labels, &port.counters);
    }
    let secy = &link.secy;
    take(samples, "secy", &[of_link], &secy.counters);
    let receive = secy.receive.iter().map(|sc| ("receive", &sc.sci, &sc.counters, &sc.sas));
    let transmit = &secy.transmit;
    for (way, sci, counters, sas) in
        receive.chain([("transmit", &transmit.sci, &transmit.counters, &transmit.sas)])
    {
        let of_sc = ("sc", sci.as_str());
        take(samples, &format!("{way}_sc"), &[of_link, of_sc], counters);
        for sa in sas {
            take(samples, &format!("{way}_sa"), &[of_link, of_sc, ("sa", &sa.an.to_string())], &sa.counters);
        }
    }
}

#[test]
fn every_counter_of_the_status_is_a_metric_with_the_same_value() {
    let choice = Choice { gateway: HTTP, link: "fragment = \"on\"", ..Choice::default() };
    let (topology, pair) = lab(&Shape { protected_mtu: 1500, ..Shape::default() }, &choice);
    let (a, b) = (&topology.machine_a, &topology.machine_b);
    let sent: Vec<_> = (0..40).map(|seed| marked(b.mac, a.mac, EXPERIMENT, 1500, seed)).collect();
    exchange(a, b, &sent);
    // Somebody on the network, in clear.
    let intruder = PacketSocket::open(&topology.middle, lab::topology::RIGHT).unwrap();
    intruder.send(&marked(b.mac, a.mac, EXPERIMENT, 100, 1)).unwrap();
    let no_tag = |report: &GatewayReport| super::counter(&report.links[0].secy.counters, "InPktsNoTag");
    wait_for(|| pair.b.report().unwrap(), 1, no_tag);

    // Nothing moves any more; reports are kept for a moment, so the first may be older.
    let namespace = &topology.gateway_b.namespace;
    let read = || serde_json::from_str::<GatewayReport>(&get(namespace, "/status")).unwrap();
    wait_for(read, 1, no_tag);
    let report = read();
    let at_the_socket = pair.b.report().unwrap();
    assert_eq!((&report.name, &report.links), (&at_the_socket.name, &at_the_socket.links));
    let link = &report.links[0];
    assert_eq!(super::counter(&link.secy.receive[0].counters, "InSdusReassembled"), 40);

    let mut samples = parse_metrics(&pair.scratch, &get(namespace, "/metrics"));
    let lowest = &samples["frameward_receive_sa_lowest_pn"];
    assert_eq!(Some(lowest[0].1), link.secy.receive[0].sas[0].lowest_pn);
    report.links.iter().for_each(|link| take_link(&mut samples, link));
    let left: Vec<_> =
        samples.iter().filter(|(name, samples)| name.ends_with("_total") && !samples.is_empty()).collect();
    assert!(left.is_empty(), "in the metrics alone: {left:?}");
    let text = get(namespace, "/metrics");
    // The time for which PNs last is known only to a gateway that has sent.
    let sender = get(&topology.gateway_a.namespace, "/metrics");
    alerts_and_panels_name_metrics_that_exist(&parse_metrics(&pair.scratch, &sender), Whose::Links);
    for key in ["a.key", "b.key"] {
        let key = std::fs::read_to_string(pair.scratch.path().join(key)).unwrap();
        let key = key.lines().find(|line| line.len() >= 32).unwrap().trim();
        for told in [&text, &get(namespace, "/status"), &get(namespace, "/")] {
            assert!(!told.contains(key), "a key is told");
        }
    }
    pair.stop().unwrap();
}

/// Owner of the metrics that alerts are made of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Whose {
    Links,
    Sites,
    KeyAgreement,
    Cells,
}

/// A misspelt name in a rule would be an alert that never comes, and one in the dashboard an empty panel.
pub(crate) fn alerts_and_panels_name_metrics_that_exist(samples: &Samples, whose: Whose) {
    let rules = include_str!("../../contrib/prometheus/frameward.rules.yml");
    let dashboard = include_str!("../../contrib/grafana/frameward.json");
    let mut named_by_panels = 0;
    for panel in serde_json::from_str::<serde_json::Value>(dashboard).unwrap()["panels"].as_array().unwrap() {
        let targets = panel["targets"].as_array().into_iter().flatten();
        named_by_panels +=
            targets.filter(|target| target["expr"].as_str().unwrap().contains("frameward_")).count();
    }
    assert!(named_by_panels > 20, "the dashboard shows {named_by_panels}");
    let text = format!("{rules} {dashboard}");
    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    let named = words.filter(|word| word.starts_with("frameward_"));
    let of = |word: &str| match word {
        site if site.starts_with("frameward_site_") => Whose::Sites,
        mka if mka.starts_with("frameward_mka_") => Whose::KeyAgreement,
        cell if cell.starts_with("frameward_fieldbus_") => Whose::Cells,
        _ => Whose::Links,
    };
    let named: Vec<_> = named.filter(|word| of(word) == whose).collect();
    assert!(named.len() > if whose == Whose::Links { 10 } else { 2 }, "{named:?}");
    for name in named {
        assert!(samples.contains_key(name), "{name} is no metric");
    }
}

#[test]
fn an_http_address_in_use_keeps_a_gateway_from_starting() {
    let topology = Topology::build(&Shape::default()).unwrap();
    let namespace = &topology.gateway_a.namespace;
    let taken = namespace.enter(|| std::net::TcpListener::bind(ADDRESS)).unwrap().unwrap();
    let scratch = Scratch::new().unwrap();
    configure(&scratch, &Choice { gateway: HTTP, ..Choice::default() }).unwrap();
    let before = namespace.ip(&["-d", "link"]).unwrap().stdout;
    let config = scratch.path().join("a.toml").display().to_string();
    let text = std::fs::read_to_string(&config).unwrap();
    let place = format!("a.toml:{}: ", 1 + text.lines().position(|line| line == HTTP).unwrap());
    let run = namespace.spawn(&[program().to_str().unwrap(), "run", "--keep-user", &config]).unwrap();
    let output = run.wait(DEADLINE).unwrap();
    assert_eq!(output.status.code(), Some(1));
    let line = output.stderr.lines().last().unwrap();
    for word in [&place, ADDRESS, "ss -ltnp"] {
        assert!(line.contains(word), "{word:?} is not in {line:?}");
    }
    assert_eq!(namespace.ip(&["-d", "link"]).unwrap().stdout, before);
    drop(taken);
}
