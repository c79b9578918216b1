//! Contents of our MKPDUs (IEEE 802.1X-2020 clause 11.11.3).
//!
//! Basic, live and potential peers, SAK Use, Distributed SAK, Announcement; XPN with an XPN suite. 32 peers
//! of each kind make 1,400 octets.

use alloc::vec::Vec;

use wire::mkpdu::{
    ALGORITHM_AGILITY, BasicParameters, EAPOL_VERSION, KeyUse, MKA_VERSION, ParameterSet, PeerEntry,
};
use wire::mkpdu::{Capability, PeerList, SakUse, TooLong, Writer};

use crate::announcement;
use crate::kay::{FRAME_OCTETS, Frame, Kay};
use crate::participant::Participant;
use crate::peers::{LIVE, POTENTIAL};

/// The participant's next MKPDU.
pub(crate) fn mkpdu(kay: &Kay, participant: &Participant, mn: u32) -> Frame {
    let mut buffer = [0; FRAME_OCTETS];
    let octets = write(kay, participant, mn, &mut buffer).expect("invariant: peers and suites are bounded");
    octets.iter().copied().collect()
}

fn write<'b>(
    kay: &Kay,
    participant: &Participant,
    mn: u32,
    buffer: &'b mut [u8],
) -> Result<&'b [u8], TooLong> {
    let settings = &kay.settings;
    let basic = BasicParameters {
        version: MKA_VERSION,
        priority: settings.priority,
        key_server: participant.election.claims(&kay.candidate(participant)),
        macsec_desired: settings.capability > Capability::None,
        capability: settings.capability,
        sci: settings.sci,
        mi: participant.mi,
        mn,
        agility: ALGORITHM_AGILITY,
        ckn: participant.ckn,
    };
    let mut writer = Writer::new(buffer, settings.destination, settings.source, EAPOL_VERSION, &basic)?;
    let mut room = [0; 16 * LIVE];
    let live = participant.peers.live_list();
    if !live.is_empty() {
        let key_server_ssci = key_server_ssci(kay, participant);
        let peers = PeerList::write(live.into_iter(), &mut room);
        writer.push(&ParameterSet::LivePeers { key_server_ssci, peers })?;
    }
    let mut room = [0; 16 * POTENTIAL];
    let potential = participant.peers.potential().map(|peer| PeerEntry { mi: peer.mi, mn: peer.mn });
    let potential = PeerList::write(potential, &mut room);
    if !potential.is_empty() {
        writer.push(&ParameterSet::PotentialPeers(potential))?;
    }
    push_sak_use(kay, participant, &mut writer)?;
    if kay.may_hand_out(participant)
        && let Some(distribution) = &participant.serving.distribution
    {
        writer.push(&ParameterSet::DistributedSak(Some(distribution.parameter_set())))?;
    }
    let mut room = [0; announcement::OCTETS];
    let misses = kay.says_that_it_misses(participant);
    writer.push(&ParameterSet::Announcement(announcement::write(settings, misses, &mut room)))?;
    push_xpn(kay, participant, &mut writer)?;
    writer.finish(false, |octets| participant.ick.icv(octets))
}

/// The two keys of SAK Use, with the high halves of their lowest PNs.
fn uses(kay: &Kay, participant: &Participant) -> [Option<(KeyUse, u32)>; 2] {
    let mut uses = kay.cp.uses(kay.now, participant.id);
    if let Some(asked) = kay.asks_to_replace {
        // A member requests another SAK by an almost used-up PN. It stands at the latest key, since some key
        // servers look only there.
        if let [latest @ None, old @ Some(_)] = &mut uses {
            core::mem::swap(latest, old);
        }
        if let Some((key, high)) = uses.iter_mut().flatten().find(|(key, _)| key.ki == asked) {
            // Some key servers react only to a PN beyond it.
            let beyond = kay.cp.find(asked).map_or(0, |sak| sak.exhaustion() + 1);
            (*high, key.lowest_pn) = ((beyond >> 32) as u32, beyond as u32);
        }
    }
    uses
}

fn push_sak_use(kay: &Kay, participant: &Participant, writer: &mut Writer<'_>) -> Result<(), TooLong> {
    let [latest, old] = uses(kay, participant).map(|key| key.map(|(key, _)| key));
    let forgotten = kay.forgotten_use(participant).filter(|_| latest.is_none() && old.is_none());
    let old = old.or(forgotten);
    if latest.is_none() && old.is_none() {
        return Ok(());
    }
    // Nobody may be held to a PN that only requests a SAK and was never used.
    let delay_protect = kay.settings.delay_protect && kay.asks_to_replace.is_none() && forgotten.is_none();
    writer.push(&ParameterSet::SakUse(SakUse {
        latest,
        old,
        plain_tx: false,
        plain_rx: false,
        delay_protect,
    }))
}

fn push_xpn(kay: &Kay, participant: &Participant, writer: &mut Writer<'_>) -> Result<(), TooLong> {
    let is_xpn = kay.cp.saks().iter().any(|sak| sak.owner == participant.id && sak.suite.is_xpn());
    if !is_xpn {
        return Ok(());
    }
    let [latest_lowest_pn_high, old_lowest_pn_high] =
        uses(kay, participant).map(|key| key.map_or(0, |(_, high)| high));
    writer.push(&ParameterSet::Xpn { suspension: 0, latest_lowest_pn_high, old_lowest_pn_high })
}

/// The key server's SSCI. Members that have not heard each other derive theirs from it (MKA version 3).
fn key_server_ssci(kay: &Kay, participant: &Participant) -> u8 {
    let hands_out = participant.serving.distribution.as_ref();
    if !hands_out.is_some_and(|distribution| distribution.suite.is_xpn()) {
        return 0;
    }
    let above: Vec<_> = participant.peers.live().filter(|peer| peer.sci > kay.settings.sci).collect();
    above.len() as u8 + 1
}
