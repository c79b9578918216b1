//! Control: owns the clock, the workers and the KaYs of a gateway. Nothing here waits for a disk: leases and floors have
//! a thread of their own (`lease_thread.rs`).
//!
//! | a worker tells | control does, with static keys (`static_keys.rs`) | with key agreement (`key_agreement.rs`) |
//! |---|---|---|
//! | half of the reserved PNs are used, or all of them | has a block reserved on disk, then allows it | |
//! | three quarters of all PNs are used | a [`Notice`]: the key has to be changed | tells the KaY the next PN |
//! | all PNs are used | a [`Notice`]: the link is closed until the key is changed | the same |
//! | SAs are changed | | tells the KaY |
//!
//! Links come and go, and so do their ports, while the others forward. A worker answers control's requests
//! within a turn; control waits for it, for a second at most.
//!
//! By itself it brings replay floors to disk (`floors.rs`).
//!
//! ```text
//!  Gateway ─▶ Workers                                     threads, slots, jobs
//!          ─▶ LinkControl ─▶ StaticControl or Agreement   keys
//!                         ─▶ CellControl                  handshakes
//!                         ─▶ KernelLink                   programs of the kernel
//!          ─▶ LeaseThread, FloorKeeper, KernelPrograms
//! ```
//!
//! Each writes its own fields, and knows none to its left. What takes several of them is a method of [`Gateway`].

mod cells;
mod floors;
mod gateway;
mod jobs;
mod kernel_link;
mod kernel_ports;
mod kernel_programs;
mod key_agreement;
mod lease_thread;
mod link;
mod notice;
mod sa_changes;
mod sa_table;
mod static_keys;
mod workers;

use std::thread;

pub use cells::{CellError, CellPlace, CellSettings, CellStatus, PassedCell};
pub use floors::{PERIOD as FLOOR_PERIOD, ReceiveFloor};
pub use gateway::{Gateway, HaltedKeys, HaltedLink, NotChanged, NotGoneOn, Unsettled};
pub use kernel_link::{LinkPlace, LinkPlaceSettings, PassedKernelLink};
pub use kernel_ports::PlaceWanted;
pub use kernel_programs::{KernelPrograms, PassedKernelPrograms};
pub use key_agreement::{KeyAgreement, KeyAgreementStatus, PassedAgreement, Recorded, Recorder};
pub use notice::Notice;
pub use static_keys::{ExpressChange, ExpressPns, StaticKeys, StaticSak, StaticSaks, TransmitLease};

pub use dataplane::job::{Datapath, Progress};

/// CPUs that this process may use.
pub fn cpus() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

/// Workers of a gateway with so many links: one for each, but no more than CPUs.
pub fn workers(links: usize) -> usize {
    links.min(cpus())
}

/// A worker does not answer: it has ended, or is stuck. What it holds cannot be reached.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("a worker does not answer; this is a defect of frameward: please report it")]
pub struct WorkerUnresponsive;
