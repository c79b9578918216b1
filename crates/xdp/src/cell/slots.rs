//! Slots of keystream ahead as they stand in the map, for the tests of this crate: they are secrets, so no product builds this.

use aya::maps::Array;
use fieldbus::Direction;

use super::{Cell, layout};
use crate::error::XdpError;

impl Cell {
    /// The slot of a Seq, as it stands in the map: for tests.
    ///
    /// # Errors
    /// If there is no such relation.
    pub fn slot(&self, relation: usize, way: Direction, seq: u32) -> Result<Vec<u8>, XdpError> {
        let at = slot_number(self.place(relation)?, way, seq);
        let map = self.programs.map_ref("slots")?;
        Ok(Array::<_, [u8; layout::SLOT]>::try_from(map)?.get(&at, 0)?.to_vec())
    }

    /// Puts something else into the slot of a Seq: for tests.
    ///
    /// # Errors
    /// If there is no such relation, or a slot has not so many octets.
    pub fn set_slot(
        &mut self,
        relation: usize,
        way: Direction,
        seq: u32,
        octets: &[u8],
    ) -> Result<(), XdpError> {
        let at = slot_number(self.place(relation)?, way, seq);
        let octets: [u8; layout::SLOT] = octets.try_into().map_err(|_| XdpError::Malformed)?;
        let mut slots = Array::<_, [u8; layout::SLOT]>::try_from(self.programs.map("slots")?)?;
        Ok(slots.set(at, octets, 0)?)
    }
}

fn slot_number(place: u32, way: Direction, seq: u32) -> u32 {
    let way = match way {
        Direction::Outward => 0,
        Direction::Inward => 1,
    };
    (2 * place + way) * layout::SLOTS + seq % layout::SLOTS
}
