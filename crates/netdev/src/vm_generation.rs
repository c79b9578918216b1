//! Whether this virtual machine was brought back to an earlier state while it ran, or was copied.
//!
//! A live snapshot has the memory in it: keys, PNs, replay windows. Brought back, it sends again under numbers
//! that were used since, static keys or not. Hypervisors with a *VM generation ID* change that then; Linux' driver
//! `vmgenid` is told (from 5.18 on), and reseeds the kernel's random numbers. Some kernels tell programs as well: a uevent
//! `NEW_VMGENID=1`, on netlink (NETLINK_KOBJECT_UEVENT), in every network namespace of the machine that is not a user
//! namespace's own. Linux 6.8 did, 6.9 took it back, and some makers of guest kernels have it. Where the kernel is silent
//! nothing is heard. The identifier itself is shown to no program, so who did not run then cannot find out.
//!
//! ```text
//! change@/devices/platform/VMGENCTR:00 \0 ACTION=change \0 … \0 NEW_VMGENID=1 \0 SEQNUM=… \0
//! ```

use std::fmt;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::path::Path;

use nix::errno::Errno;
use nix::sys::socket::{NetlinkAddr, SockFlag, SockProtocol, recvfrom, setsockopt, sockopt};

use crate::netlink;

/// The kernel's own uevents; those that udev passes on are group 2.
const KERNEL_GROUP: u32 = 1;
/// Octets of the longest uevent (UEVENT_BUFFER_SIZE).
const LONGEST: usize = 2048;
/// The most uevents taken at one question.
const MOST: usize = 1024;
/// Room for those that come between two questions.
const ROOM_OCTETS: usize = 4 << 20;

/// A socket that receives the kernel's uevents.
#[derive(Debug)]
pub struct GenerationMonitor(OwnedFd);

/// Why nothing is heard if this virtual machine is brought back.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum NotTold {
    /// The hypervisor offers no VM generation ID, or the kernel has no driver for it.
    NoDevice,
    /// A kernel of this release tells programs nothing, unless its maker has it do so.
    Silent(String),
}

impl fmt::Display for NotTold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoDevice => {
                f.write_str("the hypervisor offers no VM generation ID, or the kernel has no driver vmgenid")
            }
            Self::Silent(release) => write!(
                f,
                "Linux tells programs of a changed VM generation ID in 6.8 alone, and this is {release}; its maker may have it do so"
            ),
        }
    }
}

/// Why this kernel would not tell that the machine was brought back; none if it would, or if this is no virtual machine.
pub fn not_told() -> Option<NotTold> {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    // Bit of CPUID that hypervisors set, or a device tree's node. An architecture with neither counts as hardware.
    let is_hypervisor = |flags: &str| flags.split(' ').any(|flag| flag == "hypervisor");
    let of_flags =
        read("/proc/cpuinfo").lines().find(|line| line.starts_with("flags")).is_some_and(is_hypervisor);
    let is_virtual = of_flags || Path::new("/proc/device-tree/hypervisor").exists();
    let devices = DRIVERS.iter().filter_map(|driver| std::fs::read_dir(driver).ok()).flatten().flatten();
    // Links with a colon are devices: `VMGENCTR:00`; on a device tree the driver has an address in front of a name.
    let has_device = { devices }.any(|entry| {
        let name = entry.file_name();
        name.to_string_lossy().contains([':', '.']) && entry.path().is_dir()
    });
    judge(read("/proc/sys/kernel/osrelease").trim(), is_virtual, has_device)
}

/// Directories in which the kernel shows the devices of its driver.
const DRIVERS: [&str; 2] = ["/sys/bus/platform/drivers/vmgenid", "/sys/bus/acpi/drivers/vmgenid"];

fn judge(release: &str, is_virtual: bool, has_device: bool) -> Option<NotTold> {
    let tells =
        release.strip_prefix("6.8").is_some_and(|rest| !rest.starts_with(|next: char| next.is_ascii_digit()));
    match (is_virtual || has_device, has_device, tells) {
        (false, ..) | (true, true, true) => None,
        (true, false, _) => Some(NotTold::NoDevice),
        (true, true, false) => Some(NotTold::Silent(release.to_owned())),
    }
}

/// Outcome of a poll.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum GenerationEvent {
    /// Nothing of the kind.
    Nothing,
    /// The machine was brought back, or copied.
    Restored,
    /// There was more than the kernel keeps, so it may have been among it.
    Lost,
}

impl GenerationMonitor {
    /// Begins to listen, in the calling thread's network namespace.
    ///
    /// # Errors
    /// If there is no such socket to be had.
    pub fn open() -> io::Result<Self> {
        let socket = netlink::socket(SockProtocol::NetlinkKObjectUEvent, SockFlag::SOCK_NONBLOCK)?;
        // Needs CAP_NET_ADMIN. With less room more is lost in a storm of uevents, which is told.
        let _ = setsockopt(&socket, sockopt::RcvBufForce, &ROOM_OCTETS);
        netlink::join(&socket, KERNEL_GROUP)?;
        Ok(Self(socket))
    }

    /// Goes on with what the program before this one has heard ([`crate::passed_on`]).
    pub const fn go_on(passed: OwnedFd) -> Self {
        Self(passed)
    }

    /// Its descriptor.
    pub fn descriptor(&self) -> RawFd {
        self.0.as_raw_fd()
    }

    /// Takes the uevents since the last call, at most [`MOST`]. Does not wait.
    pub fn poll(&self) -> GenerationEvent {
        let mut heard = GenerationEvent::Nothing;
        for _ in 0..MOST {
            match self.next() {
                Ok(true) => return GenerationEvent::Restored,
                Ok(false) => {}
                Err(Errno::ENOBUFS) => heard = GenerationEvent::Lost,
                Err(_) => break,
            }
        }
        heard
    }

    /// Whether the next uevent is the one. EAGAIN: there is none.
    fn next(&self) -> nix::Result<bool> {
        let mut octets = [0; LONGEST];
        // A longer uevent is cut.
        let (received, from) = recvfrom::<NetlinkAddr>(self.0.as_raw_fd(), &mut octets)?;
        // Only the kernel has 0: nobody else's word counts.
        let from_kernel = from.is_some_and(|from| from.pid() == 0);
        Ok(from_kernel && is_restored(octets.get(..received).unwrap_or_default()))
    }
}

fn is_restored(uevent: &[u8]) -> bool {
    let mut fields = uevent.split(|&octet| octet == 0);
    fields.next().is_some_and(|first| first.starts_with(b"change@"))
        && fields.any(|field| field == b"NEW_VMGENID=1")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_word_is_known_among_others() {
        for (uevent, expected) in [
            ("change@/devices/platform/VMGENCTR:00\0ACTION=change\0NEW_VMGENID=1\0SEQNUM=7\0", true),
            ("change@/devices/platform/VMGENCTR:00\0ACTION=change\0SEQNUM=7\0", false),
            // Whoever may write to a device's file `uevent` can have such a one sent.
            ("change@/devices/x\0ACTION=change\0SYNTH_ARG_NEW_VMGENID=1\0", false),
            ("change@/devices/x\0NEW_VMGENID=10\0", false),
            ("NEW_VMGENID=1\0", false),
            ("add@/devices/x\0NEW_VMGENID=1\0", false),
            ("libudev\0change@/devices/x\0NEW_VMGENID=1\0", false),
            ("", false),
        ] {
            assert_eq!(is_restored(uevent.as_bytes()), expected, "{uevent:?}");
        }
    }

    #[test]
    fn a_machine_whose_kernel_says_nothing_is_known() {
        let silent = |release: &str| Some(NotTold::Silent(release.to_owned()));
        for (release, is_virtual, has_device, expected) in [
            ("6.1.0-28-amd64", true, true, silent("6.1.0-28-amd64")),
            ("6.12.9", true, true, silent("6.12.9")),
            ("6.80.1", true, true, silent("6.80.1")),
            ("16.8.0", true, true, silent("16.8.0")),
            ("", true, true, silent("")),
            ("6.8.0-51-generic", true, true, None),
            ("6.8", true, true, None),
            ("6.8-rc1", true, true, None),
            ("6.8.0", true, false, Some(NotTold::NoDevice)),
            ("6.1.0", true, false, Some(NotTold::NoDevice)),
            ("6.1.0", false, true, silent("6.1.0")),
            // Hardware has no snapshots.
            ("6.1.0", false, false, None),
        ] {
            assert_eq!(
                judge(release, is_virtual, has_device),
                expected,
                "{release} {is_virtual} {has_device}"
            );
        }
        assert!(silent("6.1").unwrap().to_string().contains("in 6.8 alone, and this is 6.1;"));
    }

    #[test]
    fn nothing_is_heard_where_nothing_was_said() {
        assert_eq!(GenerationMonitor::open().unwrap().poll(), GenerationEvent::Nothing);
    }
}
