//! A network namespace for one thread, virtual wires in it, and machines at their ends that are not the engine's:
//! plain packet sockets.
//!
//! ```text
//!   machine A                    ports under test                    machine B
//!      a0 ------------------- plain     protected ------------------- b0
//! ```

#![allow(unsafe_code, dead_code, unreachable_pub, clippy::unwrap_used)]

pub mod vlan_push;

use std::io;
use std::mem;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::panic;
use std::path::PathBuf;
use std::process::Command;
use std::ptr;
use std::thread;
use std::time::{Duration, Instant};

/// Time limit for anything that must happen, on a busy machine.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// Runs a test in a thread with a network namespace of its own, which ends with the thread.
pub fn in_namespace(test: impl FnOnce() + Send + 'static) {
    let thread = thread::spawn(move || {
        // SAFETY: no pointers; only this thread changes its namespace.
        let result = unsafe { libc::unshare(libc::CLONE_NEWNET) };
        assert_eq!(
            result,
            0,
            "these tests need root, to make network namespaces: {}",
            io::Error::last_os_error()
        );
        // The machines' stacks must not speak unasked.
        std::fs::write("/proc/sys/net/ipv6/conf/default/disable_ipv6", "1").unwrap();
        test();
    });
    if let Err(panicked) = thread.join() {
        panic::resume_unwind(panicked);
    }
}

/// Runs a command in the calling thread's namespace and gives what it printed.
pub fn run(command: &str) -> String {
    let mut words = command.split_whitespace();
    let output = Command::new(words.next().unwrap()).args(words).output().unwrap();
    assert!(output.status.success(), "{command}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Makes two wires, a0 - plain and protected - b0, all ends up.
pub fn wires(queues: u32, mtu: u32) {
    for (machine, port) in [("a0", "plain"), ("b0", "protected")] {
        wire(machine, port, queues, mtu);
    }
}

/// Makes one wire, both ends up.
pub fn wire(machine: &str, port: &str, queues: u32, mtu: u32) {
    let shape = format!("mtu {mtu} numrxqueues {queues} numtxqueues {queues}");
    run(&format!("ip link add {machine} {shape} type veth peer name {port} {shape}"));
    for end in [machine, port] {
        run(&format!("ip link set {end} up"));
    }
    // The end that was up first has a carrier now, and drops what is sent until a worker of the kernel has given it a queue.
    let start = Instant::now();
    while [machine, port].iter().any(|end| run(&format!("ip link show {end}")).contains("qdisc noop ")) {
        assert!(start.elapsed() < PATIENCE, "{machine} and {port} have no queues");
    }
}

/// A state directory that goes with its owner.
#[derive(Debug)]
pub struct StateDirectory(pub PathBuf);

impl StateDirectory {
    pub fn new(label: &str) -> Self {
        let path = std::env::temp_dir().join(format!("frameward-{label}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    pub fn is_empty(&self) -> bool {
        std::fs::read_dir(&self.0).unwrap().next().is_none()
    }
}

impl Drop for StateDirectory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Header in front of a frame on a socket with offload headers (struct virtio_net_hdr).
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct OffloadHeader {
    pub flags: u8,
    pub gso_type: u8,
    pub header_octets: u16,
    pub gso_octets: u16,
    pub checksum_start: u16,
    pub checksum_offset: u16,
}

/// A machine: sees and sends whole frames, VLAN tags included.
#[derive(Debug)]
pub struct Machine {
    socket: OwnedFd,
}

impl Machine {
    pub fn on(interface: &str) -> Self {
        Self::open(interface, false)
    }

    /// One that sends with [`Self::send_offloaded`] and receives nothing.
    pub fn offloading(interface: &str) -> Self {
        Self::open(interface, true)
    }

    fn open(interface: &str, offloading: bool) -> Self {
        // SAFETY: no pointers; a new descriptor that nobody else owns.
        let socket = unsafe {
            let descriptor = libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0);
            assert!(descriptor >= 0, "these tests need root: {}", io::Error::last_os_error());
            OwnedFd::from_raw_fd(descriptor)
        };
        let machine = Self { socket };
        machine.set(libc::SOL_PACKET, libc::PACKET_IGNORE_OUTGOING, 1);
        machine.set(libc::SOL_PACKET, libc::PACKET_AUXDATA, 1);
        machine.set(libc::SOL_PACKET, libc::PACKET_VNET_HDR, offloading.into());
        machine.set(libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, 64 << 20);
        let name = std::ffi::CString::new(interface).unwrap();
        // SAFETY: a C string; a zeroed address is valid, and as long as said.
        unsafe {
            let mut address: libc::sockaddr_ll = mem::zeroed();
            address.sll_family = libc::AF_PACKET as u16;
            address.sll_protocol = if offloading { 0 } else { (libc::ETH_P_ALL as u16).to_be() };
            address.sll_ifindex = libc::if_nametoindex(name.as_ptr()) as i32;
            let size = mem::size_of_val(&address) as libc::socklen_t;
            assert_eq!(libc::bind(machine.socket.as_raw_fd(), ptr::from_ref(&address).cast(), size), 0);
        }
        machine
    }

    fn set(&self, level: i32, name: i32, value: libc::c_int) {
        let size = mem::size_of_val(&value) as libc::socklen_t;
        // SAFETY: an integer of the size said.
        let result = unsafe {
            libc::setsockopt(self.socket.as_raw_fd(), level, name, ptr::from_ref(&value).cast(), size)
        };
        assert_eq!(result, 0, "option {name}: {}", io::Error::last_os_error());
    }

    pub fn send(&self, frame: &[u8]) {
        self.try_send(frame).unwrap_or_else(|error| panic!("{} octets: {error}", frame.len()));
    }

    pub fn try_send(&self, frame: &[u8]) -> io::Result<()> {
        // SAFETY: the frame is as long as said.
        let sent = unsafe { libc::send(self.socket.as_raw_fd(), frame.as_ptr().cast(), frame.len(), 0) };
        if sent == frame.len() as isize { Ok(()) } else { Err(io::Error::last_os_error()) }
    }

    pub fn send_offloaded(&self, header: OffloadHeader, frame: &[u8]) {
        // SAFETY: the header is plain integers without padding.
        let header: [u8; 10] = unsafe { mem::transmute(header) };
        self.send(&[&header, frame].concat());
    }

    /// The next frame as it stood on the wire, if one comes in time.
    pub fn receive(&self, patience: Duration) -> Option<Vec<u8>> {
        let deadline = Instant::now() + patience;
        loop {
            if let Some(frame) = self.receive_now() {
                return Some(frame);
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return None;
            }
            let mut poll = libc::pollfd { fd: self.socket.as_raw_fd(), events: libc::POLLIN, revents: 0 };
            // SAFETY: one entry.
            unsafe { libc::poll(&mut poll, 1, left.as_millis().min(100) as i32 + 1) };
        }
    }

    /// The next frame, if one waits.
    pub fn receive_now(&self) -> Option<Vec<u8>> {
        let mut octets = vec![0u8; 65536];
        let mut control = [0u64; 16];
        let mut vector = libc::iovec { iov_base: octets.as_mut_ptr().cast(), iov_len: octets.len() };
        // SAFETY: all pointers are to buffers of the sizes said, which live through the calls.
        unsafe {
            let mut message: libc::msghdr = mem::zeroed();
            message.msg_iov = &mut vector;
            message.msg_iovlen = 1;
            message.msg_control = control.as_mut_ptr().cast();
            message.msg_controllen = mem::size_of_val(&control);
            let received = libc::recvmsg(self.socket.as_raw_fd(), &mut message, libc::MSG_DONTWAIT);
            octets.truncate(usize::try_from(received).ok()?);
            let header = libc::CMSG_FIRSTHDR(&message);
            if let Some(header) = header.as_ref().filter(|header| header.cmsg_type == libc::PACKET_AUXDATA) {
                let auxiliary: libc::tpacket_auxdata = ptr::read_unaligned(libc::CMSG_DATA(header).cast());
                if auxiliary.tp_status & libc::TP_STATUS_VLAN_VALID != 0 {
                    let [a, b] = auxiliary.tp_vlan_tpid.to_be_bytes();
                    let [c, d] = auxiliary.tp_vlan_tci.to_be_bytes();
                    octets.splice(12..12, [a, b, c, d]);
                }
            }
        }
        Some(octets)
    }
}

/// A frame of an EtherType that no stack answers, its octets made from `seed`.
pub fn frame(octets: usize, seed: usize) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 0xb0, 2, 0, 0, 0, 0, 0xa0, 0x88, 0xb5];
    frame.extend((14..octets).map(|at| (at.wrapping_mul(31) ^ seed.wrapping_mul(17) ^ (seed >> 8)) as u8));
    frame.truncate(octets);
    frame
}

/// Puts tags between addresses and EtherType.
pub fn tagged(mut frame: Vec<u8>, tags: &[u8]) -> Vec<u8> {
    frame.splice(12..12, tags.iter().copied());
    frame
}
