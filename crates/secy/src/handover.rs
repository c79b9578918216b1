//! Another SecY in the place of one, between two bursts: settings and keys change, and no frame is lost.
//!
//! ```text
//!  predecessor ─┬─ SAs that go on ──▶ with PNs, replay windows, counters, pieces ──▶ successor
//!               ├─ counters of SecY and SCs ─────────────────────────────────────▶
//!               └─ all else: stays, to be let go of where time does not matter
//! ```
//!
//! The successor is made, keys and all, before; taking over moves what is there and neither allocates nor prepares a
//! key. Work: at most [`SecY::RECEIVE_SCS`] times four SAs, and for each of them one step for each 64 PNs of its window.

use crate::sa::ReceiveSa;
use crate::settings::Protection;
use crate::table::SecY;
use alloc::vec::Vec;
use core::mem;
use wire::{An, Pn, Sci};

/// Which SAs of the predecessor go on: those whose key, SCI, AN, suite and XPN binding are the same.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct CarryOver {
    /// The enabled transmit SA, and how it protects from here on. The successor has none of its own then.
    pub transmit: Option<(An, Protection)>,
    /// Receive SAs. The successor has them, unused, with the protection and the width of window that it wants.
    pub receive: Vec<(Sci, An)>,
    /// All SAs go on as they are, and the other fields are of no account: keys that are agreed on, which only the
    /// predecessor has. The successor has none of its own, but all the receive SCs that are to go on.
    pub all: bool,
}

impl SecY {
    /// Takes over from `predecessor`: the SAs that go on, with their PNs and replay windows, and the counters of the
    /// SecY and of each SC that both have. What was seen is never forgotten: no PN becomes fresh by it.
    ///
    /// Pieces of SDUs go on waiting if both reassemble; others are counted as retired.
    pub fn take_over(&mut self, predecessor: &mut Self, carry_over: &CarryOver) {
        self.counters.add(&mem::take(&mut predecessor.counters));
        if carry_over.all {
            mem::swap(&mut self.transmit, &mut predecessor.transmit);
            self.encoding_sa = predecessor.encoding_sa.take();
        } else if let Some((an, protection)) = carry_over.transmit {
            self.transmit[an.index()] = predecessor.transmit[an.index()].take();
            self.encoding_sa = predecessor.encoding_sa.filter(|&encoding| encoding == an);
            if let Some(sa) = &mut self.transmit[an.index()] {
                sa.key.protection = protection;
            }
        }
        self.transmit_retired.add(&mem::take(&mut predecessor.transmit_retired));
        for ended in predecessor.transmit.iter_mut().flatten() {
            self.transmit_retired.add(&mem::take(&mut ended.counters));
        }
        // Without replay protection PNs are delivered and not marked: none of them may pass for fresh afterwards.
        let marked = predecessor.settings.replay_protect || !self.settings.replay_protect;
        let reassemble = predecessor.settings.reassemble && self.settings.reassemble;
        for sc in &mut self.receive {
            let Some(old) = predecessor.receive.iter_mut().find(|old| old.sci() == sc.sci()) else {
                continue;
            };
            for an in An::ALL {
                let stays = carry_over.all || carry_over.receive.contains(&(sc.sci(), an));
                if !(stays && reassemble) {
                    old.retired.in_pieces_retired += old.reassembler.retire(an);
                }
                if carry_over.all {
                    sc.sas[an.index()] = old.sas[an.index()].take();
                    if let (false, Some(own)) = (marked, &mut sc.sas[an.index()]) {
                        own.window
                            .raise(Pn::new(own.window.highest().saturating_add(1)).unwrap_or(Pn::LAST_64));
                    }
                    continue;
                }
                let Some(before) = &mut old.sas[an.index()] else { continue };
                match (stays, &mut sc.sas[an.index()]) {
                    (true, Some(own)) => own.take_over(before, marked),
                    _ => old.retired.add(&mem::take(&mut before.counters)),
                }
            }
            if reassemble {
                mem::swap(&mut sc.reassembler, &mut old.reassembler);
            }
            sc.retired.add(&mem::take(&mut old.retired));
        }
    }
}

impl ReceiveSa {
    /// Goes on where `before` is, with a window as wide as it has itself.
    fn take_over(&mut self, before: &mut Self, marked: bool) {
        self.window.take_over(&before.window, marked);
        self.counters = mem::take(&mut before.counters);
    }
}
