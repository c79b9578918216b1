//! A cell for the next program of its process: its handshakes, Seqs and counters, and its programs in the kernel.
//!
//! No secret is in it: keys are derived again from the nonces of sessions, under the master keys of the configuration. What programs have in
//! their maps stays there, and frames pass meanwhile.
//!
//! Left out on purpose: HELLOs that wait to be sent, which are said again, and silences and faults of the kernel that nobody was told.

use std::os::fd::RawFd;
use std::time::{Duration, Instant};

use dataplane::cell::{Cell, CellCounters};
use fieldbus::handshake::{Handshake, HelloCounters, PassedHandshake};
use fieldbus::relation::RelationIdentity;
use fieldbus::session::SessionNumber;
use fieldbus::{KeyChange, PassedRelation, Relations};
use serde::{Deserialize, Serialize};

use super::kernel::PassedKernelCell;
use super::key_changes::KeyChanges;
use super::{CellControl, CellPlace, CellSettings, KernelCell, Made, RelationControl, random_seed};
use crate::Notice;

/// State of a cell for the next program.
#[derive(Debug, Serialize, Deserialize)]
pub struct PassedCell {
    /// Zero of its moments, in nanoseconds since that of the protocols' clock.
    clock_ns: u64,
    counters: Vec<u64>,
    /// HELLOs that no handshake counts.
    hello: Vec<u64>,
    relations: Vec<PassedControl>,
    place: CellPlace,
    may_have_programs: bool,
    kernel: Option<PassedKernelCell>,
}

/// A relation.
#[derive(Debug, Serialize, Deserialize)]
struct PassedControl {
    identity: RelationIdentity,
    handshake: PassedHandshake,
    newest: u32,
    /// Nothing where it is only judged.
    frames: Option<PassedRelation>,
}

impl PassedCell {
    /// Form of it, with that of its relations.
    pub const FORM: [u32; 2] = [2, fieldbus::passed_on::PASSED_RELATION_FORM];

    /// The descriptors that it names.
    pub fn descriptors(&self) -> impl Iterator<Item = RawFd> {
        self.kernel.iter().flat_map(PassedKernelCell::descriptors)
    }

    /// Takes it as [`Gateway::go_on_with_cell`](crate::Gateway::go_on_with_cell) does, but for its programs, and lets it go.
    ///
    /// # Errors
    /// Why no cell can go on with it, in words.
    pub fn try_to_go_on(self, settings: CellSettings, clock_start: Instant) -> Result<(), String> {
        CellControl::go_on(settings, Self { kernel: None, ..self }, clock_start).map(drop)
    }

    /// Whether its programs stand in front of its link's ports.
    pub(crate) fn is_in_front(&self) -> bool {
        self.kernel.as_ref().is_some_and(|kernel| kernel.in_front)
    }
}

impl CellControl {
    /// True if its sessions can go on in the next program: none rests on a master key that was removed, and the worker has all keys.
    pub(crate) fn is_settled(&self) -> bool {
        let has_all = self.changes.is_empty() && self.for_worker.is_empty();
        has_all && self.relations.iter().all(|relation| relation.handshake.pass_on().is_some())
    }

    /// Handles all that its worker has told, and changes keys itself in `cell`, which has left its worker.
    pub(crate) fn settle(&mut self, moment: wire::Instant, cell: &mut Cell, notices: &mut Vec<Notice>) {
        while let Some(hello) = self.mailbox.hellos.receive() {
            let number = usize::from(hello.relation);
            // The handshake has counted the fault.
            let _ = self.relations[number].handshake.handle_frame(moment, &hello.octets);
            self.follow(number);
        }
        loop {
            let told = self.mailbox.events.receive().map(|(relation, event)| (usize::from(relation), event));
            if let Some((number, event)) = told.or_else(|| cell.poll_event()) {
                // The worker may still watch what has gone to the kernel.
                if !self.in_kernel(number) {
                    self.hear_event(number, event, notices);
                }
                continue;
            }
            let changes = self.take_changes();
            if changes.is_empty() {
                return;
            }
            let named = |(number, change): (usize, KeyChange)| {
                (number, change, self.relations[number].handshake.expected_nonces())
            };
            let mut changes = changes.into_iter().map(named).peekable();
            while changes.peek().is_some() {
                KeyChanges::new(changes.by_ref()).apply(cell);
            }
        }
    }

    /// State for the next program; none if a session cannot go on there. `cell`: the worker's part, which has left its worker; without it the
    /// state is only to be judged. `in_front`: its programs stand in front of its link's ports.
    pub(crate) fn pass_on(
        &self,
        clock_start: Instant,
        cell: Option<&Cell>,
        in_front: bool,
    ) -> Option<PassedCell> {
        let relation = |(number, of): (usize, &RelationControl)| {
            Some(PassedControl {
                identity: self.settings.relations[number].relation.identity(),
                handshake: of.handshake.pass_on()?,
                newest: of.newest.0,
                frames: cell.map(|cell| cell.relations().pass_on(number)),
            })
        };
        let clock = cell.map_or(Duration::ZERO, |cell| cell.clock().saturating_duration_since(clock_start));
        let mut hello = self.hello_before;
        hello.add(&self.mailbox.shared_counters.counters());
        let kernel = self.kernel.as_ref().filter(|_| cell.is_some());
        Some(PassedCell {
            clock_ns: u64::try_from(clock.as_nanos()).ok()?,
            counters: cell.map_or_else(CellCounters::default, |cell| *cell.counters()).values().to_vec(),
            hello: hello.values().to_vec(),
            relations: self.relations.iter().enumerate().map(relation).collect::<Option<_>>()?,
            place: self.place.clone(),
            may_have_programs: self.may_have_programs,
            kernel: kernel.map(|kernel| kernel.pass_on(in_front)).transpose().ok()?,
        })
    }

    /// A cell that goes on, and control's part of it. Programs that it has in the kernel have gone on all the time.
    ///
    /// # Errors
    /// In words.
    pub(crate) fn go_on(
        settings: CellSettings,
        passed: PassedCell,
        clock_start: Instant,
    ) -> Result<Made, String> {
        let garbled = |_| "the state of its cell is garbled".to_owned();
        let PassedCell { clock_ns, counters, hello, relations, place, may_have_programs, kernel } = passed;
        let made = Relations::new(settings.settings, &settings.relations);
        let mut frames = made.map_err(|error| super::CellError::Relations(error).to_string())?;
        let identities = relations.iter().map(|passed| passed.identity);
        if !identities.eq(settings.relations.iter().map(|of| of.relation.identity())) {
            return Err("its cell has other relations, or the same in another order".into());
        }
        let mut controls = Vec::with_capacity(relations.len());
        for (number, (of, passed)) in settings.relations.iter().zip(&relations).enumerate() {
            let CellSettings { master_keys, settings, .. } = &settings;
            let seed = random_seed().map_err(|error| error.to_string())?;
            let (protection, ethertype) = (settings.protection, settings.ethertype);
            let PassedControl { handshake, newest, frames: passed, .. } = passed;
            let failed = |error: fieldbus::PassedOnError| format!("relation {}: {error}", number + 1);
            let handshake =
                Handshake::go_on(&of.relation, master_keys, protection, ethertype, &seed, handshake);
            let mut handshake = handshake.map_err(failed)?;
            if let Some(passed) = passed {
                frames.go_on(number, passed, &mut handshake).map_err(failed)?;
            }
            controls.push(RelationControl { handshake, newest: SessionNumber(*newest) });
        }
        let kernel = kernel.map(|kernel| KernelCell::go_on(&kernel, &settings.relations)).transpose();
        let kernel = kernel.map_err(|error| error.to_string())?;
        let counters = CellCounters::from_values(counters.try_into().map_err(garbled)?);
        let hello_before = HelloCounters::from_values(hello.try_into().map_err(garbled)?);
        let clock = clock_start + Duration::from_nanos(clock_ns);
        let (cell, control) = Self::of(settings, frames, controls);
        let cell = Box::new(cell.going_on(clock, counters));
        Ok((cell, Box::new(Self { kernel, may_have_programs, place, hello_before, ..control })))
    }
}
