//! Cost of a frame of a known flow in the programs of a site: `BPF_PROG_TEST_RUN` of single frames, sent by one site and received by
//! another.
//!
//! The kernel times each run: from before the program to behind it, with two readings of its clock. Between two frames lie a system
//! call and a copy, so caches are as cold as after other work. The time of a frame of no flow, with which the program ends at once, is
//! told beside.

use std::time::{Duration, Instant};

use suite::tunnel::{EpochSecret, TOKEN_KEY_OCTETS, TokenKey};
use tunnel::{Limits, Location, PeerId};
use wire::MacAddr;
use wire::tunnel::{FlowIndex, ParsedFrame};
use xdp::site::{FlowPath, Room, Settings, UdpPath};
use xdp::{Ran, Site, Unclaimed, Verdict, XdpError};

use super::BENCH;
use super::headers::FRAMES;
use crate::bench::samples::Samples;
use crate::bench::{Bench, BenchError};

/// Duration of each case in each round: nothing but the CPU is waited for.
const TIME: Duration = Duration::from_millis(50);
const OPERATIONS: [&str; 2] = ["send", "receive"];
const LAN_FRAME: usize = 1530;
const PATH_PAYLOAD: usize = 1472;
/// The loopback interface, as all ports: a program that is only tried sends nothing.
const LOOPBACK: u32 = 1;
const STATIONS: [MacAddr; 2] = [MacAddr([2, 0, 0, 0, 0, 1]), MacAddr([2, 0, 0, 0, 0, 2])];
/// A path's port.
const WAN: u32 = 1;
/// The lane of the programs.
const LANE: u8 = 1;

/// Needs root.
///
/// # Errors
/// If the kernel does not take the programs, or a frame does not come out.
pub(super) fn measure(bench: &mut Bench<'_>) -> Result<(), BenchError> {
    (bench.progress)(&"programs in the kernel");
    let nothing = end(0).map_err(failed)?;
    let mut samples = Samples::new("a frame of no flow, a program in the kernel, p50");
    for _ in 0..bench.effort.rounds {
        let [times] = each(|| Ok([nothing.run_outward(&[0x5a; 60], 1)?])).map_err(failed)?;
        samples.push(times);
    }
    (bench.figure)(samples.row(BENCH, "ns/frame", None));
    for (ip, v6) in [("IPv4", false), ("IPv6", true)] {
        for octets in FRAMES {
            let mut samples = OPERATIONS.map(|operation| {
                Samples::new(&format!("{operation} {octets} octets over {ip}, a program in the kernel, p50"))
            });
            let mut ends = [end(0).map_err(failed)?, end(1).map_err(failed)?];
            prepare(&mut ends, v6, octets).map_err(failed)?;
            let frame = frame(octets);
            for _ in 0..bench.effort.rounds {
                let times = each(|| {
                    let sent = ends[0].run_outward(&frame, 1)?;
                    let received = ends[1].run_inward(&sent.frame, 1)?;
                    Ok([sent, received])
                });
                let times = times.map_err(failed)?;
                samples.iter_mut().zip(times).for_each(|(samples, time)| samples.push(time));
            }
            samples.iter().for_each(|samples| (bench.figure)(samples.row(BENCH, "ns/frame", None)));
        }
    }
    Ok(())
}

fn failed(error: XdpError) -> BenchError {
    BenchError::Kernel(error.to_string())
}

/// The middle times of runs, in nanoseconds.
fn each<const N: usize>(mut run: impl FnMut() -> Result<[Ran; N], XdpError>) -> Result<[f64; N], XdpError> {
    let mut times = [const { Vec::new() }; N];
    let begin = Instant::now();
    while times[0].is_empty() || begin.elapsed() < TIME {
        for (ran, times) in run()?.into_iter().zip(&mut times) {
            times.push((ran.verdict, ran.time.as_nanos() as u64));
        }
    }
    // With two operations all is for the programs; with one, nothing is.
    let expected = if N == 2 { Verdict::Redirect } else { Verdict::Pass };
    if times.iter().flatten().any(|(verdict, _)| *verdict != expected) {
        return Err(XdpError::Malformed);
    }
    Ok(times.map(|mut times| {
        times.sort_unstable_by_key(|(_, time)| *time);
        times[times.len() / 2].1 as f64
    }))
}

fn frame(octets: usize) -> Vec<u8> {
    let [source, destination] = STATIONS;
    let mut frame =
        [&destination.0[..], &source.0, &[0x88, 0xe5, 0x2c, 0], &[0, 0, 0, 1], &source.0, &[0, 1]].concat();
    frame.resize(octets, 0x5a);
    frame
}

/// A site with one peer. `side` is its station.
fn end(side: usize) -> Result<Site, XdpError> {
    let room = Room { peers: 1, lanes: 2, watched: 0, paths: 2, flows: 16, stations: 2 };
    let settings = Settings {
        window: tunnel::Settings::WINDOW,
        lan_frame: LAN_FRAME,
        port: 4790,
        station_age: Limits::DEFAULT.station_age,
        quiet: Duration::ZERO,
        token_key: TokenKey::new(&[0; TOKEN_KEY_OCTETS]),
    };
    let mut site = Site::load(&room, &settings, Unclaimed::Pass)?;
    site.set_lan(LOOPBACK)?;
    site.set_wan(WAN, LOOPBACK)?;
    for (number, address) in STATIONS.into_iter().enumerate() {
        let location = if number == side { Location::Here } else { Location::Behind(PeerId(0)) };
        site.set_station(number as u32, address, Some(location))?;
    }
    Ok(site)
}

/// A flow that both know.
fn prepare([sends, receives]: &mut [Site; 2], v6: bool, octets: usize) -> Result<(), XdpError> {
    let key = EpochSecret::new(&[7; 32]).lane_key(LANE);
    let flow = ParsedFrame::parse(&frame(octets)).map_err(|_| XdpError::Malformed)?.flow;
    let address = if v6 { "[fd00::1]:4790" } else { "192.0.2.1:4790" };
    let address = address.parse().map_err(|_| XdpError::Malformed)?;
    let [interface, next_hop] = STATIONS;
    let path = UdpPath {
        dscp: 0,
        vxlan: None,
        interface,
        next_hop,
        source: address,
        destination: address,
        payload: PATH_PAYLOAD,
        port: WAN,
    };
    sends.open_transmit(0, &key)?;
    sends.set_path(0, &path)?;
    sends.set_peer(0, 0, 0)?;
    sends.add_flow(0, &flow, &FlowPath { peer: 0, index: FlowIndex(0), source: 0, destination: 1 })?;
    receives.open_receive(0, 0, &key)?;
    receives.announce(0, (0, FlowIndex(0)), &flow, 0)?;
    while receives.fill(0)?.missing > 0 {}
    Ok(())
}
