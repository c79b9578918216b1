//! The ioctls of an interface: flags (netdevice(7)) and ethtool's commands, and its settings under `/proc/sys`.

#![allow(unsafe_code)]

use std::fs;
use std::io;
use std::mem;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::PathBuf;
use std::ptr;

use nix::ifaddrs::getifaddrs;
use nix::sys::socket::{AddressFamily, SockFlag, SockType, SockaddrStorage, socket};

use super::error::{InterfaceError, system};

const ETHTOOL_GSET: u32 = 0x01;
const ETHTOOL_GCHANNELS: u32 = 0x3c;

/// A way to the kernel's settings of one interface, in the network namespace where it was opened.
#[derive(Debug)]
pub(super) struct Control {
    socket: OwnedFd,
    name: String,
}

impl Control {
    pub(super) fn open(name: &str) -> Result<Self, InterfaceError> {
        let socket = socket(AddressFamily::Inet, SockType::Datagram, SockFlag::SOCK_CLOEXEC, None)
            .map_err(|errno| system(name, "open a control socket", errno.into()))?;
        Ok(Self { socket, name: name.into() })
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// The interface's IFF_… flags that have a place in 16 bits.
    pub(super) fn flags(&self) -> io::Result<i16> {
        let mut request = self.request();
        self.call(libc::SIOCGIFFLAGS, &mut request)?;
        // SAFETY: SIOCGIFFLAGS has filled in this member.
        Ok(unsafe { request.ifr_ifru.ifru_flags })
    }

    /// Sets the flags in `set`, clears those in `clear`, leaves the others.
    pub(super) fn change_flags(&self, set: libc::c_int, clear: libc::c_int) -> io::Result<()> {
        let mut request = self.request();
        request.ifr_ifru.ifru_flags = (self.flags()? | set as i16) & !(clear as i16);
        self.call(libc::SIOCSIFFLAGS, &mut request)
    }

    /// One ethtool command, in 32-bit words, the first of which is the command's number.
    ///
    /// # Safety
    /// `words` has all the words that the kernel reads and writes for this command, however many it announces.
    pub(super) unsafe fn ethtool(&self, words: &mut [u32]) -> io::Result<()> {
        let mut request = self.request();
        request.ifr_ifru.ifru_data = words.as_mut_ptr().cast();
        self.call(libc::SIOCETHTOOL, &mut request)
    }

    /// Receive queues in use: those for receiving alone, and those combined with sending.
    pub(super) fn receive_queues(&self) -> Option<u32> {
        // cmd | max rx, tx, other, combined | rx, tx, other, combined
        let mut channels = [0u32; 9];
        channels[0] = ETHTOOL_GCHANNELS;
        // SAFETY: the command has nine words.
        unsafe { self.ethtool(&mut channels) }.ok()?;
        Some(channels[5].saturating_add(channels[8])).filter(|queues| *queues > 0)
    }

    /// Megabits a second, and whether it is full duplex: each if the driver knows.
    pub(super) fn speed(&self) -> (Option<u32>, Option<bool>) {
        // struct ethtool_cmd: cmd | supported | advertising | speed 2, duplex 1, ... | ... | speed_hi 2, ... 11 words
        let mut settings = [0u32; 11];
        settings[0] = ETHTOOL_GSET;
        // SAFETY: the structure has 44 octets.
        if unsafe { self.ethtool(&mut settings) }.is_err() {
            return (None, None);
        }
        let octets: [u8; 4] = settings[3].to_ne_bytes();
        let low = u16::from_ne_bytes([octets[0], octets[1]]);
        let high = settings[7].to_ne_bytes();
        let high = u16::from_ne_bytes([high[0], high[1]]);
        let megabits = u32::from(high) << 16 | u32::from(low);
        // All ones: unknown; some drivers say 0 or 65535 without a cable.
        let megabits = Some(megabits).filter(|megabits| !matches!(megabits, 0 | 0xffff | 0xffff_ffff));
        let duplex = match octets[2] {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        };
        (megabits, megabits.and(duplex))
    }

    fn request(&self) -> libc::ifreq {
        // SAFETY: all zero is a valid request: an empty name and an empty union.
        let mut request: libc::ifreq = unsafe { mem::zeroed() };
        for (to, from) in request.ifr_name.iter_mut().take(libc::IFNAMSIZ - 1).zip(self.name.bytes()) {
            *to = from as libc::c_char;
        }
        request
    }

    /// Numbers are of another type in each C library's ioctl.
    fn call(&self, number: libc::c_ulong, request: &mut libc::ifreq) -> io::Result<()> {
        // SAFETY: the request is the structure that all these ioctls take; where it carries a pointer, ethtool()
        // has put it there, to a buffer that lives longer than the call.
        let result = unsafe { libc::ioctl(self.socket.as_raw_fd(), number as _, ptr::from_mut(request)) };
        if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }
}

/// File with which the kernel switches IPv6 on an interface. In the reading thread's network namespace.
fn disable_ipv6_path(name: &str) -> PathBuf {
    PathBuf::from(format!("/proc/sys/net/ipv6/conf/{name}/disable_ipv6"))
}

/// Whether the host speaks IPv6 on the interface; None on a kernel without IPv6.
pub(super) fn ipv6_enabled(name: &str) -> io::Result<Option<bool>> {
    match fs::read_to_string(disable_ipv6_path(name)) {
        Ok(value) => Ok(Some(value.trim() == "0")),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Switches the host's IPv6 on the interface on or off.
pub(super) fn enable_ipv6(name: &str, enable: bool) -> io::Result<()> {
    fs::write(disable_ipv6_path(name), if enable { "0" } else { "1" })
}

/// IP addresses of an interface, as text. Link-local IPv6 addresses come of themselves and are left out.
pub(super) fn addresses(name: &str) -> io::Result<Vec<String>> {
    let of_it = getifaddrs()?.filter(|entry| entry.interface_name == name);
    Ok(of_it.filter_map(|entry| ip_text(&entry.address?)).collect())
}

fn ip_text(address: &SockaddrStorage) -> Option<String> {
    if let Some(address) = address.as_sockaddr_in() {
        return Some(address.ip().to_string());
    }
    let address = address.as_sockaddr_in6()?.ip();
    (!address.is_unicast_link_local()).then(|| address.to_string())
}
