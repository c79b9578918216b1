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

use crate::receive_sc::ScHandover;
use crate::settings::Protection;
use crate::table::SecY;
use alloc::vec::Vec;
use core::mem;
use wire::{An, Sci};

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
        let how = ScHandover { all: carry_over.all, marked, reassemble };
        for sc in &mut self.receive {
            let sci = sc.sci();
            if let Some(old) = predecessor.receive.iter_mut().find(|old| old.sci() == sci) {
                sc.take_over(old, &how, |an| carry_over.receive.contains(&(sci, an)));
            }
        }
    }
}
