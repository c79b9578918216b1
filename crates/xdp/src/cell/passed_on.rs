//! Programs of a cell for the next program of its process: they go on with their relations, and no frame waits.
//!
//! Keys, Seqs and keystream stay in the kernel's maps. This process alone has their descriptors, before and behind execve(2). To load programs
//! needs a right that a gateway has at its start alone; to go on with them needs none. The next program must have the same object
//! ([`Cell::object`]): it knows the maps by that alone.

use std::os::fd::RawFd;

use fieldbus::RelationSettings;
use serde::{Deserialize, Serialize};

use super::{Cell, OBJECT, PROGRAMS, Placed};
use crate::error::XdpError;
use crate::programs::{PassedPrograms, Programs};

/// Programs of a cell, and the places of its relations in their maps.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PassedCell {
    programs: PassedPrograms,
    room: usize,
    /// By number; none: the relation is user space's.
    places: Vec<Option<u32>>,
    aside: bool,
}

impl PassedCell {
    /// The descriptors that it names.
    pub fn descriptors(&self) -> impl Iterator<Item = RawFd> {
        self.programs.descriptors()
    }

    /// Whether they serve no cell.
    pub const fn is_idle(&self) -> bool {
        self.places.is_empty()
    }
}

impl Cell {
    /// Octets of the object file with these programs.
    pub fn object() -> &'static [u8] {
        OBJECT
    }

    /// The programs for the next program of this process. They go on meanwhile.
    ///
    /// # Errors
    /// If they cannot be asked.
    pub fn pass_on(&self) -> Result<PassedCell, XdpError> {
        Ok(PassedCell {
            programs: self.programs.pass_on()?,
            room: self.room,
            places: self.relations.iter().map(|of| of.place).collect(),
            aside: self.aside,
        })
    }

    /// Goes on with programs of the program before this one, whose object was the same, and which serve these relations. No thread makes
    /// keystream ahead yet.
    ///
    /// # Errors
    /// If they are others, or were not passed on.
    pub fn go_on(passed: &PassedCell, relations: &[RelationSettings]) -> Result<Self, XdpError> {
        let PassedCell { programs, room, places, aside } = passed;
        let mut taken = vec![false; *room];
        for place in places.iter().flatten() {
            let taken = taken.get_mut(*place as usize).ok_or(XdpError::Malformed)?;
            if std::mem::replace(taken, true) {
                return Err(XdpError::Malformed);
            }
        }
        if places.len() != relations.len() {
            return Err(XdpError::Malformed);
        }
        let placed = relations.iter().zip(places).map(|(of, place)| Placed { of: *of, place: *place });
        Ok(Self {
            programs: Programs::go_on(programs, &PROGRAMS)?,
            room: *room,
            relations: placed.collect(),
            filler: None,
            aside: *aside,
        })
    }
}
