//! The principal participant as key server: when another SAK is due, and making it.

use alloc::vec::Vec;
use core::time::Duration;

use serde::{Deserialize, Serialize};
use wire::{An, Instant, Ki, Sci};

use crate::association;
use crate::cp::Cp;
use crate::distribution::NewSak;
use crate::election::ElectedServer;
use crate::participant::Participant;
use crate::participants::Participants;
use crate::peer::Peer;
use crate::reason::{Reason, SakReason};
use crate::settings::Settings;
use crate::station::Station;
use crate::terms::{is_eligible, terms};
use crate::timers::{Earliest, START_DELAY, TAKEOVER_DELAY, TRANSMIT_DELAY};

/// This station as key server.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct KeyServer {
    /// Live stations without a SAK.
    left_out: Vec<Sci>,
}

impl KeyServer {
    /// Makes a SAK if one is due and permitted now, and returns its identifier.
    pub(crate) fn run(
        &mut self,
        station: &mut Station,
        participants: &mut Participants,
        cp: &mut Cp,
    ) -> Option<Ki> {
        participants.end_former_servers();
        let is_server = |participant: &&Participant| participant.server() == ElectedServer::Me;
        let participant = participants.principal().filter(is_server)?;
        let is_led = |peer: &&Peer| participant.is_led_away(peer);
        if eligible(station.settings(), participant).iter().all(is_led) {
            return None;
        }
        if let Some(why) = reason_for_sak(station, participant, cp) {
            let delay = match cp.transmitting() {
                Some(sak) if sak.ki.server == participant.mi() => Duration::ZERO,
                Some(_) => TAKEOVER_DELAY,
                None => START_DELAY,
            };
            participants.need_sak(station.now() + delay, why);
        }
        let participant = participants.principal()?;
        self.report_left_out(station, participant);
        let due = participant.serving().earliest_start(participant.peers().expects())?;
        if due <= station.now() && !is_taking_effect(station, participants, participant, cp) {
            return make_sak(station, participants, cp);
        }
        None
    }

    /// Reports once each station that gets no SAK.
    fn report_left_out(&mut self, station: &mut Station, participant: &Participant) {
        let live = participant.peers().live();
        let left_out: Vec<Sci> =
            live.filter(|peer| !is_eligible(station.settings(), peer)).map(|peer| peer.sci).collect();
        for sci in left_out.iter().filter(|sci| !self.left_out.contains(sci)) {
            station.notify(Reason::LeftOut { sci: *sci });
        }
        self.left_out = left_out;
    }
}

/// Next time at which [`KeyServer::run`] has work without an input.
pub(crate) fn deadline(station: &Station, participants: &Participants, cp: &Cp) -> Option<Instant> {
    let participant =
        participants.principal().filter(|participant| participant.server() == ElectedServer::Me)?;
    let mut earliest = Earliest::default();
    let mut add = |moment: Option<Instant>| earliest.add(moment.filter(|moment| *moment > station.now()));
    if participant.serving().is_needed() {
        add(participant.serving().earliest_start(participant.peers().expects()));
        add(cp.latest().map(|latest| latest.since + TRANSMIT_DELAY));
    } else if let (Some(distribution), Some(lifetime)) =
        (participant.distribution(), station.settings().sak_lifetime)
    {
        add(Some(distribution.since + lifetime));
    }
    earliest.moment()
}

/// True if the SAK may still be distributed: every live member was live at its creation.
pub(crate) fn may_hand_out(settings: &Settings, participant: &Participant) -> bool {
    participant.distribution().is_some_and(|distribution| {
        distribution.is_in_progress(participant.peers().live())
            && eligible(settings, participant).iter().all(|peer| distribution.members.contains(&peer.mi))
            && !ssci_order_is_lost(participant)
    })
}

/// Peers that receive this station's SAKs.
fn eligible<'p>(settings: &Settings, participant: &'p Participant) -> Vec<&'p Peer> {
    participant.peers().live().filter(|peer| is_eligible(settings, peer)).collect()
}

/// Reason for another SAK that the present state shows.
fn reason_for_sak(station: &Station, participant: &Participant, cp: &Cp) -> Option<SakReason> {
    let Some(distribution) = participant.distribution() else { return Some(SakReason::Elected) };
    let Some(sak) = cp.find(distribution.ki) else { return Some(SakReason::Elected) };
    let settings = station.settings();
    let eligible = eligible(settings, participant);
    let is_led = |peer: &Peer| participant.is_led_away(peer);
    // A follower of a key server that is not heard here accepts none of ours: alone, it is no reason for one.
    let is_awaited = distribution.is_in_progress(participant.peers().live().filter(|peer| !is_led(peer)));
    let joined = eligible
        .iter()
        .find(|peer| !distribution.members.contains(&peer.mi) && (is_awaited || !is_led(peer)));
    if let Some(joined) = joined {
        Some(SakReason::Joined(joined.sci))
    } else if sak.is_exhausted() {
        Some(SakReason::PnExhaustion(settings.sci))
    } else if ssci_order_is_lost(participant)
        || terms(settings, participant.peers().live()) != distribution.terms
    {
        Some(SakReason::Terms)
    } else if settings.sak_lifetime.is_some_and(|lifetime| station.now() >= distribution.since + lifetime) {
        Some(SakReason::Lifetime)
    } else {
        None
    }
}

/// XPN only. SSCIs follow from the member list in the MKPDU that distributes the SAK. If members have come or
/// gone before everybody has the SAK, a late recipient would derive others.
fn ssci_order_is_lost(participant: &Participant) -> bool {
    participant.distribution().is_some_and(|distribution| {
        let live = participant.peers().live();
        let same = live.clone().count() == distribution.all.len()
            && live.clone().all(|peer| distribution.all.contains(&peer.mi));
        distribution.suite.is_xpn() && !same && distribution.is_in_progress(live)
    })
}

/// True while not all members of the latest SAK protect with it. The wait keeps the ANs of keys that are still
/// in use; it is short, and ends if the SAK can no longer be distributed.
fn is_taking_effect(
    station: &Station,
    participants: &Participants,
    participant: &Participant,
    cp: &Cp,
) -> bool {
    let Some(latest) = cp.latest() else { return false };
    let is_own = participant.distribution().filter(|own| own.ki == latest.ki);
    if is_own.is_some_and(|own| own.is_in_progress(participant.peers().live()))
        && !may_hand_out(station.settings(), participant)
    {
        return false;
    }
    let Some(owner) = participants.find(latest.owner) else { return false };
    let waits_for = |peer: &&Peer| is_own.is_none_or(|own| own.members.contains(&peer.mi)) && peer.macsec;
    let all = latest.tx && owner.peers().live().filter(waits_for).all(|peer| peer.transmits(latest.ki));
    !all && station.now() < latest.since + TRANSMIT_DELAY
}

fn make_sak(station: &mut Station, participants: &mut Participants, cp: &mut Cp) -> Option<Ki> {
    let participant = participants.principal_mut()?;
    let an = next_an(participant, cp);
    let terms = terms(station.settings(), participant.peers().live());
    let members = eligible(station.settings(), participant).iter().map(|peer| peer.mi).collect();
    let (sak, why) = participant.make_sak(station, NewSak { an, terms, members });
    let made = participant.distribution()?;
    let (ki, suite) = (made.ki, made.suite);
    station.count(|counters| counters.saks_made += 1);
    station.notify(Reason::SakMade { ki, an, suite, why });
    let properties = (suite, made.confidentiality, sak);
    let new = association::of_members(station, participant, (ki, an), properties, &made.all);
    cp.install(station, participant.id(), new);
    participants.request_mkpdus();
    Some(ki)
}

/// AN of the next SAK: the first unused one behind the latest. AN 0 comes last: other key servers,
/// wpa_supplicant among them, begin there, whatever is in use. A new key server then does not take the AN of
/// the SAK in use.
fn next_an(participant: &Participant, cp: &Cp) -> An {
    let used: Vec<An> = participant.peers().live().flat_map(|peer| &peer.uses).map(|key| key.an).collect();
    let after = cp.latest().map_or(0, |latest| latest.an.number());
    let order = (1..=4).map(|step| An::from_tci((after + step) % 4));
    let (zero, order): (Vec<An>, Vec<An>) = order.partition(|an| an.number() == 0);
    let free = |an: &&An| !used.contains(an) && !cp.saks().iter().any(|sak| sak.an == **an);
    *order.iter().chain(&zero).find(free).unwrap_or(&order[0])
}
