//! Diagnosis: a path before anything depends on it, and frames and key agreements after the fact.
//!
//! ```text
//! doctor   ── interfaces, a conversation with another doctor ──▶ findings, each with its cure
//! inspect  ── a capture, or the record of a key agreement    ──▶ each frame's verdict and its reason
//! kay_log  ── the record itself: written by a gateway, read by inspect
//! ```

pub mod doctor;
pub mod inspect;
pub mod kay_log;
