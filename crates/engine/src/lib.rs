//! Ports, bursts, workers and control: the only crate with input and output on the frame path.

// The tests of the management channel have their sites from the directory of tests, where this crate has its name.
#[cfg(test)]
extern crate self as engine;

pub mod af_packet;
pub mod af_xdp;
mod bpf;
pub mod burst;
pub mod cell;
pub mod channel;
pub mod control;
pub mod divide;
mod eapol;
pub mod interface;
pub mod lease;
pub mod link;
mod mapping;
pub mod memory;
pub mod open;
pub mod own_lock;
mod packet_socket;
pub mod path;
pub mod pool;
pub mod port;
mod sa_changes;
pub mod scheduling;
pub mod site;
pub mod snapshot;
pub mod udp;
pub mod vm_generation;
pub mod wake;
pub mod worker;
