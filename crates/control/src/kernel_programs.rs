//! Programs of the kernel that were loaded at the start: nothing else needs CAP_PERFMON, so it can be given up afterwards.

use std::os::fd::RawFd;

use fieldbus::Relations;
use fieldbus::relation::Relation;
use secy::Settings;
use serde::{Deserialize, Serialize};
use suite::CipherSuite;
use wire::fieldbus::Protection;
use xdp::XdpError;

/// The least room of loaded programs: a cell may grow while it runs, and maps do not.
const LEAST_ROOM: usize = 256;

/// The least replay window that there is room for, in PNs: a window may grow while the link runs, and maps do not.
const LEAST_WINDOW: u32 = 1024;

/// The most links that get programs: to load those of one takes a fifth of a second, and no frame passes meanwhile.
const MOST_LINKS: usize = 16;

/// Programs for cells and links that were loaded at the start and that nobody has.
#[derive(Default)]
pub struct KernelPrograms {
    spare: Vec<xdp::Cell>,
    /// Reason why there are no more of them.
    refused: Option<XdpError>,
    links: Vec<xdp::Link>,
    /// Reason why there are no more of those.
    no_link: Option<String>,
    /// This process lacks the right to load them.
    no_link_of_rights: bool,
}

/// Programs that nobody has, for the next program of this process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PassedKernelPrograms {
    cells: Vec<xdp::cell::PassedCell>,
    /// Reason why there are no more of them, and whether this process lacks the right to load them.
    no_cell: Option<(String, bool)>,
    links: Vec<xdp::link::PassedLink>,
    /// Reason why there are no more of those.
    no_link: Option<String>,
    no_link_of_rights: bool,
}

impl PassedKernelPrograms {
    /// The descriptors that it names.
    pub fn descriptors(&self) -> impl Iterator<Item = RawFd> {
        let of_cells = self.cells.iter().flat_map(xdp::cell::PassedCell::descriptors);
        of_cells.chain(self.links.iter().flat_map(xdp::link::PassedLink::descriptors))
    }
}

impl KernelPrograms {
    /// The object file of the links' programs: with another one nobody goes on with them.
    pub fn link_object() -> &'static [u8] {
        xdp::Link::object()
    }

    /// The object file of the cells' programs, likewise.
    pub fn cell_object() -> &'static [u8] {
        xdp::Cell::object()
    }

    /// Whether there are some for cells.
    pub(crate) const fn has_some_for_cells(&self) -> bool {
        !self.spare.is_empty()
    }

    /// Whether there are some for links.
    pub(crate) const fn has_some_for_links(&self) -> bool {
        !self.links.is_empty()
    }

    /// All of them, for the next program of this process.
    pub(crate) fn pass_on(&self) -> Result<PassedKernelPrograms, XdpError> {
        let no_cell = self.refused.as_ref().map(|refused| (refused.to_string(), refused.is_of_rights()));
        Ok(PassedKernelPrograms {
            cells: self.spare.iter().map(xdp::Cell::pass_on).collect::<Result<_, _>>()?,
            no_cell,
            links: self.links.iter().map(xdp::Link::pass_on).collect::<Result<_, _>>()?,
            no_link: self.no_link.clone(),
            no_link_of_rights: self.no_link_of_rights,
        })
    }

    /// Goes on with those of the program before this one.
    ///
    /// # Errors
    /// If they are others, or were not passed on.
    pub fn go_on(passed: &PassedKernelPrograms) -> Result<Self, XdpError> {
        let go_on = |passed| {
            let mut link = xdp::Link::go_on(passed)?;
            let _ = link.keep_filling(|| ());
            Ok::<_, XdpError>(link)
        };
        let refused = passed.no_cell.clone().map(|(why, of_rights)| XdpError::NotLoaded { why, of_rights });
        // They serve no relation.
        let cell = |passed| xdp::Cell::go_on(passed, &[]);
        Ok(Self {
            spare: passed.cells.iter().map(cell).collect::<Result<_, _>>()?,
            refused,
            links: passed.links.iter().map(go_on).collect::<Result<_, _>>()?,
            no_link: passed.no_link.clone(),
            no_link_of_rights: passed.no_link_of_rights,
        })
    }

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

    /// Loads programs for links too, each with room for replay windows of so many PNs. The first refusal ends it.
    #[must_use]
    pub fn with_links(mut self, replay_windows: impl IntoIterator<Item = u32>) -> Self {
        for (number, window) in replay_windows.into_iter().enumerate() {
            if number == MOST_LINKS {
                self.no_link = Some(format!("programs are loaded for the first {MOST_LINKS} links"));
                break;
            }
            match xdp::Link::load(window.max(LEAST_WINDOW)) {
                // Without the thread frames are computed whole.
                Ok(mut link) => {
                    let _ = link.keep_filling(|| ());
                    self.links.push(link);
                }
                Err(refused) => {
                    (self.no_link_of_rights, self.no_link) =
                        (refused.is_of_rights(), Some(refused.to_string()));
                    break;
                }
            }
        }
        self
    }

    /// Whether there are programs for such a SecY at all; `express`: for its express SCs.
    ///
    /// # Errors
    /// Why not.
    pub fn suit_link(settings: &Settings, suite: CipherSuite, express: bool) -> Result<(), XdpError> {
        if express { xdp::Link::suits_express(settings, suite) } else { xdp::Link::suits(settings, suite) }
    }

    /// Whether programs of cells know the frames of a relation.
    pub const fn know(relation: &Relation) -> bool {
        xdp::Cell::takes(relation)
    }

    /// Whether a link whose SecY is like this can go through the kernel, as far as programs and kernel are concerned.
    ///
    /// # Errors
    /// Why not.
    pub fn serve_link(
        &self,
        settings: &Settings,
        suite: CipherSuite,
        express: bool,
        replay_window: u32,
    ) -> Result<(), XdpError> {
        Self::suit_link(settings, suite, express)?;
        self.find_link(replay_window).map(drop)
    }

    /// The spare programs with the least room that is enough.
    fn find_link(&self, replay_window: u32) -> Result<usize, XdpError> {
        let mut refusal = None;
        let fitting = self.links.iter().enumerate().filter(|(_, link)| match link.has_room(replay_window) {
            Ok(()) => true,
            Err(why) => {
                refusal = Some(why);
                false
            }
        });
        let found = fitting.min_by_key(|(_, link)| link.room()).map(|(at, _)| at);
        found.ok_or_else(|| refusal.unwrap_or_else(|| self.missing_link()))
    }

    /// Why a link finds none.
    fn missing_link(&self) -> XdpError {
        let not_then =
            "programs are loaded at the start alone, and this link was not there then; restart the gateway";
        let why = self.no_link.clone().unwrap_or_else(|| not_then.into());
        XdpError::NotLoaded { why, of_rights: self.no_link_of_rights }
    }

    /// The programs with room for such windows, which are nobody's from here on.
    pub(crate) fn take_for_link(&mut self, replay_window: u32) -> Result<xdp::Link, XdpError> {
        self.find_link(replay_window).map(|at| self.links.swap_remove(at))
    }

    /// Takes back the programs of a link that is no more.
    pub(crate) fn give_back_link(&mut self, link: Option<xdp::Link>) {
        let cleared = link.and_then(|mut link| link.clear().ok().map(|()| link));
        self.links.extend(cleared);
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
