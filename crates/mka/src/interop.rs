//! Interoperation with other implementations that forget a restarted station.
//!
//! wpa_supplicant (2.10, 2.11) ignores a restarted station until its previous MI is no longer live. Then it
//! makes a SAK for the remaining members. If the station becomes live under its new MI less than a life time
//! later, wpa_supplicant makes no SAK for it: it measures the time since its last SAK, and does not retry. It
//! drops a live member without SAK Use after ten MKPDUs, makes a SAK without it, and so on without end. Also,
//! a member accepts frames under a SAK only from peers that were live when it took the SAK. Frames of later
//! peers never pass under that SAK.
//!
//! Such a key server does react to a SAK Use that reports exhausted PNs of its SAK (IEEE 802.1X-2020 clause
//! 9.8). So:
//!
//! 1. A live member without the key server's SAK reports it as an old key at the end of its PNs, neither sent
//!    nor received with. It may have another SAK: a restarted station makes one with those that hear it first.
//!    It then reports no other key, since wpa_supplicant looks at one alone. A key server without any SAK acts
//!    on none, so the member restarts in the end.
//! 2. A member with the SAK requests one for another member without.
//! 3. The key server, or a member that can ask it, has another SAK made when members begin to hear each other
//!    after the last one was made.

use alloc::vec::Vec;

use serde::{Deserialize, Serialize};
use wire::mkpdu::KeyUse;
use wire::{Instant, Ki, Mi, Sci};

use crate::cp::Cp;
use crate::participant::Participant;
use crate::peer::Peer;
use crate::timers::{FORGOTTEN_DELAY, SAK_TIMEOUT};

/// A PN beyond which a SAK with 32-bit PNs is replaced.
const EXHAUSTED: u32 = 0xc000_0001;

/// Peers that members of other implementations heard when they took the latest SAK. They accept frames under
/// it from these only.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct SakListeners {
    of: Option<Ki>,
    members: Vec<Listener>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Listener {
    mi: Mi,
    heard: Vec<Mi>,
    /// Members that it should have live by their last MKPDUs. Its next MKPDU confirms or refutes this.
    supposed: Vec<Mi>,
}

impl Listener {
    fn new(peer: &Peer) -> Self {
        Self { mi: peer.mi, heard: peer.hears.clone(), supposed: Vec::new() }
    }
}

impl SakListeners {
    /// Records who hears whom, while a SAK is installed.
    pub(crate) fn record(&mut self, participant: &Participant, ki: Ki) {
        let members = participant.peers().live().filter(|peer| peer.macsec && !peer.announcement.ours);
        let listener = |member: &Peer| {
            let mut listener = Listener::new(member);
            // The key server reports its live members as it makes the SAK.
            if member.mi != ki.server {
                let lists = participant.peers().live().filter(|other| other.hears.contains(&member.mi));
                listener.supposed.extend(lists.map(|other| other.mi).filter(|mi| !member.hears.contains(mi)));
            }
            listener
        };
        *self = Self { of: Some(ki), members: members.map(listener).collect() };
    }

    /// Checks the peers that a member hears. Another SAK is due if the member took this one before it heard
    /// one of them: then the member's SCI.
    pub(crate) fn check(&mut self, participant: &Participant, cp: &Cp, mi: Mi) -> Option<Sci> {
        let latest =
            cp.latest().filter(|latest| latest.owner == participant.id() && Some(latest.ki) == self.of);
        let ki = latest?.ki;
        let is_watched = |peer: &&Peer| peer.live && peer.macsec && !peer.announcement.ours;
        let peer = participant.peers().find(mi).filter(is_watched)?;
        let Some(listener) = self.members.iter_mut().find(|listener| listener.mi == mi) else {
            self.members.retain(|listener| participant.peers().find(listener.mi).is_some());
            self.members.push(Listener::new(peer));
            return None;
        };
        // The key server has its SAK from the beginning; other members have it when they report so.
        if mi != ki.server && !peer.receives(ki) {
            listener.heard.clone_from(&peer.hears);
            return None;
        }
        // A peer that is no longer heard is forgotten: its frames pass again under the next SAK only.
        let before = core::mem::take(&mut listener.heard);
        let supposed = core::mem::take(&mut listener.supposed);
        let mut has_new = false;
        for other in &peer.hears {
            let is_live = *other == participant.mi()
                || participant.peers().find(*other).is_some_and(|other| other.live);
            let is_old = *other == ki.server || before.contains(other) || supposed.contains(other);
            has_new |= is_live && !is_old;
            if is_live || is_old {
                listener.heard.push(*other);
            }
        }
        has_new.then_some(peer.sci)
    }
}

/// True if a key server of another make has not handed its SAK out to this station, which has another one.
pub(crate) fn withholds_sak(participant: &Participant, cp: &Cp) -> bool {
    let server = participant.server_peer().filter(|server| !server.announcement.ours);
    server.is_some_and(|server| {
        let mut sends = server.uses.iter().filter(|key| key.tx).peekable();
        let own = || cp.saks().iter().map(|sak| sak.ki).filter(|ki| ki.server == server.mi);
        match sends.peek() {
            // It goes on with the SAK before until all have the one that it hands out.
            Some(_) => sends.all(|key| {
                let is_overtaken = |ki: Ki| key.ki.server != server.mi || ki.kn > key.ki.kn;
                cp.find(key.ki).is_none() && !own().any(is_overtaken)
            }),
            None => own().next().is_none(),
        }
    })
}

/// As a member with a SAK: records members without. True if another SAK is to be requested on their behalf.
pub(crate) fn has_forgotten_members(now: Instant, participant: &mut Participant, ki: Ki) -> bool {
    let asks = participant.server_is_of_another_make();
    participant.note_lack(now, |peer| {
        asks && peer.macsec
            && !peer.announcement.ours
            && peer.mi != ki.server
            && peer.protects_with().is_none()
            && !peer.receives(ki)
    })
}

/// SAK Use of a member without the key server's SAK that has waited long enough: reports that one.
pub(crate) fn forgotten_use(now: Instant, participant: &Participant) -> Option<KeyUse> {
    let asks = |since: &Instant| now >= *since + FORGOTTEN_DELAY && now < *since + SAK_TIMEOUT;
    participant.sak_wait_since().filter(asks)?;
    let server: &Peer = participant.server_peer().filter(|server| !server.announcement.ours)?;
    let key = server.uses.iter().find(|key| key.tx)?;
    Some(KeyUse { ki: key.ki, an: key.an, tx: false, rx: false, lowest_pn: EXHAUSTED })
}
