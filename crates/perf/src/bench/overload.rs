//! More frames than there is room for: what of the good ones still arrives.
//!
//! ```text
//!  machine A ── [box] ── the insecure network ── [box] ── machine B
//!   good frames              ^ garbage, replayed and clear frames, towards the second box
//! ```
//!
//! First the highest rate of small frames that is not lost is searched for ([`lab::trial`]); then its multiples are offered.
//! Sender, both boxes and the receiver share this machine's CPUs, and a sender of many frames takes those of the boxes: so no
//! figure says more than what it is beside that of something simpler under the same load in the same round: beside links a
//! forwarder that has nothing between its ports and a bridge, beside sites kernel VXLAN, beside a cell that forwarder with the
//! same frames: those of 50 relations in turn. What the sender could not reach is said: `offered` is what it sent, and its
//! ratio the multiple that it reached.
//!
//! | figure | how |
//! |---|---|
//! | lossless | the highest rate at which next to nothing is lost |
//! | good frames, N times | frames that arrive each second while N times that is sent |
//! | offered, N times | frames that were sent each second meanwhile |
//! | good frames both ways, N times | the same while half of that is sent from each end at once: both ways together |
//! | the slower way, N times | twice what arrives of the way of the two that fares worse |
//! | a quarter beside ..., N times | what arrives of a quarter of the lossless rate, beside N times that rate of others, which a stranger sends |
//! | sent by a stranger, ..., N times | how many of these really were sent each second |
//! | status | how long the second box's answer takes during all of this, at the worst |
//! | keystroke | how long one takes to come back in a TCP session on that box, over its loopback interface, at the worst |
//! | handshakes | from a start of a cell's first box until all relations have keys, alone and beside N times the lossless rate of strangers' frames |
//! | MKPDUs | from one that the box takes to the next, at the worst; they come every 2 s |

mod attacker;
mod curve;
mod network;
mod witness;

use std::path::Path;
use std::time::{Duration, Instant};

use ::bench::Target;
use dataplane::open::Io;
use lab::cyclic::Relation;
use lab::{Shape, Topology};

use self::network::TestNetwork;
use self::witness::Longest;
use super::rivals::Rival;
use super::samples::Samples;
use super::test_bed::TestBed;
use super::tunnel;
use super::{Bench, BenchError, Effort};
use crate::demo::cells::{self, CellChoice, redirecting};
use crate::demo::pair::{Choice, LinkKeys};

pub use self::attacker::Strange;
pub use self::curve::{Curve, Way};

/// The name of this bench in rows.
pub const BENCH: &str = "overload";
/// Multiples of the lossless rate that are offered.
pub const TIMES: [f64; 6] = [0.5, 1.0, 2.0, 4.0, 7.0, 10.0];
/// The same of both ways at once.
pub const TIMES_BOTH: [f64; 3] = [1.0, 4.0, 10.0];
/// The most that strangers send, as a multiple of the lossless rate.
const MOST: f64 = 10.0;
/// The same of strangers' frames.
const STRANGERS: [f64; 3] = [1.0, 4.0, MOST];
/// The share that has to arrive of what there is room for.
const LEAST: f64 = 0.95;
/// Load beside strangers' frames, as a share of the lossless rate.
const QUARTER: f64 = 0.25;
/// Octets of payload of the shortest frame.
const PAYLOAD: usize = 46;
/// Limit on the delay of traffic that has to get through.
const LATE: Duration = Duration::from_secs(1);
/// From one MKPDU to the next (IEEE 802.1X, MKA Hello Time).
const MKA_HELLO: Duration = Duration::from_secs(2);
/// Limit on a load that nobody stops.
const LIMIT: Duration = Duration::from_secs(60);

/// Name of a figure of good frames.
pub fn good(times: f64, case: &str) -> String {
    format!("good frames, {times} times, {case}")
}

/// Name of the figure of sent frames.
pub fn offered(times: f64, case: &str) -> String {
    format!("offered, {times} times, {case}")
}

/// Name of the figure of the lossless rate.
pub fn lossless(case: &str) -> String {
    format!("lossless, {case}")
}

/// Name of a figure of good frames from both ends at once.
pub fn good_both(times: f64, case: &str) -> String {
    format!("good frames both ways, {times} times, {case}")
}

/// Name of the figure of frames sent from both ends.
pub fn offered_both(times: f64, case: &str) -> String {
    format!("offered both ways, {times} times, {case}")
}

/// Name of the figure of the direction that fares worse.
pub fn slower(times: f64, case: &str) -> String {
    format!("the slower way, {times} times, {case}")
}

/// Samples of a quarter load beside one kind of strangers' frames.
struct Beside {
    strange: Strange,
    times: f64,
    arrived: Samples,
    sent: Samples,
}

struct Case {
    name: &'static str,
    place: TestNetwork,
    curve: Curve,
    /// A protected frame, if there are such.
    protected: Option<Vec<u8>>,
    quarter: Samples,
    beside: Vec<Beside>,
    status: Samples,
    keystroke: Samples,
    mkpdus: Samples,
    handshakes: Samples,
    /// The same beside the most of each kind of strangers' frames.
    handshakes_beside: Vec<(Strange, Samples)>,
}

/// A case: its name, and the function that makes it.
type Made = fn(&Bench<'_>, &'static str) -> Result<TestNetwork, BenchError>;
const LINKS: [(&str, Made); 4] = [
    ("Linux bridge", |_, name| Ok(TestNetwork::link(TestBed::bridged(name, &shape())?))),
    ("bare forwarder", |bench, name| {
        Ok(TestNetwork::link(TestBed::forwarded(&bench.programs.lab, name, &shape(), Io::AfXdp)?))
    }),
    ("static keys", |bench, name| gateways(bench, name, LinkKeys::Static)),
    ("key agreement", |bench, name| gateways(bench, name, LinkKeys::Agreed)),
];
const SITES: [(&str, Made); 4] = [
    (VXLAN, |_, _| Ok(TestNetwork::tunnel(tunnel::Case::rival(Rival::Vxlan)?))),
    ("site, header encryption", |bench, name| sites(bench, name, 1)),
    ("site, identifiers", |bench, name| sites(bench, name, 2)),
    (KERNEL_SITE, |bench, name| sites(bench, name, 3)),
];
const CELLS: [(&str, Made); 3] = [
    (UNPROTECTED_CELL, |bench, name| {
        let test_bed = TestBed::forwarded(&bench.programs.lab, name, &shape(), Io::AfXdp)?;
        let relations = relations(&test_bed.topology);
        Ok(TestNetwork::cell(test_bed, relations))
    }),
    ("cell", |bench, name| cell(bench, name, Topology::build(&shape())?, ("auto", ""))),
    (KERNEL_CELL, |bench, name| {
        cell(bench, name, redirecting(&shape())?, ("kernel", "suite = \"chacha20-poly1305\""))
    }),
];
/// Our cell, with its frames in the kernel.
pub const KERNEL_CELL: &str = "cell in the kernel";
/// Rivals of our cell, with the same frames.
pub const UNPROTECTED_CELL: &str = "forwarder of cyclic frames";
/// Devices of the PLC, and how often each relation sends by its configuration; in fact as often as is offered.
const RELATIONS: u8 = 50;
const CYCLE: Duration = Duration::from_millis(1);

fn relations(topology: &Topology) -> Vec<Relation> {
    (1..=RELATIONS).map(|device| cells::relation(topology, device, CYCLE)).collect()
}

/// Our site, with its known flows in the kernel.
pub const KERNEL_SITE: &str = "site in the kernel";
/// Rivals of our sites.
pub const VXLAN: &str = "kernel VXLAN";

fn shape() -> Shape {
    Shape { static_neighbours: true, ..Shape::default() }
}

fn gateways(bench: &Bench<'_>, name: &str, keys: LinkKeys) -> Result<TestNetwork, BenchError> {
    let choice = Choice { keys, ..Choice::default() };
    Ok(TestNetwork::link(TestBed::new(&bench.programs.frameward, name, &shape(), &choice)?))
}

fn cell(
    bench: &Bench<'_>,
    name: &str,
    topology: Topology,
    (io, cell): (&'static str, &'static str),
) -> Result<TestNetwork, BenchError> {
    let relations = relations(&topology);
    let choice = CellChoice { io, cell, drops: true, ..CellChoice::new(&topology, RELATIONS, CYCLE) };
    let pair = cells::start(&bench.programs.frameward, &topology, &choice)?;
    let test_bed = TestBed::running(name, topology, pair);
    test_bed.wait_for_cells()?;
    Ok(TestNetwork::cell(test_bed, relations))
}

fn sites(bench: &Bench<'_>, name: &'static str, which: usize) -> Result<TestNetwork, BenchError> {
    Ok(TestNetwork::tunnel(tunnel::Case::sites(&bench.programs.frameward, name, tunnel::OURS[which])?))
}

pub(super) fn measure(bench: &mut Bench<'_>) -> Result<(), BenchError> {
    let mut measured = false;
    // Idle gateways of others take CPU too: those that are not compared do not stand at the same time.
    for group in [&LINKS[..], &SITES, &CELLS] {
        let wanted: Vec<_> = group.iter().filter(|(name, _)| bench.wants(name)).collect();
        measured |= !wanted.is_empty();
        together(bench, &wanted)?;
    }
    if measured { Ok(()) } else { Err(BenchError::Unknown) }
}

/// Measures cases that are compared with each other.
fn together(bench: &mut Bench<'_>, wanted: &[&(&'static str, Made)]) -> Result<(), BenchError> {
    let effort = bench.effort;
    let mut cases = Vec::new();
    for (name, make) in wanted {
        let case = Case::new(name, make(bench, name)?, &effort)?;
        (bench.progress)(&format_args!("{name}: {:.0} frames/s without loss", case.curve.rate()));
        cases.push(case);
    }
    for round in 1..=effort.rounds {
        for case in &mut cases {
            case.round(effort.time / 3, &bench.programs.frameward)?;
            (bench.progress)(&format_args!("round {round}: {}", case.name));
        }
    }
    for case in &cases {
        case.tell(bench.figure);
    }
    cases.into_iter().try_for_each(|case| case.place.stop())
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

impl Case {
    fn new(name: &'static str, mut place: TestNetwork, effort: &Effort) -> Result<Self, BenchError> {
        let curve = Curve::search(name, &mut place, effort)?;
        let protected = place.protected()?;
        let mut beside = Vec::new();
        for strange in Strange::ALL {
            for times in STRANGERS {
                let what = format!("{}, {times} times, {name}", strange.name());
                let arrived = Samples::new(&format!("a quarter beside {what}"));
                let sent = Samples::new(&format!("sent by a stranger, {what}"));
                beside.push(Beside { strange, times, arrived, sent });
            }
        }
        let quarter = Samples::new(&format!("a quarter alone, {name}"));
        Ok(Self {
            name,
            place,
            curve,
            protected,
            quarter,
            beside,
            status: Samples::new(&format!("status, {name}")),
            keystroke: Samples::new(&format!("keystroke, {name}")),
            mkpdus: Samples::new(&format!("MKPDUs, {name}")),
            handshakes: Samples::new(&format!("handshakes alone, {name}")),
            handshakes_beside: Strange::ALL
                .map(|strange| {
                    let what = format!("handshakes beside {}, {MOST} times, {name}", strange.name());
                    (strange, Samples::new(&what))
                })
                .into(),
        })
    }

    fn round(&mut self, time: Duration, frameward: &Path) -> Result<(), BenchError> {
        let witness = self.place.witness()?;
        self.offer_all(time)?;
        let Some(witness) = witness else { return Ok(()) };
        let Longest { status, session, mkpdu } = witness.stop()?;
        self.status.push(milliseconds(status));
        self.keystroke.push(milliseconds(session));
        if let Some(gap) = mkpdu {
            self.mkpdus.push(milliseconds(gap));
        }
        self.handshake(frameward)
    }

    fn handshake(&mut self, frameward: &Path) -> Result<(), BenchError> {
        let Some(protected) = &self.protected else { return Ok(()) };
        let Some(alone) = self.place.handshake(frameward)? else { return Ok(()) };
        self.handshakes.push(milliseconds(alone));
        for (strange, samples) in &mut self.handshakes_beside {
            let rate = (self.curve.rate() * MOST) as u32;
            let load = self.place.stranger(*strange, protected, rate, LIMIT)?;
            let took = self.place.handshake(frameward)?;
            load.stop()?;
            samples.values.extend(took.map(milliseconds));
        }
        Ok(())
    }

    fn offer_all(&mut self, time: Duration) -> Result<(), BenchError> {
        self.curve.round(&mut self.place, time)?;
        let Some(protected) = &self.protected else { return Ok(()) };
        let rate = self.curve.rate();
        let quarter = (rate * QUARTER) as u32;
        self.quarter.push(self.place.offer(quarter, time)?.delivered_per_second());
        for Beside { strange, times, arrived, sent } in &mut self.beside {
            let begin = Instant::now();
            let load = self.place.stranger(*strange, protected, (rate * *times) as u32, LIMIT)?;
            arrived.push(self.place.offer(quarter, time)?.delivered_per_second());
            let (strangers, lasted) = (load.sent(), begin.elapsed());
            load.stop()?;
            sent.push(strangers as f64 / lasted.as_secs_f64());
        }
        Ok(())
    }

    fn tell(&self, figure: &mut dyn FnMut(::bench::Row)) {
        self.curve.tell(self.protected.is_some(), figure);
        if self.protected.is_none() {
            return;
        }
        figure(self.quarter.row(BENCH, "frames/s", None));
        for Beside { arrived, sent, .. } in &self.beside {
            let mut row = arrived.row(BENCH, "frames/s", Some(&self.quarter));
            let met = row.ratio.as_ref().is_some_and(|ratio| ratio.value >= LEAST);
            row.target = Some(Target { wanted: format!("ratio at least {LEAST}"), met });
            figure(row);
            figure(sent.row(BENCH, "frames/s", Some(self.curve.lossless())));
        }
        if !self.handshakes.values.is_empty() {
            figure(self.handshakes.row(BENCH, "ms", None));
        }
        let alone = self.handshakes.values.iter().copied().fold(0.0, f64::max);
        let handshakes = self.handshakes_beside.iter();
        let handshakes =
            handshakes.map(|(_, samples)| (samples, LATE + Duration::from_secs_f64(alone / 1e3)));
        let others = [(&self.status, LATE), (&self.keystroke, LATE), (&self.mkpdus, MKA_HELLO + LATE)];
        for (samples, most) in others.into_iter().chain(handshakes) {
            if samples.values.is_empty() {
                continue;
            }
            let mut row = samples.row(BENCH, "ms", None);
            let most = most.as_millis();
            let met = row.spread.as_ref().is_some_and(|spread| spread.highest <= most as f64);
            row.target = Some(Target { wanted: format!("never more than {most}"), met });
            figure(row);
        }
    }
}
