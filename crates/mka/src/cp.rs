//! The CP machine (IEEE 802.1X-2020 clause 12.4, figure 12-2): brings SAKs into use and out of use.
//!
//! ```text
//!             Install              Installed            all receive, the key server
//!   (new SAK) ───────▶  Receive  ───────────▶ Receiving  transmits, or it took too long
//!                                                 │ EnableTransmit
//!                                                 ▼      Transmitting             3 s, and all have changed over
//!                                              Transmit ─────────────▶ Transmitting ──────────────────▶ Settled
//!                                                                                   Retire (all before)
//! ```
//!
//! Each SAK has its own state here, so a SAK overtaken by the next is no special case. As ANs allow, up to
//! four SAKs are accepted at a time, and one protects. Figure 12-2 has two, the latest key and the old one;
//! SAK Use reports ours in these two positions. A settled key is reported as the old key, as the figure's
//! RETIRE has it: wpa_supplicant draws a new MI when it joins a group whose latest key it does not have.
//!
//! Departures:
//!
//! 1. A member transmits when it sees itself that all receive, and also when the key server does. But a key server
//!    that takes a group over may not hear all of it yet: for less than a second a member goes on with the SAK before,
//!    while a peer has that one alone.
//! 2. A SAK is not retired while a peer sends under it, for at most 6 s more: the MKPDU that reports the new
//!    one may have been lost.
//! 3. A member's transmit timer counts only if no other SAK protects: it must not leave for a SAK that others
//!    may lack.

use alloc::vec::Vec;

use serde::{Deserialize, Serialize};
use suite::CipherSuite;
use wire::mkpdu::{Confidentiality, KeyUse};
use wire::{An, Instant, Ki, Mi, Sci};

use crate::event::{Admission, Association, Event, FragmentAgreement, Report};
use crate::message::{Use, Uses};
use crate::peer::Peer;
use crate::pn_history::PnHistory;
use crate::reason::Reason;
use crate::station::Station;
use crate::timers::{Earliest, FOLLOW_DELAY, SAK_RETIRE, SAK_RETIRE_MAX, TRANSMIT_DELAY};

/// Progress of a SAK.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
enum Phase {
    /// Installation was requested.
    Receive,
    /// Frames are accepted. The moment ends the wait for the others.
    Receiving(Instant),
    /// Transmission was requested.
    Transmit,
    /// It protects, since this moment.
    Transmitting(Instant),
    /// It protects, and everybody has it.
    Settled,
}

/// State of a peer's SC under a SAK.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
enum ScState {
    Admitted,
    /// Removed, for good under this SAK: its earlier frames could be replayed.
    Expelled,
}

/// A peer's SC under a SAK.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Sc {
    pub(crate) sci: Sci,
    /// MI of the peer at its admission.
    pub(crate) mi: Mi,
    state: ScState,
    /// Lowest acceptable PN.
    lowest_pn: u64,
}

/// A SAK in the SecY.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct InstalledSak {
    pub(crate) ki: Ki,
    pub(crate) an: An,
    pub(crate) suite: CipherSuite,
    pub(crate) confidentiality: Confidentiality,
    pub(crate) fragmentation: FragmentAgreement,
    /// Every frame under it holds one whole SDU, also those of peers.
    pub(crate) whole: bool,
    pub(crate) since: Instant,
    /// The participant under which it was agreed on.
    pub(crate) owner: u32,
    phase: Phase,
    /// True if it protects transmitted frames.
    pub(crate) tx: bool,
    /// Members whose SC is still to come. Reception is reported when there is none.
    pub(crate) incomplete: bool,
    /// SDUs are not fragmented, because some members had not been heard.
    pub(crate) unheard: bool,
    /// It is not for whole SDUs alone, and while it was the latest this station could not keep them whole.
    split: bool,
    /// Time when another SAK took over.
    ceased: Option<Instant>,
    scs: Vec<Sc>,
    pns: PnHistory,
}

/// Inputs of the machine for the latest SAK.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct CpInputs {
    /// This station distributed it.
    pub(crate) elected_self: bool,
    /// All live peers accept frames under it.
    pub(crate) all_receiving: bool,
    /// The key server protects with it.
    pub(crate) server_transmitting: bool,
}

/// The SAKs of a SecY, oldest first.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Cp {
    saks: Vec<InstalledSak>,
    /// As a member: the SAK for which a replacement is requested.
    asks_to_replace: Option<Ki>,
}

impl Sc {
    const fn admitted(sci: Sci, mi: Mi) -> Self {
        Self { sci, mi, state: ScState::Admitted, lowest_pn: 1 }
    }
}

impl InstalledSak {
    /// True if it is installed and accepts frames of all members.
    pub(crate) const fn receives(&self) -> bool {
        !matches!(self.phase, Phase::Receive) && !self.incomplete
    }

    pub(crate) const fn is_settled(&self) -> bool {
        matches!(self.phase, Phase::Settled)
    }

    fn state(&self, sci: Sci) -> Option<ScState> {
        self.scs.iter().find(|sc| sc.sci == sci).map(|sc| sc.state)
    }

    /// True if this SC was ever under it.
    pub(crate) fn knows(&self, sci: Sci) -> bool {
        self.state(sci).is_some()
    }

    pub(crate) fn has_expelled(&self, sci: Sci) -> bool {
        self.state(sci) == Some(ScState::Expelled)
    }

    fn admits(&self, sci: Sci) -> bool {
        self.state(sci) == Some(ScState::Admitted)
    }

    /// PN from which another SAK is due (clause 9.8: PendingPNExhaustion).
    pub(crate) const fn exhaustion(&self) -> u64 {
        if self.suite.is_xpn() { 0xc000_0000_0000_0000 } else { 0xc000_0000 }
    }

    /// True if its PNs run out.
    pub(crate) const fn is_exhausted(&self) -> bool {
        self.pns.next_pn() >= self.exhaustion()
    }

    fn key_use(&self, now: Instant) -> (KeyUse, u32) {
        let lowest = self.pns.lowest(now);
        let (rx, lowest_pn) = (self.receives(), lowest as u32);
        (KeyUse { ki: self.ki, an: self.an, tx: self.tx, rx, lowest_pn }, (lowest >> 32) as u32)
    }
}

impl Cp {
    pub(crate) fn saks(&self) -> &[InstalledSak] {
        &self.saks
    }

    /// True while the SecY has a request to carry out that it will report.
    pub(crate) fn awaits_report(&self) -> bool {
        self.saks.iter().any(|sak| matches!(sak.phase, Phase::Receive | Phase::Transmit))
    }

    pub(crate) fn latest(&self) -> Option<&InstalledSak> {
        self.saks.last()
    }

    /// Records whether SCs of members are still to come under the latest SAK. True if that has changed.
    pub(crate) fn note_incomplete(&mut self, incomplete: bool) -> bool {
        self.saks
            .last_mut()
            .is_some_and(|latest| core::mem::replace(&mut latest.incomplete, incomplete) != incomplete)
    }

    /// Records whether the latest SAK has members that were not heard.
    pub(crate) fn note_unheard(&mut self, unheard: bool) {
        if let Some(latest) = self.saks.last_mut() {
            latest.unheard = unheard;
        }
    }

    /// Records whether this station can keep SDUs whole now. True if the latest SAK came when it could not, and another one was not yet
    /// requested for that.
    pub(crate) fn note_whole(&mut self, whole: bool) -> bool {
        let Some(latest) = self.saks.last_mut() else { return false };
        latest.split |= !whole && !latest.whole;
        latest.split && whole
    }

    /// Another SAK is requested.
    pub(crate) fn forget_split(&mut self) {
        if let Some(latest) = self.saks.last_mut() {
            latest.split = false;
        }
    }

    /// As a member: requests a replacement of the latest SAK, if it is this participant's. True if that is
    /// news.
    pub(crate) fn ask_for_sak(&mut self, owner: u32) -> bool {
        let latest = self.latest().filter(|latest| latest.owner == owner).map(|latest| latest.ki);
        let is_new = latest.is_some() && self.asks_to_replace != latest;
        if is_new {
            self.asks_to_replace = latest;
        }
        is_new
    }

    /// True if a replacement of the latest SAK is requested.
    pub(crate) const fn asks_for_sak(&self) -> bool {
        self.asks_to_replace.is_some()
    }

    pub(crate) const fn withdraw_request(&mut self) {
        self.asks_to_replace = None;
    }

    pub(crate) fn transmitting(&self) -> Option<&InstalledSak> {
        self.saks.iter().rev().find(|sak| sak.tx)
    }

    pub(crate) fn find(&self, ki: Ki) -> Option<&InstalledSak> {
        self.saks.iter().find(|sak| sak.ki == ki)
    }

    /// True if a SAK admits an SC with this SCI.
    pub(crate) fn admits(&self, sci: Sci) -> bool {
        self.saks.iter().any(|sak| sak.admits(sci))
    }

    /// The admitted SCs, each once.
    pub(crate) fn scs(&self) -> Vec<Sc> {
        let mut scs: Vec<Sc> = Vec::new();
        for sc in self.saks.iter().rev().flat_map(|sak| &sak.scs) {
            if sc.state == ScState::Admitted && !scs.iter().any(|known| known.sci == sc.sci) {
                scs.push(*sc);
            }
        }
        scs
    }

    /// The two keys of a participant's SAK Use, with the high halves of their lowest PNs.
    pub(crate) fn uses(&self, now: Instant, owner: u32) -> [Option<(KeyUse, u32)>; 2] {
        let mut uses = self.present_uses(now, owner);
        if let Some(asked) = self.asks_to_replace {
            // A member requests another SAK by an almost used-up PN. It stands at the latest key, since some
            // key servers look only there.
            if let [latest @ None, old @ Some(_)] = &mut uses {
                core::mem::swap(latest, old);
            }
            if let Some((key, high)) = uses.iter_mut().flatten().find(|(key, _)| key.ki == asked) {
                // Some key servers react only to a PN beyond it.
                let beyond = self.find(asked).map_or(0, |sak| sak.exhaustion() + 1);
                (*high, key.lowest_pn) = ((beyond >> 32) as u32, beyond as u32);
            }
        }
        uses
    }

    fn present_uses(&self, now: Instant, owner: u32) -> [Option<(KeyUse, u32)>; 2] {
        let mut own = self.saks.iter().rev().filter(|sak| sak.owner == owner);
        let latest = own.next();
        let protecting =
            || self.saks.iter().rev().filter(|sak| sak.owner == owner).skip(1).find(|sak| sak.tx);
        match latest {
            None => [None, None],
            Some(latest) if latest.is_settled() => [None, Some(latest.key_use(now))],
            Some(latest) => {
                let old = protecting().or_else(|| own.next());
                [Some(latest.key_use(now)), old.map(|old| old.key_use(now))]
            }
        }
    }

    /// RECEIVE: installs a SAK, with the MIs of the SCs in `receive`. Retires earlier SAKs with its AN.
    pub(crate) fn install(&mut self, station: &mut Station, owner: u32, new: (Association, Vec<Mi>)) {
        let (association, members) = new;
        self.asks_to_replace = None;
        while let Some(i) = self.saks.iter().position(|sak| sak.an == association.an) {
            self.retire(station, i);
        }
        self.saks.push(InstalledSak {
            ki: association.ki,
            an: association.an,
            suite: association.suite,
            confidentiality: association.confidentiality,
            fragmentation: association.fragmentation,
            whole: association.whole,
            since: station.now(),
            owner,
            phase: Phase::Receive,
            tx: false,
            incomplete: false,
            unheard: false,
            split: false,
            ceased: None,
            scs: association.receive.iter().zip(members).map(|(to, mi)| Sc::admitted(to.sci, mi)).collect(),
            pns: PnHistory::default(),
        });
        station.request(Event::Install(association.into()));
    }

    /// Admits a peer under the latest SAK.
    pub(crate) fn admit(&mut self, station: &mut Station, sci: Sci, mi: Mi) {
        let Some(sak) = self.saks.last_mut() else { return };
        sak.scs.push(Sc::admitted(sci, mi));
        station.request(Event::Admit { ki: sak.ki, admission: Admission { sci, ssci: None } });
    }

    /// Removes a peer's SC.
    pub(crate) fn expel(&mut self, station: &mut Station, sci: Sci) {
        let scs = self.saks.iter_mut().flat_map(|sak| &mut sak.scs).filter(|sc| sc.sci == sci);
        scs.for_each(|sc| sc.state = ScState::Expelled);
        station.request(Event::Expel(sci));
    }

    /// Raises the lowest PNs of a peer to the announced ones.
    pub(crate) fn raise_lowest_pns(&mut self, station: &mut Station, sci: Sci, uses: &Uses) {
        for Use { ki, lowest_pn, .. } in uses {
            let Some(sak) = self.saks.iter_mut().find(|sak| sak.ki == *ki) else { continue };
            let admitted = |sc: &&mut Sc| sc.sci == sci && sc.state == ScState::Admitted;
            if let Some(sc) = sak.scs.iter_mut().find(admitted)
                && *lowest_pn > sc.lowest_pn
            {
                sc.lowest_pn = *lowest_pn;
                station.request(Event::RaiseLowest { ki: *ki, sci, lowest_pn: *lowest_pn });
            }
        }
    }

    /// Handles the SecY's report. True if the peers need to know.
    pub(crate) fn handle_report(&mut self, station: &mut Station, report: Report) -> bool {
        let now = station.now();
        let (Report::Installed(ki) | Report::Transmitting(ki) | Report::NextPn { ki, .. }) = report;
        let Some(i) = self.saks.iter().position(|sak| sak.ki == ki) else { return false };
        let (before, from_here) = self.saks.split_at_mut(i);
        let sak = &mut from_here[0];
        match (report, sak.phase) {
            (Report::NextPn { next_pn, .. }, _) => {
                sak.pns.note(now, next_pn);
                false
            }
            (Report::Installed(_), Phase::Receive) => {
                sak.phase = Phase::Receiving(now + TRANSMIT_DELAY);
                true
            }
            (Report::Transmitting(_), Phase::Transmit) => {
                sak.phase = Phase::Transmitting(now);
                sak.tx = true;
                for older in before {
                    older.tx = false;
                    older.ceased.get_or_insert(now);
                }
                station.notify(Reason::Transmitting { ki });
                true
            }
            // A repeated report, or one for a SAK that is gone.
            (Report::Installed(_) | Report::Transmitting(_), _) => false,
        }
    }

    /// Performs due transitions. `peers`: live peers under the latest SAK's CAK. True if the peers need to
    /// know.
    pub(crate) fn handle_inputs(&mut self, station: &mut Station, inputs: CpInputs, peers: &[&Peer]) -> bool {
        let now = station.now();
        let nothing_protects = self.transmitting().is_none();
        let Some(latest) = self.saks.last() else { return false };
        let ki = latest.ki;
        let changed_over = peers.iter().all(|peer| peer.transmits(ki));
        let next = match latest.phase {
            Phase::Receiving(until) => {
                let CpInputs { elected_self, all_receiving, server_transmitting } = inputs;
                let took_too_long = now >= until && (elected_self || nothing_protects);
                let follows = !elected_self
                    && server_transmitting
                    && (now >= latest.since + FOLLOW_DELAY || !self.leaves_behind(ki, peers));
                let go = took_too_long || all_receiving || follows;
                go.then_some(Phase::Transmit)
            }
            Phase::Transmitting(since) => {
                let over = now >= since + SAK_RETIRE && changed_over || now >= since + SAK_RETIRE_MAX;
                over.then_some(Phase::Settled)
            }
            Phase::Receive | Phase::Transmit | Phase::Settled => None,
        };
        if let Some(next) = next {
            if next == Phase::Transmit {
                station.request(Event::EnableTransmit(ki));
            }
            self.saks.last_mut().expect("invariant: there is a latest one").phase = next;
        }
        self.retire_old(station, peers) || next == Some(Phase::Settled)
    }

    /// True if a peer protects with the SAK that protects here, and does not accept frames under this one yet.
    fn leaves_behind(&self, ki: Ki, peers: &[&Peer]) -> bool {
        let before = self.transmitting().map(|sak| sak.ki);
        before.is_some_and(|before| peers.iter().any(|peer| peer.transmits(before) && !peer.receives(ki)))
    }

    /// RETIRE: removes SAKs under which nobody sends any more.
    fn retire_old(&mut self, station: &mut Station, peers: &[&Peer]) -> bool {
        let now = station.now();
        let mut retired = false;
        let mut i = 0;
        while i < self.saks.len() {
            let (sak, newer) = (&self.saks[i], &self.saks[i + 1..]);
            let is_sent_under = peers
                .iter()
                .any(|peer| peer.transmits(sak.ki) && !newer.iter().any(|newer| peer.transmits(newer.ki)));
            let over = sak.ceased.is_some_and(|ceased| {
                now >= ceased + SAK_RETIRE && !is_sent_under || now >= ceased + SAK_RETIRE_MAX
            });
            if over {
                self.retire(station, i);
                retired = true;
            } else {
                i += 1;
            }
        }
        retired
    }

    fn retire(&mut self, station: &mut Station, i: usize) {
        let sak = self.saks.remove(i);
        self.asks_to_replace = self.asks_to_replace.filter(|asked| *asked != sak.ki);
        station.request(Event::Retire(sak.ki));
        station.notify(Reason::Retired { ki: sak.ki });
        // An SC without an SA is useless.
        for sc in sak.scs {
            if sc.state == ScState::Admitted && !self.admits(sc.sci) {
                station.request(Event::Expel(sc.sci));
            }
        }
    }

    /// Removes all SAKs.
    pub(crate) fn retire_all(&mut self, station: &mut Station) {
        while !self.saks.is_empty() {
            self.retire(station, 0);
        }
    }

    /// Next time at which [`Self::handle_inputs`] has work without an input.
    pub(crate) fn poll_timeout(&self, now: Instant) -> Option<Instant> {
        let mut earliest = Earliest::default();
        let mut add = |moment: Instant| earliest.add(Some(moment).filter(|moment| *moment > now));
        for sak in &self.saks {
            if let Some(ceased) = sak.ceased {
                add(ceased + SAK_RETIRE);
                add(ceased + SAK_RETIRE_MAX);
            }
            match sak.phase {
                Phase::Receiving(until) => {
                    add(sak.since + FOLLOW_DELAY);
                    add(until);
                }
                Phase::Transmitting(since) => {
                    add(since + SAK_RETIRE);
                    add(since + SAK_RETIRE_MAX);
                }
                Phase::Receive | Phase::Transmit | Phase::Settled => {}
            }
        }
        earliest.moment()
    }
}
