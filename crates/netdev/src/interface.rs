//! A network interface as the engine needs it: its facts, its faults, the changes that it needs.
//!
//! [`Interface::open`] looks and refuses; [`Prepared`] changes what breaks raw forwarding, writes down what it
//! changes, and puts it back. Facts come from one rtnetlink question and two ethtool ioctls, so they are about the
//! calling thread's network namespace; `/sys/class/net` shows the namespace of whoever mounted it.
//!
//! Left out on purpose: addresses and routes (a bump in the wire has none), changing the MTU.

mod clsact;
mod control;
mod error;
mod info;
pub(crate) mod link;
mod offload;
mod owner;
mod prepared;
mod record;
mod redirect;
mod routes;
mod watch;

use std::io;
use std::thread;
use std::time::Duration;

use control::Control;
pub use error::InterfaceError;
pub(crate) use error::cure;
use error::system;
pub use info::{InterfaceInfo, VethPeer};
pub use link::MacAddress;
pub use prepared::{Guard, Prepared, Tolerated, guard_here};
pub use record::HeldDownNote;
pub use redirect::takes_redirected;
pub use routes::default_routes;
pub use watch::{LinkEvents, LinkState, link_state};

/// Retries while a previous owner's program has not quite gone, and the pause between them.
const BUSY_RETRIES: usize = 30;
/// Retries while the kernel cleans up behind sockets. It does that by work that it puts off, which took 0.4 s on a busy box.
const CLEANUP_RETRIES: usize = 100;
const BUSY_PAUSE: Duration = Duration::from_millis(10);

/// A network interface that frames may be forwarded on, as it was when it was opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    name: String,
    index: u32,
    mac: MacAddress,
    mtu: u32,
    up: bool,
    kind: String,
    receive_queues: Option<u32>,
    addresses: Vec<String>,
}

impl Interface {
    /// Looks at the interface of that name.
    ///
    /// # Errors
    /// If it is missing, not Ethernet, part of a bridge or bond, or has an XDP program (still after 300 ms).
    pub fn open(name: &str) -> Result<Self, InterfaceError> {
        let mut link = facts(name)?;
        // The program of an owner that has just ended may still be there.
        for _ in 0..BUSY_RETRIES {
            if link.xdp_program.is_none() {
                break;
            }
            thread::sleep(BUSY_PAUSE);
            link = facts(name)?;
        }
        let busy = link.xdp_program;
        let interface = Self::of(link)?;
        match busy {
            // A gateway has to be stopped, and not its program.
            Some(_) if owner::is_taken(interface.index) => {
                Err(InterfaceError::Taken { name: interface.name })
            }
            Some(program) => Err(InterfaceError::XdpBusy { name: interface.name, program }),
            None => Ok(interface),
        }
    }

    /// The same for one that a gateway may have, such as this process since before this program: an XDP program there is no fault, and nobody
    /// waits until it has gone.
    ///
    /// # Errors
    /// If it is missing, not Ethernet, or part of a bridge or bond.
    pub fn as_it_is(name: &str) -> Result<Self, InterfaceError> {
        Self::of(facts(name)?)
    }

    fn of(link: link::LinkFacts) -> Result<Self, InterfaceError> {
        // A name of an interface can be an alternative one: what the kernel calls it is what the ioctls know.
        let name = link.name.clone();
        if link.hardware_type != libc::ARPHRD_ETHER {
            return Err(InterfaceError::NotEthernet { name, hardware_type: link.hardware_type });
        }
        if let Some(master) = link.master {
            let master = link::query(link::LinkId::Index(master)).map_or_else(
                |_| format!("interface {master}"),
                |master| format!("{} {}", master.kind, master.name),
            );
            return Err(InterfaceError::Enslaved { name, master: master.trim_start().into() });
        }
        let control = Control::open(&name)?;
        let addresses =
            control::addresses(&name).map_err(|source| system(&name, "list its IP addresses", source))?;
        Ok(Self {
            index: link.index,
            mac: link.mac,
            mtu: link.mtu,
            up: link.flags & libc::IFF_UP as u32 != 0,
            kind: link.kind,
            receive_queues: control.receive_queues(),
            addresses,
            name,
        })
    }

    /// The kernel's name for it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The kernel's number for it, unique in its network namespace.
    pub fn index(&self) -> u32 {
        self.index
    }

    /// Its own address.
    pub fn mac(&self) -> MacAddress {
        self.mac
    }

    /// Octets behind an untagged Ethernet header.
    pub fn mtu(&self) -> u32 {
        self.mtu
    }

    /// Whether it was up when it was opened.
    pub fn is_up(&self) -> bool {
        self.up
    }

    /// The kind of virtual interface (`veth`, `vlan`, `tun`); empty for hardware. On a `veth` the machine at the
    /// other end may leave checksums and VLAN tags to hardware that is not there: with AF_XDP it needs
    /// `ethtool -K IF tx off txvlan off`.
    pub fn kind(&self) -> &str {
        &self.kind
    }

    /// Receive queues in use, if the driver tells.
    pub fn receive_queues(&self) -> Option<u32> {
        self.receive_queues
    }

    /// IP addresses of the host on it. They stop working while frames are forwarded: worth a warning.
    pub fn addresses(&self) -> &[String] {
        &self.addresses
    }
}

fn facts(name: &str) -> Result<link::LinkFacts, InterfaceError> {
    link::query(link::LinkId::Name(name)).map_err(|source| match source.raw_os_error() {
        // EINVAL and ERANGE: a name that no interface can have.
        Some(libc::ENODEV | libc::EINVAL | libc::ERANGE) => InterfaceError::Missing { name: name.into() },
        _ => system(name, "ask what it is", source),
    })
}

/// Tries again while the kernel cleans up after a previous owner: for about a second.
pub(crate) fn while_busy<T>(mut attempt: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    for _ in 0..CLEANUP_RETRIES {
        match attempt() {
            Err(error) if error.raw_os_error() == Some(libc::EBUSY) => thread::sleep(BUSY_PAUSE),
            other => return other,
        }
    }
    attempt()
}
