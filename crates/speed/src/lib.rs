//! Speed of this CPU: bursts and cells in memory, and how long their frames take. For the measurement at a start, `plan`,
//! `frameward-lab bench` and the instruction guard.

pub mod antedated;
pub mod burst;
pub mod cells;
pub mod frame_times;
pub mod machine;
pub mod order;
