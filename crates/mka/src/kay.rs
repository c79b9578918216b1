//! The KaY: its parts, and the order in which they work.

mod receive;

use alloc::vec::Vec;
use core::fmt;

use wire::Instant;

use crate::compose::Contents;
use crate::counters::{Discard, KayCounters};
use crate::cp::Cp;
use crate::election::ElectedServer;
use crate::event::{Event, Report};
use crate::fault;
use crate::frame::Frame;
use crate::interop::{self, SakListeners};
use crate::key_server::{self, KeyServer};
use crate::names::Names;
use crate::observed_faults::ForeignMkpdus;
use crate::participant::Participant;
use crate::participants::Participants;
use crate::reason::{NewMiReason, Reason, SakReason};
use crate::settings::{CakEntry, OnPeerLoss, Settings};
use crate::station::Station;
use crate::status::Status;
use crate::terms::keeps_whole;
use crate::timers::{BOUNDED_HELLO, Earliest, HELLO, TRANSMIT_DELAY};
use crate::{cp_inputs, receive_scs};

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
///
/// Silence of peers counts in [`Kay::handle_timeout`] alone. Hand all frames over that wait before: if the caller
/// stood still, they show that their senders did not.
pub struct Kay {
    pub(crate) station: Station,
    pub(crate) participants: Participants,
    pub(crate) cp: Cp,
    pub(crate) key_server: KeyServer,
    pub(crate) foreign: ForeignMkpdus,
    /// Stations that did not hear one another when the latest SAK was made.
    pub(crate) listeners: SakListeners,
    /// True if all members are gone and the SAK is held.
    pub(crate) alone: bool,
    /// True if it keeps SDUs whole, as its MKPDUs announce.
    pub(crate) whole: bool,
}

impl fmt::Debug for Kay {
    /// Whatever decides its behaviour. Equal texts at one moment are equal KaYs but for random values: the models
    /// in `crates/models` compare states so.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // No field is left out by accident: a new one has to be named here.
        let Self { station, participants, cp, key_server, foreign, listeners, alone, whole } = self;
        f.debug_struct("Kay")
            .field("station", station)
            .field("participants", participants)
            .field("cp", cp)
            .field("key_server", key_server)
            .field("foreign", foreign)
            .field("listeners", listeners)
            .field("alone", alone)
            .field("whole", whole)
            .finish()
    }
}

impl Kay {
    /// A KaY with a participant for each CAK of `caks`, the preferred one first. `seed`: 32 octets from the
    /// operating system for this KaY only.
    pub fn new(now: Instant, settings: Settings, caks: Vec<CakEntry>, seed: &[u8; 32]) -> Self {
        let mut kay = Self {
            station: Station::new(now, settings, seed),
            participants: Participants::default(),
            cp: Cp::default(),
            key_server: KeyServer::default(),
            foreign: ForeignMkpdus::default(),
            listeners: SakListeners::default(),
            alone: false,
            whole: false,
        };
        kay.participants.configure(&mut kay.station, caks);
        kay.settle();
        kay
    }

    /// Applies other settings and CAKs. Participants with an unchanged CAK (name and key) continue, so
    /// nothing is lost.
    pub fn change(&mut self, now: Instant, settings: Settings, caks: Vec<CakEntry>) {
        self.station.advance(now);
        let before = self.station.configure(settings);
        self.participants.configure(&mut self.station, caks);
        self.follow_settings(&before);
    }

    /// Does what other settings than before want.
    pub(crate) fn follow_settings(&mut self, before: &Settings) {
        if before != self.station.settings() {
            self.station.notify(Reason::Configured);
        }
        if before.sci != self.station.settings().sci {
            // Another SCI is another station: no agreement applies to it.
            self.cp.retire_all(&mut self.station);
            self.participants.begin_anew(&mut self.station, NewMiReason::Sci);
            self.participants.forget_sci_conflict();
        }
        self.participants.request_mkpdus();
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
    fn take_frame(&mut self, now: Instant, frame: &[u8]) -> bool {
        self.station.advance(now);
        let received = self.receive(frame);
        if let Err(discard) = received {
            self.station.count(|counters| counters.count(discard));
        }
        self.settle();
        received.err().is_none_or(Discard::is_of_a_member)
    }

    /// Handles a report of the SecY.
    pub fn handle_report(&mut self, now: Instant, report: Report) {
        self.station.advance(now);
        if self.cp.handle_report(&mut self.station, report) {
            if let Report::Installed(_) = report {
                self.station.count(|counters| counters.saks_installed += 1);
            }
            self.participants.request_mkpdus();
        }
        self.settle();
    }

    /// Performs due work. Harmless if nothing is due.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.station.advance(now);
        self.participants.expire(&mut self.station);
        self.settle();
    }

    /// Requests another SAK. As key server it makes one. As a member it asks the key server by the standard's
    /// means: it reports that its PNs run out.
    pub fn rekey(&mut self, now: Instant) {
        self.station.advance(now);
        match self.participants.principal().map(Participant::server) {
            Some(ElectedServer::Me) => self.need_sak(SakReason::Requested),
            _ => self.ask_for_sak(),
        }
        self.settle();
    }

    /// Next frame for the protected side.
    pub fn poll_transmit(&mut self, now: Instant) -> Option<Frame> {
        self.station.advance(now);
        let now = self.station.now();
        let is_due = |participant: &Participant| self.next_mkpdu_at(participant) <= now;
        let i = self.participants.all().iter().position(is_due)?;
        let Some(mn) = self.participants.at_mut(i).send(now) else {
            self.participants.draw_mi(&mut self.station, i, NewMiReason::MnExhausted);
            return self.poll_transmit(now);
        };
        self.station.count(|counters| counters.mkpdus_tx += 1);
        let Self { station, participants, cp, .. } = self;
        Some(Contents { station, participants, cp }.mkpdu(&participants.all()[i], mn))
    }

    /// Next time for [`Kay::handle_timeout`]. Before that call, report the SecY's next PNs
    /// ([`Report::NextPn`]), at least every half second.
    pub fn poll_timeout(&self) -> Option<Instant> {
        let mut earliest = Earliest::default();
        self.participants.all().iter().for_each(|participant| earliest.add(self.next_mkpdu_at(participant)));
        earliest.add(self.participants.deadline(self.station.settings()));
        earliest.add(key_server::deadline(&self.station, &self.participants, &self.cp));
        earliest.add(self.cp.poll_timeout(self.station.now()));
        earliest.moment()
    }

    /// Next request to the SecY.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.station.poll_event()
    }

    /// Its present state.
    pub fn status(&self, now: Instant) -> Status {
        let Self { station, participants, cp, .. } = self;
        let fault = fault::present(station, participants, cp, &self.foreign, now);
        crate::status::of(station, participants, cp, fault, now)
    }

    /// Names of the stations that are live or were of late, for what [`Self::poll_event`] tells.
    pub const fn names(&self) -> &Names {
        self.station.names()
    }

    /// Its counters.
    pub const fn counters(&self) -> &KayCounters {
        self.station.counters()
    }

    /// All consequences of the present state. Bounded by the number of participants and peers.
    fn settle(&mut self) {
        self.participants.report_strangers(&mut self.station);
        self.choose_principal();
        self.elect();
        self.check_peer_loss();
        self.announce_whole();
        let Self { station, participants, cp, .. } = self;
        let made = self.key_server.run(station, participants, cp);
        if let (Some(ki), Some(principal)) = (made, participants.principal()) {
            self.listeners.record(principal, ki);
        }
        receive_scs::sync(station, participants, cp);
        cp_inputs::run(station, participants, cp);
        participants.check_sak_timeout(station, cp);
        self.ask_for_forgotten();
    }

    fn choose_principal(&mut self) {
        if self.participants.choose_principal(&mut self.station) {
            self.cp.withdraw_request();
        }
    }

    fn elect(&mut self) {
        let in_use = self.cp.transmitting().map(|sak| sak.ki);
        self.participants.elect(&mut self.station, in_use);
    }

    /// Treatment of the SAK when all members are gone: fail closed, or hold.
    fn check_peer_loss(&mut self) {
        if self.participants.has_company(self.station.settings()) || self.cp.latest().is_none() {
            self.alone = false;
            return;
        }
        let held = self.station.settings().on_peer_loss == OnPeerLoss::Hold;
        if !held || !self.alone {
            self.station.notify(Reason::Alone { held });
        }
        self.alone = true;
        if !held {
            self.cp.retire_all(&mut self.station);
            // They may still have us live, and the SAK in use, which we never accept again.
            self.participants.begin_anew(&mut self.station, NewMiReason::Blocked);
        }
    }

    /// Announces at once whether SDUs stay whole, if that has changed with the live peers.
    fn announce_whole(&mut self) {
        let Some(principal) = self.participants.principal() else { return };
        let whole = keeps_whole(self.station.settings(), principal.peers().live());
        if core::mem::replace(&mut self.whole, whole) != whole {
            self.participants.request_mkpdus();
        }
    }

    /// As a member with a SAK: requests another one on behalf of members without.
    fn ask_for_forgotten(&mut self) {
        let id = self.participants.principal_id();
        let latest = self.cp.latest().filter(|latest| latest.owner == id && latest.tx);
        let (Some(latest), Some(principal)) = (latest, self.participants.principal_mut()) else { return };
        if interop::has_forgotten_members(self.station.now(), principal, latest.ki) {
            self.ask_for_sak();
        }
    }

    fn server_is_of_another_make(&self) -> bool {
        self.participants.principal().is_some_and(Participant::server_is_of_another_make)
    }

    fn need_sak(&mut self, why: SakReason) {
        self.participants.need_sak(self.station.now(), why);
    }

    fn ask_for_sak(&mut self) {
        self.participants.ask_for_sak(&mut self.cp);
    }

    /// Time of a participant's next MKPDU.
    fn next_mkpdu_at(&self, participant: &Participant) -> Instant {
        let settings = self.station.settings();
        let hands_out = participant.distribution().is_some_and(|distribution| {
            self.station.now() < distribution.since + TRANSMIT_DELAY
                && distribution.is_in_progress(participant.peers().live())
        });
        let takes = self.cp.latest().is_some_and(|latest| latest.owner == participant.id() && !latest.tx);
        let soon = participant.next_mkpdu_at(BOUNDED_HELLO);
        // With no live peer, use the short hello, so a restored link is detected quickly.
        if settings.delay_protect || hands_out || takes || !self.participants.has_company(settings) {
            return soon;
        }
        let due = participant.next_mkpdu_at(HELLO);
        let overdue = participant.peers().overdue().map(|overdue| overdue.max(soon));
        overdue.map_or(due, |overdue| due.min(overdue))
    }
}
