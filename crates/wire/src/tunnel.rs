//! MACsec frames between sites (tunnelling paper, sections 4.2 and 4.3; the project's wire formats, section
//! 3).
//!
//! A MACsec frame splits into three: what its flow knows, what each packet carries, and the body behind the
//! SecTAG, which travels unchanged.
//!
//! ```text
//!  DA 6 | SA 6 | 88-E5 | TCI/AN 1 | octet 3 | PN 4 | [SCI 8] | what follows the SecTAG
//!  flow   flow   fixed   both       packet    packet  flow     body
//! ```
//!
//! Identifier mode puts this in front of the body; header and flow are masked:
//!
//! ```text
//!  RID 6 | check 2 | header 8: flow 2 | PN 4 | part 4 bits, E, C, AN 2 bits | octet 3
//!                  | long form: [flow 24: ES/SC/SCB 1 | reserved 3 | DA 6 | SA 6 | SCI 8 | tag 8]
//!                  | long form with VLAN tags: [flow 24 | VLAN tags 8, zeros where there is one | tag 8]
//! ```
//!
//! VLAN tags in front of the SecTAG belong to the flow, priority included: they cost no octet once the peer knows it.
//!
//! A packet for a site that this one does not reach goes whole, as the body, to a peer that relays it. Its flow names that site.
//!
//! The tunnel checks only the bits that it must know: V and the length. The stations check everything else,
//! which arrives as it left. Left out on purpose: identifiers, masks and keys (crates `suite` and `tunnel`).

mod flow;
mod frame;
mod header;

pub use flow::{Flow, OuterTags, RelayLeg, SITE_NAME_OCTETS, SiteName};
pub use frame::{PacketFields, ParseFrameError, ParsedFrame};
pub use header::{
    CHECK_OCTETS, FlowIndex, HEADER_OCTETS, Header, HeaderError, LONG_FORM_OCTETS, LONG_HEADER_OCTETS,
    LONGEST_HEADER_OCTETS, PacketForm, RID_OCTETS, SHORT_HEADER_OCTETS, TAG_OCTETS,
};
