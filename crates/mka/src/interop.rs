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

use crate::election::ElectedServer;
use crate::kay::Kay;
use crate::participant::Participant;
use crate::peers::Peer;
use crate::reason::SakReason;
use crate::timers::{FORGOTTEN_DELAY, SAK_TIMEOUT};

/// So many SAKs at most are asked for in the name of one member.
const MAX_REQUESTS: u8 = 3;
/// A PN beyond which a SAK of 32-bit PNs is to be replaced.
const EXHAUSTED: u32 = 0xc000_0001;

/// Whom members of other makes heard when they took the latest SAK: from those alone they accept frames under it.
#[derive(Debug, Default)]
pub(crate) struct SakListeners {
    of: Option<Ki>,
    members: Vec<Listener>,
}

#[derive(Debug)]
struct Listener {
    mi: Mi,
    heard: Vec<Mi>,
    /// Members that it has live already if it goes by the last MKPDU of each: its own next one says so, or says that not.
    supposed: Vec<Mi>,
}

impl Listener {
    fn new(peer: &Peer) -> Self {
        Self { mi: peer.mi, heard: peer.hears.clone(), supposed: Vec::new() }
    }
}

impl Kay {
    /// A SAK is being installed: notes who hears whom.
    pub(crate) fn record_listeners(&mut self, i: usize, ki: Ki) {
        let participant = &self.participants[i];
        let members = participant.peers.live().filter(|peer| peer.macsec && !peer.announcement.ours);
        let listener = |member: &Peer| {
            let mut listener = Listener::new(member);
            // The key server says whom it has live as it makes the SAK.
            if member.mi != ki.server {
                let lists = participant.peers.live().filter(|other| other.hears.contains(&member.mi));
                listener.supposed.extend(lists.map(|other| other.mi).filter(|mi| !member.hears.contains(mi)));
            }
            listener
        };
        self.listeners = SakListeners { of: Some(ki), members: members.map(listener).collect() };
    }

    /// A member tells whom it hears: another SAK is due if one of them is new to it since it took this one.
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
        // The key server has its SAK from the beginning; another member has it when it says so.
        if mi != ki.server && !peer.receives(ki) {
            listener.heard.clone_from(&peer.hears);
            return;
        }
        // Who is not heard any more is forgotten: its frames are taken again under the next SAK only.
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

    /// As a member with a SAK: asks for another one in the name of those who have none.
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

    /// What a member without a SAK says of the key server's, when it has waited for long enough.
    pub(crate) fn forgotten_use(&self, participant: &Participant) -> Option<KeyUse> {
        let asks = |since: &Instant| self.now >= *since + FORGOTTEN_DELAY && self.now < *since + SAK_TIMEOUT;
        participant.sak_wait_since.filter(asks)?;
        let server: &Peer = participant.server_peer().filter(|server| !server.announcement.ours)?;
        let key = server.uses.iter().find(|key| key.tx)?;
        Some(KeyUse { ki: key.ki, an: key.an, tx: false, rx: false, lowest_pn: EXHAUSTED })
    }
}
