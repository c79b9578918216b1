//! A cell in the kernel: its relations, found by exactly (DA, SA, FrameID), protected and verified by `bpf/cell.bpf.c`.
//!
//! Keys are put in and taken out as in `fieldbus::Relations`, by a [`KeyChange`]. A change is a program too, which control runs:
//! it takes the relation's lock as a frame does, so no Seq is taken twice, and none that frames take meanwhile is lost.
//!
//! Work for a change: a system call, and some hundred octets moved under the lock. For a frame: a look-up in a hash map, the
//! lock twice, and ChaCha20-Poly1305.

use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::time::Duration;

use aya::maps::{Array, DevMap, HashMap, PerCpuArray, PerCpuValues, XskMap};
use aya::programs::{Xdp, XdpMode};
use aya::{Ebpf, EbpfLoader, TestRun, TestRunOptions};
use fieldbus::{
    Direction, Event, Histogram, KeyChange, KeyStatus, Mode, ReceiveCounters, RelationSettings,
    RelationState, Relations, Settings, TransmitCounters,
};
use wire::fieldbus::{CellSuite, HEADER_OCTETS, ICV_OCTETS};

use crate::error::XdpError;
use crate::layout;

/// What a pinned clang makes of `bpf/cell.bpf.c`.
static OBJECT: &[u8] = aya::include_bytes_aligned!("../bpf/cell.bpf.o");
/// The longest payload that the programs take (`MOST_PAYLOAD`).
const MOST_PAYLOAD: usize = 2013;
const PROGRAMS: [&str; 4] = ["outward", "inward", "change", "look"];
const PROTECTED_PORT: u32 = 0;
const PLAIN_PORT: u32 = 1;
/// What the programs `change` and `look` answer.
const DONE: u32 = 100;
const REFUSED: u32 = 101;
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

/// What became of a frame that a program was tried with.
#[derive(PartialEq, Eq, Debug)]
pub struct Ran {
    /// The verdict.
    pub verdict: Verdict,
    /// The frame as the program left it.
    pub frame: Vec<u8>,
    /// The mean time of a run.
    pub time: Duration,
}

/// A relation at one moment.
#[derive(Debug)]
pub struct Report {
    /// What control has to know, since the last report.
    pub events: Vec<Event>,
    /// Whether its frames can pass.
    pub state: RelationState,
    /// The key that protects.
    pub transmit_key: Option<KeyStatus>,
    /// The key of the newest verified frame.
    pub receive_key: Option<KeyStatus>,
    /// How long no verified frame has come; none before the first.
    pub silent: Option<Duration>,
    /// The longest time between two verified frames.
    pub worst_gap: Duration,
}

/// Whether a change was made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Changed {
    /// It was.
    Done,
    /// Its key does not fit what is there.
    Refused,
}

/// What becomes of frames that are for user space while no socket takes them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unclaimed {
    /// They are dropped: nothing reaches the host's stack.
    Drop,
    /// The host's stack and its packet sockets get them.
    Pass,
}

/// All relations of a cell, with their programs loaded. Dropping it detaches the programs and frees the maps.
pub struct Cell {
    ebpf: Ebpf,
    relations: usize,
}

impl Cell {
    /// The largest MTU of a protected side.
    pub const MOST_MTU: usize = HEADER_OCTETS + MOST_PAYLOAD + ICV_OCTETS;

    /// Loads the programs for a cell whose relations have the numbers of their places in `relations`. No frame passes before there
    /// are keys and the programs are attached.
    ///
    /// # Errors
    /// If the cell is none for the kernel, or the kernel does not take the programs.
    pub fn load(
        settings: &Settings,
        relations: &[RelationSettings],
        unclaimed: Unclaimed,
    ) -> Result<Self, XdpError> {
        Self::load_object(OBJECT, settings, relations, unclaimed)
    }

    /// [`Cell::load`] with programs that another compiler has made, or that are broken on purpose: for tests.
    ///
    /// # Errors
    /// As [`Cell::load`].
    pub fn load_object(
        object: &[u8],
        settings: &Settings,
        relations: &[RelationSettings],
        unclaimed: Unclaimed,
    ) -> Result<Self, XdpError> {
        if settings.protection.suite != CellSuite::ChaCha20Poly1305 {
            return Err(XdpError::Suite(settings.protection.suite.name()));
        }
        if settings.mtu > Self::MOST_MTU {
            return Err(XdpError::Mtu { mtu: settings.mtu, most: Self::MOST_MTU });
        }
        if relations.iter().any(|of| of.mode == Mode::Shadow) {
            return Err(XdpError::Shadow);
        }
        // The same cells as in user space, and no others.
        Relations::new(*settings, relations).map_err(|_| XdpError::Relations)?;
        let count = relations.len().max(1) as u32;
        let mut loader = EbpfLoader::new();
        for map in ["outward_table", "inward_table", "relations", "sent", "received", "jitter"] {
            loader.map_max_entries(map, count);
        }
        let mut ebpf = loader.load(object)?;
        for program in PROGRAMS {
            xdp(&mut ebpf, program)?.load().map_err(|error| XdpError::program(program, &error))?;
        }
        let mut cell = Self { ebpf, relations: relations.len() };
        let rest = match unclaimed {
            Unclaimed::Drop => 1,
            Unclaimed::Pass => 2,
        };
        let mut common = Array::<_, [u8; layout::SETTINGS]>::try_from(map(&mut cell.ebpf, "settings")?)?;
        common.set(0, layout::settings(settings, rest), 0)?;
        cell.fill(relations)?;
        Ok(cell)
    }

    fn fill(&mut self, relations: &[RelationSettings]) -> Result<(), XdpError> {
        for (number, of) in (0_u32..).zip(relations) {
            let ((own, sends), (peer, receives)) = (of.relation.own(), of.relation.peer());
            let found_by = [
                ("outward_table", layout::address(peer, own, sends)),
                ("inward_table", layout::address(own, peer, receives)),
            ];
            for (name, address) in found_by {
                let map = map(&mut self.ebpf, name)?;
                HashMap::<_, [u8; layout::ADDRESS], u32>::try_from(map)?.insert(address, number, 0)?;
            }
            let map = map(&mut self.ebpf, "relations")?;
            Array::<_, [u8; layout::RELATION]>::try_from(map)?.set(number, layout::relation(of), 0)?;
        }
        Ok(())
    }

    /// Says where verified and protected frames leave: interfaces of this network namespace, by their indexes.
    ///
    /// # Errors
    /// If there is no such interface.
    pub fn set_ports(&mut self, plain: u32, protected: u32) -> Result<(), XdpError> {
        let mut ports = DevMap::try_from(map(&mut self.ebpf, "ports")?)?;
        ports.set(PLAIN_PORT, plain, None, 0)?;
        ports.set(PROTECTED_PORT, protected, None, 0)?;
        Ok(())
    }

    /// Has frames of no relation that come to this receive queue of the plain or the protected interface go to a socket.
    ///
    /// # Errors
    /// If it is no AF_XDP socket of that queue.
    pub fn set_socket(&mut self, way: Direction, queue: u32, socket: impl AsRawFd) -> Result<(), XdpError> {
        let name = match way {
            Direction::Outward => "plain_sockets",
            Direction::Inward => "protected_sockets",
        };
        Ok(XskMap::try_from(map(&mut self.ebpf, name)?)?.set(queue, socket, 0)?)
    }

    /// The programs, for links of somebody else's: that of the plain interface, and that of the protected one.
    ///
    /// # Errors
    /// If a file descriptor cannot be had.
    pub fn programs(&mut self) -> Result<[OwnedFd; 2], XdpError> {
        let mut descriptor = |program: &'static str| {
            let loaded = xdp(&mut self.ebpf, program)?;
            let descriptor = loaded.fd().map_err(|error| XdpError::program(program, &error))?;
            let failed = |error: std::io::Error| XdpError::Program { program, reason: error.to_string() };
            descriptor.as_fd().try_clone_to_owned().map_err(failed)
        };
        Ok([descriptor("outward")?, descriptor("inward")?])
    }

    /// Puts the programs to work on two interfaces of this network namespace, in their drivers. They end with this, or with
    /// the process.
    ///
    /// # Errors
    /// If an interface is gone, has a program already, or its driver takes none.
    pub fn attach(&mut self, plain: u32, protected: u32) -> Result<(), XdpError> {
        self.set_ports(plain, protected)?;
        for (program, interface) in [("outward", plain), ("inward", protected)] {
            xdp(&mut self.ebpf, program)?
                .attach_to_if_index(interface, XdpMode::Driver)
                .map_err(|error| XdpError::program(program, &error))?;
        }
        Ok(())
    }

    /// Changes keys of a relation. What has ended is wiped.
    ///
    /// # Errors
    /// If there is no such relation, or a key is of another suite.
    pub fn change(&mut self, relation: usize, change: &KeyChange) -> Result<Changed, XdpError> {
        let command = layout::command(relation, change)?;
        let options = TestRunOptions { data_in: Some(command.octets()), ..TestRunOptions::new() };
        match self.run("change", options)?.0 {
            DONE => Ok(Changed::Done),
            REFUSED => Ok(Changed::Refused),
            _ => Err(XdpError::Malformed),
        }
    }

    /// Looks at a relation: whether frames have stopped, and what control has to know of it.
    ///
    /// # Errors
    /// If there is no such relation.
    pub fn look(&mut self, relation: usize) -> Result<Report, XdpError> {
        self.report(&layout::question(relation, true))
    }

    /// The same, and what control has to know stays there.
    ///
    /// # Errors
    /// As [`Cell::look`].
    pub fn peek(&self, relation: usize) -> Result<Report, XdpError> {
        self.report(&layout::question(relation, false))
    }

    fn report(&self, question: &[u8; layout::COMMAND]) -> Result<Report, XdpError> {
        let mut answer = [0; layout::COMMAND];
        let options =
            TestRunOptions { data_in: Some(question), data_out: Some(&mut answer), ..TestRunOptions::new() };
        if self.run("look", options)?.0 != DONE {
            return Err(XdpError::Malformed);
        }
        let layout::Report { events, transmit_key, receive_key, state, silent, worst_gap } =
            layout::report(&answer);
        Ok(Report { events, state, transmit_key, receive_key, silent, worst_gap })
    }

    /// What was counted of a relation, on all CPUs together.
    ///
    /// # Errors
    /// If there is no such relation.
    pub fn counters(&self, relation: usize) -> Result<(TransmitCounters, ReceiveCounters), XdpError> {
        let sent = TransmitCounters::from_values(self.sum("sent", relation)?);
        let received = ReceiveCounters::from_values(self.sum("received", relation)?);
        Ok((sent, received))
    }

    /// How much the time between two verified frames of a relation differs from its cycle, on all CPUs together.
    ///
    /// # Errors
    /// If there is no such relation.
    pub fn jitter(&self, relation: usize) -> Result<Histogram, XdpError> {
        let values = self.per_cpu::<{ 2 + Histogram::BUCKETS }>("jitter", relation)?;
        let (mut sum, mut worst, mut counts) = (0_u64, 0, [0_u64; Histogram::BUCKETS]);
        for [sum_here, worst_here, counts_here @ ..] in values.iter() {
            sum = sum.saturating_add(*sum_here);
            worst = worst.max(*worst_here);
            counts.iter_mut().zip(counts_here).for_each(|(count, here)| *count += here);
        }
        Ok(Histogram::of(counts, Duration::from_nanos(sum), Duration::from_nanos(worst)))
    }

    /// How many relations there are.
    pub const fn count(&self) -> usize {
        self.relations
    }

    /// Has a frame of the machine go through the program as if it had come, `repeat` times: for tests and benches. It takes a Seq, and is
    /// counted. At least 14 octets.
    ///
    /// # Errors
    /// If the kernel does not run it.
    pub fn run_outward(&self, frame: &[u8], repeat: u32) -> Result<Ran, XdpError> {
        self.run_frame("outward", frame, repeat)
    }

    /// The same for a frame of the network.
    ///
    /// # Errors
    /// If the kernel does not run it.
    pub fn run_inward(&self, frame: &[u8], repeat: u32) -> Result<Ran, XdpError> {
        self.run_frame("inward", frame, repeat)
    }

    fn run_frame(&self, program: &'static str, frame: &[u8], repeat: u32) -> Result<Ran, XdpError> {
        let mut out = vec![0; FRAME];
        let options = TestRunOptions {
            data_in: Some(frame),
            data_out: Some(&mut out),
            repeat,
            ..TestRunOptions::new()
        };
        let (verdict, octets, time) = self.run(program, options)?;
        let verdict = match verdict {
            1 => Verdict::Drop,
            2 => Verdict::Pass,
            4 => Verdict::Redirect,
            _ => Verdict::Aborted,
        };
        out.truncate(octets);
        Ok(Ran { verdict, frame: out, time })
    }

    fn run(
        &self,
        program: &'static str,
        options: TestRunOptions<'_>,
    ) -> Result<(u32, usize, Duration), XdpError> {
        let missing = || XdpError::Program { program, reason: "it is not there".into() };
        let loaded: &Xdp =
            self.ebpf.program(program).and_then(|found| found.try_into().ok()).ok_or_else(missing)?;
        let ran = loaded.test_run(options).map_err(|error| XdpError::program(program, &error))?;
        Ok((ran.return_value, ran.data_size_out as usize, ran.duration))
    }

    fn sum<const N: usize>(&self, name: &'static str, relation: usize) -> Result<[u64; N], XdpError> {
        let mut sum = [0_u64; N];
        for of_cpu in self.per_cpu::<N>(name, relation)?.iter() {
            sum.iter_mut().zip(of_cpu).for_each(|(sum, value)| *sum = sum.wrapping_add(*value));
        }
        Ok(sum)
    }

    fn per_cpu<const N: usize>(
        &self,
        name: &'static str,
        relation: usize,
    ) -> Result<PerCpuValues<[u64; N]>, XdpError> {
        let map = self.ebpf.map(name).ok_or(XdpError::Malformed)?;
        Ok(PerCpuArray::<_, [u64; N]>::try_from(map)?.get(&(relation as u32), 0)?)
    }
}

impl std::fmt::Debug for Cell {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cell").field("relations", &self.relations).finish_non_exhaustive()
    }
}

fn xdp<'e>(ebpf: &'e mut Ebpf, program: &'static str) -> Result<&'e mut Xdp, XdpError> {
    let missing = || XdpError::Program { program, reason: "it is not there".into() };
    ebpf.program_mut(program).and_then(|found| found.try_into().ok()).ok_or_else(missing)
}

fn map<'e>(ebpf: &'e mut Ebpf, name: &'static str) -> Result<&'e mut aya::maps::Map, XdpError> {
    ebpf.map_mut(name).ok_or(XdpError::Malformed)
}
