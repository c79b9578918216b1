//! Sites whose WANs are wired to each other: how near the kernel path comes to what XDP can do over the same hops.
//!
//! ```text
//!  generator ── lan SITE 1 wan ── wan SITE 2 lan ── sink, echo
//! ```
//!
//! Generator and sink are XDP programs. A frame out of a packet socket costs the machine more than its way through both sites, and would
//! bound every case alike. The generator makes as many as the CPU lets it, and what lies between takes its share of that CPU: of most cases
//! no frame is lost, but user space, on the other CPU, is offered more than it takes. All stand side by side, and each round measures all of them in turn.

use std::time::{Duration, Instant};

use ::bench::Target;
use lab::macsec::{self, Prepared};
use lab::plants::{BARE, LAN, WAN};
use lab::{InterfaceCounters, Namespace, Plant, Plants, PlantsShape};
use netdev::interface::Interface;
use xdp::redirect::{Generator, Redirect, Sink};

use super::{BENCH, Case, FCS, HEADER, Inside, LAN_MTU, PATH, shape};
use crate::bench::rivals::{Rival, RivalHost};
use crate::bench::samples::Samples;
use crate::bench::{Bench, BenchError, PAUSE};
use crate::demo::sites::{Sites, SitesChoice};

/// The end of the names of figures.
pub const CABLE: &str = "over a cable";
/// The limit: programs that do nothing to a frame.
pub const REDIRECT: &str = "XDP redirect, unprotected";
/// Bridges in place of the sites.
pub const BRIDGE: &str = "Linux bridge, unprotected";
/// Our sites in user space.
pub const USER_SPACE: &str = "our identifiers, af_xdp";
/// Our sites in the kernel.
pub const KERNEL: &str = super::IN_XDP;
/// Octets of frames whose rate is taken, with their names.
pub const RATES: [(u32, &str); 2] =
    [(macsec::SHORTEST as u32, "64-octet frames"), (1470 + HEADER, "frames of LAN payload 1470")];
/// Octets of frames whose round trip is taken, with FCS.
pub const ROUND_TRIPS: [usize; 2] = [64, 1488];
/// Octets of the largest LAN payload of identifier mode.
const WHOLE: u32 = 1470;

/// Least share of what XDP redirect carries; multiples of VXLAN, alone and over WireGuard, at 64 octets; most of a bridge's round trip.
const OF_REDIRECT: f64 = 0.8;
const OF_VXLAN: f64 = 5.0;
const OF_WIREGUARD: f64 = 15.0;
const OF_BRIDGE: f64 = 1.5;

/// Frames before any is counted, by whose time it is told how many to count. The kernel takes some hundredths of a second to begin and to
/// end a call.
const WARM_UP: u32 = 1 << 16;
/// Fewest and most frames that are counted.
const COUNTED: (f64, f64) = (1e4, 8e6);
/// Measurements last so many times less than others: hundreds of thousands of frames come in each.
const SHORTER: u32 = 2;
/// PNs of a measurement: more than any generator makes.
const PNS: u32 = 1 << 24;

/// Name of a figure.
pub fn figure(what: &str, case: &str) -> String {
    format!("{what} {CABLE}, {case}")
}

fn round_trip(octets: usize) -> String {
    format!("round trip of {octets} octets")
}

fn failed(error: impl std::fmt::Display) -> BenchError {
    BenchError::Kernel(error.to_string())
}

/// Whether there is anything to be measured.
pub(super) fn is_wanted(bench: &Bench<'_>) -> bool {
    let trips = ROUND_TRIPS.map(round_trip);
    let mut whats = RATES.iter().map(|(_, what)| *what).chain(trips.iter().map(String::as_str));
    whats.any(|what| bench.wants(&format!("{what} {CABLE}")))
}

pub(super) fn measure(bench: &mut Bench<'_>) -> Result<(), BenchError> {
    (bench.progress)(&"plants whose sites are wired to each other");
    let mut cases = cases(bench)?;
    for (octets, what) in RATES {
        if bench.wants(&format!("{what} {CABLE}")) {
            rates(bench, &mut cases, octets, what)?;
        }
    }
    for octets in ROUND_TRIPS {
        if bench.wants(&format!("{} {CABLE}", round_trip(octets))) {
            round_trips(bench, &mut cases, octets)?;
        }
    }
    cases.into_iter().try_for_each(Case::stop)
}

fn cases(bench: &Bench<'_>) -> Result<Vec<Case>, BenchError> {
    let mut cases = vec![redirects()?, bridges()?];
    for rival in Rival::ALL.into_iter().filter(|rival| rival.missing().is_none()) {
        let plants = plants()?;
        let hosts = [0, 1].map(|index| RivalHost::from(&plants.plants[index]));
        let running = rival.start(hosts, LAN_MTU, PATH)?;
        cases.push(case(rival.name(), plants, Inside::Rival(running)));
    }
    for (name, io) in [(USER_SPACE, "af_xdp"), (KERNEL, "kernel")] {
        let plants = plants()?;
        let choice = SitesChoice { io, ..SitesChoice::default() };
        let sites = Sites::start(&bench.programs.frameward, &plants, &choice)?;
        cases.push(Case {
            protects: true,
            in_kernel: io == "kernel",
            ..case(name, plants, Inside::Sites(sites))
        });
    }
    cases.iter_mut().try_for_each(Case::wait_until_it_carries)?;
    Ok(cases)
}

fn case(name: &'static str, plants: Plants, inside: Inside) -> Case {
    Case { name, plants, inside, whole: WHOLE, protects: false, in_kernel: false, pn: 1 }
}

/// Every LAN takes and sends redirected frames, whatever stands in the sites: of a veth it needs NAPI, which `gro` gives it.
fn plants() -> Result<Plants, BenchError> {
    let plants = Plants::build(&PlantsShape { cable: true, ..shape() })?;
    for Plant { site, lan, .. } in &plants.plants {
        for (namespace, ifname) in [(lan, BARE), (site, LAN), (site, WAN)] {
            namespace.run(&["ethtool", "-K", ifname, "gro", "on"])?;
        }
    }
    Ok(plants)
}

fn redirects() -> Result<Case, BenchError> {
    let plants = plants()?;
    let attach = |plant: &Plant| {
        let [lan, wan] = [index(&plant.site, LAN)?, index(&plant.site, WAN)?];
        plant.site.enter(|| Redirect::attach(lan, wan))?.map_err(failed)
    };
    let programs = [attach(&plants.plants[0])?, attach(&plants.plants[1])?];
    Ok(case(REDIRECT, plants, Inside::Redirects { _programs: programs }))
}

fn bridges() -> Result<Case, BenchError> {
    let plants = plants()?;
    plants.plants.iter().try_for_each(Plant::bridge)?;
    Ok(case(BRIDGE, plants, Inside::Bridges))
}

fn index(namespace: &Namespace, ifname: &str) -> Result<u32, BenchError> {
    namespace.enter(|| Interface::open(ifname).map(|interface| interface.index()))?.map_err(failed)
}

impl Case {
    /// Frames of `octets` that arrive each second, made and counted in the kernel.
    fn rate_in_kernel(&mut self, octets: u32, time: Duration) -> Result<f64, BenchError> {
        let first_pn = self.pn;
        self.pn = self.pn.wrapping_add(PNS).max(1);
        let [from, to] = self.ports();
        let [out, into] = [index(from.namespace, from.ifname)?, index(to.namespace, to.ifname)?];
        let sink = to.namespace.enter(|| Sink::attach(into))?.map_err(failed)?;
        let frame = Prepared::new(from.mac, to.mac, octets as usize, first_pn).next_frame();
        let generator = from.namespace.enter(|| Generator::new(out, &frame, first_pn))?.map_err(failed)?;
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
}

fn samples(cases: &[Case], what: &str) -> Vec<Samples> {
    cases.iter().map(|case| Samples::new(&figure(what, case.name))).collect()
}

fn rates(bench: &mut Bench<'_>, cases: &mut [Case], octets: u32, what: &str) -> Result<(), BenchError> {
    let mut samples = samples(cases, what);
    for round in 1..=bench.effort.rounds {
        for (case, samples) in cases.iter_mut().zip(&mut samples) {
            let rate = case.rate_in_kernel(octets, bench.effort.time / SHORTER)?;
            (bench.progress)(&format_args!("round {round}: {}: {rate:.0} frames/s", samples.case));
            if rate == 0.0 {
                return Err(BenchError::Silent(samples.case.clone()));
            }
            samples.push(rate);
        }
    }
    tell(bench, cases, &samples, "frames/s", REDIRECT, |beside, ratio| {
        let least = match beside {
            REDIRECT => OF_REDIRECT,
            _ if octets > macsec::SHORTEST as u32 || beside == BRIDGE || beside == USER_SPACE => return None,
            beside if beside == Rival::Vxlan.name() => OF_VXLAN,
            _ => OF_WIREGUARD,
        };
        Some((format!("ratio at least {least}"), ratio >= least))
    });
    Ok(())
}

fn round_trips(bench: &mut Bench<'_>, cases: &mut [Case], octets: usize) -> Result<(), BenchError> {
    let what = round_trip(octets);
    let (mut middle, mut high) =
        (samples(cases, &format!("{what} p50")), samples(cases, &format!("{what} p99")));
    for _ in 0..bench.effort.rounds {
        for (number, case) in cases.iter_mut().enumerate() {
            let [from, to] = case.ports();
            let trips =
                macsec::round_trips(from, to, octets - FCS, case.pn, bench.effort.round_trips, PAUSE)?;
            case.pn = case.pn.wrapping_add(1 << 16).max(1);
            if trips.times.is_empty() {
                return Err(BenchError::Silent(middle[number].case.clone()));
            }
            middle[number].push(trips.percentile(50.0).as_secs_f64() * 1e6);
            high[number].push(trips.percentile(99.0).as_secs_f64() * 1e6);
        }
    }
    (bench.progress)(&format_args!("{what} {CABLE}"));
    for (samples, wanted) in [(middle, true), (high, false)] {
        tell(bench, cases, &samples, "us", BRIDGE, |beside, ratio| {
            let wanted = wanted && beside == BRIDGE;
            wanted.then(|| (format!("ratio at most {OF_BRIDGE}"), ratio <= OF_BRIDGE))
        });
    }
    Ok(())
}

/// Each case is compared with `first`; ours in the kernel with all others, too, and with what is wanted beside them.
fn tell(
    bench: &mut Bench<'_>,
    cases: &[Case],
    samples: &[Samples],
    unit: &str,
    first: &str,
    wanted: impl Fn(&str, f64) -> Option<(String, bool)>,
) {
    let reference = cases.iter().position(|case| case.name == first);
    for (number, (case, one)) in cases.iter().zip(samples).enumerate() {
        let others =
            (0..cases.len()).filter(|other| case.in_kernel && *other != number && Some(*other) != reference);
        let beside = reference.filter(|reference| *reference != number);
        // The first row of a case is compared with the reference, or stands alone.
        for other in std::iter::once(beside).chain(others.map(Some)) {
            let mut row = one.row(BENCH, unit, other.map(|other| &samples[other]));
            let ratio = row.ratio.as_ref().map_or(0.0, |ratio| ratio.value);
            let target = other.filter(|_| case.in_kernel).and_then(|other| wanted(cases[other].name, ratio));
            row.target = target.map(|(wanted, met)| Target { wanted, met });
            (bench.figure)(row);
        }
    }
}
