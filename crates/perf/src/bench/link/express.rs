//! Express frames beside bulk: one-way delay of 50 relations' cyclic frames while full-size frames go the same way at a gigabit.
//!
//! ```text
//!  PLC  ── [bridge, gateway] ~~ [bridge, gateway] ── 50 devices        a frame each way a millisecond for each
//!  file ──────────────────────────────────────────▶                    81,274 frames of 1518 octets a second
//! ```
//!
//! A frame carries when it was given to the system, and its delay ends when the receiver has read it: machines are in all figures.
//! Compared with Linux bridges in the same rounds.

use std::time::Duration;

use ::bench::Target;
use lab::cyclic::{Exchange, Relation, no_times};
use lab::flood::Load;
use lab::{Shape, Topology};

use super::{BENCH, LOAD_LIMIT, in_kernel, percentiles, row_name};
use crate::bench::samples::Samples;
use crate::bench::test_bed::TestBed;
use crate::bench::{Bench, BenchError};
use crate::demo::cells::redirecting;
use crate::demo::pair::{Choice, Pair};

/// Name of the figure.
const DELAY: &str = "express beside a gigabit, one-way delay";
/// Full-size frames a second that fill a gigabit: 1518 octets with FCS, 8 of preamble and a gap of 12.
const BULK: u32 = 1_000_000_000 / (8 * (1518 + 20));
/// Octets of the payload of each.
const BULK_OCTETS: usize = 1500;
/// Relations of the PLC.
const RELATIONS: u16 = 50;
const CYCLE: Duration = Duration::from_millis(1);
const PAYLOAD: usize = 44;
/// Time the first frames may take.
const PATIENCE: Duration = Duration::from_secs(20);
/// Delay, in shares of the bridge's, that is wanted of express frames in the kernel.
const WANTED: f64 = 2.0;

const BRIDGE: &str = "Linux bridge";
const EXPRESS: &str = "express = true";
const USER_SPACE: &str = "all in user space";
const KERNEL: &str = "a link in the kernel";

/// Measures, if its figures are wanted; whether they were.
///
/// # Errors
/// The first thing that fails. Nothing is left behind.
pub(super) fn measure(bench: &mut Bench<'_>) -> Result<bool, BenchError> {
    let figures = percentiles(DELAY);
    let cases = [BRIDGE, KERNEL, EXPRESS, USER_SPACE];
    let row = |figure: &String, case| row_name(figure, case);
    if !figures.iter().any(|figure| cases.iter().any(|case| bench.wants(&row(figure, case)))) {
        return Ok(false);
    }
    (bench.progress)(&"networks for express frames");
    let whole = Shape { static_neighbours: true, ..Shape::default() };
    let split = Shape { protected_mtu: 1500, ..whole.clone() };
    let suite = in_kernel::SUITE;
    let gateways = |name: &str, shape: &Shape, io, link| -> Result<TestBed, BenchError> {
        let topology = redirecting(shape)?;
        let choice = Choice { io, suite, link, ..Choice::default() };
        let pair = Pair::start(&bench.programs.frameward, &topology, &choice)?;
        Ok(TestBed::running(name, topology, pair))
    };
    let test_beds = [
        TestBed::bridged(BRIDGE, &whole)?,
        gateways(KERNEL, &whole, "kernel", "")?,
        gateways(EXPRESS, &split, "auto", "fragment = \"on\"\nexpress = true")?,
        gateways(USER_SPACE, &split, "auto", "fragment = \"on\"")?,
    ];
    let mut samples =
        cases.map(|case| figures.each_ref().map(|figure| Samples::new(&row_name(figure, case))));
    for round in 1..=bench.effort.rounds {
        for (test_bed, samples) in test_beds.iter().zip(&mut samples) {
            let delays = delays(&test_bed.topology, bench.effort.time)
                .map_err(|error| error.unwrap_or_else(|| BenchError::Silent(test_bed.case.clone())))?;
            (bench.progress)(&format_args!("round {round}: {}: {:.1} us", samples[2].case, delays[2]));
            samples.iter_mut().zip(delays).for_each(|(samples, delay)| samples.push(delay));
        }
    }
    for (case, own) in cases.into_iter().zip(&samples) {
        for (number, own) in own.iter().enumerate() {
            let bridge = (case != BRIDGE).then_some(&samples[0][number]);
            let mut row = own.row(BENCH, "us", bridge);
            if case == EXPRESS && number == 2 {
                let met = row.ratio.as_ref().is_some_and(|ratio| ratio.value <= WANTED);
                row.target = Some(Target { wanted: format!("at most {WANTED} times the bridge's"), met });
            }
            (bench.figure)(row);
        }
    }
    test_beds.into_iter().try_for_each(TestBed::stop)?;
    Ok(true)
}

/// Percentiles of one round, in microseconds, of all relations both ways. `None` as an error: nothing arrived.
fn delays(topology: &Topology, time: Duration) -> Result<[f64; 3], Option<BenchError>> {
    let (a, b) = (&topology.machine_a, &topology.machine_b);
    let failed = |error: lab::Error| Some(error.into());
    let relations: Vec<_> = (0..RELATIONS)
        .map(|device| {
            let [high, low] = device.to_be_bytes();
            Relation {
                stations: [a.mac, [2, 0, 0, 1, high, low]],
                frame_ids: [0x8000 + device, 0x8000],
                cycle: CYCLE,
                payload_octets: PAYLOAD,
            }
        })
        .collect();
    let exchange = Exchange::start(a, b, &relations).map_err(failed)?;
    exchange.wait_for(1, PATIENCE).map_err(failed)?;
    let bulk = Load::start(a, b, BULK_OCTETS, Some(BULK), LOAD_LIMIT).map_err(failed)?;
    std::thread::sleep(time);
    let heard = exchange.stop().map_err(failed)?;
    bulk.stop().map_err(failed)?;
    let mut all = no_times();
    for heard in heard.into_iter().flatten() {
        // Histograms of one kind can be added.
        let _ = all.add(&heard.delay);
    }
    if all.is_empty() {
        return Err(None);
    }
    Ok([0.5, 0.99, 0.999].map(|quantile| all.value_at_quantile(quantile) as f64 / 1e3))
}
