//! Several links of one process, each between machines of its own, all loaded at once.
//!
//! ```text
//!  machine A1 ── plain   prot  ── middle 1 ── gateway B1 ── machine B1
//!               [one process]
//!  machine A2 ── plain1  prot1 ── middle 2 ── gateway B2 ── machine B2
//! ```

use std::fs;
use std::time::Duration;

use crate::demo::pair::{Choice, PairError, Scratch, Station, configure};
use bench::Row;
use lab::flood::{Load, flood};
use lab::packet::InterfaceCounters;
use lab::topology::{PLAIN, PROTECTED};
use lab::{Shape, Topology};

use super::{Axis, row};
use crate::evidence::outcome::Outcome;
use crate::evidence::plan::Tools;

/// Octets of payload of the smallest Ethernet frame.
const PAYLOAD: usize = 46;
/// Time by which loads may outlast the measurement.
const GRACE: Duration = Duration::from_secs(20);

pub(super) fn measure(
    axis: &Axis,
    rounds: usize,
    time: Duration,
    tools: &mut Tools<'_>,
) -> Result<Outcome, String> {
    lab::require_root().map_err(|error| error.to_string())?;
    let mut all: Vec<(u32, Vec<f64>)> = axis.numbers.iter().map(|number| (*number, Vec::new())).collect();
    for round in 1..=rounds {
        for (number, values) in &mut all {
            let rate = one(*number as usize, time.max(Duration::from_millis(200)), tools)
                .map_err(|error| error.to_string())?;
            (tools.say)(&format_args!("round {round}: {number} {}: {rate:.0} frames/s", axis.name));
            values.push(rate);
        }
    }
    let rows: Vec<Row> =
        all.into_iter().map(|(number, values)| row(axis, number, axis.series[0], values)).collect();
    Ok(Outcome { rows, ..Outcome::default() })
}

/// Frames that arrive each second over all links of a process together.
fn one(links: usize, time: Duration, tools: &Tools<'_>) -> Result<f64, PairError> {
    let shape = Shape { static_neighbours: true, ..Shape::default() };
    let mut topologies = Vec::new();
    let mut scratches = Vec::new();
    for _ in 0..links {
        topologies.push(Topology::build(&shape)?);
        let scratch = Scratch::new()?;
        configure(&scratch, &Choice::default())?;
        scratches.push(scratch);
    }
    for number in 1..links {
        join(&topologies[0], &topologies[number], number)?;
        add_link(&scratches[0], &scratches[number], number)?;
    }
    let mut stations = vec![Station::start(
        &tools.programs.frameward,
        &topologies[0].gateway_a.namespace,
        &scratches[0],
        "a",
    )?];
    for (topology, scratch) in topologies.iter().zip(&scratches) {
        stations.push(Station::start(
            &tools.programs.frameward,
            &topology.gateway_b.namespace,
            scratch,
            "b",
        )?);
    }
    // Learned on the way, and every link carries.
    for topology in &topologies {
        let arrived =
            flood(&topology.machine_a, &topology.machine_b, PAYLOAD, Some(1000), Duration::from_millis(50))?;
        if arrived.delivered == 0 {
            return Err(lab::Error::Unexpected("a link carries nothing".into()).into());
        }
    }
    let rate = together(&topologies, time)?;
    for station in stations {
        station.stop()?;
    }
    Ok(rate)
}

fn together(topologies: &[Topology], time: Duration) -> Result<f64, lab::Error> {
    let mut loads = Vec::new();
    for topology in topologies {
        loads.push(Load::start(&topology.machine_a, &topology.machine_b, PAYLOAD, None, time + GRACE)?);
    }
    let arrived = || {
        let counts = topologies.iter().map(|topology| {
            let machine = &topology.machine_b;
            InterfaceCounters::read(&machine.namespace, machine.ifname).map(|counters| counters.rx_frames)
        });
        counts.sum::<Result<u64, lab::Error>>()
    };
    std::thread::sleep(Duration::from_millis(200));
    let (start, before) = (std::time::Instant::now(), arrived()?);
    std::thread::sleep(time);
    let (elapsed, after) = (start.elapsed(), arrived()?);
    for load in loads {
        load.stop()?;
    }
    Ok((after - before) as f64 / elapsed.as_secs_f64())
}

/// Moves the interfaces of another network's gateway A to the first one's.
fn join(first: &Topology, other: &Topology, number: usize) -> Result<(), lab::Error> {
    let (from, to) = (&other.gateway_a.namespace, &first.gateway_a.namespace);
    for interface in [PLAIN, PROTECTED] {
        let name = format!("{interface}{number}");
        from.ip(&["link", "set", interface, "down"])?;
        from.ip(&["link", "set", interface, "name", &name])?;
        from.ip(&["link", "set", &name, "netns", to.name()])?;
        to.ip(&["link", "set", &name, "up"])?;
    }
    Ok(())
}

/// Puts the link of another configuration into the first one.
fn add_link(first: &Scratch, other: &Scratch, number: usize) -> Result<(), PairError> {
    let read = |scratch: &Scratch| {
        let path = scratch.path().join("a.toml");
        fs::read_to_string(&path).map_err(|source| PairError::Write { path, source })
    };
    let (own, other_text) = (read(first)?, read(other)?);
    let link = other_text.find("[[link]]").map_or("", |at| &other_text[at..]);
    let link = link
        .replace("\"press\"", &format!("\"press-{number}\""))
        .replace(&format!("\"{PLAIN}\""), &format!("\"{PLAIN}{number}\""))
        .replace(&format!("\"{PROTECTED}\""), &format!("\"{PROTECTED}{number}\""))
        .replace("key_file = \"", &format!("key_file = \"{}/", other.path().display()));
    first.write("a.toml", &(own + &link)).map(drop)
}
