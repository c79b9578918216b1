//! The link as a whole: what it forwards, how long it takes and what it costs, beside what stands around it.
//!
//! ```text
//!  Linux bridge <- bare forwarder <- our engine, unprotected <- each suite
//!                  (AF_XDP, AF_PACKET: each arrow compares within one kind of port, but for the first)
//! ```
//!
//! An arrow points at what a case is compared with. Both boxes of a network hold the same thing; the protected side has
//! MTU 1532, so that nothing is divided, and no rate limit: CPUs are the limit. Sender, both boxes and receiver share
//! them, so a rate is that of the whole chain, and one hop alone reaches more.
//!
//! | figure | how |
//! |---|---|
//! | 64 and 1514 octets | frames that arrive each second, the best of several offers |
//! | TCP | goodput of one stream with CUBIC |
//! | CPU | seconds of both boxes' processes and of all softirqs, for each gigabit of that stream |
//! | round trip | UDP echoes of 64-octet frames, one at a time, with a pause before each |
//! | one hop under load | the same through one gateway that protects nothing, beside a flood, for each `polling` |

use std::time::Duration;

use engine::open::Io;
use hdrhistogram::Histogram;
use lab::flood::{self, Load};
use lab::traffic::{self, Ip, Until};
use lab::{CpuTimes, Shape};
use suite::CipherSuite;

use super::samples::Samples;
use super::stand::Stand;
use super::{Bench, BenchError, PAUSE};
use crate::demo::pair::Choice;

const BENCH: &str = "link";
/// Octets of payload of the frames that are sent, and of the frames themselves without FCS.
const FRAMES: [(usize, &str); 2] = [(46, "64-octet frames"), (1500, "1514-octet frames")];
/// Frames offered each second, in turn; the last is as many as the sender can. Where a box that is offered too many
/// loses time with those it drops, a smaller offer gives the better figure.
const OFFERS: [Option<u32>; 3] = [Some(250_000), Some(400_000), None];
/// Octets of the datagrams whose round trip is taken: with its headers a frame of 64 octets and FCS.
const DATAGRAM: usize = 24;
/// Small frames a second beside which a round trip is taken.
const LOAD: u32 = 50_000;
/// How long a load may last.
const LOAD_LIMIT: Duration = Duration::from_secs(120);

const UNPROTECTED: &str = "protect_frames = false\nvalidate_frames = \"check\"";
const EXPERIMENTAL: &str = "allow_experimental = true";

/// A case, and the number of the one it is compared with.
struct Case {
    stand: Stand,
    reference: Option<usize>,
}

pub(super) fn measure(bench: &mut Bench<'_>) -> Result<(), BenchError> {
    (bench.progress)(&"networks for the link");
    let mut cases = cases(bench)?;
    for (octets, what) in FRAMES {
        rates(bench, &cases, octets, what)?;
    }
    transfers(bench, &mut cases)?;
    round_trips(bench, &cases, "round trip", None)?;
    stop(cases)?;
    let cases = hops(bench)?;
    round_trips(bench, &cases, "one hop, round trip", None)?;
    round_trips(bench, &cases, &format!("one hop, round trip beside {LOAD} frames/s"), Some(LOAD))?;
    stop(cases)
}

fn cases(bench: &Bench<'_>) -> Result<Vec<Case>, BenchError> {
    let shape = Shape { static_neighbours: true, ..Shape::default() };
    let mut cases = vec![Case { stand: Stand::bridged("Linux bridge", &shape)?, reference: None }];
    for (io, port, suites) in
        [(Io::AfXdp, "af_xdp", &CipherSuite::ALL[..]), (Io::AfPacket, "af_packet", &[CipherSuite::GcmAes128])]
    {
        let bare = Stand::forwarded(&format!("bare forwarder, {port}"), &shape, io)?;
        cases.push(Case { stand: bare, reference: Some(0) });
        let choice = Choice { io: port, gateway: EXPERIMENTAL, ..Choice::default() };
        let gateways = |case: &str, choice: &Choice| {
            Stand::new(bench.frameward, &format!("{case}, {port}"), &shape, choice)
        };
        let unprotected = gateways("unprotected", &Choice { link: UNPROTECTED, ..choice.clone() })?;
        cases.push(Case { stand: unprotected, reference: Some(cases.len() - 1) });
        let unprotected = cases.len() - 1;
        for suite in suites {
            let stand = gateways(suite.name(), &Choice { suite: *suite, ..choice.clone() })?;
            cases.push(Case { stand, reference: Some(unprotected) });
        }
    }
    Ok(cases)
}

/// One hop with each way of polling; compared with the one that never sleeps.
fn hops(bench: &Bench<'_>) -> Result<Vec<Case>, BenchError> {
    let shape = Shape { static_neighbours: true, ..Shape::default() };
    let mut cases = Vec::new();
    for (name, polling) in [
        ("busy", "polling = \"busy\""),
        ("adaptive", "polling = \"adaptive\""),
        ("interrupt", "polling = \"interrupt\""),
    ] {
        let choice = Choice { gateway: polling, link: UNPROTECTED, ..Choice::default() };
        let stand = Stand::one_hop(bench.frameward, name, &shape, &choice)?;
        let reference = if cases.is_empty() { None } else { Some(0) };
        cases.push(Case { stand, reference });
    }
    Ok(cases)
}

fn stop(cases: Vec<Case>) -> Result<(), BenchError> {
    cases.into_iter().try_for_each(|case| case.stand.stop())
}

fn samples(cases: &[Case], what: &str) -> Vec<Samples> {
    cases.iter().map(|case| Samples::new(&format!("{what}, {}", case.stand.case))).collect()
}

/// Tells the figures, each compared with its reference.
fn tell(bench: &mut Bench<'_>, cases: &[Case], samples: &[Samples], unit: &str) {
    for (case, one) in cases.iter().zip(samples) {
        let reference = case.reference.and_then(|number| samples.get(number));
        (bench.figure)(one.row(BENCH, unit, reference));
    }
}

/// Frames that arrive each second.
fn rates(bench: &mut Bench<'_>, cases: &[Case], octets: usize, what: &str) -> Result<(), BenchError> {
    let mut samples = samples(cases, what);
    for round in 1..=bench.effort.rounds {
        for (case, samples) in cases.iter().zip(&mut samples) {
            let (a, b) = (&case.stand.topology.machine_a, &case.stand.topology.machine_b);
            let mut best = 0.0_f64;
            for offer in OFFERS {
                let flood = flood::flood(a, b, octets, offer, bench.effort.time / 3)?;
                best = best.max(flood.delivered_per_second());
            }
            (bench.progress)(&format_args!("round {round}: {}: {best:.0} frames/s", samples.case));
            if best == 0.0 {
                return Err(BenchError::Silent(samples.case.clone()));
            }
            samples.push(best);
        }
    }
    tell(bench, cases, &samples, "frames/s");
    Ok(())
}

/// Goodput of TCP, and what the CPUs spend on it.
fn transfers(bench: &mut Bench<'_>, cases: &mut [Case]) -> Result<(), BenchError> {
    let (mut goodput, mut cost) = (samples(cases, "TCP"), samples(cases, "CPU of TCP"));
    for round in 1..=bench.effort.rounds {
        for (number, case) in cases.iter_mut().enumerate() {
            let runners = case.stand.runners();
            let (a, b) = (&case.stand.topology.machine_a, &case.stand.topology.machine_b);
            let before = CpuTimes::now(&runners)?;
            let transfer = traffic::tcp_with(a, b, Ip::V4, Until::Elapsed(bench.effort.time), Some("cubic"))?;
            let used = CpuTimes::now(&runners)?.since(before).sum();
            let (rate, gigabits) = (transfer.megabits_per_second(), transfer.octets as f64 * 8e-9);
            goodput[number].push(rate);
            cost[number].push(used.as_secs_f64() / gigabits);
            (bench.progress)(&format_args!("round {round}: {}: {rate:.0} Mbit/s", goodput[number].case));
        }
    }
    tell(bench, cases, &goodput, "Mbit/s");
    tell(bench, cases, &cost, "s/Gbit");
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
    let (mut middle, mut high) =
        (samples(cases, &format!("{what} p50")), samples(cases, &format!("{what} p99")));
    let mut highest = samples(cases, &format!("{what} p99.9"));
    let mut all: Vec<Option<Histogram<u64>>> = vec![None; cases.len()];
    for _ in 0..bench.effort.rounds {
        for (number, case) in cases.iter().enumerate() {
            let (a, b) = (&case.stand.topology.machine_a, &case.stand.topology.machine_b);
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
        (bench.progress)(&format_args!("{what}"));
    }
    for (samples, all) in highest.iter_mut().zip(all) {
        samples.push(all.map_or(0.0, |all| all.value_at_percentile(99.9) as f64 / 1e3));
    }
    for samples in [middle, high, highest] {
        tell(bench, cases, &samples, "us");
    }
    Ok(())
}
