//! All that a KaY is told while it runs, as one value: so that whoever drives it can keep what it was told, and tell it
//! again to another KaY.
//!
//! A KaY that begins with the same settings, CAKs and seed and is told the same at the same moments does the same. The
//! seed is no secret without a CAK: what is drawn from it are MIs, and nonces that become SAKs under the CAK alone.

use wire::Instant;

use crate::event::Report;
use crate::kay::Kay;

/// Something that a KaY is told. What follows from it is polled at the same moment.
#[derive(Clone, Copy, Debug)]
pub enum Input<'t> {
    /// An EAPOL frame came: [`Kay::handle_frame`].
    Frame(&'t [u8]),
    /// What the SecY did: [`Kay::handle_report`].
    Report(Report),
    /// Time has passed: [`Kay::handle_timeout`].
    Timeout,
    /// Another SAK is wanted: [`Kay::rekey`].
    Rekey,
}

impl Kay {
    /// Tells it. False for a frame that a stranger may have sent: no CAK verifies its ICV.
    pub fn handle_input(&mut self, now: Instant, input: Input<'_>) -> bool {
        match input {
            Input::Frame(frame) => return self.take_frame(now, frame),
            Input::Report(report) => self.handle_report(now, report),
            Input::Timeout => self.handle_timeout(now),
            Input::Rekey => self.rekey(now),
        }
        true
    }
}
