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
mod discard;
pub mod express;
pub mod fragment;
mod handover;
mod idle;
mod padding;
pub mod passed_on;
pub mod reassemble;
pub mod receive;
mod receive_sc;
mod replay_window;
mod sa;
mod sdu_buffer;
mod settings;
mod table;
pub mod transmit;
mod transmit_pns;

pub use counters::{ReceiveSaCounters, SecYCounters, TransmitSaCounters};
pub use discard::{ReceiveDiscard, TransmitDiscard};
pub use express::ExpressClasses;
pub use handover::CarryOver;
pub use padding::{FrameSizes, SizesRefused};
pub use receive::{Delivered, Incoming, Verified};
pub use receive_sc::ReceiveSc;
pub use replay_window::{ReplayWindow, recover};
pub use sa::{InstallError, ReceiveSa, TransmitSa, XpnBinding};
pub use sdu_buffer::{MAX_FRAGMENT_OCTETS, SDU_OCTETS, SduBuffer};
pub use settings::{ClearVlan, ConfidentialityOffset, Protection, SciInclusion, Settings, ValidateFrames};
pub use table::{SecY, UnmatchedFrame};
pub use transmit::{FrameLayout, Outgoing, Protected};
pub use transmit_pns::{NextAction, TransmitPns};
pub use wire::Frame;
