//! Tunnels between two plants: ours in its three modes beside kernel VXLAN, alone and over WireGuard in user space.
//!
//! ```text
//!  sender ── lan SITE 1 wan ── internet (a router) ── wan SITE 2 lan ── counter, echo
//! ```
//!
//! Prepared MACsec frames and no stations: what is measured is the tunnel and the kernel around it. The path's MTU is
//! 1500; our plain mode fragments no frame, and is left out where others have to. Sender, both sites, the router and the receiver
//! share the machine's CPUs. What bounds the kernel path there is the router: [`cable`] measures without one.
//!
//! | figure | how |
//! |---|---|
//! | 64-octet frames | frames that arrive each second, the best of several offers |
//! | LAN payload 1470 | the same with frames of 1484 octets, the largest that identifier mode carries whole |
//! | largest whole payload | the same with the largest frames that the case carries in one packet: WireGuard fragments 1470 |
//! | LAN payload 1500 | the same with frames of 1514 octets, each of which is carried in two packets |
//! | a quarter load | frames that arrive of a quarter of what a site can receive, alone and beside made-up packets: [`flood`] |
//! | send, receive | what a frame costs in memory, beside a full re-encryption: [`headers`] |
//! | over two lanes | frames that a site sends each second from two workers, in memory, beside one: [`lanes`] |
//! | a program in the kernel | what a frame of a known flow costs in the programs of a site: [`in_kernel`] |
//! | over a cable | rates and round trips of sites whose WANs are wired to each other, beside XDP redirect and a bridge: [`cable`] |
//! | a full uplink | delay of cyclic frames beside bulk of twice the uplink's rate: [`uplink`] |
//! | round trip | one frame at a time, with a pause before each, for frames of 64 to 1468 octets, and around the lengths that need two packets |

pub mod cable;
mod flood;
mod headers;
mod in_kernel;
mod lanes;
pub mod uplink;

use std::path::Path;
use std::time::{Duration, Instant};

use ::bench::Target;
use lab::macsec::{self, Port};
use lab::plants::BARE;
use lab::{Plants, PlantsShape};
use xdp::redirect::Redirect;

use super::rivals::{Rival, RivalHost, RunningRival};
use super::samples::{Samples, in_turn};
use super::{Bench, BenchError, PAUSE};
use crate::demo::pair::Station;
use crate::demo::sites::{Sites, SitesChoice};

const BENCH: &str = "tunnel";
/// Octets of the path's MTU.
const PATH: u32 = 1500;
/// Octets of the LANs' MTU: as many as the largest frame measured needs, so that nothing is bounded by it.
const LAN_MTU: u32 = 1542;
/// Octets of an Ethernet header.
const HEADER: u32 = 14;
/// Frames offered each second, in turn; the last is as many as the sender can. Where a box that is offered too many
/// loses time with those it drops, a smaller offer gives the better figure.
const OFFERS: [Option<u32>; 3] = [Some(100_000), Some(250_000), None];
/// Octets of the frames whose round trip is taken, with FCS.
pub const ROUND_TRIPS: [usize; 5] = [64, 256, 512, 1024, 1468];
/// The same around the lengths that need two packets: 1408 over WireGuard, 1468 with VXLAN, 1476 with header encryption and 1488 with
/// identifiers still go in one. Plain mode carries none beyond.
pub const AROUND_SPLIT: [usize; 9] = [1400, 1420, 1440, 1460, 1480, 1500, 1520, 1540, 1560];
/// Of their round trips so many times fewer are taken: how the median jumps is what counts.
const FEWER: u64 = 3;
const FCS: usize = 4;

/// The mode whose known flows go through the kernel where the other ends of LAN and WAN let them.
const IN_XDP: &str = "our identifiers in the kernel";
/// Our modes: name, `mode`, and the largest LAN payload that goes whole over [`PATH`].
pub(super) const OURS: [(&str, &str, u32); 4] = [
    ("our plain mode, unprotected", "plain", 1450),
    ("our header encryption", "header-encryption", 1458),
    ("our identifiers", "identifier", 1470),
    (IN_XDP, "identifier", 1470),
];
/// Limit on the time that sites take to find each other and to probe the path.
const PATIENCE: Duration = Duration::from_secs(30);

/// A case: two plants and what stands in the sites' boxes.
pub(super) struct Case {
    name: &'static str,
    /// Their network.
    pub(super) plants: Plants,
    inside: Inside,
    /// Octets of the largest LAN payload that it carries in one packet.
    whole: u32,
    /// It hides headers.
    pub(super) protects: bool,
    /// It has to carry known flows in the kernel before anything is measured.
    in_kernel: bool,
    /// PNs go on from measurement to measurement.
    pub(super) pn: u32,
}

enum Inside {
    Rival(RunningRival),
    Sites(Sites),
    /// Programs in both sites' drivers, which do nothing to a frame.
    Redirects {
        _programs: [Redirect; 2],
    },
    /// Bridges in place of the sites.
    Bridges,
}

impl Case {
    pub(super) fn rival(rival: Rival) -> Result<Self, BenchError> {
        let plants = Plants::build(&shape())?;
        let hosts = [0, 1].map(|index| RivalHost::from(&plants.plants[index]));
        let running = rival.start(hosts, LAN_MTU, PATH)?;
        let whole = rival.payload(PATH);
        Ok(Self {
            name: rival.name(),
            plants,
            inside: Inside::Rival(running),
            whole,
            protects: false,
            in_kernel: false,
            pn: 1,
        })
    }

    /// Our sites in one of the modes of [`OURS`].
    pub(super) fn sites(
        frameward: &Path,
        name: &'static str,
        (ours, mode, whole): (&str, &'static str, u32),
    ) -> Result<Self, BenchError> {
        let plants = Plants::build(&shape())?;
        let in_kernel = ours == IN_XDP;
        if in_kernel {
            take_redirected(&plants)?;
        }
        let choice = SitesChoice { mode, ..SitesChoice::default() };
        let sites = Sites::start(frameward, &plants, &choice)?;
        let protects = mode != "plain";
        let mut case = Self { name, plants, inside: Inside::Sites(sites), whole, protects, in_kernel, pn: 1 };
        case.wait_until_it_carries()?;
        Ok(case)
    }

    /// Sites pass frames when they have found each other, and large ones whole when the path was probed.
    fn wait_until_it_carries(&mut self) -> Result<(), BenchError> {
        let end = Instant::now() + PATIENCE;
        loop {
            let [from, to] = self.ports();
            // Both ways, so that either site knows where the stations are, and their flows are announced.
            let octets = (self.whole + HEADER) as usize;
            let trips = macsec::round_trips(from, to, octets, self.pn, 5, PAUSE)?;
            self.pn += 100;
            if trips.lost() == 0 && (!self.in_kernel || self.is_in_kernel()?) {
                return Ok(());
            }
            if Instant::now() > end {
                return Err(BenchError::Silent(self.name.into()));
            }
        }
    }

    /// Whether the second site's peer is sent to and received from in the kernel.
    fn is_in_kernel(&self) -> Result<bool, BenchError> {
        let Some(station) = self.far() else { return Ok(false) };
        let report = station.report()?;
        let mut peers = report.sites.iter().flat_map(|site| &site.peers);
        Ok(peers.all(|peer| peer.path.as_deref() == Some("kernel")))
    }

    pub(super) fn ports(&self) -> [Port<'_>; 2] {
        [0, 1].map(|index| {
            let plant = &self.plants.plants[index];
            // Stations of their own, which no bridge on the way knows as an interface's address.
            Port { namespace: &plant.lan, ifname: BARE, mac: [2, 0, 0, 0, plant.number, 0x51] }
        })
    }

    /// Plain mode fragments no frame: what is longer than goes whole does not go.
    fn carries(&self, octets: u32) -> bool {
        !matches!(self.inside, Inside::Sites(_)) || self.protects || octets <= self.whole + HEADER
    }

    /// Frames of `octets` that arrive each second.
    fn rate(&mut self, octets: u32, time: Duration) -> Result<f64, BenchError> {
        let mut best = 0.0_f64;
        for offer in OFFERS {
            let [from, to] = self.ports();
            let flood = macsec::flood(from, to, octets as usize, self.pn, offer, time / 3)?;
            best = best.max(flood.delivered_per_second());
            // More than any sender sends meanwhile.
            self.pn += 1 << 23;
        }
        Ok(best)
    }

    /// Report of the second site.
    pub(super) fn far(&self) -> Option<&Station> {
        match &self.inside {
            Inside::Sites(sites) => Some(&sites.sites[1]),
            _ => None,
        }
    }

    pub(super) fn stop(self) -> Result<(), BenchError> {
        match self.inside {
            Inside::Rival(rival) => rival.stop()?,
            Inside::Sites(sites) => sites.stop()?,
            Inside::Redirects { .. } | Inside::Bridges => {}
        }
        Ok(())
    }
}

/// Has the other ends of LANs and WANs take redirected frames: of a veth it needs NAPI, which `gro` gives it.
fn take_redirected(plants: &Plants) -> Result<(), BenchError> {
    for plant in &plants.plants {
        plant.lan.run(&["ethtool", "-K", BARE, "gro", "on"])?;
        plants.internet.run(&["ethtool", "-K", &format!("to{}", plant.number), "gro", "on"])?;
    }
    Ok(())
}

fn shape() -> PlantsShape {
    PlantsShape {
        plants: 2,
        stations: 0,
        lan_mtu: LAN_MTU,
        wan_mtu: PATH,
        switches: false,
        lines: false,
        ..PlantsShape::default()
    }
}

/// Name of a figure in memory, for [`Bench::only`].
const IN_MEMORY: &str = "in memory";
/// Name of a figure in the kernel, for [`Bench::only`].
const IN_KERNEL: &str = "a program in the kernel";

/// Throughputs: what, its unit, what is wanted, octets of the frames.
type Throughput = (&'static str, &'static str, Wanted, fn(&Case) -> u32);
const THROUGHPUTS: [Throughput; 4] = [
    ("64-octet frames", "frames/s", Wanted::AtLeast(2.5), |_| macsec::SHORTEST as u32),
    ("LAN payload 1470", "Mbit/s", Wanted::AtLeast(3.0), |_| 1470 + HEADER),
    ("largest whole payload", "Mbit/s", Wanted::Nothing, |case| case.whole + HEADER),
    ("LAN payload 1500", "Mbit/s", Wanted::AtLeast(2.5), |_| 1500 + HEADER),
];

fn round_trip(octets: usize) -> String {
    format!("round trip of {octets} octets")
}

pub(super) fn measure(bench: &mut Bench<'_>) -> Result<(), BenchError> {
    let throughputs: Vec<_> = THROUGHPUTS.into_iter().filter(|(what, ..)| bench.wants(what)).collect();
    let count = bench.effort.round_trips;
    let trips = ROUND_TRIPS.map(|octets| (octets, count, Wanted::Below(1.0)));
    let around = AROUND_SPLIT.map(|octets| (octets, count.div_ceil(FEWER), Wanted::Nothing));
    let trips: Vec<_> =
        trips.into_iter().chain(around).filter(|(octets, ..)| bench.wants(&round_trip(*octets))).collect();
    let compared = !(throughputs.is_empty() && trips.is_empty());
    let (memory, kernel) = (bench.wants(IN_MEMORY), bench.wants(IN_KERNEL));
    let flooded = bench.wants(flood::FLOOD);
    let cabled = cable::is_wanted(bench);
    let full = bench.wants(uplink::UPLINK);
    if !compared && !memory && !kernel && !flooded && !cabled && !full {
        return Err(BenchError::Unknown);
    }
    if memory {
        headers::measure(bench);
        lanes::measure(bench);
    }
    if kernel && let Err(error) = in_kernel::measure(bench) {
        (bench.progress)(&format_args!("left out: programs in the kernel: {error}"));
    }
    if cabled {
        cable::measure(bench)?;
    }
    if full {
        uplink::measure(bench)?;
    }
    if !compared && !flooded {
        return Ok(());
    }
    let mut cases = cases(bench, compared)?;
    for (what, unit, wanted, octets) in throughputs {
        rates(bench, &mut cases, (what, unit, wanted), octets)?;
    }
    if flooded {
        flood::measure(bench, &mut cases)?;
    }
    for (octets, count, wanted) in trips {
        round_trips(bench, &mut cases, (octets, count), wanted)?;
    }
    cases.into_iter().try_for_each(Case::stop)
}

/// Our sites, and what they are to be compared with.
fn cases(bench: &mut Bench<'_>, compared: bool) -> Result<Vec<Case>, BenchError> {
    (bench.progress)(&"plants for the tunnels");
    let mut cases = Vec::new();
    for rival in Rival::ALL.into_iter().filter(|_| compared) {
        match rival.missing() {
            Some(program) => (bench.progress)(&format_args!(
                "left out: {}, since {program} is not installed (scripts/setup.sh bench)",
                rival.name()
            )),
            None => cases.push(Case::rival(rival)?),
        }
    }
    for ours in OURS {
        cases.push(Case::sites(&bench.programs.frameward, ours.0, ours)?);
    }
    Ok(cases)
}

fn samples(cases: &[Case], what: &str) -> Vec<Samples> {
    cases.iter().map(|case| Samples::new(&format!("{what}, {}", case.name))).collect()
}

/// Target of our protected modes, compared with kernel VXLAN over wireguard-go.
#[derive(Clone, Copy)]
enum Wanted {
    Nothing,
    AtLeast(f64),
    Below(f64),
}

impl Wanted {
    fn target(self, ratio: f64) -> Option<Target> {
        let (wanted, met) = match self {
            Self::Nothing => return None,
            Self::AtLeast(least) => (format!("ratio at least {least}"), ratio >= least),
            Self::Below(most) => (format!("ratio below {most}"), ratio < most),
        };
        Some(Target { wanted, met })
    }
}

/// Each case is compared with kernel VXLAN; ours with that over wireguard-go, too.
fn tell(bench: &mut Bench<'_>, cases: &[Case], samples: &[Samples], unit: &str, wanted: Wanted) {
    let find = |rival: Rival| {
        let number = cases.iter().position(|case| case.name == rival.name())?;
        samples.get(number)
    };
    for (case, one) in cases.iter().zip(samples).filter(|(_, one)| !one.values.is_empty()) {
        let other = find(Rival::Vxlan).filter(|other| other.case != one.case);
        (bench.figure)(one.row(BENCH, unit, other));
        if let (Inside::Sites(_), Some(other)) = (&case.inside, find(Rival::WireguardGo)) {
            let mut row = one.row(BENCH, unit, Some(other));
            let ratio = row.ratio.as_ref().map_or(0.0, |ratio| ratio.value);
            row.target = Some(wanted).filter(|_| case.protects).and_then(|wanted| wanted.target(ratio));
            (bench.figure)(row);
        }
    }
}

/// Frames a second, or megabits of frames.
fn rates(
    bench: &mut Bench<'_>,
    cases: &mut [Case],
    (what, unit, wanted): (&str, &str, Wanted),
    octets: impl Fn(&Case) -> u32,
) -> Result<(), BenchError> {
    let mut samples = samples(cases, what);
    let time = bench.effort.time;
    in_turn(bench, cases, &mut samples, unit, |case| {
        let octets = octets(case);
        let per_frame = if unit == "Mbit/s" { f64::from(octets) * 8e-6 } else { 1.0 };
        case.carries(octets).then(|| case.rate(octets, time)).transpose().map(|rate| Some(rate? * per_frame))
    })?;
    tell(bench, cases, &samples, unit, wanted);
    Ok(())
}

fn round_trips(
    bench: &mut Bench<'_>,
    cases: &mut [Case],
    (octets, count): (usize, u64),
    wanted: Wanted,
) -> Result<(), BenchError> {
    let what = round_trip(octets);
    let mut samples = ["p50", "p99"].map(|percentile| samples(cases, &format!("{what} {percentile}")));
    trips(bench, cases, (octets, count), &mut samples)?;
    (bench.progress)(&what);
    for samples in &samples {
        tell(bench, cases, samples, "us", wanted);
    }
    Ok(())
}

/// So many round trips of frames of `octets`, with FCS: p50 and p99 of each round, in microseconds.
fn trips(
    bench: &Bench<'_>,
    cases: &mut [Case],
    (octets, count): (usize, u64),
    [middle, high]: &mut [Vec<Samples>; 2],
) -> Result<(), BenchError> {
    for _ in 0..bench.effort.rounds {
        for (case, (middle, high)) in cases.iter_mut().zip(middle.iter_mut().zip(&mut *high)) {
            if !case.carries((octets - FCS) as u32) {
                continue;
            }
            let [from, to] = case.ports();
            let trips = macsec::round_trips(from, to, octets - FCS, case.pn, count, PAUSE)?;
            case.pn = case.pn.wrapping_add(1 << 16).max(1);
            if trips.times.is_empty() {
                return Err(BenchError::Silent(middle.case.clone()));
            }
            middle.push(trips.percentile(50.0).as_secs_f64() * 1e6);
            high.push(trips.percentile(99.0).as_secs_f64() * 1e6);
        }
    }
    Ok(())
}
