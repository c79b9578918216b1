//! `demo`: the main job, shown on this machine with real traffic.
//!
//! ```text
//!  machine A ── gateway A ~~ insecure network ~~ gateway B ── machine B          five network namespaces
//!               frameward                        frameward                       the real program, twice
//! ```
//!
//! The steps, each of which fails the demo if it fails: ping with full-size frames; PROFINET-like cyclic data; TCP
//! both ways; all of it watched on the insecure network, where every frame must be MACsec and none may hold the
//! plaintext that the machines do see; then throughput and round trips without the watcher, which costs as much
//! CPU as the gateways; at last the gateways' own counters, and a stop that must leave the interfaces as they were.

pub mod cells;
mod fieldbus;
pub mod pair;
pub mod sites;
mod tunnel;

use std::fmt::Display;
use std::path::Path;
use std::time::Duration;

use lab::topology::{LEFT, PLAIN, PROTECTED};
use lab::traffic::{self, Cyclic, Ip, MARKER, RoundTrips, Until};
use lab::{Capture, Namespace, Shape, Topology};
use wire::EtherType;

pub use fieldbus::fieldbus;
use pair::{Choice, Pair, PairError, Scratch};
use report::{Counters, GatewayReport, LinkReport};
pub use tunnel::tunnel;

/// Receiver of a demo's lines.
type Say<'s> = &'s mut dyn FnMut(&dyn Display);

/// Why a demo failed.
#[derive(Debug, thiserror::Error)]
pub enum DemoError {
    /// The gateways failed.
    #[error(transparent)]
    Pair(#[from] PairError),
    /// The laboratory failed, or traffic did not arrive.
    #[error(transparent)]
    Lab(#[from] lab::Error),
    /// Something was seen that must not be.
    #[error("{0}")]
    Seen(String),
}

/// Addition to the link's default configuration: full-size frames have to fit a network of 1500 octets.
const FRAGMENT: &str = "fragment = \"on\"\nconcatenate = \"on\"";

/// Shows a link between two gateways, each running the program `frameward`. Takes about 20 seconds.
///
/// # Errors
/// The first thing that is not as it should be. Nothing is left behind.
pub fn link(frameward: &Path, say: Say<'_>) -> Result<(), DemoError> {
    lab::require_root()?;
    say(&"machine A ── gateway A ~~ insecure 1500-octet network ~~ gateway B ── machine B");
    say(&"");
    let shape = Shape { protected_mtu: 1500, ..Shape::default() };
    let topology = Topology::build(&shape)?;
    let before = interfaces(&topology)?;
    let pair = Pair::start(frameward, &topology, &Choice { link: FRAGMENT, ..Choice::default() })?;
    let about = pair.a.report()?;
    let link = only_link(&about)?;
    say(&format_args!(
        "  gateways    {}, {}, MTU {} on the network and {} on the machines",
        link.plain.engine, link.secy.suite, link.protected.mtu, link.plain.mtu
    ));
    watched(&topology, &pair, say)?;
    measured(&topology, say)?;
    counters(&pair, say)?;
    pair.stop()?;
    restored(&topology, &before)?;
    say(&"  stopped     both gateways; their interfaces are restored");
    Ok(())
}

/// Removes what a demo of this process has made, if it is interrupted: the gateways, the namespaces, the keys.
pub fn abandon() {
    Namespace::remove_own();
    Scratch::remove_own();
}

/// Traffic under the eyes of the insecure network.
fn watched(topology: &Topology, pair: &Pair, say: Say<'_>) -> Result<(), DemoError> {
    let (a, b) = (&topology.machine_a, &topology.machine_b);
    let wire = Capture::start(&topology.middle, LEFT)?;
    let machine = Capture::start(&b.namespace, b.ifname)?;
    let ping = traffic::ping(a, b, Ip::V4, 20, 1472)?;
    say(&format_args!("  ping        1500 octets of IP, not to be fragmented: {}", ping.summary));
    let cycle = Duration::from_millis(1);
    let cyclic = traffic::cyclic(a, b, cycle, 2000, 40)?;
    say(&format_args!("  PROFINET    {}", cyclic_line(&cyclic, cycle)?));
    for (from, to, way) in [(a, b, "A to B"), (b, a, "B to A")] {
        let transfer = traffic::tcp(from, to, Ip::V4, Until::Octets(16_000_000))?;
        say(&format_args!("  TCP         {} octets {way}, every one compared", transfer.octets));
    }
    let sent = sent_frames(&pair.a.report()?)? + sent_frames(&pair.b.report()?)?;
    let (wire, machine) = (wire.stop()?.complete()?, machine.stop()?.complete()?);
    let marked = machine.frames.iter().filter(|frame| frame.contains(MARKER)).count();
    if marked == 0 {
        return Err(DemoError::Seen("the plaintext marker was not found at the machine either".into()));
    }
    let seen = wire.frames.len();
    if (seen as u64) < sent {
        return Err(DemoError::Seen(format!("the gateways sent {sent} frames, and {seen} were captured")));
    }
    if !wire.all_ethertype(EtherType::MACSEC.0) {
        return Err(DemoError::Seen("a frame on the insecure network is not MACsec".into()));
    }
    if wire.find(MARKER).is_some() {
        return Err(DemoError::Seen("plaintext is on the insecure network".into()));
    }
    say(&format_args!(
        "  capture     {seen} frames on the insecure network, all MACsec, none with the plaintext that {marked} frames at machine B hold"
    ));
    Ok(())
}

fn cyclic_line(cyclic: &Cyclic, cycle: Duration) -> Result<String, DemoError> {
    let Cyclic { sent, received, out_of_order, jitter } = cyclic;
    if (received, *out_of_order) != (sent, 0) {
        return Err(DemoError::Seen(format!(
            "of {sent} cyclic frames {received} arrived, {out_of_order} of them out of order"
        )));
    }
    Ok(format!(
        "{sent} cyclic frames every {cycle:?}, none lost, jitter p50 {:.0} us, p99 {:.0} us",
        jitter.value_at_percentile(50.0) as f64 / 1e3,
        jitter.value_at_percentile(99.0) as f64 / 1e3,
    ))
}

/// Throughput and round trips, without a capture.
fn measured(topology: &Topology, say: Say<'_>) -> Result<(), DemoError> {
    let (a, b) = (&topology.machine_a, &topology.machine_b);
    for (from, to, way) in [(a, b, "A to B"), (b, a, "B to A")] {
        let transfer = traffic::tcp(from, to, Ip::V4, Until::Elapsed(Duration::from_secs(2)))?;
        say(&format_args!("  throughput  {:.0} Mbit/s of TCP {way}", transfer.megabits_per_second()));
    }
    for octets in [64, 1472] {
        let trips = traffic::round_trips(a, b, Ip::V4, octets, 2000)?;
        say(&format_args!("  round trip  {octets} octets of UDP: {}", trips_line(&trips)?));
    }
    Ok(())
}

fn trips_line(trips: &RoundTrips) -> Result<String, DemoError> {
    if trips.lost() > 0 {
        return Err(DemoError::Seen(format!(
            "{} of {} datagrams did not come back",
            trips.lost(),
            trips.sent
        )));
    }
    let microseconds = |percent| trips.percentile(percent).as_secs_f64() * 1e6;
    Ok(format!(
        "p50 {:.0} us, p99 {:.0} us, p99.9 {:.0} us of {}",
        microseconds(50.0),
        microseconds(99.0),
        microseconds(99.9),
        trips.sent
    ))
}

/// Counters of the gateways. Nothing may have been discarded but the machines' neighbours' noise, of which there is
/// none on this network.
fn counters(pair: &Pair, say: Say<'_>) -> Result<(), DemoError> {
    let reports = [pair.a.report()?, pair.b.report()?];
    let [a, b] = [only_link(&reports[0])?, only_link(&reports[1])?];
    for (sender, receiver, way) in [(a, b, "A to B"), (b, a, "B to A")] {
        let sent = value(&sender.secy.transmit.counters, "OutPktsEncrypted");
        let peer = receiver.secy.receive.first();
        let received = peer.map_or(0, |sc| value(&sc.counters, "InPktsOK"));
        say(&format_args!(
            "  counters    {way}: OutPktsEncrypted {sent}, InPktsOK {received}, lost on the way {}",
            sent.saturating_sub(received)
        ));
        say(&format_args!(
            "              OutSdusFragmented {}, OutSdusConcatenated {}, InSdusReassembled {}, InSdusSeparated {}",
            value(&sender.secy.counters, "OutSdusFragmented"),
            value(&sender.secy.counters, "OutSdusConcatenated"),
            peer.map_or(0, |sc| value(&sc.counters, "InSdusReassembled")),
            peer.map_or(0, |sc| value(&sc.counters, "InSdusSeparated"))
        ));
        for (name, count) in
            receiver.secy.counters.iter().chain(peer.into_iter().flat_map(|sc| sc.counters.iter()))
        {
            // A lost frame leaves the other piece of its SDU alone.
            let expected = ["InPktsOK", "InOctetsDecrypted", "InSdusReassembled", "InSdusSeparated"]
                .contains(&name)
                || name.starts_with("Out")
                || (received < sent && name.starts_with("InPieces"));
            if count > 0 && !expected {
                return Err(DemoError::Seen(format!("{way}: {name} is {count}")));
            }
        }
        // TCP at full speed overruns queues between the boxes; what is gone there is counted nowhere else.
        if received > sent {
            return Err(DemoError::Seen(format!("{way}: {received} frames arrived of {sent}")));
        }
    }
    Ok(())
}

/// Frames that a gateway has protected so far.
fn sent_frames(report: &GatewayReport) -> Result<u64, DemoError> {
    Ok(value(&only_link(report)?.secy.transmit.counters, "OutPktsEncrypted"))
}

fn only_link(report: &GatewayReport) -> Result<&LinkReport, DemoError> {
    report.links.first().ok_or_else(|| DemoError::Seen(format!("gateway {} reports no link", report.name)))
}

fn value(counters: &Counters, name: &str) -> u64 {
    counters.iter().find(|(known, _)| *known == name).map_or(0, |(_, value)| value)
}

/// The gateways' interfaces: state, offloads and XDP programs.
fn interfaces(topology: &Topology) -> Result<String, DemoError> {
    let look = |namespace: &Namespace| {
        let mut text = String::new();
        for interface in [PLAIN, PROTECTED] {
            text += &namespace.ip(&["-d", "link", "show", interface])?.stdout;
            text += &namespace.run(&["ethtool", "-k", interface])?.stdout;
        }
        Ok::<_, lab::Error>(text)
    };
    Ok(look(&topology.gateway_a.namespace)? + &look(&topology.gateway_b.namespace)?)
}

/// The kernel takes an ended process's sockets and programs away a moment after its end.
fn restored(topology: &Topology, before: &str) -> Result<(), DemoError> {
    for _ in 0..50 {
        if interfaces(topology)? == before {
            return Ok(());
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Err(DemoError::Seen("a gateway did not restore its interfaces".into()))
}
