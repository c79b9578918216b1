//! The data path: workers with their links, cells and sites. No code here is unsafe.
#![forbid(unsafe_code)]

pub mod cell;
mod checksums;
pub mod cover;
pub mod fragmenter;
pub mod job;
pub mod link;
pub mod mailbox;
pub mod open;
pub mod pipeline;
pub mod site;
pub mod snapshot;
pub mod worker;
