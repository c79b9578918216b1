//! Programs of the kernel in front of a link's ports: those of its cell, or those of its SecY.
//!
//! ```text
//!  ports are open ─▶ their interfaces and sockets to the programs' maps ─▶ the programs into the ports' links, aside
//!  frames are theirs ─▶ they stand aside no more          frames are user space's ─▶ they stand aside
//! ```
//!
//! Programs that stand aside leave every frame to the ports' sockets. To put them there waits for the kernel's lock of all interfaces,
//! which others may hold for long, so nothing depends on it. To have them stand aside waits for nobody.
//!
//! The programs go with the ports, and with the process, however it ends.

use std::os::fd::{AsRawFd, OwnedFd};

use fieldbus::Direction;
use netdev::interface::takes_redirected;
use netdev::port::KernelSide;
use xdp::XdpError;

/// Reason why no frame passes until there are ports.
pub(crate) const NO_PORTS: &str = "its link has no ports";

/// Place of protection and verification that is wanted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum PlaceWanted {
    /// In user space.
    #[default]
    UserSpace,
    /// In the kernel if it can be, else in user space.
    Auto,
    /// In the kernel, or not at all.
    Kernel,
}

/// Owner of the programs that stand in front of a link's ports.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ProgramsOf {
    /// The link's SecY.
    Link,
    /// Its cell.
    Cell,
}

/// Programs for the plain and the protected port of a link.
pub(crate) trait PortPrograms {
    fn stand_aside(&mut self, aside: bool) -> Result<(), XdpError>;
    fn set_ports(&mut self, plain: u32, protected: u32) -> Result<(), XdpError>;
    fn set_socket(&mut self, way: Direction, queue: u32, socket: i32) -> Result<(), XdpError>;
    fn programs(&mut self) -> Result<[OwnedFd; 2], XdpError>;
}

macro_rules! port_programs {
    ($of:ty) => {
        impl PortPrograms for $of {
            fn stand_aside(&mut self, aside: bool) -> Result<(), XdpError> {
                self.stand_aside(aside)
            }

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

    /// Both, if it matters whether they take redirected frames.
    pub(crate) fn redirected_to(&self) -> Option<[u32; 2]> {
        self.0.iter().all(|(_, native)| *native).then(|| self.0.map(|(interface, _)| interface))
    }

    /// Whether both take redirected frames now; `None` if that cannot be told, or changes nothing.
    pub(crate) fn take_redirected(&self, takes: impl Fn(u32) -> Option<bool>) -> Option<bool> {
        match self.redirected_to()?.map(takes) {
            [Some(true), Some(true)] => Some(true),
            take if take.contains(&Some(false)) => Some(false),
            _ => None,
        }
    }
}

/// Whether frames that programs send leave by these ports. To ask may wait for the kernel's lock of all interfaces.
///
/// # Errors
/// Why not.
pub(crate) fn fit([plain, protected]: &[KernelSide; 2], wanted: PlaceWanted) -> Result<(), String> {
    takes_frames(plain, "plain", wanted)?;
    takes_frames(protected, "protected", wanted)
}

fn takes_frames(side: &KernelSide, name: &str, wanted: PlaceWanted) -> Result<(), String> {
    if !side.native {
        return match wanted {
            PlaceWanted::Kernel => Ok(()),
            _ => Err(format!("the driver of its {name} port takes no XDP programs")),
        };
    }
    match (takes_redirected(side.interface), wanted) {
        (Some(true), _) | (None, PlaceWanted::Kernel) => Ok(()),
        (None, _) => Err(format!(
            "this kernel does not tell whether its {name} port takes redirected frames (Linux 6.3 does)"
        )),
        (Some(false), _) => Err(format!(
            "its {name} port takes no redirected frames; of a veth the other end needs: ethtool -K IF gro on"
        )),
    }
}

/// Puts ports and sockets into the programs' maps. Returns the programs.
pub(crate) fn connect(
    programs: &mut dyn PortPrograms,
    sides: &[KernelSide; 2],
) -> Result<[OwnedFd; 2], XdpError> {
    let [plain, protected] = sides;
    programs.set_ports(plain.interface, protected.interface)?;
    for (way, side) in [(Direction::Outward, plain), (Direction::Inward, protected)] {
        for (queue, socket) in (0..).zip(&side.sockets) {
            programs.set_socket(way, queue, socket.as_raw_fd())?;
        }
    }
    programs.programs()
}
