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

use serde::{Deserialize, Serialize};
use wire::mkpdu::{BasicParameters, PeerEntry};
use wire::{Instant, Ki, Mi, Sci};

use crate::counters::Discard;
use crate::message::Message;
use crate::peer::{LIVE, Peer};
use crate::reachability::Reachability;
use crate::timers::{Earliest, LIFE, OVERDUE};

/// Most potential peers. A new one evicts the one that was unheard for longest.
pub(crate) const POTENTIAL: usize = 32;
/// Most remembered departed peers.
const DEPARTED: usize = 64;
/// Most members that only others have heard and that are waited for.
const EXPECTED: usize = LIVE;

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
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Departed {
    mi: Mi,
    sci: Sci,
    mn: u32,
    highest_kn: u32,
    /// True if its SCI continues under another MI.
    left: bool,
}

/// The peers of a participant.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Peers {
    known: Vec<Peer>,
    departed: VecDeque<Departed>,
    /// Members that are live for a peer with a SAK, but not here.
    expected: Vec<(Mi, Instant)>,
    /// Whether this station hears fewer members than other candidates.
    own_reachability: Reachability,
}

impl Peers {
    pub(crate) fn all(&self) -> &[Peer] {
        &self.known
    }

    pub(crate) fn live(&self) -> impl Iterator<Item = &Peer> + Clone {
        self.known.iter().filter(|peer| peer.live)
    }

    fn live_mut(&mut self) -> impl Iterator<Item = &mut Peer> {
        self.known.iter_mut().filter(|peer| peer.live)
    }

    pub(crate) fn potential(&self) -> impl Iterator<Item = &Peer> + Clone {
        self.known.iter().filter(|peer| !peer.live)
    }

    pub(crate) fn find(&self, mi: Mi) -> Option<&Peer> {
        self.known.iter().find(|peer| peer.mi == mi)
    }

    fn find_mut(&mut self, mi: Mi) -> Option<&mut Peer> {
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
        self.known.iter_mut().for_each(Peer::own_mi_changed);
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
            let departed = self.departed.iter().find(|departed| departed.mi == mi);
            let highest_kn = departed.map_or(0, |departed| departed.highest_kn);
            self.known.push(Peer::new(now, message, highest_kn));
        }
        if let Some(heard_mn) = heard_mn {
            let peer = self.find_mut(mi).expect("invariant: it was found or added");
            peer.prove(now, heard_mn);
            if !was_live {
                self.depart_previous_mis(sci, mi);
            }
        }
        self.expect_members(now, mi, own);
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
        // Nobody lists what has left: above all this station's own MI of before a restart, which no station has any more.
        let Self { known, expected, .. } = self;
        let is_listed = |mi: &Mi| known.iter().any(|peer| peer.live && peer.hears.contains(mi));
        expected.retain(|(mi, _)| is_listed(mi));
    }

    /// True if this MI's station has a newer MI.
    pub(crate) fn has_left(&self, mi: Mi) -> bool {
        self.departed.iter().any(|departed| departed.mi == mi && departed.left)
    }

    /// Records the KN of an installed SAK with its key server.
    pub(crate) fn note_installed(&mut self, ki: Ki) {
        if let Some(server) = self.find_mut(ki.server) {
            server.note_installed(ki.kn);
        }
    }

    /// Records which live peers lack a SAK. True if one is to be requested on behalf of any of them now.
    pub(crate) fn note_lack(&mut self, now: Instant, lacks: impl Fn(&Peer) -> bool) -> bool {
        let mut due = false;
        for peer in self.live_mut() {
            let lacks = lacks(peer);
            due |= peer.note_lack(now, lacks);
        }
        due
    }

    /// Delays the next SAK that this peer may cause by protecting with a different one.
    pub(crate) fn delay_stray(&mut self, now: Instant, mi: Mi) {
        if let Some(peer) = self.find_mut(mi) {
            peer.delay_stray(now);
        }
    }

    /// SCI that a departed MI had.
    pub(crate) fn departed_sci(&self, mi: Mi) -> Option<Sci> {
        self.departed.iter().find(|departed| departed.mi == mi).map(|departed| departed.sci)
    }

    /// The key server that this peer follows, if it is live for the peer but not here.
    pub(crate) fn led_by(&self, peer: &Peer, own: Mi) -> Option<Mi> {
        let server = peer.protects_with()?.server;
        let is_here = server == own || self.find(server).is_some_and(|server| server.live);
        (!is_here && peer.hears.contains(&server) && !self.has_left(server)).then_some(server)
    }

    /// Records for this station and its live peers whether they hear fewer members than another candidate.
    pub(crate) fn note_reach(&mut self, now: Instant, stands: bool) {
        let own = if stands { self.live().count() } else { 0 };
        let standing = self.live().filter(|peer| peer.stands()).map(|peer| peer.hears.len());
        let most = standing.chain([own]).max().unwrap_or(0);
        self.own_reachability.note(now, own < most);
        for peer in self.live_mut() {
            peer.note_reach(now, peer.hears.len() < most);
        }
    }

    /// True if this station hears fewer members than another candidate.
    pub(crate) const fn hears_fewer(&self) -> bool {
        self.own_reachability.is_lesser()
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
        self.live().for_each(|peer| earliest.add(peer.reach_deadline()));
        earliest.moment()
    }
}
