//! Whether this virtual machine was brought back to an earlier state while it ran, or was copied.
//!
//! A live snapshot has the memory in it: keys, packet numbers, replay windows. Brought back, it sends again under numbers
//! that were used since, static keys or not. Hypervisors with a *VM generation ID* change that then; Linux' driver
//! `vmgenid` is told (from 5.18 on), and reseeds the kernel's random numbers. Some kernels tell programs as well: a uevent
//! `NEW_VMGENID=1`, on netlink (NETLINK_KOBJECT_UEVENT), in every network namespace of the machine that is not a user
//! namespace's own. Linux 6.8 did, 6.9 took it back, and some makers of guest kernels have it. Where the kernel is silent
//! nothing is heard. The identifier itself is shown to no program, so who did not run then cannot find out.
//!
//! ```text
//! change@/devices/platform/VMGENCTR:00 \0 ACTION=change \0 … \0 NEW_VMGENID=1 \0 SEQNUM=… \0
//! ```

#![allow(unsafe_code)]

use std::io;
use std::mem;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// The kernel's own uevents; those that udev passes on are group 2.
const KERNEL_GROUP: u32 = 1;
/// As long as the kernel makes them (UEVENT_BUFFER_SIZE).
const LONGEST: usize = 2048;
/// The most uevents taken at one question.
const MOST: usize = 1024;
/// Room for those that come between two questions.
const ROOM_OCTETS: libc::c_int = 4 << 20;

/// Hears of it.
#[derive(Debug)]
pub struct Watch(OwnedFd);

/// What was heard since the last question.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Heard {
    /// Nothing of the kind.
    Nothing,
    /// The machine was brought back, or copied.
    Restored,
    /// There was more than the kernel keeps, so it may have been among it.
    Lost,
}

impl Watch {
    /// Begins to listen, in the calling thread's network namespace.
    ///
    /// # Errors
    /// If there is no such socket to be had.
    pub fn open() -> io::Result<Self> {
        let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
        // SAFETY: no pointers.
        let descriptor = unsafe { libc::socket(libc::AF_NETLINK, kind, libc::NETLINK_KOBJECT_UEVENT) };
        if descriptor < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: a new descriptor that nobody else owns.
        let socket = unsafe { OwnedFd::from_raw_fd(descriptor) };
        // Needs CAP_NET_ADMIN. With less room more is lost in a storm of uevents, which is told.
        let _ =
            crate::packet_socket::set_option(&socket, libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, &ROOM_OCTETS);
        // SAFETY: all zero is a valid address.
        let mut address: libc::sockaddr_nl = unsafe { mem::zeroed() };
        address.nl_family = libc::AF_NETLINK as libc::sa_family_t;
        address.nl_groups = KERNEL_GROUP;
        crate::packet_socket::bind_to(&socket, &address)?;
        Ok(Self(socket))
    }

    /// What the kernel has said since the last question. Does not wait; at most [`MOST`] uevents are taken.
    pub fn heard(&self) -> Heard {
        let mut heard = Heard::Nothing;
        for _ in 0..MOST {
            match self.next() {
                Ok(true) => return Heard::Restored,
                Ok(false) => {}
                Err(error) if error.raw_os_error() == Some(libc::ENOBUFS) => heard = Heard::Lost,
                Err(_) => break,
            }
        }
        heard
    }

    /// Whether the next uevent is the one. `WouldBlock`: there is none.
    fn next(&self) -> io::Result<bool> {
        let mut octets = [0_u8; LONGEST];
        // SAFETY: all zero is a valid address.
        let mut from: libc::sockaddr_nl = unsafe { mem::zeroed() };
        let mut from_octets = mem::size_of_val(&from) as libc::socklen_t;
        // SAFETY: buffer and address are as long as said; what is longer is cut.
        let received = unsafe {
            libc::recvfrom(
                self.0.as_raw_fd(),
                octets.as_mut_ptr().cast(),
                octets.len(),
                0,
                (&raw mut from).cast(),
                &raw mut from_octets,
            )
        };
        let received = usize::try_from(received).map_err(|_| io::Error::last_os_error())?;
        // Only the kernel has 0: nobody else's word counts.
        Ok(from.nl_pid == 0 && is_restored(octets.get(..received).unwrap_or_default()))
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
    fn nothing_is_heard_where_nothing_was_said() {
        assert_eq!(Watch::open().unwrap().heard(), Heard::Nothing);
    }
}
