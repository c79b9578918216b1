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
//! | [`relation`] | which stations exchange which frames, and how they are protected |
//! | [`session`] | the keys that two gateways use for a relation: what the handshake makes and the data path holds |
//!
//! Left out on purpose: which port a frame came from and where it goes (the engine), and all that is not cyclic.
#![no_std]

extern crate alloc;

pub mod budget;
pub mod relation;
pub mod session;
