//! Mailboxes and counters that a cell's worker and control share.
//!
//! ```text
//!  worker ── true HELLOs ──────▶ control, which has the handshakes
//!  worker ── events ───────────▶ control
//!  worker ◀─ HELLOs ──────────── control
//! ```
//!
//! HELLOs take no room of events. A HELLO that finds no room is dropped and counted: handshakes say all again. An event
//! that finds none waits in the data path. The worker counts in place of the handshakes.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arrayvec::ArrayVec;
use fieldbus::Event;
use fieldbus::handshake::{HelloCounters, HelloDiscard};
use wire::ethernet::{HEADER_OCTETS, VLAN_TAG_OCTETS, VLAN_TAGS};
use wire::fieldbus::LONGEST_HELLO_OCTETS;

use crate::mailbox::{self, Mailbox};

/// HELLOs of a relation that come to control though they name a nonce of the past, at once. They are true and late: control counts
/// them, and needs none. One in a session may be of a nonce that the worker has not been told yet, and for that one there is room.
pub(super) const LATE_AT_ONCE: u32 = 4;

/// Octets of a HELLO with all that may stand in front of it; what stands behind is padding.
const HELLO_FRAME_OCTETS: usize = HEADER_OCTETS + VLAN_TAGS * VLAN_TAG_OCTETS + LONGEST_HELLO_OCTETS;

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

    /// Counters of HELLOs that no handshake counts.
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

/// An event of the data path, and the number of the relation that it is of.
pub type RelationEvent = (u16, Event);

/// One end: HELLOs go both ways, events from the worker to control.
#[derive(Debug)]
pub struct CellMailbox<Out, In> {
    /// HELLOs.
    pub hellos: Mailbox<HelloFrame, HelloFrame>,
    /// Events of the data path.
    pub events: Mailbox<Out, In>,
    /// HELLOs that no handshake counts.
    pub shared_counters: Arc<SharedCounters>,
}

/// The worker's end.
pub type WorkerMailbox = CellMailbox<RelationEvent, Infallible>;
/// Control's end.
pub type ControlMailbox = CellMailbox<Infallible, RelationEvent>;

/// Both ends, for so many relations: as many HELLOs wait as all of them may give at once, and two of each may be sent.
pub fn pair(relations: usize) -> (WorkerMailbox, ControlMailbox) {
    let (hellos, control_hellos) = mailbox::pair(relations * LATE_AT_ONCE as usize + 1, relations * 2 + 1);
    let (events, control_events) = mailbox::pair(relations * 2 + 1, 0);
    let shared_counters = Arc::<SharedCounters>::default();
    let control = Arc::clone(&shared_counters);
    (
        CellMailbox { hellos, events, shared_counters },
        CellMailbox { hellos: control_hellos, events: control_events, shared_counters: control },
    )
}

impl WorkerMailbox {
    /// Sends an event; false if there is no room.
    pub(crate) fn send_event(&mut self, relation: usize, event: Event) -> bool {
        let message = (relation as u16, event);
        match event {
            // An alarm can wait for control's next turn; keys should not.
            Event::Alarm(_) => self.events.send_without_waking(message),
            _ => self.events.send(message),
        }
    }

    /// Whether there is something for control that should not wait, since this was asked last.
    pub(crate) const fn take_wake_flag(&mut self) -> bool {
        self.hellos.take_wake_flag() | self.events.take_wake_flag()
    }
}
