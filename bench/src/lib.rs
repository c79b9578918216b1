//! Shared parts of `frameward-lab bench` and the instruction guard: one row of JSON a figure, and SecYs and bursts to
//! measure.
//!
//! ```json
//! {"bench":"instructions","case":"protect 64 octets, gcm-aes-128","value":712.4,"unit":"instructions/frame",
//!  "ratio":{"to":"committed","value":1.002},"samples":64000,"machine":"x86_64, 2 CPUs","commit":"0c6be4a"}
//! ```
//!
//! A comparison is a ratio to something measured in the same run, or to a committed figure where that is the point.
//! Rows are appended to one another, one a line, so that runs can be concatenated.

pub mod bare;
pub mod ciphers;
pub mod fragments;
pub mod relations;
pub mod row;
pub mod secys;
pub mod sites;

pub use row::{Ratio, Row, Spread, Target};
