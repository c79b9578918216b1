//! Cost of a frame in the programs of the kernel path: `BPF_PROG_TEST_RUN` of single frames, protected by one SecY and verified by
//! another.
//!
//! The kernel times each run: from before the program to behind it, with two readings of its clock. Between two frames lie a system
//! call and a copy. So the time of a frame with which the program ends at once is told beside.
//!
//! Keystream ahead is made between frames, for hundreds of them at once, as a link's thread does.

use std::time::{Duration, Instant};

use secy::{
    ClearVlan, ConfidentialityOffset, Protection, SciInclusion, Settings, ValidateFrames, XpnBinding,
};
use suite::{CipherSuite, Sak, Salt};
use wire::{An, Pn, Sci, Ssci};
use xdp::link::SaKey;
use xdp::{Link, Unclaimed, Verdict, XdpError};

use super::super::samples::Samples;
use super::super::{Bench, BenchError};
use super::BENCH;

/// The loopback interface, as all ports: a program that is only tried sends nothing.
const LOOPBACK: u32 = 1;
/// Octets of frames without FCS.
const FRAMES: [usize; 3] = [60, 512, 1470];
const WHAT: &str = "a program in the kernel";
/// The suite of links in the kernel.
pub(super) const SUITE: CipherSuite = CipherSuite::ChaCha20Poly1305Xpn;
/// Frames for which keystream is made at once, where it is made ahead.
const FILLED: usize = 400;
/// PNs of the replay windows: two CPUs may swap frames.
const WINDOW: u32 = 64;
const SCI: [Sci; 2] =
    [Sci::from_octets([2, 0, 0, 0, 0, 1, 0, 1]), Sci::from_octets([2, 0, 0, 0, 0, 2, 0, 1])];
const SETTINGS: Settings = Settings {
    protect_frames: true,
    sci_inclusion: SciInclusion::Always,
    validate_frames: ValidateFrames::Strict,
    replay_protect: true,
    clear_vlan: ClearVlan::Refuse,
    mtu: 1532,
    reassemble: false,
};

/// Measures each length, if its figures are wanted; they take turns. Whether any was. Needs root.
///
/// # Errors
/// If the kernel does not take the programs, or a frame does not come out.
pub(super) fn measure(bench: &mut Bench<'_>) -> Result<bool, BenchError> {
    let mut nothing = Samples::new(&format!("a frame of MAC control, {WHAT}"));
    let cases = |how: &str| {
        FRAMES.map(|octets| {
            let samples = |what: &str| Samples::new(&format!("{what} {octets} octets, {SUITE}{how}, {WHAT}"));
            (octets, ["protect", "verify"].map(samples))
        })
    };
    let mut cases = [cases(""), cases(", keystream ahead")];
    let wanted = |samples: &Samples| bench.wants(&samples.case);
    if !wanted(&nothing) && !all(&cases).any(wanted) {
        return Ok(false);
    }
    (bench.progress)(&format_args!("link: {WHAT}"));
    let mut pairs = Vec::new();
    for ahead in [false, true] {
        let share = |link: &mut Link| if ahead { link.share_slots() } else { Ok(()) };
        pairs.push([end(0, share).map_err(failed)?, end(1, share).map_err(failed)?]);
    }
    let time = bench.effort.time / 20;
    for _ in 0..bench.effort.rounds {
        for (cases, pair) in cases.iter_mut().zip(&pairs) {
            for (octets, [protect, verify]) in cases {
                let [protected, verified] = round(pair, &frame(*octets, [8, 0]), time)?;
                protect.push(protected);
                verify.push(verified);
            }
        }
        let pause = frame(60, [0x88, 0x08]);
        nothing.push(middle(time, || Ok(pairs[0][0].run_outward(&pause, 1)?.time)).map_err(failed)?);
    }
    for samples in all(&cases).chain([&nothing]) {
        (bench.figure)(samples.row(BENCH, "ns/frame", None));
    }
    Ok(true)
}

/// A length of frames, and the times of both ways.
type Case = (usize, [Samples; 2]);

fn all(cases: &[[Case; FRAMES.len()]]) -> impl Iterator<Item = &Samples> {
    cases.iter().flatten().flat_map(|(_, samples)| samples)
}

fn failed(error: XdpError) -> BenchError {
    BenchError::Kernel(error.to_string())
}

fn frame(octets: usize, ethertype: [u8; 2]) -> Vec<u8> {
    let mut frame = vec![0x5a; octets];
    frame[12..14].copy_from_slice(&ethertype);
    frame
}

/// One of two links that protect and verify each other's frames, under a key that everybody knows. `prepare` comes before its SAs.
///
/// # Errors
/// If the kernel does not take the programs, or `prepare` fails.
pub(in crate::bench) fn end(
    number: usize,
    prepare: impl FnOnce(&mut Link) -> Result<(), XdpError>,
) -> Result<Link, XdpError> {
    let sak = Sak::new(SUITE, &[0x5a; 32]).expect("invariant: as long as its suite wants");
    let protection = Protection::Encrypt(ConfidentialityOffset::Zero);
    let [own, peer] = [number, 1 - number].map(|number| {
        let xpn = Some(XpnBinding { ssci: Ssci(1 + number as u32), salt: Salt([7; 12]) });
        (SCI[number], SaKey { suite: SUITE, sak: &sak, xpn, protection })
    });
    let (mut link, an) = (Link::load(WINDOW)?, An::ALL[0]);
    prepare(&mut link)?;
    link.configure(own.0, &SETTINGS, &[], Unclaimed::Drop)?;
    link.set_ports(LOOPBACK, LOOPBACK)?;
    link.install_transmit(an, &own.1, Pn::FIRST, Pn::LAST_64)?;
    link.enable_transmit(an)?;
    link.install_receive_sc(peer.0)?;
    link.install_receive(peer.0, an, &peer.1, Pn::FIRST, WINDOW)?;
    link.enable_receive(peer.0, an)?;
    Ok(link)
}

/// Medians of frames that are protected and verified for so long, in nanoseconds.
fn round([sender, receiver]: &[Link; 2], frame: &[u8], time: Duration) -> Result<[f64; 2], BenchError> {
    let mut times = [Vec::new(), Vec::new()];
    let begin = Instant::now();
    while times[0].is_empty() || begin.elapsed() < time {
        if times[0].len().is_multiple_of(FILLED) {
            sender.fill();
            receiver.fill();
        }
        let protected = sender.run_outward(frame, 1).map_err(failed)?;
        let verified = receiver.run_inward(&protected.frame, 1).map_err(failed)?;
        for (ran, times) in [protected, verified].iter().zip(&mut times) {
            if ran.verdict != Verdict::Redirect {
                return Err(BenchError::Kernel(format!("a frame of a link ends with {:?}", ran.verdict)));
            }
            times.push(ran.time.as_nanos() as u64);
        }
    }
    Ok(times.map(median))
}

/// The median of what something takes, done for so long.
fn middle(time: Duration, mut run: impl FnMut() -> Result<Duration, XdpError>) -> Result<f64, XdpError> {
    let (mut times, begin) = (Vec::new(), Instant::now());
    while times.is_empty() || begin.elapsed() < time {
        times.push(run()?.as_nanos() as u64);
    }
    Ok(median(times))
}

fn median(mut times: Vec<u64>) -> f64 {
    times.sort_unstable();
    times[times.len() / 2] as f64
}
