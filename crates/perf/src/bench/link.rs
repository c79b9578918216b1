//! The link as a whole: what it forwards, how long it takes and what it costs, beside what stands around it.
//!
//! ```text
//!  Linux bridge <- bare forwarder <- our engine, unprotected <- each suite
//!                  (AF_XDP, AF_PACKET: each arrow compares within one kind of port, but for the first)
//!  Linux bridge <- gateways whose link is in the kernel; and their programs alone, with and without keystream ahead
//! ```
//!
//! An arrow points at what a case is compared with. Both boxes of a network hold the same thing; the protected side has
//! MTU 1532, so that nothing is fragmented, and no rate limit: CPUs are the limit. Sender, both boxes and receiver share
//! them, so a rate is that of the whole chain, and one hop alone reaches more.
//!
//! | figure | how |
//! |---|---|
//! | over a cable | frames that arrive each second, made and counted by programs, beside XDP redirect and a bridge: [`cable`] |
//! | 64 and 1514 octets | frames that arrive each second from packet socket to packet socket, the best of several offers |
//! | TCP | goodput of one stream with CUBIC |
//! | CPU | seconds of both boxes' processes and of all softirqs, for each gigabit of that stream |
//! | round trip | UDP echoes of 64-octet frames, one at a time, with a pause before each |
//! | one hop under load | the same through one gateway that protects nothing, beside a flood, for each `polling` |
//! | express beside a gigabit | one-way delay of cyclic frames beside bulk, of each kind of link and of a bridge ([`express`]) |
//! | a program in the kernel | a frame's time in the programs of the kernel path, as the kernel tells it (`in_kernel`) |

pub mod cable;
mod express;
pub(super) mod in_kernel;

use std::time::Duration;

use ::bench::Target;
use dataplane::open::Io;
use hdrhistogram::Histogram;
use lab::flood::{self, Flood, Load};
use lab::traffic::{self, Ip, Until};
use lab::{CpuTimes, Shape};
use suite::CipherSuite;

use super::samples::{Samples, in_turn};
use super::test_bed::TestBed;
use super::{Bench, BenchError, PAUSE};
use crate::demo::pair::Choice;

const BENCH: &str = "link";
/// Octets of payload of the frames that are sent, and of the frames themselves without FCS.
pub(crate) const FRAMES: [(usize, &str); 2] = [(46, "64-octet frames"), (1500, "1514-octet frames")];
/// Frames offered each second, in turn; the last is as many as the sender can. Where a box that is offered too many
/// loses time with those it drops, a smaller offer gives the better figure.
const OFFERS: [Option<u32>; 3] = [Some(250_000), Some(400_000), None];
/// Octets of the datagrams whose round trip is taken: with its headers a frame of 64 octets and FCS.
const DATAGRAM: usize = 24;
/// Small frames a second beside which a round trip is taken.
const LOAD: u32 = 50_000;
/// Limit on a load's duration.
const LOAD_LIMIT: Duration = Duration::from_secs(120);

/// The middle of the round trips.
pub(crate) const TRIPS: &str = "round trip p50";
/// Measurement of a transfer.
const GOODPUT: &str = "TCP";
/// Cost.
pub(crate) const COST: &str = "CPU of TCP";

const UNPROTECTED: &str = "protect_frames = false\nvalidate_frames = \"check\"";
const EXPERIMENTAL: &str = "allow_experimental = true";

/// Contents of a case's boxes.
enum Boxes {
    Bridges,
    Bare(Io),
    InKernel { ahead: bool },
    Gateways(Choice),
    OneGateway(Choice),
}

/// A case that can be measured, and the name of the one it is compared with.
struct Plan {
    name: String,
    reference: Option<String>,
    boxes: Boxes,
}

/// A case with its network.
struct Case {
    plan: Plan,
    test_bed: TestBed,
}

pub(super) fn measure(bench: &mut Bench<'_>) -> Result<(), BenchError> {
    (bench.progress)(&"networks for the link");
    let [small, full] = FRAMES;
    let trips = "round trip";
    let figures = [&[small.1, full.1, GOODPUT, COST].map(String::from)[..], &percentiles(trips)].concat();
    let (idle, loaded) = ("one hop, round trip", format!("one hop, round trip beside {LOAD} frames/s"));
    let hop_figures = [percentiles(idle), percentiles(&loaded)].concat();
    let (links, hops) = (keep(bench, links(), &figures), keep(bench, hops(), &hop_figures));
    let mut others = in_kernel::measure(bench)?;
    others |= express::measure(bench)?;
    if cable::is_wanted(bench) {
        cable::measure(bench)?;
        others = true;
    }
    if links.is_empty() && hops.is_empty() {
        return if others { Ok(()) } else { Err(BenchError::Unknown) };
    }
    let cases = build(bench, links)?;
    for (octets, what) in FRAMES {
        rates(bench, &cases, octets, what)?;
    }
    transfers(bench, &cases)?;
    round_trips(bench, &cases, trips, None)?;
    stop(cases)?;
    let cases = build(bench, hops)?;
    round_trips(bench, &cases, idle, None)?;
    round_trips(bench, &cases, &loaded, Some(LOAD))?;
    stop(cases)
}

/// Both boxes alike.
fn links() -> Vec<Plan> {
    let bridge = "Linux bridge";
    let in_kernel = |ahead, what| Plan {
        name: format!("{}, programs in the kernel{what}", in_kernel::SUITE),
        reference: Some(bridge.into()),
        boxes: Boxes::InKernel { ahead },
    };
    let mut plans = vec![
        Plan { name: bridge.into(), reference: None, boxes: Boxes::Bridges },
        in_kernel(false, ""),
        in_kernel(true, ", keystream ahead"),
        Plan {
            name: gateways_in_the_kernel(),
            reference: Some(bridge.into()),
            boxes: Boxes::Gateways(Choice { io: "kernel", suite: in_kernel::SUITE, ..Choice::default() }),
        },
    ];
    for (io, port, suites) in
        [(Io::AfXdp, "af_xdp", &CipherSuite::ALL[..]), (Io::AfPacket, "af_packet", &[CipherSuite::GcmAes128])]
    {
        let mut plan = |name: &str, reference: &str, boxes| {
            let (name, reference) = (format!("{name}, {port}"), Some(reference.to_owned()));
            plans.push(Plan { name: name.clone(), reference, boxes });
            name
        };
        let choice = Choice { io: port, gateway: EXPERIMENTAL, ..Choice::default() };
        let bare = plan("bare forwarder", bridge, Boxes::Bare(io));
        let gateways = Boxes::Gateways(Choice { link: UNPROTECTED, ..choice.clone() });
        let unprotected = plan("unprotected", &bare, gateways);
        for suite in suites {
            let gateways = Boxes::Gateways(Choice { suite: *suite, ..choice.clone() });
            plan(suite.name(), &unprotected, gateways);
        }
    }
    plans
}

/// One hop with each way of polling; compared with the one that never sleeps.
fn hops() -> Vec<Plan> {
    let busy = "busy";
    let polling = [
        (busy, "polling = \"busy\""),
        ("adaptive", "polling = \"adaptive\""),
        ("interrupt", "polling = \"interrupt\""),
    ];
    let plan = |(name, polling): (&str, _)| Plan {
        name: name.into(),
        reference: (name != busy).then(|| busy.into()),
        boxes: Boxes::OneGateway(Choice { gateway: polling, link: UNPROTECTED, ..Choice::default() }),
    };
    polling.map(plan).into()
}

/// Those of which a figure is wanted, or with which one is compared.
fn keep(bench: &Bench<'_>, plans: Vec<Plan>, figures: &[String]) -> Vec<Plan> {
    let kept = wanted(bench, &plans.iter().collect::<Vec<_>>(), figures);
    plans.into_iter().zip(kept).filter(|(_, kept)| *kept).map(|(plan, _)| plan).collect()
}

/// The cases for some figures.
fn chosen<'c>(bench: &Bench<'_>, cases: &'c [Case], figures: &[String]) -> Vec<&'c Case> {
    let chosen = wanted(bench, &cases.iter().map(|case| &case.plan).collect::<Vec<_>>(), figures);
    cases.iter().zip(chosen).filter(|(_, chosen)| *chosen).map(|(case, _)| case).collect()
}

/// For each plan whether one of these figures of it is wanted, or of one that is compared with it.
fn wanted(bench: &Bench<'_>, plans: &[&Plan], figures: &[String]) -> Vec<bool> {
    let own = |plan: &Plan| figures.iter().any(|what| bench.wants(&row_name(what, &plan.name)));
    let compared =
        |plan: &Plan| plans.iter().any(|other| other.reference.as_ref() == Some(&plan.name) && own(other));
    plans.iter().map(|plan| own(plan) || compared(plan)).collect()
}

fn build(bench: &Bench<'_>, plans: Vec<Plan>) -> Result<Vec<Case>, BenchError> {
    let shape = Shape { static_neighbours: true, ..Shape::default() };
    let mut cases = Vec::new();
    for plan in plans {
        let (program, name) = (&bench.programs.frameward, &plan.name);
        let test_bed = match &plan.boxes {
            Boxes::Bridges => TestBed::bridged(name, &shape)?,
            Boxes::Bare(io) => TestBed::forwarded(&bench.programs.lab, name, &shape, *io)?,
            Boxes::InKernel { ahead } => {
                TestBed::protected_in_kernel(&bench.programs.lab, name, &shape, *ahead)?
            }
            Boxes::Gateways(choice) => TestBed::new(program, name, &shape, choice)?,
            Boxes::OneGateway(choice) => TestBed::one_hop(program, name, &shape, choice)?,
        };
        cases.push(Case { plan, test_bed });
    }
    Ok(cases)
}

fn stop(cases: Vec<Case>) -> Result<(), BenchError> {
    cases.into_iter().try_for_each(|case| case.test_bed.stop())
}

fn row_name(what: &str, case: &str) -> String {
    format!("{what}, {case}")
}

fn percentiles(what: &str) -> [String; 3] {
    ["p50", "p99", "p99.9"].map(|percentile| format!("{what} {percentile}"))
}

fn samples(cases: &[&Case], what: &str) -> Vec<Samples> {
    cases.iter().map(|case| Samples::new(&row_name(what, &case.plan.name))).collect()
}

/// Tells the figures, each compared with its reference, if that was measured too.
fn tell(bench: &mut Bench<'_>, cases: &[&Case], samples: &[Samples], unit: &str) {
    for (case, one) in cases.iter().zip(samples) {
        let reference = case.plan.reference.as_ref();
        let number = cases.iter().position(|other| Some(&other.plan.name) == reference);
        let mut row = one.row(BENCH, unit, number.and_then(|number| samples.get(number)));
        if case.plan.name == gateways_in_the_kernel() {
            row.target = row.ratio.as_ref().and_then(|ratio| target(&row.case, ratio.value));
        }
        (bench.figure)(row);
    }
}

/// Of a gigabit's cost, at most so much of what our gateways take in user space.
const COST_OF_USER_SPACE: f64 = 0.5;

/// Cost of gateways with their link in the kernel, beside that of gateways in user space.
fn cost_beside_user_space(bench: &mut Bench<'_>, cost: &[Samples]) {
    let find = |case: &str| cost.iter().find(|one| one.case == row_name(COST, case));
    let (Some(kernel), Some(user_space)) = (find(&gateways_in_the_kernel()), find(cable::USER_SPACE)) else {
        return;
    };
    let mut row = kernel.row(BENCH, "s/Gbit", Some(user_space));
    row.target = row.ratio.as_ref().map(|ratio| Target {
        wanted: format!("ratio at most {COST_OF_USER_SPACE}"),
        met: ratio.value <= COST_OF_USER_SPACE,
    });
    (bench.figure)(row);
}

/// Target of gateways with their link in the kernel, beside a bridge. Of rates something is wanted [over a cable](cable): here the sockets
/// bound them.
fn target(case: &str, ratio: f64) -> Option<Target> {
    let wanted = || Target { wanted: "less than the bridge's".to_owned(), met: ratio < 1.0 };
    (case == figure(TRIPS)).then(wanted)
}

/// The case of gateways whose link is in the kernel.
pub(crate) fn gateways_in_the_kernel() -> String {
    format!("{}, kernel", in_kernel::SUITE)
}

/// Its figure of this kind.
pub(crate) fn figure(what: &str) -> String {
    row_name(what, &gateways_in_the_kernel())
}

/// Frames that arrive each second.
fn rates(bench: &mut Bench<'_>, cases: &[Case], octets: usize, what: &str) -> Result<(), BenchError> {
    let mut cases = chosen(bench, cases, &[what.into()]);
    let mut samples = samples(&cases, what);
    let time = bench.effort.time / OFFERS.len() as u32;
    in_turn(bench, &mut cases, &mut samples, "frames/s", |case| {
        let (a, b) = (&case.test_bed.topology.machine_a, &case.test_bed.topology.machine_b);
        let floods = OFFERS.map(|offer| flood::flood(a, b, octets, offer, time));
        let best = |best: f64, flood: Result<Flood, _>| Ok(best.max(flood?.delivered_per_second()));
        floods.into_iter().try_fold(0.0, best).map(Some)
    })?;
    tell(bench, &cases, &samples, "frames/s");
    Ok(())
}

/// Goodput of TCP, and what the CPUs spend on it.
fn transfers(bench: &mut Bench<'_>, cases: &[Case]) -> Result<(), BenchError> {
    let cases = &chosen(bench, cases, &[GOODPUT, COST].map(String::from))[..];
    let (mut goodput, mut cost) = (samples(cases, GOODPUT), samples(cases, COST));
    for round in 1..=bench.effort.rounds {
        for (number, case) in cases.iter().enumerate() {
            let processes = case.test_bed.processes();
            let (a, b) = (&case.test_bed.topology.machine_a, &case.test_bed.topology.machine_b);
            let before = CpuTimes::now(&processes)?;
            let transfer = traffic::tcp_with(a, b, Ip::V4, Until::Elapsed(bench.effort.time), Some("cubic"))?;
            let used = CpuTimes::now(&processes)?.since(before).sum();
            let (rate, gigabits) = (transfer.megabits_per_second(), transfer.octets as f64 * 8e-9);
            goodput[number].push(rate);
            cost[number].push(used.as_secs_f64() / gigabits);
            (bench.progress)(&format_args!("round {round}: {}: {rate:.0} Mbit/s", goodput[number].case));
        }
    }
    tell(bench, cases, &goodput, "Mbit/s");
    tell(bench, cases, &cost, "s/Gbit");
    cost_beside_user_space(bench, &cost);
    Ok(())
}

/// Percentiles of round trips, beside `load` small frames a second. The highest percentile needs the round trips of
/// all rounds together.
fn round_trips(
    bench: &mut Bench<'_>,
    cases: &[Case],
    what: &str,
    load: Option<u32>,
) -> Result<(), BenchError> {
    let figures = percentiles(what);
    let cases = &chosen(bench, cases, &figures)[..];
    let [mut middle, mut high, mut highest] = figures.map(|figure| samples(cases, &figure));
    let mut all: Vec<Option<Histogram<u64>>> = vec![None; cases.len()];
    for _ in 0..bench.effort.rounds {
        for (number, case) in cases.iter().enumerate() {
            let (a, b) = (&case.test_bed.topology.machine_a, &case.test_bed.topology.machine_b);
            let load = load.map(|rate| Load::start(a, b, FRAMES[0].0, Some(rate), LOAD_LIMIT)).transpose()?;
            let trips = traffic::lone_round_trips(a, b, Ip::V4, DATAGRAM, bench.effort.round_trips, PAUSE)?;
            if let Some(load) = load {
                load.stop()?;
            }
            if trips.times.is_empty() {
                return Err(BenchError::Silent(middle[number].case.clone()));
            }
            middle[number].push(trips.percentile(50.0).as_secs_f64() * 1e6);
            high[number].push(trips.percentile(99.0).as_secs_f64() * 1e6);
            match &mut all[number] {
                // Histograms of one kind can be added.
                Some(all) => drop(all.add(&trips.times)),
                none => *none = Some(trips.times),
            }
        }
        if !cases.is_empty() {
            (bench.progress)(&format_args!("{what}"));
        }
    }
    for (samples, all) in highest.iter_mut().zip(all) {
        samples.push(all.map_or(0.0, |all| all.value_at_percentile(99.9) as f64 / 1e3));
    }
    for samples in [middle, high, highest] {
        tell(bench, cases, &samples, "us");
    }
    Ok(())
}
