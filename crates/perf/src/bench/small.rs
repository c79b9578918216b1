//! Small frames: how many arrive when many share one MACsec frame.
//!
//! ```text
//!  a frame of 64 octets      84 octets of a wire's time (preamble 8, gap 12)
//!  29 of them in one frame   1540 octets, 53 each: the wire carries 1.6 times as many
//! ```
//!
//! On the wire of 100 Mbit/s they are compared with all that such a wire carries of the same frames unprotected, which
//! is computed, since bridges on a busy machine may not reach it; on an unlimited one, where CPUs
//! are the limit, with our own gateways that protect nothing.

use std::time::Duration;

use lab::traffic::{self, Ip};
use lab::{Shape, flood};

use super::samples::Samples;
use super::test_bed::TestBed;
use super::{Bench, BenchError, PAUSE};
use crate::demo::pair::Choice;

const BENCH: &str = "fragment";
/// Octets of payload of the smallest Ethernet frame.
const PAYLOAD: usize = 46;
/// Octets of a wire's time that the smallest frame takes.
const FRAME: u32 = 84;
/// Bits per second of the wire.
const WIRE: u64 = 100_000_000;
/// Time that a frame may wait at the wire.
const QUEUE: Duration = Duration::from_millis(20);
/// Frames offered to the wire each second, in turn: a little more than it carries of them unprotected (148,810), and
/// more than concatenation can carry (239,000). The better one counts: a gateway that is offered too many frames also
/// keeps the CPU from the wire.
const OFFERS_TO_WIRE: [Option<u32>; 2] = [Some(155_000), Some(260_000)];
/// Frames offered to the unlimited wire each second, in turn: the last is as many as the sender can.
const OFFERS: [Option<u32>; 2] = [Some(500_000), None];
/// Octets of the datagrams whose round trip is taken.
const DATAGRAM: usize = 24;

const CONCATENATE: &str = "fragment = \"on\"\nconcatenate = \"on\"";
const HOLD: &str = "fragment = \"on\"\nconcatenate = \"on\"\nhold = \"500us\"";
const UNPROTECTED: &str = "protect_frames = false\nvalidate_frames = \"check\"";

pub(super) fn measure(bench: &mut Bench<'_>) -> Result<(), BenchError> {
    (bench.progress)(&"networks for small frames");
    // 32 octets less, so that gateways without fragmentation run too.
    let shape = Shape { plain_mtu: 1468, protected_mtu: 1500, static_neighbours: true, ..Shape::default() };
    let gateways = |case, link| {
        TestBed::new(&bench.programs.frameward, case, &shape, &Choice { link, ..Choice::default() })
    };
    let test_beds = [
        TestBed::bridged("unprotected, bridges", &shape)?,
        gateways("unprotected, our gateways", UNPROTECTED)?,
        gateways("encrypted, one by one", "")?,
        gateways("concatenate", CONCATENATE)?,
        gateways("concatenate, hold 500us", HOLD)?,
    ];
    for test_bed in &test_beds {
        test_bed.topology.limit_rate(WIRE, QUEUE)?;
    }
    let what = "64-octet frames on 100 Mbit/s";
    let mut all = vec![Samples {
        case: format!("{what}, all that the wire carries unprotected (computed)"),
        values: vec![WIRE as f64 / (FRAME * 8) as f64; bench.effort.rounds],
    }];
    all.extend(rates(bench, &test_beds, what, &OFFERS_TO_WIRE)?);
    tell(bench, &all, "frames/s");
    for test_bed in &test_beds {
        test_bed.topology.unlimit_rate()?;
    }
    latency(bench, &test_beds)?;
    let unlimited = rates(bench, &test_beds[1..], "64-octet frames, unlimited", &OFFERS)?;
    tell(bench, &unlimited, "frames/s");
    for test_bed in test_beds {
        test_bed.stop()?;
    }
    Ok(())
}

/// Frames that arrive each second.
fn rates(
    bench: &mut Bench<'_>,
    test_beds: &[TestBed],
    what: &str,
    offers: &[Option<u32>],
) -> Result<Vec<Samples>, BenchError> {
    let mut samples: Vec<_> =
        test_beds.iter().map(|test_bed| Samples::new(&format!("{what}, {}", test_bed.case))).collect();
    for round in 1..=bench.effort.rounds {
        for (test_bed, samples) in test_beds.iter().zip(&mut samples) {
            let (a, b) = (&test_bed.topology.machine_a, &test_bed.topology.machine_b);
            let mut best = 0.0_f64;
            for offer in offers {
                let flood = flood::flood(a, b, PAYLOAD, *offer, bench.effort.time / 2)?;
                (bench.progress)(&format_args!(
                    "round {round}: {}: {:.0} of {:.0} frames/s arrive",
                    samples.case,
                    flood.delivered_per_second(),
                    flood.sent_per_second()
                ));
                best = best.max(flood.delivered_per_second());
            }
            if best == 0.0 {
                return Err(BenchError::Silent(samples.case.clone()));
            }
            samples.push(best);
        }
    }
    Ok(samples)
}

/// Cost of holding: the round trip of a lone small datagram.
fn latency(bench: &mut Bench<'_>, test_beds: &[TestBed]) -> Result<(), BenchError> {
    let mut samples: Vec<_> = test_beds
        .iter()
        .map(|test_bed| Samples::new(&format!("round trip of {DATAGRAM}, {}", test_bed.case)))
        .collect();
    for _ in 0..bench.effort.rounds {
        for (test_bed, samples) in test_beds.iter().zip(&mut samples) {
            let (a, b) = (&test_bed.topology.machine_a, &test_bed.topology.machine_b);
            let trips = traffic::lone_round_trips(a, b, Ip::V4, DATAGRAM, bench.effort.round_trips, PAUSE)?;
            if trips.times.is_empty() {
                return Err(BenchError::Silent(samples.case.clone()));
            }
            samples.push(trips.percentile(50.0).as_secs_f64() * 1e6);
        }
    }
    tell(bench, &samples, "us");
    Ok(())
}

fn tell(bench: &mut Bench<'_>, samples: &[Samples], unit: &str) {
    for (number, one) in samples.iter().enumerate() {
        (bench.figure)(one.row(BENCH, unit, samples.first().filter(|_| number > 0)));
    }
}
