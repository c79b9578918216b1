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

use serde::{Deserialize, Serialize};
use suite::{CipherSuite, Sak};
use wire::mkpdu::{Confidentiality, DistributedSak};
use wire::{An, Instant, Ki, Mi};

use crate::cp::Cp;
use crate::keys::{Keys, WrappedSak};
use crate::message::Use;
use crate::peer::Peer;
use crate::reason::SakReason;
use crate::station::Station;
use crate::terms::Terms;
use crate::timers::{LIFE, SAK_GAP};

/// A SAK that this station distributes.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Distribution {
    pub(crate) ki: Ki,
    pub(crate) an: An,
    pub(crate) suite: CipherSuite,
    pub(crate) confidentiality: Confidentiality,
    wrapped: WrappedSak,
    /// Members that receive it.
    pub(crate) members: Vec<Mi>,
    /// Members live at its creation.
    pub(crate) all: Vec<Mi>,
    /// Those of them that have reported acceptance of frames under it.
    users: Vec<Mi>,
    pub(crate) terms: Terms,
    pub(crate) since: Instant,
}

/// Properties of a SAK to be made.
#[derive(Debug)]
pub(crate) struct NewSak {
    pub(crate) an: An,
    pub(crate) terms: Terms,
    /// Members that receive it.
    pub(crate) members: Vec<Mi>,
}

/// State of a participant as key server.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct KeyServerRole {
    distribution: Option<Distribution>,
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
        DistributedSak {
            an: self.an,
            confidentiality: self.confidentiality,
            kn: self.ki.kn,
            suite: (self.suite != CipherSuite::GcmAes128).then(|| self.suite.identifier()),
            wrapped: self.wrapped.octets(),
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
    /// The SAK that is distributed.
    pub(crate) const fn distribution(&self) -> Option<&Distribution> {
        self.distribution.as_ref()
    }

    /// Makes a SAK, which replaces the previous one. Returns it, and its reason. `all`: the live members.
    pub(crate) fn make(
        &mut self,
        station: &mut Station,
        keys: &Keys,
        mi: Mi,
        all: Vec<Mi>,
        new: NewSak,
    ) -> (Sak, SakReason) {
        let NewSak { an, terms, members } = new;
        let now = station.now();
        // 2^32 SAKs, one each 100 ms, last for 13 years.
        self.kn = self.kn.wrapping_add(1).max(1);
        let ki = Ki { server: mi, kn: self.kn };
        let mut nonce = [0; 32];
        let nonce = &mut nonce[..terms.suite.key_octets()];
        station.fill(nonce);
        let participants: Vec<Mi> = all.iter().copied().chain([mi]).collect();
        let (sak, wrapped) = keys.make_sak(terms.suite, nonce, &participants, ki.kn);
        let (why, _) = self.need.take().unwrap_or((SakReason::Requested, now));
        self.last = Some(now);
        self.distribution = Some(Distribution {
            ki,
            an,
            suite: terms.suite,
            confidentiality: terms.confidentiality,
            wrapped,
            members,
            all,
            users: Vec::new(),
            terms,
            since: now,
        });
        (sak, why)
    }

    /// Records whether a live peer uses the SAK, and whether its PNs run out under it. True if the peer has
    /// strayed to another SAK, which makes one due.
    pub(crate) fn watch_user(&mut self, now: Instant, peer: &Peer, cp: &Cp) -> bool {
        let Some(distribution) = &mut self.distribution else { return false };
        let ki = distribution.ki;
        let used = distribution.users.iter().position(|user| *user == peer.mi);
        let (mut need, mut strayed) = (None, false);
        match (peer.receives(ki), used) {
            (true, None) => distribution.users.push(peer.mi),
            (false, Some(user)) => {
                distribution.users.swap_remove(user);
                need = Some(SakReason::Dropped(peer.sci));
            }
            (true, Some(_)) | (false, None) => {}
        }
        let sak = cp.find(ki);
        // It has our SAK, and protects with another: it was with another key server meanwhile.
        let strays = peer.protects_with().is_some_and(|other| other != ki) && !peer.transmits(ki);
        if strays && sak.is_some_and(|sak| sak.is_settled()) && peer.may_cause_sak(now) {
            need = Some(SakReason::Dropped(peer.sci));
            strayed = true;
        }
        let exhaustion = sak.map_or(u64::MAX, |sak| sak.exhaustion());
        // A station that does not use the SAK has no PNs under it.
        let is_used = |key: &Use| key.ki == ki && (key.tx || key.rx);
        if peer.uses.iter().any(|key| is_used(key) && key.lowest_pn >= exhaustion) {
            need = Some(SakReason::PnExhaustion(peer.sci));
        }
        if let Some(why) = need {
            self.need(now, why);
        }
        strayed
    }
}
