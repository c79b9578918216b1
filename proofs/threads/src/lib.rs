//! Control and a worker: their mailboxes as the gateway has them, over the ring that it has, under loom. The loops around them, and
//! what the kernel does to wake a thread, are models by hand.
//!
//! | here | in the gateway |
//! |---|---|
//! | [`mailbox`] | `dataplane::mailbox`, the same file |
//! | the ring `rtrb` | the same sources; `rtrb.patch` gives it loom's atomics, and has loom watch each place of its memory |
//! | [`socket`] | `netdev::wake`: a socket pair and `ppoll`; `std::thread::park` |
//! | [`worker`] | `dataplane::worker`: `Worker::run`, `process_jobs` |
//! | [`control`] | `WorkerHandle`, and the loop of control that parks |

#![forbid(unsafe_code)]

#[path = "../../../crates/dataplane/src/mailbox.rs"]
#[allow(dead_code, missing_docs)]
pub mod mailbox;

pub mod control;
pub mod socket;
pub mod worker;
