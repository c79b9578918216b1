//! Diagnosis: a path before anything depends on it, a cell before there is one, and frames and key agreements after the fact.
//!
//! ```text
//! doctor   ── interfaces, a conversation with another doctor ──▶ findings, each with its cure
//! inspect  ── a capture, or the record of a key agreement    ──▶ each frame's verdict and its reason
//! learn    ── an interface or a capture                     ──▶ the relations of a cell, and its configuration
//! kay_log  ── the record itself: written by a gateway, read by inspect
//! ```

pub mod doctor;
pub mod inspect;
pub mod kay_log;
pub mod learn;
