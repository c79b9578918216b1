//! The link over a cable: how near the kernel path comes to what XDP can do over the same hops, and how far it is ahead of a bridge.
//!
//! ```text
//!  generator ── plain GATEWAY prot ── prot GATEWAY plain ── sink
//! ```
//!
//! All stand side by side, and each round measures all of them in turn ([`cable`]).
//!
//! | figure | what is sent |
//! |---|---|
//! | frames of 60, 512, 1470 octets | frames of one length, without FCS |
//! | IMIX | seven frames of 60 octets, four of 576 and one of 1500 |
//! | frames of 60 octets both ways | two flows under two SAs: each gateway protects one and verifies the other |
//! | frames of 1514 octets both ways | the same with the longest frames, of which Gigabit Ethernet carries 81,274 each second each way |
//!
//! Of the kernel path it is also told of how many frames the keystream was ready.

use std::path::Path;
use std::time::Duration;

use lab::macsec::Port;
use lab::topology::{PLAIN, PROTECTED};
use lab::{Machine, Shape, Topology};
use suite::CipherSuite;
use xdp::redirect::{Generated, Redirect};

use super::{BENCH, in_kernel};
use crate::bench::antedate::keystreams;
use crate::bench::cable::{self, BRIDGE, CABLE, REDIRECT, figure};
use crate::bench::samples::{Samples, in_turn};
use crate::bench::{Bench, BenchError};
use crate::demo::pair::{Choice, Pair};

/// Our gateways in user space.
pub const USER_SPACE: &str = "gcm-aes-128, af_xdp";
/// Our gateways in the kernel.
pub const KERNEL: &str = "chacha20-poly1305-xpn, kernel";
/// Kinds of traffic that are sent.
pub const RATES: [&str; 6] = [
    "frames of 60 octets",
    "frames of 512 octets",
    "frames of 1470 octets",
    "frames of IMIX",
    "frames of 60 octets both ways",
    BOTH_WAYS_AT_FULL_SIZE,
];
/// Most frames of 1518 octets that Gigabit Ethernet carries.
pub const BOTH_WAYS_AT_FULL_SIZE: &str = "frames of 1514 octets both ways";
/// Multiples of the bridge's rate that are wanted of the kernel path, for frames of one length.
pub const OF_BRIDGE: [f64; 3] = [2.5, 2.0, 1.2];
/// Frames of 1514 octets that Gigabit Ethernet carries each second, both ways together: with FCS, preamble and the gap between frames
/// each takes the time of 1538 octets (IEEE 802.3-2022 clause 4.4.2).
pub const LINE_RATE: f64 = 2.0 * 1e9 / (1538.0 * 8.0);
/// Lengths in turn.
const IMIX: [usize; 12] = [60, 576, 60, 60, 576, 60, 60, 576, 60, 1500, 576, 60];
/// An EtherType for experiments (IEEE 802): a bridge looks into IPv4.
const ETHERTYPE: [u8; 2] = [0x88, 0xb5];

/// A case: two machines and what stands in the boxes between them.
struct Case {
    name: &'static str,
    inside: Inside,
    /// Dropped behind what runs in it.
    topology: Topology,
}

enum Inside {
    /// Bridges, and nothing of ours.
    Bridges,
    /// Programs that do nothing to a frame.
    Redirects {
        _programs: [Redirect; 2],
    },
    Gateways(Pair),
}

/// Whether there is anything to be measured.
pub(super) fn is_wanted(bench: &Bench<'_>) -> bool {
    RATES.iter().any(|what| bench.wants(&format!("{what} {CABLE}")))
}

pub(super) fn measure(bench: &mut Bench<'_>) -> Result<(), BenchError> {
    (bench.progress)(&"gateways that are wired to each other");
    let mut cases = cases(&bench.programs.frameward)?;
    let places: Vec<_> = cases.iter().map(|case| (case.name, case.name == KERNEL)).collect();
    let time = bench.effort.time / cable::SHORTER;
    for (number, what) in RATES.into_iter().enumerate() {
        if !bench.wants(&format!("{what} {CABLE}")) {
            continue;
        }
        let mut samples = cable::samples(&places, what);
        let mut ready = Samples::new(&figure(&format!("keystream ready, {what}"), KERNEL));
        in_turn(bench, &mut cases, &mut samples, "frames/s", |case| {
            let before = case.keystreams()?;
            let rate = case.rate(number, time)?;
            if let Some(share) = share(before, case.keystreams()?) {
                ready.push(share);
            }
            Ok(Some(rate))
        })?;
        cable::tell(bench, (BENCH, "frames/s"), &places, &samples, BRIDGE, |beside, rate, ratio| {
            if what == BOTH_WAYS_AT_FULL_SIZE && beside == BRIDGE {
                return Some((
                    format!("Gigabit line rate both ways, {LINE_RATE:.0} frames/s"),
                    rate >= LINE_RATE,
                ));
            }
            let least = OF_BRIDGE.get(number).filter(|_| beside == BRIDGE)?;
            Some((format!("ratio at least {least}"), ratio >= *least))
        });
        (bench.figure)(ready.row(BENCH, "%", None));
    }
    cases.into_iter().try_for_each(Case::stop)
}

/// Percent of the frames between two moments whose keystream was ready.
fn share(before: Option<[u64; 2]>, after: Option<[u64; 2]>) -> Option<f64> {
    let ([ready, all], [ready_now, all_now]) = (before?, after?);
    Some(100.0 * (ready_now - ready) as f64 / f64::max((all_now - all) as f64, 1.0))
}

fn cases(frameward: &Path) -> Result<Vec<Case>, BenchError> {
    let user_space = Choice { io: "af_xdp", suite: CipherSuite::GcmAes128, ..Choice::default() };
    let kernel = Choice { io: "kernel", suite: in_kernel::SUITE, ..Choice::default() };
    let mut cases = vec![redirects()?, bridges()?];
    for (name, choice) in [(USER_SPACE, user_space), (KERNEL, kernel)] {
        let topology = topology()?;
        let pair = Pair::start(frameward, &topology, &choice)?;
        cases.push(Case { name, inside: Inside::Gateways(pair), topology });
    }
    Ok(cases)
}

/// Every interface takes and sends redirected frames, whatever stands in the boxes.
fn topology() -> Result<Topology, BenchError> {
    let topology = Topology::build(&Shape { cable: true, ..Shape::default() })?;
    take_redirected(&topology)?;
    Ok(topology)
}

fn take_redirected(topology: &Topology) -> Result<(), BenchError> {
    let machines = [&topology.machine_a, &topology.machine_b].map(|of| (&of.namespace, of.ifname));
    let gateways = [&topology.gateway_a, &topology.gateway_b].map(|of| &of.namespace);
    let ports = gateways.into_iter().flat_map(|of| [(of, PLAIN), (of, PROTECTED)]);
    cable::take_redirected(machines.into_iter().chain(ports))
}

fn redirects() -> Result<Case, BenchError> {
    let topology = topology()?;
    let [a, b] = [&topology.gateway_a, &topology.gateway_b]
        .map(|gateway| cable::redirect(&gateway.namespace, [PLAIN, PROTECTED]));
    Ok(Case { name: REDIRECT, inside: Inside::Redirects { _programs: [a?, b?] }, topology })
}

fn bridges() -> Result<Case, BenchError> {
    let topology = topology()?;
    topology.bridge_gateways()?;
    // A bridge's ports are made without.
    take_redirected(&topology)?;
    Ok(Case { name: BRIDGE, inside: Inside::Bridges, topology })
}

fn port(machine: &Machine) -> Port<'_> {
    Port { namespace: &machine.namespace, ifname: machine.ifname, mac: machine.mac }
}

fn frame(from: Port<'_>, to: Port<'_>, octets: usize) -> Vec<u8> {
    let mut frame = [&to.mac[..], &from.mac, &ETHERTYPE].concat();
    frame.resize(octets, 0x5a);
    frame
}

impl Case {
    /// Frames of one of [`RATES`] that arrive each second.
    fn rate(&self, what: usize, time: Duration) -> Result<f64, BenchError> {
        let (a, b) = (port(&self.topology.machine_a), port(&self.topology.machine_b));
        let one_way = |from, to, octets, lengths| {
            let frame = frame(from, to, octets);
            cable::rate([from, to], &Generated { frame: &frame, lengths, first: 1 }, time)
        };
        match what {
            0 => one_way(a, b, 60, &[]),
            1 => one_way(a, b, 512, &[]),
            2 => one_way(a, b, 1470, &[]),
            3 => one_way(a, b, 1500, &IMIX),
            _ => std::thread::scope(|scope| {
                let octets = if RATES[what] == BOTH_WAYS_AT_FULL_SIZE { 1514 } else { 60 };
                let there = scope.spawn(move || one_way(a, b, octets, &[]));
                let back = one_way(b, a, octets, &[])?;
                Ok(there.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))? + back)
            }),
        }
    }

    /// Frames of gateways in the kernel whose keystream was ready, and all that they encrypted and decrypted.
    fn keystreams(&self) -> Result<Option<[u64; 2]>, BenchError> {
        let Inside::Gateways(pair) = &self.inside else { return Ok(None) };
        let [a, b] = [keystreams(&pair.a.report()?), keystreams(&pair.b.report()?)];
        Ok((self.name == KERNEL).then_some([a[0] + b[0], a[1] + b[1]]))
    }

    fn stop(self) -> Result<(), BenchError> {
        match self.inside {
            Inside::Gateways(pair) => pair.stop()?,
            Inside::Bridges | Inside::Redirects { .. } => {}
        }
        Ok(())
    }
}
