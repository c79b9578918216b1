//! The peers of a participant: who is heard, who is live (IEEE 802.1X-2020 clause 9.4.3), and which MKPDUs are fresh.
//!
//! ```text
//!             MKPDU with an ICV that is right          lists us with an MN that we sent of late
//!   nobody ───────────────────────────────▶ potential ────────────────────────────────▶ live
//!      ▲                                       │ 6 s unheard                              │ 6 s without listing us,
//!      └───────────────────────────────────────┴──────────────────────────────────────────┘ or its SCI lives under another MI
//! ```
//!
//! Everything is bounded: [`LIVE`] and [`POTENTIAL`] peers, [`DEPARTED`] that are remembered. MKPDUs can be recorded under a
//! pre-shared CAK and sent again years later, so an MI that has not shown to hear us changes nothing but the list of
//! potential peers: a recorded start of a live peer does not end its life. Of two MIs with one SCI (a station has restarted)
//! the one lives that has heard the later MKPDU of ours: what an MI said before it was left, and comes late or is held back,
//! does not bring it back. Attacks: `tests/groups/hostile.rs`.

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

/// The most live peers of a participant: as many receive SCs as a SecY has.
pub(crate) const LIVE: usize = 32;
/// The most potential peers: who was not heard for longest goes for a new one.
pub(crate) const POTENTIAL: usize = 32;
/// How many of those who have gone are remembered.
const DEPARTED: usize = 64;
/// How many members that only others have heard are waited for.
const EXPECTED: usize = LIVE;

/// A station that was heard under one MI.
#[derive(Clone, Debug)]
pub(crate) struct Peer {
    pub(crate) mi: Mi,
    /// The last MN.
    pub(crate) mn: u32,
    pub(crate) sci: Sci,
    pub(crate) priority: u8,
    /// The Key Server bit.
    pub(crate) claims: bool,
    /// It wants MACsec, and can do it.
    pub(crate) macsec: bool,
    pub(crate) capability: Capability,
    pub(crate) live: bool,
    pub(crate) heard: Instant,
    /// When it last showed to hear us.
    shown: Instant,
    /// The latest MN of ours that it showed to have heard.
    heard_mn: u32,
    pub(crate) uses: Uses,
    pub(crate) delay_protect: bool,
    /// Who is live for it.
    pub(crate) hears: Vec<Mi>,
    pub(crate) announcement: Announcement,
    /// The highest KN of a SAK of it that was installed.
    pub(crate) highest_kn: u32,
    /// Whether it hears fewer members than other candidates.
    pub(crate) reachability: Reachability,
    /// From when on another SAK may be made because it protects with another one, and how long it took.
    pub(crate) stray: Option<(Instant, Duration)>,
    /// It has no SAK, since then.
    pub(crate) without_sak: Option<Instant>,
    /// How many SAKs its key server was asked for in its name.
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

    /// A live one, as far as an election looks at it.
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

    /// It accepts frames under this SAK, as its last MKPDU says.
    pub(crate) fn receives(&self, ki: Ki) -> bool {
        self.use_of(ki).is_some_and(|key| key.rx)
    }

    /// It protects with this SAK, as its last MKPDU says.
    pub(crate) fn transmits(&self, ki: Ki) -> bool {
        self.use_of(ki).is_some_and(|key| key.tx)
    }

    /// The SAK that it protects with.
    pub(crate) fn protects_with(&self) -> Option<Ki> {
        self.uses.iter().find(|key| key.tx).map(|key| key.ki)
    }

    /// It may be key server.
    pub(crate) const fn stands(&self) -> bool {
        self.priority != NEVER && self.macsec
    }

    /// It leaves being key server to others, because it hears fewer: stations of others do not.
    pub(crate) const fn yields(&self) -> bool {
        self.announcement.ours && self.reachability.is_lesser()
    }

    fn expiry(&self) -> Instant {
        if self.live { self.shown + LIFE } else { self.heard + LIFE }
    }
}

/// What became of a peer by an MKPDU of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Change {
    /// Nothing new.
    None,
    /// It is heard for the first time, and does not hear us.
    Potential,
    /// It has shown to hear us. `restarted`: its SCI was live under another MI.
    Live {
        /// Its SCI was live under another MI.
        restarted: bool,
    },
}

/// Somebody who is no peer any more.
#[derive(Debug)]
pub(crate) struct Departed {
    pub(crate) mi: Mi,
    pub(crate) sci: Sci,
    mn: u32,
    highest_kn: u32,
    /// Its SCI goes on under another MI.
    left: bool,
}

/// The peers of a participant.
#[derive(Debug, Default)]
pub(crate) struct Peers {
    pub(crate) known: Vec<Peer>,
    pub(crate) departed: VecDeque<Departed>,
    /// Members that a live peer in possession of a SAK has, and that are not live here.
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

    /// Whether a live peer has this SCI.
    pub(crate) fn has_live(&self, sci: Sci) -> bool {
        self.live().any(|peer| peer.sci == sci)
    }

    /// Who is live, by descending SCI: the order of SSCIs.
    pub(crate) fn live_list(&self) -> Vec<PeerEntry> {
        let mut live: Vec<&Peer> = self.live().collect();
        live.sort_unstable_by_key(|peer| core::cmp::Reverse(peer.sci));
        live.iter().map(|peer| PeerEntry { mi: peer.mi, mn: peer.mn }).collect()
    }

    /// Whether members of a group with a SAK are not live here yet.
    pub(crate) fn expects(&self) -> bool {
        !self.expected.is_empty()
    }

    /// Whether an MKPDU is fresh: its MN is higher than all that were heard of its MI, and that MI was not left since.
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

    /// Whether this MI has heard a later MKPDU of ours than any other of its SCI that is live.
    fn shows_more(&self, basic: &BasicParameters, heard_mn: Option<u32>) -> bool {
        heard_mn.is_some_and(|heard_mn| {
            let mut others = self.live().filter(|peer| peer.sci == basic.sci && peer.mi != basic.mi);
            others.all(|other| heard_mn > other.heard_mn)
        })
    }

    /// The own MI is another one, whose MNs begin again.
    pub(crate) fn own_mi_changed(&mut self) {
        self.known.iter_mut().for_each(|peer| peer.heard_mn = 0);
    }

    /// Takes in an MKPDU that was judged. `heard_mn`: the MN of late with which it lists us.
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

    /// What was live under this SCI before is left. Potential peers stay: which one came later is not known.
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

    /// A live peer in possession of a SAK tells whom it has beside us.
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

    /// Whether this MI's station has another one since.
    pub(crate) fn has_left(&self, mi: Mi) -> bool {
        self.departed.iter().any(|departed| departed.mi == mi && departed.left)
    }

    /// Takes out who has not been heard for a life time, and returns the live ones among them.
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

    /// When a live peer is overdue.
    pub(crate) fn overdue(&self) -> Option<Instant> {
        self.live().map(|peer| peer.heard + OVERDUE).min()
    }

    /// When [`Self::expire`] has something to do.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        let mut earliest = Earliest::default();
        self.known.iter().for_each(|peer| earliest.add(peer.expiry()));
        self.expected.iter().for_each(|(_, until)| earliest.add(*until));
        earliest.add(self.own_reachability.deadline());
        self.live().for_each(|peer| earliest.add(peer.reachability.deadline()));
        earliest.moment()
    }
}
