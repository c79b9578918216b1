//! News of cells for the log: sessions, silences, faults, frames in clear.

use std::collections::BTreeMap;
use std::fmt;
use std::time::{Duration, Instant};

use control::{CellPlace, CellStatus, Notice};
use fieldbus::RelationStatus;
use fieldbus::relation::Relation;
use report::cell::RelationReport;
use tracing::{error, info, warn};

use crate::run::Running;

/// New sessions that are told one by one; of more in one turn, their number is.
const TOLD_ALONE: usize = 8;

/// Logs new sessions.
pub(in crate::run) fn log_sessions(notices: &[Notice]) {
    let mut by_cell: BTreeMap<&str, Vec<Relation>> = BTreeMap::new();
    for notice in notices {
        if let Notice::CyclicSession { cell, relation } = notice {
            by_cell.entry(cell).or_default().push(*relation);
        }
    }
    for (cell, relations) in by_cell {
        if relations.len() > TOLD_ALONE {
            info!(event = "cell-session", cell, "{} relations have new sessions", relations.len());
            continue;
        }
        for relation in relations {
            info!(event = "cell-session", cell, "{relation}: a new session");
        }
    }
}

/// Relations that have fallen silent, in words.
struct Silence<'n> {
    /// In order; at least one.
    relations: &'n [Relation],
    gap: Duration,
}

/// Silent relations that are named; of more, their number is.
const NAMED: usize = 3;

impl fmt::Display for Silence<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { relations, gap } = self;
        let ms = gap.as_secs_f64() * 1e3;
        let named = named(relations);
        match relations.len() {
            1 => write!(f, "no verified frame {named} for {ms:.1} ms"),
            all => {
                write!(f, "no verified frame of {all} relations, the longest time {ms:.1} ms: {named}")
            }
        }
    }
}

/// The first relations by name, and the number of the others.
fn named(relations: &[Relation]) -> String {
    let name = |relation: &Relation| format!("{} from {}", relation.receives(), relation.peer().0);
    let named: Vec<_> = relations.iter().take(NAMED).map(name).collect();
    match relations.len().saturating_sub(NAMED) {
        0 => named.join(", "),
        more => format!("{}, and {more} more", named.join(", ")),
    }
}

/// Logs what the kernel does not do for relations.
pub(in crate::run) fn log_kernel_fault(cell: &str, relations: &[Relation], why: &str) {
    error!(event = "cell-kernel", cell, "cyclic frames may not pass, {}: {why}", named(relations));
}

/// Log lines about cells, and when each is due again.
#[derive(Debug, Default)]
pub(in crate::run) struct CellNews {
    shadow_at: Option<Instant>,
    look_at: Option<Instant>,
    /// Cells of which it was said that HELLOs do not fit.
    misfits: Vec<String>,
    /// Places of protection and verification, as told last.
    places: BTreeMap<String, CellPlace>,
    /// Cells of which it was said that relations are silent, and not yet that all have frames again.
    silent: BTreeMap<String, Silent>,
}

/// Times at which it was told that relations of a cell are silent.
#[derive(Clone, Copy, Debug)]
struct Silent {
    first: Instant,
    last: Instant,
}

/// No alarm for so long: they are over.
const CALM: Duration = Duration::from_secs(1);

impl CellNews {
    /// Logs where a cell's frames are protected and verified, if that is news.
    fn log_place(&mut self, cell: &str, place: &CellPlace) {
        if self.places.get(cell) == Some(place) {
            return;
        }
        self.places.insert(cell.to_owned(), place.clone());
        match place {
            CellPlace::Kernel(0) => {
                info!(event = "cell-path", cell, "frames go through the kernel, both ways")
            }
            CellPlace::Kernel(others) => info!(
                event = "cell-path",
                cell,
                "frames go through the kernel, both ways; those of {others} relations through user space, for they are in shadow mode or were since the last start"
            ),
            CellPlace::UserSpace(why) => {
                info!(event = "cell-path", cell, "frames go through user space, both ways: {why}");
            }
            CellPlace::Nowhere(why) => warn!(event = "cell-path", cell, "no frame passes: {why}"),
        }
    }

    /// Logs relations that have fallen silent: a line for each cell and second, at the most.
    pub(in crate::run) fn log_silences(&mut self, notices: &[Notice], now: Instant) {
        for notice in notices {
            if let Notice::CyclicSilence { cell, relations, gap } = notice {
                warn!(event = "cell-silent", cell, "{}", Silence { relations, gap: *gap });
                self.silent.entry(cell.clone()).or_insert(Silent { first: now, last: now }).last = now;
            }
        }
    }

    /// Logs that all relations of a cell have frames again, once.
    fn log_recovery(&mut self, status: &CellStatus, now: Instant) {
        let Some(Silent { first, last }) = self.silent.get(&status.name).copied() else { return };
        let silent = |relation: &RelationStatus| {
            relation.silent.is_some_and(|silent| silent >= relation.settings.alarm)
        };
        if now.saturating_duration_since(last) < CALM || status.relations.iter().any(silent) {
            return;
        }
        self.silent.remove(&status.name);
        let seconds = now.saturating_duration_since(first).as_secs();
        info!(
            event = "cell-heard",
            cell = status.name,
            seconds,
            "verified frames of all relations come again, {seconds} s after the first alarm"
        );
    }
}

/// Interval between warnings that frames pass in clear.
const SHADOW_EVERY: Duration = Duration::from_secs(60);
/// Interval between looks at cells without sessions.
const LOOK_EVERY: Duration = Duration::from_secs(2);

impl Running {
    /// Logs what a person has to know of cells.
    pub(in crate::run) fn attend_cells(&mut self, news: &mut CellNews, now: Instant) {
        if self.links.iter().all(|link| link.config.cell.is_none()) {
            return;
        }
        for link in &self.links {
            if let (Some(cell), Some(place)) = (&link.config.cell, self.control.cell_place(&link.config.name))
            {
                news.log_place(&cell.name, place);
            }
        }
        if news.shadow_at.is_none_or(|at| now >= at) {
            news.shadow_at = Some(now + SHADOW_EVERY);
            for cell in self.links.iter().filter_map(|link| link.config.cell.as_ref()) {
                let shadowed = cell.shadowed().count();
                if shadowed > 0 {
                    warn!(
                        event = "cell-in-clear",
                        cell = cell.name,
                        "shadow mode: {shadowed} of {} relations pass in CLEAR; status shows what protection would do",
                        cell.relations.len()
                    );
                }
            }
        }
        if news.look_at.is_none_or(|at| now >= at) {
            news.look_at = Some(now + LOOK_EVERY);
            self.look_at_cells(news, now);
        }
    }

    /// A wrong master key, or another mode, is said once for each cell, and again when it has fitted meanwhile. Silences
    /// that are over are said too.
    fn look_at_cells(&mut self, news: &mut CellNews, now: Instant) {
        let statuses = self.control.cell_statuses();
        news.silent.retain(|cell, _| statuses.iter().any(|(_, status)| status.name == *cell));
        for (link, status) in statuses {
            news.log_recovery(&status, now);
            let Some(running) = self.links.iter().find(|running| running.config.name == link) else {
                continue;
            };
            let Some(cell) = running.config.cell.as_ref() else { continue };
            let report = crate::run::report::cell_report(cell, Some(&status));
            let misfit = report.misfit();
            let known = news.misfits.contains(&report.name);
            match misfit {
                Some(why) if !known => {
                    let whole = report.relations.iter().all(RelationReport::has_session);
                    let what = if whole { "no verified frame from" } else { "no session with" };
                    warn!(event = "cell-no-session", cell = report.name, "{what} the other gateway: {why}");
                    news.misfits.push(report.name);
                }
                None => news.misfits.retain(|name| *name != report.name),
                Some(_) => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use dataplane::cell::{CellCounters, OtherFrames};
    use fieldbus::handshake::HelloCounters;
    use fieldbus::{Histogram, ReceiveCounters, RelationSettings, RelationState, TransmitCounters};

    use super::super::tests::cell;
    use super::*;

    use crate::log::heard_alone;
    use config::fieldbus::{Cell, CellRelation};

    #[test]
    fn sessions_of_a_crowd_are_one_line() {
        let cell = cell(&[(1, "protect")], 1);
        let notice =
            || Notice::CyclicSession { cell: cell.name.clone(), relation: cell.relations[0].relation };
        let few: Vec<_> = (0..TOLD_ALONE).map(|_| notice()).collect();
        let sessions = |notices: &[Notice]| heard_alone(|| log_sessions(notices)).1;
        assert_eq!(sessions(&few).len(), TOLD_ALONE);
        let many: Vec<_> = (0..=TOLD_ALONE).map(|_| notice()).collect();
        assert_eq!(sessions(&many), ["fieldbus \"cell-4\": 9 relations have new sessions"]);
        assert!(sessions(&[]).is_empty());
    }

    /// The cell's relations, each silent for so long; alarms at 1.5 ms.
    fn status(cell: &Cell, silent: Duration) -> CellStatus {
        let relation = |of: &CellRelation| RelationStatus {
            settings: RelationSettings {
                relation: of.relation,
                mode: of.mode,
                alarm: Duration::from_micros(1500),
            },
            state: RelationState::Running,
            transmit_key: None,
            receive_key: None,
            transmit: TransmitCounters::default(),
            receive: ReceiveCounters::default(),
            residence_outward: Histogram::default(),
            residence_inward: Histogram::default(),
            jitter: Histogram::default(),
            worst_gap: Duration::ZERO,
            silent: Some(silent),
        };
        CellStatus {
            name: cell.name.clone(),
            place: CellPlace::UserSpace(String::new()),
            rest: OtherFrames::Drop,
            counters: CellCounters::default(),
            hello: HelloCounters::default(),
            hello_lately: HelloCounters::default(),
            relations: cell.relations.iter().map(relation).collect(),
            session_keys: Vec::new(),
            kernel_faults: None,
        }
    }

    #[test]
    fn silence_of_a_crowd_is_one_line_and_its_end_another() {
        let numbers: Vec<_> = (1..=9).map(|number| (number, "protect")).collect();
        let cell = cell(&numbers, 1);
        let relations: Vec<_> = cell.relations.iter().map(|of| of.relation).collect();
        let (mut news, start) = (CellNews::default(), Instant::now());
        let ms = |milliseconds: u64| start + Duration::from_millis(milliseconds);
        let said = |news: &mut CellNews, relations: &[Relation], at: u64| {
            let (cell, relations) = (cell.name.clone(), relations.to_vec());
            let notice = Notice::CyclicSilence { cell, relations, gap: Duration::from_micros(12_340) };
            heard_alone(|| news.log_silences(&[notice], ms(at))).1
        };
        assert_eq!(
            said(&mut news, &relations, 0),
            [
                "warning: fieldbus \"cell-4\": no verified frame of 9 relations, the longest time 12.3 ms: 0x8002 from 02:00:00:00:02:01, 0x8002 from 02:00:00:00:02:02, 0x8002 from 02:00:00:00:02:03, and 6 more"
            ]
        );
        assert_eq!(
            said(&mut news, &relations[..1], 1000),
            ["warning: fieldbus \"cell-4\": no verified frame 0x8002 from 02:00:00:00:02:01 for 12.3 ms"]
        );
        let silent = status(&cell, Duration::from_millis(9000));
        let well = status(&cell, Duration::from_micros(900));
        let recovered = |news: &mut CellNews, status: &CellStatus, at: u64| {
            heard_alone(|| news.log_recovery(status, ms(at))).1.pop()
        };
        assert_eq!(recovered(&mut news, &silent, 10_000), None);
        assert_eq!(recovered(&mut news, &well, 1900), None, "they may be back for a moment");
        assert_eq!(
            recovered(&mut news, &well, 12_100).unwrap(),
            "fieldbus \"cell-4\": verified frames of all relations come again, 12 s after the first alarm"
        );
        assert_eq!(recovered(&mut news, &well, 14_100), None, "once");
    }

    #[test]
    fn what_the_kernel_does_not_do_is_said_in_log_and_status() {
        let cell = cell(&[(1, "protect"), (2, "protect")], 1);
        let relation = cell.relations[0].relation;
        let (_, said) = heard_alone(|| log_kernel_fault(&cell.name, &[relation], "the kernel takes no keys"));
        assert_eq!(
            said,
            [
                "error: fieldbus \"cell-4\": cyclic frames may not pass, 0x8002 from 02:00:00:00:02:01: the kernel takes no keys"
            ]
        );
        let faults = Some("for 1 of them the kernel takes no keys".to_owned());
        let status = CellStatus { kernel_faults: faults.clone(), ..status(&cell, Duration::ZERO) };
        assert_eq!(crate::run::report::cell_report(&cell, Some(&status)).kernel_faults, faults);
    }
}
