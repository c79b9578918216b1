//! The participants of a KaY; the principal one, whose SAK is used; and their key servers.
//!
//! The principal participant is the first one, in the order of configuration, that covers all members of the
//! link ([`crate::membership`]). A fallback CAK takes over when the preferred one has failed, and a new CAK
//! when all members have it.

use alloc::vec::Vec;

use serde::{Deserialize, Serialize};
use wire::{Ckn, Instant, Ki, Sci};

use crate::cp::Cp;
use crate::election::ElectedServer;
use crate::interop;
use crate::membership::{Membership, PREFERRED};
use crate::observed_faults::Observed;
use crate::participant::Participant;
use crate::reason::{NewMiReason, Reason, SakReason};
use crate::settings::{CakEntry, Settings};
use crate::station::Station;
use crate::timers::{Earliest, LONELY_HOLD, PRINCIPAL_HOLD};

/// One participant for each CAK.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Participants {
    /// In the order of configuration.
    #[serde(skip)]
    in_order: Vec<Participant>,
    /// Identity of the principal participant.
    principal: u32,
    /// A better participant than the principal one, and since when.
    better: Option<(u32, Instant)>,
    membership: Membership,
    last_id: u32,
}

/// All of them.
impl Participants {
    /// Participants for these CAKs, in this order. Existing ones continue.
    pub(crate) fn configure(&mut self, station: &mut Station, caks: Vec<CakEntry>) {
        if let (Some(before), Some(now)) = (self.in_order.first(), caks.first())
            && !before.keys().are_of(now)
        {
            self.membership.prefer_another(&self.in_order);
        }
        let mut before = core::mem::take(&mut self.in_order);
        for entry in caks {
            let same = |old: &Participant| old.keys().are_of(&entry);
            if self.in_order.iter().any(same) {
                continue;
            }
            let participant = match before.iter().position(same) {
                Some(i) => before.remove(i),
                None => {
                    self.last_id += 1;
                    let participant = Participant::new(self.last_id, entry, station);
                    station.notify(Reason::Started { ckn: participant.ckn(), mi: participant.mi() });
                    participant
                }
            };
            self.in_order.push(participant);
        }
        for gone in before {
            station.notify(Reason::Ended { ckn: gone.ckn() });
        }
    }

    /// Shared state, without the participants.
    pub(crate) fn shared(&self) -> Self {
        let Self { in_order: _, principal, better, ref membership, last_id } = *self;
        Self { in_order: Vec::new(), principal, better, membership: membership.clone(), last_id }
    }

    /// With these ones.
    pub(crate) fn with(self, in_order: Vec<Participant>) -> Self {
        Self { in_order, ..self }
    }

    pub(crate) fn all(&self) -> &[Participant] {
        &self.in_order
    }

    pub(crate) fn at_mut(&mut self, i: usize) -> &mut Participant {
        &mut self.in_order[i]
    }

    /// The participant with this identity.
    pub(crate) fn find(&self, id: u32) -> Option<&Participant> {
        self.in_order.iter().find(|participant| participant.id() == id)
    }

    /// Requests an MKPDU of each participant.
    pub(crate) fn request_mkpdus(&mut self) {
        self.in_order.iter_mut().for_each(Participant::request_mkpdu);
    }

    pub(crate) fn draw_mi(&mut self, station: &mut Station, i: usize, why: NewMiReason) {
        let participant = &mut self.in_order[i];
        participant.draw_mi(station);
        station.notify(Reason::NewMi { mi: participant.mi(), why });
    }

    /// Gives each participant a new MI.
    pub(crate) fn begin_anew(&mut self, station: &mut Station, why: NewMiReason) {
        (0..self.in_order.len()).for_each(|i| self.draw_mi(station, i, why));
    }

    /// Forgets that another station had our SCI, which is another one now.
    pub(crate) fn forget_sci_conflict(&mut self) {
        self.in_order.iter_mut().for_each(|participant| participant.forget_fault(Observed::SciInUse));
    }

    /// Removes peers after their life time.
    pub(crate) fn expire(&mut self, station: &mut Station) {
        self.in_order.iter_mut().for_each(|participant| participant.expire(station));
    }

    /// Next time at which they have work without an input, besides MKPDUs and SAKs to make.
    pub(crate) fn deadline(&self, settings: &Settings) -> Option<Instant> {
        let mut earliest = Earliest::default();
        self.in_order.iter().for_each(|participant| earliest.add(participant.deadline()));
        earliest.add(self.principal_due(settings));
        earliest.add(self.membership.deadline());
        earliest.moment()
    }
}

/// Membership of the link.
impl Participants {
    /// Records live stations, and reports those that do not belong to the link.
    pub(crate) fn report_strangers(&mut self, station: &mut Station) {
        if self.membership.note(station.settings(), &self.in_order) {
            self.in_order[PREFERRED].request_mkpdu();
        }
        self.membership.report_strangers(station, &self.in_order);
    }

    /// Stations that have been live for a while and do not belong to the link, with their CKNs.
    pub(crate) fn strangers(&self, now: Instant) -> Vec<(Sci, Ckn)> {
        self.membership.strangers(now)
    }

    /// The station that was live last under the preferred CAK.
    pub(crate) fn last_live(&self) -> Option<Sci> {
        self.membership.last_live()
    }

    /// True if this station belongs to the link.
    pub(crate) fn is_known(&self, settings: &Settings, sci: Sci) -> bool {
        self.membership.is_known(settings, sci)
    }

    /// True if this participant misses a station and announces that to members that may not know it.
    pub(crate) fn says_that_it_misses(&self, settings: &Settings, participant: &Participant) -> bool {
        self.in_order.first().is_some_and(|first| first.id() == participant.id())
            && self.membership.misses(settings, &self.in_order, PREFERRED)
    }

    /// True if anybody is live with whom keys may be agreed on.
    pub(crate) fn has_company(&self, settings: &Settings) -> bool {
        (0..self.in_order.len()).any(|i| self.membership.counts(settings, &self.in_order, i))
    }
}

/// The principal one.
impl Participants {
    pub(crate) const fn principal_id(&self) -> u32 {
        self.principal
    }

    pub(crate) fn principal(&self) -> Option<&Participant> {
        self.find(self.principal)
    }

    pub(crate) fn principal_mut(&mut self) -> Option<&mut Participant> {
        self.in_order.iter_mut().find(|participant| participant.id() == self.principal)
    }

    /// True if keys are agreed on under another CAK than the preferred one.
    pub(crate) fn is_under_fallback(&self) -> bool {
        self.in_order.first().is_some_and(|preferred| preferred.id() != self.principal)
    }

    /// Chooses the principal participant. True if it is another one.
    pub(crate) fn choose_principal(&mut self, station: &mut Station) -> bool {
        let best = self.membership.best_index(station.settings(), &self.in_order);
        let Some(best) = self.in_order.get(best) else { return false };
        let id = best.id();
        if id == self.principal {
            self.better = None;
            return false;
        }
        let since = match self.better {
            Some((better, since)) if better == id => since,
            _ => station.now(),
        };
        self.better = Some((id, since));
        let now = station.now();
        let is_due = self.principal().is_none()
            || self.principal_due(station.settings()).is_some_and(|due| now >= due);
        if is_due {
            self.better = None;
            let is_first = core::mem::replace(&mut self.principal, id) == 0;
            if let Some(principal) = self.principal_mut().filter(|_| !is_first) {
                principal.request_mkpdu();
                let ckn = principal.ckn();
                station.notify(Reason::Principal { ckn, fallback: self.is_under_fallback() });
            }
        }
        is_due
    }

    /// Time at which the better participant becomes the principal one. None while that would be for stations that
    /// are not live under the principal one, and have not been heard under the better one since: they are silent.
    fn principal_due(&self, settings: &Settings) -> Option<Instant> {
        let (better, since) = self.better?;
        let index = |id| self.in_order.iter().position(|participant| participant.id() == id);
        let (better, principal) = (index(better)?, index(self.principal)?);
        let has_company = self.membership.counts(settings, &self.in_order, principal);
        let due = since + if has_company { PRINCIPAL_HOLD } else { LONELY_HOLD };
        let mut gained = self.membership.gained(settings, &self.in_order, better, principal).peekable();
        if gained.peek().is_none() {
            return Some(due);
        }
        // Its MKPDU under the other CAK may come right behind.
        let heard = gained.filter(|heard| *heard >= since).min()?;
        Some(due.max(heard + LONELY_HOLD))
    }
}

/// Key servers, and requests to them.
impl Participants {
    /// Elects each participant's key server. `in_use`: the SAK that this station protects with.
    pub(crate) fn elect(&mut self, station: &mut Station, in_use: Option<Ki>) {
        let me = station.candidate();
        for participant in &mut self.in_order {
            if participant.elect(station.now(), &me, in_use) && participant.id() == self.principal {
                station.notify(match participant.server() {
                    ElectedServer::None => Reason::NoKeyServer,
                    ElectedServer::Me => Reason::KeyServerMyself,
                    ElectedServer::Peer(mi) => match participant.peers().find(mi) {
                        Some(peer) => Reason::KeyServer { sci: peer.sci },
                        None => Reason::NoKeyServer,
                    },
                });
            }
        }
    }

    /// Clears the state of former key servers.
    pub(crate) fn end_former_servers(&mut self) {
        for participant in &mut self.in_order {
            if participant.id() != self.principal || participant.server() != ElectedServer::Me {
                participant.end_serving();
            }
        }
    }

    /// As key server: makes another SAK due from this moment.
    pub(crate) fn need_sak(&mut self, from: Instant, why: SakReason) {
        if let Some(principal) = self.principal_mut() {
            principal.need_sak(from, why);
        }
    }

    /// As a member: requests another SAK from the key server.
    pub(crate) fn ask_for_sak(&mut self, cp: &mut Cp) {
        if cp.ask_for_sak(self.principal) {
            self.request_mkpdus();
        }
    }

    /// Restarts a member that gets no SAK. For the key server it has restarted, which is a reason for another
    /// SAK.
    pub(crate) fn check_sak_timeout(&mut self, station: &mut Station, cp: &Cp) {
        let is_withheld = self.principal().is_some_and(|principal| interop::withholds_sak(principal, cp));
        let has_sak = cp.latest().is_some() && !is_withheld;
        let principal = self.principal;
        // A participant that is no longer the principal one waits for nothing.
        let waits = |participant: &Participant| {
            participant.id() == principal
                && !has_sak
                && participant.refused().is_none()
                && participant.server_peer().is_some()
        };
        for participant in self.in_order.iter_mut().filter(|participant| !waits(participant)) {
            // Without a key server nothing shows that the next one hands its SAK out.
            let is_served = has_sak && participant.server_peer().is_some();
            participant.stop_waiting(is_served);
        }
        let Some(i) = self.in_order.iter().position(waits) else { return };
        if self.in_order[i].wait_for_sak(station.now()) {
            self.draw_mi(station, i, NewMiReason::Starved);
        }
    }
}
