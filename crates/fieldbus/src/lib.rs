//! Cyclic real-time frames, each relation of two stations under keys of its own (after Skuballa et al., "Cryptographic
//! Protection of Cyclic Real-Time Communication in Ethernet-Based Fieldbuses", sections IV to VII; formats:
//! `wire::fieldbus`).
//!
//! ```text
//!  PLC ── gateway ~~ FrameID | KeyID | Seq | payload | ICV ~~ gateway ── device
//! ```
//!
//! | module | what |
//! |---|---|
//! | [`budget`] | how many relations a link carries, and how long each of their frames may take |
//! | [`handshake`] | how they agree on a session, and what a replayed HELLO is worth |
//! | [`relation`] | which stations exchange which frames, and how they are protected |
//! | [`session`] | the keys that two gateways use for a relation: what the handshake makes and the data path holds |
//! | [`settings`] | what a cell and its relations are configured with |
//! | [`relations`] | the data path of a cell: whose frame it is, and all that a relation has |
//! | [`transmit`], [`receive`] | protecting and verifying frames, in bursts |
//! | [`keys`] | which key protects and which ones verify, and how they change without a lost frame |
//! | [`events`] | what the data path tells control |
//! | [`counters`], [`histogram`] | what can be seen of it |
//! | [`moment`] | time |
//!
//! Left out on purpose: which port a frame came from and where it goes (the engine), and all that is not cyclic.
#![no_std]

extern crate alloc;

pub mod budget;
pub mod counters;
pub mod events;
mod gap_monitor;
pub mod handshake;
pub mod histogram;
pub mod keys;
mod member;
pub mod moment;
pub mod receive;
pub mod relation;
pub mod relations;
pub mod session;
pub mod settings;
mod table;
pub mod transmit;

pub use counters::{ReceiveCounters, TransmitCounters};
pub use events::Event;
pub use histogram::Histogram;
pub use keys::{KeyChange, KeyStatus, LiveSession, RelationState, RetiredKeys};
pub use member::RelationStatus;
pub use moment::Moment;
pub use receive::{Incoming, ReceiveDiscard, Verified};
pub use relations::{ClearPermit, Direction, Foreign, InwardFrame, RelationMatch, Relations, RelationsError};
pub use settings::{Mode, RelationSettings, Settings, VlanTag};
pub use transmit::{Outgoing, Protected, TransmitDiscard};
