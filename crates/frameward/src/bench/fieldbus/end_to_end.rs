//! What a pair of gateways adds to the way of a cyclic frame: one-way delay from machine to machine, beside a Linux bridge in
//! the same place.
//!
//! ```text
//!  PLC ── [gateway, or bridge] ~~ [gateway, or bridge] ── 50 devices        a frame each way a millisecond for each
//! ```
//!
//! Sender and receiver share a clock: a frame carries when it was given to the system, and its delay ends when the receiver
//! has read it. Waking that receiver is in both cases' figures. Frames of a cycle leave at once, 50 in a burst, as a PLC
//! sends them, so the last of them waits for the others. Both networks stand side by side, and each round measures both.

use std::path::Path;
use std::time::Duration;

use ::bench::Row;
use hdrhistogram::Histogram;
use lab::cyclic::{Exchange, Relation};
use lab::topology::{Mac, PLAIN, PROTECTED};
use lab::{Shape, Topology};

use super::super::samples::{Samples, median};
use super::super::{BenchError, PAUSE};
use super::BENCH;
use crate::demo::pair::{PairError, Scratch, Station};
use crate::keygen;

/// Of the 57 that half of 100 Mbit/s carries (the paper's equation 2).
const RELATIONS: u8 = 50;
const CYCLE: Duration = Duration::from_millis(1);
/// How long the first frames may take: a handshake of all relations.
const PATIENCE: Duration = Duration::from_secs(20);
const PAYLOAD: usize = 44;
const WHAT: [&str; 3] = ["p50", "p99.9", "worst"];

/// A network, and what stands in its boxes.
struct Place {
    case: &'static str,
    /// Dropped before the namespaces in which they run.
    gateways: Option<([Station; 2], Scratch)>,
    topology: Topology,
    /// One for each of [`WHAT`].
    samples: [Samples; 3],
    missing: u64,
}

/// Measures; tells each row at the end. Needs root.
///
/// # Errors
/// The first thing that fails. Nothing is left behind.
pub fn measure(
    frameward: &Path,
    rounds: usize,
    time: Duration,
    progress: &mut dyn FnMut(&dyn std::fmt::Display),
) -> Result<Vec<Row>, BenchError> {
    lab::require_root()?;
    progress(&"networks for cyclic frames");
    let shape = Shape { static_neighbours: true, ..Shape::default() };
    let mut places = [bridges(&shape)?, gateways(frameward, &shape)?];
    for number in 1..=rounds {
        for place in &mut places {
            place.round(time)?;
            let [middle, high, worst] = place.samples.each_ref().map(|samples| samples.values[number - 1]);
            progress(&format_args!(
                "round {number}: {}: {middle:.1} us, p99.9 {high:.1}, worst {worst:.1}",
                place.case
            ));
        }
    }
    // Frames of one cycle that wait for those of the one before wait in the machines, whatever stands between these.
    if median(&places[0].samples[0].values) > CYCLE.as_secs_f64() * 1e6 {
        progress(
            &"this machine is too busy for its own traffic: the delays are those of queues, and compare nothing",
        );
    }
    let rows = rows(&places);
    for place in places {
        if let Some(([a, b], scratch)) = place.gateways {
            a.stop()?;
            b.stop()?;
            drop(scratch);
        }
    }
    Ok(rows)
}

/// Delays of both, and what the gateways add in each round.
fn rows([bridges, gateways]: &[Place; 2]) -> Vec<Row> {
    let mut rows = Vec::new();
    for ((bridge, gateway), what) in bridges.samples.iter().zip(&gateways.samples).zip(WHAT) {
        rows.push(bridge.row(BENCH, "us", None));
        rows.push(gateway.row(BENCH, "us", Some(bridge)));
        let mut added = Samples::new(&format!("added one-way delay {what}, gateways"));
        bridge.values.iter().zip(&gateway.values).for_each(|(bridge, gateway)| added.push(gateway - bridge));
        rows.push(added.row(BENCH, "us", None));
    }
    for place in [bridges, gateways] {
        rows.push(Row::new(
            BENCH,
            &format!("frames missing, {}", place.case),
            place.missing as f64,
            "frames",
            1,
        ));
    }
    rows
}

fn place(case: &'static str, topology: Topology, gateways: Option<([Station; 2], Scratch)>) -> Place {
    let samples = WHAT.map(|what| Samples::new(&format!("one-way delay {what}, {case}")));
    Place { case, gateways, topology, samples, missing: 0 }
}

fn bridges(shape: &Shape) -> Result<Place, BenchError> {
    let topology = Topology::build(shape)?;
    topology.bridge_gateways()?;
    Ok(place("Linux bridge", topology, None))
}

fn gateways(frameward: &Path, shape: &Shape) -> Result<Place, BenchError> {
    let (topology, scratch) = (Topology::build(shape)?, Scratch::new()?);
    keygen::fieldbus(&scratch.path().join("cell.key")).map_err(PairError::from)?;
    let relations = relations(&topology);
    let local: [Vec<Mac>; 2] =
        [vec![topology.machine_a.mac], relations.iter().map(|relation| relation.stations[1]).collect()];
    for (name, local) in ["a", "b"].iter().zip(&local) {
        scratch.write(&format!("{name}.toml"), &configuration(name, &scratch, local, &relations))?;
    }
    let start = |namespace, name| Station::start(frameward, namespace, &scratch, name);
    let a = start(&topology.gateway_a.namespace, "a")?;
    let b = start(&topology.gateway_b.namespace, "b")?;
    Ok(place("gateways", topology, Some(([a, b], scratch))))
}

fn relations(topology: &Topology) -> Vec<Relation> {
    (0..RELATIONS)
        .map(|device| Relation {
            stations: [topology.machine_a.mac, [2, 0, 0, 0, 1, device]],
            frame_ids: [0x8000 + u16::from(device), 0x8000],
            cycle: CYCLE,
            payload_octets: PAYLOAD,
        })
        .collect()
}

fn configuration(name: &str, scratch: &Scratch, local: &[Mac], relations: &[Relation]) -> String {
    let address = |mac: &Mac| format!("\"{}\"", mac.map(|octet| format!("{octet:02x}")).join(":"));
    let local: Vec<_> = local.iter().map(address).collect();
    let state = scratch.path().join(format!("state-{name}"));
    let mut text = format!(
        "[gateway]\nname = \"{name}\"\nstate = \"{}\"\nrealtime = \"off\"\n\n\
         [[fieldbus]]\nname = \"cell\"\nplain = \"{PLAIN}\"\nprotected = \"{PROTECTED}\"\nprotect = \"encrypt\"\n\
         rest = \"drop\"\nmaster_key_file = \"cell.key\"\nlocal = [{}]\n",
        state.display(),
        local.join(", ")
    );
    for Relation { stations: [one, other], frame_ids: [first, second], .. } in relations {
        text += &format!(
            "[[fieldbus.relation]]\nstations = [{}, {}]\nframe_ids = [{first}, {second}]\ncycle = \"1ms\"\n",
            address(one),
            address(other)
        );
    }
    text
}

impl Place {
    /// Cyclic frames for so long; the delays of all relations both ways together.
    fn round(&mut self, time: Duration) -> Result<(), BenchError> {
        let Topology { machine_a, machine_b, .. } = &self.topology;
        let exchange = Exchange::start(machine_a, machine_b, &relations(&self.topology))?;
        exchange.wait_for(1, PATIENCE)?;
        std::thread::sleep(time.max(PAUSE));
        let heard = exchange.stop()?;
        let mut delays: Option<Histogram<u64>> = None;
        for heard in heard.into_iter().flatten() {
            self.missing += heard.missing;
            match &mut delays {
                // Histograms of one kind can be added.
                Some(all) => drop(all.add(&heard.delay)),
                none => *none = Some(heard.delay),
            }
        }
        let delays =
            delays.filter(|delays| !delays.is_empty()).ok_or(BenchError::Silent(self.case.into()))?;
        let values = [delays.value_at_quantile(0.5), delays.value_at_quantile(0.999), delays.max()];
        for (samples, nanoseconds) in self.samples.iter_mut().zip(values) {
            samples.push(nanoseconds as f64 / 1e3);
        }
        Ok(())
    }
}
