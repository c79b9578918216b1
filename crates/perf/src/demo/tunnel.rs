//! `demo tunnel`: two plants whose machines speak MACsec, joined over the internet, shown on this machine.
//!
//! ```text
//!  machine ── station ── LAN ── SITE ~~ line ~~ internet ~~ line ~~ SITE ── LAN ── station ── machine
//!             frameward         frameward      (a router)          frameward      frameward
//! ```
//!
//! Each box is a network namespace. The stations are link gateways: they encrypt between themselves, and know nothing of
//! the tunnel. The sites carry what they send, and add no encryption to it but that of the headers. Once all frames go through user space,
//! and once those of known flows stay in the kernel: then the wires take redirected frames. The steps, each of
//! which fails the demo if it fails: pings with the largest frames that go unsplit; TCP both ways; all of it watched on
//! the internet, where no address and no SCI of a station may be found; then throughput and round trips without the
//! watcher, the sites' own figures, and a stop that must leave the interfaces as they were.

use std::path::Path;
use std::time::{Duration, Instant};

use lab::plants::{BARE, LAN};
use lab::topology::{LEFT, PLAIN, PROTECTED};
use lab::traffic::{self, Ip, MARKER, Until};
use lab::{Capture, Captured, Machine, Plants, PlantsShape};

use super::sites::{Sites, SitesChoice};
use super::{DemoError, Say, trips_line, value};
use report::GatewayReport;
use report::site::{SitePeerReport, SiteReport};

/// Limit on the time that sites take to find each other, and the kernel to take an ended process's sockets away.
const PATIENCE: Duration = Duration::from_secs(60);
/// Payload of a machine's largest ping: its MTU of 1438, without 28 octets of IP and ICMP.
const PING_OCTETS: u16 = 1410;

/// Shows two sites, each running the program `frameward`, with a station in each LAN. Takes about 40 seconds.
///
/// # Errors
/// The first thing that is not as it should be. Nothing is left behind.
pub fn tunnel(frameward: &Path, say: Say<'_>) -> Result<(), DemoError> {
    lab::require_root()?;
    say(
        &"machine 1 ── station 1 ── LAN ── site 1 ~~ routed internet ~~ site 2 ── LAN ── station 2 ── machine 2",
    );
    say(&"path MTU 1500 - IPv4 20 - UDP 8 - header 16 = LAN MTU 1470 unsplit, machines' MTU 1438");
    shown(frameward, &Plants::build(&PlantsShape::default())?, say)?;
    // If the kernel does not take the programs, the line `frame path` says why, and the rest is as before.
    shown(frameward, &redirecting()?, say)
}

/// Plants whose wires to the sites take redirected frames: of a veth the other end needs NAPI, which `gro` gives it.
fn redirecting() -> Result<Plants, DemoError> {
    let plants = Plants::build(&PlantsShape::default())?;
    for plant in &plants.plants {
        plant.lan.run(&["ethtool", "-K", BARE, "gro", "on"])?;
        if let Some(line) = &plant.line {
            line.run(&["ethtool", "-K", LEFT, "gro", "on"])?;
        }
    }
    Ok(plants)
}

/// Sites from their start to their stop, in these plants.
fn shown(frameward: &Path, plants: &Plants, say: Say<'_>) -> Result<(), DemoError> {
    let before = interfaces(plants)?;
    let started = Instant::now();
    let sites = Sites::start(frameward, plants, &SitesChoice::default())?;
    connected(&sites)?;
    let report = sites.sites[0].report()?;
    let site = only_site(&report)?;
    say(&"");
    say(&format_args!(
        "  sites       {}, identifier mode, connected {:.1} s after the first start",
        site.lan.engine,
        started.elapsed().as_secs_f64()
    ));
    let path = site.peers.first().and_then(|peer| peer.path.as_deref()).unwrap_or("user space");
    say(&format_args!("  frame path  of known flows: {path}"));
    watched(plants, &sites, say)?;
    measured(plants, say)?;
    figures(&sites, say)?;
    sites.stop()?;
    restored(plants, &before)?;
    say(&"  stopped     all gateways; their interfaces are restored");
    Ok(())
}

/// Waits until both sites have keys of each other, and the path is probed.
fn connected(sites: &Sites) -> Result<(), DemoError> {
    let end = Instant::now() + PATIENCE;
    loop {
        let reports: Result<Vec<_>, _> = sites.sites.iter().map(|site| site.report()).collect();
        let reports = reports?;
        let is_up = |peer: &SitePeerReport| {
            peer.state == "connected"
                && peer.transmit_epoch.is_some()
                && peer.path_payload.is_some_and(|octets| octets >= 1472)
        };
        let peers = || reports.iter().flat_map(|report| &report.sites).flat_map(|site| &site.peers);
        if peers().all(is_up) {
            return Ok(());
        }
        if Instant::now() >= end {
            let states: Vec<_> = peers()
                .map(|peer| format!("{} {} {} {:?}", peer.name, peer.state, peer.reason, peer.path_payload))
                .collect();
            return Err(DemoError::Seen(format!("the sites do not find each other: {}", states.join("; "))));
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn machines(plants: &Plants) -> Result<[&Machine; 2], DemoError> {
    match plants.plants.as_slice() {
        [one, two] => Ok([&one.stations[0].machine, &two.stations[0].machine]),
        _ => Err(DemoError::Seen("there are two plants".into())),
    }
}

/// Traffic under the eyes of the internet.
fn watched(plants: &Plants, sites: &Sites, say: Say<'_>) -> Result<(), DemoError> {
    let [a, b] = machines(plants)?;
    let line = plants.plants[0].line.as_ref();
    let line = line.ok_or_else(|| DemoError::Seen("there is no line to watch".into()))?;
    let internet = Capture::start(line, LEFT)?;
    let lan = Capture::start(&plants.plants[1].lan, BARE)?;
    let machine = Capture::start(&b.namespace, b.ifname)?;
    let ping = traffic::ping(a, b, Ip::V4, 20, PING_OCTETS)?;
    say(&format_args!("  ping        1438 octets of IP, not to be fragmented: {}", ping.summary));
    for (from, to, way) in [(a, b, "1 to 2"), (b, a, "2 to 1")] {
        let transfer = traffic::tcp(from, to, Ip::V4, Until::Octets(8_000_000))?;
        say(&format_args!("  TCP         {} octets {way}, every one compared", transfer.octets));
    }
    let tunnelled = tunnelled(sites)?;
    let (internet, lan) = (internet.stop()?.complete()?, lan.stop()?.complete()?);
    let machine = machine.stop()?.complete()?;
    unseen(plants, &internet, &lan, &machine)?;
    say(&format_args!(
        "  capture     {} packets on the internet for {tunnelled} frames: no MAC address and no SCI of a station in any, none with the plaintext that the machines see",
        internet.frames.len()
    ));
    Ok(())
}

/// Frames that the sites have sent to each other so far.
fn tunnelled(sites: &Sites) -> Result<u64, DemoError> {
    let mut sum = 0;
    for gateway in &sites.sites {
        let report = gateway.report()?;
        sum += only_site(&report)?
            .peers
            .iter()
            .map(|peer| value(&peer.counters, "OutPktsTunnelled"))
            .sum::<u64>();
    }
    Ok(sum)
}

/// Looks for what must not be on the internet, and for the same where it must be.
fn unseen(plants: &Plants, internet: &Captured, lan: &Captured, machine: &Captured) -> Result<(), DemoError> {
    for plant in &plants.plants {
        for (number, station) in (1..).zip(&plant.stations) {
            let sci = [2, 0, 0, 0, plant.number, number, 0, 1];
            for (what, octets) in [("MAC address", &station.machine.mac[..]), ("SCI", &sci[..])] {
                if internet.find(octets).is_some() {
                    return Err(DemoError::Seen(format!("the {what} of a station is on the internet")));
                }
                if lan.find(octets).is_none() {
                    return Err(DemoError::Seen(format!(
                        "the {what} of a station was not found in its LAN either"
                    )));
                }
            }
        }
    }
    if internet.find(MARKER).is_some() {
        return Err(DemoError::Seen("plaintext is on the internet".into()));
    }
    if machine.find(MARKER).is_none() {
        return Err(DemoError::Seen("the plaintext marker was not found at the machine either".into()));
    }
    Ok(())
}

/// Throughput and round trips, without a capture.
fn measured(plants: &Plants, say: Say<'_>) -> Result<(), DemoError> {
    let [a, b] = machines(plants)?;
    for (from, to, way) in [(a, b, "1 to 2"), (b, a, "2 to 1")] {
        let transfer = traffic::tcp(from, to, Ip::V4, Until::Elapsed(Duration::from_secs(2)))?;
        say(&format_args!("  throughput  {:.0} Mbit/s of TCP {way}", transfer.megabits_per_second()));
    }
    for octets in [64, PING_OCTETS] {
        let trips = traffic::round_trips(a, b, Ip::V4, octets.into(), 1000)?;
        say(&format_args!("  round trip  {octets} octets of UDP: {}", trips_line(&trips)?));
    }
    Ok(())
}

/// Counters of the sites. Nothing may have been discarded but what queues under full load lose.
fn figures(sites: &Sites, say: Say<'_>) -> Result<(), DemoError> {
    for gateway in &sites.sites {
        let report = gateway.report()?;
        let site = only_site(&report)?;
        let peer =
            site.peers.first().ok_or_else(|| DemoError::Seen(format!("site {} has no peer", site.name)))?;
        let count = |name| value(&peer.counters, name);
        say(&format_args!(
            "  counters    {} to {}: OutPktsTunnelled {}, OutPktsLongForm {}, OutPktsSplit {}, InPktsTunnelled {}",
            site.name,
            peer.name,
            count("OutPktsTunnelled"),
            count("OutPktsLongForm"),
            count("OutPktsSplit"),
            count("InPktsTunnelled")
        ));
        say(&format_args!(
            "              round trip {} us, epoch {}, flows {} out and {} in, stations {}",
            peer.round_trip_us.unwrap_or_default(),
            peer.transmit_epoch.map_or(0, |epoch| epoch.epoch),
            peer.flows_acknowledged,
            peer.peer_flows,
            site.stations.len()
        ));
        // Before its flow is known at the other end, a full frame is 32 octets too long for one packet.
        if count("OutPktsSplit") > count("OutPktsLongForm") {
            return Err(DemoError::Seen(format!("{}: known flows are split", site.name)));
        }
        let forged = ["InPktsForgedHeader", "InPktsForgedLongForm"];
        for name in
            [&forged[..], &["InPktsUnknownFlow", "InPktsBadHeader", "InPktsNotValid", "InPartsExpired"]]
                .concat()
        {
            if count(name) != 0 {
                return Err(DemoError::Seen(format!("{}: {name} is {}", site.name, count(name))));
            }
        }
    }
    Ok(())
}

fn only_site(report: &GatewayReport) -> Result<&SiteReport, DemoError> {
    report.sites.first().ok_or_else(|| DemoError::Seen(format!("gateway {} reports no site", report.name)))
}

/// The gateways' interfaces: state, offloads and XDP programs.
fn interfaces(plants: &Plants) -> Result<String, DemoError> {
    let mut text = String::new();
    for plant in &plants.plants {
        let stations = plant.stations.iter().map(|station| &station.gateway.namespace);
        let sides = stations.flat_map(|namespace| [(namespace, PLAIN), (namespace, PROTECTED)]);
        for (namespace, interface) in sides.chain([(&plant.site, LAN)]) {
            text += &namespace.ip(&["-d", "link", "show", interface])?.stdout;
            text += &namespace.run(&["ethtool", "-k", interface])?.stdout;
        }
    }
    Ok(text)
}

/// The kernel takes an ended process's sockets and programs away a moment after its end.
fn restored(plants: &Plants, before: &str) -> Result<(), DemoError> {
    for _ in 0..50 {
        if interfaces(plants)? == before {
            return Ok(());
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Err(DemoError::Seen("a gateway did not restore its interfaces".into()))
}
