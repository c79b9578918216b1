//! Frames that leave a pipeline, collected until a port sends them. Each is taken only with the proof that it may go there.

use secy::{Delivered, Protected};

use netdev::burst::Burst;
use netdev::pool::{Pool, Slot};
use netdev::port::Port;

/// Why a frame may go to the protected side.
pub(super) enum MayLeave {
    Protected(Protected),
    Bypass,
    /// The KaY speaks in clear: an MKPDU has an ICV of its own.
    Mkpdu,
    Cyclic(fieldbus::Protected),
    /// In clear: its relation is in shadow mode.
    Shadow(fieldbus::ClearPermit),
    /// Of a handshake: it has a MAC of its own.
    Hello,
}

/// Why a frame may go to the plain side.
pub(super) enum MayEnter {
    Verified(Delivered),
    Bypass,
    Cyclic(fieldbus::Verified),
    /// In clear: its relation is in shadow mode.
    Shadow(fieldbus::ClearPermit),
}

/// Frames that may go to the protected side, in order.
#[derive(Debug, Default)]
pub struct ToProtected(Burst);

/// Frames that may go to the plain side, in order.
#[derive(Debug, Default)]
pub struct ToPlain(Burst);

impl ToProtected {
    /// Sends them.
    pub fn transmit(&mut self, port: &mut dyn Port, pool: &mut Pool) {
        port.transmit(pool, &mut self.0);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn push(&mut self, slot: Slot, _proof: MayLeave, pool: &mut Pool) {
        give_refused(self.0.push(slot), pool);
    }
}

impl ToPlain {
    /// Sends them.
    pub fn transmit(&mut self, port: &mut dyn Port, pool: &mut Pool) {
        port.transmit(pool, &mut self.0);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn is_full(&self) -> bool {
        self.0.is_full()
    }

    pub(super) fn push(&mut self, slot: Slot, _proof: MayEnter, pool: &mut Pool) {
        give_refused(self.0.push(slot), pool);
    }

    /// Puts an SDU from the SDU buffer, which holds verified ones only, into a chunk with this mark. False if there is no chunk for it.
    pub(super) fn copy(&mut self, sdu: &[u8], mark: u8, pool: &mut Pool, port: &mut dyn Port) -> bool {
        if self.is_full() {
            self.transmit(port, pool);
        }
        let Some(mut slot) = pool.take() else { return false };
        if !pool.append(&mut slot, sdu) {
            pool.give(slot);
            return false;
        }
        pool.set_mark(&slot, mark);
        give_refused(self.0.push(slot), pool);
        true
    }
}

/// The caller has looked for room, so nothing is refused; if it were, no chunk is lost.
pub(crate) fn give_refused(pushed: Result<(), Slot>, pool: &mut Pool) {
    if let Err(slot) = pushed {
        pool.give(slot);
    }
}
