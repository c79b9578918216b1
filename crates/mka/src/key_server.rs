//! The principal participant as key server: when another SAK is due, and making it.

use alloc::vec::Vec;
use core::time::Duration;

use wire::{An, Instant, Mi, Sci};

use crate::announcement::{is_eligible, terms};
use crate::distribution;
use crate::election::ElectedServer;
use crate::kay::Kay;
use crate::participant::Participant;
use crate::peers::Peer;
use crate::reason::{Reason, SakReason};
use crate::timers::{Earliest, START_DELAY, TAKEOVER_DELAY, TRANSMIT_DELAY};

impl Kay {
    /// Records a reason for another SAK.
    pub(crate) fn need(&mut self, why: SakReason) {
        let now = self.now;
        if let Some(principal) = self.principal_mut() {
            principal.serving.need(now, why);
        }
    }

    /// Makes a SAK if one is due and permitted now.
    pub(crate) fn run_key_server(&mut self) {
        let principal = self.principal;
        for participant in &mut self.participants {
            if participant.id != principal || participant.server() != ElectedServer::Me {
                participant.serving.forget();
            }
        }
        let Some(participant) =
            self.principal().filter(|participant| participant.server() == ElectedServer::Me)
        else {
            return;
        };
        let is_led = |peer: &&Peer| participant.peers.led_by(peer, participant.mi).is_some();
        if self.eligible(participant).iter().all(is_led) {
            return;
        }
        if let Some(why) = self.reason_for_sak(participant) {
            let delay = match self.cp.transmitting() {
                Some(sak) if sak.ki.server == participant.mi => Duration::ZERO,
                Some(_) => TAKEOVER_DELAY,
                None => START_DELAY,
            };
            let from = self.now + delay;
            if let Some(principal) = self.principal_mut() {
                principal.serving.need(from, why);
            }
        }
        self.report_left_out();
        let Some(participant) = self.principal() else { return };
        let due = participant.serving.earliest_start(participant.peers.expects());
        if due.is_some_and(|due| due <= self.now) && !self.is_taking_effect(participant) {
            self.make_sak();
        }
    }

    /// Peers that receive this station's SAKs.
    fn eligible<'p>(&self, participant: &'p Participant) -> Vec<&'p Peer> {
        participant.peers.live().filter(|peer| is_eligible(&self.settings, peer)).collect()
    }

    /// Reason for another SAK that the present state shows.
    fn reason_for_sak(&self, participant: &Participant) -> Option<SakReason> {
        let Some(distribution) = &participant.serving.distribution else { return Some(SakReason::Elected) };
        let Some(sak) = self.cp.find(distribution.ki) else { return Some(SakReason::Elected) };
        let eligible = self.eligible(participant);
        let is_led = |peer: &Peer| participant.peers.led_by(peer, participant.mi).is_some();
        // A follower of a key server that is not heard here accepts none of ours: alone, it is no reason for
        // one.
        let is_awaited = distribution.is_in_progress(participant.peers.live().filter(|peer| !is_led(peer)));
        let joined = eligible
            .iter()
            .find(|peer| !distribution.members.contains(&peer.mi) && (is_awaited || !is_led(peer)));
        let lifetime = self.settings.sak_lifetime;
        if let Some(joined) = joined {
            Some(SakReason::Joined(joined.sci))
        } else if sak.pns.next_pn() >= sak.exhaustion() {
            Some(SakReason::PnExhaustion(self.settings.sci))
        } else if self.ssci_order_is_lost(participant)
            || terms(&self.settings, participant.peers.live()) != distribution.terms
        {
            Some(SakReason::Terms)
        } else if lifetime.is_some_and(|lifetime| self.now >= distribution.since + lifetime) {
            Some(SakReason::Lifetime)
        } else {
            None
        }
    }

    /// XPN only. SSCIs follow from the member list in the MKPDU that distributes the SAK. If members have
    /// come or gone before everybody has the SAK, a late recipient would derive others.
    fn ssci_order_is_lost(&self, participant: &Participant) -> bool {
        participant.serving.distribution.as_ref().is_some_and(|distribution| {
            let same = participant.peers.live().count() == distribution.all.len()
                && participant.peers.live().all(|peer| distribution.all.contains(&peer.mi));
            distribution.suite.is_xpn() && !same && distribution.is_in_progress(participant.peers.live())
        })
    }

    /// True if the SAK may still be distributed: every live member was live at its creation.
    pub(crate) fn may_hand_out(&self, participant: &Participant) -> bool {
        participant.serving.distribution.as_ref().is_some_and(|distribution| {
            distribution.is_in_progress(participant.peers.live())
                && self.eligible(participant).iter().all(|peer| distribution.members.contains(&peer.mi))
                && !self.ssci_order_is_lost(participant)
        })
    }

    /// True while not all members of the latest SAK protect with it. The wait keeps the ANs of keys that are
    /// still in use; it is short, and ends if the SAK can no longer be distributed.
    fn is_taking_effect(&self, participant: &Participant) -> bool {
        let Some(latest) = self.cp.latest() else { return false };
        let is_own = participant.serving.distribution.as_ref().filter(|own| own.ki == latest.ki);
        if is_own.is_some_and(|own| own.is_in_progress(participant.peers.live()))
            && !self.may_hand_out(participant)
        {
            return false;
        }
        let Some(owner) = self.participant(latest.owner) else { return false };
        let waits_for = |peer: &&Peer| is_own.is_none_or(|own| own.members.contains(&peer.mi)) && peer.macsec;
        let all = latest.tx && owner.peers.live().filter(waits_for).all(|peer| peer.transmits(latest.ki));
        !all && self.now < latest.since + TRANSMIT_DELAY
    }

    /// Next time at which [`Self::run_key_server`] has work without an input.
    pub(crate) fn serving_deadline(&self) -> Option<Instant> {
        let participant = self.principal().filter(|participant| participant.server() == ElectedServer::Me)?;
        let mut earliest = Earliest::default();
        let mut add = |moment: Option<Instant>| earliest.add(moment.filter(|moment| *moment > self.now));
        if participant.serving.is_needed() {
            add(participant.serving.earliest_start(participant.peers.expects()));
            add(self.cp.latest().map(|latest| latest.since + TRANSMIT_DELAY));
        } else if let (Some(distribution), Some(lifetime)) =
            (&participant.serving.distribution, self.settings.sak_lifetime)
        {
            add(Some(distribution.since + lifetime));
        }
        earliest.moment()
    }

    fn make_sak(&mut self) {
        let Some(participant) = self.principal() else { return };
        let an = self.next_an(participant);
        let terms = terms(&self.settings, participant.peers.live());
        let members: Vec<Mi> = self.eligible(participant).iter().map(|peer| peer.mi).collect();
        let Some(i) = self.participants.iter().position(|participant| participant.id == self.principal)
        else {
            return;
        };
        let participant = &mut self.participants[i];
        let (sak, why) = distribution::make(self.now, participant, &mut self.drbg, an, terms, members);
        let Some(made) = &self.participants[i].serving.distribution else { return };
        let (ki, suite, all) = (made.ki, made.suite, made.all.clone());
        self.counters.saks_made += 1;
        self.out.notify(self.now, Reason::SakMade { ki, an, suite, why });
        let confidentiality = made.confidentiality;
        let new = self.build_association(i, ki, an, (suite, confidentiality, sak), &all);
        let id = self.participants[i].id;
        self.cp.install(self.now, id, new, &mut self.out);
        self.record_listeners(i, ki);
        self.request_mkpdus();
    }

    /// AN of the next SAK: the first unused one behind the latest. AN 0 comes last: other key servers,
    /// wpa_supplicant among them, begin there, whatever is in use. A new key server then does not take the AN
    /// of the SAK in use.
    fn next_an(&self, participant: &Participant) -> An {
        let used: Vec<An> = participant.peers.live().flat_map(|peer| &peer.uses).map(|key| key.an).collect();
        let after = self.cp.latest().map_or(0, |latest| latest.an.number());
        let order = (1..=4).map(|step| An::from_tci((after + step) % 4));
        let (zero, order): (Vec<An>, Vec<An>) = order.partition(|an| an.number() == 0);
        let free = |an: &&An| !used.contains(an) && !self.cp.saks().iter().any(|sak| sak.an == **an);
        *order.iter().chain(&zero).find(free).unwrap_or(&order[0])
    }

    /// Reports once each station that gets no SAK.
    fn report_left_out(&mut self) {
        let Some(participant) = self.principal() else { return };
        let live = participant.peers.live();
        let left_out: Vec<Sci> =
            live.filter(|peer| !is_eligible(&self.settings, peer)).map(|peer| peer.sci).collect();
        for sci in left_out.iter().filter(|sci| !self.left_out.contains(sci)) {
            self.out.notify(self.now, Reason::LeftOut { sci: *sci });
        }
        self.left_out = left_out;
    }
}
