//! Parameters of a SAK's SAs: who is admitted under it, with which SSCI, and whether SDUs are fragmented or whole.

use alloc::vec::Vec;

use suite::{CipherSuite, Sak, mka};
use wire::mkpdu::Confidentiality;
use wire::{An, Ki, Mi, Sci, Ssci};

use crate::event::{Admission, Association};
use crate::participant::Participant;
use crate::peer::Peer;
use crate::station::Station;
use crate::terms::{fragmentation, keeps_whole};

/// Parameters of a SAK for these members (without us), as far as they were heard; and their MIs.
pub(crate) fn of_members(
    station: &Station,
    participant: &Participant,
    (ki, an): (Ki, An),
    (suite, confidentiality, sak): (CipherSuite, Confidentiality, Sak),
    members: &[Mi],
) -> (Association, Vec<Mi>) {
    let settings = station.settings();
    let peers: Vec<&Peer> = members.iter().filter_map(|mi| participant.peers().find(*mi)).collect();
    // The highest SCI has SSCI 1 (IEEE 802.1AE clause 10.7.13).
    let mut scis: Vec<Sci> = peers.iter().map(|peer| peer.sci).chain([settings.sci]).collect();
    scis.sort_unstable_by(|a, b| b.cmp(a));
    scis.dedup();
    let ssci = |sci: Sci| {
        let place = scis.iter().position(|other| *other == sci).unwrap_or_default();
        Ssci(place as u32 + 1)
    };
    let receive =
        peers.iter().map(|peer| Admission { sci: peer.sci, ssci: suite.is_xpn().then(|| ssci(peer.sci)) });
    // A member out of reach receives nothing, fragmented or not.
    let is_heard =
        |mi: &Mi| participant.peers().find(*mi).is_some() || participant.is_out_of_reach(station.now(), *mi);
    let all_heard = members.iter().all(is_heard);
    // Only the members that receive the SAK. A station that has just gone may still be live here, and not
    // for the key server.
    let mut fragmentation = fragmentation(settings, peers.iter().copied());
    // Announced terms depend on live peers, and the frames that peers send on the members.
    let of_members = peers.iter().copied().chain(participant.peers().live());
    let whole = keeps_whole(settings, of_members);
    fragmentation.fragment &= all_heard && !whole;
    fragmentation.concatenate &= all_heard && !whole;
    fragmentation.pad &= all_heard && !whole;
    fragmentation.express &= all_heard;
    let association = Association {
        ki,
        an,
        suite,
        sak,
        confidentiality,
        xpn: suite.is_xpn().then(|| (mka::salt(&ki), ssci(settings.sci))),
        receive: receive.collect(),
        fragmentation,
        whole: whole
            || !settings.announced.reassembles
                && !settings.announced.splits
                && !settings.announced.takes_padded,
    };
    (association, peers.iter().map(|peer| peer.mi).collect())
}
