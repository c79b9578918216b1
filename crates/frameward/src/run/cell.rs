//! Cells: what their links' workers are given, and what a reload changes.

mod news;

use control::{CellSettings, KernelPrograms};
use fieldbus::relation::Relation;
use fieldbus::{RelationSettings, Settings};
use wire::fieldbus::Seq;

use super::Running;
use super::kernel_programs::place_wanted;
use super::link::RunningLink;
use config::check::{Mtus, engines};
use config::fieldbus::{Cell, CellRelation, Mode};
use config::{Io, Link};
pub(super) use news::{CellNews, log_kernel_fault, log_sessions};

/// Settings of a link's cell, if it has one.
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
        rest: cell.rest,
        place: place_wanted(io),
    })
}

/// Where a cell's frames will be protected and verified, for `check`: `mtu` is that of the protected side.
pub fn planned_cell_place(io: Io, programs: &KernelPrograms, cell: &Cell, mtu: usize) -> String {
    let engines = engines(io);
    if !matches!(io, Io::Auto | Io::Kernel) {
        return format!("user space ({engines}), both ways: io says so");
    }
    match (programs.serve(cell.protection, mtu, cell.relations.len()), io) {
        (Ok(()), Io::Kernel) => {
            "kernel, both ways; if the drivers do not take its programs, no frame passes".into()
        }
        (Ok(()), _) => {
            format!("kernel, both ways; if the drivers do not take its programs, user space ({engines})")
        }
        (Err(why), _) if why.is_of_rights() => format!("not looked at: {why}; run as root"),
        (Err(why), Io::Kernel) => format!("NONE, and run does not start: {why}"),
        (Err(why), _) => format!("user space ({engines}), both ways: {why}"),
    }
}

impl Running {
    /// Gives a link's worker the cell that the link is configured with now, where it had `before`. Returns the name of the cell that is
    /// different, and how.
    pub(super) fn renew_cell(
        &mut self,
        link: &RunningLink,
        before: Option<&Cell>,
    ) -> Result<Option<(String, String)>, String> {
        let name = &link.config.name;
        let different = difference(before, link.config.cell.as_deref());
        let renewed = match (before, settings(&link.config, link.about.mtus, self.gateway.io)) {
            (None, None) => Ok(()),
            (None, Some(settings)) => self.control.add_cell(name, settings),
            (Some(_), Some(settings)) => self.control.change_cell(name, settings),
            (Some(_), None) => self.control.remove_cell(name),
        };
        renewed.map(|()| different).map_err(|error| format!("link {name:?}: its fieldbus: {error}"))
    }
}

/// The cell that is different, and how, in words.
fn difference(before: Option<&Cell>, now: Option<&Cell>) -> Option<(String, String)> {
    match (before, now) {
        (None, None) => None,
        (None, Some(cell)) => {
            Some((cell.name.clone(), format!("started, {} relations", cell.relations.len())))
        }
        (Some(cell), None) => Some((cell.name.clone(), "stopped".to_owned())),
        (Some(before), Some(cell)) => {
            let of = |cell: &Cell, relation: Relation| {
                cell.relations.iter().find(|one| one.relation.stations() == relation.stations()).copied()
            };
            let added = cell.relations.iter().filter(|one| of(before, one.relation).is_none()).count();
            let gone = before.relations.iter().filter(|one| of(cell, one.relation).is_none()).count();
            let switched = |to: Mode| {
                let is_now = |one: &&CellRelation| one.mode == to;
                let was_not =
                    |one: &&CellRelation| of(before, one.relation).is_some_and(|old| old.mode != to);
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
            Some((cell.name.clone(), format!("{what}{all}")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use config::key_file::CellKey;

    pub(super) fn cell(relations: &[(u8, &str)], key: u8) -> Cell {
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
    fn a_reload_says_what_is_different() {
        let before = cell(&[(1, "shadow"), (2, "protect"), (3, "protect")], 1);
        let rows: [(Option<&Cell>, Option<Cell>, Option<&str>); 5] = [
            (None, None, None),
            (None, Some(before.clone()), Some("started, 3 relations")),
            (Some(&before), None, Some("stopped")),
            (
                Some(&before),
                Some(cell(&[(1, "protect"), (2, "shadow"), (4, "protect"), (5, "protect")], 1)),
                Some(
                    "relations: 2 added, 1 removed, 1 protected from now on, 1 IN CLEAR from now on (shadow)",
                ),
            ),
            (
                Some(&before),
                Some(cell(&[(1, "shadow"), (2, "protect"), (3, "protect")], 2)),
                Some("changed; all sessions are made anew"),
            ),
        ];
        for (before, now, expected) in rows {
            let expected = expected.map(|words| ("cell-4".to_owned(), words.to_owned()));
            assert_eq!(difference(before, now.as_ref()), expected);
        }
    }
}
