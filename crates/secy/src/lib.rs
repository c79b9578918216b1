//! One SecY (IEEE 802.1AE-2018): protects frames that leave through the protected side of a gateway, and
//! verifies frames that arrive there.
//!
//! ```text
//!   SDU ──▶ transmit ─ pass 1: take a PN, write the SecTAG ─▶ pass 2: seal ─▶ pass 3: count ──▶ MPDU
//!  MPDU ──▶ receive  ─ pass 1: SecTAG, SA, early PN check  ─▶ pass 2: open ─▶ pass 3: PN again, commit ──▶ SDU
//! ```
//!
//! Frames come in bursts and are processed in place. The crate has no clock, no socket and no log. The verbs
//! *install*, *enable* and *retire* (clause 10.7) control a SecY between bursts. Installing an SC or SA
//! allocates; a frame never does. Retired objects go back to the caller, who frees them where time does not
//! matter.
#![no_std]

extern crate alloc;

pub mod antedated;
pub mod counters;
pub mod fragment;
mod handover;
pub mod pn;
pub mod reassemble;
pub mod receive;
mod sa;
mod settings;
mod table;
pub mod transmit;

pub use counters::{ReceiveSaCounters, SecYCounters, TransmitSaCounters};
pub use handover::CarryOver;
pub use pn::NextAction;
pub use reassemble::Outbox;
pub use receive::{Delivered, Incoming, ReceiveDiscard, Verified};
pub use sa::{ReceiveSa, TransmitSa, XpnBinding};
pub use settings::{ClearVlan, ConfidentialityOffset, Protection, SciInclusion, Settings, ValidateFrames};
pub use table::{InstallError, ReceiveSc, SecY, UnmatchedFrame};
pub use transmit::{FrameLayout, Outgoing, Protected, TransmitDiscard};
pub use wire::Frame;
