//! PNs of an SA as they pass: range, gaps, duplicates, order; and what all frames come to.
//!
//! The newest [`WINDOW`] PNs are remembered. A frame with an older PN is out of order, and whether its PN was there before is not known. Memory is
//! bounded: SCs beyond [`SCS`] are summed up as others.

use std::collections::BTreeMap;

use secy::recover;
use serde::Serialize;

/// PNs that are remembered.
const WINDOW: u64 = 4096;
/// SCs that are told apart.
const SCS: usize = 1024;
/// SAKs that are told apart.
const SAKS: usize = 1024;
/// Names and EtherTypes that are counted apart.
const KINDS: usize = 256;

/// Frames of one AN.
#[derive(Clone, Debug, Serialize)]
pub struct Trail {
    /// Frames, duplicates included.
    pub frames: u64,
    /// The lowest PN.
    pub lowest_pn: u64,
    /// The highest PN.
    pub highest_pn: u64,
    /// PNs between them that were not seen.
    pub missing: u64,
    /// Frames with a PN that was seen before.
    pub duplicates: u64,
    /// Frames with a PN below the highest before them, duplicates left out.
    pub out_of_order: u64,
    #[serde(skip)]
    seen: Vec<u64>,
    #[serde(skip)]
    distinct: u64,
}

impl Trail {
    fn new(pn: u64) -> Self {
        let seen = vec![0; WINDOW as usize / 64];
        let mut trail = Self {
            frames: 1,
            lowest_pn: pn,
            highest_pn: pn,
            missing: 0,
            duplicates: 0,
            out_of_order: 0,
            seen,
            distinct: 1,
        };
        trail.mark(pn);
        trail
    }

    fn add(&mut self, pn: u64) {
        self.frames += 1;
        if pn > self.highest_pn {
            for entered in (self.highest_pn + 1..=pn).rev().take(WINDOW as usize) {
                self.seen[(entered % WINDOW / 64) as usize] &= !(1 << (entered % 64));
            }
            self.highest_pn = pn;
        } else if self.highest_pn - pn < WINDOW
            && self.seen[(pn % WINDOW / 64) as usize] & 1 << (pn % 64) != 0
        {
            self.duplicates += 1;
            return;
        } else {
            self.out_of_order += 1;
        }
        self.distinct += 1;
        self.lowest_pn = self.lowest_pn.min(pn);
        self.mark(pn);
        let span = u128::from(self.highest_pn - self.lowest_pn) + 1;
        self.missing = span.saturating_sub(self.distinct.into()) as u64;
    }

    fn mark(&mut self, pn: u64) {
        if self.highest_pn - pn < WINDOW {
            self.seen[(pn % WINDOW / 64) as usize] |= 1 << (pn % 64);
        }
    }
}

/// Frames of one SC on one interface.
#[derive(Clone, Debug, Default, Serialize)]
pub struct ScSummary {
    /// Frames.
    pub frames: u64,
    /// Of them those that are bad.
    pub bad: u64,
    /// Frames with MF: their last SDU goes on in the next one.
    pub more_fragments: u64,
    /// Frames with extension headers.
    pub extended: u64,
    /// The ANs.
    pub ans: BTreeMap<u8, Trail>,
    /// Changes of the AN: the frame's number and the new AN; the first few.
    pub an_changes: Vec<(u64, u8)>,
    #[serde(skip)]
    last_an: Option<u8>,
}

/// A protected frame, as far as it is counted here.
#[derive(Clone, Copy, Debug)]
pub struct Passing {
    /// Its number.
    pub number: u64,
    /// Its AN.
    pub an: u8,
    /// Its PN, if its high half is known; else the field of the SecTAG.
    pub pn: Result<u64, u32>,
    /// MF.
    pub more_fragments: bool,
    /// EXT.
    pub extended: bool,
    /// It is bad.
    pub bad: bool,
}

impl ScSummary {
    fn add(&mut self, passing: Passing) {
        let Passing { number, an, pn, more_fragments, extended, bad } = passing;
        self.frames += 1;
        self.more_fragments += u64::from(more_fragments);
        self.extended += u64::from(extended);
        // A forged frame's PN says nothing about the sender's.
        if bad {
            self.bad += 1;
            return;
        }
        if self.last_an.replace(an).is_some_and(|last| last != an) && self.an_changes.len() < 16 {
            self.an_changes.push((number, an));
        }
        match self.ans.get_mut(&an) {
            None => {
                let pn = pn.unwrap_or_else(u64::from);
                self.ans.insert(an, Trail::new(pn));
            }
            Some(trail) => {
                // Without a key the suite is not known: a PN that falls by half its range has wrapped.
                let pn = pn.unwrap_or_else(|low| recover(low, trail.highest_pn).map_or(0, wire::Pn::number));
                trail.add(pn);
            }
        }
    }
}

/// A SAK that was handed out.
#[derive(Clone, Debug, Serialize)]
pub struct SakSummary {
    /// Its KI.
    pub sak: String,
    /// The name of its CAK.
    pub ckn: String,
    /// Its AN.
    pub an: u8,
    /// Its suite.
    pub suite: &'static str,
    /// The frame that handed it out first.
    pub frame: u64,
    /// Frames that it verified.
    pub verified: u64,
}

/// Summary of a capture.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Summary {
    /// Frames of the capture.
    pub frames: u64,
    /// Protected frames that verified.
    pub verified: u64,
    /// MKPDUs that verified.
    pub mkpdus: u64,
    /// Bad frames.
    pub bad: u64,
    /// Frames that were captured twice.
    pub copies: u64,
    /// Frames that a snaplen cut.
    pub cut: u64,
    /// SDUs that were delivered.
    pub sdus: u64,
    /// Counters, and how often each moved.
    pub counters: BTreeMap<&'static str, u64>,
    /// Frames in clear, by EtherType.
    pub clear: BTreeMap<String, u64>,
    /// Octets of the file that were read.
    pub octets: u64,
    /// SCs, by interface and SCI.
    pub scs: BTreeMap<String, ScSummary>,
    /// Frames of SCs beyond those that are told apart.
    pub other_scs: u64,
    /// SAKs that were handed out, in their order.
    pub saks: Vec<SakSummary>,
    /// Why the file could not be read to its end.
    pub broken: Option<String>,
}

impl Summary {
    /// Counts a protected frame.
    pub fn pass(&mut self, sc: String, passing: Passing) {
        if self.scs.len() >= SCS && !self.scs.contains_key(&sc) {
            self.other_scs += 1;
            return;
        }
        self.scs.entry(sc).or_default().add(passing);
    }

    /// Notes a SAK that is handed out.
    pub fn hand_out(&mut self, sak: SakSummary) {
        if self.saks.len() < SAKS {
            self.saks.push(sak);
        }
    }

    /// Counts a frame that this SAK verified.
    pub fn verified_by(&mut self, sak: &str) {
        // The newest is the likeliest.
        if let Some(found) = self.saks.iter_mut().rev().find(|found| found.sak == sak) {
            found.verified += 1;
        }
    }

    /// Counts a frame in clear.
    pub fn clear(&mut self, ethertype: String) {
        let known = self.clear.len() < KINDS || self.clear.contains_key(&ethertype);
        *self.clear.entry(if known { ethertype } else { "other".into() }).or_default() += 1;
    }

    /// Counts what a counter moved.
    pub fn count(&mut self, counter: &'static str, by: u64) {
        *self.counters.entry(counter).or_default() += by;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    fn trail(pns: &[u64]) -> Trail {
        let mut trail = Trail::new(pns[0]);
        pns[1..].iter().for_each(|&pn| trail.add(pn));
        trail
    }

    #[test]
    fn gaps_duplicates_and_order() {
        let rows: [(&[u64], [u64; 5]); 6] = [
            // lowest, highest, missing, duplicates, out of order
            (&[7], [7, 7, 0, 0, 0]),
            (&[7, 8, 9], [7, 9, 0, 0, 0]),
            (&[7, 9, 12], [7, 12, 3, 0, 0]),
            (&[7, 9, 8, 8, 9], [7, 9, 0, 2, 1]),
            (&[9, 7], [7, 9, 1, 0, 1]),
            (&[1, 100_000, 2], [1, 100_000, 99_997, 0, 1]),
        ];
        for (pns, expected) in rows {
            let Trail { lowest_pn, highest_pn, missing, duplicates, out_of_order, .. } = trail(pns);
            assert_eq!([lowest_pn, highest_pn, missing, duplicates, out_of_order], expected, "{pns:?}");
        }
    }

    proptest! {
        #[test]
        fn within_the_window_nothing_is_missed(pns in proptest::collection::vec(10_000..10_000 + WINDOW, 1..500)) {
            let distinct: BTreeSet<_> = pns.iter().copied().collect();
            let trail = trail(&pns);
            let (low, high) = (*distinct.first().unwrap(), *distinct.last().unwrap());
            prop_assert_eq!((trail.lowest_pn, trail.highest_pn), (low, high));
            prop_assert_eq!(trail.missing, high - low + 1 - distinct.len() as u64);
            prop_assert_eq!(trail.duplicates, (pns.len() - distinct.len()) as u64);
        }
    }
}
