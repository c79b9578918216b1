//! `[[fieldbus]]`: a cell, whose cyclic real-time frames are protected relation by relation, and `[[fieldbus.relation]]`,
//! who exchanges which of them.
//!
//! A cell is a part of a link. With `rest = "LINK"` it is a part of that `[[link]]`, which carries all that is of no
//! relation. With `rest = "drop"` there is nothing to carry: the cell gets a link of its own name and without keys, so
//! that interfaces, ports and reload are a link's in either case ([`crate::Link`]).
//!
//! Not here: whether frames fit the interfaces, and what a cycle costs ([`crate::check`]).

mod quantity;
mod relations;
mod section;
mod validate;

use std::time::Duration;

pub use dataplane::cell::OtherFrames;
use fieldbus::relation::Relation;
pub use fieldbus::{Mode, VlanTag};
pub(super) use quantity::ethertype;
pub use section::{RelationSection, vlan_line};
use suite::fieldbus::MasterKeys;
use wire::EtherType;
use wire::fieldbus::{Protection, Protocol};

pub(super) use validate::validate_all;

use super::Origin;
use crate::key_file::CellKey;

/// Relations of a cell.
pub const MOST_RELATIONS: usize = 1024;

/// `[[fieldbus]]`: cyclic frames between stations behind this gateway and stations behind another one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Cell {
    /// See [`super::is_name`]; no link, no site and no other cell has it.
    pub name: String,
    /// The line of the configuration on which the cell begins, from 1.
    pub line: Origin<usize>,
    /// Treatment of frames that belong to no relation.
    pub rest: OtherFrames,
    /// Protection of frames.
    pub protection: Protection,
    /// Key that all other keys are derived from.
    pub master_key: CellKey,
    /// A second one, for sessions with gateways that lack the first.
    pub fallback_master_key: Option<CellKey>,
    /// The EtherType of protected frames.
    pub ethertype: EtherType,
    /// The tag of the frames that go to the machines.
    pub vlan: Option<VlanTag>,
    /// Cycles without a frame after which a station gives up: PROFINET's watchdog. 2 or more.
    pub watchdog: u32,
    /// The part of it at which there is an alarm, in percent: more than a cycle, and at most all of it.
    pub alarm_percent: u32,
    /// Frames after which a direction of a relation goes on under its next key.
    pub epoch_frames: u32,
    /// 1 to [`MOST_RELATIONS`].
    pub relations: Vec<CellRelation>,
}

/// `[[fieldbus.relation]]`
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CellRelation {
    /// Stations, their FrameIDs, and the cycle.
    pub relation: Relation,
    /// The line of the configuration on which it begins, from 1.
    pub line: Origin<usize>,
    /// Whether its frames are protected already.
    pub mode: Mode,
}

impl Cell {
    /// Its master keys, in the order of preference.
    pub fn master_keys(&self) -> MasterKeys {
        MasterKeys {
            preferred: self.master_key.master_key(),
            fallback: self.fallback_master_key.as_ref().map(CellKey::master_key),
        }
    }

    /// Time without a frame of a relation after which a station gives up.
    pub fn watchdog_time(&self, relation: &CellRelation) -> Duration {
        relation.relation.cycle * self.watchdog
    }

    /// The gap between two frames of a relation at which there is an alarm.
    pub fn alarm_time(&self, relation: &CellRelation) -> Duration {
        self.watchdog_time(relation) * self.alarm_percent / 100
    }

    /// The relations of a protocol, with their numbers.
    pub(crate) fn of_protocol(&self, protocol: Protocol) -> impl Iterator<Item = (usize, &CellRelation)> {
        self.relations.iter().enumerate().filter(move |(_, of)| of.relation.protocol() == protocol)
    }

    /// The relations whose frames pass in clear.
    pub fn shadowed(&self) -> impl Iterator<Item = &CellRelation> {
        self.relations.iter().filter(|relation| relation.mode == Mode::Shadow)
    }
}

#[cfg(test)]
mod tests;
