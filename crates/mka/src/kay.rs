//! The KaY.

use alloc::vec::Vec;
use core::fmt;

use arrayvec::ArrayVec;
use suite::mka::Drbg;
use wire::mkpdu::Capability;
use wire::{Instant, Ki, Sci};

use crate::compose;
use crate::counters::{Discard, KayCounters};
use crate::cp::Cp;
use crate::election::{Candidate, ElectedServer};
use crate::event::{Event, Outbox, Report};
use crate::fault::{FaultTimer, ForeignMkpdus};
use crate::interop::SakListeners;
use crate::membership::Membership;
use crate::participant::Participant;
use crate::reason::{NewMiReason, Reason, SakReason};
use crate::settings::{CakEntry, Settings};
use crate::status::Status;
use crate::timers::{BOUNDED_HELLO, Earliest, HELLO, TRANSMIT_DELAY};

/// Octets of the longest MKPDU with its Ethernet header.
pub const FRAME_OCTETS: usize = 1514;

/// A frame from its destination address on, without FCS.
pub type Frame = ArrayVec<u8, FRAME_OCTETS>;

/// An input of a running KaY as one value, so that a caller can record it and replay it to another KaY. Its
/// effects are polled at the same moment.
///
/// A KaY with the same settings, CAKs and seed that gets the same inputs at the same moments behaves the same. The
/// seed is not secret without a CAK: it yields MIs, and nonces that become SAKs only under the CAK.
#[derive(Clone, Copy, Debug)]
pub enum Input<'t> {
    /// A received EAPOL frame: [`Kay::handle_frame`].
    Frame(&'t [u8]),
    /// A report of the SecY: [`Kay::handle_report`].
    Report(Report),
    /// The passing of time: [`Kay::handle_timeout`].
    Timeout,
    /// A request for another SAK: [`Kay::rekey`].
    Rekey,
}

/// A Key Agreement Entity: serves one SecY, with one participant for each CAK (clause 9.3).
///
/// # Use
/// After each input (`handle_*`, `change`, `rekey`), call [`Kay::poll_event`] and [`Kay::poll_transmit`]
/// until they return nothing, then [`Kay::poll_timeout`].
pub struct Kay {
    pub(crate) settings: Settings,
    /// In the order of configuration.
    pub(crate) participants: Vec<Participant>,
    /// Identity of the principal participant.
    pub(crate) principal: u32,
    /// A better participant than the principal one, and since when.
    pub(crate) better: Option<(u32, Instant)>,
    pub(crate) cp: Cp,
    pub(crate) drbg: Drbg,
    pub(crate) out: Outbox,
    pub(crate) counters: KayCounters,
    pub(crate) foreign: ForeignMkpdus,
    pub(crate) membership: Membership,
    /// As a member: the SAK for which a replacement is requested.
    pub(crate) asks_to_replace: Option<Ki>,
    /// As key server: live stations without a SAK.
    pub(crate) left_out: Vec<Sci>,
    /// Stations that did not hear one another when the latest SAK was made.
    pub(crate) listeners: SakListeners,
    /// True if all members are gone and the SAK is held.
    pub(crate) alone: bool,
    /// Latest known moment.
    pub(crate) now: Instant,
    next_id: u32,
}

impl fmt::Debug for Kay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Kay")
            .field("participants", &self.participants)
            .field("cp", &self.cp)
            .finish_non_exhaustive()
    }
}

impl Kay {
    /// A KaY with a participant for each CAK of `caks`, the preferred one first. `seed`: 32 octets from the
    /// operating system for this KaY only.
    pub fn new(now: Instant, settings: Settings, caks: Vec<CakEntry>, seed: &[u8; 32]) -> Self {
        let mut kay = Self {
            settings,
            participants: Vec::new(),
            principal: 0,
            better: None,
            cp: Cp::default(),
            drbg: Drbg::new(seed),
            out: Outbox::default(),
            counters: KayCounters::default(),
            foreign: ForeignMkpdus::default(),
            membership: Membership::default(),
            asks_to_replace: None,
            left_out: Vec::new(),
            listeners: SakListeners::default(),
            alone: false,
            now,
            next_id: 0,
        };
        kay.take_caks(caks);
        kay.settle();
        kay
    }

    /// Applies other settings and CAKs. Participants with an unchanged CAK (name and key) continue, so
    /// nothing is lost.
    pub fn change(&mut self, now: Instant, settings: Settings, caks: Vec<CakEntry>) {
        self.advance(now);
        let before = core::mem::replace(&mut self.settings, settings);
        self.take_caks(caks);
        if before != self.settings {
            self.out.notify(self.now, Reason::Configured);
        }
        if before.sci != self.settings.sci {
            // Another SCI is another station: no agreement applies to it.
            self.cp.retire_all(self.now, &mut self.out);
            self.begin_anew(NewMiReason::Sci);
            // A recorded conflict belongs to the previous SCI.
            self.participants
                .iter_mut()
                .for_each(|participant| participant.faults.sci_in_use = FaultTimer::default());
        }
        self.participants.iter_mut().for_each(|participant| participant.schedule.request());
        self.settle();
    }

    /// Handles one input. False for a frame that a stranger may have sent: no CAK verifies its ICV.
    pub fn handle_input(&mut self, now: Instant, input: Input<'_>) -> bool {
        match input {
            Input::Frame(frame) => return self.take_frame(now, frame),
            Input::Report(report) => self.handle_report(now, report),
            Input::Timeout => self.handle_timeout(now),
            Input::Rekey => self.rekey(now),
        }
        true
    }

    /// Handles an EAPOL frame from the protected side, whatever its content.
    pub fn handle_frame(&mut self, now: Instant, frame: &[u8]) {
        self.take_frame(now, frame);
    }

    /// As [`Self::handle_frame`]. True for an MKPDU with a right ICV under one of the CAKs, even if it is
    /// discarded.
    pub(crate) fn take_frame(&mut self, now: Instant, frame: &[u8]) -> bool {
        self.advance(now);
        let received = self.receive(frame);
        if let Err(discard) = received {
            self.counters.count(discard);
        }
        self.settle();
        received.err().is_none_or(Discard::is_of_a_member)
    }

    /// Handles a report of the SecY.
    pub fn handle_report(&mut self, now: Instant, report: Report) {
        self.advance(now);
        if self.cp.handle_report(self.now, report, &mut self.out) {
            if let Report::Installed(_) = report {
                self.counters.saks_installed += 1;
            }
            self.request_mkpdus();
        }
        self.settle();
    }

    /// Performs due work. Harmless if nothing is due.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.advance(now);
        self.settle();
    }

    /// Requests another SAK. As key server it makes one. As a member it asks the key server by the standard's
    /// means: it reports that its PNs run out.
    pub fn rekey(&mut self, now: Instant) {
        self.advance(now);
        match self.principal_mut().map(|principal| principal.server()) {
            Some(ElectedServer::Me) => self.need(SakReason::Requested),
            _ => self.ask_for_sak(),
        }
        self.settle();
    }

    /// Next frame for the protected side.
    pub fn poll_transmit(&mut self, now: Instant) -> Option<Frame> {
        self.advance(now);
        let i =
            self.participants.iter().position(|participant| self.next_mkpdu_at(participant) <= self.now)?;
        self.participants[i].schedule.sent(self.now);
        let Some(mn) = self.participants[i].message_numbers.next(self.now) else {
            self.draw_mi(i, NewMiReason::MnExhausted);
            return self.poll_transmit(now);
        };
        self.counters.mkpdus_tx += 1;
        Some(compose::mkpdu(self, &self.participants[i], mn))
    }

    /// Next time for [`Kay::handle_timeout`]. Before that call, report the SecY's next PNs
    /// ([`Report::NextPn`]), at least every half second.
    pub fn poll_timeout(&self) -> Option<Instant> {
        let mut earliest = Earliest::default();
        for participant in &self.participants {
            earliest.add(self.next_mkpdu_at(participant));
            earliest.add(participant.peers.deadline());
            earliest.add(participant.election.deadline());
            earliest.add(participant.sak_wait_since.map(|since| participant.sak_timeout_at(since)));
        }
        earliest.add(self.principal_deadline());
        earliest.add(self.strangers_deadline());
        earliest.add(self.serving_deadline());
        earliest.add(self.cp.poll_timeout(self.now));
        earliest.moment()
    }

    /// Next request to the SecY.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.out.poll()
    }

    /// Its present state.
    pub fn status(&self, now: Instant) -> Status {
        crate::status::of(self, now)
    }

    /// Its counters.
    pub const fn counters(&self) -> &KayCounters {
        &self.counters
    }

    /// A clock that went back counts as one that stands still.
    fn advance(&mut self, now: Instant) {
        self.now = self.now.max(now);
    }

    /// All consequences of the present state. Bounded by the number of participants and peers.
    fn settle(&mut self) {
        self.expire();
        self.report_strangers();
        self.choose_principal();
        self.elect();
        self.check_peer_loss();
        self.run_key_server();
        self.sync_receive_scs();
        self.run_cp();
        self.check_sak_timeout();
        self.report_forgotten();
    }

    /// Participants for these CAKs, in this order. Existing ones continue.
    fn take_caks(&mut self, caks: Vec<CakEntry>) {
        if let (Some(before), Some(now)) = (self.participants.first(), caks.first())
            && !(before.ckn == now.ckn && before.cak == now.cak)
        {
            self.prefer_another();
        }
        let mut before = core::mem::take(&mut self.participants);
        for entry in caks {
            let same = |old: &Participant| old.ckn == entry.ckn && old.cak == entry.cak;
            if self.participants.iter().any(same) {
                continue;
            }
            let participant = match before.iter().position(same) {
                Some(i) => before.remove(i),
                None => {
                    self.next_id += 1;
                    let participant = Participant::new(self.next_id, entry, &mut self.drbg);
                    let (ckn, mi) = (participant.ckn, participant.mi);
                    self.out.notify(self.now, Reason::Started { ckn, mi });
                    participant
                }
            };
            self.participants.push(participant);
        }
        for gone in before {
            self.out.notify(self.now, Reason::Ended { ckn: gone.ckn });
        }
    }

    /// Time of a participant's next MKPDU.
    fn next_mkpdu_at(&self, participant: &Participant) -> Instant {
        let hands_out = participant.serving.distribution.as_ref().is_some_and(|distribution| {
            self.now < distribution.since + TRANSMIT_DELAY
                && distribution.is_in_progress(participant.peers.live())
        });
        let takes = self.cp.latest().is_some_and(|latest| latest.owner == participant.id && !latest.tx);
        // With no live peer, use the short hello, so a restored link is detected quickly.
        let alone = !self.has_company();
        if self.settings.delay_protect || hands_out || takes || alone {
            return participant.schedule.poll_timeout(BOUNDED_HELLO);
        }
        let due = participant.schedule.poll_timeout(HELLO);
        let overdue = participant
            .peers
            .overdue()
            .map(|overdue| overdue.max(participant.schedule.poll_timeout(BOUNDED_HELLO)));
        overdue.map_or(due, |overdue| due.min(overdue))
    }

    /// Requests an MKPDU of each participant.
    pub(crate) fn request_mkpdus(&mut self) {
        self.participants.iter_mut().for_each(|participant| participant.schedule.request());
    }

    pub(crate) fn me(&self) -> Candidate {
        Candidate {
            priority: self.settings.priority,
            sci: self.settings.sci,
            macsec: self.settings.capability > Capability::None,
            yields: false,
        }
    }

    /// Own candidacy under one CAK.
    pub(crate) fn candidate(&self, participant: &Participant) -> Candidate {
        Candidate { yields: participant.peers.own_reachability.is_lesser(), ..self.me() }
    }

    pub(crate) fn participant(&self, id: u32) -> Option<&Participant> {
        self.participants.iter().find(|participant| participant.id == id)
    }

    pub(crate) fn principal(&self) -> Option<&Participant> {
        self.participant(self.principal)
    }

    pub(crate) fn principal_mut(&mut self) -> Option<&mut Participant> {
        self.participants.iter_mut().find(|participant| participant.id == self.principal)
    }

    pub(crate) fn draw_mi(&mut self, i: usize, why: NewMiReason) {
        let participant = &mut self.participants[i];
        participant.draw_mi(&mut self.drbg);
        self.out.notify(self.now, Reason::NewMi { mi: participant.mi, why });
    }

    /// Gives each participant a new MI.
    pub(crate) fn begin_anew(&mut self, why: NewMiReason) {
        (0..self.participants.len()).for_each(|i| self.draw_mi(i, why));
    }
}
