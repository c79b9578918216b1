//! Delay that a pair of gateways adds to a cyclic frame: one-way delay from machine to machine, in user space and in the
//! kernel, beside a Linux bridge and XDP redirect in the same place.
//!
//! ```text
//!  PLC ── [gateway, bridge, redirect] ~~ [gateway, bridge, redirect] ── 50 devices        a frame each way a millisecond for each
//!  PLC ── [gateway, bridge]           ~~ [gateway, bridge]           ── 1024 devices      a frame each way every 32 ms for each
//! ```
//!
//! Sender and receiver share a clock: a frame carries when it was given to the system, and its delay ends when the receiver
//! has read it. Waking that receiver is in both cases' figures. Frames of a cycle leave at once, 50 in a burst, as a PLC
//! sends them, so the last of them waits for the others. All networks stand side by side, and each round measures all.
//!
//! Every frame of the time is accounted for: how many were sent, arrived, were lost, came later than the next was due, came out of
//! order or changed; and of the lost ones, how many no counter between the machines names. Machines and gateways are programs that
//! want a CPU each millisecond: while the hypervisor gives it to others, queues grow, and where that lasts, overflow. How much
//! of the time it did is told for each round.

mod accounts;

use std::path::Path;
use std::time::Duration;

use ::bench::Row;
use hdrhistogram::Histogram;
use lab::cyclic::{Exchange, Relation, no_times};
use lab::topology::{Mac, PLAIN, PROTECTED};
use lab::{MachineTimes, Shape, Topology};

use super::super::forwarder::Forwarder;
use super::super::samples::Samples;
use super::super::{BenchError, PAUSE};
use super::{BENCH, Effort};
use crate::demo::cells::{redirecting, secured};
use crate::demo::pair::{Pair, PairError, Scratch, Station};
use crate::programs::Programs;
use ::bench::Target;
use accounts::Frames;
use frameward::keygen;
use speed::frame_times::median;

/// Relations of a PLC, and their cycle.
#[derive(Clone, Copy)]
struct Traffic {
    relations: u16,
    cycle: Duration,
    name: &'static str,
}

/// Of the 57 that half of 100 Mbit/s carries (the paper's equation 2).
const FEW: Traffic = Traffic { relations: 50, cycle: Duration::from_millis(1), name: "50 relations at 1 ms" };
/// As many as a cell takes. In the mean a third as many frames a second, but all of a cycle at once.
const MANY: Traffic =
    Traffic { relations: 1024, cycle: Duration::from_millis(32), name: "1024 relations at 32 ms" };
/// Rounds of the many are so many times shorter.
const SHORTER: u32 = 3;
/// Time the first frames may take: a handshake of all relations.
const PATIENCE: Duration = Duration::from_secs(20);
const PAYLOAD: usize = 44;
const WHAT: [&str; 4] = ["p50", "p99", "p99.9", "worst"];
const JITTER: [&str; 2] = ["p50", "p99.9"];
/// Repetitions of a round in which a machine could not keep up with its own traffic: such a round proves nothing.
const AGAIN: usize = 2;

/// About five minutes: one of them of each network with few relations.
pub const FULL: Effort = Effort { rounds: 5, time: Duration::from_secs(12) };
/// About thirty seconds.
pub const QUICK: Effort = Effort { rounds: 3, time: Duration::from_millis(1500) };

/// A network, and what stands in its boxes.
struct Setup {
    case: &'static str,
    traffic: Traffic,
    /// Dropped before the namespaces in which they run.
    gateways: Option<Pair>,
    redirects: Option<([Forwarder; 2], Scratch)>,
    topology: Topology,
    /// One for each of [`WHAT`].
    samples: [Samples; 4],
    /// One for each of [`JITTER`].
    jitter: [Samples; 2],
    /// Percent of all CPU time that the hypervisor gave to others.
    stolen: Samples,
    frames: Frames,
    /// Duration of sending.
    time: Duration,
}

/// Measures; tells each row at the end. Needs root.
///
/// # Errors
/// The first thing that fails. Nothing is left behind.
pub fn measure(
    programs: &Programs,
    Effort { rounds, time }: Effort,
    progress: &mut dyn FnMut(&dyn std::fmt::Display),
) -> Result<Vec<Row>, BenchError> {
    lab::require_root()?;
    progress(&"networks for cyclic frames");
    let shape = Shape { static_neighbours: true, ..Shape::default() };
    let frameward = &programs.frameward;
    let few = vec![
        bridges(&shape, FEW)?,
        gateways(frameward, &shape, &USER_SPACE, FEW)?,
        gateways(frameward, &shape, &KERNEL, FEW)?,
        redirects(&programs.lab, &shape)?,
    ];
    let mut all = compare(few, rounds, time, progress)?;
    progress(&"networks for many relations");
    let many = vec![bridges(&shape, MANY)?, gateways(frameward, &shape, &KERNEL, MANY)?];
    all.extend(compare(many, rounds, time / SHORTER, progress)?);
    Ok(all)
}

/// Measures setups that stand side by side, the bridges first, and ends them.
fn compare(
    mut setups: Vec<Setup>,
    rounds: usize,
    time: Duration,
    progress: &mut dyn FnMut(&dyn std::fmt::Display),
) -> Result<Vec<Row>, BenchError> {
    for number in 1..=rounds {
        for setup in &mut setups {
            let mut left = AGAIN;
            while let Err(error) = setup.round(time) {
                left = left.checked_sub(1).ok_or(error)?;
                progress(&format_args!("round {number}: {}: again: a machine was too slow", setup.name()));
            }
            let [middle, _, high, worst] = setup.samples.each_ref().map(|samples| samples.values[number - 1]);
            let stolen = setup.stolen.values[number - 1];
            progress(&format_args!(
                "round {number}: {}: {middle:.1} us, p99.9 {high:.1}, worst {worst:.1}; {stolen:.1} % of CPU time stolen",
                setup.name()
            ));
        }
    }
    // Frames of one cycle that wait for those of the one before wait in the machines, whatever stands between these.
    if median(&setups[0].samples[0].values) > setups[0].traffic.cycle.as_secs_f64() * 1e6 {
        progress(
            &"this machine is too busy for its own traffic: its queues make the delays, which compare nothing",
        );
    }
    let mut rows = rows(&setups);
    let bridged = setups[0].frames;
    for setup in &setups {
        rows.push(setup.stolen.row(BENCH, "percent", None));
        rows.extend(setup.accounts(bridged)?);
    }
    for setup in setups {
        setup.gateways.map(Pair::stop).transpose()?;
        let mut forwarders = setup.redirects.into_iter().flat_map(|(forwarders, _scratch)| forwarders);
        forwarders.try_for_each(Forwarder::stop)?;
    }
    Ok(rows)
}

/// Delays of all, and what the others add to those of the bridges, which come first, in each round; then jitter. Those of the kernel path
/// are to be no longer.
fn rows(setups: &[Setup]) -> Vec<Row> {
    let mut rows = Vec::new();
    let (bridges, others) = (&setups[0], &setups[1..]);
    let beside = |place: &Setup, own: &Samples, bridge: &Samples, judged: bool| {
        let mut row = own.row(BENCH, "us", Some(bridge));
        if place.case == KERNEL.case && judged {
            let met = row.ratio.as_ref().is_some_and(|ratio| ratio.value <= 1.0);
            row.target = Some(Target { wanted: "no longer than through Linux bridges".into(), met });
        }
        row
    };
    for (number, (bridge, what)) in bridges.samples.iter().zip(WHAT).enumerate() {
        rows.push(bridge.row(BENCH, "us", None));
        for place in others {
            let samples = &place.samples[number];
            rows.push(beside(place, samples, bridge, what != "worst"));
            let mut added = Samples::new(&format!("added one-way delay {what}, {}", place.name()));
            bridge.values.iter().zip(&samples.values).for_each(|(bridge, other)| added.push(other - bridge));
            rows.push(added.row(BENCH, "us", None));
        }
    }
    for (number, bridge) in bridges.jitter.iter().enumerate() {
        rows.push(bridge.row(BENCH, "us", None));
        rows.extend(others.iter().map(|place| beside(place, &place.jitter[number], bridge, true)));
    }
    rows
}

fn setup(case: &'static str, traffic: Traffic, topology: Topology, gateways: Option<Pair>) -> Setup {
    let name = name(case, traffic);
    let samples = WHAT.map(|what| Samples::new(&format!("one-way delay {what}, {name}")));
    let jitter = JITTER.map(|what| Samples::new(&format!("jitter at the machines {what}, {name}")));
    let stolen = Samples::new(&format!("CPU time stolen from this machine, {name}"));
    Setup {
        case,
        traffic,
        gateways,
        redirects: None,
        topology,
        samples,
        jitter,
        stolen,
        frames: Frames::default(),
        time: Duration::ZERO,
    }
}

/// A case's name: few relations are the rule.
fn name(case: &str, traffic: Traffic) -> String {
    if traffic.relations == FEW.relations { case.to_owned() } else { format!("{case}, {}", traffic.name) }
}

fn bridges(shape: &Shape, traffic: Traffic) -> Result<Setup, BenchError> {
    let topology = Topology::build(shape)?;
    topology.bridge_gateways()?;
    Ok(setup("Linux bridge", traffic, topology, None))
}

/// Gateways of one kind.
struct Kind {
    case: &'static str,
    /// Of `[gateway]`.
    io: &'static str,
    suite: &'static str,
}

const USER_SPACE: Kind = Kind { case: "gateways", io: "auto", suite: "gcm-aes-128" };
const KERNEL: Kind = Kind { case: "gateways, in the kernel", io: "kernel", suite: "chacha20-poly1305" };

/// Programs in the boxes' drivers, which do nothing to a frame: the limit.
fn redirects(lab: &Path, shape: &Shape) -> Result<Setup, BenchError> {
    let (topology, scratch) = (redirecting(shape)?, Scratch::new()?);
    let start = |namespace, name| Forwarder::start_in_kernel(lab, namespace, &scratch.path().join(name));
    let forwarders = [start(&topology.gateway_a.namespace, "a")?, start(&topology.gateway_b.namespace, "b")?];
    Ok(Setup { redirects: Some((forwarders, scratch)), ..setup("XDP redirect", FEW, topology, None) })
}

fn gateways(frameward: &Path, shape: &Shape, kind: &Kind, traffic: Traffic) -> Result<Setup, BenchError> {
    let topology = if kind.io == "kernel" { redirecting(shape)? } else { Topology::build(shape)? };
    let scratch = Scratch::new()?;
    keygen::fieldbus(&scratch.path().join("cell.key")).map_err(PairError::from)?;
    let relations = relations(&topology, traffic);
    let local: [Vec<Mac>; 2] =
        [vec![topology.machine_a.mac], relations.iter().map(|relation| relation.stations[1]).collect()];
    for (name, local) in ["a", "b"].iter().zip(&local) {
        scratch.write(&format!("{name}.toml"), &configuration(name, &scratch, local, &relations, kind))?;
    }
    let start = |namespace, name| Station::start(frameward, namespace, &scratch, name);
    let a = start(&topology.gateway_a.namespace, "a")?;
    let b = start(&topology.gateway_b.namespace, "b")?;
    let pair = Pair { a, b, scratch };
    // Frames lost before there is a session are no loss of theirs.
    secured(&pair)?;
    Ok(setup(kind.case, traffic, topology, Some(pair)))
}

fn relations(topology: &Topology, Traffic { relations, cycle, .. }: Traffic) -> Vec<Relation> {
    let relation = |device: u16| {
        let [high, low] = device.to_be_bytes();
        Relation {
            stations: [topology.machine_a.mac, [2, 0, 0, 1, high, low]],
            frame_ids: [0x8000 + device, 0x8000],
            cycle,
            payload_octets: PAYLOAD,
        }
    };
    (0..relations).map(relation).collect()
}

fn configuration(
    name: &str,
    scratch: &Scratch,
    local: &[Mac],
    relations: &[Relation],
    Kind { io, suite, .. }: &Kind,
) -> String {
    let address = |mac: &Mac| format!("\"{}\"", mac.map(|octet| format!("{octet:02x}")).join(":"));
    let local: Vec<_> = local.iter().map(address).collect();
    let state = scratch.path().join(format!("state-{name}"));
    let mut text = format!(
        "[gateway]\nname = \"{name}\"\nstate = \"{}\"\nio = \"{io}\"\n\n\
         [[fieldbus]]\nname = \"cell\"\nplain = \"{PLAIN}\"\nprotected = \"{PROTECTED}\"\nprotect = \"encrypt\"\nsuite = \"{suite}\"\n\
         rest = \"drop\"\nmaster_key_file = \"cell.key\"\nlocal = [{}]\n",
        state.display(),
        local.join(", ")
    );
    for Relation { stations: [one, other], frame_ids: [first, second], cycle, .. } in relations {
        text += &format!(
            "[[fieldbus.relation]]\nstations = [{}, {}]\nframe_ids = [{first}, {second}]\ncycle = \"{}us\"\n",
            address(one),
            address(other),
            cycle.as_micros()
        );
    }
    text
}

impl Setup {
    fn name(&self) -> String {
        name(self.case, self.traffic)
    }

    /// Cyclic frames for so long; the delays of all relations both ways together.
    fn round(&mut self, time: Duration) -> Result<(), BenchError> {
        let Topology { machine_a, machine_b, .. } = &self.topology;
        let begin = MachineTimes::now()?;
        let exchange = Exchange::start(machine_a, machine_b, &relations(&self.topology, self.traffic))?;
        exchange.wait_for(1, PATIENCE)?;
        std::thread::sleep(time.max(PAUSE));
        let heard = exchange.stop()?;
        let stolen = MachineTimes::now()?.stolen_since(begin);
        self.time += time;
        let (mut delays, mut jitter) = (no_times(), no_times());
        for heard in heard.into_iter().flatten() {
            let of_cycle = heard.delay.count_between(0, self.traffic.cycle.as_nanos() as u64);
            self.frames.sent += heard.sent;
            self.frames.received += heard.received;
            self.frames.late += heard.delay.len() - of_cycle;
            self.frames.out_of_order += heard.out_of_order;
            self.frames.changed += heard.changed;
            // Histograms of one kind can be added.
            let _ = delays.add(&heard.delay);
            let _ = jitter.add(&heard.jitter);
        }
        if delays.is_empty() {
            return Err(BenchError::Silent(self.name()));
        }
        let at = |times: &Histogram<u64>, quantile| times.value_at_quantile(quantile);
        let values = [at(&delays, 0.5), at(&delays, 0.99), at(&delays, 0.999), delays.max()];
        let jitters = [at(&jitter, 0.5), at(&jitter, 0.999)];
        for (samples, nanoseconds) in self.jitter.iter_mut().zip(jitters) {
            samples.push(nanoseconds as f64 / 1e3);
        }
        for (samples, nanoseconds) in self.samples.iter_mut().zip(values) {
            samples.push(nanoseconds as f64 / 1e3);
        }
        self.stolen.push(stolen);
        Ok(())
    }
}
