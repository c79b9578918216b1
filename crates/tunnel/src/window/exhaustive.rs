//! Every order of packets, positions and fillings of a small window, through its own code.
//!
//! W is 4, and seqs end at [`LAST`], which is three windows: the ring of 2W has wrapped, and each distance between newest, high, gap and
//! anchors below, at and beyond W/2, W and 2W has occurred. Wider windows differ in these distances alone: the code compares seqs with
//! newest, W/2 and W, and takes them modulo 2W.

extern crate std;
use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use suite::tunnel::{EpochSecret, IdentifierBlock};

use super::*;

const W: u64 = 4;
const HALF: u64 = W / 2;
/// Last seq that arrives.
const LAST: u64 = 3 * W;
/// Most packets that are accepted in one order; four with `FRAMEWARD_MODELS=deep`.
const PACKETS: usize = 2;

/// Marks that tell two states apart: the window, which seqs are in the table, which were accepted.
type Print = (u64, u64, [u64; 2], u64, Vec<u64>, BTreeSet<u64>);

#[derive(Clone)]
struct One {
    table: Table,
    window: Window,
    used: BTreeSet<u64>,
}

struct Search {
    blocks: Vec<IdentifierBlock>,
    met: BTreeSet<Print>,
    packets: usize,
    accepted: usize,
}

impl One {
    fn new(key: LaneKey, keeps_used: bool) -> Self {
        let mut window = Window::new(LaneNumber(3), W);
        window.open(key, keeps_used);
        Self { table: Table::new(Window::capacity(W)), window, used: BTreeSet::new() }
    }

    fn holds(&self, blocks: &[IdentifierBlock], seq: u64) -> bool {
        self.table.find(blocks[seq as usize].rid.number()).is_some_and(|value| !is_used(value))
    }

    /// True if a packet with this seq is known as a copy.
    fn knows_copy(&self, blocks: &[IdentifierBlock], seq: u64) -> bool {
        self.table.find(blocks[seq as usize].rid.number()).is_some_and(is_used)
    }

    /// True if nothing is missing that the search looks at. Anchors beyond it are all alike.
    fn is_full(&self) -> bool {
        let Self { window, .. } = self;
        let is_dense = window.high > window.newest + W && window.gap.end <= window.gap_start();
        is_dense && window.anchors_high * HALF > LAST
    }
}

impl Search {
    fn print(&self, one: &One) -> Print {
        let Window { newest, high, gap, anchors_high, .. } = &one.window;
        let held = (0..=LAST).filter(|seq| one.holds(&self.blocks, *seq)).collect();
        (*newest, *high, [gap.start, gap.end], (*anchors_high).min(LAST), held, one.used.clone())
    }

    fn check(&self, one: &One) {
        let newest = one.window.newest;
        let again = one.used.iter().find(|seq| one.holds(&self.blocks, **seq));
        assert_eq!(again, None, "NOT SO: no seq is accepted twice: {:?}", self.print(one));
        assert!(one.table.len() <= Window::capacity(W));
        if one.window.keeps_used {
            let young = one.used.iter().filter(|seq| **seq + W > newest);
            let unknown = young.clone().find(|seq| !one.knows_copy(&self.blocks, **seq));
            assert_eq!(unknown, None, "NOT SO: a copy is known as one: {:?}", self.print(one));
        }
        // The identifiers ahead of the newest are filled first. Then whatever comes next is accepted.
        let mut filled = one.clone();
        filled.window.fill(&mut filled.table, 4 * W as usize);
        let missing = (newest + 1..=(newest + W).min(LAST))
            .find(|seq| !one.used.contains(seq) && !filled.holds(&self.blocks, *seq));
        assert_eq!(missing, None, "NOT SO: what comes next is accepted: {:?}", self.print(one));
    }

    fn visit(&mut self, one: &One) {
        if !self.met.insert(self.print(one)) {
            return;
        }
        self.check(one);
        if !one.is_full() {
            let mut next = one.clone();
            next.window.fill(&mut next.table, 1);
            self.visit(&next);
        }
        for anchor in (HALF..=LAST).step_by(HALF as usize) {
            let mut next = one.clone();
            if next.window.advance(anchor) {
                self.visit(&next);
            }
        }
        let last = if one.used.len() < self.packets { LAST } else { 0 };
        for seq in 1..=last {
            let (mut next, block) = (one.clone(), self.blocks[seq as usize]);
            if !one.holds(&self.blocks, seq) {
                continue;
            }
            let taken = next.window.take(&mut next.table, block.rid.number(), seq);
            assert_eq!(
                taken.is_err(),
                seq + HALF < one.window.newest,
                "NOT SO: what is older than W/2 is late: {seq}"
            );
            assert!(next.window.newest >= one.window.newest, "NOT SO: the window never goes back: {seq}");
            if taken.is_ok() {
                assert!(next.used.insert(seq), "NOT SO: no seq is accepted twice: {seq}");
                self.accepted += 1;
            }
            self.visit(&next);
        }
    }
}

#[test]
fn in_no_order_of_packets_is_a_seq_accepted_twice_or_the_next_one_lost() {
    let key = EpochSecret::new(&[1; 32]).lane_key(0);
    let blocks = (0..=LAST).map(|seq| key.block(seq)).collect();
    let is_deep = std::env::var("FRAMEWARD_MODELS").is_ok_and(|depth| depth == "deep");
    let packets = if is_deep { 4 } else { PACKETS };
    let mut search = Search { blocks, met: BTreeSet::new(), packets, accepted: 0 };
    for keeps_used in [false, true] {
        (search.met, search.accepted) = (BTreeSet::new(), 0);
        search.visit(&One::new(key.clone(), keeps_used));
        std::println!("{} states, {} packets accepted", search.met.len(), search.accepted);
        assert!(search.met.len() > 1_000, "the search has ended early");
    }
}
