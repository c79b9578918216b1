//! `demo fieldbus`: a PLC and its devices exchange IO data every millisecond through two gateways.
//!
//! ```text
//!  PLC ── gateway A ~~ insecure network ~~ gateway B ── 8 devices          five network namespaces
//! ```
//!
//! Once in user space, with the default suite, and once in the kernel, with ChaCha20-Poly1305.
//!
//! The steps, each of which fails the demo if it fails: every relation has a session; IO data both ways, every frame
//! accounted for, while the network is watched: nothing but protected frames and MACsec, and none with the plaintext that
//! the machines see; a ping, which is of no relation, through the link's MACsec; the live figures of both gateways; a
//! gateway that is started again in mid-cycle; a stop that leaves the interfaces as they were.

use std::path::Path;
use std::time::Duration;

use lab::cyclic::{Arrivals, Exchange, no_times};
use lab::topology::LEFT;
use lab::traffic::{self, Ip, MARKER};
use lab::{Capture, Shape, Topology};
use wire::EtherType;
use wire::fieldbus::ETHERTYPE;

use super::cells::{CellChoice, only_cell, redirecting, secured, start};
use super::pair::{Pair, Station};
use super::{DemoError, Say, interfaces, restored};
use report::cell::{CellReport, HistogramReport};

const DEVICES: u8 = 8;
const CYCLE: Duration = Duration::from_millis(1);
/// Frames of each relation and direction.
const FRAMES: u64 = 3000;
const LIMIT: Duration = Duration::from_secs(20);

/// Shows a cell between two gateways, each running the program `frameward`. Takes about 20 seconds.
///
/// # Errors
/// The first thing that is not as it should be. Nothing is left behind.
pub fn fieldbus(frameward: &Path, say: Say<'_>) -> Result<(), DemoError> {
    lab::require_root()?;
    say(&"PLC ── gateway A ~~ insecure 1500-octet network ~~ gateway B ── 8 devices");
    let shape = Shape { protected_mtu: 1500, ..Shape::default() };
    shown(frameward, Topology::build(&shape)?, "", say)?;
    // If the kernel does not take the programs, the line `frame path` says why, and the rest is as before.
    shown(frameward, redirecting(&shape)?, "suite = \"chacha20-poly1305\"", say)
}

/// One cell from its start to its stop, with these further settings, in this network.
fn shown(frameward: &Path, topology: Topology, cell: &'static str, say: Say<'_>) -> Result<(), DemoError> {
    let before = interfaces(&topology)?;
    let choice = CellChoice { cell, ..CellChoice::new(&topology, DEVICES, CYCLE) };
    let pair = start(frameward, &topology, &choice)?;
    secured(&pair)?;
    let report = pair.a.report()?;
    let cell = only_cell(&report)?;
    say(&"");
    say(&format_args!(
        "  gateways    {} relations of {CYCLE:?}, {}, {}; master key {}",
        cell.relations.len(),
        cell.suite,
        cell.protect,
        cell.master_key
    ));
    say(&format_args!("  frame path  {}", cell.path));
    watched(&topology, &pair, &choice, say)?;
    let pair = restarted(frameward, &topology, pair, &choice, say)?;
    pair.stop()?;
    restored(&topology, &before)?;
    say(&"  stopped     both gateways; their interfaces are restored");
    Ok(())
}

/// IO data under the eyes of the insecure network.
fn watched(topology: &Topology, pair: &Pair, choice: &CellChoice, say: Say<'_>) -> Result<(), DemoError> {
    let (a, b) = (&topology.machine_a, &topology.machine_b);
    let wire = Capture::start(&topology.middle, LEFT)?;
    let machine = Capture::start(&b.namespace, b.ifname)?;
    let exchange = Exchange::start(a, b, &choice.exchanged())?;
    exchange.wait_for(FRAMES, LIMIT)?;
    let ping = traffic::ping(a, b, Ip::V4, 10, 1000)?;
    let heard = exchange.stop()?;
    say(&format_args!("  IO data     {}", exchanged(&heard)?));
    say(&format_args!("  the rest    through the link's MACsec, such as a ping: {}", ping.summary));
    figures(pair, say)?;
    let (wire, machine) = (wire.stop()?.complete()?, machine.stop()?.complete()?);
    let marked = machine.frames.iter().filter(|frame| frame.contains(MARKER)).count();
    if marked == 0 {
        return Err(DemoError::Seen("the plaintext marker was not found at the devices either".into()));
    }
    let known = [ETHERTYPE.0, EtherType::MACSEC.0];
    if let Some(other) =
        wire.frames.iter().find(|frame| !frame.ethertype().is_some_and(|of| known.contains(&of)))
    {
        return Err(DemoError::Seen(format!(
            "a frame of EtherType {:04x?} is on the insecure network",
            other.ethertype()
        )));
    }
    if wire.find(MARKER).is_some() {
        return Err(DemoError::Seen("plaintext is on the insecure network".into()));
    }
    let protected = wire.of_ethertype(ETHERTYPE.0).count() as u64;
    let sent: u64 = heard.iter().flatten().map(|heard| heard.sent).sum();
    if protected < sent {
        return Err(DemoError::Seen(format!(
            "{sent} cyclic frames were sent, and {protected} were captured"
        )));
    }
    say(&format_args!(
        "  capture     {protected} protected frames and {} of MACsec on the insecure network, none with the plaintext that {marked} frames at the devices hold",
        wire.of_ethertype(EtherType::MACSEC.0).count()
    ));
    Ok(())
}

fn exchanged(heard: &[[Arrivals; 2]]) -> Result<String, DemoError> {
    let mut jitter = no_times();
    let (mut sent, mut longest) = (0, Duration::ZERO);
    for heard in heard.iter().flatten() {
        if !heard.is_complete() {
            return Err(DemoError::Seen(format!(
                "of {} cyclic frames {} arrived, {} out of order, {} changed",
                heard.sent, heard.received, heard.out_of_order, heard.changed
            )));
        }
        sent += heard.sent;
        longest = longest.max(heard.longest_gap);
        // Both have the same bounds.
        let _ = jitter.add(&heard.jitter);
    }
    let microseconds = |percent| jitter.value_at_percentile(percent) as f64 / 1e3;
    Ok(format!(
        "{sent} frames both ways, none lost, late or changed; jitter at the machines p50 {:.0} us, p99.9 {:.0} us, longest gap {:.1} ms",
        microseconds(50.0),
        microseconds(99.9),
        longest.as_secs_f64() * 1e3
    ))
}

/// Measurements and counters of the gateways.
fn figures(pair: &Pair, say: Say<'_>) -> Result<(), DemoError> {
    for (station, name) in [(&pair.a, "A"), (&pair.b, "B")] {
        let report = station.report()?;
        let cell = only_cell(&report)?;
        let bounds = &cell.bounds_ns;
        let line = |times: &HistogramReport| {
            let at = |permille| times.at_permille(permille, bounds) / 1000;
            format!("p50 <= {} us, p99.9 <= {} us, worst {} us", at(500), at(999), times.worst_ns / 1000)
        };
        let worst = cell.relations.iter().max_by_key(|relation| relation.residence_outward.worst_ns);
        if let Some(relation) = worst {
            say(&format_args!(
                "  gateway {name}   inside, of the worst relation: out {}; in {}",
                line(&relation.residence_outward),
                line(&relation.residence_inward)
            ));
        }
        let sum =
            |of: fn(&CellReport, usize) -> u64| (0..cell.relations.len()).map(|at| of(cell, at)).sum::<u64>();
        let out = sum(|cell, at| cell.relations[at].transmit.value("OutPktsProtected"));
        let ok = sum(|cell, at| cell.relations[at].receive.value("InPktsOK"));
        let alarms = sum(|cell, at| cell.relations[at].receive.value("InAlarms"));
        say(&format_args!(
            "              OutPktsProtected {out}, InPktsOK {ok}, InAlarms {alarms} (gaps of 1.5 cycles)"
        ));
        for name in ["InPktsNotValid", "InPktsLate", "InPktsUnknownKey", "InPktsClearRefused"] {
            let count: u64 = cell.relations.iter().map(|relation| relation.receive.value(name)).sum();
            if count > 0 {
                return Err(DemoError::Seen(format!("{name} is {count}")));
            }
        }
    }
    Ok(())
}

/// Gateway B is started again while IO data is exchanged.
fn restarted(
    frameward: &Path,
    topology: &Topology,
    pair: Pair,
    choice: &CellChoice,
    say: Say<'_>,
) -> Result<Pair, DemoError> {
    let Pair { a, b, scratch } = pair;
    let exchange = Exchange::start(&topology.machine_a, &topology.machine_b, &choice.exchanged())?;
    exchange.wait_for(200, LIMIT)?;
    b.stop()?;
    let b = Station::start(frameward, &topology.gateway_b.namespace, &scratch, "b")?;
    exchange.wait_for(200, LIMIT)?;
    let heard = exchange.stop()?;
    let longest = heard.iter().flatten().map(|heard| heard.longest_gap).max().unwrap_or_default();
    say(&format_args!(
        "  restart     gateway B stopped and started again: the longest time without IO data was {:.0} ms, nothing else had to be done",
        longest.as_secs_f64() * 1e3
    ));
    Ok(Pair { a, b, scratch })
}
