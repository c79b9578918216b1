//! All inputs of a running KaY as one value, so that a caller can record them and replay them to another KaY.
//!
//! A KaY with the same settings, CAKs and seed that gets the same inputs at the same moments behaves the
//! same. The seed is not secret without a CAK: it yields MIs, and nonces that become SAKs only under the CAK.

use wire::Instant;

use crate::event::Report;
use crate::kay::Kay;

/// An input of a KaY. Its effects are polled at the same moment.
#[derive(Clone, Copy, Debug)]
pub enum Input<'t> {
    /// A received EAPOL frame: [`Kay::handle_frame`].
    Frame(&'t [u8]),
    /// A report of the SecY: [`Kay::handle_report`].
    Report(Report),
    /// The passing of time: [`Kay::handle_timeout`].
    Timeout,
    /// A request for another SAK: [`Kay::rekey`].
    Rekey,
}

impl Kay {
    /// Handles one input. False for a frame that a stranger may have sent: no CAK verifies its ICV.
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
