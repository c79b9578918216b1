//! Errors of an interface: what is wrong, and the cure.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

/// Error of using, changing or restoring an interface.
#[derive(Debug, thiserror::Error)]
pub enum InterfaceError {
    /// No interface of that name.
    #[error("interface {name} does not exist; 'ip link' lists those that do")]
    Missing {
        /// The name as given.
        name: String,
    },
    /// Not Ethernet: a loopback, a tunnel, a radio.
    #[error("interface {name} is not Ethernet (hardware type {hardware_type}); choose one that is")]
    NotEthernet {
        /// Its name.
        name: String,
        /// ARPHRD_… number.
        hardware_type: u16,
    },
    /// A port of a bridge, bond or team.
    #[error(
        "interface {name} is busy: it belongs to {master}; release it with 'ip link set {name} nomaster'"
    )]
    Enslaved {
        /// Its name.
        name: String,
        /// Name (or index) of what it belongs to.
        master: String,
    },
    /// Somebody's XDP program sits on it.
    #[error(
        "interface {name} is busy: it has an XDP program (id {program}); stop its owner \
         ('bpftool link' names it) or 'ip link set {name} xdp off'"
    )]
    XdpBusy {
        /// Its name.
        name: String,
        /// The kernel's number of the program.
        program: u32,
    },
    /// Another running gateway has prepared it.
    #[error("interface {name} is busy: a running process holds {record}; stop it first", record = record.display())]
    InUse {
        /// Its name.
        name: String,
        /// The record that the other one has locked.
        record: PathBuf,
    },
    /// Another running gateway has it, with a state directory of its own.
    #[error(
        "interface {name} is busy: another running gateway has it ('ss -0 -p' as root names it); stop that one first"
    )]
    Taken {
        /// Its name.
        name: String,
    },
    /// The host itself lives on it.
    #[error(
        "interface {name} carries {what} of this box, which would be cut off: choose another port, or take that away \
         ('ip addr flush dev {name}'); if it is meant so, set allow_addresses = true"
    )]
    Lived {
        /// Its name.
        name: String,
        /// Addresses, default routes.
        what: String,
    },
    /// Nothing keeps the host's own stack off it.
    #[error(
        "interface {name}: this kernel keeps the host's own stack off it neither by tcx (Linux 6.6) nor by clsact \
         ({why}): load the modules sch_ingress and cls_bpf, update the kernel, or, if nothing else runs on this box, set \
         unguarded = true in [gateway]"
    )]
    Unguarded {
        /// Its name.
        name: String,
        /// The kernel's error.
        why: String,
    },
    /// The state directory cannot be used.
    #[error(
        "cannot {action} {path}: {source}; the state directory must be writable: it records the interface settings to restore",
        path = path.display()
    )]
    Record {
        /// The operation that failed: read, write, lock, remove.
        action: &'static str,
        /// The record.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// A record says what no record of ours says.
    #[error(
        "{path}:{line}: not a record of interface settings; restore the interface by hand, then remove the file",
        path = path.display()
    )]
    RecordGarbled {
        /// The record.
        path: PathBuf,
        /// First line that makes no sense, from 1.
        line: usize,
    },
    /// Its settings were to be changed and recorded, which takes too long.
    #[error(
        "interface {name}: neither the disk of the state directory nor the kernel has answered for {} s; ps shows processes in state D, and dmesg may show why",
        .after.as_secs()
    )]
    Silent {
        /// Its name.
        name: String,
        /// Time that was waited for.
        after: Duration,
    },
    /// A system call failed.
    #[error("interface {name}: cannot {action}: {source}{}", cure(source))]
    System {
        /// Its name.
        name: String,
        /// The step that failed.
        action: String,
        /// The system's error.
        source: io::Error,
    },
}

/// Cure of an error number, as the end of a line.
pub(crate) fn cure(error: &io::Error) -> &'static str {
    match error.raw_os_error() {
        Some(libc::EPERM | libc::EACCES) => "; run as root, or with CAP_NET_ADMIN, CAP_NET_RAW and CAP_BPF",
        Some(libc::EBUSY) => "; another program uses it: stop that program",
        Some(libc::ENODEV | libc::ENXIO) => "; the interface has vanished: check driver and cable",
        Some(libc::ENETDOWN) => "; the interface is down: 'ip link set IF up'",
        Some(libc::EROFS) => "; /proc/sys is read-only here: run outside the container or with it writable",
        Some(libc::ENOMEM | libc::ENOBUFS) => "; memory is short: free some, or raise 'ulimit -l'",
        Some(libc::EAFNOSUPPORT) => "; this kernel lacks it: set io = \"af_packet\"",
        _ => "",
    }
}

pub(super) fn system(name: &str, action: impl Into<String>, source: io::Error) -> InterfaceError {
    InterfaceError::System { name: name.into(), action: action.into(), source }
}
