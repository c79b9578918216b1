//! Ports, bursts, workers and control: the only crate with input and output on the frame path.

pub mod burst;
mod mapping;
pub mod memory;
pub mod pool;
pub mod port;

pub mod lease;
