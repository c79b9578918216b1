//! A participant: this station under one CAK (IEEE 802.1X-2020 clause 9.3), with its identity, sent MNs and
//! peers.

mod passed_on;

use alloc::vec::Vec;
use core::time::Duration;

use suite::Sak;
use wire::{Ckn, Instant, Ki, Mi};

use crate::counters::Discard;
use crate::cp::Cp;
use crate::distribution::{Distribution, KeyServerRole, NewSak};
use crate::election::{Candidate, ElectedServer, Election};
use crate::gaps::{Gap, Gaps};
use crate::keys::Keys;
use crate::message::{Listing, Message};
use crate::message_numbers::MessageNumbers;
use crate::observed_faults::{Observed, ParticipantFaults};
use crate::peer::Peer;
use crate::peers::{Change, Peers};
use crate::reason::{Reason, Refusal, SakReason};
use crate::send_schedule::SendSchedule;
use crate::settings::CakEntry;
use crate::station::Station;
use crate::timers::{Earliest, SAK_TIMEOUT};
pub(crate) use passed_on::PassedParticipant;

/// This station under one CAK.
#[derive(Debug)]
pub(crate) struct Participant {
    /// Unique among all participants so far.
    id: u32,
    keys: Keys,
    mi: Mi,
    message_numbers: MessageNumbers,
    peers: Peers,
    gaps: Gaps,
    election: Election,
    schedule: SendSchedule,
    serving: KeyServerRole,
    /// Last rejected SAK, and the reason.
    refused: Option<(Ki, Refusal)>,
    /// Since when it has been live with a key server without its SAK.
    sak_wait_since: Option<Instant>,
    /// Consecutive restarts for lack of a SAK.
    sak_timeouts: u8,
    faults: ParticipantFaults,
}

/// Identity.
impl Participant {
    pub(crate) fn new(id: u32, entry: CakEntry, station: &mut Station) -> Self {
        Self {
            id,
            keys: Keys::new(entry),
            mi: station.draw_mi(),
            message_numbers: MessageNumbers::default(),
            peers: Peers::default(),
            gaps: Gaps::default(),
            election: Election::default(),
            schedule: SendSchedule::default(),
            serving: KeyServerRole::default(),
            refused: None,
            sak_wait_since: None,
            sak_timeouts: 0,
            faults: ParticipantFaults::default(),
        }
    }

    pub(crate) const fn id(&self) -> u32 {
        self.id
    }

    pub(crate) const fn keys(&self) -> &Keys {
        &self.keys
    }

    pub(crate) const fn ckn(&self) -> Ckn {
        self.keys.ckn()
    }

    pub(crate) const fn mi(&self) -> Mi {
        self.mi
    }

    /// Restarts under a new MI: for the others, one member leaves and another joins.
    pub(crate) fn draw_mi(&mut self, station: &mut Station) {
        self.mi = station.draw_mi();
        self.message_numbers = MessageNumbers::default();
        self.peers.own_mi_changed();
        self.serving.forget();
        self.sak_wait_since = None;
        self.schedule.request();
    }
}

/// Sent MKPDUs.
impl Participant {
    /// Requests an MKPDU for a change that the others do not know.
    pub(crate) const fn request_mkpdu(&mut self) {
        self.schedule.request();
    }

    /// Time of its next MKPDU.
    pub(crate) fn next_mkpdu_at(&self, hello: Duration) -> Instant {
        self.schedule.poll_timeout(hello)
    }

    /// MN of an MKPDU that is sent now; `None` if all are used.
    pub(crate) fn send(&mut self, now: Instant) -> Option<u32> {
        self.schedule.sent(now);
        self.message_numbers.next(now)
    }

    /// Our entry in a message, if it has a recent MN.
    pub(crate) fn recent_listing(&self, now: Instant, message: &Message<'_>) -> Option<Listing> {
        message.listing(self.mi).filter(|listing| self.message_numbers.is_recent(now, listing.mn))
    }

    /// True if this MN was never sent.
    pub(crate) const fn has_not_sent(&self, mn: u32) -> bool {
        self.message_numbers.is_beyond(mn)
    }
}

/// Peers.
impl Participant {
    pub(crate) const fn peers(&self) -> &Peers {
        &self.peers
    }

    /// Applies a validated MKPDU. `heard_mn`: recent MN of our entry in it. `elsewhere`: its SCI is live under a more preferred CAK.
    pub(crate) fn handle_mkpdu(
        &mut self,
        station: &mut Station,
        message: &Message<'_>,
        heard_mn: Option<u32>,
        elsewhere: bool,
    ) -> Result<(), Discard> {
        let (now, sci, mi) = (station.now(), message.basic.sci, message.basic.mi);
        let taken = self.peers.handle_mkpdu(now, message, heard_mn, self.mi);
        let peer = self.peers.find(mi).filter(|_| taken.is_ok());
        let name = peer.and_then(|peer| peer.announcement.name);
        let is_live = peer.is_some_and(|peer| peer.live);
        if let Some(Err(bad)) = name {
            station.count(|counters| counters.count_bad_name(bad));
        }
        // Whoever proves that he hears us is no recording: an MKPDU of last year renames nobody, nor does one of an earlier MI. And who
        // has a fallback CAK alone renames no station that has the preferred one.
        if is_live && heard_mn.is_some() && !elsewhere {
            station.record_name(sci, name.and_then(Result::ok));
        }
        if taken == Err(Discard::TooManyPeers) && self.faults.note(now, Observed::TooManyPeers) {
            station.notify(Reason::TooManyPeers { sci });
        }
        let change = taken?;
        self.gaps.note(now, &self.peers, mi, self.mi);
        station.count(|counters| counters.mkpdus_rx += 1);
        match change {
            Change::Live { restarted: true } => station.notify(Reason::PeerRestarted { sci }),
            Change::Live { restarted: false } => station.notify(Reason::PeerLive { sci }),
            Change::Potential | Change::None => {}
        }
        // A peer that does not hear us may have missed our last MKPDU. A new peer gets an answer.
        let missed = heard_mn.is_some_and(|mn| self.message_numbers.is_behind(now, mn));
        if change != Change::None || heard_mn.is_none() || !is_live || missed {
            self.schedule.request();
        }
        Ok(())
    }

    /// Removes peers after their life time.
    pub(crate) fn expire(&mut self, station: &mut Station) {
        for Peer { sci, .. } in self.peers.expire(station.now()) {
            station.notify(Reason::PeerLost { sci });
            // Members rely on the key server's list of live members.
            self.schedule.request();
        }
    }

    /// Gaps between members that have lasted for a life time.
    pub(crate) fn gaps(&self, now: Instant) -> Vec<Gap> {
        self.gaps.lasting(now, &self.peers)
    }

    /// True if others have heard this member for a life time and this station has not: no frame reaches it,
    /// and nobody waits for it.
    pub(crate) fn is_out_of_reach(&self, now: Instant, mi: Mi) -> bool {
        self.gaps.is_out_of_reach(now, &self.peers, mi)
    }

    /// True if this peer follows a key server that is not heard here.
    pub(crate) fn is_led_away(&self, peer: &Peer) -> bool {
        self.peers.led_by(peer, self.mi).is_some()
    }

    /// Records which live peers lack this SAK. True if one has lacked it for long enough to request another
    /// on its behalf.
    pub(crate) fn note_lack(&mut self, now: Instant, lacks: impl Fn(&Peer) -> bool) -> bool {
        self.peers.note_lack(now, lacks)
    }

    /// Records a fault. True if operators should be told.
    pub(crate) fn note_fault(&mut self, now: Instant, fault: Observed) -> bool {
        self.faults.note(now, fault)
    }

    pub(crate) fn forget_fault(&mut self, fault: Observed) {
        self.faults.forget(fault);
    }

    pub(crate) fn has_fault(&self, now: Instant, fault: Observed) -> bool {
        self.faults.has(now, fault)
    }
}

/// Election.
impl Participant {
    pub(crate) const fn server(&self) -> ElectedServer {
        self.election.server()
    }

    /// The peer that is key server.
    pub(crate) fn server_peer(&self) -> Option<&Peer> {
        match self.server() {
            ElectedServer::Peer(mi) => self.peers.find(mi).filter(|peer| peer.live),
            ElectedServer::Me | ElectedServer::None => None,
        }
    }

    /// True if MKPDUs have the Key Server bit.
    pub(crate) const fn claims(&self, me: &Candidate) -> bool {
        self.election.claims(&Candidate { yields: self.peers.hears_fewer(), ..*me })
    }

    /// Elects the key server. True if it is another one. `in_use`: the SAK that this station protects with.
    pub(crate) fn elect(&mut self, now: Instant, me: &Candidate, in_use: Option<Ki>) -> bool {
        self.peers.note_reach(now, me.stands());
        let me = Candidate { yields: self.peers.hears_fewer(), ..*me };
        let (peers, own) = (&self.peers, self.mi);
        let live: Vec<&Peer> = peers.live().collect();
        let all_led = live.iter().all(|peer| !peer.macsec || peers.led_by(peer, own).is_some());
        let is_led_away =
            |peer: &Peer| peers.led_by(peer, own).is_some() && (all_led || in_use == peer.protects_with());
        let is_another = self.election.elect(now, &me, &live, is_led_away);
        if is_another {
            self.schedule.request();
            self.refused = None;
        }
        is_another
    }
}

/// As key server.
impl Participant {
    pub(crate) const fn serving(&self) -> &KeyServerRole {
        &self.serving
    }

    /// The SAK that it distributes.
    pub(crate) const fn distribution(&self) -> Option<&Distribution> {
        self.serving.distribution()
    }

    /// Makes a SAK due from this moment.
    pub(crate) fn need_sak(&mut self, from: Instant, why: SakReason) {
        self.serving.need(from, why);
    }

    pub(crate) fn end_serving(&mut self) {
        self.serving.forget();
    }

    /// Makes a SAK, which replaces the previous one. Returns it, and its reason.
    pub(crate) fn make_sak(&mut self, station: &mut Station, new: NewSak) -> (Sak, SakReason) {
        let all: Vec<Mi> = self.peers.live().map(|peer| peer.mi).collect();
        let made = self.serving.make(station, &self.keys, self.mi, all, new);
        self.schedule.request();
        made
    }

    /// Records whether a peer uses the distributed SAK, and whether its PNs run out under it.
    pub(crate) fn watch_user(&mut self, now: Instant, mi: Mi, cp: &Cp) {
        let Some(peer) = self.peers.find(mi).filter(|peer| peer.live) else { return };
        // A follower of a key server that is not heard here has dropped our SAK for that one's, and would
        // drop the next one too.
        if self.is_led_away(peer) {
            return;
        }
        if self.serving.watch_user(now, peer, cp) {
            self.peers.delay_stray(now, mi);
        }
    }
}

/// As a member.
impl Participant {
    /// Last rejected SAK, and the reason.
    pub(crate) const fn refused(&self) -> Option<(Ki, Refusal)> {
        self.refused
    }

    /// Records a rejected SAK. True if operators should be told.
    pub(crate) fn refuse(&mut self, ki: Ki, why: Refusal) -> bool {
        self.refused.replace((ki, why)) != Some((ki, why))
    }

    /// Records an accepted SAK of a peer.
    pub(crate) fn accept(&mut self, ki: Ki) {
        self.refused = None;
        self.peers.note_installed(ki);
    }

    /// True if its key server is of another make.
    pub(crate) fn server_is_of_another_make(&self) -> bool {
        self.server_peer().is_some_and(|server| !server.announcement.ours)
    }

    /// Since when it has been live with a key server without its SAK.
    pub(crate) const fn sak_wait_since(&self) -> Option<Instant> {
        self.sak_wait_since
    }

    /// Time of a restart for lack of a SAK. The delay grows: a key server that never gives a SAK does not
    /// cause a new MI every few seconds.
    fn sak_timeout(&self) -> Option<Instant> {
        self.sak_wait_since.map(|since| since + SAK_TIMEOUT * (1 << self.sak_timeouts.min(5)))
    }

    /// Waits for a SAK. True if the wait was too long: a restart is due.
    pub(crate) fn wait_for_sak(&mut self, now: Instant) -> bool {
        self.sak_wait_since.get_or_insert(now);
        let is_over = self.sak_timeout().is_some_and(|timeout| now >= timeout);
        if is_over {
            self.sak_timeouts = self.sak_timeouts.saturating_add(1);
        }
        is_over
    }

    /// Waits for nothing. `is_served`: it has its key server's SAK, so that the next wait is short again.
    pub(crate) const fn stop_waiting(&mut self, is_served: bool) {
        self.sak_wait_since = None;
        if is_served {
            self.sak_timeouts = 0;
        }
    }
}

impl Participant {
    /// Next time at which it has work without an input, besides MKPDUs and SAKs to make.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        let mut earliest = Earliest::default();
        earliest.add(self.peers.deadline());
        earliest.add(self.election.deadline());
        earliest.add(self.sak_timeout());
        earliest.moment()
    }
}
