//! Network namespaces, captures, traffic and impairments: the laboratory of demo, tests and benches.
#![forbid(unsafe_code)]

pub mod capture;
pub mod cpu;
pub mod cyclic;
pub mod error;
pub mod flood;
pub mod guest;
mod histogram;
mod load;
pub mod macsec;
pub mod namespace;
pub mod noise;
mod pace;
pub mod packet;
pub mod plants;
pub mod program;
pub mod relay;
pub mod topology;
pub mod traffic;
pub mod trial;

pub use capture::{Capture, Captured};
pub use cpu::{CpuTimes, MachineTimes};
pub use error::{Error, require_root};
pub use flood::Flood;
pub use guest::Guest;
pub use namespace::{Namespace, Task};
pub use packet::{Direction, Frame, InterfaceCounters, PacketSocket};
pub use plants::{Plant, Plants, PlantsShape};
pub use program::Program;
pub use relay::{DirectionCounters, Impairments, Relay, RelayCounters};
pub use topology::{Machine, Shape, Topology};
