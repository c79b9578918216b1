//! What benches and the instruction guard share: one JSON [`Row`] a figure.

pub mod guard;
pub mod row;

pub use row::{Machine, Ratio, Row, Spread};
