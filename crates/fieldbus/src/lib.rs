//! Cyclic real-time frames, each relation of two stations under keys of its own (after Skuballa et al.,
//! "Cryptographic Protection of Cyclic Real-Time Communication in Ethernet-Based Fieldbuses", sections IV to
//! VII; formats: `wire::fieldbus`).
//!
//! ```text
//!  PLC ── gateway ~~ FrameID | KeyID | Seq | payload | ICV ~~ gateway ── device
//! ```
//!
//! | module | purpose |
//! |---|---|
//! | [`budget`] | number of relations that a link carries, and the time for each of their frames |
//! | [`handshake`] | agreement on a session, and the worth of a replayed HELLO |
//! | [`relation`] | stations, their frames, and their protection |
//! | [`session`] | keys of two gateways for a relation: made by the handshake, held by the data path |
//! | [`settings`] | configuration of a cell and its relations |
//! | [`relations`] | data path of a cell: the relation of a frame, and the state of each relation |
//! | [`transmit`], [`receive`] | protecting and verifying frames, in bursts |
//! | [`keys`] | the key that protects, those that verify, and their change without a lost frame |
//! | [`events`] | events of the data path for control |
//! | [`direction`], [`discard`] | the way of a frame through this gateway; reasons for discarding it |
//! | [`counters`], [`histogram`] | observation |
//! | [`moment`] | time |
//! | [`passed_on`] | state for the next program of a process |
//!
//! Left out on purpose: the ports of frames (the engine), and everything that is not cyclic.
#![no_std]

extern crate alloc;

pub mod budget;
pub mod counters;
pub mod direction;
pub mod discard;
pub mod events;
mod gap_monitor;
pub mod handshake;
pub mod histogram;
pub mod keys;
mod member;
pub mod moment;
pub mod passed_on;
pub mod receive;
pub mod relation;
pub mod relations;
pub mod session;
pub mod settings;
mod table;
pub mod transmit;

pub use counters::{ReceiveCounters, TransmitCounters};
pub use direction::Direction;
pub use discard::{ReceiveDiscard, TransmitDiscard};
pub use events::Event;
pub use histogram::Histogram;
pub use keys::{KeyChange, KeyStatus, LiveSession, RelationState, RetiredKeys};
pub use member::RelationStatus;
pub use moment::Moment;
pub use passed_on::{PassedOnError, PassedRelation};
pub use receive::{Incoming, Verified};
pub use relations::{ClearPermit, Foreign, InwardFrame, RelationMatch, Relations, RelationsError};
pub use settings::{Mode, RelationSettings, Settings, VlanTag};
pub use transmit::{Outgoing, Protected};
