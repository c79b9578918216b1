//! What a cell's worker and control share: three wait-free rings.
//!
//! ```text
//!  worker ── received HELLOs ──▶ control, which has the handshakes
//!  worker ── events ───────────▶ control
//!  worker ◀─ HELLOs ──────────── control
//! ```
//!
//! All are bounded. A HELLO that finds no room is dropped and counted: handshakes say all again. An event that finds none
//! waits in the data path.

use arrayvec::ArrayVec;
use fieldbus::Event;
use rtrb::{Consumer, Producer, RingBuffer};
use wire::ethernet::{HEADER_OCTETS, VLAN_TAG_OCTETS, VLAN_TAGS};
use wire::fieldbus::HELLO_OCTETS;

use super::allowance::AT_ONCE;

/// Octets of a HELLO with all that may stand in front of it; what stands behind is padding.
const HELLO_FRAME_OCTETS: usize = HEADER_OCTETS + VLAN_TAGS * VLAN_TAG_OCTETS + HELLO_OCTETS;

/// A HELLO from its destination address on.
#[derive(Clone, Debug)]
pub(crate) struct HelloFrame {
    pub(crate) relation: u16,
    pub(crate) octets: ArrayVec<u8, HELLO_FRAME_OCTETS>,
}

/// The worker's end.
#[derive(Debug)]
pub(crate) struct CellEnd {
    heard: Producer<HelloFrame>,
    says: Consumer<HelloFrame>,
    events: Producer<(u16, Event)>,
    knocked: bool,
}

/// Control's end.
#[derive(Debug)]
pub(crate) struct ControlEnd {
    /// Received HELLOs.
    pub(crate) heard: Consumer<HelloFrame>,
    /// HELLOs to be sent.
    pub(crate) says: Producer<HelloFrame>,
    /// What the data path tells, and of which relation.
    pub(crate) events: Consumer<(u16, Event)>,
}

/// Both ends, for so many relations: as many HELLOs wait as all of them may give at once, and two of each may be sent.
pub(crate) fn ends(relations: usize) -> (CellEnd, ControlEnd) {
    let (given, heard) = RingBuffer::new(relations * usize::from(AT_ONCE) + 1);
    let (says, said) = RingBuffer::new(relations * 2 + 1);
    let (told, events) = RingBuffer::new(relations * 2 + 1);
    (CellEnd { heard: given, says: said, events: told, knocked: false }, ControlEnd { heard, says, events })
}

impl CellEnd {
    /// Copies a received HELLO for control; false if there is no room.
    pub(crate) fn give(&mut self, relation: usize, frame: &[u8]) -> bool {
        let octets = frame.iter().copied().take(HELLO_FRAME_OCTETS).collect();
        let given = self.heard.push(HelloFrame { relation: relation as u16, octets }).is_ok();
        self.knocked |= given;
        given
    }

    /// The next HELLO to be sent.
    pub(crate) fn next_hello(&mut self) -> Option<HelloFrame> {
        self.says.pop().ok()
    }

    pub(crate) fn has_hello(&self) -> bool {
        !self.says.is_empty()
    }

    pub(crate) fn has_room_for_event(&self) -> bool {
        !self.events.is_full()
    }

    /// Tells control something. Room has been looked for.
    pub(crate) fn tell(&mut self, relation: usize, event: Event) {
        // An alarm can wait for control's next turn; keys should not.
        self.knocked |= !matches!(event, Event::Alarm(_));
        let _ = self.events.push((relation as u16, event));
    }

    /// Whether there is something for control that should not wait, since this was asked last.
    pub(crate) const fn knocked(&mut self) -> bool {
        std::mem::replace(&mut self.knocked, false)
    }
}
