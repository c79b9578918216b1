//! Peers of a participant: which are heard, which are live (IEEE 802.1X-2020 clause 9.4.3), and which MKPDUs
//! are fresh.
//!
//! ```text
//!             MKPDU with an ICV that is right          lists us with an MN that we sent of late
//!   nobody ───────────────────────────────▶ potential ────────────────────────────────▶ live
//!      ▲                                       │ 6 s unheard                              │ 6 s without listing us,
//!      └───────────────────────────────────────┴──────────────────────────────────────────┘ or its SCI lives under another MI
//! ```
//!
//! All tables are bounded: [`LIVE`] and [`POTENTIAL`] peers, [`DEPARTED`] remembered ones. MKPDUs under a
//! pre-shared CAK can be recorded and replayed years later. So an MI without proof that it hears us changes
//! only the list of potential peers: a recorded start of a live peer does not end its life. Of two MIs with
//! one SCI (a restarted station), the one lives that has heard our later MKPDU. Late or withheld MKPDUs of
//! the earlier MI do not bring it back. Attacks: `tests/groups/hostile.rs`.

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::time::Duration;

use wire::mkpdu::{BasicParameters, Capability, PeerEntry};
use wire::{Instant, Ki, Mi, Sci};

use crate::announcement::Announcement;
use crate::counters::Discard;
use crate::election::NEVER;
use crate::message::{Message, Use, Uses};
use crate::reachability::{ObservedGap, Reachability};
use crate::timers::{Earliest, LIFE, OVERDUE};

/// Most live peers of a participant: the number of a SecY's receive SCs.
pub(crate) const LIVE: usize = 32;
/// Most potential peers. A new one evicts the one that was unheard for longest.
pub(crate) const POTENTIAL: usize = 32;
/// Most remembered departed peers.
const DEPARTED: usize = 64;
/// Most members that only others have heard and that are waited for.
const EXPECTED: usize = LIVE;

/// A station heard under one MI.
#[derive(Clone, Debug)]
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
    heard_mn: u32,
    pub(crate) uses: Uses,
    pub(crate) delay_protect: bool,
    /// Members that are live for it.
    pub(crate) hears: Vec<Mi>,
    pub(crate) announcement: Announcement,
    /// Highest KN among its installed SAKs.
    pub(crate) highest_kn: u32,
    /// Whether it hears fewer members than other candidates.
    pub(crate) reachability: Reachability,
    /// Earliest time for another SAK because it protects with a different one, and the delay before it.
    pub(crate) stray: Option<(Instant, Duration)>,
    /// Since when it has had no SAK.
    pub(crate) without_sak: Option<Instant>,
    /// Number of SAKs requested from its key server on its behalf.
    pub(crate) asked_for: u8,
}

impl Peer {
    fn new(now: Instant, message: &Message<'_>) -> Self {
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
            highest_kn: 0,
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
    pub(crate) fn for_election(mi: Mi, sci: Sci, priority: u8) -> Self {
        Self {
            mi,
            mn: 1,
            sci,
            priority,
            claims: true,
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

    fn update(&mut self, now: Instant, message: &Message<'_>) {
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
        self.priority != NEVER && self.macsec
    }

    /// True if it leaves the role to others because it hears fewer. Other implementations never do.
    pub(crate) const fn yields(&self) -> bool {
        self.announcement.ours && self.reachability.is_lesser()
    }

    fn expiry(&self) -> Instant {
        if self.live { self.shown + LIFE } else { self.heard + LIFE }
    }
}

/// Effect of a peer's MKPDU on its state.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Change {
    /// Nothing new.
    None,
    /// Heard for the first time, without proof that it hears us.
    Potential,
    /// Has proved that it hears us.
    Live {
        /// True if its SCI was live under another MI.
        restarted: bool,
    },
}

/// A former peer.
#[derive(Debug)]
pub(crate) struct Departed {
    pub(crate) mi: Mi,
    pub(crate) sci: Sci,
    mn: u32,
    highest_kn: u32,
    /// True if its SCI continues under another MI.
    left: bool,
}

/// The peers of a participant.
#[derive(Debug, Default)]
pub(crate) struct Peers {
    pub(crate) known: Vec<Peer>,
    pub(crate) departed: VecDeque<Departed>,
    /// Members that are live for a peer with a SAK, but not here.
    expected: Vec<(Mi, Instant)>,
    /// Whether this station hears fewer members than other candidates.
    pub(crate) own_reachability: Reachability,
    pub(crate) gaps: Vec<ObservedGap>,
}

impl Peers {
    pub(crate) fn all(&self) -> &[Peer] {
        &self.known
    }

    pub(crate) fn live(&self) -> impl Iterator<Item = &Peer> + Clone {
        self.known.iter().filter(|peer| peer.live)
    }

    pub(crate) fn live_mut(&mut self) -> impl Iterator<Item = &mut Peer> {
        self.known.iter_mut().filter(|peer| peer.live)
    }

    pub(crate) fn potential(&self) -> impl Iterator<Item = &Peer> + Clone {
        self.known.iter().filter(|peer| !peer.live)
    }

    pub(crate) fn find(&self, mi: Mi) -> Option<&Peer> {
        self.known.iter().find(|peer| peer.mi == mi)
    }

    pub(crate) fn find_mut(&mut self, mi: Mi) -> Option<&mut Peer> {
        self.known.iter_mut().find(|peer| peer.mi == mi)
    }

    /// True if a live peer has this SCI.
    pub(crate) fn has_live(&self, sci: Sci) -> bool {
        self.live().any(|peer| peer.sci == sci)
    }

    /// Live peers by descending SCI: the order of SSCIs.
    pub(crate) fn live_list(&self) -> Vec<PeerEntry> {
        let mut live: Vec<&Peer> = self.live().collect();
        live.sort_unstable_by_key(|peer| core::cmp::Reverse(peer.sci));
        live.iter().map(|peer| PeerEntry { mi: peer.mi, mn: peer.mn }).collect()
    }

    /// True if members of a group with a SAK are not live here yet.
    pub(crate) fn expects(&self) -> bool {
        !self.expected.is_empty()
    }

    /// Freshness of an MKPDU: its MN exceeds all earlier ones of its MI, and the MI was not replaced since.
    pub(crate) fn validate(&self, basic: &BasicParameters, heard_mn: Option<u32>) -> Result<(), Discard> {
        let departed = self.departed.iter().find(|departed| departed.mi == basic.mi);
        let last = match (self.find(basic.mi), departed) {
            (Some(peer), _) => peer.mn,
            (None, Some(departed)) if departed.left && !self.shows_more(basic, heard_mn) => {
                return Err(Discard::Departed);
            }
            (None, Some(departed)) => departed.mn,
            (None, None) => 0,
        };
        if basic.mn > last { Ok(()) } else { Err(Discard::OldMn) }
    }

    /// True if this MI has heard a later MKPDU of ours than any other live MI of its SCI.
    fn shows_more(&self, basic: &BasicParameters, heard_mn: Option<u32>) -> bool {
        heard_mn.is_some_and(|heard_mn| {
            let mut others = self.live().filter(|peer| peer.sci == basic.sci && peer.mi != basic.mi);
            others.all(|other| heard_mn > other.heard_mn)
        })
    }

    /// Handles a new own MI, whose MNs begin again.
    pub(crate) fn own_mi_changed(&mut self) {
        self.known.iter_mut().for_each(|peer| peer.heard_mn = 0);
    }

    /// Applies a validated MKPDU. `heard_mn`: recent MN of our entry in it.
    pub(crate) fn handle_mkpdu(
        &mut self,
        now: Instant,
        message: &Message<'_>,
        heard_mn: Option<u32>,
        own: Mi,
    ) -> Result<Change, Discard> {
        let (mi, sci) = (message.basic.mi, message.basic.sci);
        let was_live = self.find(mi).is_some_and(|peer| peer.live);
        let restarted = self.live().any(|peer| peer.sci == sci && peer.mi != mi);
        let heard_mn = heard_mn.filter(|_| was_live || self.shows_more(&message.basic, heard_mn));
        let hears_us = heard_mn.is_some();
        if hears_us && !was_live && !restarted && self.live().count() >= LIVE {
            return Err(Discard::TooManyPeers);
        }
        let known = self.find(mi).is_some();
        if known {
            let peer = self.find_mut(mi).expect("invariant: it was found");
            peer.update(now, message);
        } else {
            if !hears_us {
                self.evict_potential();
            }
            let mut peer = Peer::new(now, message);
            if let Some(departed) = self.departed.iter().find(|departed| departed.mi == mi) {
                peer.highest_kn = departed.highest_kn;
            }
            self.known.push(peer);
        }
        if let Some(heard_mn) = heard_mn {
            let peer = self.find_mut(mi).expect("invariant: it was found or added");
            peer.shown = now;
            peer.heard_mn = peer.heard_mn.max(heard_mn);
            if !was_live {
                peer.live = true;
                self.depart_previous_mis(sci, mi);
            }
        }
        self.expect_members(now, mi, own);
        self.note_gaps(now, mi, own);
        Ok(match (was_live, hears_us, known) {
            (false, true, _) => Change::Live { restarted },
            (_, _, false) => Change::Potential,
            _ => Change::None,
        })
    }

    /// Departs the earlier live MIs of this SCI. Potential peers stay: their order is not known.
    fn depart_previous_mis(&mut self, sci: Sci, mi: Mi) {
        let is_left = |peer: &mut Peer| peer.live && peer.sci == sci && peer.mi != mi;
        let others: Vec<Peer> = self.known.extract_if(.., is_left).collect();
        for other in others {
            self.depart(&other, true);
        }
    }

    fn evict_potential(&mut self) {
        if self.potential().count() < POTENTIAL {
            return;
        }
        let longest =
            self.known.iter().enumerate().filter(|(_, peer)| !peer.live).min_by_key(|(_, peer)| peer.heard);
        if let Some((i, _)) = longest {
            let peer = self.known.swap_remove(i);
            self.depart(&peer, false);
        }
    }

    fn depart(&mut self, peer: &Peer, left: bool) {
        self.departed.retain(|departed| departed.mi != peer.mi);
        if self.departed.len() == DEPARTED {
            self.departed.pop_front();
        }
        let Peer { mi, sci, mn, highest_kn, .. } = *peer;
        self.departed.push_back(Departed { mi, sci, mn, highest_kn, left });
    }

    /// Records the other members that a live peer with a SAK lists.
    fn expect_members(&mut self, now: Instant, of: Mi, own: Mi) {
        let Some(peer) = self.find(of).filter(|peer| peer.live) else { return };
        let members = if peer.uses.iter().any(|key| key.tx) { peer.hears.clone() } else { Vec::new() };
        self.expected.retain(|(mi, _)| *mi != of && *mi != own);
        for mi in members.into_iter().filter(|mi| *mi != own) {
            let is_live = self.find(mi).is_some_and(|peer| peer.live);
            if is_live || self.has_left(mi) {
                continue;
            }
            let room = self.expected.len() < EXPECTED;
            match self.expected.iter_mut().find(|(expected, _)| *expected == mi) {
                Some((_, until)) => *until = now + LIFE,
                None if room => self.expected.push((mi, now + LIFE)),
                None => {}
            }
        }
    }

    /// True if this MI's station has a newer MI.
    pub(crate) fn has_left(&self, mi: Mi) -> bool {
        self.departed.iter().any(|departed| departed.mi == mi && departed.left)
    }

    /// Removes peers that were unheard for a life time, and returns the live ones among them.
    pub(crate) fn expire(&mut self, now: Instant) -> Vec<Peer> {
        self.expected.retain(|(_, until)| now < *until);
        if self.known.iter().all(|peer| now < peer.expiry()) {
            return Vec::new();
        }
        let mut gone: Vec<Peer> = self.known.extract_if(.., |peer| now >= peer.expiry()).collect();
        for peer in &gone {
            self.depart(peer, false);
        }
        gone.retain(|peer| peer.live);
        gone
    }

    /// Time when a live peer is overdue.
    pub(crate) fn overdue(&self) -> Option<Instant> {
        self.live().map(|peer| peer.heard + OVERDUE).min()
    }

    /// Next time at which [`Self::expire`] has work.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        let mut earliest = Earliest::default();
        self.known.iter().for_each(|peer| earliest.add(peer.expiry()));
        self.expected.iter().for_each(|(_, until)| earliest.add(*until));
        earliest.add(self.own_reachability.deadline());
        self.live().for_each(|peer| earliest.add(peer.reachability.deadline()));
        earliest.moment()
    }
}
