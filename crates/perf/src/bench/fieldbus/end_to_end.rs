//! Delay that a pair of gateways adds to a cyclic frame: one-way delay from machine to machine, in user space and in the
//! kernel, beside a Linux bridge and XDP redirect in the same place.
//!
//! ```text
//!  PLC ── [gateway, bridge, redirect] ~~ [gateway, bridge, redirect] ── 50 devices        a frame each way a millisecond for each
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

use std::path::Path;
use std::time::Duration;

use ::bench::Row;
use hdrhistogram::Histogram;
use lab::cyclic::{Exchange, Relation};
use lab::topology::{LEFT, Mac, PLAIN, PROTECTED, RIGHT};
use lab::{InterfaceCounters, MachineTimes, Shape, Topology};

use super::super::forwarder::Forwarder;
use super::super::samples::Samples;
use super::super::{BenchError, PAUSE};
use super::{BENCH, Effort};
use crate::demo::cells::{redirecting, secured};
use crate::demo::pair::{Pair, PairError, Scratch, Station};
use crate::programs::Programs;
use ::bench::Target;
use frameward::keygen;
use report::GatewayReport;
use speed::frame_times::median;

/// Of the 57 that half of 100 Mbit/s carries (the paper's equation 2).
const RELATIONS: u8 = 50;
const CYCLE: Duration = Duration::from_millis(1);
/// Time the first frames may take: a handshake of all relations.
const PATIENCE: Duration = Duration::from_secs(20);
const PAYLOAD: usize = 44;
const WHAT: [&str; 3] = ["p50", "p99.9", "worst"];
/// Repetitions of a round in which a machine could not keep up with its own traffic: such a round proves nothing.
const AGAIN: usize = 2;

/// About five minutes: one of them of each network.
pub const FULL: Effort = Effort { rounds: 3, time: Duration::from_secs(20) };
/// About twenty seconds.
pub const QUICK: Effort = Effort { rounds: 3, time: Duration::from_millis(1500) };

/// Fate of the frames of all rounds.
#[derive(Clone, Copy, Default, Debug)]
struct Frames {
    sent: u64,
    received: u64,
    /// Delays above a cycle.
    late: u64,
    /// After a later one, or twice.
    out_of_order: u64,
    changed: u64,
}

/// A network, and what stands in its boxes.
struct Setup {
    case: &'static str,
    /// Dropped before the namespaces in which they run.
    gateways: Option<Pair>,
    redirects: Option<([Forwarder; 2], Scratch)>,
    topology: Topology,
    /// One for each of [`WHAT`].
    samples: [Samples; 3],
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
    let mut setups = [
        bridges(&shape)?,
        gateways(frameward, &shape, &USER_SPACE)?,
        gateways(frameward, &shape, &KERNEL)?,
        redirects(&programs.lab, &shape)?,
    ];
    for number in 1..=rounds {
        for setup in &mut setups {
            let mut left = AGAIN;
            while let Err(error) = setup.round(time) {
                left = left.checked_sub(1).ok_or(error)?;
                progress(&format_args!("round {number}: {}: again: a machine was too slow", setup.case));
            }
            let [middle, high, worst] = setup.samples.each_ref().map(|samples| samples.values[number - 1]);
            let stolen = setup.stolen.values[number - 1];
            progress(&format_args!(
                "round {number}: {}: {middle:.1} us, p99.9 {high:.1}, worst {worst:.1}; {stolen:.1} % of CPU time stolen",
                setup.case
            ));
        }
    }
    // Frames of one cycle that wait for those of the one before wait in the machines, whatever stands between these.
    if median(&setups[0].samples[0].values) > CYCLE.as_secs_f64() * 1e6 {
        progress(
            &"this machine is too busy for its own traffic: its queues make the delays, which compare nothing",
        );
    }
    let mut rows = rows(&setups);
    for setup in &setups {
        rows.push(setup.stolen.row(BENCH, "percent", None));
        rows.extend(setup.accounts()?);
    }
    for setup in setups {
        setup.gateways.map(Pair::stop).transpose()?;
        let mut forwarders = setup.redirects.into_iter().flat_map(|(forwarders, _scratch)| forwarders);
        forwarders.try_for_each(Forwarder::stop)?;
    }
    Ok(rows)
}

/// Delays of all, and what the others add to the bridges' in each round. Those of the kernel path are to be no longer.
fn rows([bridges, others @ ..]: &[Setup; 4]) -> Vec<Row> {
    let mut rows = Vec::new();
    for (number, (bridge, what)) in bridges.samples.iter().zip(WHAT).enumerate() {
        rows.push(bridge.row(BENCH, "us", None));
        for place in others {
            let samples = &place.samples[number];
            let mut row = samples.row(BENCH, "us", Some(bridge));
            if place.case == KERNEL.case && what != "worst" {
                let met = row.ratio.as_ref().is_some_and(|ratio| ratio.value <= 1.0);
                row.target = Some(Target { wanted: "no longer than through Linux bridges".into(), met });
            }
            rows.push(row);
            let mut added = Samples::new(&format!("added one-way delay {what}, {}", place.case));
            bridge.values.iter().zip(&samples.values).for_each(|(bridge, other)| added.push(other - bridge));
            rows.push(added.row(BENCH, "us", None));
        }
    }
    rows
}

fn setup(case: &'static str, topology: Topology, gateways: Option<Pair>) -> Setup {
    let samples = WHAT.map(|what| Samples::new(&format!("one-way delay {what}, {case}")));
    let stolen = Samples::new(&format!("CPU time stolen from this machine, {case}"));
    Setup {
        case,
        gateways,
        redirects: None,
        topology,
        samples,
        stolen,
        frames: Frames::default(),
        time: Duration::ZERO,
    }
}

fn bridges(shape: &Shape) -> Result<Setup, BenchError> {
    let topology = Topology::build(shape)?;
    topology.bridge_gateways()?;
    Ok(setup("Linux bridge", topology, None))
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
    Ok(Setup { redirects: Some((forwarders, scratch)), ..setup("XDP redirect", topology, None) })
}

fn gateways(frameward: &Path, shape: &Shape, kind: &Kind) -> Result<Setup, BenchError> {
    let topology = if kind.io == "kernel" { redirecting(shape)? } else { Topology::build(shape)? };
    let scratch = Scratch::new()?;
    keygen::fieldbus(&scratch.path().join("cell.key")).map_err(PairError::from)?;
    let relations = relations(&topology);
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
    Ok(setup(kind.case, topology, Some(pair)))
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
    for Relation { stations: [one, other], frame_ids: [first, second], .. } in relations {
        text += &format!(
            "[[fieldbus.relation]]\nstations = [{}, {}]\nframe_ids = [{first}, {second}]\ncycle = \"1ms\"\n",
            address(one),
            address(other)
        );
    }
    text
}

impl Setup {
    /// Cyclic frames for so long; the delays of all relations both ways together.
    fn round(&mut self, time: Duration) -> Result<(), BenchError> {
        let Topology { machine_a, machine_b, .. } = &self.topology;
        let begin = MachineTimes::now()?;
        let exchange = Exchange::start(machine_a, machine_b, &relations(&self.topology))?;
        exchange.wait_for(1, PATIENCE)?;
        std::thread::sleep(time.max(PAUSE));
        let heard = exchange.stop()?;
        let stolen = MachineTimes::now()?.stolen_since(begin);
        self.time += time;
        let mut delays: Option<Histogram<u64>> = None;
        for heard in heard.into_iter().flatten() {
            let of_cycle = heard.delay.count_between(0, CYCLE.as_nanos() as u64);
            self.frames.sent += heard.sent;
            self.frames.received += heard.received;
            self.frames.late += heard.delay.len() - of_cycle;
            self.frames.out_of_order += heard.out_of_order;
            self.frames.changed += heard.changed;
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
        self.stolen.push(stolen);
        Ok(())
    }

    /// Fate of all frames.
    fn accounts(&self) -> Result<Vec<Row>, BenchError> {
        let Frames { sent, received, late, out_of_order, changed } = self.frames;
        let lost = sent.saturating_sub(received);
        let unnamed = lost.saturating_sub(self.named()?);
        let seconds = self.time.as_secs_f64();
        let rows = [
            ("sent", sent),
            ("received", received),
            ("lost", lost),
            ("lost that no counter names", unnamed),
            ("later than a cycle", late),
            ("out of order or twice", out_of_order),
            ("changed", changed),
        ];
        let row = |(what, frames): (&str, u64)| {
            let case = format!("frames {what}, {}, {RELATIONS} relations at 1 ms", self.case);
            Row::new(BENCH, &case, frames as f64, &format!("frames in {seconds} s"), 1)
        };
        Ok(rows.map(row).into())
    }

    /// Frames that a counter between the machines says were discarded or dropped, since the network was built.
    fn named(&self) -> Result<u64, BenchError> {
        let Topology { machine_a, machine_b, gateway_a, gateway_b, middle, .. } = &self.topology;
        let interfaces = [
            (&machine_a.namespace, machine_a.ifname),
            (&gateway_a.namespace, PLAIN),
            (&gateway_a.namespace, PROTECTED),
            (middle, LEFT),
            (middle, RIGHT),
            (&gateway_b.namespace, PROTECTED),
            (&gateway_b.namespace, PLAIN),
            (&machine_b.namespace, machine_b.ifname),
        ];
        let mut named = 0;
        for (namespace, ifname) in interfaces {
            named += InterfaceCounters::read(namespace, ifname)?.tx_dropped;
        }
        for station in self.gateways.iter().flat_map(|pair| [&pair.a, &pair.b]) {
            named += discarded(&station.report()?);
        }
        Ok(named)
    }
}

/// Frames that a gateway discarded, or knows to be dropped before it.
fn discarded(report: &GatewayReport) -> u64 {
    let mut sum = 0;
    for link in &report.links {
        let relations = link.fieldbus.iter().flat_map(|cell| &cell.relations);
        for relation in relations {
            let out = ["OutPktsNoSession", "OutPktsSeqExhausted", "OutPktsTooLong"];
            let come =
                ["InPktsLate", "InPktsUnknownKey", "InPktsNotValid", "InPktsNoSession", "InPktsTooShort"];
            sum += out.map(|name| relation.transmit.value(name)).iter().sum::<u64>();
            sum += come.map(|name| relation.receive.value(name)).iter().sum::<u64>();
        }
        let of_ports =
            ["RxNoChunk", "RxTooLong", "RxKernelDropped", "RxRingFull", "TxDropped", "TxKernelDropped"];
        for port in [&link.plain, &link.protected] {
            sum += of_ports.map(|name| port.counters.value(name)).iter().sum::<u64>();
        }
    }
    sum
}
