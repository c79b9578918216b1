//! The path between protected port and KaY: EAPOL frames in, MKPDUs out.

use wire::EtherType;

use super::{MayLeave, Path, PathCounters, ToProtected};
use crate::eapol::{LinkEnd, Taken};
use netdev::pool::Pool;
use netdev::port::Port;

/// MKPDUs that leave in one turn, at the most; a KaY has a few a second.
const MKPDUS: usize = 8;

impl Path {
    /// Connects the path with a KaY. EAPOL is the KaY's from here on, in no direction a bypass's.
    pub fn connect(&mut self, kay: LinkEnd) {
        self.bypass.retain(|ethertype| *ethertype != EtherType::EAPOL);
        self.kay = Some(kay);
    }

    /// Whether something has come for the KaY or for a handshake since the last call.
    pub fn take_wake_flag(&mut self) -> bool {
        let cell = self.cell_mut().is_some_and(|cell| cell.end.take_wake_flag());
        self.kay.as_mut().is_some_and(LinkEnd::take_wake_flag) || cell
    }

    /// Sends the KaY's MKPDUs before any SDU of the same turn: at most [`MKPDUS`] frames, each copied once.
    pub(crate) fn send_mkpdus(&mut self, pool: &mut Pool, out: &mut ToProtected, port: &mut dyn Port) {
        let Some(kay) = &mut self.kay else { return };
        for frame in kay.frames().take(MKPDUS) {
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

    /// Drops the MKPDUs of a link without ports: they would be old when there are ports again.
    pub(crate) fn drain_mkpdus(&mut self) {
        let unheard = self.kay.as_mut().map_or(0, |kay| kay.frames().count());
        self.counters.out_pkts_kay_no_chunk += unheard as u64;
    }
}

/// Hands an EAPOL frame over to the KaY, copied once, or counts it as a discard.
pub(super) fn take(kay: Option<&mut LinkEnd>, frame: &[u8], counters: &mut PathCounters) {
    *match kay.map(|kay| kay.take(frame)) {
        Some(Taken::Given) => &mut counters.in_pkts_kay,
        Some(Taken::Overrun) => &mut counters.in_pkts_kay_overrun,
        Some(Taken::TooLong) => &mut counters.in_pkts_kay_too_long,
        None => &mut counters.in_pkts_eapol,
    } += 1;
}
