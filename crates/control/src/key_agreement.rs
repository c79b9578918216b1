//! Links whose keys are agreed on: control owns the KaY, and carries over between it, its link's worker and the wire.
//!
//! ```text
//!  wire ── EAPOL frames ──▶ mailbox ──▶ Kay ── events ──▶ SaTable ── job: SaChanges ──▶ worker
//!       ◀── MKPDUs ── mailbox ◀──────── Kay ◀─ reports ─────────── job, done ◀──────
//! ```
//!
//! Nothing here waits: a worker's work comes back as an event. Frames and events of one turn are bounded by their mailboxes. The
//! KaY gets the next PN each half second, and at once when PNs run out. SAs in the kernel are changed here itself (sa_table.rs).

mod passed_on;

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use mka::{CakEntry, Kay, KayCounters, Names, Report, Settings, Status};
use secy::{ExpressClasses, FrameSizes};
use wire::mkpdu::Mkpdu;
use wire::{An, Ckn, Ki, Sci};

use super::sa_table::{FragmenterSettings, SaNotice, SaTable, describe};
use super::{Notice, WorkerUnresponsive};
use dataplane::job::Progress;
use dataplane::link::Link;
use dataplane::pipeline::{KayMailbox, Pipeline};
use dataplane::worker::WorkerHandle;

use crate::jobs::LinkJob;
use crate::kernel_link::{KernelLink, LinkPlace};
use crate::sa_changes::{NextPns, SaChanges};
pub use passed_on::PassedAgreement;

/// Interval at which the KaY gets the next PN.
const PN_PERIOD: Duration = Duration::from_millis(500);

/// Settings of a link's key agreement.
pub struct KeyAgreement {
    /// The KaY's settings. The SCI is that of the link's SecY.
    pub settings: Settings,
    /// The CAKs, the preferred one first.
    pub caks: Vec<CakEntry>,
    /// The replay window of the receive SAs to come, in PNs.
    pub replay_window: u32,
    /// Longest wait of an SDU for others to share its frame, where a SAK's [`mka::FragmentAgreement`] allows it.
    pub hold: Duration,
    /// SDUs that precede all others.
    pub express_classes: ExpressClasses,
    /// Sizes to which frames are padded, where all peers announced that they take such frames.
    pub padding: FrameSizes,
    /// Whether keystreams are made ahead under the keys to come, if their suite allows that.
    pub antedate: bool,
    /// The link is inside of a site, whose LAN may have stations of other groups: their MKPDUs come too.
    pub beside_stations: bool,
    /// Gets all inputs of the KaY, from its beginning; only where the link is added.
    pub record: Option<Recorder>,
}

impl KeyAgreement {
    const fn fragmenters(&self) -> FragmenterSettings {
        let Self { hold, express_classes, padding, .. } = *self;
        FragmenterSettings { hold, express_classes, padding }
    }
}

/// Records the inputs of a KaY. Called on control's thread: it must not wait for a disk.
pub type Recorder = Box<dyn FnMut(wire::Instant, Recorded<'_>) + Send>;

/// An input of a KaY, or its beginning. Beside its CAKs nothing else determines its behaviour.
#[derive(Clone, Copy, Debug)]
pub enum Recorded<'r> {
    /// It began.
    Began {
        /// Its settings.
        settings: &'r Settings,
        /// The names of its CAKs.
        ckns: &'r [Ckn],
        /// Seed of its random values.
        seed: &'r [u8; 32],
    },
    /// It was given other settings or CAKs.
    Changed {
        /// Its settings.
        settings: &'r Settings,
        /// The names of its CAKs.
        ckns: &'r [Ckn],
    },
    /// It was told something.
    Input(mka::Input<'r>),
    /// It was told of this frame, whose ICV no CAK verifies: anybody may have sent it.
    Stranger(&'r [u8]),
}

/// The state of a link's key agreement at one moment.
#[derive(Clone, Debug)]
pub struct KeyAgreementStatus {
    /// This moment, on the clock of `status`: from both an age can be had.
    pub now: wire::Instant,
    /// The KaY's state.
    pub status: Status,
    /// Its counters.
    pub counters: KayCounters,
}

/// Control's part of a link whose keys are agreed on.
pub(crate) struct Agreement {
    kay: Kay,
    mailbox: KayMailbox,
    /// Frames for the KaY that have left the mailbox, before all others.
    waiting: VecDeque<mka::Frame>,
    table: SaTable,
    /// Moment of the next query for PNs.
    pns_due: Instant,
    /// The names of the CAKs, where MKPDUs under others are stations'.
    own_ckns: Option<Vec<Ckn>>,
    record: Option<Recorder>,
}

/// Surroundings of an agreement: its worker, and the receiver of its notices.
pub(crate) struct Context<'g> {
    pub(crate) now: wire::Instant,
    pub(crate) worker: &'g mut WorkerHandle,
    pub(crate) slot: usize,
    pub(crate) link: &'g str,
    pub(crate) kernel: Option<&'g mut KernelLink>,
    pub(crate) notices: &'g mut Vec<Notice>,
}

impl Agreement {
    /// A KaY for a link that has none yet, which it is connected to. `seed`: of its random values.
    pub(crate) fn begin(
        now: Instant,
        moment: wire::Instant,
        link: &mut Link,
        agreement: KeyAgreement,
        seed: &[u8; 32],
    ) -> Self {
        let fragmenters = agreement.fragmenters();
        let KeyAgreement { settings, caks, replay_window, antedate, beside_stations, mut record, .. } =
            agreement;
        let own_ckns = beside_stations.then(|| names(&caks));
        if let Some(record) = &mut record {
            record(moment, Recorded::Began { settings: &settings, ckns: &names(&caks), seed });
        }
        let express = settings.announced.express;
        let kay = Kay::new(moment, settings, caks, seed);
        let table = SaTable::new(&link.pipeline().secy, replay_window, fragmenters, antedate, express);
        let mailbox = link.pipeline_mut().connect_kay();
        Self { kay, mailbox, waiting: VecDeque::new(), table, pns_due: now, own_ckns, record }
    }

    /// Makes a pipeline ready to come in the place of the worker's, which gets all changes so far: the table is that of the
    /// pipeline before then.
    ///
    /// # Errors
    /// [`WorkerUnresponsive`], if the new pipeline's SecY has another SCI.
    pub(crate) fn prepare(
        &mut self,
        pipeline: &mut Pipeline,
        worker: &mut WorkerHandle,
        slot: usize,
    ) -> Result<(), WorkerUnresponsive> {
        if let Some(changes) = self.table.take_changes()
            && let Err(job) = worker.submit(change_sas(slot, *changes))
        {
            self.table.requeue(job.data);
            return Err(WorkerUnresponsive);
        }
        self.table.prepare(pipeline).map_err(|_| WorkerUnresponsive)
    }

    /// That pipeline has come, with these settings.
    pub(crate) const fn follow_pipeline(&mut self, settings: secy::Settings) {
        self.table.follow(settings);
    }

    /// Takes other settings and CAKs over.
    pub(crate) fn change(&mut self, agreement: KeyAgreement, around: &mut Context<'_>) {
        let fragmenters = agreement.fragmenters();
        let KeyAgreement { settings, caks, replay_window, antedate, beside_stations, .. } = agreement;
        self.table.set(replay_window, fragmenters, antedate, settings.announced.express);
        let ckns = names(&caks);
        self.own_ckns = beside_stations.then(|| ckns.clone());
        self.keep(around.now, Recorded::Changed { settings: &settings, ckns: &ckns });
        self.kay.change(around.now, settings, caks);
        self.follow(around);
        self.commit(around);
    }

    /// Asks for another SAK.
    pub(crate) fn rekey(&mut self, around: &mut Context<'_>) {
        self.tell(around.now, mka::Input::Rekey);
        self.follow(around);
        self.commit(around);
    }

    /// Its SAs are the worker's from here on, in the kernel no more.
    pub(crate) fn leave_kernel(&mut self, around: &mut Context<'_>) {
        let Some(kernel) = around.kernel.as_deref_mut() else { return };
        if let Err(why) = self.table.leave_kernel(kernel) {
            around.notices.push(Notice::LinkKernelFault { link: around.link.to_owned(), why });
            self.tell(around.now, mka::Input::Rekey);
            self.follow(around);
        }
        self.commit(around);
    }

    /// Its state.
    pub(crate) fn status(&self, now: wire::Instant) -> KeyAgreementStatus {
        KeyAgreementStatus { now, status: self.kay.status(now), counters: *self.kay.counters() }
    }

    /// Handles changes of SAs that the worker has made. Keys that they took out are freed here.
    pub(crate) fn sas_changed(&mut self, changes: SaChanges, around: &mut Context<'_>) {
        match (changes.refused, changes.reports.first()) {
            // A SAK that is not installed as it should be is reported to nobody, and so it is not used.
            (Some(error), Some(Report::Installed(ki) | Report::Transmitting(ki))) => {
                around.tell(SaNotice::SakRefused(*ki, describe(error).into()));
            }
            _ => {
                self.worker_changed(&changes.reports, around);
                self.report(changes.reports, around);
            }
        }
    }

    /// Handles the worker's next PNs.
    pub(crate) fn next_pns(&mut self, pns: &NextPns, around: &mut Context<'_>) {
        let named = pns.of.into_iter().zip(pns.next).filter_map(|(ki, next_pn)| ki.zip(next_pn));
        self.report(named.map(|(ki, next_pn)| Report::NextPn { ki, next_pn }), around);
    }

    /// Asks for the next PNs in the next turn.
    pub(crate) const fn schedule_pn_query(&mut self, now: Instant) {
        self.pns_due = now;
    }

    /// Tells the KaY.
    fn tell(&mut self, now: wire::Instant, input: mka::Input<'_>) {
        let is_of_a_member = self.kay.handle_input(now, input);
        let recorded = match input {
            mka::Input::Frame(frame) if !is_of_a_member => Recorded::Stranger(frame),
            input => Recorded::Input(input),
        };
        self.keep(now, recorded);
    }

    fn keep(&mut self, now: wire::Instant, recorded: Recorded<'_>) {
        if let Some(record) = &mut self.record {
            record(now, recorded);
        }
    }

    /// Handles frames and events, and does what is due.
    pub(crate) fn turn(&mut self, now: Instant, around: &mut Context<'_>) {
        if now >= self.pns_due && around.ask_next_pns(self.table.by_an()) {
            self.pns_due = now + PN_PERIOD;
            let in_kernel = around.kernel.as_deref().map(|kernel| self.table.next_pns(kernel));
            in_kernel.into_iter().flatten().for_each(|next| self.tell(around.now, mka::Input::Report(next)));
            if around.kernel.as_deref().is_some_and(|kernel| self.table.express_wants_sak(kernel)) {
                self.tell(around.now, mka::Input::Rekey);
            }
        }
        for _ in 0..self.waiting.len() + self.mailbox.waiting() {
            let Some(frame) = self.waiting.pop_front().or_else(|| self.mailbox.receive()) else { break };
            if self.is_of_station(&frame) {
                continue;
            }
            self.tell(around.now, mka::Input::Frame(&frame));
            self.follow(around);
        }
        if self.kay.poll_timeout().is_some_and(|due| due <= around.now) {
            self.tell(around.now, mka::Input::Timeout);
        }
        self.follow(around);
        self.commit(around);
    }

    /// Whether an MKPDU is of a group of stations, and no fault: it is under another CKN, and not of a peer.
    fn is_of_station(&self, frame: &[u8]) -> bool {
        let Some(own_ckns) = &self.own_ckns else { return false };
        Mkpdu::parse(frame).is_ok_and(|Mkpdu { basic, .. }| {
            !own_ckns.contains(&basic.ckn) && !self.table.scs().contains(&basic.sci)
        })
    }

    fn report(&mut self, reports: impl IntoIterator<Item = Report>, around: &mut Context<'_>) {
        for report in reports {
            self.tell(around.now, mka::Input::Report(report));
            self.follow(around);
        }
        self.commit(around);
    }

    /// The worker has carried out what these reports are of.
    fn worker_changed(&self, reports: &[Report], around: &mut Context<'_>) {
        for report in reports {
            if let (Report::Transmitting(ki), Some(kernel)) = (report, around.kernel.as_deref_mut())
                && let Err(error) = self.table.worker_protects(*ki, kernel)
            {
                around.tell(SaNotice::Kernel(error));
            }
        }
    }

    /// The receive SCs that the programs have, all or the express ones.
    pub(crate) fn kernel_scs(&self, express: bool) -> Vec<Sci> {
        if express { self.table.express_scs() } else { self.table.scs().to_vec() }
    }

    /// Whether the kernel has SAs.
    pub(crate) fn is_in_kernel(&self) -> bool {
        self.table.is_in_kernel()
    }

    /// Whether the worker has SAs.
    pub(crate) fn is_shared(&self) -> bool {
        self.table.is_shared()
    }

    /// Returns the place of the SAK that protects, with programs that stand for all SCs or for the express ones.
    pub(crate) fn link_place(&self, express: bool) -> LinkPlace {
        if express {
            return self.table.express_place();
        }
        self.table.why_user_space().map_or(LinkPlace::Kernel, |why| LinkPlace::UserSpace(why.to_owned()))
    }

    /// Takes the KaY's frames, changes and notices.
    fn follow(&mut self, around: &mut Context<'_>) {
        while let Some(event) = self.kay.poll_event() {
            let Context { link, kernel, notices, .. } = around;
            let names = self.kay.names();
            let tell = &mut |notice| notices.push(notice_of(link, notice, names));
            self.table.apply_event(event, kernel.as_deref_mut(), tell);
        }
        while let Some(frame) = self.kay.poll_transmit(around.now) {
            // No room means that the worker is stuck; whoever misses an MKPDU hears the next one.
            self.mailbox.send(frame);
        }
        if self.mailbox.take_wake_flag() {
            around.worker.wake();
        }
    }

    /// Gives the worker the changes that were made.
    fn commit(&mut self, around: &mut Context<'_>) {
        let Some(changes) = self.table.take_changes() else { return };
        if let Err(job) = around.worker.submit(change_sas(around.slot, *changes)) {
            self.table.requeue(job.data);
        }
    }
}

impl Context<'_> {
    /// True if there was nothing to ask, or it was asked.
    fn ask_next_pns(&mut self, of: [Option<Ki>; An::COUNT]) -> bool {
        let ask = LinkJob::new(self.slot, NextPns { of, ..NextPns::default() }, |link, pns| {
            pns.read(&link.pipeline().secy);
            Progress::Done
        });
        of.iter().all(Option::is_none) || self.worker.submit(ask).is_ok()
    }

    /// A notice that is of no member.
    fn tell(&mut self, notice: SaNotice) {
        self.notices.push(notice_of(self.link, notice, &Names::default()));
    }
}

fn notice_of(link: &str, notice: SaNotice, names: &Names) -> Notice {
    let link = link.to_owned();
    match notice {
        SaNotice::Reason(reason) => {
            let words = names.within(&reason).to_string();
            Notice::KeyAgreement { link, reason, words }
        }
        SaNotice::TooManyPeers(sci) => {
            Notice::TooManyPeers { link, sci, peer: names.beside(sci).to_string() }
        }
        SaNotice::SakRefused(ki, why) => Notice::SakRefused { link, ki, why },
        SaNotice::Kernel(error) => Notice::LinkKernelFault { link, why: error.to_string() },
    }
}

/// The job that carries out these changes.
fn change_sas(slot: usize, changes: SaChanges) -> Box<LinkJob<SaChanges>> {
    LinkJob::new(slot, changes, |link, changes| {
        changes.apply_to_link(link);
        Progress::Done
    })
}

fn names(caks: &[CakEntry]) -> Vec<Ckn> {
    caks.iter().map(|entry| entry.ckn).collect()
}

#[cfg(test)]
mod simulation;
