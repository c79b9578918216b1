//! Full-size frames over a network of MTU 1500 (TII paper, section IV), on a wire of 100 Mbit/s.
//!
//! A protected frame of MTU 1500 has room for 1468 octets of payload. The paper's scenarios are payloads of 1468 (fits),
//! 1500 (a frame and a scrap) and 2936 octets (two frames); each is measured
//!
//! - over a *jumbo* path, whose MTU is 32 octets more than the payload: nothing is fragmented, the reference;
//! - over MTU 1500 with fragmentation alone;
//! - with concatenation of what waits in a burst, which delays nothing;
//! - with concatenation and `hold`, which delays every SDU by at most that long;
//! - without protection, through Linux bridges in the boxes: what the thesis measures as Ethernet.
//!
//! Goodput is that of one TCP stream with full-size segments and CUBIC. Round trips are UDP echoes, one at a time: of
//! small datagrams, and of the longest that make one packet. They are taken on an unlimited wire, since a token bucket
//! lets a lone frame pass at once, where a real wire of 100 Mbit/s takes 125 us for a full one. So each is told twice:
//! as it was measured, and with the time that the wire takes for its frames, which is computed, added.
//!
//! CPU is that of the boxes' processes and of all softirqs of the machine during a transfer, in per cent of one CPU.

use std::time::{Duration, Instant};

use lab::traffic::{self, Ip, Until};
use lab::{CpuTimes, Machine, Shape};

use super::samples::Samples;
use super::test_bed::TestBed;
use super::{Bench, BenchError, PAUSE};
use crate::demo::pair::Choice;

const BENCH: &str = "fragment";
/// Bits per second of the wire.
const WIRE: u64 = 100_000_000;
/// Time a frame may wait at the wire: enough for TCP, as in a switch.
const QUEUE: Duration = Duration::from_millis(50);
/// Payloads of the paper's scenarios, in octets.
const PAYLOADS: [u32; 3] = [1468, 1500, 2936];
/// Octets of IPv4 and UDP headers.
const HEADERS: usize = 28;
/// Octets of the small datagrams: of a ping.
const SMALL: usize = 56;

/// Way in which a network carries a payload.
struct Way {
    name: &'static str,
    /// The MTU of the insecure network, if it is not the jumbo path's.
    mtu: Option<u32>,
    /// Treatment of frames by the gateways; none if bridges replace them.
    link: Option<&'static str>,
}

const WAYS: [Way; 5] = [
    Way { name: "jumbo", mtu: None, link: Some("") },
    Way { name: "fragment", mtu: Some(1500), link: Some("fragment = \"on\"\nconcatenate = \"off\"") },
    Way { name: "concatenate", mtu: Some(1500), link: Some("fragment = \"on\"\nconcatenate = \"on\"") },
    Way {
        name: "concatenate, hold 2ms",
        mtu: Some(1500),
        link: Some("fragment = \"on\"\nconcatenate = \"on\"\nhold = \"2ms\""),
    },
    Way { name: "unprotected, bridges", mtu: None, link: None },
];

pub(super) fn measure(bench: &mut Bench<'_>) -> Result<(), BenchError> {
    for payload in PAYLOADS {
        let test_beds = test_beds(bench, payload)?;
        goodput(bench, &test_beds)?;
        for octets in [SMALL, payload as usize - HEADERS] {
            round_trips(bench, &test_beds, octets)?;
        }
        for test_bed in test_beds {
            test_bed.stop()?;
        }
    }
    Ok(())
}

fn test_beds(bench: &mut Bench<'_>, payload: u32) -> Result<Vec<TestBed>, BenchError> {
    (bench.progress)(&format_args!("networks for payloads of {payload} octets"));
    let mut test_beds = Vec::new();
    for Way { name, mtu, link } in WAYS {
        let shape = Shape {
            plain_mtu: payload,
            protected_mtu: mtu.unwrap_or(payload + 32),
            static_neighbours: true,
            ..Shape::default()
        };
        let case = format!("{payload} {name}");
        test_beds.push(match link {
            Some(link) => {
                TestBed::new(&bench.programs.frameward, &case, &shape, &Choice { link, ..Choice::default() })?
            }
            None => TestBed::bridged(&case, &shape)?,
        });
    }
    Ok(test_beds)
}

fn machines(test_bed: &TestBed) -> [&Machine; 2] {
    [&test_bed.topology.machine_a, &test_bed.topology.machine_b]
}

fn goodput(bench: &mut Bench<'_>, test_beds: &[TestBed]) -> Result<(), BenchError> {
    let mut samples: Vec<_> =
        test_beds.iter().map(|test_bed| Samples::new(&format!("TCP {}", test_bed.case))).collect();
    let mut costs: Vec<_> =
        test_beds.iter().map(|test_bed| Samples::new(&format!("CPU of TCP {}", test_bed.case))).collect();
    for test_bed in test_beds {
        test_bed.topology.limit_rate(WIRE, QUEUE)?;
    }
    for round in 1..=bench.effort.rounds {
        for ((test_bed, samples), costs) in test_beds.iter().zip(&mut samples).zip(&mut costs) {
            let [a, b] = machines(test_bed);
            let processes = test_bed.processes();
            let (before, start) = (CpuTimes::now(&processes)?, Instant::now());
            let transfer = traffic::tcp_with(a, b, Ip::V4, Until::Elapsed(bench.effort.time), Some("cubic"))?;
            let used = CpuTimes::now(&processes)?.since(before).sum();
            samples.push(transfer.megabits_per_second());
            costs.push(100.0 * used.as_secs_f64() / start.elapsed().as_secs_f64());
            (bench.progress)(&format_args!(
                "round {round}: {}: {:.2} Mbit/s",
                samples.case,
                transfer.megabits_per_second()
            ));
        }
    }
    for test_bed in test_beds {
        test_bed.topology.unlimit_rate()?;
    }
    figures(bench, &samples, "Mbit/s");
    // Compared with nothing: of a short transfer the CPU may not have counted a tick.
    costs.iter().for_each(|costs| (bench.figure)(costs.row(BENCH, "%", None)));
    Ok(())
}

fn round_trips(bench: &mut Bench<'_>, test_beds: &[TestBed], octets: usize) -> Result<(), BenchError> {
    let mut samples: Vec<_> = test_beds
        .iter()
        .map(|test_bed| Samples::new(&format!("round trip of {octets}, {}", test_bed.case)))
        .collect();
    for _ in 0..bench.effort.rounds {
        for (test_bed, samples) in test_beds.iter().zip(&mut samples) {
            let [a, b] = machines(test_bed);
            let trips = traffic::lone_round_trips(a, b, Ip::V4, octets, bench.effort.round_trips, PAUSE)?;
            if trips.times.is_empty() {
                return Err(BenchError::Silent(samples.case.clone()));
            }
            samples.push(trips.percentile(50.0).as_secs_f64() * 1e6);
        }
    }
    figures(bench, &samples, "us");
    for (samples, way) in samples.iter_mut().zip(&WAYS) {
        samples.case += ", and the wire's time";
        let packet = octets + HEADERS;
        let wire =
            if way.link.is_some() { wire_microseconds(packet, way.mtu) } else { bare_microseconds(packet) };
        samples.values.iter_mut().for_each(|time| *time += 2.0 * wire);
    }
    figures(bench, &samples, "us");
    Ok(())
}

/// Time of an IP packet on a wire of 100 Mbit/s: protected, and fragmented if `mtu` is not the jumbo path's.
fn wire_microseconds(packet: usize, mtu: Option<u32>) -> f64 {
    /// DA and SA, SecTAG, ICV; and preamble, FCS and gap, as [`lab::Topology::limit_rate`] counts them.
    const AROUND: usize = 12 + 16 + 16 + 24;
    /// The shortest frame with all of that.
    const SHORTEST: usize = 84;
    let secure_data = packet + 2;
    let room = mtu.map_or(secure_data, |mtu| mtu as usize + 14 + 24 - AROUND);
    let octets = match secure_data.checked_sub(room) {
        None | Some(0) => (secure_data + AROUND).max(SHORTEST),
        // The second frame has one extension header; nothing here makes a third one.
        Some(rest) => room + AROUND + (rest + 2 + AROUND).max(SHORTEST),
    };
    octets as f64 * 8.0 / (WIRE as f64 / 1e6)
}

/// The same in clear: 14 octets of header in front, and preamble, FCS and gap.
fn bare_microseconds(packet: usize) -> f64 {
    (packet + 14 + 24).max(84) as f64 * 8.0 / (WIRE as f64 / 1e6)
}

/// Tells the figures, each compared with the first case.
fn figures(bench: &mut Bench<'_>, samples: &[Samples], unit: &str) {
    for (number, one) in samples.iter().enumerate() {
        (bench.figure)(one.row(BENCH, unit, samples.first().filter(|_| number > 0)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wire_takes_its_time_for_each_frame() {
        for (packet, mtu, octets) in [
            (1500, None, 1570),
            (1468, Some(1500), 1538),
            (1500, Some(1500), 1538 + 102),
            (2936, Some(1500), 2 * 1538),
            (84, Some(1500), 154),
        ] {
            let expected = f64::from(octets) * 0.08;
            let computed = wire_microseconds(packet, mtu);
            assert!((computed - expected).abs() < 1e-9, "{packet} over {mtu:?}: {computed} us");
        }
        assert!(
            (bare_microseconds(1500) - 123.04).abs() < 1e-9 && (bare_microseconds(40) - 6.72).abs() < 1e-9
        );
    }
}
