//! A key server's SAKs: making and distributing them (IEEE 802.1X-2020 clause 9.8).
//!
//! ```text
//!  a reason ─▶ wait for:  100 ms since its last SAK
//!                         all members use the SAK before, or 6 s since that one
//!                         members of the group that it has not heard yet (taking over), at most 6 s
//!                         2.5 s, if a SAK of another key server is in use; 20 ms, if none is              ─▶ a SAK
//! ```
//!
//! Every MKPDU then holds it until each member reports that it accepts frames under it.

use alloc::vec::Vec;

use suite::CipherSuite;
use suite::mka::Drbg;
use wire::mkpdu::{Confidentiality, DistributedSak};
use wire::{An, Instant, Ki, Mi};

use crate::announcement::Terms;
use crate::participant::Participant;
use crate::peers::Peer;
use crate::reason::SakReason;
use crate::timers::{LIFE, SAK_GAP};

/// A SAK that this station distributes.
#[derive(Debug)]
pub(crate) struct Distribution {
    pub(crate) ki: Ki,
    pub(crate) an: An,
    pub(crate) suite: CipherSuite,
    pub(crate) confidentiality: Confidentiality,
    wrapped: ([u8; 40], usize),
    /// Members that receive it.
    pub(crate) members: Vec<Mi>,
    /// Members live at its creation.
    pub(crate) all: Vec<Mi>,
    /// Those of them that have reported acceptance of frames under it.
    pub(crate) users: Vec<Mi>,
    pub(crate) terms: Terms,
    pub(crate) since: Instant,
}

/// State of a participant as key server.
#[derive(Debug, Default)]
pub(crate) struct KeyServerRole {
    pub(crate) distribution: Option<Distribution>,
    /// Last KN. Never falls, whatever the MI.
    kn: u32,
    /// Reason why a SAK is due, and the earliest time for it.
    need: Option<(SakReason, Instant)>,
    /// Creation time of the last SAK.
    last: Option<Instant>,
}

impl Distribution {
    /// True if a live member has not yet reported acceptance of frames under it.
    pub(crate) fn is_in_progress<'p>(&self, mut live: impl Iterator<Item = &'p Peer>) -> bool {
        live.any(|peer| self.members.contains(&peer.mi) && !peer.receives(self.ki))
    }

    pub(crate) fn parameter_set(&self) -> DistributedSak<'_> {
        let (wrapped, octets) = &self.wrapped;
        DistributedSak {
            an: self.an,
            confidentiality: self.confidentiality,
            kn: self.ki.kn,
            suite: (self.suite != CipherSuite::GcmAes128).then(|| self.suite.identifier()),
            wrapped: &wrapped[..*octets],
        }
    }
}

impl KeyServerRole {
    /// Clears the state of a former key server, or of a former MI.
    pub(crate) fn forget(&mut self) {
        self.distribution = None;
        self.need = None;
    }

    /// Makes a SAK due from this moment. The first reason stays.
    pub(crate) fn need(&mut self, from: Instant, why: SakReason) {
        self.need.get_or_insert((why, from));
    }

    pub(crate) const fn is_needed(&self) -> bool {
        self.need.is_some()
    }

    /// Earliest moment for a due SAK. `expects`: members of the group are not live here yet.
    pub(crate) fn earliest_start(&self, expects: bool) -> Option<Instant> {
        let (_, since) = self.need?;
        let delay = if expects { since + LIFE } else { since };
        Some(self.last.map_or(delay, |last| delay.max(last + SAK_GAP)))
    }
}

/// Makes a SAK for these members, which replaces the previous one. Returns it, and its reason.
pub(crate) fn make(
    now: Instant,
    participant: &mut Participant,
    drbg: &mut Drbg,
    an: An,
    terms: Terms,
    members: Vec<Mi>,
) -> (suite::Sak, SakReason) {
    let Participant { cak, kek, mi, serving, peers, .. } = participant;
    // 2^32 SAKs, one each 100 ms, last for 13 years.
    serving.kn = serving.kn.wrapping_add(1).max(1);
    let ki = Ki { server: *mi, kn: serving.kn };
    let mut nonce = [0; 32];
    let nonce = &mut nonce[..terms.suite.key_octets()];
    drbg.fill(nonce);
    let all: Vec<Mi> = peers.live().map(|peer| peer.mi).collect();
    let participants: Vec<Mi> = all.iter().copied().chain([*mi]).collect();
    let sak = cak.sak(terms.suite, nonce, &participants, ki.kn);
    let (why, _) = serving.need.take().unwrap_or((SakReason::Requested, now));
    serving.last = Some(now);
    serving.distribution = Some(Distribution {
        ki,
        an,
        suite: terms.suite,
        confidentiality: terms.confidentiality,
        wrapped: kek.wrap(&sak),
        members,
        all,
        users: Vec::new(),
        terms,
        since: now,
    });
    participant.schedule.request();
    (sak, why)
}
