//! Faults that prevent a secured link, for operators.
//!
//! An observation is kept with the state that it explains: with the participant for whose CAK a wrong one was
//! heard, or with the CKN that was heard. It goes with that state: another CAK does not inherit the faults of
//! the previous one.

use core::fmt;
use core::time::Duration;

use wire::mkpdu::Capability;
use wire::{Ckn, Instant};

use crate::announcement::is_eligible;
use crate::election::ElectedServer;
use crate::kay::Kay;
use crate::reachability::Gap;
use crate::reason::Refusal;
use crate::timers::FAULT_HOLD;

/// Interval between repeated reports of the same fault.
const AGAIN: Duration = Duration::from_secs(60);

/// Fault that prevents a secured link.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// No CAK is configured.
    NoCak,
    /// Another station has our SCI.
    SciInUse,
    /// There are more stations than a SecY can receive from.
    TooManyPeers,
    /// Nobody is live, and MKPDUs under our CKN have wrong ICVs.
    WrongCak,
    /// Nobody is live, and MKPDUs under another CKN are heard.
    OtherCkn,
    /// Nobody is live, and MKPDUs with other algorithms are heard.
    OtherAgility,
    /// Only stations that do not belong to the link are live.
    Strangers,
    /// Nobody is live, and a heard station has not proved that it hears us.
    OneWay,
    /// No station is heard.
    Alone,
    /// No station may be key server.
    NoKeyServer,
    /// A live station gets no SAK.
    LeftOut,
    /// Some members do not hear each other: the first such pair. Status lists all.
    Partial(Gap),
    /// The key server's SAK is rejected.
    Refused(Refusal),
    /// This station must not do MACsec.
    NoMacsec,
    /// The SAK waits for stations to accept it.
    NotAccepted,
    /// This station has to make a SAK.
    SakDue,
    /// The key server has to make a SAK.
    SakAwaited,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoCak => "no CAK is configured",
            Self::SciInUse => {
                "another station uses the SCI of this one: give each its own MAC address or sci"
            }
            Self::TooManyPeers => "more than 33 stations share this CAK: at least one is left out",
            Self::WrongCak => "a station with the same CKN has another CAK: compare the cak of both ends",
            Self::OtherCkn => "a station speaks under another CKN: compare the ckn of both ends",
            Self::OtherAgility => {
                "a station uses other key agreement algorithms than IEEE 802.1X-2020 knows"
            }
            Self::Strangers => {
                "a station has the fallback CAK, but is not known to belong to this link: give it the preferred CAK, or name it in peers"
            }
            Self::OneWay => {
                "a station is heard, but has not shown that it hears this one: perhaps frames pass in one direction only"
            }
            Self::Alone => {
                "no other station is heard: check the link, the VLAN, and whether the switches forward the MKPDUs' destination address"
            }
            Self::NoKeyServer => "no key server: all stations have priority 255, or none can do MACsec",
            Self::LeftOut => {
                "a station is left out: it does not do MACsec, or lacks the configured cipher suite"
            }
            Self::Partial(gap) => return gap.fmt(f),
            Self::Refused(why) => refused(*why),
            Self::NoMacsec => "this station is configured without MACsec",
            Self::NotAccepted => "a SAK is installed, and will protect when all stations accept it",
            Self::SakDue => "a SAK is due, but stations of the group are missing",
            Self::SakAwaited => "waiting for the key server's SAK",
        })
    }
}

/// Times of an observed fault and of its last report.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct FaultTimer(Option<(Instant, Instant)>);

impl FaultTimer {
    /// Records it. True if operators should be told.
    pub(crate) fn note(&mut self, now: Instant) -> bool {
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

/// Faults of one participant.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ParticipantFaults {
    /// MKPDUs under its CKN have wrong ICVs.
    pub(crate) wrong_cak: FaultTimer,
    /// Another station has its SCI.
    pub(crate) sci_in_use: FaultTimer,
    /// There are more stations than can be live.
    pub(crate) too_many_peers: FaultTimer,
}

/// MKPDUs that fit no participant.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ForeignMkpdus {
    other_ckn: (Option<Ckn>, FaultTimer),
    pub(crate) other_agility: FaultTimer,
}

impl ForeignMkpdus {
    /// Records another CKN. True if operators should be told.
    pub(crate) fn note_ckn(&mut self, now: Instant, ckn: Ckn) -> bool {
        self.other_ckn.0 = Some(ckn);
        self.other_ckn.1.note(now)
    }
}

impl Kay {
    /// The present fault, if any.
    pub(crate) fn fault(&self, now: Instant) -> Option<Fault> {
        let recent = |of: fn(&ParticipantFaults) -> FaultTimer| {
            self.participants.iter().any(|participant| of(&participant.faults).is_recent(now))
        };
        let Some(principal) = self.principal() else { return Some(Fault::NoCak) };
        if recent(|faults| faults.sci_in_use) {
            return Some(Fault::SciInUse);
        }
        if recent(|faults| faults.too_many_peers) {
            return Some(Fault::TooManyPeers);
        }
        if principal.peers.live().next().is_none() {
            return Some(if recent(|faults| faults.wrong_cak) {
                Fault::WrongCak
            } else if self.hears_other_ckn(now) {
                Fault::OtherCkn
            } else if self.foreign.other_agility.is_recent(now) {
                Fault::OtherAgility
            } else if !self.strangers(now).is_empty() {
                Fault::Strangers
            } else if principal.peers.potential().next().is_some() {
                Fault::OneWay
            } else {
                Fault::Alone
            });
        }
        let left_out = || principal.peers.live().any(|peer| !is_eligible(&self.settings, peer));
        let secured = self.cp.transmitting().is_some();
        let gap = || principal.peers.gaps(now).first().copied();
        match principal.server() {
            ElectedServer::None if !secured => Some(gap().map_or(Fault::NoKeyServer, Fault::Partial)),
            ElectedServer::Me if left_out() => Some(Fault::LeftOut),
            ElectedServer::Peer(_) if let Some((_, why)) = principal.refused => Some(Fault::Refused(why)),
            ElectedServer::Me | ElectedServer::Peer(_)
                if !secured && self.settings.capability == Capability::None =>
            {
                Some(Fault::NoMacsec)
            }
            ElectedServer::Me | ElectedServer::Peer(_) if !secured && self.cp.latest().is_some() => {
                Some(Fault::NotAccepted)
            }
            ElectedServer::Me if !secured => Some(gap().map_or(Fault::SakDue, Fault::Partial)),
            ElectedServer::Peer(_) if !secured => Some(gap().map_or(Fault::SakAwaited, Fault::Partial)),
            _ => gap().map(Fault::Partial),
        }
    }

    /// A CKN that has become ours meanwhile is not foreign.
    fn hears_other_ckn(&self, now: Instant) -> bool {
        let (ckn, noted) = self.foreign.other_ckn;
        let is_ours = self.participants.iter().any(|participant| Some(participant.ckn) == ckn);
        !is_ours && noted.is_recent(now)
    }
}

const fn refused(why: Refusal) -> &'static str {
    match why {
        Refusal::NoMacsec => "the key server tells members not to use MACsec: check its configuration",
        Refusal::UnknownSuite(_) => {
            "the key server chose a cipher suite that this station lacks: set suite alike at both ends"
        }
        Refusal::Suite(_) => {
            "the key server chose a cipher suite that this station's configuration does not allow: set suite alike at both ends"
        }
        Refusal::Confidentiality(_) => {
            "the key server asks for a confidentiality offset that this station does not support"
        }
        Refusal::Weaker(_) => {
            "the key server's keys hide less than encrypt asks for here, so this station refuses them: set encrypt alike at both ends, or accept_integrity = true here"
        }
        Refusal::Unwrap => "the key server's SAK cannot be unwrapped under the CAK",
        Refusal::Old(_) => {
            "the key server distributes a SAK that was in use before: it has to make a new one"
        }
    }
}
