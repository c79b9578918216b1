//! Receive lanes of all peers and epochs, with the common table of their identifiers.

use alloc::vec::Vec;

use suite::tunnel::{LaneKey, Rid};

use crate::fragments::FragmentBuffer;
use crate::settings::PeerId;
use crate::table::Table;
use crate::window::{LANES, LaneNumber, Window, is_used, parse_value};

/// Identifiers that one call of [`ReceiveLanes::fill`] puts into the table or removes.
const FILL: usize = 256;

/// Owner of a lane.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Owner {
    pub(crate) peer: PeerId,
    pub(crate) epoch: u32,
}

/// A known identifier.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Found {
    pub(crate) number: LaneNumber,
    pub(crate) seq: u64,
    /// A packet with it has come before.
    pub(crate) used: bool,
}

/// A receive lane.
#[derive(Debug)]
pub(crate) struct ReceiveLane {
    /// `None` if closed.
    pub(crate) owner: Option<Owner>,
    pub(crate) window: Window,
    pub(crate) fragments: FragmentBuffer,
}

/// The receive lanes.
#[derive(Debug)]
pub(crate) struct ReceiveLanes {
    pub(crate) table: Table,
    pub(crate) lanes: Vec<ReceiveLane>,
    width: u64,
    part_octets: usize,
    /// True if a lane may have identifiers to be put in or removed.
    unfilled: bool,
    /// Lane that is filled next.
    cursor: usize,
}

impl ReceiveLanes {
    /// Memory for `lanes` lanes; more are allocated when needed.
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
        let number = u16::try_from(self.lanes.len()).ok().filter(|number| usize::from(*number) < LANES)?;
        let number = LaneNumber(number);
        let window = Window::new(number, self.width);
        self.lanes.push(ReceiveLane {
            owner: None,
            window,
            fragments: FragmentBuffer::new(self.part_octets),
        });
        Some(self.lanes.len() - 1)
    }

    fn add(&mut self) -> Option<usize> {
        // Doubles the lanes: with many peers, each new one must not move all identifiers.
        self.table.reserve((self.lanes.len() + 1).next_power_of_two() * Window::capacity(self.width));
        self.push()
    }

    /// Opens a lane. If no clear one is at hand, it clears a closed one at once, or makes another: not for
    /// the frame path. `None` if there are [`LANES`]. `keeps_used`: packets may come twice.
    pub(crate) fn open(&mut self, owner: Owner, key: LaneKey, keeps_used: bool) -> Option<LaneNumber> {
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
        lane.window.open(key, keeps_used);
        lane.owner = Some(owner);
        self.unfilled = true;
        u16::try_from(number).ok().map(LaneNumber)
    }

    /// Closes a lane. Returns the number of its waiting fragments.
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

    /// An identifier in the table.
    pub(crate) fn find(&self, rid: Rid) -> Option<Found> {
        let value = self.table.find(rid.number())?;
        let (number, seq) = parse_value(value);
        Some(Found { number, seq, used: is_used(value) })
    }

    /// True if the window is completely filled.
    pub(crate) fn is_full(&self, number: LaneNumber) -> bool {
        self.lanes[usize::from(number.0)].window.missing() == 0
    }

    /// Marks that a lane's window may lack identifiers.
    pub(crate) const fn mark_unfilled(&mut self) {
        self.unfilled = true;
    }

    /// True if [`ReceiveLanes::fill`] has work.
    pub(crate) const fn needs_fill(&self) -> bool {
        self.unfilled
    }

    /// Fills windows, and clears closed ones: at most [`FILL`] identifiers, and a look at each lane.
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
