//! Network devices as the gateway sees them: ports (AF_XDP, AF_PACKET, UDP, memory), interfaces, the memory of frames, and the
//! few other system calls of a worker. All unsafe code of the gateway is here.

pub mod af_packet;
#[cfg(not(loom))]
pub mod af_xdp;
mod bpf;
pub mod burst;
pub mod interface;
mod mapping;
pub mod memory;
mod messages;
mod netlink;
mod packet_socket;
pub mod passed_on;
pub mod pool;
pub mod port;
pub mod queue_port;
/// The rings alone, for a search of all orders of threads: see their module `searched`.
#[cfg(all(test, loom))]
#[path = "af_xdp/ring.rs"]
mod ring;
pub mod route;
pub mod run;
pub mod scheduling;
pub mod shared;
pub mod udp;
pub mod vm_generation;
pub mod wake;
