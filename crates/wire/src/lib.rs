//! What is on the wire, in the standards' words: identifiers, Ethernet headers and the SecTAG; and how it is counted.
//!
//! No allocation, no `unsafe`, no clock. Every codec parses into a value that can only hold what the standard
//! allows, and names the rule that a refused frame broke.
#![no_std]

pub mod counters;
pub mod ethernet;
pub mod extension;
pub mod id;
pub mod sectag;
pub mod time;
pub mod tunnel;

pub use counters::Counter;
pub use ethernet::EtherType;
pub use extension::{ExtensionError, Segments};
pub use id::{An, MacAddr, ParseIdError, Pn, Sci, Ssci};
pub use sectag::{ScEncoding, SecTag, SecTagError, SecureData, ShortLength};
pub use time::Instant;
