//! State of a KaY for the next program of its process: the other members notice nothing.
//!
//! A KaY is passed on between two inputs, while nothing that it asked of its SecY is under way. All that decides its behaviour goes
//! along, but for three things: CAKs, which the next program reads from their files; the keys that follow from them; and the seed of
//! random values, which is a new one. So nothing in it is secret. A SAK is wrapped under the KEK of its CAK, as MKPDUs have it
//! ([`Kay::wrap_sak`]), and the ICV of each CAK shows that the next program has the same one.
//!
//! Moments are those of a clock that goes on. PNs and replay windows are the SecY's.

use alloc::vec::Vec;
use core::fmt;

use serde::{Deserialize, Serialize};
use suite::{CipherSuite, Sak};
use wire::{Instant, Ki};

use crate::cp::Cp;
use crate::interop::SakListeners;
use crate::kay::Kay;
use crate::key_server::KeyServer;
use crate::observed_faults::ForeignMkpdus;
use crate::participant::{Participant, PassedParticipant};
use crate::participants::Participants;
use crate::peer::LIVE;
use crate::peers::POTENTIAL;
use crate::settings::{CakEntry, Settings};
use crate::station::{PassedStation, Station};

/// Form of [`PassedKay`]. Another form of what is in it is another number here: the test `the_form_is_that_of_its_number` knows both.
pub const PASSED_KAY_FORM: u32 = 2;

/// State of a KaY for the next program.
#[derive(Debug, Serialize, Deserialize)]
pub struct PassedKay {
    station: PassedStation,
    /// Participants in their order.
    in_order: Vec<PassedParticipant>,
    /// Shared state of the participants.
    participants: Participants,
    cp: Cp,
    key_server: KeyServer,
    foreign: ForeignMkpdus,
    listeners: SakListeners,
    alone: bool,
    whole: bool,
}

/// Reason why a KaY cannot go on with what was passed on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PassedKayError {
    /// The CAKs are others, or in another order.
    Caks,
    /// The SCI is another one.
    Sci,
    /// It is no state of a KaY.
    Garbled,
}

impl fmt::Display for PassedKayError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Caks => "its CAKs are others",
            Self::Sci => "its SCI is another one",
            Self::Garbled => "the state of its key agreement is garbled",
        })
    }
}

impl core::error::Error for PassedKayError {}

impl PassedKay {
    /// Checks that these are its CAKs, in its order.
    ///
    /// # Errors
    /// [`PassedKayError::Caks`].
    pub fn check_caks(&self, caks: &[CakEntry]) -> Result<(), PassedKayError> {
        let same = self.in_order.len() == caks.len()
            && self.in_order.iter().zip(caks).all(|(passed, cak)| passed.is_under(cak));
        if same { Ok(()) } else { Err(PassedKayError::Caks) }
    }
}

impl Kay {
    /// State for the next program. None while the SecY has a request to carry out, or an event waits: that takes milliseconds.
    pub fn pass_on(&self) -> Option<PassedKay> {
        // No field is left out by accident: a new one has to be named here.
        let Self { station, participants, cp, key_server, foreign, listeners, alone, whole } = self;
        let station = station.pass_on().filter(|_| !cp.awaits_report())?;
        Some(PassedKay {
            station,
            in_order: participants.all().iter().map(Participant::pass_on).collect(),
            participants: participants.shared(),
            cp: cp.clone(),
            key_server: key_server.clone(),
            foreign: *foreign,
            listeners: listeners.clone(),
            alone: *alone,
            whole: *whole,
        })
    }

    /// Goes on where another KaY was. With other settings it goes on as one whose settings change ([`Kay::change`]); the SCI and the
    /// CAKs, the preferred one first, are the same. `seed`: 32 new octets from the operating system.
    ///
    /// # Errors
    /// [`PassedKayError`].
    pub fn go_on(
        now: Instant,
        passed: PassedKay,
        settings: Settings,
        caks: Vec<CakEntry>,
        seed: &[u8; 32],
    ) -> Result<Self, PassedKayError> {
        passed.check_caks(&caks)?;
        let PassedKay { station, in_order, participants, cp, key_server, foreign, listeners, alone, whole } =
            passed;
        let station = Station::go_on(now, station, seed).ok_or(PassedKayError::Garbled)?;
        if station.settings().sci != settings.sci {
            return Err(PassedKayError::Sci);
        }
        let in_order: Vec<Participant> =
            in_order.into_iter().zip(caks).map(|(passed, cak)| Participant::go_on(passed, cak)).collect();
        let is_bounded = |participant: &Participant| {
            let peers = participant.peers();
            peers.live().count() <= LIVE && peers.potential().count() <= POTENTIAL
        };
        if !in_order.iter().all(is_bounded) {
            return Err(PassedKayError::Garbled);
        }
        let participants = participants.with(in_order);
        let mut kay = Self { station, participants, cp, key_server, foreign, listeners, alone, whole };
        if *kay.station.settings() != settings {
            let before = kay.station.configure(settings);
            kay.follow_settings(&before);
        }
        Ok(kay)
    }

    /// An installed SAK, wrapped under its CAK's KEK. None if that CAK is not configured any more.
    pub fn wrap_sak(&self, ki: Ki, sak: &Sak) -> Option<Vec<u8>> {
        Some(self.owner(ki)?.keys().wrap(sak).octets().to_vec())
    }

    /// The SAK that was wrapped so. None if it was not wrapped under its CAK's KEK.
    pub fn unwrap_sak(&self, ki: Ki, suite: CipherSuite, wrapped: &[u8]) -> Option<Sak> {
        self.owner(ki)?.keys().unwrap(suite, wrapped).ok()
    }

    fn owner(&self, ki: Ki) -> Option<&Participant> {
        self.participants.find(self.cp.find(ki)?.owner)
    }
}
