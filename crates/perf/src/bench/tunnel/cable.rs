//! Sites whose WANs are wired to each other: how near the kernel path comes to what XDP can do over the same hops.
//!
//! ```text
//!  generator ── lan SITE 1 wan ── wan SITE 2 lan ── sink, echo
//! ```
//!
//! All stand side by side, and each round measures all of them in turn ([`cable`]).

use std::time::Duration;

use lab::macsec::{self, Prepared};
use lab::plants::{BARE, LAN, WAN};
use lab::{Plant, Plants, PlantsShape};
use xdp::redirect::Generated;

use super::{BENCH, Case, HEADER, Inside, LAN_MTU, PATH, round_trip, shape};
use crate::bench::cable::{self, BRIDGE, CABLE, REDIRECT};
use crate::bench::rivals::{Rival, RivalHost};
use crate::bench::samples::in_turn;
use crate::bench::{Bench, BenchError};
use crate::demo::sites::{Sites, SitesChoice};

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

/// PNs of a measurement: more than any generator makes.
const PNS: u32 = 1 << 24;

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

/// Every LAN takes and sends redirected frames, whatever stands in the sites.
fn plants() -> Result<Plants, BenchError> {
    let plants = Plants::build(&PlantsShape { cable: true, ..shape() })?;
    for Plant { site, lan, .. } in &plants.plants {
        cable::take_redirected([(lan, BARE), (site, LAN), (site, WAN)])?;
    }
    Ok(plants)
}

fn redirects() -> Result<Case, BenchError> {
    let plants = plants()?;
    let attach = |plant: &Plant| cable::redirect(&plant.site, [LAN, WAN]);
    let programs = [attach(&plants.plants[0])?, attach(&plants.plants[1])?];
    Ok(case(REDIRECT, plants, Inside::Redirects { _programs: programs }))
}

fn bridges() -> Result<Case, BenchError> {
    let plants = plants()?;
    plants.plants.iter().try_for_each(Plant::bridge)?;
    Ok(case(BRIDGE, plants, Inside::Bridges))
}

impl Case {
    /// Frames of `octets` that arrive each second, made and counted in the kernel.
    fn rate_in_kernel(&mut self, octets: u32, time: Duration) -> Result<f64, BenchError> {
        let first_pn = self.pn;
        self.pn = self.pn.wrapping_add(PNS).max(1);
        let [from, to] = self.ports();
        let frame = Prepared::new(from.mac, to.mac, octets as usize, first_pn).next_frame();
        cable::rate([from, to], &Generated { frame: &frame, lengths: &[], first: first_pn }, time)
    }
}

fn places(cases: &[Case]) -> Vec<cable::Place> {
    cases.iter().map(|case| (case.name, case.in_kernel)).collect()
}

fn rates(bench: &mut Bench<'_>, cases: &mut [Case], octets: u32, what: &str) -> Result<(), BenchError> {
    let (places, time) = (places(cases), bench.effort.time / cable::SHORTER);
    let mut samples = cable::samples(&places, what);
    in_turn(bench, cases, &mut samples, "frames/s", |case| case.rate_in_kernel(octets, time).map(Some))?;
    cable::tell(bench, (BENCH, "frames/s"), &places, &samples, REDIRECT, |beside, _, ratio| {
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
    let (what, places) = (round_trip(octets), places(cases));
    let mut samples =
        ["p50", "p99"].map(|percentile| cable::samples(&places, &format!("{what} {percentile}")));
    super::trips(bench, cases, (octets, bench.effort.round_trips), &mut samples)?;
    (bench.progress)(&format_args!("{what} {CABLE}"));
    for (samples, wanted) in samples.iter().zip([true, false]) {
        cable::tell(bench, (BENCH, "us"), &places, samples, BRIDGE, |beside, _, ratio| {
            let wanted = wanted && beside == BRIDGE;
            wanted.then(|| (format!("ratio at most {OF_BRIDGE}"), ratio <= OF_BRIDGE))
        });
    }
    Ok(())
}
