//! Sites: MACsec frames carried between plants over UDP, with nothing but their headers protected (tunnelling paper;
//! the project's wire formats, section 3).
//!
//! A site has two halves, which share nothing but [`Command`]s and [`Event`]s:
//!
//! ```text
//!            frames and packets                                     messages, over the management channel
//!  LAN ◀──▶ Forwarding (a worker's) ◀── Command ── Event ──▶ Session (one a peer, the manager's) ◀──▶ peer
//! ```
//!
//! [`Forwarding`] moves frames: flows, lanes, windows, parts, stations. [`Session`] agrees with a peer on what the
//! halves at both ends need: instances, epochs, announcements. Neither has a clock or a socket; the engine carries
//! octets, commands and events, and tells the time.
#![no_std]

extern crate alloc;

mod exchange;
pub mod header_encryption;
mod settings;

pub use exchange::{Command, EPOCH_OVERLAP, Event, Generation, Instance};
pub use settings::{Limits, Mode, PeerId, PeerSettings, Settings};
