//! Lanes of peers: keys and the next seq of those to send on; windows of identifiers of those to receive on.

use aya::maps::Array;
use suite::tunnel::LaneKey;
use zeroize::Zeroizing;

use super::layout::{self, What};
use super::{LaneReport, Site};
use crate::error::XdpError;

/// Places of a lane that one command clears.
const CLEARED: usize = 256;

impl Site {
    /// Opens a lane to send on, from seq 1 on. One number is one key: before another it is closed, and no peer has it.
    ///
    /// # Errors
    /// If there is no such lane, or it is not closed.
    pub fn open_transmit(&mut self, lane: u32, key: &LaneKey) -> Result<(), XdpError> {
        if layout::is_open(&*self.transmit(lane)?) {
            return Err(XdpError::Malformed);
        }
        self.set_transmit(lane, layout::transmit_lane(key).octets())
    }

    /// Wipes a lane that is not sent on any more.
    ///
    /// # Errors
    /// If there is no such lane.
    pub fn close_transmit(&mut self, lane: u32) -> Result<(), XdpError> {
        self.set_transmit(lane, &[0; layout::TRANSMIT_LANE])
    }

    fn set_transmit(&mut self, lane: u32, octets: &[u8]) -> Result<(), XdpError> {
        let octets: &[u8; layout::TRANSMIT_LANE] = octets.try_into().map_err(|_| XdpError::Malformed)?;
        let lanes = self.programs.map("transmit_lanes")?;
        Ok(Array::<_, [u8; layout::TRANSMIT_LANE]>::try_from(lanes)?.set(lane, octets, 0)?)
    }

    /// The next seq of a lane that this site sends on.
    ///
    /// # Errors
    /// If there is no such lane.
    pub fn next_seq(&self, lane: u32) -> Result<u64, XdpError> {
        Ok(crate::octets::long(&*self.transmit(lane)?, 0))
    }

    /// A lane to send on, with its keys.
    fn transmit(&self, lane: u32) -> Result<Zeroizing<[u8; layout::TRANSMIT_LANE]>, XdpError> {
        let lanes = self.programs.map_ref("transmit_lanes")?;
        let lanes = Array::<_, [u8; layout::TRANSMIT_LANE]>::try_from(lanes)?;
        Ok(Zeroizing::new(lanes.get(&lane, 0)?))
    }

    /// Opens a lane that a peer sends on. It accepts nothing before [`Site::fill`].
    ///
    /// # Errors
    /// If there is no such lane, or it is not closed.
    pub fn open_receive(&mut self, lane: u32, peer: u32, key: &LaneKey) -> Result<(), XdpError> {
        self.command(layout::open(lane, peer, key).octets()).map(drop)
    }

    /// Puts up to 256 missing identifiers into a lane's window. It is full when none is missing in the report.
    ///
    /// # Errors
    /// If there is no such lane.
    pub fn fill(&mut self, lane: u32) -> Result<LaneReport, XdpError> {
        self.tell(What::FillUp, lane)
    }

    /// Moves a lane's window to an anchor that the peer's lane has reached within W/2, if it does not reach it anyway.
    ///
    /// # Errors
    /// If there is no such lane.
    pub fn advance(&mut self, lane: u32, seq: u64) -> Result<LaneReport, XdpError> {
        Ok(layout::report(&self.command(layout::advance(lane, seq).octets())?))
    }

    /// Closes a lane: it accepts nothing from now on, its identifiers leave the table, and its keys are wiped.
    ///
    /// # Errors
    /// If there is no such lane.
    pub fn close_receive(&mut self, lane: u32) -> Result<(), XdpError> {
        self.tell(What::Close, lane)?;
        for from in (0..layout::places(self.settings.window)).step_by(CLEARED) {
            self.command(layout::clear(lane, from as u32).octets())?;
        }
        self.tell(What::Wipe, lane).map(drop)
    }

    /// Closes a lane of a site that ends, and wipes its keys: its identifiers stay in the table, and lead nowhere.
    pub(super) fn shut_receive(&self, lane: u32) -> Result<(), XdpError> {
        self.tell(What::Close, lane)?;
        self.tell(What::Wipe, lane).map(drop)
    }

    /// A lane that a peer sends on.
    ///
    /// # Errors
    /// If there is no such lane.
    pub fn look(&mut self, lane: u32) -> Result<LaneReport, XdpError> {
        self.tell(What::Look, lane)
    }

    fn tell(&self, what: What, lane: u32) -> Result<LaneReport, XdpError> {
        Ok(layout::report(&self.command(layout::command(what, lane).octets())?))
    }
}
