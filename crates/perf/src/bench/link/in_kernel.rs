//! Cost of a frame in the programs of the kernel path: `BPF_PROG_TEST_RUN` of single frames, protected by one SecY and verified by
//! another.
//!
//! The kernel times each run: from before the program to behind it, with two readings of its clock. Between two frames lie a system
//! call and a copy. So the time of a frame with which the program ends at once is told beside.

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
    let mut cases = FRAMES.map(|octets| {
        let samples = |what: &str| Samples::new(&format!("{what} {octets} octets, {SUITE}, {WHAT}"));
        (octets, ["protect", "verify"].map(samples))
    });
    let wanted = |samples: &Samples| bench.wants(&samples.case);
    if !wanted(&nothing) && !cases.iter().flat_map(|(_, samples)| samples).any(wanted) {
        return Ok(false);
    }
    (bench.progress)(&format_args!("link: {WHAT}"));
    let (sender, receiver) = (end(0).map_err(failed)?, end(1).map_err(failed)?);
    let time = bench.effort.time / 20;
    for _ in 0..bench.effort.rounds {
        for (octets, [protect, verify]) in &mut cases {
            let [protected, verified] = round(&sender, &receiver, &frame(*octets, [8, 0]), time)?;
            protect.push(protected);
            verify.push(verified);
        }
        let pause = frame(60, [0x88, 0x08]);
        nothing.push(middle(time, || Ok(sender.run_outward(&pause, 1)?.time)).map_err(failed)?);
    }
    for samples in cases.iter().flat_map(|(_, samples)| samples).chain([&nothing]) {
        (bench.figure)(samples.row(BENCH, "ns/frame", None));
    }
    Ok(true)
}

fn failed(error: XdpError) -> BenchError {
    BenchError::Kernel(error.to_string())
}

fn frame(octets: usize, ethertype: [u8; 2]) -> Vec<u8> {
    let mut frame = vec![0x5a; octets];
    frame[12..14].copy_from_slice(&ethertype);
    frame
}

/// One of two links that protect and verify each other's frames, under a key that everybody knows.
///
/// # Errors
/// If the kernel does not take the programs.
pub(in crate::bench) fn end(number: usize) -> Result<Link, XdpError> {
    let sak = Sak::new(SUITE, &[0x5a; 32]).expect("invariant: as long as its suite wants");
    let protection = Protection::Encrypt(ConfidentialityOffset::Zero);
    let [own, peer] = [number, 1 - number].map(|number| {
        let xpn = Some(XpnBinding { ssci: Ssci(1 + number as u32), salt: Salt([7; 12]) });
        (SCI[number], SaKey { suite: SUITE, sak: &sak, xpn, protection })
    });
    let (mut link, an) = (Link::load(WINDOW)?, An::ALL[0]);
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
fn round(sender: &Link, receiver: &Link, frame: &[u8], time: Duration) -> Result<[f64; 2], BenchError> {
    let mut times = [Vec::new(), Vec::new()];
    let begin = Instant::now();
    while times[0].is_empty() || begin.elapsed() < time {
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
