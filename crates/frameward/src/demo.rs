//! `demo`: the main job, shown on this machine with real traffic.

pub mod pair;
