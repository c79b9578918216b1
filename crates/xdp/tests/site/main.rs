//! The programs of a site do what crate `tunnel` does: octets, outcomes, counters and windows, whatever comes and in whatever order.
//! Root, as all that loads programs.
#![allow(clippy::unwrap_used)]

mod frames;
mod lanes;
mod opened;
mod packets;
mod plain;
mod sequences;
mod stations;
mod strangers;
mod world;
