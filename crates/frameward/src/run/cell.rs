//! Cells: what their links' workers are given, and what a reload changes.

use std::collections::BTreeMap;
use std::fmt;
use std::time::{Duration, Instant};

use control::{CellSettings, CellStatus, Notice, PathWanted};
use dataplane::cell::Rest;
use fieldbus::relation::Relation;
use fieldbus::{RelationSettings, RelationStatus, Settings};
use wire::fieldbus::Seq;

use super::Running;
use super::link::RunningLink;
use crate::check::Mtus;
use crate::config::fieldbus::{self as config, Cell, Mode};
use crate::config::{Io, Link};

/// What the cell of a link is configured with, if it has one.
pub(super) fn settings(link: &Link, mtus: Mtus, io: Io) -> Option<CellSettings> {
    let cell = link.cell.as_ref()?;
    let relations = cell.relations.iter().map(|of| RelationSettings {
        relation: of.relation,
        mode: of.mode,
        alarm: cell.alarm_time(of),
    });
    Some(CellSettings {
        name: cell.name.clone(),
        master: cell.master_key.master_key(),
        settings: Settings {
            ethertype: cell.ethertype,
            vlan: cell.vlan,
            epoch_end: Seq::new(cell.epoch_frames).unwrap_or(Seq::LAST),
            ..Settings::new(cell.protection, mtus.protected)
        },
        relations: relations.collect(),
        rest: match cell.rest {
            config::Rest::Link => Rest::Link,
            config::Rest::Drop => Rest::Drop,
        },
        path: match io {
            Io::Kernel => PathWanted::Kernel,
            Io::Auto | Io::AfXdp | Io::AfPacket => PathWanted::UserSpace,
        },
    })
}

impl Running {
    /// Gives a link's worker the cell that the link is configured with now, where it had `before`. Returns what a person
    /// should know.
    pub(super) fn renew_cell(
        &mut self,
        link: &RunningLink,
        before: Option<&Cell>,
    ) -> Result<Vec<String>, String> {
        let name = &link.config.name;
        let lines = difference(before, link.config.cell.as_deref());
        let renewed = match (before, settings(&link.config, link.about.mtus, self.gateway.io)) {
            (None, None) => Ok(()),
            (None, Some(settings)) => self.control.add_cell(name, settings),
            (Some(_), Some(settings)) => self.control.change_cell(name, settings),
            (Some(_), None) => self.control.remove_cell(name),
        };
        renewed.map(|()| lines).map_err(|error| format!("link {name:?}: its fieldbus: {error}"))
    }
}

/// What is different, in words.
fn difference(before: Option<&Cell>, now: Option<&Cell>) -> Vec<String> {
    match (before, now) {
        (None, None) => Vec::new(),
        (None, Some(cell)) => {
            vec![format!("fieldbus {:?}: started, {} relations", cell.name, cell.relations.len())]
        }
        (Some(cell), None) => vec![format!("fieldbus {:?}: stopped", cell.name)],
        (Some(before), Some(cell)) => {
            let of = |cell: &Cell, relation: Relation| {
                cell.relations.iter().find(|one| one.relation.stations() == relation.stations()).copied()
            };
            let added = cell.relations.iter().filter(|one| of(before, one.relation).is_none()).count();
            let gone = before.relations.iter().filter(|one| of(cell, one.relation).is_none()).count();
            let switched = |to: Mode| {
                let is_now = |one: &&config::CellRelation| one.mode == to;
                let was_not =
                    |one: &&config::CellRelation| of(before, one.relation).is_some_and(|old| old.mode != to);
                cell.relations.iter().filter(is_now).filter(was_not).count()
            };
            let counts = [
                (added, "added"),
                (gone, "removed"),
                (switched(Mode::Protect), "protected from now on"),
                (switched(Mode::Shadow), "IN CLEAR from now on (shadow)"),
            ];
            let words: Vec<_> = counts
                .iter()
                .filter(|(count, _)| *count > 0)
                .map(|(count, what)| format!("{count} {what}"))
                .collect();
            let keys = before.master_key != cell.master_key || before.protection != cell.protection;
            let all = if keys { "; all sessions are made anew" } else { "" };
            let what =
                if words.is_empty() { "changed".into() } else { format!("relations: {}", words.join(", ")) };
            vec![format!("fieldbus {:?}: {what}{all}", cell.name)]
        }
    }
}

/// New sessions that are told one by one; of more in one turn, their number is.
const TOLD_ALONE: usize = 8;

/// What a person should know of new sessions.
pub(super) fn sessions(notices: &[Notice]) -> Vec<String> {
    let mut by_cell: BTreeMap<&str, Vec<Relation>> = BTreeMap::new();
    for notice in notices {
        if let Notice::CyclicSession { cell, relation } = notice {
            by_cell.entry(cell).or_default().push(*relation);
        }
    }
    let lines = |(cell, relations): (&str, Vec<Relation>)| -> Vec<String> {
        if relations.len() > TOLD_ALONE {
            return vec![format!("fieldbus {cell:?}: {} relations have new sessions", relations.len())];
        }
        relations.iter().map(|relation| format!("fieldbus {cell:?}: {relation}: a new session")).collect()
    };
    by_cell.into_iter().flat_map(lines).collect()
}

/// Relations that have fallen silent, as a line for a person.
pub(super) struct Silence<'n> {
    pub(super) cell: &'n str,
    /// In order; at least one.
    pub(super) relations: &'n [Relation],
    pub(super) gap: Duration,
}

/// Silent relations that are named; of more, their number is.
const NAMED: usize = 3;

impl fmt::Display for Silence<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { cell, relations, gap } = self;
        let ms = gap.as_secs_f64() * 1e3;
        let named: Vec<_> = relations
            .iter()
            .take(NAMED)
            .map(|relation| {
                let (peer, frame_id) = relation.peer();
                format!("{frame_id} from {peer}")
            })
            .collect();
        write!(f, "warning: fieldbus {cell:?}: no verified frame ")?;
        match relations.len() {
            1 => write!(f, "{} for {ms:.1} ms", named[0]),
            all => {
                write!(f, "of {all} relations, the longest time {ms:.1} ms: {}", named.join(", "))?;
                if all > NAMED { write!(f, ", and {} more", all - NAMED) } else { Ok(()) }
            }
        }
    }
}

/// What was said of cells, and when it is due again.
#[derive(Debug, Default)]
pub(super) struct CellNews {
    shadow_at: Option<Instant>,
    look_at: Option<Instant>,
    /// Cells of which it was said that HELLOs do not fit.
    misfits: Vec<String>,
    /// Cells of which it was said that relations are silent, and not yet that all have frames again.
    silent: BTreeMap<String, Silent>,
}

/// When it was said that relations of a cell are silent.
#[derive(Clone, Copy, Debug)]
struct Silent {
    first: Instant,
    last: Instant,
}

/// No alarm for so long: they are over.
const CALM: Duration = Duration::from_secs(1);

impl CellNews {
    /// What a person should know of relations that have fallen silent: a line for each cell and second, at the most.
    pub(super) fn silences(&mut self, notices: &[Notice], now: Instant) -> Vec<String> {
        let mut lines = Vec::new();
        for notice in notices {
            if let Notice::CyclicSilence { cell, relations, gap } = notice {
                lines.push(Silence { cell, relations, gap: *gap }.to_string());
                self.silent.entry(cell.clone()).or_insert(Silent { first: now, last: now }).last = now;
            }
        }
        lines
    }

    /// That all relations of a cell have frames again, once.
    fn recovered(&mut self, status: &CellStatus, now: Instant) -> Option<String> {
        let Silent { first, last } = *self.silent.get(&status.name)?;
        let silent = |relation: &RelationStatus| {
            relation.silent.is_some_and(|silent| silent >= relation.settings.alarm)
        };
        if now.saturating_duration_since(last) < CALM || status.relations.iter().any(silent) {
            return None;
        }
        self.silent.remove(&status.name);
        let seconds = now.saturating_duration_since(first).as_secs();
        Some(format!(
            "fieldbus {:?}: verified frames of all relations come again, {seconds} s after the first alarm",
            status.name
        ))
    }
}

/// How often it is said that frames pass in clear.
const SHADOW_EVERY: Duration = Duration::from_secs(60);
/// How often cells without sessions are looked at.
const LOOK_EVERY: Duration = Duration::from_secs(2);

impl Running {
    /// Says what a person has to know of cells.
    pub(super) fn attend_cells(&mut self, news: &mut CellNews, now: Instant, tell: super::Tell<'_>) {
        if self.links.iter().all(|link| link.config.cell.is_none()) {
            return;
        }
        if news.shadow_at.is_none_or(|at| now >= at) {
            news.shadow_at = Some(now + SHADOW_EVERY);
            for cell in self.links.iter().filter_map(|link| link.config.cell.as_ref()) {
                let shadowed = cell.shadowed().count();
                if shadowed > 0 {
                    tell(&format_args!(
                        "warning: fieldbus {:?}: shadow mode: {shadowed} of {} relations pass in CLEAR; status shows what protection would do",
                        cell.name,
                        cell.relations.len()
                    ));
                }
            }
        }
        if news.look_at.is_none_or(|at| now >= at) {
            news.look_at = Some(now + LOOK_EVERY);
            self.look_at_cells(news, now, tell);
        }
    }

    /// A wrong master key, or another mode, is said once for each cell, and again when it has fitted meanwhile. Silences
    /// that are over are said too.
    fn look_at_cells(&mut self, news: &mut CellNews, now: Instant, tell: super::Tell<'_>) {
        let statuses = self.control.cell_statuses();
        news.silent.retain(|cell, _| statuses.iter().any(|(_, status)| status.name == *cell));
        for (link, status) in statuses {
            if let Some(line) = news.recovered(&status, now) {
                tell(&line);
            }
            let Some(running) = self.links.iter().find(|running| running.config.name == link) else {
                continue;
            };
            let Some(cell) = running.config.cell.as_ref() else { continue };
            let report = super::report::cell_report(cell, Some(&status));
            let misfit = report.misfit();
            let known = news.misfits.contains(&report.name);
            match misfit {
                Some(why) if !known => {
                    tell(&format_args!(
                        "warning: fieldbus {:?}: no session with the other gateway: {why}",
                        report.name
                    ));
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
    use control::CellPath;
    use dataplane::cell::CellCounters;
    use fieldbus::handshake::HelloCounters;
    use fieldbus::{Histogram, ReceiveCounters, RelationState, TransmitCounters};

    use super::*;
    use crate::config;
    use crate::key_file::CellKey;

    fn cell(relations: &[(u8, &str)], key: u8) -> Cell {
        let mut text = "[gateway]\nname = \"g\"\n[[fieldbus]]\nname = \"cell-4\"\nplain = \"eth0\"\nprotected = \"eth1\"\nrest = \"drop\"\nmaster_key_file = \"m\"\nlocal = [\"02:00:00:00:01:01\"]\n".to_owned();
        for (number, mode) in relations {
            text += &format!(
                "[[fieldbus.relation]]\nstations = [\"02:00:00:00:01:01\", \"02:00:00:00:02:{number:02x}\"]\nframe_ids = [0x8001, 0x8002]\ncycle = \"1ms\"\nmode = \"{mode}\"\n"
            );
        }
        let files =
            config::KeyFiles { master_key: &|_| Ok(CellKey::new(&[key; 32])), ..config::KeyFiles::ON_DISK };
        let mut config = config::parse(std::path::Path::new("gw.toml"), &text, files).unwrap().0;
        *config.links.remove(0).cell.unwrap()
    }

    #[test]
    fn sessions_of_a_crowd_are_one_line() {
        let cell = cell(&[(1, "protect")], 1);
        let notice =
            || Notice::CyclicSession { cell: cell.name.clone(), relation: cell.relations[0].relation };
        let few: Vec<_> = (0..TOLD_ALONE).map(|_| notice()).collect();
        assert_eq!(sessions(&few).len(), TOLD_ALONE);
        let many: Vec<_> = (0..=TOLD_ALONE).map(|_| notice()).collect();
        assert_eq!(sessions(&many), ["fieldbus \"cell-4\": 9 relations have new sessions"]);
        assert!(sessions(&[]).is_empty());
    }

    /// The cell's relations, each silent for so long; alarms at 1.5 ms.
    fn status(cell: &Cell, silent: Duration) -> CellStatus {
        let relation = |of: &config::fieldbus::CellRelation| RelationStatus {
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
            path: CellPath::UserSpace,
            rest: Rest::Drop,
            counters: CellCounters::default(),
            hello: HelloCounters::default(),
            hello_lately: HelloCounters::default(),
            relations: cell.relations.iter().map(relation).collect(),
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
            news.silences(&[notice], ms(at))
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
        assert_eq!(news.recovered(&silent, ms(10_000)), None);
        assert_eq!(news.recovered(&well, ms(1900)), None, "they may be back for a moment");
        assert_eq!(
            news.recovered(&well, ms(12_100)).unwrap(),
            "fieldbus \"cell-4\": verified frames of all relations come again, 12 s after the first alarm"
        );
        assert_eq!(news.recovered(&well, ms(14_100)), None, "once");
    }

    #[test]
    fn a_reload_says_what_is_different() {
        let before = cell(&[(1, "shadow"), (2, "protect"), (3, "protect")], 1);
        let rows: [(Option<&Cell>, Option<Cell>, &[&str]); 5] = [
            (None, None, &[]),
            (None, Some(before.clone()), &["fieldbus \"cell-4\": started, 3 relations"]),
            (Some(&before), None, &["fieldbus \"cell-4\": stopped"]),
            (
                Some(&before),
                Some(cell(&[(1, "protect"), (2, "shadow"), (4, "protect"), (5, "protect")], 1)),
                &[
                    "fieldbus \"cell-4\": relations: 2 added, 1 removed, 1 protected from now on, 1 IN CLEAR from now on (shadow)",
                ],
            ),
            (
                Some(&before),
                Some(cell(&[(1, "shadow"), (2, "protect"), (3, "protect")], 2)),
                &["fieldbus \"cell-4\": changed; all sessions are made anew"],
            ),
        ];
        for (before, now, expected) in rows {
            assert_eq!(difference(before, now.as_ref()), expected);
        }
    }
}
