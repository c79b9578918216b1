//! Descriptors that outlive this program: the next one of the same process has them under the same numbers (execve(2)).
//!
//! Sockets keep what they have received, locks their owner, linked programs their place: to the kernel nothing happened. All
//! descriptors of this program are closed by execve (FD_CLOEXEC), but for those that [`pass_on`] names. So a descriptor without
//! that flag is one of the program before, and nobody's here until it is taken.
//!
//! Memory ends with the program: a ring that the kernel shares is mapped anew.

#![allow(unsafe_code)]

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{BorrowedFd, FromRawFd as _, OwnedFd, RawFd};
use std::os::unix::fs::OpenOptionsExt as _;

use nix::fcntl::{FcntlArg, FdFlag, fcntl};
use nix::sys::statfs::{TMPFS_MAGIC, fstatfs};
use serde::{Deserialize, Serialize};

/// The lowest number that can be a descriptor of the program before: those below are input, output and errors.
const FIRST: RawFd = 3;

/// Sizes of what the kernel shares with a port, and with a pool: [`PassedPorts`] does not name them.
pub const LAYOUT: [usize; 4] = [
    crate::af_packet::RING_OCTETS,
    crate::af_packet::BLOCK_OCTETS,
    crate::pool::HEADROOM,
    crate::pool::TAILROOM,
];

/// Has writes to a closed pipe fail instead of ending the process, as it is in each Rust program from its start on: the standard library's
/// `exec` sets the default before execve(2), and leaves it so if that fails.
pub fn ignore_sigpipe() {
    // SAFETY: no handler is installed.
    let _ = unsafe {
        nix::sys::signal::signal(nix::sys::signal::Signal::SIGPIPE, nix::sys::signal::SigHandler::SigIgn)
    };
}

/// A port of the program before.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum PassedPort {
    /// On packet sockets.
    AfPacket(PassedAfPacket),
    /// On AF_XDP sockets.
    AfXdp(PassedAfXdp),
}

impl PassedPort {
    /// The descriptors that it names.
    pub fn descriptors(&self) -> Vec<RawFd> {
        match self {
            Self::AfPacket(port) => port.descriptors.to_vec(),
            Self::AfXdp(port) => port.descriptors.iter().chain(&port.sockets).copied().collect(),
        }
    }
}

/// A port on packet sockets.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PassedAfPacket {
    /// Its sockets: the one that receives, the one that sends.
    pub descriptors: [RawFd; 2],
    /// Octets of a place of its ring.
    pub place_octets: usize,
    /// The place of the next frame.
    pub next: usize,
    /// The interface's MTU.
    pub mtu: u32,
    /// Its counters, in the order of [`crate::port::PortCounters::values`].
    pub counters: Vec<u64>,
}

/// A port on AF_XDP sockets.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PassedAfXdp {
    /// Link, program and map; the socket that makes the interface promiscuous.
    pub descriptors: [RawFd; 4],
    /// The sockets of queues 0, 1, ....
    pub sockets: Vec<RawFd>,
    /// Places of their rings.
    pub places: u32,
    /// The most chunks of a direction of a socket.
    pub depth: usize,
    /// Chunks that are in the kernel's hands: for each socket those to receive into, and those that are sent.
    pub in_flight: Vec<usize>,
    /// Whether its program runs in the driver.
    pub native: bool,
    /// The interface's MTU.
    pub mtu: u32,
    /// Its description.
    pub description: String,
    /// Its own counters, in the order of [`crate::port::PortCounters::values`]; those of the sockets are the kernel's.
    pub counters: Vec<u64>,
}

/// The memory of a link's frames.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PassedPool {
    /// The file of its region.
    pub file: RawFd,
    /// Octets of a chunk.
    pub chunk_octets: usize,
    /// Number of chunks.
    pub chunks: usize,
    /// A bit for each chunk: it is in the kernel's hands.
    pub in_flight: Vec<u64>,
}

/// The ports of a link, and the memory that they share.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PassedPorts {
    /// The memory.
    pub pool: PassedPool,
    /// Plain, protected.
    pub ports: [PassedPort; 2],
}

/// A prepared interface of the program before.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PassedInterface {
    /// Its name.
    pub name: String,
    /// Its index.
    pub index: u32,
    /// The marker of its owner, and the file of its record.
    pub descriptors: [RawFd; 2],
    /// Links of the programs that guard it, outward and inward; none: `clsact` does.
    pub guards: Option<[RawFd; 2]>,
    /// Offloads that it cannot switch off.
    pub remaining_offloads: Vec<String>,
}

impl PassedInterface {
    /// The descriptors that it names.
    pub fn numbers(&self) -> impl Iterator<Item = RawFd> {
        self.descriptors.into_iter().chain(self.guards.into_iter().flatten())
    }
}

/// Where files lie that are in memory alone. systemd mounts it without the right to execute for a service with `NoExecPaths=/`: what is
/// in them is never code, other than in a file of memfd_create(2), which has no such mount.
const MEMORY: &str = "/dev/shm";

/// A file in memory without a name, which nobody else can open and which goes with its last descriptor.
///
/// # Errors
/// If the system has no place for one, or that place is on a disk.
pub fn unlinked_file() -> io::Result<File> {
    // With O_EXCL it never gets a name.
    let flags = libc::O_TMPFILE | libc::O_EXCL;
    let file = OpenOptions::new().read(true).write(true).mode(0o600).custom_flags(flags).open(MEMORY)?;
    if fstatfs(&file)?.filesystem_type() != TMPFS_MAGIC {
        return Err(io::Error::new(io::ErrorKind::Unsupported, format!("{MEMORY} is not in memory")));
    }
    Ok(file)
}

/// Leaves these descriptors open for the next program of this process, or closes them again when it begins.
///
/// # Errors
/// If there is no such descriptor; the others are seen to nevertheless.
pub fn pass_on(descriptors: &[RawFd], pass: bool) -> io::Result<()> {
    let flags = if pass { FdFlag::empty() } else { FdFlag::FD_CLOEXEC };
    let set = descriptors.iter().map(|&number| set_flags(number, flags));
    set.fold(Ok(()), Result::and)
}

/// Takes a descriptor of the program before.
///
/// # Errors
/// If there is none under this number, or it has been taken.
pub fn take(number: RawFd) -> io::Result<OwnedFd> {
    // SAFETY: only asked for its flags; a number that is none is an error.
    let flags = fcntl(unsafe { borrow(number) }?, FcntlArg::F_GETFD)?;
    if FdFlag::from_bits_truncate(flags).contains(FdFlag::FD_CLOEXEC) {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            format!("descriptor {number} was not passed on"),
        ));
    }
    set_flags(number, FdFlag::FD_CLOEXEC)?;
    // SAFETY: it is open. Without the flag it was nobody's: whatever this program opens has it. It has it now, so nobody takes it again.
    Ok(unsafe { OwnedFd::from_raw_fd(number) })
}

fn set_flags(number: RawFd, flags: FdFlag) -> io::Result<()> {
    // SAFETY: only its flags are changed; a number that is none is an error.
    fcntl(unsafe { borrow(number) }?, FcntlArg::F_SETFD(flags))?;
    Ok(())
}

/// # Safety
/// The caller only does with it what is sound for any number.
unsafe fn borrow<'d>(number: RawFd) -> io::Result<BorrowedFd<'d>> {
    if number < FIRST {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    // SAFETY: not -1; the caller answers for the rest.
    Ok(unsafe { BorrowedFd::borrow_raw(number) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsRawFd as _;

    #[test]
    fn a_descriptor_is_taken_once_and_only_if_it_was_passed_on() {
        let own = File::open("/proc/self/status").unwrap();
        let number = own.as_raw_fd();
        for wrong in [-1, 0, 2, number, 1 << 20] {
            assert!(take(wrong).is_err(), "{wrong}");
        }
        // As the next program finds it: nobody's.
        let number = std::os::fd::IntoRawFd::into_raw_fd(own);
        assert!(pass_on(&[1 << 20, number], true).is_err());
        let taken = take(number).unwrap();
        assert_eq!(taken.as_raw_fd(), number);
        assert!(take(number).is_err());
        pass_on(&[number], true).unwrap();
        pass_on(&[number], false).unwrap();
        assert!(take(number).is_err());
    }

    #[test]
    fn an_unlinked_file_is_in_memory_and_has_no_name() {
        let file = unlinked_file().unwrap();
        let name = std::fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd())).unwrap();
        assert!(name.starts_with(MEMORY) && name.to_string_lossy().ends_with("(deleted)"), "{name:?}");
        let own = format!("/proc/self/fd/{}", file.as_raw_fd());
        let link = std::path::Path::new(MEMORY).join(format!("frameward-{}", std::process::id()));
        let flags = nix::fcntl::AtFlags::AT_SYMLINK_FOLLOW;
        let here = nix::fcntl::AT_FDCWD;
        assert!(nix::unistd::linkat(here, own.as_str(), here, &link, flags).is_err());
    }
}
