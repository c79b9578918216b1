//! A SAK that the key server distributes: checking it, and installing it.

use alloc::vec::Vec;

use suite::{CipherSuite, Sak};
use wire::mkpdu::{Capability, Confidentiality, DistributedSak};
use wire::{Ki, Mi};

use crate::announcement::listed;
use crate::association;
use crate::cp::Cp;
use crate::election::ElectedServer;
use crate::message::Message;
use crate::participant::Participant;
use crate::peer::Peer;
use crate::reason::{Reason, Refusal};
use crate::settings::Settings;
use crate::station::Station;

/// Handles a distributed SAK under the principal participant's CAK. Accepts only a SAK of its elected key
/// server, in an MKPDU that lists us as live with a recent MN. No recorded MKPDU of an earlier session has
/// that. Returns the identifier of an installed SAK.
pub(crate) fn handle(
    station: &mut Station,
    principal: &mut Participant,
    cp: &mut Cp,
    message: &Message<'_>,
    offered: Option<DistributedSak<'_>>,
) -> Option<Ki> {
    let (now, mi) = (station.now(), message.basic.mi);
    let is_ours = principal.server() == ElectedServer::Peer(mi);
    let lists_us = principal.recent_listing(now, message).is_some_and(|listing| listing.live);
    let server = principal.peers().find(mi).filter(|_| is_ours && lists_us)?;
    let from = server.sci;
    let ki = Ki { server: mi, kn: offered.map_or(0, |offered| offered.kn) };
    match evaluate(station.settings(), cp, principal, server, ki, offered) {
        Ok(None) => None,
        Ok(Some((suite, sak, offered))) => {
            let members: Vec<Mi> =
                message.live_members().filter(|member| *member != principal.mi()).chain([mi]).collect();
            let properties = (suite, offered.confidentiality, sak);
            let new = association::of_members(station, principal, (ki, offered.an), properties, &members);
            let is_unheard =
                |mi: &Mi| principal.peers().find(*mi).is_none() && !principal.is_out_of_reach(now, *mi);
            let unheard = members.iter().any(is_unheard);
            principal.accept(ki);
            station.notify(Reason::SakTaken { ki, an: offered.an, suite, from });
            cp.install(station, principal.id(), new);
            cp.note_unheard(unheard);
            Some(ki)
        }
        Err(why) => {
            if principal.refuse(ki, why) {
                station.count(|counters| {
                    counters.saks_refused += 1;
                    counters.saks_weaker += u64::from(matches!(why, Refusal::Weaker(_)));
                });
                station.notify(Reason::SakRefused { from, why });
            }
            None
        }
    }
}

/// The distributed SAK; `None` if it is installed, or cannot be installed yet.
fn evaluate<'f>(
    settings: &Settings,
    cp: &Cp,
    participant: &Participant,
    server: &Peer,
    ki: Ki,
    offered: Option<DistributedSak<'f>>,
) -> Result<Option<(CipherSuite, Sak, DistributedSak<'f>)>, Refusal> {
    let offered = offered.ok_or(Refusal::NoMacsec)?;
    if cp.find(ki).is_some() {
        return Ok(None);
    }
    if ki.kn <= server.highest_kn {
        return Err(Refusal::Old(ki));
    }
    let suite = match offered.suite {
        None => CipherSuite::GcmAes128,
        Some(identifier) => {
            CipherSuite::from_identifier(identifier).ok_or(Refusal::UnknownSuite(identifier))?
        }
    };
    if !listed(settings).contains(&suite) {
        return Err(Refusal::Suite(suite));
    }
    let needed = match offered.confidentiality {
        Confidentiality::Integrity => Capability::Integrity,
        Confidentiality::Zero => Capability::Confidentiality,
        Confidentiality::Thirty | Confidentiality::Fifty => Capability::Offsets,
    };
    let offset = needed == Capability::Offsets;
    if settings.capability < needed || offset && !suite.allows_confidentiality_offset() {
        return Err(Refusal::Confidentiality(offered.confidentiality));
    }
    // Otherwise user data would leave in clear at another station's word.
    let floor = settings.confidentiality;
    if !settings.accept_integrity && hidden(offered.confidentiality) < hidden(floor) {
        return Err(Refusal::Weaker(offered.confidentiality));
    }
    // The MKPDU lists members that were not heard yet, and the SSCIs depend on their SCIs. It will be
    // repeated.
    if suite.is_xpn()
        && server.hears.iter().any(|mi| *mi != participant.mi() && participant.peers().find(*mi).is_none())
    {
        return Ok(None);
    }
    let sak = participant.keys().unwrap(suite, offered.wrapped)?;
    Ok(Some((suite, sak, offered)))
}

/// Degree of confidentiality, for comparison.
const fn hidden(confidentiality: Confidentiality) -> u8 {
    match confidentiality {
        Confidentiality::Integrity => 0,
        Confidentiality::Fifty => 1,
        Confidentiality::Thirty => 2,
        Confidentiality::Zero => 3,
    }
}
