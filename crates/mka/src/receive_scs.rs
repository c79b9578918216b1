//! Receive SCs under the SAKs in use: admitted when their stations are heard, expelled when they are gone.

use alloc::vec::Vec;

use wire::{Mi, Sci};

use crate::cp::Cp;
use crate::election::ElectedServer;
use crate::event::FragmentAgreement;
use crate::participants::Participants;
use crate::reason::SakReason;
use crate::settings::OnPeerLoss;
use crate::station::Station;
use crate::terms::{fragmentation, keeps_whole};

/// Admits members that are heard only now, and removes those that are gone.
pub(crate) fn sync(station: &mut Station, participants: &mut Participants, cp: &mut Cp) {
    admit_members(station, participants, cp);
    expel_gone(station, participants, cp);
    request_sak_for_expelled(station, participants, cp);
    request_sak_for_whole(station, participants, cp);
}

/// As a member: admits every peer that the key server lists as live, even without proof that it hears us.
/// The peer's frames arrive as soon as the key server lists it.
fn admit_members(station: &mut Station, participants: &mut Participants, cp: &mut Cp) {
    let Some(latest) = cp.latest() else { return };
    let Some(participant) = participants.find(latest.owner) else { return };
    let Some(server) = participant.server_peer().filter(|server| server.mi == latest.ki.server) else {
        return;
    };
    let others = || server.hears.iter().filter(|mi| **mi != participant.mi());
    let is_to_come =
        |mi: &Mi| participant.peers().find(*mi).is_none() && !participant.is_out_of_reach(station.now(), *mi);
    let to_come = others().any(is_to_come);
    let incomplete = !latest.tx && to_come;
    // The missing members are out of reach: SDUs may be fragmented under the next SAK.
    let out_of_reach = || others().any(|mi| participant.is_out_of_reach(station.now(), *mi));
    let own = station.settings();
    let wanted = (own.fragment || own.concatenate || own.pad)
        && !keeps_whole(station.settings(), participant.peers().live())
        || station.settings().announced.express;
    let heard = || others().filter_map(|mi| participant.peers().find(*mi));
    // Lengths show until the next SAK: that one is asked for wherever all that are left know padding.
    let pads = || own.pad && !latest.fragmentation.pad && fragmentation(own, heard()).pad;
    let divides = wanted && latest.unheard && !to_come && (out_of_reach() || pads());
    let is_too_much = |bearable: FragmentAgreement| {
        latest.fragmentation.fragment && !bearable.fragment
            || latest.fragmentation.concatenate && !bearable.concatenate
            || own.pad && latest.fragmentation.pad && !bearable.pad
            || latest.fragmentation.express && !bearable.express
    };
    // A member takes whole SDUs alone by now, and what it announced was lost when the SAK came.
    let mut too_much = latest.tx && is_too_much(fragmentation(station.settings(), heard()));
    let mut missing: Vec<(Sci, Mi)> = Vec::new();
    if !latest.suite.is_xpn() {
        for peer in heard().filter(|peer| !latest.knows(peer.sci)) {
            // It was out of reach, and would not understand frames under this SAK.
            too_much |= is_too_much(fragmentation(station.settings(), [peer].into_iter()));
            if !missing.iter().any(|(sci, _)| *sci == peer.sci) {
                missing.push((peer.sci, peer.mi));
            }
        }
    }
    for (sci, mi) in missing {
        cp.admit(station, sci, mi);
    }
    if divides {
        cp.note_unheard(false);
    }
    if cp.note_incomplete(incomplete) {
        participants.request_mkpdus();
    }
    if too_much || divides {
        participants.ask_for_sak(cp);
    }
}

/// Removes members that are live for nobody here and for the key server neither. With `hold` they stay as
/// long as the SAK.
fn expel_gone(station: &mut Station, participants: &Participants, cp: &mut Cp) {
    if station.settings().on_peer_loss == OnPeerLoss::Hold {
        return;
    }
    let gone = |sci: Sci, mi: Mi| {
        participants.all().iter().all(|participant| {
            !participant.peers().has_live(sci)
                && !participant.server_peer().is_some_and(|server| server.hears.contains(&mi))
        })
    };
    let gone: Vec<Sci> = cp.scs().iter().filter(|sc| gone(sc.sci, sc.mi)).map(|sc| sc.sci).collect();
    for sci in gone {
        cp.expel(station, sci);
    }
}

/// Asks for a SAK under which nobody sends this station other than whole SDUs: all members carry whole SDUs again, and this station keeps
/// them whole. Each such change asks for one SAK at most.
fn request_sak_for_whole(station: &Station, participants: &mut Participants, cp: &mut Cp) {
    let Some(latest) = cp.latest() else { return };
    let Some(participant) = participants.find(latest.owner) else { return };
    // As of_members asks: the members of a SAK, as far as they were heard, and all live peers.
    let hears = participant.server_peer().map(|server| &server.hears[..]).unwrap_or_default();
    let members = hears.iter().filter_map(|mi| participant.peers().find(*mi));
    let whole = keeps_whole(station.settings(), members.chain(participant.peers().live()));
    let (transmits, server) = (latest.tx, participant.server());
    if !cp.note_whole(whole) || !transmits {
        return;
    }
    match server {
        ElectedServer::Me => participants.need_sak(station.now(), SakReason::Terms),
        ElectedServer::Peer(_) => participants.ask_for_sak(cp),
        ElectedServer::None => return,
    }
    cp.forget_split();
}

/// An expelled station that is live again cannot be admitted under the same SAK: it needs another one.
fn request_sak_for_expelled(station: &Station, participants: &mut Participants, cp: &mut Cp) {
    let Some(latest) = cp.latest() else { return };
    let Some(participant) = participants.find(latest.owner) else { return };
    let Some(back) = participant.peers().live().find(|peer| peer.macsec && latest.has_expelled(peer.sci))
    else {
        return;
    };
    let (sci, server) = (back.sci, participant.server());
    match server {
        ElectedServer::Me => participants.need_sak(station.now(), SakReason::Returned(sci)),
        ElectedServer::Peer(_) => participants.ask_for_sak(cp),
        ElectedServer::None => {}
    }
}
