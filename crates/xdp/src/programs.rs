//! Loaded programs and their maps, whatever they do: how they are found, run and read.

use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use aya::maps::{PerCpuArray, PerCpuValues};
use aya::programs::Xdp;
use aya::{Ebpf, TestRun, TestRunOptions};

use crate::error::XdpError;

/// The most that a program leaves of a frame.
const FRAME: usize = 4096;

/// A verdict of a program (`enum xdp_action`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// The frame ends here.
    Drop,
    /// User space's, and no socket takes it.
    Pass,
    /// It leaves by another interface, or goes to a socket.
    Redirect,
    /// A program has failed.
    Aborted,
}

/// Result of a program's trial runs on a frame.
#[derive(PartialEq, Eq, Debug)]
pub struct Ran {
    /// The verdict.
    pub verdict: Verdict,
    /// The frame as the program left it.
    pub frame: Vec<u8>,
    /// The mean time of a run.
    pub time: Duration,
}

/// Treatment of frames for user space while no socket takes them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unclaimed {
    /// They are dropped: nothing reaches the host's stack.
    Drop,
    /// The host's stack and its packet sockets get them.
    Pass,
}

/// Loads programs of an object.
pub(crate) fn load(ebpf: &mut Ebpf, programs: &[&'static str]) -> Result<(), XdpError> {
    for &program in programs {
        xdp(ebpf, program)?.load().map_err(|error| XdpError::program(program, &error))?;
    }
    Ok(())
}

/// A program, for a link of somebody else's.
pub(crate) fn descriptor(ebpf: &mut Ebpf, program: &'static str) -> Result<OwnedFd, XdpError> {
    let loaded = xdp(ebpf, program)?;
    let descriptor = loaded.fd().map_err(|error| XdpError::program(program, &error))?;
    let failed = |error: std::io::Error| XdpError::Program { program, reason: error.to_string() };
    descriptor.as_fd().try_clone_to_owned().map_err(failed)
}

pub(crate) fn run_frame(
    ebpf: &Ebpf,
    program: &'static str,
    frame: &[u8],
    repeat: u32,
) -> Result<Ran, XdpError> {
    let mut out = vec![0; FRAME];
    let options =
        TestRunOptions { data_in: Some(frame), data_out: Some(&mut out), repeat, ..TestRunOptions::new() };
    let (verdict, octets, time) = run(ebpf, program, options)?;
    let verdict = match verdict {
        1 => Verdict::Drop,
        2 => Verdict::Pass,
        4 => Verdict::Redirect,
        _ => Verdict::Aborted,
    };
    out.truncate(octets);
    Ok(Ran { verdict, frame: out, time })
}

pub(crate) fn run(
    ebpf: &Ebpf,
    program: &'static str,
    options: TestRunOptions<'_>,
) -> Result<(u32, usize, Duration), XdpError> {
    let missing = || XdpError::Program { program, reason: "it is not there".into() };
    let loaded: &Xdp = ebpf.program(program).and_then(|found| found.try_into().ok()).ok_or_else(missing)?;
    let ran = loaded.test_run(options).map_err(|error| XdpError::program(program, &error))?;
    Ok((ran.return_value, ran.data_size_out as usize, ran.duration))
}

/// The value of a place, on all CPUs together.
pub(crate) fn sum<const N: usize>(ebpf: &Ebpf, name: &'static str, place: u32) -> Result<[u64; N], XdpError> {
    let mut sum = [0_u64; N];
    for of_cpu in per_cpu::<N>(ebpf, name, place)?.iter() {
        sum.iter_mut().zip(of_cpu).for_each(|(sum, value)| *sum = sum.wrapping_add(*value));
    }
    Ok(sum)
}

pub(crate) fn per_cpu<const N: usize>(
    ebpf: &Ebpf,
    name: &'static str,
    place: u32,
) -> Result<PerCpuValues<[u64; N]>, XdpError> {
    let map = ebpf.map(name).ok_or(XdpError::Malformed)?;
    Ok(PerCpuArray::<_, [u64; N]>::try_from(map)?.get(&place, 0)?)
}

/// Sets the value of a place on every CPU.
pub(crate) fn set_all<const N: usize>(
    ebpf: &mut Ebpf,
    name: &'static str,
    place: u32,
    value: [u64; N],
) -> Result<(), XdpError> {
    let cpus = aya::util::nr_cpus().map_err(|(_, error)| XdpError::Cpus(error))?;
    let values = PerCpuValues::try_from(vec![value; cpus]).map_err(XdpError::Cpus)?;
    Ok(PerCpuArray::<_, [u64; N]>::try_from(map(ebpf, name)?)?.set(place, values, 0)?)
}

pub(crate) fn xdp<'e>(ebpf: &'e mut Ebpf, program: &'static str) -> Result<&'e mut Xdp, XdpError> {
    let missing = || XdpError::Program { program, reason: "it is not there".into() };
    ebpf.program_mut(program).and_then(|found| found.try_into().ok()).ok_or_else(missing)
}

pub(crate) fn map<'e>(ebpf: &'e mut Ebpf, name: &'static str) -> Result<&'e mut aya::maps::Map, XdpError> {
    ebpf.map_mut(name).ok_or(XdpError::Malformed)
}
