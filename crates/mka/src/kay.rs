//! The KaY.

use alloc::vec::Vec;

use arrayvec::ArrayVec;
use wire::Instant;

use crate::event::{Event, Report};
use crate::settings::{CakEntry, Settings};
use crate::status::{KayCounters, Status};

/// Octets of the longest MKPDU with its Ethernet header.
pub const FRAME_OCTETS: usize = 1514;

/// A frame from its destination address on, without FCS.
pub type Frame = ArrayVec<u8, FRAME_OCTETS>;

/// A Key Agreement Entity: one SecY's, with one participant for each CAK (clause 9.3).
#[derive(Debug)]
pub struct Kay(());

impl Kay {
    /// A KaY that speaks under each CAK of `caks`, the preferred one first. `seed`: 32 octets that the operating system
    /// drew for it alone.
    pub fn new(_now: Instant, _settings: Settings, _caks: Vec<CakEntry>, _seed: &[u8; 32]) -> Self {
        todo!()
    }

    /// Takes other settings and CAKs. Participants whose CAK (name and key) stays go on, so nothing is lost.
    pub fn change(&mut self, _now: Instant, _settings: Settings, _caks: Vec<CakEntry>) {
        todo!()
    }

    /// Takes an EAPOL frame of the protected side, whatever it holds.
    pub fn handle_frame(&mut self, _now: Instant, _frame: &[u8]) {
        todo!()
    }

    /// Hears what the SecY did.
    pub fn handle_report(&mut self, _now: Instant, _report: Report) {
        todo!()
    }

    /// Does what is due. Harmless when nothing is.
    pub fn handle_timeout(&mut self, _now: Instant) {
        todo!()
    }

    /// Asks for another SAK, if this KaY is key server; otherwise the key server is asked by the standard's means.
    pub fn rekey(&mut self, _now: Instant) {
        todo!()
    }

    /// The next frame for the protected side.
    pub fn poll_transmit(&mut self, _now: Instant) -> Option<Frame> {
        todo!()
    }

    /// When [`Kay::handle_timeout`] is due.
    pub fn poll_timeout(&self) -> Option<Instant> {
        todo!()
    }

    /// The next thing that the SecY is to do.
    pub fn poll_event(&mut self) -> Option<Event> {
        todo!()
    }

    /// Its state.
    pub fn status(&self, _now: Instant) -> Status {
        todo!()
    }

    /// What it counted.
    pub const fn counters(&self) -> &KayCounters {
        todo!()
    }
}
