//! What a KaY asks of its SecY, and hears from it. Whoever drives both carries it over: neither knows the other.
//!
//! ```text
//!  KaY ── Install ──▶ SecY                        receive SAs in use, transmit SA waiting
//!      ◀─ Report::Installed ──
//!      ── EnableTransmit ──▶                      the transmit SA protects; the one before stays
//!      ◀─ Report::Transmitting ──
//!      ── Retire (the KI before) ──▶              3 s later: what was in flight under it has arrived
//! ```

use alloc::boxed::Box;
use alloc::vec::Vec;

use suite::{CipherSuite, Sak, Salt};
use wire::mkpdu::Confidentiality;
use wire::{An, Ki, Sci, Ssci};

use crate::reason::Reason;

/// How SDUs may be divided under a SAK: all live peers announced it when the SAK was installed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FragmentAgreement {
    /// An SDU may span frames.
    pub fragment: bool,
    /// A frame may hold several SDUs.
    pub concatenate: bool,
    /// Octets of the longest SDU that all peers take, from its EtherType on.
    pub largest_sdu: u16,
}

/// A peer's SC under a SAK.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Admission {
    /// Whose SC.
    pub sci: Sci,
    /// With an XPN suite.
    pub ssci: Option<Ssci>,
}

/// A SAK and all that its SAs are made of. PNs begin at 1.
#[derive(Debug)]
pub struct Association {
    /// Its name.
    pub ki: Ki,
    /// Its AN.
    pub an: An,
    /// The suite.
    pub suite: CipherSuite,
    /// The key.
    pub sak: Sak,
    /// How frames are protected.
    pub confidentiality: Confidentiality,
    /// With an XPN suite: the salt, and the own SSCI.
    pub xpn: Option<(Salt, Ssci)>,
    /// The peers' SCs.
    pub receive: Vec<Admission>,
    /// How SDUs may be divided when it protects.
    pub fragmentation: FragmentAgreement,
}

/// What the SecY is to do.
#[derive(Debug)]
pub enum Event {
    /// Create the receive SCs that are missing, install and enable receive SAs, install the transmit SA, which does not
    /// protect yet. Answered by [`Report::Installed`]. The AN is free: what used it was retired by an event before.
    Install(Box<Association>),
    /// Let this peer's frames in under a SAK that is installed.
    Admit {
        /// Under which SAK.
        ki: Ki,
        /// Whom.
        admission: Admission,
    },
    /// Protect with this SAK from now on. Answered by [`Report::Transmitting`].
    EnableTransmit(Ki),
    /// Take all SAs of this SAK out. Without another one, nothing passes from here on.
    Retire(Ki),
    /// Take this peer's receive SC out, with its SAs: it is not live any more.
    Expel(Sci),
    /// Refuse frames of this peer below this PN, under this SAK: they were delayed (clause 9.10.1).
    RaiseLowest {
        /// Under which SAK.
        ki: Ki,
        /// Whose.
        sci: Sci,
        /// The lowest PN that is accepted from here on.
        lowest_pn: u64,
    },
    /// For a person: something has changed, and why.
    Notice(Reason),
}

/// What the SecY did, or has come to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Report {
    /// The SAs of this SAK are installed, and accept frames.
    Installed(Ki),
    /// The transmit SA of this SAK protects.
    Transmitting(Ki),
    /// The next PN of a transmit SA. To be told before each MKPDU: see [`crate::Kay::poll_timeout`].
    NextPn {
        /// Of which SAK.
        ki: Ki,
        /// The PN that the next frame gets.
        next_pn: u64,
    },
}
