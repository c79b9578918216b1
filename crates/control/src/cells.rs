//! Cells: control owns the handshakes of their relations, and carries over between them, their link's worker and the wire.
//!
//! ```text
//!  wire ── HELLOs ──▶ MAC? ──▶ mailbox ──▶ Handshake ── events ──▶ KeyChange ── job: KeyChanges ──▶ Relations
//!       ◀── HELLOs ── mailbox ◀──── Handshake ◀────────── mailbox ◀── Event: heard, epoch begun ◀──
//! ```
//!
//! Nothing here waits for a worker but adding, changing and removing a cell, and its report. HELLOs and events of one turn
//! are bounded by their mailboxes. An answer leaves with the turn in which its question was heard: a worker that hears a
//! HELLO wakes control, and control wakes the worker.

mod kernel;
mod kernel_faults;
mod key_changes;
mod passed_on;
mod recent;
mod settings;
mod silence;

use std::collections::BTreeSet;
use std::time::Instant;

use fieldbus::handshake::{Handshake, HandshakeEvent, HelloCounters};
use fieldbus::session::SessionNumber;
use fieldbus::{Event, KeyChange, LiveSession, RelationSettings, Relations};
use suite::fieldbus::{MasterKey, MasterKeys};
use zeroize::Zeroizing;

pub use self::kernel::CellPlace;
pub(crate) use self::kernel::KernelCell;
use self::kernel_faults::{Duty, KernelFaults};
pub use self::passed_on::PassedCell;
use self::recent::RecentCounters;
pub use self::settings::{CellError, CellSettings, CellStatus};
use self::silence::SilentRelations;
use super::Notice;
use crate::kernel_ports::PlaceWanted;
use dataplane::cell::mailbox::{self, ControlMailbox, HelloFrame};
use dataplane::cell::{Cell, CellSnapshot, HelloFilter};
use dataplane::job::Progress;
use dataplane::worker::WorkerHandle;

use crate::jobs::LinkJob;
use key_changes::KeyChanges;

/// Control's part of a cell.
pub(crate) struct CellControl {
    settings: CellSettings,
    kernel: Option<KernelCell>,
    /// The programs suit its settings, and some are to be had.
    may_have_programs: bool,
    place: CellPlace,
    mailbox: ControlMailbox,
    relations: Vec<RelationControl>,
    /// Key changes that the worker has not got yet.
    changes: Vec<(usize, KeyChange)>,
    /// Relations of whose changes the worker has not heard; the kernel has made them.
    for_worker: BTreeSet<usize>,
    /// HELLOs that wait until the worker has the changes.
    says: Vec<HelloFrame>,
    /// Counters of handshakes that are over.
    hello_before: HelloCounters,
    lately: RecentCounters,
    silences: SilentRelations,
    kernel_faults: KernelFaults,
}

/// Control's part of a relation.
struct RelationControl {
    handshake: Handshake,
    /// The session that it entered last.
    newest: SessionNumber,
}

/// Receiver of notices, and the moment.
pub(crate) struct Context<'g> {
    pub(crate) now: Instant,
    pub(crate) moment: wire::Instant,
    pub(crate) worker: &'g mut WorkerHandle,
    pub(crate) slot: usize,
    pub(crate) notices: &'g mut Vec<Notice>,
}

/// A cell, and control's part of it.
type Made = (Box<Cell>, Box<CellControl>);

impl CellControl {
    /// A cell of these settings, and control's part of it.
    pub(crate) fn make(settings: CellSettings) -> Result<Made, CellError> {
        let relations =
            Relations::new(settings.settings, &settings.relations).map_err(CellError::Relations)?;
        let handshake = |of: &RelationSettings| {
            let seed = random_seed()?;
            let CellSettings { master_keys, settings, .. } = &settings;
            let handshake =
                Handshake::new(&of.relation, master_keys, settings.protection, settings.ethertype, &seed);
            Ok(RelationControl { handshake, newest: SessionNumber(0) })
        };
        let handshakes: Vec<_> =
            settings.relations.iter().map(handshake).collect::<Result<_, CellError>>()?;
        let (cell, control) = Self::of(settings, relations, handshakes);
        Ok((Box::new(cell), Box::new(control)))
    }

    /// A cell of these relations, whose handshakes these are, and control's part of it, which has counted nothing.
    fn of(settings: CellSettings, relations: Relations, handshakes: Vec<RelationControl>) -> (Cell, Self) {
        let (worker, mailbox) = mailbox::pair(relations.count());
        let filter = |of: &RelationControl| {
            HelloFilter::new(of.handshake.hello_codec(), of.handshake.expected_nonces())
        };
        let doors = handshakes.iter().map(filter).collect();
        let cell = Cell::new(relations, settings.rest, worker, doors);
        let control = Self {
            settings,
            kernel: None,
            may_have_programs: false,
            place: CellPlace::UserSpace(String::new()),
            mailbox,
            relations: handshakes,
            changes: Vec::new(),
            for_worker: BTreeSet::new(),
            says: Vec::new(),
            hello_before: HelloCounters::default(),
            lately: RecentCounters::default(),
            silences: SilentRelations::default(),
            kernel_faults: KernelFaults::default(),
        };
        (cell, control)
    }

    /// True if sessions of the cell before go on in it. Also under other master keys: the handshakes then make others.
    fn keeps_sessions_of(&self, before: &Self) -> bool {
        let keys = |settings: &CellSettings| (settings.settings.protection, settings.settings.ethertype);
        keys(&self.settings) == keys(&before.settings)
    }

    /// Pairs the relations that are the same in the cell before: number here, number there.
    pub(crate) fn carry_over(&self, before: &Self) -> Vec<(usize, usize)> {
        let (own, there) = (&self.settings, &before.settings);
        if !self.keeps_sessions_of(before) {
            return Vec::new();
        }
        // Relations whose keys differ get another session.
        let stays = |&(number, there): &(usize, usize)| self.keys_stay(number, before, there);
        let identity = |of: &RelationSettings| of.relation.identity();
        let mut known: Vec<_> = there.relations.iter().map(identity).zip(0..).collect();
        known.sort_unstable();
        let find = |of: &RelationSettings| {
            let found = known.binary_search_by_key(&identity(of), |(identity, _)| *identity).ok()?;
            Some(known[found].1)
        };
        let found = own.relations.iter().enumerate().filter_map(|(number, of)| Some((number, find(of)?)));
        found.filter(stays).collect()
    }

    /// Goes on with the handshakes of the cell before, under the master keys of this one, and with the changes that it has not
    /// made yet.
    pub(crate) fn take_over(
        &mut self,
        now: wire::Instant,
        mut before: Self,
        carry_over: &[(usize, usize)],
        notices: &mut Vec<Notice>,
    ) {
        let other_keys = self.settings.master_keys != before.settings.master_keys;
        let mut new_numbers = vec![None; before.relations.len()];
        for &(number, there) in carry_over {
            std::mem::swap(&mut self.relations[number], &mut before.relations[there]);
            new_numbers[there] = Some(number);
            if other_keys {
                self.relations[number].handshake.change_keys(now, &self.settings.master_keys);
                // The worker's filter needs the new names.
                self.changes.push((number, KeyChange::Collect));
            }
        }
        let here = |(there, change): (usize, KeyChange)| Some((new_numbers[there]?, change));
        self.changes.extend(before.changes.into_iter().filter_map(here));
        self.for_worker.extend(before.for_worker.into_iter().filter_map(|there| new_numbers[there]));
        self.silences = before.silences.renumbered(&new_numbers);
        while let Some((there, event)) = before.mailbox.events.receive() {
            if let Some(number) = new_numbers[usize::from(there)] {
                self.hear_event(number, event, notices);
            }
        }
        (self.hello_before, self.lately) = (before.hello_before, before.lately);
        self.hello_before.add(&before.mailbox.shared_counters.counters());
        for relation in before.relations {
            self.hello_before.add(relation.handshake.counters());
        }
    }

    /// Handles HELLOs and events, and does what is due.
    pub(crate) fn turn(&mut self, around: &mut Context<'_>) {
        for _ in 0..self.mailbox.hellos.waiting() {
            let Some(hello) = self.mailbox.hellos.receive() else { break };
            let number = usize::from(hello.relation);
            // The handshake has counted the fault.
            let _ = self.relations[number].handshake.handle_frame(around.moment, &hello.octets);
            self.follow(number);
        }
        for _ in 0..self.mailbox.events.waiting() {
            let Some((relation, event)) = self.mailbox.events.receive() else { break };
            // The worker may still watch what has gone to the kernel.
            if !self.in_kernel(relation.into()) {
                self.hear_event(relation.into(), event, around.notices);
            }
        }
        let events = self.kernel.as_mut().map(|kernel| kernel.poll_events(around.now)).unwrap_or_default();
        for (number, event) in events {
            self.hear_event(number, event, around.notices);
        }
        for number in 0..self.relations.len() {
            let handshake = &mut self.relations[number].handshake;
            if handshake.poll_timeout().is_some_and(|due| due <= around.moment) {
                handshake.handle_timeout(around.moment);
                self.follow(number);
            }
        }
        self.tell_silences(around);
        let mut lately = self.lately;
        lately.mark(around.now, || self.hello());
        self.lately = lately;
        self.commit(around);
        self.report_kernel_faults(around.notices);
        self.say();
        if self.mailbox.hellos.take_wake_flag() {
            around.worker.wake();
        }
    }

    /// Handles an event of the data path.
    fn hear_event(&mut self, number: usize, event: Event, notices: &mut Vec<Notice>) {
        let relation = &mut self.relations[number];
        let change = match event {
            Event::SessionVerified(session) => {
                relation.handshake.handle_verified_frame(session);
                let of = self.settings.relations[number].relation;
                notices.push(Notice::CyclicSession { cell: self.settings.name.clone(), relation: of });
                KeyChange::Collect
            }
            Event::TransmitEpoch(session, epoch) => {
                let key = relation.handshake.next_transmit(session, epoch.saturating_add(1));
                key.map_or(KeyChange::Collect, |key| KeyChange::NextTransmit(session, key))
            }
            Event::ReceiveEpoch(session, epoch) => {
                let key = relation.handshake.next_receive(session, epoch.saturating_add(1));
                key.map_or(KeyChange::Collect, |key| KeyChange::NextReceive(session, key))
            }
            Event::Alarm(gap) => {
                self.silences.add(number, gap);
                return;
            }
            Event::Lost => {
                relation.handshake.request_session();
                KeyChange::Collect
            }
        };
        self.changes.push((number, change));
        self.follow(number);
    }

    /// Takes a handshake's HELLOs, key changes and notices.
    fn follow(&mut self, number: usize) {
        let RelationControl { handshake, newest, .. } = &mut self.relations[number];
        while let Some(event) = handshake.poll_event() {
            let change = match event {
                HandshakeEvent::Enter(session) => {
                    *newest = session.number;
                    KeyChange::Enter(LiveSession::new(*session))
                }
                HandshakeEvent::Enable => KeyChange::Enable(*newest),
                HandshakeEvent::End => KeyChange::Leave,
            };
            self.changes.push((number, change));
        }
        while let Some(octets) = handshake.poll_transmit() {
            self.says.push(HelloFrame { relation: number as u16, octets: octets.into_iter().collect() });
        }
    }

    /// Gives the worker the HELLOs to be sent, behind their keys: a peer that learns that this gateway has entered a session
    /// sends at once, and frames that come before the keys are lost.
    fn say(&mut self) {
        if !self.changes.is_empty() || !self.for_worker.is_empty() {
            // All of it is said again.
            self.says.clear();
        }
        for hello in self.says.drain(..) {
            // No room means that the worker is stuck; whoever misses a HELLO hears the next one.
            self.mailbox.hellos.send(hello);
        }
    }

    /// Reports silent relations, once in a while.
    fn tell_silences(&mut self, around: &mut Context<'_>) {
        if let Some((relations, gap)) = self.silences.due(around.now) {
            let of = |number: usize| self.settings.relations[number].relation;
            around.notices.push(Notice::CyclicSilence {
                cell: self.settings.name.clone(),
                relations: relations.into_iter().map(of).collect(),
                gap,
            });
        }
    }

    /// Reports what the kernel does not do for relations.
    fn report_kernel_faults(&mut self, notices: &mut Vec<Notice>) {
        for (why, relations) in self.kernel_faults.take_unreported() {
            let relations = relations.into_iter().map(|number| self.settings.relations[number].relation);
            let cell = self.settings.name.clone();
            notices.push(Notice::KernelFault { cell, relations: relations.collect(), why });
        }
    }

    /// Gives the worker the changes that were made.
    fn commit(&mut self, around: &mut Context<'_>) {
        let mut changes = self.take_changes().into_iter().peekable();
        let relations = &self.relations;
        let named = |(number, change): (usize, KeyChange)| {
            (number, change, relations[number].handshake.expected_nonces())
        };
        while changes.peek().is_some() {
            let list = KeyChanges::new(changes.by_ref().map(named));
            let change = LinkJob::new(around.slot, list, |link, list| {
                if let Some(cell) = link.pipeline_mut().cell_mut() {
                    list.apply(cell);
                }
                // Other lists may follow, for a thousand relations. Frames wait for one of them at the most.
                Progress::DoneForThisTurn
            });
            if let Err(job) = around.worker.submit(change) {
                // Those of a relation keep their order. The kernel makes none twice: it would wipe the keys that it has.
                for (number, change) in job.data.left().chain(changes) {
                    if self.in_kernel(number) {
                        self.for_worker.insert(number);
                    } else {
                        self.changes.push((number, change));
                    }
                }
                return;
            }
        }
    }

    /// The changes that were made, as far as they are the worker's. The kernel has its own behind this.
    fn take_changes(&mut self) -> Vec<(usize, KeyChange)> {
        let Self { changes, for_worker, kernel, kernel_faults, .. } = self;
        let mut in_kernel = |(number, change): (usize, KeyChange)| {
            let Some(kernel) = kernel.as_mut().filter(|kernel| kernel.has(number)) else {
                return (number, change);
            };
            let changed = kernel.change(number, &change);
            // Keys that were not taken are missing until others are entered, whatever else the kernel does.
            if changed.is_err() || matches!(change, KeyChange::Enter(_)) {
                kernel_faults.note(number, Duty::TakeKeys, changed);
            }
            // The worker has the names that go with it, and no keys: none of its own from before either.
            (number, KeyChange::Leave)
        };
        let unheard = std::mem::take(for_worker).into_iter().map(|number| (number, KeyChange::Leave));
        unheard.chain(std::mem::take(changes).into_iter().map(&mut in_kernel)).collect()
    }

    /// Has all relations agree on new sessions.
    pub(crate) fn renew_sessions(&mut self, now: wire::Instant) {
        self.relations.iter_mut().for_each(|relation| relation.handshake.renew_session(now));
    }

    /// Number of relations whose sessions rest on none of these master keys.
    pub(crate) fn sessions_under_other_keys(&self, keys: &MasterKeys) -> usize {
        let known: Vec<_> = keys.iter().map(MasterKey::id).collect();
        let is_other =
            |of: &&RelationControl| of.handshake.session_key().is_some_and(|id| !known.contains(&id));
        self.relations.iter().filter(is_other).count()
    }

    /// Returns the number of its relations.
    pub(crate) const fn relations(&self) -> usize {
        self.relations.len()
    }

    /// Returns the place where its frames are protected and verified.
    pub(crate) const fn place(&self) -> &CellPlace {
        &self.place
    }

    /// Returns the place that is wanted for them.
    pub(crate) const fn place_wanted(&self) -> PlaceWanted {
        self.settings.place
    }

    /// Its state: what the worker knows, and the rest.
    pub(crate) fn status(&mut self, snapshot: CellSnapshot) -> CellStatus {
        let CellSnapshot { counters, mut relations } = snapshot;
        if let Some(kernel) = &self.kernel {
            let in_kernel = relations.iter_mut().enumerate().filter(|(number, _)| kernel.has(*number));
            for (number, status) in in_kernel {
                self.kernel_faults.note(number, Duty::ShowState, kernel.complete(number, status));
            }
        }
        let hello = self.hello();
        CellStatus {
            name: self.settings.name.clone(),
            rest: self.settings.rest,
            place: self.place.clone(),
            counters,
            hello,
            hello_lately: self.lately.of(&hello),
            relations,
            session_keys: self.relations.iter().map(|relation| relation.handshake.session_key()).collect(),
            kernel_faults: self.kernel_faults.summary(),
        }
    }

    fn hello(&self) -> HelloCounters {
        let mut sum = self.hello_before;
        sum.add(&self.mailbox.shared_counters.counters());
        self.relations.iter().for_each(|relation| sum.add(relation.handshake.counters()));
        sum
    }
}

/// A seed for random values of one handshake.
fn random_seed() -> Result<Zeroizing<[u8; 32]>, CellError> {
    let mut seed = Zeroizing::new([0; 32]);
    getrandom::fill(&mut *seed).map_err(|error| CellError::Random(error.into()))?;
    Ok(seed)
}

#[cfg(test)]
mod tests;
