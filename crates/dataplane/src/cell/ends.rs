//! What a cell's worker and control share: three wait-free rings, and counters.
//!
//! ```text
//!  worker ── true HELLOs ──────▶ control, which has the handshakes
//!  worker ── events ───────────▶ control
//!  worker ◀─ HELLOs ──────────── control
//! ```
//!
//! All are bounded. A HELLO that finds no room is dropped and counted: handshakes say all again. An event that finds none
//! waits in the data path. The worker counts in place of the handshakes.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arrayvec::ArrayVec;
use fieldbus::Event;
use fieldbus::handshake::{HelloCounters, HelloDiscard};
use rtrb::{Consumer, Producer, RingBuffer};
use wire::ethernet::{HEADER_OCTETS, VLAN_TAG_OCTETS, VLAN_TAGS};
use wire::fieldbus::HELLO_OCTETS;

use super::hello_filter::LATE_AT_ONCE;

/// Octets of a HELLO with all that may stand in front of it; what stands behind is padding.
const HELLO_FRAME_OCTETS: usize = HEADER_OCTETS + VLAN_TAGS * VLAN_TAG_OCTETS + HELLO_OCTETS;

/// A HELLO from its destination address on.
#[derive(Clone, Debug)]
pub struct HelloFrame {
    /// The relation's number.
    pub relation: u16,
    /// The whole frame, from its destination address on.
    pub octets: ArrayVec<u8, HELLO_FRAME_OCTETS>,
}

impl HelloFrame {
    /// A copy of a frame, without what may stand behind the HELLO.
    pub(crate) fn new(relation: usize, frame: &[u8]) -> Self {
        let octets = frame.iter().copied().take(HELLO_FRAME_OCTETS).collect();
        Self { relation: relation as u16, octets }
    }
}

/// HELLOs that the worker answered or discarded, so that no handshake counts them. The worker alone writes it.
#[derive(Debug, Default)]
pub struct SharedCounters {
    answered: AtomicU64,
    malformed: AtomicU64,
    other_relation: AtomicU64,
    reflected: AtomicU64,
    not_valid: AtomicU64,
    other_mode: AtomicU64,
}

impl SharedCounters {
    pub(crate) fn answered(&self) {
        self.answered.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn discard(&self, discard: HelloDiscard) {
        let counter = match discard {
            HelloDiscard::Malformed => &self.malformed,
            HelloDiscard::OtherRelation => &self.other_relation,
            HelloDiscard::Reflected => &self.reflected,
            HelloDiscard::NotValid => &self.not_valid,
            HelloDiscard::OtherMode => &self.other_mode,
            // A handshake alone can tell.
            HelloDiscard::Stale | HelloDiscard::Overrun => return,
        };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    /// What handshakes would have counted.
    pub fn counters(&self) -> HelloCounters {
        let [answered, malformed, other_relation, reflected, not_valid, other_mode] = [
            &self.answered,
            &self.malformed,
            &self.other_relation,
            &self.reflected,
            &self.not_valid,
            &self.other_mode,
        ]
        .map(|counter| counter.load(Ordering::Relaxed));
        HelloCounters {
            out_hello: answered,
            in_hello: answered,
            in_hello_malformed: malformed,
            in_hello_other_relation: other_relation,
            in_hello_reflected: reflected,
            in_hello_not_valid: not_valid,
            in_hello_other_mode: other_mode,
            ..HelloCounters::default()
        }
    }
}

/// The worker's end.
#[derive(Debug)]
pub struct CellEnd {
    heard: Producer<HelloFrame>,
    says: Consumer<HelloFrame>,
    events: Producer<(u16, Event)>,
    pub(crate) shared_counters: Arc<SharedCounters>,
    wake: bool,
}

/// Control's end.
#[derive(Debug)]
pub struct ControlEnd {
    /// Received HELLOs.
    pub heard: Consumer<HelloFrame>,
    /// HELLOs to be sent.
    pub says: Producer<HelloFrame>,
    /// What the data path tells, and of which relation.
    pub events: Consumer<(u16, Event)>,
    /// HELLOs that did not come here.
    pub shared_counters: Arc<SharedCounters>,
}

/// Both ends, for so many relations: as many HELLOs wait as all of them may give at once, and two of each may be sent.
pub fn ends(relations: usize) -> (CellEnd, ControlEnd) {
    let (given, heard) = RingBuffer::new(relations * LATE_AT_ONCE as usize + 1);
    let (says, said) = RingBuffer::new(relations * 2 + 1);
    let (told, events) = RingBuffer::new(relations * 2 + 1);
    let shared_counters = Arc::<SharedCounters>::default();
    (
        CellEnd {
            heard: given,
            says: said,
            events: told,
            shared_counters: Arc::clone(&shared_counters),
            wake: false,
        },
        ControlEnd { heard, says, events, shared_counters },
    )
}

impl CellEnd {
    /// Copies a received HELLO for control; false if there is no room.
    pub(crate) fn give(&mut self, hello: &HelloFrame) -> bool {
        let given = self.heard.push(hello.clone()).is_ok();
        self.wake |= given;
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
        self.wake |= !matches!(event, Event::Alarm(_));
        let _ = self.events.push((relation as u16, event));
    }

    /// Whether there is something for control that should not wait, since this was asked last.
    pub(crate) const fn take_wake_flag(&mut self) -> bool {
        std::mem::replace(&mut self.wake, false)
    }
}
