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
//! 1. A live member without a SAK reports the key server's SAK as an old key at the end of its PNs, neither
//!    sent nor received with.
//! 2. A member with the SAK requests one for another member without.
//! 3. The key server, or a member that can ask it, has another SAK made when members begin to hear each other
//!    after the last one was made.

use alloc::vec::Vec;

use wire::mkpdu::KeyUse;
use wire::{Instant, Ki, Mi};

use crate::election::ElectedServer;
use crate::kay::Kay;
use crate::participant::Participant;
use crate::peers::Peer;
use crate::reason::SakReason;
use crate::timers::{FORGOTTEN_DELAY, SAK_TIMEOUT};

/// Most SAKs requested on behalf of one member.
const MAX_REQUESTS: u8 = 3;
/// A PN beyond which a SAK with 32-bit PNs is replaced.
const EXHAUSTED: u32 = 0xc000_0001;

/// Peers that members of other implementations heard when they took the latest SAK. They accept frames under
/// it from these only.
#[derive(Debug, Default)]
pub(crate) struct SakListeners {
    of: Option<Ki>,
    members: Vec<Listener>,
}

#[derive(Debug)]
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

impl Kay {
    /// Records who hears whom, while a SAK is installed.
    pub(crate) fn record_listeners(&mut self, i: usize, ki: Ki) {
        let participant = &self.participants[i];
        let members = participant.peers.live().filter(|peer| peer.macsec && !peer.announcement.ours);
        let listener = |member: &Peer| {
            let mut listener = Listener::new(member);
            // The key server reports its live members as it makes the SAK.
            if member.mi != ki.server {
                let lists = participant.peers.live().filter(|other| other.hears.contains(&member.mi));
                listener.supposed.extend(lists.map(|other| other.mi).filter(|mi| !member.hears.contains(mi)));
            }
            listener
        };
        self.listeners = SakListeners { of: Some(ki), members: members.map(listener).collect() };
    }

    /// Checks the peers that a member hears. Another SAK is due if the member took this one before it heard
    /// one of them.
    pub(crate) fn check_new_listeners(&mut self, i: usize, mi: Mi) {
        let participant = &self.participants[i];
        let of = self.listeners.of;
        let latest =
            self.cp.latest().filter(|latest| latest.owner == participant.id && Some(latest.ki) == of);
        let Some(ki) = latest.map(|latest| latest.ki) else { return };
        let is_watched = |peer: &&Peer| peer.live && peer.macsec && !peer.announcement.ours;
        let Some(peer) = participant.peers.find(mi).filter(is_watched) else { return };
        let Some(listener) = self.listeners.members.iter_mut().find(|listener| listener.mi == mi) else {
            self.listeners.members.retain(|listener| participant.peers.find(listener.mi).is_some());
            self.listeners.members.push(Listener::new(peer));
            return;
        };
        // The key server has its SAK from the beginning; other members have it when they report so.
        if mi != ki.server && !peer.receives(ki) {
            listener.heard.clone_from(&peer.hears);
            return;
        }
        // A peer that is no longer heard is forgotten: its frames pass again under the next SAK only.
        let before = core::mem::take(&mut listener.heard);
        let supposed = core::mem::take(&mut listener.supposed);
        let mut has_new = false;
        for other in &peer.hears {
            let is_live =
                *other == participant.mi || participant.peers.find(*other).is_some_and(|other| other.live);
            let is_old = *other == ki.server || before.contains(other) || supposed.contains(other);
            has_new |= is_live && !is_old;
            if is_live || is_old {
                listener.heard.push(*other);
            }
        }
        if !has_new {
            return;
        }
        let (sci, server) = (peer.sci, participant.server());
        match server {
            ElectedServer::Me => self.need(SakReason::NewListeners(sci)),
            ElectedServer::Peer(_) if self.server_is_of_another_make() => self.ask_for_sak(),
            ElectedServer::Peer(_) | ElectedServer::None => {}
        }
    }

    /// As a member with a SAK: requests another one on behalf of members without.
    pub(crate) fn report_forgotten(&mut self) {
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
            if now >= since + FORGOTTEN_DELAY * 2 && peer.asked_for < MAX_REQUESTS {
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

    /// SAK Use of a member without a SAK that has waited long enough: reports the key server's key.
    pub(crate) fn forgotten_use(&self, participant: &Participant) -> Option<KeyUse> {
        let asks = |since: &Instant| self.now >= *since + FORGOTTEN_DELAY && self.now < *since + SAK_TIMEOUT;
        participant.sak_wait_since.filter(asks)?;
        let server: &Peer = participant.server_peer().filter(|server| !server.announcement.ours)?;
        let key = server.uses.iter().find(|key| key.tx)?;
        Some(KeyUse { ki: key.ki, an: key.an, tx: false, rx: false, lowest_pn: EXHAUSTED })
    }
}
