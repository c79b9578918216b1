//! One KaY (IEEE 802.1X-2020 clauses 9 to 12): agrees with the KaYs of the other gateways, switches and stations on the
//! keys of a SecY, and rolls them.
//!
//! ```text
//!  frames, time, what the SecY did ──▶ Kay ──▶ frames, events for the SecY, state
//! ```
//!
//! A [`Kay`] has neither clock nor socket. Five verbs make it go: [`Kay::handle_frame`], [`Kay::handle_timeout`],
//! [`Kay::poll_transmit`], [`Kay::poll_timeout`], [`Kay::poll_event`]; and it hears from the SecY by [`Kay::handle_report`].
#![no_std]

extern crate alloc;

mod event;
mod kay;
mod settings;
mod status;

pub use event::{Admission, Association, Division, Event, Reason, Report};
pub use kay::{Frame, Kay};
pub use settings::{Announced, CakEntry, OnPeerLoss, Settings, SuiteFigure, SuiteRule};
pub use status::{KayCounters, MemberStatus, SakStatus, Status};
