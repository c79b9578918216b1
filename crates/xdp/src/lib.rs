//! The frame path in the kernel: frames that are protected and verified by XDP programs, and never come to user space.
//!
//! ```text
//!  plain interface     ── outward: Seq or PN, ChaCha20-Poly1305   ──▶ protected interface
//!  protected interface ── inward: Seq or PN, ICV                  ──▶ plain interface
//!                      └─ what is of no relation, HELLOs, EAPOL   ──▶ AF_XDP socket, user space
//!  control ── change, look ──▶ keys of a relation, under its lock
//!  a thread ── fill ──▶ keystream of the next Seqs, ahead of their frames (cells)
//!  a thread ── shared memory ──▶ keystream of the next PNs (links)
//! ```
//!
//! The programs are C, in `bpf`; what a pinned compiler makes of them is committed beside them, and built into this crate.
//! `scripts/bpf.sh check` builds them again and compares. Programs, maps and links belong to file descriptors of this
//! process: they end with it, however it ends.
//!
//! | module | what |
//! |---|---|
//! | [`cell`] | a cell's relations, what `fieldbus::Relations` is in user space |
//! | [`link`] | a link's SecY, what `secy::SecY` is in user space |
//! | [`site`] | a site's known flows, what `tunnel::Forwarding` does with them in user space |
//! | [`error`] | why the kernel does not take it |
//! | [`redirect`] | a bare forwarder, for benches |
//! | `programs` | loaded programs, and their maps |
//! | `run` | runs that user space asks for: changes, questions, frames of tests |
//! | `octets` | integers in the structures of programs; each of the three has its `layout` |
//!
//! Left out on purpose: handshakes, shadow mode (XDP sends no frame twice), AES-GCM (no constant time without instructions that BPF lacks).
#![forbid(unsafe_code)]

pub mod cell;
pub mod error;
pub mod link;
mod octets;
mod programs;
pub mod redirect;
mod run;
pub mod site;

pub use cell::{Cell, Report};
pub use error::XdpError;
pub use link::Link;
pub use programs::Unclaimed;
pub use run::{Ran, Verdict};
pub use site::Site;
