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
mod association;
mod compose;
mod counters;
mod cp;
mod cp_inputs;
mod distributed_sak;
mod distribution;
mod election;
mod event;
mod fault;
mod frame;
mod gaps;
mod interop;
mod kay;
mod key_server;
mod keys;
mod membership;
mod message;
mod message_numbers;
mod names;
mod observed_faults;
mod participant;
mod participants;
mod passed_on;
mod peer;
mod peers;
mod pn_history;
mod reachability;
mod reason;
mod receive_scs;
mod send_schedule;
mod settings;
mod station;
mod status;
mod terms;
mod timers;

pub use counters::KayCounters;
pub use event::{Admission, Association, Event, FragmentAgreement, Report};
pub use fault::Fault;
pub use frame::{FRAME_OCTETS, Frame};
pub use gaps::{Gap, StationName};
pub use kay::{Input, Kay};
pub use names::{Named, NamedSci, Names};
pub use passed_on::{PASSED_KAY_FORM, PassedKay, PassedKayError};
pub use reason::{NewMiReason, Reason, Refusal, SakReason};
pub use settings::{Announced, CakEntry, OnPeerLoss, Settings, SuiteRule, SuiteTiming};
pub use status::{ChangeStatus, MemberStatus, SakStatus, Status};
