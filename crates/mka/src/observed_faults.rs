//! Faults that received MKPDUs show, for as long as they count.
//!
//! An observation is kept with the state that it explains: with the participant for whose CAK a wrong one was
//! heard, or with the CKN that was heard. It goes with that state: another CAK does not inherit the faults of
//! the previous one.

use core::time::Duration;

use serde::{Deserialize, Serialize};
use wire::{Ckn, Instant, Sci};

use crate::timers::FAULT_HOLD;

/// Interval between repeated reports of the same fault.
const AGAIN: Duration = Duration::from_secs(60);

/// Times of an observed fault and of its last report.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
struct FaultTimer(Option<(Instant, Instant)>);

impl FaultTimer {
    /// Records it. True if operators should be told.
    fn note(&mut self, now: Instant) -> bool {
        match &mut self.0 {
            Some((noticed, told)) if now < *told + AGAIN => {
                *noticed = now;
                false
            }
            noted => {
                *noted = Some((now, now));
                true
            }
        }
    }

    fn is_recent(self, now: Instant) -> bool {
        self.0.is_some_and(|(noticed, _)| now < noticed + FAULT_HOLD)
    }
}

/// A fault that an MKPDU under a participant's CKN shows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Observed {
    /// Its ICV is wrong.
    WrongCak,
    /// Another station has our SCI.
    SciInUse,
    /// There are more stations than can be live.
    TooManyPeers,
}

/// Observed faults of one participant.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(crate) struct ParticipantFaults {
    wrong_cak: FaultTimer,
    sci_in_use: FaultTimer,
    too_many_peers: FaultTimer,
}

impl ParticipantFaults {
    const fn timer(&mut self, fault: Observed) -> &mut FaultTimer {
        match fault {
            Observed::WrongCak => &mut self.wrong_cak,
            Observed::SciInUse => &mut self.sci_in_use,
            Observed::TooManyPeers => &mut self.too_many_peers,
        }
    }

    /// Records a fault. True if operators should be told.
    pub(crate) fn note(&mut self, now: Instant, fault: Observed) -> bool {
        self.timer(fault).note(now)
    }

    pub(crate) fn forget(&mut self, fault: Observed) {
        *self.timer(fault) = FaultTimer::default();
    }

    pub(crate) fn has(mut self, now: Instant, fault: Observed) -> bool {
        self.timer(fault).is_recent(now)
    }
}

/// MKPDUs that fit no participant.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(crate) struct ForeignMkpdus {
    other_ckn: (Option<Ckn>, FaultTimer),
    /// The SCI in the MKPDU with that CKN, as it says.
    other_sci: Option<Sci>,
    other_agility: FaultTimer,
}

impl ForeignMkpdus {
    /// Records another CKN. True if operators should be told.
    pub(crate) fn note_ckn(&mut self, now: Instant, ckn: Ckn, sci: Sci) -> bool {
        self.other_ckn.0 = Some(ckn);
        self.other_sci = Some(sci);
        self.other_ckn.1.note(now)
    }

    /// Records other algorithms. True if operators should be told.
    pub(crate) fn note_agility(&mut self, now: Instant) -> bool {
        self.other_agility.note(now)
    }

    /// The other CKN that was heard last, if that was recently.
    pub(crate) fn other_ckn(&self, now: Instant) -> Option<Ckn> {
        self.other_ckn.0.filter(|_| self.other_ckn.1.is_recent(now))
    }

    /// The SCI that spoke under it.
    pub(crate) const fn other_sci(&self) -> Option<Sci> {
        self.other_sci
    }

    pub(crate) fn has_other_agility(&self, now: Instant) -> bool {
        self.other_agility.is_recent(now)
    }
}
