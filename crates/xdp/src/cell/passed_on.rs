//! Programs of a cell for the next program of its process: they go on with their relations, and no frame waits.
//!
//! Keys, Seqs and keystream stay in the kernel's maps. This process alone has their descriptors, before and behind execve(2). To load programs
//! needs a right that a gateway has at its start alone; to go on with them needs none. The next program must have the same object
//! ([`Cell::object`]): it knows the maps by that alone.

use std::collections::BTreeSet;
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
        // The document names the room too: nothing here is as large as it says.
        let mut taken = BTreeSet::new();
        let is_free = |place: &u32| (*place as usize) < *room && taken.insert(*place);
        if places.len() != relations.len() || !places.iter().flatten().all(is_free) {
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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use fieldbus::Mode;
    use fieldbus::relation::Relation;
    use wire::MacAddr;
    use wire::fieldbus::FrameId;

    use super::*;

    /// The document may say anything: it decides how much memory nothing takes.
    #[test]
    fn places_that_no_cell_has_are_refused_whatever_room_the_document_names() {
        let ends = [1, 2].map(|octet| (MacAddr([2, 0, 0, 0, 0, octet]), FrameId(0x8000)));
        let relation = Relation::new(ends[0], ends[1], Duration::from_millis(1)).unwrap();
        let of = RelationSettings { relation, mode: Mode::Protect, alarm: Duration::from_secs(1) };
        let go_on = |room: usize, places: &[Option<u32>]| {
            let document = serde_json::json!({
                "programs": { "programs": {}, "maps": {} }, "room": room, "places": places, "aside": false,
            });
            let passed = serde_json::from_value(document).unwrap();
            Cell::go_on(&passed, &vec![of; places.len()]).err().unwrap()
        };
        for (room, places) in [
            (2, &[Some(0), Some(2)][..]),
            (2, &[Some(1), None, Some(1)]),
            (usize::MAX, &[Some(u32::MAX), Some(u32::MAX)]),
            (0, &[Some(0)]),
        ] {
            assert!(matches!(go_on(room, places), XdpError::Malformed), "{room} {places:?}");
        }
        // Places that can be: what is missing are the programs.
        for room in [2, usize::MAX] {
            assert!(!matches!(go_on(room, &[Some(1), None, Some(0)]), XdpError::Malformed), "{room}");
        }
    }
}
