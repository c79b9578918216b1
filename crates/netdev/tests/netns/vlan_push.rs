//! A sender whose kernel keeps the VLAN tag beside the frame, as a `vlan` interface on a network card with
//! `tx-vlan-hw-insert` does, on kernels without `vlan` interfaces too.

#![allow(unsafe_code, dead_code, unreachable_pub, clippy::unwrap_used)]

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

const BPF_PROG_LOAD: libc::c_int = 5;
const BPF_LINK_CREATE: libc::c_int = 28;
const PROGRAM_TYPE_SCHED_CLS: u64 = 3;
const TCX_EGRESS: u64 = 47;

/// Gives each frame that leaves the interface the tag of 802.1Q VLAN 5, for as long as the result lives.
pub fn push_vlan_5(interface: &str) -> OwnedFd {
    let instructions: [u64; 5] = [
        0x0000_0081_0000_02b7, // r2 = 0x8100 in network order
        0x0000_0005_0000_03b7, // r3 = 5
        0x0000_0012_0000_0085, // bpf_skb_vlan_push(r1 = context, r2, r3)
        0xffff_ffff_0000_00b7, // r0 = TCX_NEXT
        0x0000_0000_0000_0095, // return r0
    ];
    let licence = c"GPL";
    let program = bpf(
        BPF_PROG_LOAD,
        [
            PROGRAM_TYPE_SCHED_CLS | (instructions.len() as u64) << 32,
            instructions.as_ptr() as u64,
            licence.as_ptr() as u64,
            0,
            0,
            0,
            0,
            0,
            0,
        ],
    );
    let name = std::ffi::CString::new(interface).unwrap();
    // SAFETY: a C string.
    let index = u64::from(unsafe { libc::if_nametoindex(name.as_ptr()) });
    bpf(BPF_LINK_CREATE, [program.as_raw_fd() as u64 | index << 32, TCX_EGRESS, 0, 0, 0, 0, 0, 0, 0])
}

fn bpf(command: libc::c_int, mut attributes: [u64; 9]) -> OwnedFd {
    // SAFETY: the attributes are as long as said; what they point to lives through the call, which gives a new
    // descriptor.
    unsafe {
        let result = libc::syscall(libc::SYS_bpf, command, attributes.as_mut_ptr(), size_of_val(&attributes));
        assert!(result >= 0, "bpf command {command}: {}", io::Error::last_os_error());
        OwnedFd::from_raw_fd(result as libc::c_int)
    }
}
