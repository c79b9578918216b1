//! Programs of the kernel in front of a link's ports: those of its cell, or those of its SecY.
//!
//! ```text
//!  ports are open ─▶ their interfaces and sockets to the programs' maps ─▶ the programs into the ports' links
//! ```
//!
//! The programs go with the ports, and with the process, however it ends.

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use dataplane::job::Progress;
use fieldbus::Direction;
use netdev::interface::takes_redirected;
use netdev::port::KernelSide;
use xdp::XdpError;

use crate::{Gateway, LinkControl, WorkerUnresponsive};

/// Why no frame passes meanwhile.
pub(crate) const NO_PORTS: &str = "its link has no ports";

/// Where frames are to be protected and verified.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum PathWanted {
    /// In user space.
    #[default]
    UserSpace,
    /// In the kernel if it can be, else in user space.
    Auto,
    /// In the kernel, or not at all.
    Kernel,
}

/// Programs for the plain and the protected port of a link.
pub(crate) trait PortPrograms {
    fn set_ports(&mut self, plain: u32, protected: u32) -> Result<(), XdpError>;
    fn set_socket(&mut self, way: Direction, queue: u32, socket: i32) -> Result<(), XdpError>;
    fn programs(&mut self) -> Result<[OwnedFd; 2], XdpError>;
}

macro_rules! port_programs {
    ($of:ty) => {
        impl PortPrograms for $of {
            fn set_ports(&mut self, plain: u32, protected: u32) -> Result<(), XdpError> {
                self.set_ports(plain, protected)
            }

            fn set_socket(&mut self, way: Direction, queue: u32, socket: i32) -> Result<(), XdpError> {
                self.set_socket(way, queue, socket)
            }

            fn programs(&mut self) -> Result<[OwnedFd; 2], XdpError> {
                self.programs()
            }
        }
    };
}

port_programs!(xdp::Cell);
port_programs!(xdp::Link);

/// The interfaces of two ports, plain and protected, and whether programs run in their drivers.
#[derive(Clone, Copy)]
pub(crate) struct Interfaces([(u32, bool); 2]);

impl Interfaces {
    pub(crate) fn of(sides: &[KernelSide; 2]) -> Self {
        Self(sides.each_ref().map(|side| (side.interface, side.native)))
    }

    /// Whether both take redirected frames now; `None` if that cannot be told, or changes nothing.
    pub(crate) fn take_redirected(&self) -> Option<bool> {
        if !self.0.iter().all(|(_, native)| *native) {
            return None;
        }
        match self.0.map(|(interface, _)| takes_redirected(interface)) {
            [Some(true), Some(true)] => Some(true),
            take if take.contains(&Some(false)) => Some(false),
            _ => None,
        }
    }
}

/// Why frames that the programs send would not leave by a port.
fn unfit(side: &KernelSide, name: &str, wanted: PathWanted) -> Result<(), String> {
    if !side.native {
        return match wanted {
            PathWanted::Kernel => Ok(()),
            _ => Err(format!("the driver of its {name} port takes no XDP programs")),
        };
    }
    match (takes_redirected(side.interface), wanted) {
        (Some(true), _) | (None, PathWanted::Kernel) => Ok(()),
        (None, _) => Err(format!(
            "this kernel does not tell whether its {name} port takes redirected frames (Linux 6.3 does)"
        )),
        (Some(false), _) => Err(format!(
            "its {name} port takes no redirected frames; of a veth the other end needs: ethtool -K IF gro on"
        )),
    }
}

/// The maps know the ports, and these are the programs.
fn connect(programs: &mut dyn PortPrograms, sides: &[KernelSide; 2]) -> Result<[OwnedFd; 2], XdpError> {
    let [plain, protected] = sides;
    programs.set_ports(plain.interface, protected.interface)?;
    for (way, side) in [(Direction::Outward, plain), (Direction::Inward, protected)] {
        for (queue, socket) in (0..).zip(&side.sockets) {
            programs.set_socket(way, queue, socket.as_raw_fd())?;
        }
    }
    programs.programs()
}

impl Gateway {
    /// The sides of a link's ports as programs need them; `None` as long as there are no ports.
    pub(crate) fn kernel_sides(&mut self, number: usize) -> Result<Option<[KernelSide; 2]>, String> {
        let sides = self.run_on_link(number, None, |link, sides| {
            *sides = Some(link.kernel_sides());
            Progress::Done
        });
        let sides = sides.map_err(|error: WorkerUnresponsive| error.to_string())?;
        match sides.ok_or("the worker does not answer")? {
            Err(error) if error.kind() == io::ErrorKind::NotConnected => Ok(None),
            other => other.map(Some).map_err(|_| "its link's ports are not on AF_XDP".into()),
        }
    }

    /// Puts programs of a link to work on its ports.
    pub(crate) fn put_programs(
        &mut self,
        number: usize,
        sides: &[KernelSide; 2],
        wanted: PathWanted,
        find: fn(&mut LinkControl) -> Option<&mut dyn PortPrograms>,
    ) -> Result<(), String> {
        let [plain, protected] = sides;
        unfit(plain, "plain", wanted)?;
        unfit(protected, "protected", wanted)?;
        let programs = find(&mut self.links[number]).ok_or("there are no programs")?;
        let programs = connect(programs, sides).map_err(|error| error.to_string())?;
        let (_, set) = self
            .run_on_link(number, (programs, Ok(())), |link, (programs, set)| {
                *set = link.set_programs(Some(programs.each_ref().map(AsFd::as_fd)));
                Progress::Done
            })
            .map_err(|error| error.to_string())?;
        set.map_err(|error: io::Error| format!("an interface refuses the programs: {error}"))
    }

    /// Takes programs off a link's ports, which then go on with their own.
    pub(crate) fn take_programs_off(&mut self, number: usize) {
        // A worker that does not answer holds ports that forward nothing.
        let _ = self.run_on_link(number, (), |link, ()| {
            let _ = link.set_programs(None);
            Progress::Done
        });
    }
}
