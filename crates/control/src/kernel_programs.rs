//! Programs of the kernel that were loaded at the start: nothing else needs CAP_PERFMON, so it can be given up afterwards.

use fieldbus::Relations;
use wire::fieldbus::Protection;
use xdp::XdpError;

/// The least room of loaded programs: a cell may grow while it runs, and maps do not.
const LEAST_ROOM: usize = 256;

/// Programs for cells that were loaded at the start and that no cell has.
#[derive(Default)]
pub struct KernelPrograms {
    spare: Vec<xdp::Cell>,
    /// Why there are no more of them.
    refused: Option<XdpError>,
}

impl KernelPrograms {
    /// Loads programs for those of these cells that they suit: how each protects, and how many relations it has. Nothing else needs
    /// CAP_PERFMON, so it can be given up afterwards. The first refusal ends it.
    pub fn load(cells: impl IntoIterator<Item = (Protection, usize)>) -> Self {
        let mut programs = Self::default();
        for (_, relations) in cells.into_iter().filter(|(of, _)| xdp::Cell::suits(*of, 0).is_ok()) {
            let room = (2 * relations).clamp(LEAST_ROOM, Relations::MAX.max(relations));
            match xdp::Cell::load(room) {
                Ok(cell) => programs.spare.push(cell),
                Err(refused) => {
                    programs.refused = Some(refused);
                    break;
                }
            }
        }
        programs
    }

    /// Whether cells that protect like this, over an MTU, can go through the kernel, as far as programs and kernel are concerned.
    ///
    /// # Errors
    /// Why not.
    pub fn serve(&self, protection: Protection, mtu: usize, relations: usize) -> Result<(), XdpError> {
        xdp::Cell::suits(protection, mtu)?;
        self.have_room(relations)
    }

    /// Whether a cell with so many relations finds some.
    ///
    /// # Errors
    /// Why not.
    pub(crate) fn have_room(&self, relations: usize) -> Result<(), XdpError> {
        self.find(relations).map(drop).ok_or_else(|| self.missing(relations))
    }

    /// The smallest with room for so many relations.
    fn find(&self, relations: usize) -> Option<usize> {
        let fitting = self.spare.iter().enumerate().filter(|(_, cell)| cell.room() >= relations);
        fitting.min_by_key(|(_, cell)| cell.room()).map(|(at, _)| at)
    }

    /// Why a cell with so many relations finds none.
    fn missing(&self, relations: usize) -> XdpError {
        match (&self.refused, self.spare.iter().map(xdp::Cell::room).max()) {
            (_, Some(room)) => XdpError::Room { wanted: relations, room },
            (Some(refused), None) => {
                XdpError::NotLoaded { why: refused.to_string(), of_rights: refused.is_of_rights() }
            }
            (None, None) => XdpError::NotLoaded {
                why: "programs are loaded at the start alone, and this cell was not there then; restart the gateway"
                    .into(),
                of_rights: false,
            },
        }
    }

    /// The programs with room for so many relations, which are nobody's from here on.
    pub(crate) fn take_for(&mut self, relations: usize) -> Option<xdp::Cell> {
        self.find(relations).map(|at| self.spare.swap_remove(at))
    }

    /// Takes back the programs of a cell that is no more.
    pub(crate) fn give_back(&mut self, cell: Option<xdp::Cell>) {
        let cleared = cell.and_then(|mut cell| cell.clear().ok().map(|()| cell));
        self.spare.extend(cleared);
    }
}
