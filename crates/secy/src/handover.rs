//! Replacement of a SecY between two bursts: settings and keys change, and no frame is lost.
//!
//! ```text
//!  predecessor ─┬─ SAs that go on ──▶ with PNs, replay windows, counters, pieces ──▶ successor
//!               ├─ counters of SecY and SCs ─────────────────────────────────────▶
//!               └─ all else: stays, to be let go of where time does not matter
//! ```
//!
//! The successor is made before, with its keys. Taking over moves existing state; it neither allocates nor
//! prepares a key. Work: at most [`SecY::RECEIVE_SCS`] times four SAs, and for each one step per 64 PNs of
//! its window.

use crate::sa::ReceiveSa;
use crate::settings::Protection;
use crate::table::SecY;
use alloc::vec::Vec;
use core::mem;
use wire::{An, Pn, Sci};

/// SAs that move to the successor: those with the same key, SCI, AN, suite and XPN binding.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct CarryOver {
    /// The enabled transmit SA, with its protection from now on. The successor has no transmit SA of its own
    /// then.
    pub transmit: Option<(An, Protection)>,
    /// Receive SAs. The successor has them already, unused, with the wanted protection and window width.
    pub receive: Vec<(Sci, An)>,
    /// All SAs move unchanged, and the other fields are ignored. For keys from MKA, which only the
    /// predecessor has. The successor has no SA, but all receive SCs that continue.
    pub all: bool,
}

impl SecY {
    /// Takes over from `predecessor`: the moving SAs with their PNs and replay windows, and the counters of
    /// the SecY and of each common SC. Windows forget nothing: no PN becomes fresh by this.
    ///
    /// Waiting fragments of SDUs stay if both reassemble. Otherwise they count as retired.
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
        // Without replay protection, PNs are delivered unmarked: none of them may pass for fresh afterwards.
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
    /// Continues from `before`, with a window as wide as its own.
    fn take_over(&mut self, before: &mut Self, marked: bool) {
        self.window.take_over(&before.window, marked);
        self.counters = mem::take(&mut before.counters);
    }
}
