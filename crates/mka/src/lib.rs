//! One KaY (IEEE 802.1X-2020 clauses 9 to 12): agrees with the KaYs of other gateways, switches and stations
//! on the keys of a SecY, and rolls them.
//!
//! ```text
//!  frames, time, what the SecY did ──▶ Kay ──▶ frames, events for the SecY, state
//! ```
//!
//! A [`Kay`] has neither clock nor socket. Its inputs are [`Kay::handle_frame`], [`Kay::handle_timeout`] and
//! [`Kay::handle_report`]; its outputs [`Kay::poll_transmit`], [`Kay::poll_timeout`] and [`Kay::poll_event`].
#![no_std]

extern crate alloc;

mod announcement;
mod compose;
mod counters;
mod cp;
mod distribution;
mod election;
mod event;
mod fault;
mod interop;
mod kay;
mod key_server;
mod member;
mod membership;
mod message;
mod participant;
mod peers;
mod pn_history;
mod principal;
mod reachability;
mod reason;
mod receive;
mod send_schedule;
mod settings;
mod status;
mod timers;

pub use counters::KayCounters;
pub use event::{Admission, Association, Event, FragmentAgreement, Report};
pub use fault::Fault;
pub use kay::{FRAME_OCTETS, Frame, Input, Kay};
pub use reachability::{Gap, StationName};
pub use reason::{NewMiReason, Reason, Refusal, SakReason};
pub use settings::{Announced, CakEntry, OnPeerLoss, Settings, SuiteRule, SuiteTiming};
pub use status::{MemberStatus, SakStatus, Status};
