//! The way between protected port and KaY: EAPOL frames in, MKPDUs out.
//!
//! ```text
//!  worker ── received EAPOL frames ▶ control, which has the KaY
//!  worker ◀─ MKPDUs ─────────────── control
//! ```
//!
//! A frame that finds no room is dropped and counted: MKA says all again within seconds. A frame is copied into the mailbox, so
//! a flood takes none of the link's chunks.

use wire::EtherType;

use super::{MayLeave, Pipeline, PipelineCounters, ToProtected};
use crate::mailbox::{self, Mailbox};
use netdev::pool::Pool;
use netdev::port::Port;

/// Both ends of the mailbox send and receive EAPOL frames, from their destination address on, without FCS.
pub type KayMailbox = Mailbox<mka::Frame, mka::Frame>;

/// Received frames that can wait for the KaY: many times what a group says at once.
const RX_EAPOL: usize = 256;
/// MKPDUs that can wait for the worker.
const TX_MKPDUS: usize = 32;
/// MKPDUs that leave in one turn, at the most; a KaY has a few a second.
const MKPDUS: usize = 8;

impl Pipeline {
    /// Connects the pipeline with a KaY, and returns the KaY's end. EAPOL is the KaY's from here on, in no direction a
    /// bypass's.
    pub fn connect_kay(&mut self) -> KayMailbox {
        let (worker, kay) = mailbox::pair(RX_EAPOL, TX_MKPDUS);
        self.set_kay(worker);
        kay
    }

    pub(super) fn set_kay(&mut self, kay: KayMailbox) {
        self.bypass.retain(|ethertype| *ethertype != EtherType::EAPOL);
        self.kay = Some(kay);
    }

    /// Whether keys are agreed on.
    pub(crate) const fn has_kay(&self) -> bool {
        self.kay.is_some()
    }

    /// Whether something has come for the KaY or for a handshake since the last call.
    pub fn take_wake_flag(&mut self) -> bool {
        let cell = self.cell_mut().is_some_and(|cell| cell.mailbox.take_wake_flag());
        self.kay.as_mut().is_some_and(KayMailbox::take_wake_flag) || cell
    }

    /// Sends the KaY's MKPDUs before any SDU of the same turn: at most [`MKPDUS`] frames, each copied once.
    pub(crate) fn send_mkpdus(&mut self, pool: &mut Pool, out: &mut ToProtected, port: &mut dyn Port) {
        let Some(kay) = &mut self.kay else { return };
        for _ in 0..MKPDUS {
            let Some(frame) = kay.receive() else { break };
            let mut slot = pool.take();
            if let Some(slot) = slot.take_if(|slot| pool.append(slot, &frame)) {
                self.counters.out_pkts_kay += 1;
                out.push(slot, MayLeave::Mkpdu, pool);
            } else {
                self.counters.out_pkts_kay_no_chunk += 1;
            }
            slot.into_iter().for_each(|slot| pool.give(slot));
        }
        if !out.is_empty() {
            out.transmit(port, pool);
        }
    }

    /// Sends all MKPDUs that wait: the link leaves its worker.
    pub(crate) fn send_all_mkpdus(&mut self, pool: &mut Pool, out: &mut ToProtected, port: &mut dyn Port) {
        for _ in 0..TX_MKPDUS.div_ceil(MKPDUS) {
            self.send_mkpdus(pool, out, port);
        }
    }

    /// Drops the MKPDUs of a link without ports: they would be old when there are ports again.
    pub(crate) fn drain_mkpdus(&mut self) {
        let Some(kay) = &mut self.kay else { return };
        while kay.receive().is_some() {
            self.counters.out_pkts_kay_no_chunk += 1;
        }
    }
}

/// Hands an EAPOL frame over to the KaY, copied once, or counts it as a discard.
pub(super) fn take(kay: Option<&mut KayMailbox>, frame: &[u8], counters: &mut PipelineCounters) {
    *match kay {
        None => &mut counters.in_pkts_eapol,
        // A flood that finds no room costs no copy.
        Some(kay) if !kay.has_room() => &mut counters.in_pkts_kay_overrun,
        Some(kay) => match mka::Frame::try_from(frame) {
            Ok(copy) => {
                kay.send(copy);
                &mut counters.in_pkts_kay
            }
            Err(_) => &mut counters.in_pkts_kay_too_long,
        },
    } += 1;
}
