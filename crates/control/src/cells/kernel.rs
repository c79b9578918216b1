//! A cell whose frames are protected and verified in the kernel ([`xdp::Cell`]): control holds it, changes its keys and asks it for
//! news. The worker has the cell all the same, without keys: HELLOs come to it, and what the programs leave to user space.
//!
//! ```text
//!  ports are open ─▶ their interfaces and sockets to the maps ─▶ the programs into the ports' links
//!  KeyChange ─▶ xdp::Cell::change        worker: the names of the handshake alone
//!  look, every 10 ms ─▶ Event
//! ```
//!
//! The programs go with the ports' links, the maps with control: with the process, however it ends.

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::time::{Duration, Instant};

use dataplane::job::Progress;
use fieldbus::{Direction, Event, KeyChange, RelationSettings, RelationStatus, Settings};
use netdev::port::KernelSide;
use xdp::XdpError;
use xdp::cell::Unclaimed;

use crate::Gateway;

/// How often the kernel is asked for news, and whether frames have stopped.
const LOOK_PERIOD: Duration = Duration::from_millis(10);
/// Why no frame passes meanwhile.
const NO_PORTS: &str = "its link has no ports";
/// Relations that are looked at in one turn, at the most.
const LOOKS: usize = 128;

/// Where a cell's frames are to be protected and verified.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum PathWanted {
    /// In user space.
    #[default]
    UserSpace,
    /// In the kernel, or not at all.
    Kernel,
}

/// Where they are.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum CellPath {
    /// In the kernel.
    Kernel,
    /// In user space.
    UserSpace,
    /// Nowhere: the kernel is wanted, and does not take them for this reason.
    Nowhere(String),
}

/// The kernel's part of a cell.
pub(super) struct KernelCell {
    cell: xdp::Cell,
    /// Its programs are at work on the ports that there are.
    attached: bool,
    look_due: Instant,
    look_at: usize,
}

impl KernelCell {
    /// Loads the programs, if they are wanted.
    pub(super) fn load(
        wanted: PathWanted,
        settings: &Settings,
        relations: &[RelationSettings],
    ) -> Result<(Option<Self>, CellPath), XdpError> {
        if wanted == PathWanted::UserSpace {
            return Ok((None, CellPath::UserSpace));
        }
        let cell = xdp::Cell::load(settings, relations, Unclaimed::Drop)?;
        let (look_due, look_at) = (Instant::now(), 0);
        Ok((Some(Self { cell, attached: false, look_due, look_at }), CellPath::Nowhere(NO_PORTS.into())))
    }

    /// Carries a change out; the worker has what is left of it to do.
    pub(super) fn change(&mut self, relation: usize, change: &KeyChange) -> Result<(), XdpError> {
        self.cell.change(relation, change).map(drop)
    }

    /// What the kernel has to tell, of some relations.
    pub(super) fn poll_events(&mut self, now: Instant) -> Vec<(usize, Event)> {
        if now < self.look_due {
            return Vec::new();
        }
        let end = self.cell.count().min(self.look_at + LOOKS);
        let looked = self.look_at..end;
        self.look_at = if end == self.cell.count() { 0 } else { end };
        if self.look_at == 0 {
            self.look_due = now + LOOK_PERIOD;
        }
        let events = |number| {
            let report = self.cell.look(number).ok();
            report.into_iter().flat_map(move |report| report.events).map(move |event| (number, event))
        };
        looked.flat_map(events).collect()
    }

    /// Puts what the kernel knows of a relation into what the worker knows of it.
    pub(super) fn complete(&self, number: usize, status: &mut RelationStatus) -> Result<(), XdpError> {
        let (sent, received) = self.cell.counters(number)?;
        status.transmit.add(&sent);
        status.receive.add(&received);
        status.jitter = self.cell.jitter(number)?;
        let report = self.cell.peek(number)?;
        (status.state, status.transmit_key, status.receive_key) =
            (report.state, report.transmit_key, report.receive_key);
        (status.silent, status.worst_gap) = (report.silent, report.worst_gap);
        Ok(())
    }
}

/// The maps know the ports, and these are the programs.
fn programs(kernel: &mut KernelCell, sides: &[KernelSide; 2]) -> Result<[OwnedFd; 2], String> {
    let to_text = |error: XdpError| error.to_string();
    let [plain, protected] = sides;
    kernel.cell.set_ports(plain.interface, protected.interface).map_err(to_text)?;
    for (way, side) in [(Direction::Outward, plain), (Direction::Inward, protected)] {
        for (queue, socket) in (0..).zip(&side.sockets) {
            kernel.cell.set_socket(way, queue, socket.as_raw_fd()).map_err(to_text)?;
        }
    }
    kernel.cell.programs().map_err(to_text)
}

impl Gateway {
    /// Puts a cell's programs to work on its link's ports, if it has programs and the link has ports. If they cannot be, no frame of
    /// the cell passes.
    pub(crate) fn attach_kernel(&mut self, number: usize) {
        let has_kernel = self.links[number].cell.as_ref().is_some_and(|cell| cell.kernel.is_some());
        if !has_kernel {
            return;
        }
        let attached = self.try_attach(number);
        let Some(cell) = self.links[number].cell.as_deref_mut() else { return };
        let Some(kernel) = &mut cell.kernel else { return };
        kernel.attached = attached == Ok(true);
        cell.path = match attached {
            Ok(true) => CellPath::Kernel,
            Ok(false) => CellPath::Nowhere(NO_PORTS.into()),
            Err(why) => CellPath::Nowhere(why),
        };
    }

    /// Whether they are at work; not as long as there are no ports.
    fn try_attach(&mut self, number: usize) -> Result<bool, String> {
        let unanswered = |error: crate::WorkerUnresponsive| error.to_string();
        let sides = self.run_on_link(number, None, |link, sides| {
            *sides = Some(link.kernel_sides());
            Progress::Done
        });
        let sides = sides.map_err(unanswered)?.ok_or("the worker does not answer")?;
        let sides = match sides {
            Err(error) if error.kind() == io::ErrorKind::NotConnected => return Ok(false),
            other => other.map_err(|_| "the link's ports are not on AF_XDP")?,
        };
        let cell = self.links[number].cell.as_deref_mut();
        let kernel = cell.and_then(|cell| cell.kernel.as_mut()).ok_or("there is no kernel path")?;
        let programs = programs(kernel, &sides)?;
        let (_, set) = self
            .run_on_link(number, (programs, Ok(())), |link, (programs, set)| {
                *set = link.set_programs(Some(programs.each_ref().map(AsFd::as_fd)));
                Progress::Done
            })
            .map_err(unanswered)?;
        set.map_err(|error: io::Error| format!("an interface refuses the programs: {error}"))?;
        Ok(true)
    }

    /// A link's ports are closed, and the programs went with them.
    pub(crate) fn kernel_closed(&mut self, number: usize) {
        let Some(cell) = self.links[number].cell.as_deref_mut() else { return };
        if let Some(kernel) = &mut cell.kernel {
            kernel.attached = false;
            cell.path = CellPath::Nowhere(NO_PORTS.into());
        }
    }

    /// Takes a cell's programs off its link's ports, which then go on with their own.
    pub(super) fn detach_kernel(&mut self, number: usize) {
        let attached = self.links[number].cell.as_ref().and_then(|cell| cell.kernel.as_ref());
        if attached.is_some_and(|kernel| kernel.attached) {
            // A worker that does not answer holds ports that forward nothing.
            let _ = self.run_on_link(number, (), |link, ()| {
                let _ = link.set_programs(None);
                Progress::Done
            });
        }
    }
}
