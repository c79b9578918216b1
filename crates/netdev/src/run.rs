//! Runs of a loaded program that user space asks for (BPF_PROG_TEST_RUN): the program reads a question, and leaves an answer in its place.

#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsRawFd as _, BorrowedFd};
use std::time::Duration;

use crate::bpf::Attributes;

const BPF_PROG_TEST_RUN: libc::c_int = 10;

/// Result of a program's runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ran {
    /// Return value of the last run.
    pub value: u32,
    /// Octets that it left.
    pub octets: usize,
    /// Mean time of a run.
    pub time: Duration,
}

/// Runs a program `repeat` times on `question`, and copies what the last run leaves of it into `answer`, if that is there.
///
/// # Errors
/// If it is no program that can be run like this, or what it leaves is longer than `answer`.
pub fn run(
    program: BorrowedFd<'_>,
    question: &[u8],
    answer: Option<&mut [u8]>,
    repeat: u32,
) -> io::Result<Ran> {
    let octets = |length: usize| u32::try_from(length).map_err(|_| io::ErrorKind::InvalidInput);
    // prog_fd, retval, data_size_in, data_size_out, data_in, data_out, repeat, duration
    let mut attributes = Attributes::new()
        .word(0, program.as_raw_fd() as u32)
        .word(2, octets(question.len())?)
        .pointer(4, question.as_ptr())
        .word(8, repeat);
    if let Some(answer) = answer {
        attributes = attributes.word(3, octets(answer.len())?).pointer(6, answer.as_mut_ptr());
    }
    // SAFETY: question and answer are as long as said, live through the call, and nobody else has the answer.
    unsafe { attributes.call_in_place(BPF_PROG_TEST_RUN) }?;
    let time = Duration::from_nanos(attributes.at(9).into());
    Ok(Ran { value: attributes.at(1), octets: attributes.at(3) as usize, time })
}
