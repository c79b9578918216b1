//! What a link's worker and control share of a link whose keys are agreed on: two wait-free rings of EAPOL frames.
//!
//! ```text
//!  worker ── received EAPOL frames ▶ control, which has the KaY
//!  worker ◀─ MKPDUs ─────────────── control
//! ```
//!
//! Both are bounded. Who finds a ring full drops the frame, and counts it: MKA says all again within seconds. A frame
//! is copied into the ring, so a flood takes none of the link's chunks.

use rtrb::{Consumer, Producer, RingBuffer};

/// An EAPOL frame from its destination address on, without FCS.
pub(crate) type EapolFrame = mka::Frame;

/// Received frames that can wait for the KaY: many times what a group says at once.
pub const TO_KAY: usize = 256;
/// MKPDUs that can wait for the worker.
const FROM_KAY: usize = 32;

/// The worker's end.
#[derive(Debug)]
pub struct LinkEnd {
    taken: Producer<EapolFrame>,
    said: Consumer<EapolFrame>,
    wake: bool,
}

/// The KaY's end.
#[derive(Debug)]
pub struct KayEnd {
    /// Received EAPOL frames.
    pub heard: Consumer<EapolFrame>,
    /// MKPDUs.
    pub says: Producer<EapolFrame>,
}

/// What became of a received frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Taken {
    Given,
    Overrun,
    TooLong,
}

/// Both ends.
pub fn ends() -> (LinkEnd, KayEnd) {
    let (taken, heard) = RingBuffer::new(TO_KAY);
    let (says, said) = RingBuffer::new(FROM_KAY);
    (LinkEnd { taken, said, wake: false }, KayEnd { heard, says })
}

impl LinkEnd {
    /// Copies a received frame for the KaY.
    pub(crate) fn take(&mut self, frame: &[u8]) -> Taken {
        // A flood that finds the ring full costs no copy.
        if self.taken.is_full() {
            return Taken::Overrun;
        }
        let Ok(copy) = EapolFrame::try_from(frame) else { return Taken::TooLong };
        match self.taken.push(copy) {
            Ok(()) => {
                self.wake = true;
                Taken::Given
            }
            Err(_) => Taken::Overrun,
        }
    }

    /// Whether a frame was taken since this was asked last.
    pub(crate) const fn take_wake_flag(&mut self) -> bool {
        std::mem::replace(&mut self.wake, false)
    }

    /// What the KaY says.
    pub(crate) fn frames(&mut self) -> impl Iterator<Item = EapolFrame> + '_ {
        std::iter::from_fn(|| self.said.pop().ok())
    }
}
