//! The status page in a real browser, beside a gateway with traffic: about 25 seconds.
//!
//! Pictures of it are left in `target/screenshots`.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use browser::Browser;
use lab::cyclic::Exchange;
use lab::topology::RIGHT;
use lab::{Machine, PacketSocket, Plants, PlantsShape, Shape, Topology};
use perf::demo::cells::{self, CellChoice};
use perf::demo::pair::{Choice, Station};
use perf::demo::sites::{Sites, SitesChoice};
use report::{Counters, GatewayReport};

use super::http::{ADDRESS, HTTP, Whose, alerts_and_panels_name_metrics_that_exist, get, parse_metrics};
use super::{EXPERIMENT, lab, marked, program};

/// All counters on the page, as `[[group, [[name, figure], ...]], ...]`.
const SHOWN: &str = "[...document.querySelectorAll('.all section')].map((section) => [
    section.querySelector('h3').textContent,
    [...section.querySelectorAll('dd')].map((figure) =>
        [figure.dataset.counter, Number(figure.textContent.replaceAll(',', ''))])])";

/// Frames both ways, some of them to be discarded, while `work` is done.
fn with_traffic<T>(topology: &Topology, work: impl FnOnce() -> T) -> T {
    let stop = AtomicBool::new(false);
    let send = |from: &Machine, to: &Machine, octets: usize, pause: u64| {
        let sender = PacketSocket::open(&from.namespace, from.ifname).unwrap();
        let frame = marked(to.mac, from.mac, EXPERIMENT, octets, 1);
        while !stop.load(Ordering::Relaxed) {
            // A full queue is no matter here.
            let _ = sender.send(&frame);
            std::thread::sleep(Duration::from_micros(pause));
        }
    };
    let (a, b) = (&topology.machine_a, &topology.machine_b);
    std::thread::scope(|scope| {
        scope.spawn(|| send(a, b, 1200, 2_000));
        scope.spawn(|| send(b, a, 300, 5_000));
        scope.spawn(|| {
            let intruder = PacketSocket::open(&topology.middle, RIGHT).unwrap();
            let frame = marked(b.mac, a.mac, EXPERIMENT, 100, 2);
            while !stop.load(Ordering::Relaxed) {
                let _ = intruder.send(&frame);
                std::thread::sleep(Duration::from_millis(200));
            }
        });
        let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
        stop.store(true, Ordering::Relaxed);
        done.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// The groups of counters that a report has, as [`SHOWN`] reads them off the page.
fn groups(report: &GatewayReport) -> Vec<(String, Vec<(String, u64)>)> {
    let link = &report.links[0];
    let (plain, protected, secy) = (&link.plain, &link.protected, &link.secy);
    let mut groups = vec![
        (format!("plain port {}", plain.interface), rows(&plain.counters)),
        (format!("protected port {}", protected.interface), rows(&protected.counters)),
        ("SecY".to_owned(), rows(&secy.counters)),
        (format!("transmit SC {}", secy.transmit.sci), rows(&secy.transmit.counters)),
    ];
    groups.extend(secy.receive.iter().map(|sc| (format!("receive SC {}", sc.sci), rows(&sc.counters))));
    groups
}

/// Returns the path of a picture.
fn picture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("screenshots").join(name)
}

fn looks(browser: &mut Browser, name: &str) {
    for (width, height) in [(360, 780), (1280, 900)] {
        for scheme in ["light", "dark"] {
            browser.shape(width, height, scheme);
            browser.wait_for(&format!("innerWidth === {width}"));
            let wide = browser.value("document.documentElement.scrollWidth");
            assert!(wide.as_u64().unwrap() <= u64::from(width), "{wide} wide, of {width}");
            let word = if width < 600 { "phone" } else { "desktop" };
            browser.screenshot(&picture(&format!("{name}-{word}-{scheme}.png")));
        }
    }
}

#[test]
fn the_status_page_lives() {
    let choice = Choice { gateway: HTTP, link: "fragment = \"on\"", ..Choice::default() };
    let (topology, mut pair) = lab(&Shape { protected_mtu: 1500, ..Shape::default() }, &choice);
    let namespace = &topology.gateway_b.namespace;
    let mut browser = Browser::start(namespace, pair.scratch.path());
    browser.shape(1280, 900, "light");

    with_traffic(&topology, || {
        browser.open(&format!("http://{ADDRESS}/"));
        browser.wait_for("document.getElementById('live').textContent === 'live'");
        assert_eq!(browser.value("document.querySelector('h1').textContent"), "b");
        // The figures move, and the discards that the intruder causes are told in words, not by colour alone.
        let figure = |browser: &mut Browser| {
            let name = "document.querySelector('.all section dd[data-counter=TxFrames]').textContent";
            browser.value(name).as_str().unwrap().replace(',', "").parse::<u64>().unwrap()
        };
        let before = figure(&mut browser);
        browser.wait_for(&format!(
            "Number(document.querySelector('.all section dd[data-counter=TxFrames]').textContent.replaceAll(',', '')) > {before} + 50"
        ));
        browser.wait_for("document.querySelector('.link .pill').textContent === 'attention'");
        browser.wait_for("document.querySelector('[data-counter=InPktsNoTag]').innerText.includes('rising')");
        browser.wait_for("document.querySelector('[data-counter=InPktsNoTag]').innerText.includes('Discarded: without SecTAG.')");
        browser.wait_for("document.querySelector('.way.in .unit').textContent === 'Mbit/s'");
        // Some seconds of history, for the pictures.
        browser.wait_for(
            "document.querySelector('.way.in polyline').getAttribute('points').split(' ').length > 8",
        );
        looks(&mut browser, "status");
    });

    // Idle: what the page shows is what the gateway says, counter for counter.
    let end = std::time::Instant::now() + super::DEADLINE;
    loop {
        let report: GatewayReport = serde_json::from_str(&get(namespace, "/status")).unwrap();
        let shown: Vec<(String, Vec<(String, u64)>)> = serde_json::from_value(browser.value(SHOWN)).unwrap();
        if shown == groups(&report) {
            break;
        }
        assert!(std::time::Instant::now() < end, "{shown:#?}\ninstead of\n{:#?}", groups(&report));
        std::thread::sleep(Duration::from_millis(100));
    }
    assert_eq!(browser.complaints(), Vec::<String>::new());
    for url in browser.requests() {
        assert!(url.starts_with(&format!("http://{ADDRESS}/")) || url.starts_with("data:"), "{url}");
    }
    browser.wait_for("document.querySelector('.link .pill').textContent === 'protecting'");

    // The gateway goes, and comes back: both are told.
    pair.b.stop().unwrap();
    browser.wait_for("document.getElementById('live').textContent === 'no answer'");
    browser.wait_for("document.getElementById('stale').innerText.includes('seconds old')");
    browser.wait_for("document.body.classList.contains('old')");
    browser.screenshot(&picture("status-stale.png"));
    pair.b = Station::start(program(), namespace, &pair.scratch, "b").unwrap();
    browser.wait_for("document.getElementById('live').textContent === 'live'");
    browser.wait_for("document.getElementById('stale').hidden && !document.body.classList.contains('old')");
    pair.stop().unwrap();
}

/// Members of a key agreement stand on the card; and its metrics are OpenMetrics.
#[test]
fn key_agreement_has_its_place() {
    let group = super::mka::Group::new();
    group.cak("line.cak", "line");
    let [a, b] = group.pair_with(HTTP, "cak_file = \"line.cak\"\nrekey = \"1h\"");
    group.ping();
    let namespace = &group.topology.gateway_a.namespace;
    let mut browser = Browser::start(namespace, group.scratch.path());
    browser.shape(1280, 900, "light");
    browser.open(&format!("http://{ADDRESS}/"));
    browser.wait_for("document.querySelector('.link .pill').textContent === 'protecting'");
    for words in [
        "key server\\nthis box",
        "Member 02:00:00:00:00:b3/1 \"",
        "named by itself",
        "live",
        "on, concatenate on",
        "SAK, AN",
        "protects",
        "in 00:5",
    ] {
        browser.wait_for(&format!("document.querySelector('.agreed').innerText.includes('{words}')"));
    }
    browser.wait_for("document.querySelector('.changes').innerText.includes('is live')");
    for width in [360, 1280] {
        browser.shape(width, 900, "light");
        browser.wait_for(&format!("innerWidth === {width}"));
        let wide = browser.value("document.documentElement.scrollWidth").as_u64().unwrap();
        assert!(wide <= u64::from(width), "{wide} wide, of {width}");
    }
    browser.screenshot(&picture("status-mka.png"));
    let report: GatewayReport = serde_json::from_str(&get(namespace, "/status")).unwrap();
    let ki = &report.links[0].mka.as_ref().unwrap().saks[0].ki;
    browser.wait_for(&format!("document.querySelector('.agreed').innerText.includes('{ki}')"));
    assert_eq!(browser.complaints(), Vec::<String>::new());
    let samples = parse_metrics(&group.scratch, &get(namespace, "/metrics"));
    alerts_and_panels_name_metrics_that_exist(&samples, Whose::KeyAgreement);
    for (name, expected) in [("secured", 1), ("live_peers", 1), ("is_key_server", 1), ("fragment", 1)] {
        assert_eq!(samples[&format!("frameward_mka_{name}")][0].1, expected, "{name}");
    }
    drop(browser);
    for station in [a, b] {
        station.stop().unwrap();
    }
}

/// A site's card: what the site says, counter for counter, its peers and stations; and its metrics are OpenMetrics.
#[test]
fn a_site_has_its_card() {
    let plants = Plants::build(&PlantsShape::default()).unwrap();
    let sites =
        Sites::start(program(), &plants, &SitesChoice { gateway: HTTP, ..SitesChoice::default() }).unwrap();
    super::sites::all_up(&sites);
    let [one, two] = &plants.plants[..] else { panic!("two plants") };
    let (a, b) = (&one.stations[0].machine, &two.stations[0].machine);
    for seed in 0..20 {
        super::sites::both_ways(a, b, seed);
    }
    let mut browser = Browser::start(&one.site, sites.scratch.path());
    browser.shape(1280, 900, "light");
    browser.open(&format!("http://{ADDRESS}/"));
    browser.wait_for("document.getElementById('live').textContent === 'live'");
    browser.wait_for(
        "document.querySelector('[aria-label=\"site plant-1\"] .pill').textContent === 'protecting'",
    );
    browser.wait_for("document.querySelector('.peers').innerText.includes('Peer plant-2')");
    browser.wait_for("document.querySelector('.peers').innerText.includes('connected for')");
    browser.wait_for("document.querySelector('.stations').innerText.includes('behind plant-2')");
    browser.wait_for("document.querySelector('.way.out .unit').textContent !== ''");
    // The channel keeps alive, so some figures move: equal in one of several looks.
    let end = std::time::Instant::now() + super::DEADLINE;
    loop {
        let report: GatewayReport = serde_json::from_str(&get(&one.site, "/status")).unwrap();
        let shown: Vec<(String, Vec<(String, u64)>)> = serde_json::from_value(browser.value(SHOWN)).unwrap();
        let site = &report.sites[0];
        let said: Vec<_> = site.groups().into_iter().map(|(_, _, counters)| rows(counters)).collect();
        if shown.iter().map(|(_, rows)| rows).eq(&said) {
            assert_eq!(shown[0].0, "LAN lan");
            break;
        }
        assert!(std::time::Instant::now() < end, "{shown:#?}\ninstead of\n{said:#?}");
        std::thread::sleep(Duration::from_millis(100));
    }
    browser.screenshot(&picture("status-site.png"));
    assert_eq!(browser.complaints(), Vec::<String>::new());
    let samples = parse_metrics(&sites.scratch, &get(&one.site, "/metrics"));
    alerts_and_panels_name_metrics_that_exist(&samples, Whose::Sites);
    for name in ["frameward_site_peer_out_pkts_tunnelled_total", "frameward_site_udp_rx_packets_total"] {
        assert!(samples[name].iter().any(|(_, value)| *value >= 20), "{name}: {:?}", samples[name]);
    }
    drop(browser);
    sites.stop().unwrap();
}

/// A cell's relations on a link's card: how each of them is, counter for counter, and loudly what passes in clear; and its
/// metrics are OpenMetrics, which the alerts for cells are made of.
#[test]
fn a_cell_has_its_relations_on_the_card() {
    let topology = Topology::build(&Shape { protected_mtu: 1500, ..Shape::default() }).unwrap();
    // Long enough a watchdog for a debug build on a busy machine.
    let mut choice = CellChoice::new(&topology, 3, Duration::from_millis(20));
    (choice.gateway, choice.cell) = (HTTP, "watchdog = 100");
    choice.relations[1].1 = "shadow";
    let mut pair = cells::start(program(), &topology, &choice).unwrap();
    cells::secured(&pair).unwrap();
    let namespace = &topology.gateway_a.namespace;
    let mut browser = Browser::start(namespace, pair.scratch.path());
    browser.shape(1280, 900, "light");
    browser.open(&format!("http://{ADDRESS}/"));
    browser.wait_for("document.getElementById('live').textContent === 'live'");
    let tile = |number: usize, words: &str| {
        format!("document.querySelectorAll('.relations .tile')[{number}].innerText.includes('{words}')")
    };
    for (number, words) in [(0, "in session, no frame yet"), (1, "IN CLEAR"), (2, "key out")] {
        browser.wait_for(&tile(number, words));
    }
    let exchange = Exchange::start(&topology.machine_a, &topology.machine_b, &choice.exchanged()).unwrap();
    exchange.wait_for(20, super::DEADLINE).unwrap();
    for (number, words) in [
        (0, "protected"),
        (0, "running"),
        (0, "p99.9"),
        (0, "of 2000\\u00a0ms"),
        (1, "shadow: frames pass IN CLEAR"),
        (2, "protected"),
    ] {
        browser.wait_for(&tile(number, words));
    }
    browser.wait_for(
        "document.querySelector('.relations .tile').innerText.includes('02:00:00:00:01:01 0xbb01')",
    );
    // Loud: a banner, the relation's own pill, the link's, and its reason.
    browser.wait_for("!document.querySelector('.fieldbus .banner').hidden && document.querySelector('.fieldbus .banner').innerText.includes('1 of 3 relations pass in clear')");
    browser.wait_for("document.querySelectorAll('.relations .pill.bad').length === 1");
    browser.wait_for("document.querySelector('.link .pill').textContent === 'not protecting'");
    browser.wait_for("document.querySelector('.reasons').innerText.includes('is in shadow mode')");
    looks(&mut browser, "status-fieldbus");
    exchange.stop().unwrap();

    // Nothing comes any more: each relation has its alarm, and says that it is silent.
    for number in [0, 2] {
        browser.wait_for(&tile(number, "silent for longer than its watchdog"));
        browser.wait_for(&format!(
            "/alarms\\s+[1-9]/.test(document.querySelectorAll('.relations .tile')[{number}].innerText)"
        ));
    }
    browser.wait_for("document.querySelectorAll('.relations .pill.warn').length === 2");
    let end = std::time::Instant::now() + super::DEADLINE;
    loop {
        let report: GatewayReport = serde_json::from_str(&get(namespace, "/status")).unwrap();
        let shown: Vec<(String, Vec<(String, u64)>)> = serde_json::from_value(browser.value(SHOWN)).unwrap();
        let cell = cells::only_cell(&report).unwrap();
        let said: Vec<_> = cell.groups().into_iter().map(|(_, name, of)| (name, rows(of))).collect();
        if said.iter().all(|group| shown.contains(group)) {
            assert_eq!(said.len(), 2 + 2 * 3);
            break;
        }
        assert!(std::time::Instant::now() < end, "{shown:#?}\ninstead of\n{said:#?}");
        std::thread::sleep(Duration::from_millis(100));
    }
    assert_eq!(browser.complaints(), Vec::<String>::new());
    let samples = parse_metrics(&pair.scratch, &get(namespace, "/metrics"));
    alerts_and_panels_name_metrics_that_exist(&samples, Whose::Cells);
    for (name, expected) in [("relations", 3), ("relations_in_shadow", 1), ("relations_without_session", 0)] {
        assert_eq!(samples[&format!("frameward_fieldbus_{name}")][0].1, expected, "{name}");
    }
    // The log says it, and that they are back.
    pair.a.program().wait_for_line("fieldbus \"cell-4\": no verified frame", super::DEADLINE).unwrap();
    let exchange = Exchange::start(&topology.machine_a, &topology.machine_b, &choice.exchanged()).unwrap();
    browser.wait_for("document.querySelectorAll('.relations .pill.good').length === 2");
    let back = "verified frames of all relations come again";
    pair.a.program().wait_for_line(back, super::DEADLINE).unwrap();
    exchange.stop().unwrap();
    drop(browser);
    pair.stop().unwrap();
}

fn rows(counters: &Counters) -> Vec<(String, u64)> {
    counters.iter().map(|(name, value)| (name.to_owned(), value)).collect()
}
