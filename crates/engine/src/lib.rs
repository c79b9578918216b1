//! Ports, bursts, workers and control: the only crate with input and output on the frame path.

pub mod burst;
pub mod lease;
mod mapping;
pub mod memory;
pub mod pool;
pub mod port;
