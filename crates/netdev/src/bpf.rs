//! The few instructions that we run inside the kernel, assembled by hand: no compiler, no loader library.
//!
//! Two programs. One for XDP sends every frame of a receive queue to the AF_XDP socket in that queue's place of a
//! map. The other, for the tc hooks, drops whatever it sees. All is held by file descriptors of this process
//! (programs, maps, links), so the kernel releases it when the process ends, however it ends.

#![allow(unsafe_code)]

use std::io;
use std::mem;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

const BPF_MAP_CREATE: libc::c_int = 0;
const BPF_MAP_UPDATE_ELEM: libc::c_int = 2;
const BPF_PROG_LOAD: libc::c_int = 5;
const BPF_LINK_CREATE: libc::c_int = 28;
const BPF_LINK_UPDATE: libc::c_int = 29;

const MAP_TYPE_XSKMAP: u32 = 17;
const PROGRAM_TYPE_SCHED_CLS: u32 = 3;
const PROGRAM_TYPE_XDP: u32 = 6;

const XDP_DROP: i32 = 1;
const TCX_DROP: i32 = 2;
const FUNCTION_REDIRECT_MAP: i32 = 51;
/// Offset of `rx_queue_index` in `struct xdp_md`.
const XDP_MD_RX_QUEUE_INDEX: i16 = 16;

/// Hook at which a program can be linked to an interface (`enum bpf_attach_type`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum Hook {
    /// XDP, native or generic as the link's flags say.
    Xdp = 37,
    /// Before the host's stack sees a frame, after packet sockets did. Linux 6.6 and later.
    TcxIngress = 46,
    /// Before a frame of the host's stack leaves; AF_XDP and packet sockets with PACKET_QDISC_BYPASS pass by.
    TcxEgress = 47,
}

/// Link flag: generic XDP, after the driver made a socket buffer.
pub(crate) const XDP_FLAGS_SKB_MODE: u32 = 2;
/// Link flag: native XDP, in the driver.
pub(crate) const XDP_FLAGS_DRV_MODE: u32 = 4;

/// Program flag: frames may come in several buffers. Linux 5.18.
const BPF_F_XDP_HAS_FRAGS: u32 = 1 << 5;

/// The `bpf()` system call's attributes: the widest of the commands used here, as 32-bit words.
#[repr(C, align(8))]
pub(crate) struct Attributes([u32; 32]);

impl Attributes {
    pub(crate) fn new() -> Self {
        Self([0; 32])
    }

    pub(crate) fn word(mut self, index: usize, value: u32) -> Self {
        self.0[index] = value;
        self
    }

    pub(crate) fn pointer<T>(self, index: usize, target: *const T) -> Self {
        let address = target as usize as u64;
        // Little and big endian alike: the kernel reads an aligned 64-bit value.
        let halves: [u32; 2] = [
            u32::from_ne_bytes(address.to_ne_bytes()[..4].try_into().expect("invariant: four octets")),
            u32::from_ne_bytes(address.to_ne_bytes()[4..].try_into().expect("invariant: four octets")),
        ];
        self.word(index, halves[0]).word(index + 1, halves[1])
    }

    /// A word of the attributes.
    pub(crate) const fn at(&self, index: usize) -> u32 {
        self.0[index]
    }

    /// # Safety
    /// Every pointer among the attributes points to memory that is valid for what `command` does with it.
    unsafe fn call(mut self, command: libc::c_int) -> io::Result<libc::c_long> {
        // SAFETY: passed on to the caller.
        unsafe { self.call_in_place(command) }
    }

    /// The same; the kernel's answers are in the attributes afterwards.
    ///
    /// # Safety
    /// As for [`Self::call`].
    pub(crate) unsafe fn call_in_place(&mut self, command: libc::c_int) -> io::Result<libc::c_long> {
        // SAFETY: the attributes are as long as said; the caller answers for the pointers in them.
        let result = unsafe {
            libc::syscall(
                libc::SYS_bpf,
                command,
                self.0.as_mut_ptr(),
                mem::size_of_val(&self.0) as libc::c_uint,
            )
        };
        if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
    }

    /// # Safety
    /// As for [`Self::call`], and `command` gives a new file descriptor.
    unsafe fn open(self, command: libc::c_int) -> io::Result<OwnedFd> {
        // SAFETY: passed on to the caller.
        let descriptor = unsafe { self.call(command) }?;
        // SAFETY: a new descriptor that nobody else owns.
        Ok(unsafe { OwnedFd::from_raw_fd(descriptor as libc::c_int) })
    }
}

/// A map from receive queue to AF_XDP socket.
#[derive(Debug)]
pub(crate) struct SocketMap(OwnedFd);

impl SocketMap {
    /// A map with places for the queues below `queues`.
    pub(crate) fn new(queues: u32) -> io::Result<Self> {
        // map_type, key_size, value_size, max_entries
        let attributes =
            Attributes::new().word(0, MAP_TYPE_XSKMAP).word(1, 4).word(2, 4).word(3, queues.max(1));
        // SAFETY: no pointers.
        unsafe { attributes.open(BPF_MAP_CREATE) }.map(Self)
    }

    /// One of the program before this.
    pub(crate) fn go_on(descriptor: OwnedFd) -> Self {
        Self(descriptor)
    }

    pub(crate) fn raw(&self) -> RawFd {
        self.0.as_raw_fd()
    }

    /// Puts a bound socket into its queue's place.
    pub(crate) fn set(&self, queue: u32, socket: &OwnedFd) -> io::Result<()> {
        let value = socket.as_raw_fd() as u32;
        // map_fd, key, value
        let attributes =
            Attributes::new().word(0, self.0.as_raw_fd() as u32).pointer(2, &queue).pointer(4, &value);
        // SAFETY: key and value are four octets each, as the map was created, and live through the call.
        unsafe { attributes.call(BPF_MAP_UPDATE_ELEM) }.map(drop)
    }
}

/// A loaded program.
#[derive(Debug)]
pub(crate) struct Program(OwnedFd);

impl Program {
    /// Every frame to the socket of its queue. A queue without a socket drops: what nobody here handles must not
    /// reach the host's stack. `fragments`: frames may be longer than a driver's buffer.
    pub(crate) fn to_sockets(map: &SocketMap, fragments: bool) -> io::Result<Self> {
        Self::load(
            PROGRAM_TYPE_XDP,
            if fragments { BPF_F_XDP_HAS_FRAGS } else { 0 },
            &[
                instruction(0x61, 2, 1, XDP_MD_RX_QUEUE_INDEX, 0), // r2 = context->rx_queue_index
                instruction(0x18, 1, 1, 0, map.0.as_raw_fd()),     // r1 = map, 64 bits: two places
                0,
                instruction(0xb7, 3, 0, 0, XDP_DROP), // r3 = what to do without a socket
                instruction(0x85, 0, 0, 0, FUNCTION_REDIRECT_MAP), // r0 = bpf_redirect_map(r1, r2, r3)
                instruction(0x95, 0, 0, 0, 0),        // return r0
            ],
        )
    }

    /// Drops everything at a tc hook.
    pub(crate) fn drop_all() -> io::Result<Self> {
        Self::load(
            PROGRAM_TYPE_SCHED_CLS,
            0,
            &[instruction(0xb7, 0, 0, 0, TCX_DROP), instruction(0x95, 0, 0, 0, 0)],
        )
    }

    /// Its file descriptor, for a filter that is to run it.
    pub(crate) fn descriptor(&self) -> u32 {
        self.0.as_raw_fd() as u32
    }

    /// One of the program before this.
    pub(crate) fn go_on(descriptor: OwnedFd) -> Self {
        Self(descriptor)
    }

    /// Its file descriptor, for a link.
    pub(crate) fn borrowed(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }

    fn load(program_type: u32, flags: u32, instructions: &[u64]) -> io::Result<Self> {
        const LICENCE: &[u8] = b"MIT\0";
        // prog_type, insn_cnt, insns, license, log_level..., prog_flags at word 11, expected_attach_type at word 17
        let attributes = Attributes::new()
            .word(0, program_type)
            .word(1, instructions.len() as u32)
            .pointer(2, instructions.as_ptr())
            .pointer(4, LICENCE.as_ptr())
            .word(11, flags)
            .word(17, if program_type == PROGRAM_TYPE_XDP { Hook::Xdp as u32 } else { 0 });
        // SAFETY: as many instructions as said, a licence that ends in a zero; both live through the call.
        unsafe { attributes.open(BPF_PROG_LOAD) }.map(Self)
    }
}

/// A program at work on an interface, until this is dropped or the process ends.
#[derive(Debug)]
pub(crate) struct Link {
    descriptor: OwnedFd,
}

impl Link {
    /// Links a program to an interface of the calling thread's network namespace.
    pub(crate) fn create(
        program: &Program,
        interface_index: u32,
        hook: Hook,
        flags: u32,
    ) -> io::Result<Self> {
        // prog_fd, target_ifindex, attach_type, flags
        let attributes = Attributes::new()
            .word(0, program.0.as_raw_fd() as u32)
            .word(1, interface_index)
            .word(2, hook as u32)
            .word(3, flags);
        // SAFETY: no pointers.
        unsafe { attributes.open(BPF_LINK_CREATE) }.map(|descriptor| Self { descriptor })
    }

    /// One of the program before this.
    pub(crate) fn go_on(descriptor: OwnedFd) -> Self {
        Self { descriptor }
    }

    pub(crate) fn raw(&self) -> RawFd {
        self.descriptor.as_raw_fd()
    }

    /// The same, which is at work until both are dropped.
    pub(crate) fn try_clone(&self) -> io::Result<Self> {
        Ok(Self { descriptor: self.descriptor.try_clone()? })
    }

    /// Puts another program in the place of the one at work, between two frames. Waits for the kernel's lock of all interfaces.
    pub(crate) fn update(&self, program: BorrowedFd<'_>) -> io::Result<()> {
        // link_fd, new_prog_fd
        let attributes =
            Attributes::new().word(0, self.descriptor.as_raw_fd() as u32).word(1, program.as_raw_fd() as u32);
        // SAFETY: no pointers.
        unsafe { attributes.call(BPF_LINK_UPDATE) }.map(drop)
    }
}

/// One instruction as the kernel reads it in host byte order (`struct bpf_insn`, little endian).
const fn instruction(operation: u8, destination: u8, source: u8, offset: i16, immediate: i32) -> u64 {
    operation as u64
        | ((destination | source << 4) as u64) << 8
        | (offset as u16 as u64) << 16
        | (immediate as u32 as u64) << 32
}

#[cfg(target_endian = "big")]
compile_error!("instruction() composes little-endian BPF instructions");
