//! All lanes that are received, of all peers and epochs, and the one table that their identifiers lead into.

use alloc::vec::Vec;

use suite::tunnel::{LaneKey, Rid};

use crate::fragments::FragmentBuffer;
use crate::settings::PeerId;
use crate::table::Table;
use crate::window::{LaneNumber, Window, parse_value};

/// Identifiers that one call of [`ReceiveLanes::fill`] puts into the table or takes out of it.
const FILL: usize = 256;

/// Whose lane.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Owner {
    pub(crate) peer: PeerId,
    pub(crate) epoch: u32,
}

/// A lane that is received.
#[derive(Debug)]
pub(crate) struct ReceiveLane {
    /// None: closed.
    pub(crate) owner: Option<Owner>,
    pub(crate) window: Window,
    pub(crate) fragments: FragmentBuffer,
}

/// The lanes that are received.
#[derive(Debug)]
pub(crate) struct ReceiveLanes {
    pub(crate) table: Table,
    pub(crate) lanes: Vec<ReceiveLane>,
    width: u64,
    part_octets: usize,
    /// Whether a lane may have identifiers to be filled in or taken out.
    unfilled: bool,
    /// Which lane is looked at next.
    cursor: usize,
}

impl ReceiveLanes {
    /// Memory for `lanes` lanes; more are made when they are needed.
    pub(crate) fn new(lanes: usize, width: u64, part_octets: usize) -> Self {
        let mut receive = Self {
            table: Table::new(lanes * Window::capacity(width)),
            lanes: Vec::with_capacity(lanes),
            width,
            part_octets,
            unfilled: false,
            cursor: 0,
        };
        for _ in 0..lanes {
            receive.push();
        }
        receive
    }

    fn push(&mut self) -> Option<usize> {
        let number = LaneNumber(u16::try_from(self.lanes.len()).ok()?);
        let window = Window::new(number, self.width);
        self.lanes.push(ReceiveLane {
            owner: None,
            window,
            fragments: FragmentBuffer::new(self.part_octets),
        });
        Some(self.lanes.len() - 1)
    }

    fn add(&mut self) -> Option<usize> {
        // Twice as many as before: who has many peers does not move all identifiers for each that comes.
        self.table.reserve((self.lanes.len() + 1).next_power_of_two() * Window::capacity(self.width));
        self.push()
    }

    /// Opens a lane. If none is at hand, one that was closed is cleared at once, or another one is made: not for the
    /// frame path. None if there are 65,536.
    pub(crate) fn open(&mut self, owner: Owner, key: LaneKey) -> Option<LaneNumber> {
        let closed = |lane: &ReceiveLane| lane.owner.is_none();
        let number = self
            .lanes
            .iter()
            .position(|lane| lane.window.is_clear())
            .or_else(|| self.lanes.iter().position(closed))
            .or_else(|| self.add())?;
        let lane = &mut self.lanes[number];
        if !lane.window.is_clear() {
            lane.window.fill(&mut self.table, Window::capacity(self.width));
        }
        lane.window.open(key);
        lane.owner = Some(owner);
        self.unfilled = true;
        u16::try_from(number).ok().map(LaneNumber)
    }

    /// Closes a lane; how many parts waited there.
    pub(crate) fn close(&mut self, number: LaneNumber) -> u64 {
        let lane = self.lane(number);
        lane.owner = None;
        lane.window.close();
        let fragments = lane.fragments.clear();
        self.unfilled = true;
        fragments
    }

    pub(crate) fn lane(&mut self, number: LaneNumber) -> &mut ReceiveLane {
        &mut self.lanes[usize::from(number.0)]
    }

    /// The lane and the seq of an identifier that is in the table.
    pub(crate) fn find(&self, rid: Rid) -> Option<(LaneNumber, u64)> {
        self.table.find(rid.number()).map(parse_value)
    }

    /// Whether a window holds all that it should.
    pub(crate) fn is_full(&self, number: LaneNumber) -> bool {
        self.lanes[usize::from(number.0)].window.missing() == 0
    }

    /// A lane's window may have identifiers missing.
    pub(crate) const fn mark_unfilled(&mut self) {
        self.unfilled = true;
    }

    /// Whether [`ReceiveLanes::fill`] has something to do.
    pub(crate) const fn needs_fill(&self) -> bool {
        self.unfilled
    }

    /// Fills windows in, and clears those that were closed: at most [`FILL`] identifiers, and a look at each lane.
    pub(crate) fn fill(&mut self) {
        if !self.unfilled {
            return;
        }
        let mut budget = FILL;
        for _ in 0..self.lanes.len() {
            budget -= self.lanes[self.cursor].window.fill(&mut self.table, budget);
            if budget == 0 {
                return;
            }
            self.cursor = (self.cursor + 1) % self.lanes.len();
        }
        self.unfilled = false;
    }
}
