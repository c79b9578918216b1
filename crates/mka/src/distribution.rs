//! What a key server does: makes SAKs and hands them out (IEEE 802.1X-2020 clause 9.8).
//!
//! ```text
//!  a reason ─▶ wait for:  100 ms since its last SAK
//!                         all members use the SAK before, or 6 s since that one
//!                         members of the group that it has not heard yet (taking over), at most 6 s
//!                         2.5 s, if a SAK of another key server is in use; 20 ms, if none is              ─▶ a SAK
//! ```
//!
//! Then it stands in every MKPDU until each member says that it accepts frames under it.

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

/// A SAK that this station hands out.
#[derive(Debug)]
pub(crate) struct Distribution {
    pub(crate) ki: Ki,
    pub(crate) an: An,
    pub(crate) suite: CipherSuite,
    pub(crate) confidentiality: Confidentiality,
    wrapped: ([u8; 40], usize),
    /// For whom it is.
    pub(crate) members: Vec<Mi>,
    /// Who was live when it was made.
    pub(crate) all: Vec<Mi>,
    /// Those of them who have said that they accept frames under it.
    pub(crate) users: Vec<Mi>,
    pub(crate) terms: Terms,
    pub(crate) since: Instant,
}

/// A participant's work as key server.
#[derive(Debug, Default)]
pub(crate) struct KeyServerRole {
    pub(crate) distribution: Option<Distribution>,
    /// The last KN. Never falls, whatever the MI.
    kn: u32,
    /// Why a SAK is due, and since when (with what it has to wait for at least).
    need: Option<(SakReason, Instant)>,
    /// When the last SAK was made.
    last: Option<Instant>,
}

impl Distribution {
    /// Whether a live member has yet to say that it accepts frames under it.
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
    /// No key server any more, or as another member: what was handed out is no longer.
    pub(crate) fn forget(&mut self) {
        self.distribution = None;
        self.need = None;
    }

    /// A SAK is due from this moment on. The first reason stays.
    pub(crate) fn need(&mut self, from: Instant, why: SakReason) {
        self.need.get_or_insert((why, from));
    }

    pub(crate) const fn is_needed(&self) -> bool {
        self.need.is_some()
    }

    /// The moment from which on a SAK that is due may be made. `expects`: members of the group are not live here yet.
    pub(crate) fn earliest_start(&self, expects: bool) -> Option<Instant> {
        let (_, since) = self.need?;
        let delay = if expects { since + LIFE } else { since };
        Some(self.last.map_or(delay, |last| delay.max(last + SAK_GAP)))
    }
}

/// Makes a SAK for these members, which replaces the one before. Returns it, and why.
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
