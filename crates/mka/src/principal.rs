//! The principal participant, whose SAK is used; its key server; and the loss of all members.
//!
//! The principal participant is the first one, in the order of configuration, that covers all members of the
//! link ([`crate::membership`]). A fallback CAK takes over when the preferred one has failed, and a new CAK
//! when all members have it.

use alloc::vec::Vec;
use core::time::Duration;

use wire::Instant;

use crate::election::{Candidate, ElectedServer};
use crate::kay::Kay;
use crate::participant::Participant;
use crate::peers::Peer;
use crate::reason::{NewMiReason, Reason};
use crate::settings::OnPeerLoss;
use crate::timers::{LONELY_HOLD, PRINCIPAL_HOLD};

impl Kay {
    /// Removes peers after their life time.
    pub(crate) fn expire(&mut self) {
        for participant in &mut self.participants {
            for Peer { sci, .. } in participant.peers.expire(self.now) {
                self.out.notify(self.now, Reason::PeerLost { sci });
                // Members rely on the key server's list of live members.
                participant.schedule.request();
            }
        }
    }

    pub(crate) fn choose_principal(&mut self) {
        let Some(best) = self.participants.get(self.best_index()) else { return };
        let id = best.id;
        if id == self.principal {
            self.better = None;
            return;
        }
        let since = match self.better {
            Some((better, since)) if better == id => since,
            _ => self.now,
        };
        self.better = Some((id, since));
        if self.principal().is_none() || self.now >= since + self.principal_delay() {
            self.better = None;
            let before = core::mem::replace(&mut self.principal, id);
            self.asks_to_replace = None;
            let is_first = before == 0;
            if let Some(principal) = self.principal_mut().filter(|_| !is_first) {
                principal.schedule.request();
                let ckn = principal.ckn;
                let fallback = self.is_under_fallback();
                self.out.notify(self.now, Reason::Principal { ckn, fallback });
            }
        }
    }

    fn principal_delay(&self) -> Duration {
        if self.is_lonely() { LONELY_HOLD } else { PRINCIPAL_HOLD }
    }

    pub(crate) fn principal_deadline(&self) -> Option<Instant> {
        self.better.map(|(_, since)| since + self.principal_delay())
    }

    pub(crate) fn elect(&mut self) {
        let me = self.me();
        let in_use = self.cp.transmitting().map(|sak| sak.ki);
        for participant in &mut self.participants {
            participant.peers.note_reach(self.now, me.stands());
            let me = Candidate { yields: participant.peers.own_reachability.is_lesser(), ..me };
            let (peers, own) = (&participant.peers, participant.mi);
            let live: Vec<&Peer> = peers.live().collect();
            let all_led = live.iter().all(|peer| !peer.macsec || peers.led_by(peer, own).is_some());
            let is_led_away = |peer: &Peer| {
                peers.led_by(peer, own).is_some() && (all_led || in_use == peer.protects_with())
            };
            if !participant.election.elect(self.now, &me, &live, is_led_away) {
                continue;
            }
            participant.schedule.request();
            participant.refused = None;
            if participant.id == self.principal {
                let reason = match participant.election.server() {
                    ElectedServer::None => Reason::NoKeyServer,
                    ElectedServer::Me => Reason::KeyServerMyself,
                    ElectedServer::Peer(mi) => match participant.peers.find(mi) {
                        Some(peer) => Reason::KeyServer { sci: peer.sci },
                        None => Reason::NoKeyServer,
                    },
                };
                self.out.notify(self.now, reason);
            }
        }
    }

    /// Treatment of the SAK when all members are gone: fail closed, or hold.
    pub(crate) fn check_peer_loss(&mut self) {
        if self.has_company() || self.cp.latest().is_none() {
            self.alone = false;
            return;
        }
        let held = self.settings.on_peer_loss == OnPeerLoss::Hold;
        if !held || !self.alone {
            self.out.notify(self.now, Reason::Alone { held });
        }
        self.alone = true;
        if !held {
            self.cp.retire_all(self.now, &mut self.out);
            // They may still have us live, and the SAK in use, which we never accept again.
            self.begin_anew(NewMiReason::Blocked);
        }
    }

    /// Restarts a member that gets no SAK. For the key server it has restarted, which is a reason for another
    /// SAK.
    pub(crate) fn check_sak_timeout(&mut self) {
        let has_sak = self.cp.latest().is_some();
        let principal = self.principal;
        // A participant that is no longer the principal one waits for nothing.
        let waits = |participant: &Participant| {
            participant.id == principal
                && !has_sak
                && participant.refused.is_none()
                && participant.server_peer().is_some()
        };
        for participant in self.participants.iter_mut().filter(|participant| !waits(participant)) {
            participant.sak_wait_since = None;
            if has_sak {
                participant.sak_timeouts = 0;
            }
        }
        let Some(i) = self.participants.iter().position(waits) else { return };
        let participant = &mut self.participants[i];
        let since = *participant.sak_wait_since.get_or_insert(self.now);
        if self.now >= participant.sak_timeout_at(since) {
            participant.sak_timeouts = participant.sak_timeouts.saturating_add(1);
            self.draw_mi(i, NewMiReason::Starved);
        }
    }
}
