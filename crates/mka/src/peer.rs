//! A peer: a station under one MI, as its last MKPDU shows it, and how long it counts.

use alloc::vec::Vec;
use core::time::Duration;

use serde::{Deserialize, Serialize};
use wire::mkpdu::Capability;
use wire::{Instant, Ki, Mi, Sci};

use crate::announcement::Announcement;
use crate::message::{Message, Use, Uses};
use crate::reachability::Reachability;
use crate::settings::NEVER_KEY_SERVER;
use crate::timers::{FORGOTTEN_DELAY, LIFE, STRAY_INTERVAL, STRAY_INTERVAL_MAX};

/// Most live peers of a participant: the number of a SecY's receive SCs.
pub(crate) const LIVE: usize = 32;
/// Most SAKs requested on behalf of one member.
const MAX_REQUESTS: u8 = 3;

/// A station heard under one MI.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Peer {
    pub(crate) mi: Mi,
    /// Last MN.
    pub(crate) mn: u32,
    pub(crate) sci: Sci,
    pub(crate) priority: u8,
    /// The Key Server bit.
    pub(crate) claims: bool,
    /// True if it wants MACsec and can do it.
    pub(crate) macsec: bool,
    pub(crate) capability: Capability,
    pub(crate) live: bool,
    pub(crate) heard: Instant,
    /// Last proof that it hears us.
    shown: Instant,
    /// Our latest MN that it has proved to have heard.
    pub(crate) heard_mn: u32,
    pub(crate) uses: Uses,
    pub(crate) delay_protect: bool,
    /// Members that are live for it.
    pub(crate) hears: Vec<Mi>,
    pub(crate) announcement: Announcement,
    /// Highest KN among its installed SAKs.
    pub(crate) highest_kn: u32,
    /// Whether it hears fewer members than other candidates.
    reachability: Reachability,
    /// Earliest time for another SAK because it protects with a different one, and the delay before it.
    stray: Option<(Instant, Duration)>,
    /// Since when it has had no SAK.
    without_sak: Option<Instant>,
    /// Number of SAKs requested from its key server on its behalf.
    asked_for: u8,
}

impl Peer {
    /// A potential peer. `highest_kn`: of its SAKs that were installed before it departed.
    pub(crate) fn new(now: Instant, message: &Message<'_>, highest_kn: u32) -> Self {
        let Message { basic, .. } = message;
        let mut peer = Self {
            mi: basic.mi,
            mn: 0,
            sci: basic.sci,
            priority: basic.priority,
            claims: false,
            macsec: false,
            capability: Capability::None,
            live: false,
            heard: now,
            shown: now,
            heard_mn: 0,
            uses: Uses::new(),
            delay_protect: false,
            hears: Vec::new(),
            announcement: Announcement::default(),
            highest_kn,
            reachability: Reachability::default(),
            stray: None,
            without_sak: None,
            asked_for: 0,
        };
        peer.update(now, message);
        peer
    }

    /// A live peer, as far as an election needs it.
    #[cfg(test)]
    pub(crate) fn for_election(mi: Mi, sci: Sci, priority: u8, claims: bool) -> Self {
        Self {
            mi,
            mn: 1,
            sci,
            priority,
            claims,
            macsec: true,
            capability: Capability::Offsets,
            live: true,
            heard: Instant::START,
            shown: Instant::START,
            heard_mn: 1,
            uses: Uses::new(),
            delay_protect: false,
            hears: Vec::new(),
            announcement: Announcement::default(),
            highest_kn: 0,
            reachability: Reachability::default(),
            stray: None,
            without_sak: None,
            asked_for: 0,
        }
    }

    /// Takes over what its next MKPDU says.
    pub(crate) fn update(&mut self, now: Instant, message: &Message<'_>) {
        let Message { basic, .. } = message;
        self.mn = basic.mn;
        self.sci = basic.sci;
        self.priority = basic.priority;
        self.claims = basic.key_server;
        self.macsec = basic.macsec_desired && basic.capability > Capability::None;
        self.capability = basic.capability;
        self.heard = now;
        self.uses = message.uses();
        self.delay_protect = message.delay_protect();
        self.hears.clear();
        self.hears.extend(message.live_members().take(LIVE));
        self.announcement = Announcement::of(message.announcement);
    }

    fn use_of(&self, ki: Ki) -> Option<&Use> {
        self.uses.iter().find(|key| key.ki == ki)
    }

    /// True if its last MKPDU reports reception under this SAK.
    pub(crate) fn receives(&self, ki: Ki) -> bool {
        self.use_of(ki).is_some_and(|key| key.rx)
    }

    /// True if its last MKPDU reports transmission with this SAK.
    pub(crate) fn transmits(&self, ki: Ki) -> bool {
        self.use_of(ki).is_some_and(|key| key.tx)
    }

    /// The SAK that it protects with.
    pub(crate) fn protects_with(&self) -> Option<Ki> {
        self.uses.iter().find(|key| key.tx).map(|key| key.ki)
    }

    /// True if it may be key server.
    pub(crate) const fn stands(&self) -> bool {
        self.priority != NEVER_KEY_SERVER && self.macsec
    }

    /// True if it leaves the role to others because it hears fewer. Other implementations never do.
    pub(crate) const fn yields(&self) -> bool {
        self.announcement.ours && self.reachability.is_lesser()
    }

    /// Records its proof that it hears us, by this MN of ours.
    pub(crate) fn prove(&mut self, now: Instant, heard_mn: u32) {
        self.shown = now;
        self.heard_mn = self.heard_mn.max(heard_mn);
        self.live = true;
    }

    /// Handles a new own MI, whose MNs begin again.
    pub(crate) const fn own_mi_changed(&mut self) {
        self.heard_mn = 0;
    }

    /// Records the KN of an installed SAK of this key server.
    pub(crate) const fn note_installed(&mut self, kn: u32) {
        self.highest_kn = kn;
    }

    /// Records whether it hears fewer members than another candidate.
    pub(crate) fn note_reach(&mut self, now: Instant, lesser: bool) {
        self.reachability.note(now, lesser);
    }

    /// True if another SAK may be made because it protects with a different one.
    pub(crate) fn may_cause_sak(&self, now: Instant) -> bool {
        self.stray.is_none_or(|(from, _)| now >= from)
    }

    /// Delays the next SAK that it may cause. Whatever keeps it from using ours, the others do not get SAK
    /// after SAK because of it.
    pub(crate) fn delay_stray(&mut self, now: Instant) {
        let delay = self.stray.map_or(STRAY_INTERVAL, |(_, before)| (before * 2).min(STRAY_INTERVAL_MAX));
        self.stray = Some((now + delay, delay));
    }

    /// Records whether it lacks a SAK. True if one is to be requested on its behalf now.
    pub(crate) fn note_lack(&mut self, now: Instant, lacks: bool) -> bool {
        if !lacks {
            self.without_sak = None;
            return false;
        }
        let since = *self.without_sak.get_or_insert(now);
        let due = now >= since + FORGOTTEN_DELAY * 2 && self.asked_for < MAX_REQUESTS;
        if due {
            self.asked_for += 1;
            self.without_sak = Some(now);
        }
        due
    }

    /// End of its life time.
    pub(crate) fn expiry(&self) -> Instant {
        if self.live { self.shown + LIFE } else { self.heard + LIFE }
    }

    /// Time at which it begins or ceases to count as one that hears fewer.
    pub(crate) fn reach_deadline(&self) -> Option<Instant> {
        self.reachability.deadline()
    }
}
