//! The guard of kernels without tcx: a `clsact` queueing discipline with a filter for each direction that drops all.
//!
//! ```text
//! nlmsghdr 16 | tcmsg 20: family 1, - 3, ifindex 4, handle 4, parent 4, info 4 (priority 2, protocol 2) | attributes
//! ```
//!
//! The hooks are where those of tcx are: inward behind the packet sockets, outward in front of the driver. A socket that bypasses
//! the queueing disciplines bypasses the filters too.
//!
//! The filters belong to the interface, not to the process. So they are recorded before they are set. If nobody removes them,
//! the host stays shut out of the interface: that is the safe side. A `clsact` of another owner stays, with its filters; ours
//! come first.

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

/// `ffff:`, the only handle that a `clsact` can have, and its parent.
const QDISC: u32 = 0xffff_0000;
const PARENT: u32 = 0xffff_fff1;
/// Its two hooks: inward, outward.
const HOOKS: [u32; 2] = [0xffff_fff2, 0xffff_fff3];
/// The handle of our filters: one that nobody takes by chance.
const FILTER: u32 = 0xf4d1;
/// Our filters come before all others.
const PRIORITY: u32 = 1;

/// Whether the interface has a `clsact` (or `ingress`) already.
pub(super) fn exists(index: u32) -> io::Result<bool> {
    match qdisc(RTM_GETQDISC, 0, index).execute() {
        Ok(()) => Ok(true),
        // ENOENT: there was never one; EINVAL: the one with this handle is gone.
        Err(error) if matches!(error.raw_os_error(), Some(libc::ENOENT | libc::EINVAL)) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Shuts the host's stack out of the interface, both ways. `made`: the `clsact` is ours, and is made first.
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

/// Lets the host's stack in again: removes the `clsact` if it was `made` here, else only the filters. It is no error if they are
/// gone.
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
