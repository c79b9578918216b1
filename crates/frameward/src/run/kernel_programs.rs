//! Programs of links and cells in the kernel: whether `io` wants them, and those that a start loads.

use control::{KernelPrograms, PlaceWanted};

use super::link::replay_windows;
use config::{Config, Io};

/// Returns the place that `io` wants for the frames of links and cells.
pub(super) const fn place_wanted(io: Io) -> PlaceWanted {
    match io {
        Io::Kernel => PlaceWanted::Kernel,
        Io::Auto => PlaceWanted::Auto,
        Io::AfXdp | Io::AfPacket => PlaceWanted::UserSpace,
    }
}

/// Loads programs for the cells and links whose frames may go through the kernel.
pub fn load_programs(config: &Config) -> KernelPrograms {
    if !matches!(config.gateway.io, Io::Auto | Io::Kernel) {
        return KernelPrograms::default();
    }
    let cells = config.links.iter().filter_map(|link| link.cell.as_ref());
    let programs = KernelPrograms::load(cells.map(|cell| (cell.protection, cell.relations.len())));
    programs.with_links(replay_windows(&config.links))
}
