//! Runs of programs that user space asks for (BPF_PROG_TEST_RUN): control's changes and questions, and frames of tests.

use std::time::Duration;

use netdev::run;

use crate::error::XdpError;
use crate::programs::{Loaded, Programs};

/// The most that a program leaves of a frame.
const FRAME: usize = 4096;

/// Return values of the programs that change and answer.
const DONE: u32 = 100;
const REFUSED: u32 = 101;

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

/// Whether a change was made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Changed {
    /// It was.
    Done,
    /// Its key does not fit what is there.
    Refused,
}

impl Programs {
    /// Has the program `change` carry a command out.
    pub(crate) fn change(&self, command: &[u8]) -> Result<Changed, XdpError> {
        change(self.loaded(), command)
    }

    /// The answer that a program leaves in place of a question, or of a command.
    pub(crate) fn ask<const N: usize>(
        &self,
        program: &'static str,
        question: &[u8],
    ) -> Result<[u8; N], XdpError> {
        let (done, answer) = answer(self.loaded(), program, question)?;
        (done == DONE).then_some(answer).ok_or(XdpError::Malformed)
    }

    /// Runs a program on a frame, `repeat` times.
    pub(crate) fn run_frame(
        &self,
        program: &'static str,
        frame: &[u8],
        repeat: u32,
    ) -> Result<Ran, XdpError> {
        let mut out = vec![0; FRAME];
        let run::Ran { value, octets, time } = run(self.loaded(), program, frame, Some(&mut out), repeat)?;
        let verdict = match value {
            1 => Verdict::Drop,
            2 => Verdict::Pass,
            4 => Verdict::Redirect,
            _ => Verdict::Aborted,
        };
        out.truncate(octets);
        Ok(Ran { verdict, frame: out, time })
    }
}

/// Has the program `change` of loaded ones carry a command out.
pub(crate) fn change(loaded: &Loaded, command: &[u8]) -> Result<Changed, XdpError> {
    match run(loaded, "change", command, None, 1)?.value {
        DONE => Ok(Changed::Done),
        REFUSED => Ok(Changed::Refused),
        _ => Err(XdpError::Malformed),
    }
}

/// Return value of a run on a question, and what it left of it.
pub(crate) fn answer<const N: usize>(
    loaded: &Loaded,
    program: &'static str,
    question: &[u8],
) -> Result<(u32, [u8; N]), XdpError> {
    let mut answer = [0; N];
    let run::Ran { value, .. } = run(loaded, program, question, Some(&mut answer), 1)?;
    Ok((value, answer))
}

fn run(
    loaded: &Loaded,
    program: &'static str,
    question: &[u8],
    answer: Option<&mut [u8]>,
    repeat: u32,
) -> Result<run::Ran, XdpError> {
    let ran = run::run(loaded.program(program)?, question, answer, repeat);
    ran.map_err(|error| XdpError::run(program, &error))
}
