//! Requests of a KaY to its SecY, and reports back. The caller carries both: neither knows the other.
//!
//! ```text
//!  KaY ── Install ──▶ SecY                        receive SAs in use, transmit SA waiting
//!      ◀─ Report::Installed ──
//!      ── EnableTransmit ──▶                      the transmit SA protects; the one before stays
//!      ◀─ Report::Transmitting ──
//!      ── Retire (the KI before) ──▶              3 s later: what was in flight under it has arrived
//! ```

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};
use suite::{CipherSuite, Sak, Salt};
use wire::mkpdu::Confidentiality;
use wire::{An, Ki, Sci, Ssci};

use crate::reason::Reason;
use crate::status::ChangeStatus;

/// Fragmentation, padding and express SCs under a SAK: all live peers announced it when the SAK was installed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct FragmentAgreement {
    /// An SDU may span frames.
    pub fragment: bool,
    /// A frame may hold several SDUs.
    pub concatenate: bool,
    /// Frames may be padded, and an SDU may span padded frames.
    pub pad: bool,
    /// Express frames may be sent on an SC of their own.
    pub express: bool,
    /// Octets of the longest SDU that all peers accept, from its EtherType on.
    pub largest_sdu: u16,
}

/// A peer's SC under a SAK.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Admission {
    /// SCI of the SC.
    pub sci: Sci,
    /// SSCI, with an XPN suite.
    pub ssci: Option<Ssci>,
}

/// A SAK with the parameters of its SAs. PNs begin at 1.
#[derive(Debug)]
pub struct Association {
    /// Its identifier.
    pub ki: Ki,
    /// Its AN.
    pub an: An,
    /// The suite.
    pub suite: CipherSuite,
    /// The key.
    pub sak: Sak,
    /// Confidentiality of its frames.
    pub confidentiality: Confidentiality,
    /// Salt and own SSCI, with an XPN suite.
    pub xpn: Option<(Salt, Ssci)>,
    /// The peers' SCs.
    pub receive: Vec<Admission>,
    /// Fragmentation of SDUs when it protects, and the use of express SCs.
    pub fragmentation: FragmentAgreement,
    /// Every frame holds one whole SDU, also those of peers: this station has announced to take no others.
    pub whole: bool,
}

/// Request to the SecY.
#[derive(Debug)]
pub enum Event {
    /// Create the missing receive SCs, install and enable receive SAs, and install the transmit SA, which
    /// does not protect yet. Answered by [`Report::Installed`]. The AN is free: an earlier event retired its
    /// SAK.
    Install(Box<Association>),
    /// Admit this peer's frames under an installed SAK.
    Admit {
        /// The SAK.
        ki: Ki,
        /// The peer's SC.
        admission: Admission,
    },
    /// Protect with this SAK from now on. Answered by [`Report::Transmitting`].
    EnableTransmit(Ki),
    /// Remove all SAs of this SAK. Without another one, nothing passes from now on.
    Retire(Ki),
    /// Remove this peer's receive SC with its SAs: the peer is no longer live.
    Expel(Sci),
    /// Reject this peer's frames below this PN under this SAK: they were delayed (clause 9.10.1).
    RaiseLowest {
        /// The SAK.
        ki: Ki,
        /// The peer's SCI.
        sci: Sci,
        /// Lowest accepted PN from now on.
        lowest_pn: u64,
    },
    /// Change with its reason, for operators.
    Notice(Reason),
}

/// Report of the SecY.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Report {
    /// The SAs of this SAK are installed and accept frames.
    Installed(Ki),
    /// The transmit SA of this SAK protects.
    Transmitting(Ki),
    /// Next PN of a transmit SA. Due before each MKPDU: see [`crate::Kay::poll_timeout`].
    NextPn {
        /// The SAK.
        ki: Ki,
        /// PN of the next frame.
        next_pn: u64,
    },
}

/// Recent changes that `status` shows.
const CHANGES: usize = 32;
/// Most events in the queue when a notice is added. Requests to the SecY have no limit.
const MAX_EVENTS: usize = 256;

/// Events until they are fetched, and the recent changes.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    events: VecDeque<Event>,
    changes: VecDeque<ChangeStatus>,
}

impl Outbox {
    /// The recent changes; none while an event waits.
    pub(crate) fn pass_on(&self) -> Option<VecDeque<ChangeStatus>> {
        self.events.is_empty().then(|| self.changes.clone())
    }

    /// No event, and these changes.
    pub(crate) const fn go_on(changes: VecDeque<ChangeStatus>) -> Self {
        Self { events: VecDeque::new(), changes }
    }

    pub(crate) fn event(&mut self, event: Event) {
        self.events.push_back(event);
    }

    pub(crate) fn notify(&mut self, change: ChangeStatus) {
        let reason = change.reason.clone();
        if self.changes.len() == CHANGES {
            self.changes.pop_front();
        }
        self.changes.push_back(change);
        if self.events.len() < MAX_EVENTS {
            self.events.push_back(Event::Notice(reason));
        }
    }

    pub(crate) fn poll(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    pub(crate) fn changes(&self) -> Vec<ChangeStatus> {
        self.changes.iter().cloned().collect()
    }
}
