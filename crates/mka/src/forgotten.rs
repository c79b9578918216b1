//! Help for groups with key servers and members of other makes, where a station that starts anew is forgotten.
//!
//! wpa_supplicant (2.10, 2.11) ignores a station that has started anew until the MI before is no longer live for it; then it
//! makes a SAK for those who are left. When the station is live under its new MI less than a life time later, it makes none:
//! it goes by the time since its last SAK, and does not come back to it. A live member without SAK Use is dropped after ten
//! MKPDUs, which is a reason for a SAK without it, and so on, for ever. And a member accepts frames under a SAK only from those
//! who are live for it when it takes the SAK: whom it hears later it never hears under that SAK.
//!
//! What a key server does act on is a SAK Use that says of its SAK that PNs run out (IEEE 802.1X-2020 clause 9.8). So
//!
//! 1. a member that is live and gets no SAK names the key server's, as an old key that it neither sends nor receives with,
//!    at the end of its PNs;
//! 2. a member that has the SAK asks in the name of another one that has none;
//! 3. whoever is key server, or can ask it, has another SAK made when members have come to hear each other after it was made.

use alloc::vec::Vec;

use wire::mkpdu::KeyUse;
use wire::{Instant, Ki, Mi};

use crate::election::Server;
use crate::kay::Kay;
use crate::participant::Participant;
use crate::peers::Peer;
use crate::reason::SakReason;
use crate::timers::{FORGOTTEN, STARVED};

/// So many SAKs at most are asked for in the name of one member.
const TIMES: u8 = 3;
/// A PN beyond which a SAK of 32-bit PNs is to be replaced.
const EXHAUSTED: u32 = 0xc000_0001;

/// Members of other makes that did not hear others when the latest SAK was made.
#[derive(Debug, Default)]
pub(crate) struct Unmet {
    of: Option<Ki>,
    /// Who does not hear whom.
    pairs: Vec<(Mi, Mi)>,
}

impl Kay {
    /// A SAK is being installed: notes who does not hear whom.
    pub(crate) fn note_unmet(&mut self, i: usize, ki: Ki) {
        let participant = &self.participants[i];
        let own = participant.mi;
        let mut pairs = Vec::new();
        for member in participant.peers.live().filter(|peer| peer.macsec && !peer.announcement.ours) {
            let others = participant.peers.live().filter(|other| other.mi != member.mi);
            // Who is listed by one that hears it has that one live already, and says so with its next MKPDU. The key server
            // says whom it has live as it makes the SAK.
            let has_just_met = |other: &Peer| member.mi != ki.server && other.hears.contains(&member.mi);
            let unmet = others.filter(|other| !member.hears.contains(&other.mi) && !has_just_met(other));
            pairs.extend(unmet.map(|other| (member.mi, other.mi)));
            if ki.server != own && !member.hears.contains(&own) {
                pairs.push((member.mi, own));
            }
        }
        self.unmet = Unmet { of: Some(ki), pairs };
    }

    /// A member tells whom it hears: another SAK is due if one of them is new to it since it took this one.
    pub(crate) fn watch_meetings(&mut self, i: usize, mi: Mi) {
        let participant = &self.participants[i];
        let is_latest = self
            .cp
            .latest()
            .is_some_and(|latest| Some(latest.ki) == self.unmet.of && latest.owner == participant.id);
        let Some(peer) = participant.peers.find(mi).filter(|peer| peer.live && is_latest) else { return };
        let before = self.unmet.pairs.len();
        self.unmet.pairs.retain(|(by, whom)| *by != mi || !peer.hears.contains(whom));
        if self.unmet.pairs.len() == before {
            return;
        }
        let (sci, server) = (peer.sci, participant.server());
        match server {
            Server::Me => self.need(SakReason::Met(sci)),
            Server::Peer(_) if self.server_is_of_another_make() => self.ask_for_sak(),
            Server::Peer(_) | Server::None => {}
        }
    }

    /// As a member with a SAK: asks for another one in the name of those who have none.
    pub(crate) fn mind_forgotten(&mut self) {
        let now = self.now;
        let asks = self.server_is_of_another_make();
        let principal = self.principal;
        let Some(latest) = self.cp.latest().filter(|latest| latest.owner == principal && latest.tx) else {
            return;
        };
        let ki = latest.ki;
        let Some(participant) = self.principal_mut() else { return };
        let mut forgotten = false;
        for peer in participant.peers.live_mut() {
            let has_none = peer.macsec
                && !peer.announcement.ours
                && peer.mi != ki.server
                && peer.protects_with().is_none()
                && !peer.receives(ki);
            if !has_none || !asks {
                peer.without_sak = None;
                continue;
            }
            let since = *peer.without_sak.get_or_insert(now);
            if now >= since + FORGOTTEN * 2 && peer.asked_for < TIMES {
                peer.asked_for += 1;
                peer.without_sak = Some(now);
                forgotten = true;
            }
        }
        if forgotten {
            self.ask_for_sak();
        }
    }

    fn server_is_of_another_make(&self) -> bool {
        self.principal().and_then(Participant::server_peer).is_some_and(|server| !server.announcement.ours)
    }

    /// What a member without a SAK says of the key server's, when it has waited for long enough.
    pub(crate) fn forgotten_use(&self, participant: &Participant) -> Option<KeyUse> {
        let asks = |since: &Instant| self.now >= *since + FORGOTTEN && self.now < *since + STARVED;
        participant.starved.filter(asks)?;
        let server: &Peer = participant.server_peer().filter(|server| !server.announcement.ours)?;
        let key = server.uses.iter().find(|key| key.tx)?;
        Some(KeyUse { ki: key.ki, an: key.an, tx: false, rx: false, lowest_pn: EXHAUSTED })
    }
}
