//! A cell in a link's pipeline: cyclic frames of its relations, each under keys of its own, beside the SecY.
//!
//! ```text
//!  plain port     ──▶ of a relation? ──yes──▶ Relations::protect ──▶ protected port, before all else of its burst
//!  protected port ──▶ of the cell's EtherType? ──▶ HELLO? a true one to control : Relations::verify ──▶ plain port, likewise
//!                     rest ──▶ the link's SecY, or dropped
//! ```
//!
//! The way of frames through it stands in `pipeline/cyclic.rs`. Here are the parts that the worker has of a cell, and the
//! mailboxes to control ([`mailbox`]), which owns the handshakes.
//!
//! HELLOs are *paced*: a few at once, and others some time later. A cell with many relations whose other gateway is down
//! asks in all of them, again and again; all at once they would keep a slow wire from cyclic frames for longer than a cycle.
//!
//! Work for a turn, whatever frames come: two bursts, [`HELLOS`] HELLOs sent, eight looked at behind all frames ([`filters`]),
//! [`EVENTS`] events told, 32 relations looked at, [`REPORTED`] relations copied into a report. No allocation, no lock, no log.

mod counters;
mod hello_filter;
pub mod mailbox;

use std::time::{self, Duration};

use fieldbus::handshake::ExpectedNonces;
use fieldbus::{Event, KeyChange, Moment, RelationMatch, RelationStatus, Relations, RetiredKeys};
use wire::Instant;

pub use counters::CellCounters;
pub use hello_filter::HelloFilter;
use hello_filter::HelloFilters;
use mailbox::{HelloFrame, WorkerMailbox};

/// HELLOs that leave at once, at the most: 38 µs of a wire of 100 Mbit/s.
pub(crate) const HELLOS: usize = 4;
/// Between these and the next: a thousand relations ask within 32 ms, and have answered and entered within three times that.
/// HELLOs take 30 % of 100 Mbit/s meanwhile, beside the half that is planned for cyclic frames.
pub(crate) const HELLO_GAP: Duration = Duration::from_micros(125);
/// Events that are told in one turn, at the most.
const EVENTS: usize = 64;
/// Relations that are copied into a report in one turn.
const REPORTED: usize = 16;
/// Interval between checks whether frames have stopped.
const LOOK_PERIOD: Duration = Duration::from_millis(10);

/// Treatment of frames of no relation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OtherFrames {
    /// They go through the link's SecY, as without a cell.
    Link,
    /// They are discarded, both ways; the link's SecY is never reached.
    Drop,
}

/// The worker's part of a cell.
#[derive(Debug)]
pub struct Cell {
    pub(crate) relations: Relations,
    pub(crate) rest: OtherFrames,
    pub(crate) counters: CellCounters,
    pub(crate) mailbox: WorkerMailbox,
    clock: time::Instant,
    /// Moment at which the port was asked for the frames that are under way.
    poll_time: Moment,
    filters: HelloFilters,
    look_due: Instant,
    hello_due: Instant,
}

/// Counters of a cell: made by control, filled by the worker, some relations a turn.
#[derive(Debug)]
pub struct CellSnapshot {
    /// Of frames that are of no relation, and of HELLOs.
    pub counters: CellCounters,
    /// By number; with room for all from its beginning.
    pub relations: Vec<RelationStatus>,
}

impl CellSnapshot {
    /// Room for this number of relations.
    pub fn with_room(relations: usize) -> Self {
        Self { counters: CellCounters::default(), relations: Vec::with_capacity(relations) }
    }
}

impl Cell {
    /// `filters`: one for each relation.
    pub fn new(
        relations: Relations,
        rest: OtherFrames,
        mailbox: WorkerMailbox,
        filters: Box<[HelloFilter]>,
    ) -> Self {
        Self {
            relations,
            rest,
            counters: CellCounters::default(),
            mailbox,
            clock: time::Instant::now(),
            poll_time: Moment::START,
            filters: HelloFilters::new(filters),
            look_due: Instant::START,
            hello_due: Instant::START,
        }
    }

    /// Its relations.
    pub const fn relations(&self) -> &Relations {
        &self.relations
    }

    /// Counters outside its relations.
    pub const fn counters(&self) -> &CellCounters {
        &self.counters
    }

    /// Zero of its moments.
    pub const fn clock(&self) -> time::Instant {
        self.clock
    }

    /// Goes on with the counters of a cell of the program before, on its clock.
    #[must_use]
    pub fn going_on(self, clock: time::Instant, counters: CellCounters) -> Self {
        Self { clock, counters, ..self }
    }

    /// An event that control has not heard, of a cell that has left its worker.
    pub fn poll_event(&mut self) -> Option<(usize, Event)> {
        self.relations.poll_event()
    }

    /// Now.
    pub(crate) fn moment(&self) -> Moment {
        Moment::after_start(self.clock.elapsed())
    }

    /// A port is about to be asked for frames; `read` is the time. From here on they are in the gateway.
    pub(crate) fn mark_poll_time(&mut self, read: time::Instant) {
        self.poll_time = Moment::after_start(read.saturating_duration_since(self.clock));
    }

    /// Residence time of the frames that leave now. The port that is asked next is asked now:
    /// reading the clock takes a quarter of the time that a short frame does.
    pub(crate) fn take_residence_time(&mut self) -> Duration {
        let now = self.moment();
        now.since(std::mem::replace(&mut self.poll_time, now))
    }

    /// Arrival of the frames that are under way.
    pub(crate) const fn poll_time(&self) -> Moment {
        self.poll_time
    }

    /// Keeps a HELLO until there is time for its MAC, or counts it as a discard.
    pub(crate) fn queue_hello(&mut self, found: RelationMatch, frame: &[u8]) {
        self.filters.queue(found.relation(), frame, self.poll_time, &mut self.counters, &self.mailbox);
    }

    /// Changes a relation's keys; with them come the nonces that its handshake has since. What was taken out is to be freed
    /// where time does not matter.
    pub fn change_keys(&mut self, relation: usize, change: KeyChange, names: ExpectedNonces) -> RetiredKeys {
        let out = self.relations.change(relation, change);
        self.filters.name(relation, names);
        out
    }

    /// The next HELLO to be sent: those of the handshakes first.
    pub(crate) fn next_hello(&mut self) -> Option<HelloFrame> {
        self.mailbox.hellos.receive().or_else(|| self.filters.next_answer(&self.mailbox))
    }

    fn has_hello(&self) -> bool {
        !self.mailbox.hellos.is_empty() || self.filters.has_answer()
    }

    /// The HELLOs that may leave now, at most [`HELLOS`].
    pub(crate) fn hellos(&mut self, now: Instant) -> impl Iterator<Item = HelloFrame> + '_ {
        let most = if now < self.hello_due { 0 } else { HELLOS };
        if most > 0 && self.has_hello() {
            // Whoever wakes late goes on sooner: the pace is kept, and there is a pause all the same.
            self.hello_due = (self.hello_due + HELLO_GAP).max(now + HELLO_GAP / 2);
        }
        std::iter::from_fn(|| self.next_hello()).take(most)
    }

    /// Does what is due in a turn beside frames: HELLOs, events, silence.
    pub(crate) fn handle_timeout(&mut self, now: Instant) {
        if self.filters.is_waiting() {
            self.filters.check_macs(self.poll_time, &mut self.counters, &mut self.mailbox);
        }
        for _ in 0..EVENTS {
            if !self.mailbox.events.has_room() {
                break;
            }
            let Some((relation, event)) = self.relations.poll_event() else { break };
            self.mailbox.send_event(relation, event);
        }
        if now >= self.look_due && self.relations.is_watched() && self.relations.handle_timeout(self.moment())
        {
            self.look_due = now + LOOK_PERIOD;
        }
    }

    /// Copies figures into a snapshot, of [`REPORTED`] relations at the most. True once all are there.
    pub fn report(&self, snapshot: &mut CellSnapshot) -> bool {
        let now = self.moment();
        let next = snapshot.relations.len();
        let most = self.relations.count().min(snapshot.relations.capacity());
        let end = most.min(next + REPORTED);
        snapshot.relations.extend((next..end).map(|relation| self.relations.status(relation, now)));
        snapshot.counters = self.counters;
        end == most
    }

    /// Moment at which the next turn is due even if no frame comes.
    pub(crate) fn due(&self) -> Option<Instant> {
        if self.filters.is_waiting() || (self.relations.has_events() && self.mailbox.events.has_room()) {
            return Some(Instant::START);
        }
        let look = self.relations.is_watched().then_some(self.look_due);
        let hello = self.has_hello().then_some(self.hello_due);
        look.into_iter().chain(hello).min()
    }

    /// Takes over from another cell. See [`Relations::take_over`]; what it counted goes on too.
    pub(crate) fn take_over(&mut self, predecessor: &mut Self, carry_over: &[(usize, usize)]) {
        self.relations.take_over(&mut predecessor.relations, carry_over);
        self.filters.take_over(&mut predecessor.filters, carry_over);
        self.counters.add(&std::mem::take(&mut predecessor.counters));
        // Watches go on, and so does the clock of their moments.
        self.clock = predecessor.clock;
    }
}
