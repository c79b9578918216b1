//! Links whose keys are agreed on: control owns the KaY, and carries over between it, its link's worker and the wire.

use std::io;
use std::time::Duration;

use mka::{CakEntry, KayCounters, Settings, Status};

use super::{Gateway, Unanswered};
use crate::link::Link;
use crate::path::Path;

/// How the keys of a link are agreed on.
pub struct KeyAgreement {
    /// The KaY's settings. The SCI is that of the link's SecY.
    pub settings: Settings,
    /// The CAKs, the preferred one first.
    pub caks: Vec<CakEntry>,
    /// The replay window of the receive SAs to come, in PNs.
    pub replay_window: u32,
    /// How long an SDU may wait for others to share its frame, where a SAK's [`mka::Division`] allows it.
    pub hold: Duration,
}

/// The state of a link's key agreement at one moment.
#[derive(Clone, Debug)]
pub struct KeyAgreementStatus {
    /// This moment, on the clock of `status`: from both an age can be had.
    pub now: wire::Instant,
    /// The KaY's state.
    pub status: Status,
    /// What it counted.
    pub counters: KayCounters,
}

impl Gateway {
    /// Adds a link whose keys are agreed on, and whose name no other has. Its SecY has no SA and no receive SC: nothing
    /// passes before there is a SAK. Otherwise as [`Gateway::add`].
    ///
    /// # Errors
    /// If a thread cannot be started, or not be scheduled as it should; if there are no random values.
    pub fn add_agreed(&mut self, _name: String, _link: Link, _agreement: KeyAgreement) -> io::Result<()> {
        todo!()
    }

    /// Puts another path in the place of such a link's own between two turns, for other settings of its SecY. All SAs
    /// go on; the new path's SecY has the same SCI, no SA and no receive SC. A change of `reassemble` or of the MTU
    /// wants [`Gateway::change_key_agreement`] too, so that the others hear of it.
    ///
    /// # Errors
    /// [`Unanswered`].
    pub fn change_agreed(&mut self, _name: &str, _path: Box<Path>) -> Result<(), Unanswered> {
        todo!()
    }

    /// Gives such a link's KaY other settings and CAKs while it runs; the SCI must be the same. SAs that are installed
    /// stay as they are: the replay window is that of those to come.
    ///
    /// # Errors
    /// [`Unanswered`]: there is no such link.
    pub fn change_key_agreement(&mut self, _name: &str, _agreement: KeyAgreement) -> Result<(), Unanswered> {
        todo!()
    }

    /// Asks for another SAK. False if there is no such link.
    pub fn rekey(&mut self, _name: &str) -> bool {
        todo!()
    }

    /// The state of a link's key agreement; `None` if it has none.
    pub fn key_agreement_status(&self, _name: &str) -> Option<KeyAgreementStatus> {
        todo!()
    }
}
