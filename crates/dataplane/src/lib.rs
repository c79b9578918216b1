//! The data path: workers with their links, cells and sites. No code here is unsafe.
#![forbid(unsafe_code)]
// Commands and events are about to become jobs.
#![allow(missing_docs)]

pub mod cell;
pub mod divide;
pub mod eapol;
pub mod floors;
pub mod link;
pub mod open;
pub mod path;
pub mod sa_changes;
pub mod site;
pub mod snapshot;
pub mod worker;
