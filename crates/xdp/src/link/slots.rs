//! Slots of keystream ahead as they stand in the map, for the tests of this crate: they are secrets, so no product builds this.

use aya::maps::Array;
use wire::{An, Sci};

use super::ahead::Owner;
use super::{Link, layout};
use crate::error::XdpError;

impl Link {
    /// The slot of a PN as it stands in the map: for tests. `None` if its SA has none. `sci`: of a receive SA.
    ///
    /// # Errors
    /// If there is no such SC, or the map cannot be read.
    pub fn slot(&self, sci: Option<Sci>, an: An, pn: u64) -> Result<Option<Vec<u8>>, XdpError> {
        let Some(at) = self.slot_of(sci, an, pn)? else { return Ok(None) };
        let map = self.programs.map_ref("slots")?;
        Ok(Some(Array::<_, [u8; layout::SLOT]>::try_from(map)?.get(&at, 0)?.to_vec()))
    }

    /// Puts something else into the slot of a PN: for tests.
    ///
    /// # Errors
    /// If there is no such slot, or a slot has not so many octets.
    pub fn set_slot(&mut self, sci: Option<Sci>, an: An, pn: u64, octets: &[u8]) -> Result<(), XdpError> {
        let at = self.slot_of(sci, an, pn)?.ok_or(XdpError::Malformed)?;
        let octets: [u8; layout::SLOT] = octets.try_into().map_err(|_| XdpError::Malformed)?;
        let mut slots = Array::<_, [u8; layout::SLOT]>::try_from(self.programs.map("slots")?)?;
        Ok(slots.set(at, octets, 0)?)
    }

    /// Gives the ring of an SA to another instance, as if it were taken out while a frame is under way, and says whose it was: for tests.
    ///
    /// # Errors
    /// If there is no such ring.
    pub fn set_ring(&mut self, sci: Option<Sci>, an: An, instance: u64) -> Result<u64, XdpError> {
        let owner = self.owner(sci, an)?;
        self.ahead.as_ref().and_then(|ahead| ahead.set_instance(owner, instance)).ok_or(XdpError::Malformed)
    }

    fn slot_of(&self, sci: Option<Sci>, an: An, pn: u64) -> Result<Option<u32>, XdpError> {
        let owner = self.owner(sci, an)?;
        Ok(self.ahead.as_ref().and_then(|ahead| {
            let ring = ahead.ring_of(owner)?;
            Some((ring * layout::SLOTS) as u32 + (pn % layout::SLOTS as u64) as u32)
        }))
    }

    fn owner(&self, sci: Option<Sci>, an: An) -> Result<Owner, XdpError> {
        Ok(match sci {
            None => Owner::Transmit(an.index() as u32),
            Some(sci) => Owner::Receive(self.place(sci, an)?),
        })
    }
}
