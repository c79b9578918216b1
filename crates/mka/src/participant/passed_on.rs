//! State of a participant for the next program, without its CAK.

use serde::{Deserialize, Serialize};
use wire::{Instant, Ki, Mi};

use super::Participant;
use crate::distribution::KeyServerRole;
use crate::election::Election;
use crate::gaps::Gaps;
use crate::keys::Keys;
use crate::message_numbers::MessageNumbers;
use crate::observed_faults::ParticipantFaults;
use crate::peers::Peers;
use crate::reason::Refusal;
use crate::send_schedule::SendSchedule;
use crate::settings::CakEntry;

/// State of a participant for the next program.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct PassedParticipant {
    /// By it the next program knows the CAK ([`Keys::check`]).
    cak_check: [u8; 16],
    id: u32,
    mi: Mi,
    message_numbers: MessageNumbers,
    peers: Peers,
    gaps: Gaps,
    election: Election,
    schedule: SendSchedule,
    serving: KeyServerRole,
    refused: Option<(Ki, Refusal)>,
    sak_wait_since: Option<Instant>,
    sak_timeouts: u8,
    faults: ParticipantFaults,
}

impl PassedParticipant {
    /// True if this CAK and its name are the participant's.
    pub(crate) fn is_under(&self, cak: &CakEntry) -> bool {
        Keys::new(cak.clone()).is_check(self.mi, &self.cak_check)
    }
}

impl Participant {
    pub(crate) fn pass_on(&self) -> PassedParticipant {
        // No field is left out by accident.
        let Self {
            id,
            keys,
            mi,
            message_numbers,
            peers,
            gaps,
            election,
            schedule,
            serving,
            refused,
            sak_wait_since,
            sak_timeouts,
            faults,
        } = self;
        PassedParticipant {
            cak_check: keys.check(*mi),
            id: *id,
            mi: *mi,
            message_numbers: message_numbers.clone(),
            peers: peers.clone(),
            gaps: gaps.clone(),
            election: election.clone(),
            schedule: schedule.clone(),
            serving: serving.clone(),
            refused: *refused,
            sak_wait_since: *sak_wait_since,
            sak_timeouts: *sak_timeouts,
            faults: *faults,
        }
    }

    /// Goes on under its CAK.
    pub(crate) fn go_on(passed: PassedParticipant, cak: CakEntry) -> Self {
        let PassedParticipant {
            cak_check: _,
            id,
            mi,
            message_numbers,
            peers,
            gaps,
            election,
            schedule,
            serving,
            refused,
            sak_wait_since,
            sak_timeouts,
            faults,
        } = passed;
        Self {
            id,
            keys: Keys::new(cak),
            mi,
            message_numbers,
            peers,
            gaps,
            election,
            schedule,
            serving,
            refused,
            sak_wait_since,
            sak_timeouts,
            faults,
        }
    }
}
