//! The laboratory's program: what is shown and measured of gateways. No gateway links any of it.

pub mod bench;
pub mod demo;
pub mod evidence;
pub mod plot;
pub mod programs;
