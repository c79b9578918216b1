//! Cells: what their links' workers are given, and what a reload changes.

mod news;

use control::{CellSettings, KernelPrograms};
use fieldbus::{RelationSettings, Settings};
use tracing::warn;
use wire::fieldbus::Seq;

use super::Running;
use super::kernel_programs::place_wanted;
use super::link::RunningLink;
use config::change::cell_difference;
use config::check::{Mtus, engines};
use config::fieldbus::Cell;
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
        master_keys: cell.master_keys(),
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

/// Says the place where a cell's frames will be protected and verified, for `check`: `mtu` is that of the protected side.
pub fn planned_cell_place(io: Io, programs: &KernelPrograms, cell: &Cell, mtu: usize) -> String {
    let engines = engines(io);
    if !matches!(io, Io::Auto | Io::Kernel) {
        return format!("user space ({engines}), both ways: io says so");
    }
    let others = cell.relations.iter().filter(|of| !KernelPrograms::know(&of.relation)).count();
    let others = match others {
        0 => String::new(),
        others => format!(
            "; {others} of {} relations in user space: the programs do not know their protocol",
            cell.relations.len()
        ),
    };
    match (programs.serve(cell.protection, mtu, cell.relations.len()), io) {
        (Ok(()), Io::Kernel) => {
            format!("kernel, both ways; if the drivers do not take its programs, no frame passes{others}")
        }
        (Ok(()), _) => {
            format!(
                "kernel, both ways; if the drivers do not take its programs, user space ({engines}){others}"
            )
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
        let different = cell_difference(before, link.config.cell.as_deref());
        if before.is_some()
            && let Some(cell) = &link.config.cell
        {
            self.warn_of_removed_key(name, cell);
        }
        let renewed = match (before, settings(&link.config, link.about.mtus, self.gateway.io)) {
            (None, None) => Ok(()),
            (None, Some(settings)) => self.control.add_cell(name, settings),
            (Some(_), Some(settings)) => self.control.change_cell(name, settings),
            (Some(_), None) => self.control.remove_cell(name),
        };
        renewed.map(|()| different).map_err(|error| format!("link {name:?}: its fieldbus: {error}"))
    }

    /// Says that sessions rest on a master key that is removed.
    fn warn_of_removed_key(&self, link: &str, cell: &Cell) {
        let relations = self.control.sessions_under_other_keys(link, &cell.master_keys());
        if relations > 0 {
            warn!(
                event = "master-key-removed",
                cell = cell.name,
                "sessions under a master key that is removed: {relations}; they end within a second, and no frame passes unless the other gateway has master key {}",
                cell.master_key.fingerprint()
            );
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
        let other_ethertype = Cell { ethertype: wire::EtherType(0x88b6), ..before.clone() };
        let with_fallback =
            |key| Cell { fallback_master_key: Some(CellKey::new(&[key; 32])), ..before.clone() };
        let rows: [(Option<&Cell>, Option<Cell>, Option<&str>); 9] = [
            (Some(&before), Some(other_ethertype), Some("changed; all sessions are made anew")),
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
                Some("changed; sessions change to the preferred master key that both gateways have"),
            ),
            (Some(&before), Some(with_fallback(2)), Some("changed; a fallback master key is added")),
            (
                Some(&with_fallback(2)),
                Some(with_fallback(3)),
                Some("changed; the fallback master key is another one"),
            ),
            (
                Some(&with_fallback(2)),
                Some(before.clone()),
                Some("changed; the fallback master key is removed"),
            ),
        ];
        for (before, now, expected) in rows {
            let expected = expected.map(|words| ("cell-4".to_owned(), words.to_owned()));
            assert_eq!(cell_difference(before, now.as_ref()), expected);
        }
    }
}
