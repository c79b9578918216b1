//! Round trips through two gateways that antedate, beside two that do not: on this CPU, and on one without AES
//! instructions.
//!
//! ```text
//!  for each CPU, suite and length:   antedate = "on"  ->  antedate = "off"      an arrow points at what is compared with
//! ```
//!
//! A CPU without AES instructions is this one with AES and carry-less multiplication masked, in the gateways alone, for
//! aws-lc, which every octet of a GCM frame goes through, antedated or not (`suite::antedated`). So the ordinary way is the
//! fastest that such a CPU has. A crate beside aws-lc computes with the key only, when it is prepared; building it without
//! AES instructions changes no figure here.
//!
//! All pairs of gateways stand side by side, and each round has round trips through each of them in turn, one at a time
//! and with a pause before each, in which keystreams are made. A round trip seals twice and opens twice.

use std::time::Duration;

use lab::Shape;
use lab::traffic::{self, Ip};
use suite::CipherSuite;

use super::samples::Samples;
use super::test_bed::TestBed;
use super::{Bench, BenchError, PAUSE};
use crate::demo::pair::Choice;
use report::GatewayReport;

const BENCH: &str = "antedate";
const SUITES: [CipherSuite; 2] = [CipherSuite::GcmAes128, CipherSuite::GcmAes256];
/// Octets that the cipher encrypts: those of the IP packet and its EtherType.
const TEXTS: [usize; 6] = [64, 128, 256, 512, 1024, 1468];
/// EtherType, IPv4 and UDP headers.
const HEADERS: usize = 2 + 20 + 8;

/// The variable that masks AES and carry-less multiplication for aws-lc: also VAES and VPCLMULQDQ, where there are any.
#[cfg(target_arch = "aarch64")]
const MASK: &str = "OPENSSL_armcap=~0x24";
#[cfg(not(target_arch = "aarch64"))]
const MASK: &str = "OPENSSL_ia32cap=~0x200000200000000:~0x60000000000";

/// A pair of gateways.
struct Case {
    name: String,
    /// The name of the case without antedating.
    ordinary: String,
    antedates: bool,
    test_bed: TestBed,
}

/// A CPU: its name, and what the gateways have in their environment for it.
type Cpu = (&'static str, &'static [&'static str]);

const CPUS: [Cpu; 2] = [("this CPU", &[]), ("without AES instructions", &[MASK])];

pub(super) fn measure(bench: &mut Bench<'_>) -> Result<(), BenchError> {
    (bench.progress)(&"networks for antedating");
    let mut cases = Vec::new();
    for cpu in CPUS {
        for suite in SUITES {
            for antedate in ["antedate = \"off\"", "antedate = \"on\""] {
                cases.push(Case::new(bench, cpu, suite, antedate)?);
            }
        }
    }
    for case in cases.iter().filter(|case| case.antedates) {
        (bench.progress)(&format_args!("{}: {}", case.name, antedating(&case.test_bed.report()?)));
    }
    for octets in TEXTS {
        round_trips(bench, &cases, octets)?;
    }
    for case in cases.iter().filter(|case| case.antedates) {
        let mut ready = Samples::new(&format!("frames whose keystream was ready, {}", case.name));
        ready.push(100.0 * share_ready(&case.test_bed.report()?));
        (bench.figure)(ready.row(BENCH, "%", None));
    }
    cases.into_iter().try_for_each(|case| case.test_bed.stop())
}

impl Case {
    fn new(
        bench: &Bench<'_>,
        (cpu, environment): Cpu,
        suite: CipherSuite,
        antedate: &'static str,
    ) -> Result<Self, BenchError> {
        let antedates = antedate.ends_with("\"on\"");
        let name = |way| format!("{suite}, {way}, {cpu}");
        let (ordinary, name) = (name("ordinary"), name(if antedates { "antedated" } else { "ordinary" }));
        let choice = Choice { suite, gateway: antedate, environment, ..Choice::default() };
        let shape = Shape { static_neighbours: true, ..Shape::default() };
        let test_bed = TestBed::new(&bench.programs.frameward, &name, &shape, &choice)?;
        Ok(Self { name, ordinary, antedates, test_bed })
    }
}

/// The gateway's measurement of itself at its start.
fn antedating(report: &GatewayReport) -> String {
    report.antedating.as_ref().map(ToString::to_string).unwrap_or_default()
}

fn share_ready(report: &GatewayReport) -> f64 {
    let [ready, all] = keystreams(report);
    ready as f64 / f64::max(all as f64, 1.0)
}

/// Frames whose keystream was ready, and all of which it might have been.
pub(super) fn keystreams(report: &GatewayReport) -> [u64; 2] {
    let [mut ready, mut all] = [0, 0];
    for link in &report.links {
        let counters = link.secy.receive.iter().map(|sc| &sc.counters).chain([&link.secy.transmit.counters]);
        for (name, value) in counters.flat_map(|counters| counters.iter()) {
            ready += if name.ends_with("PktsAntedated") { value } else { 0 };
            all += if name.contains("Antedated") { value } else { 0 };
        }
    }
    [ready, all]
}

fn round_trips(bench: &mut Bench<'_>, cases: &[Case], octets: usize) -> Result<(), BenchError> {
    let name = |percentile: &str, case: &str| format!("round trip {percentile}, {octets} octets, {case}");
    let of = |percentile| cases.iter().map(|case| Samples::new(&name(percentile, &case.name))).collect();
    let percentiles: [(f64, Vec<Samples>); 2] = [(50.0, of("p50")), (99.0, of("p99"))];
    let [mut middle, mut high] = percentiles;
    for round in 1..=bench.effort.rounds {
        for (number, case) in cases.iter().enumerate() {
            let (a, b) = (&case.test_bed.topology.machine_a, &case.test_bed.topology.machine_b);
            let trips = bench.effort.round_trips;
            let trips = traffic::lone_round_trips(a, b, Ip::V4, octets - HEADERS, trips, PAUSE)?;
            if trips.times.is_empty() {
                return Err(BenchError::Silent(case.name.clone()));
            }
            for (percentile, samples) in [&mut middle, &mut high] {
                samples[number].push(microseconds(trips.percentile(*percentile)));
            }
        }
        (bench.progress)(&format_args!("round {round}: round trips of {octets} octets"));
    }
    for (_, samples) in [&middle, &high] {
        for (case, one) in cases.iter().zip(samples) {
            let ordinary = cases.iter().position(|other| case.antedates && other.name == case.ordinary);
            (bench.figure)(one.row(BENCH, "us", ordinary.map(|number| &samples[number])));
        }
    }
    Ok(())
}

fn microseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}
