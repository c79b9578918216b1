//! One gateway has an interface: whatever its state directory, its user, its container and its engine.
//!
//! AF_XDP has an interface for itself, since the kernel takes one XDP program. Packet sockets it takes any number of: two
//! gateways would send every SDU twice, and with one key both from PN 1. So whoever prepares an interface holds a marker on
//! it: a packet socket bound to it, with a protocol that no frame has, and a filter that would drop those that had it. All
//! packet sockets of a network namespace are listed in `/proc/net/packet`, for everybody who is in it.
//!
//! ```text
//! look:    somebody else's marker on this interface?  wait, and look again: at most half a second, then refuse
//! mark     bind the socket
//! look:    somebody else's marker by now?             let go, wait for a time of one's own, and begin again
//! ```
//!
//! Of two that mark at once each sees the other, since each looks when its own marker stands: both let go, and never both
//! go on. Only processes with CAP_NET_RAW over the network namespace can hold a marker, and these can stop a gateway by
//! other means as well; an ordinary account cannot, as it could with a lock file or an abstract socket. The kernel takes
//! the marker away with the process, however that ends, and with the interface. On every kernel with packet sockets.

use std::fs::{self, File};
use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd, RawFd};
use std::os::unix::fs::MetadataExt as _;
use std::thread;
use std::time::Duration;

use super::{BUSY_RETRIES, InterfaceError, system};
use crate::packet_socket as packet;

/// The markers' EtherType: assigned to nobody.
const MARKER: u16 = 0xf4d1;

/// The packet sockets of the calling thread's network namespace.
const SOCKETS: &str = "/proc/thread-self/net/packet";

/// An interface that is this gateway's, as long as this lives.
#[derive(Debug)]
pub(super) struct Owner {
    marker: File,
}

impl Owner {
    /// That of the program before this one.
    pub(super) fn go_on(marker: OwnedFd) -> Self {
        Self { marker: File::from(marker) }
    }

    pub(super) fn raw(&self) -> RawFd {
        self.marker.as_raw_fd()
    }

    /// Takes an interface, or waits for half a second until a previous owner has gone.
    pub(super) fn claim(name: &str, index: u32) -> Result<Self, InterfaceError> {
        let failed = |action: &'static str| move |source| system(name, action, source);
        for attempt in 0..=BUSY_RETRIES as u64 {
            if markers(index).map_err(failed("ask who has it"))?.is_empty() {
                let marker = mark(index).map_err(failed("mark it as taken"))?;
                let own = marker.metadata().map_err(failed("mark it as taken"))?.ino();
                if markers(index).map_err(failed("ask who has it"))? == [own] {
                    return Ok(Self { marker });
                }
                drop(marker);
                // The inode is nobody else's, so two that have met do not meet again and again.
                thread::sleep(Duration::from_millis((own + attempt) % 16));
            }
            thread::sleep(super::BUSY_PAUSE);
        }
        Err(InterfaceError::Taken { name: name.into() })
    }
}

/// Whether a gateway has this interface, as far as it can be seen.
pub(super) fn is_taken(index: u32) -> bool {
    markers(index).is_ok_and(|markers| !markers.is_empty())
}

fn mark(index: u32) -> io::Result<File> {
    let socket = packet::open()?;
    packet::drop_all(&socket)?;
    packet::bind(&socket, index, MARKER)?;
    Ok(File::from(socket))
}

/// The inodes of the markers on an interface.
fn markers(index: u32) -> io::Result<Vec<u64>> {
    parse(&fs::read_to_string(SOCKETS)?, index)
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, format!("cannot read {SOCKETS}")))
}

/// Columns: sk RefCnt Type Proto Iface R Rmem User Inode.
fn parse(sockets: &str, index: u32) -> Option<Vec<u64>> {
    let mut lines = sockets.lines();
    let columns = |line: &'_ str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    if columns(lines.next()?).get(3..=8)? != ["Proto", "Iface", "R", "Rmem", "User", "Inode"] {
        return None;
    }
    let mut markers = Vec::new();
    for line in lines {
        let columns = columns(line);
        let [_, _, _, protocol, interface, _, _, _, inode] = columns.as_slice() else { return None };
        let protocol = u16::from_str_radix(protocol, 16).ok()?;
        // -1 for an interface that has gone.
        if protocol == MARKER && interface.parse::<i64>().ok()? == i64::from(index) {
            markers.push(inode.parse().ok()?);
        }
    }
    Some(markers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markers_are_found_among_packet_sockets() {
        let header = "sk               RefCnt Type Proto  Iface R Rmem   User   Inode\n";
        let sockets = "\
00000000f1a2b3c4 3      3    0003   2     1 0      0      11\n\
00000000f1a2b3c5 3      3    f4d1   2     1 0      990    12\n\
00000000f1a2b3c6 3      3    f4d1   3     0 0      990    13\n\
00000000f1a2b3c7 3      3    f4d1   -1    0 0      990    14\n\
00000000f1a2b3c8 3      2    f4d1   2     0 0      0      15\n";
        let all = format!("{header}{sockets}");
        for (index, inodes) in [(1, &[][..]), (2, &[12, 15]), (3, &[13]), (u32::MAX, &[])] {
            assert_eq!(parse(&all, index), Some(inodes.to_vec()), "interface {index}");
        }
        assert_eq!(parse(header, 2), Some(vec![]));
        for other in
            [String::new(), sockets.to_owned(), format!("{header}0 1 2\n"), header.replace("Inode", "X")]
        {
            assert_eq!(parse(&other, 2), None, "{other}");
        }
    }
}
