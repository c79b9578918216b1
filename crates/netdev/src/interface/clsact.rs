//! The guard of kernels without tcx: a `clsact` queueing discipline with a filter for each direction that drops all.
//!
//! ```text
//! nlmsghdr 16 | tcmsg 20: family 1, - 3, ifindex 4, handle 4, parent 4, info 4 (priority 2, protocol 2) | attributes
//! ```
//!
//! Frames pass these hooks where they pass those of tcx: behind packet sockets on their way in, before the driver on their way
//! out, and a socket that bypasses the queueing disciplines passes by. But the filters belong to the interface, not to the
//! process: they are recorded before they are set, and until somebody puts them back the interface stays shut for the host.
//! That is the safe side. A `clsact` that somebody else has made stays, with its filters; ours stand before them.

use std::io;

use crate::bpf::Program;
use crate::netlink::Message;

const RTM_NEWQDISC: u16 = 36;
const RTM_DELQDISC: u16 = 37;
const RTM_GETQDISC: u16 = 38;
const RTM_NEWTFILTER: u16 = 44;
const RTM_DELTFILTER: u16 = 45;

const TCA_KIND: u16 = 1;
const TCA_OPTIONS: u16 = 2;
const TCA_BPF_FD: u16 = 6;
const TCA_BPF_NAME: u16 = 7;
const TCA_BPF_FLAGS: u16 = 8;
/// The program's return value is the verdict.
const TCA_BPF_FLAG_ACT_DIRECT: u32 = 1;

/// `ffff:`, the one handle of a `clsact`, and its parent.
const QDISC: u32 = 0xffff_0000;
const PARENT: u32 = 0xffff_fff1;
/// Its two hooks: in, out.
const HOOKS: [u32; 2] = [0xffff_fff2, 0xffff_fff3];
/// The handle of our filters: one that nobody takes by chance.
const FILTER: u32 = 0xf4d1;
/// Before all others.
const PRIORITY: u32 = 1;

/// Whether the interface has a `clsact` (or `ingress`) already.
pub(super) fn exists(index: u32) -> io::Result<bool> {
    match qdisc(RTM_GETQDISC, 0, index).execute() {
        Ok(()) => Ok(true),
        // ENOENT: none was ever there; EINVAL: there is none of this handle any more.
        Err(error) if matches!(error.raw_os_error(), Some(libc::ENOENT | libc::EINVAL)) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Shuts the interface for the host's stack, both ways; `made`: with a `clsact` of our own.
pub(super) fn shut(index: u32, program: &Program, made: bool) -> io::Result<()> {
    if made {
        let flags = libc::NLM_F_CREATE | libc::NLM_F_EXCL;
        qdisc(RTM_NEWQDISC, flags, index).text(TCA_KIND, "clsact").execute()?;
    }
    for hook in HOOKS {
        let options = Message::attributes()
            .number(TCA_BPF_FD, program.descriptor())
            .text(TCA_BPF_NAME, "frameward")
            .number(TCA_BPF_FLAGS, TCA_BPF_FLAG_ACT_DIRECT);
        let flags = libc::NLM_F_CREATE | libc::NLM_F_EXCL;
        let message = filter(RTM_NEWTFILTER, flags, index, hook).text(TCA_KIND, "bpf");
        message.nested(TCA_OPTIONS, &options).execute()?;
    }
    Ok(())
}

/// Opens it again: takes away the `clsact` if it was `made`, else the filters alone. What is not there needs nothing.
pub(super) fn open(index: u32, made: bool) -> io::Result<()> {
    let gone = |done: io::Result<()>| match done {
        Err(error) if matches!(error.raw_os_error(), Some(libc::ENOENT | libc::EINVAL | libc::ENODEV)) => {
            Ok(())
        }
        other => other,
    };
    if made {
        return gone(qdisc(RTM_DELQDISC, 0, index).execute());
    }
    let both = HOOKS.map(|hook| gone(filter(RTM_DELTFILTER, 0, index, hook).text(TCA_KIND, "bpf").execute()));
    both.into_iter().collect()
}

fn qdisc(kind: u16, flags: i32, index: u32) -> Message {
    Message::new(kind, libc::NLM_F_ACK | flags, &header(index, QDISC, PARENT, 0))
}

fn filter(kind: u16, flags: i32, index: u32, hook: u32) -> Message {
    let protocol = u32::from((libc::ETH_P_ALL as u16).to_be());
    Message::new(kind, libc::NLM_F_ACK | flags, &header(index, FILTER, hook, PRIORITY << 16 | protocol))
}

fn header(index: u32, handle: u32, parent: u32, info: u32) -> [u8; 20] {
    let mut octets = [0; 20];
    for (to, word) in octets[4..].chunks_exact_mut(4).zip([index, handle, parent, info]) {
        to.copy_from_slice(&word.to_ne_bytes());
    }
    octets
}
