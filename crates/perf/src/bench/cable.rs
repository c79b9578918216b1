//! A laboratory without sockets: frames are made by a program in the kernel, and end in another one.
//!
//! ```text
//!  generator ── plain [ whatever is measured ] ── [ whatever is measured ] plain ── sink
//! ```
//!
//! A frame out of a packet socket costs the machine more than its way through two gateways, and would bound every case alike. The
//! generator makes as many as the CPU lets it, and what lies between takes its share of that CPU: of most cases no frame is lost, but user
//! space, on the other CPU, is offered more than it takes.

use std::time::{Duration, Instant};

use ::bench::Target;
use lab::macsec::Port;
use lab::{InterfaceCounters, Namespace};
use netdev::interface::Interface;
use xdp::redirect::{Generated, Generator, Redirect, Sink};

use super::samples::Samples;
use super::{Bench, BenchError};

/// The end of the names of figures.
pub const CABLE: &str = "over a cable";
/// The limit: programs that do nothing to a frame.
pub const REDIRECT: &str = "XDP redirect, unprotected";
/// Bridges in place of what is measured.
pub const BRIDGE: &str = "Linux bridge, unprotected";

/// Frames before any is counted, by whose time it is told how many to count. The kernel takes some hundredths of a second to begin and to
/// end a call.
const WARM_UP: u32 = 1 << 16;
/// Fewest and most frames that are counted.
const COUNTED: (f64, f64) = (1e4, 8e6);
/// Measurements last so many times less than others: hundreds of thousands of frames come in each.
pub(super) const SHORTER: u32 = 2;

/// Name of a figure.
pub fn figure(what: &str, case: &str) -> String {
    format!("{what} {CABLE}, {case}")
}

pub(super) fn failed(error: impl std::fmt::Display) -> BenchError {
    BenchError::Kernel(error.to_string())
}

fn index(namespace: &Namespace, ifname: &str) -> Result<u32, BenchError> {
    namespace.enter(|| Interface::open(ifname).map(|interface| interface.index()))?.map_err(failed)
}

/// Has interfaces take and send redirected frames, whatever stands at their other ends: of a veth it needs NAPI, which `gro` gives it.
pub(super) fn take_redirected<'n>(
    interfaces: impl IntoIterator<Item = (&'n Namespace, &'n str)>,
) -> Result<(), BenchError> {
    for (namespace, ifname) in interfaces {
        namespace.run(&["ethtool", "-K", ifname, "gro", "on"])?;
    }
    Ok(())
}

/// Programs that do nothing to a frame, between two interfaces.
pub(super) fn redirect(namespace: &Namespace, ports: [&str; 2]) -> Result<Redirect, BenchError> {
    let [first, second] = [index(namespace, ports[0])?, index(namespace, ports[1])?];
    namespace.enter(|| Redirect::attach(first, second))?.map_err(failed)
}

/// Frames that arrive each second, made and counted in the kernel.
pub(super) fn rate([from, to]: [Port<'_>; 2], of: &Generated<'_>, time: Duration) -> Result<f64, BenchError> {
    let [out, into] = [index(from.namespace, from.ifname)?, index(to.namespace, to.ifname)?];
    let sink = to.namespace.enter(|| Sink::attach(into))?.map_err(failed)?;
    let generator = from.namespace.enter(|| Generator::new(out, of))?.map_err(failed)?;
    let arrived = || InterfaceCounters::read(to.namespace, to.ifname).map(|counters| counters.rx_frames);
    let begin = Instant::now();
    generator.send(WARM_UP).map_err(failed)?;
    let counted = f64::from(WARM_UP) * time.as_secs_f64() / begin.elapsed().as_secs_f64();
    let (before, begin) = (arrived()?, Instant::now());
    generator.send(counted.clamp(COUNTED.0, COUNTED.1) as u32).map_err(failed)?;
    let (after, elapsed) = (arrived()?, begin.elapsed());
    drop(sink);
    Ok((after - before) as f64 / elapsed.as_secs_f64())
}

/// A case's name, and whether it is the one in the kernel, of which something is wanted.
pub(super) type Place = (&'static str, bool);

/// Samples of a figure, one of each case.
pub(super) fn samples(cases: &[Place], what: &str) -> Vec<Samples> {
    cases.iter().map(|(name, _)| Samples::new(&figure(what, name))).collect()
}

/// Each case is compared with `first`; the one in the kernel with all others, too, and with what is wanted beside
/// them: by the other's name, the value and the ratio.
pub(super) fn tell(
    bench: &mut Bench<'_>,
    (name, unit): (&str, &str),
    cases: &[Place],
    samples: &[Samples],
    first: &str,
    wanted: impl Fn(&str, f64, f64) -> Option<(String, bool)>,
) {
    let reference = cases.iter().position(|(case, _)| *case == first);
    for (number, ((_, in_kernel), one)) in cases.iter().zip(samples).enumerate() {
        let others =
            (0..cases.len()).filter(|other| *in_kernel && *other != number && Some(*other) != reference);
        let beside = reference.filter(|reference| *reference != number);
        // The first row of a case is compared with the reference, or stands alone.
        for other in std::iter::once(beside).chain(others.map(Some)) {
            let mut row = one.row(name, unit, other.map(|other| &samples[other]));
            let ratio = row.ratio.as_ref().map_or(0.0, |ratio| ratio.value);
            let target =
                other.filter(|_| *in_kernel).and_then(|other| wanted(cases[other].0, row.value, ratio));
            row.target = target.map(|(wanted, met)| Target { wanted, met });
            (bench.figure)(row);
        }
    }
}
