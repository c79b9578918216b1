//! Wire formats, in the standards' words: identifiers, Ethernet headers, the SecTAG, MKPDUs, PROFINET and protected
//! cyclic frames. Also a frame's place in memory, protocol time, and the tables of counters.
//!
//! No allocation, no `unsafe`, no clock. Every codec parses into a value that can only hold what the standard
//! allows. An error names the rule that the frame broke.
#![no_std]

pub mod counters;
pub mod ethernet;
pub mod extension;
pub mod fieldbus;
pub mod frame;
pub mod id;
pub mod mkpdu;
pub mod profinet;
pub mod sectag;
pub mod time;
pub mod tunnel;

pub use counters::Counter;
pub use ethernet::EtherType;
pub use extension::{ExtensionError, Segments};
pub use frame::Frame;
pub use id::{An, Ckn, Ki, MacAddr, Mi, ParseIdError, Pn, Sci, Ssci};
pub use sectag::{ScEncoding, SecTag, SecTagError, SecureData, ShortLength};
pub use time::Instant;
