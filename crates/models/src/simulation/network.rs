//! The network between all: it loses, copies, delays and changes what it carries, until the last fault; and somebody records and replays.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::rc::Rc;

use testkit::Chance;

/// Moment of the last fault, in microseconds.
pub(super) const CALM: u64 = 20_000_000;
/// Delay of a fair network.
pub(super) const WAY: u64 = 100;
/// Frames that an attacker keeps.
const KEPT: usize = 4096;
/// Most frames of a replay.
const REPLAYED: u64 = 40;

/// A frame on its way. Their order is that of arrival.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Flight {
    pub(super) at: u64,
    order: u64,
    pub(super) to: usize,
    /// Sender; of a replayed frame, the original one.
    pub(super) from: usize,
    pub(super) octets: Rc<[u8]>,
    /// A bit was changed.
    pub(super) changed: bool,
}

pub(super) struct Network {
    /// In a thousand.
    loss: u64,
    copies: u64,
    flips: u64,
    /// Delay at the most, in microseconds.
    delay: u64,
    wire: BinaryHeap<Reverse<Flight>>,
    carried: u64,
    cuts: Vec<(usize, usize, u64)>,
    kept: Vec<(usize, Rc<[u8]>)>,
    print: DefaultHasher,
}

impl Network {
    pub(super) fn new(chance: &mut Chance) -> Self {
        Self {
            loss: chance.pick(&[0, 5, 50, 200]),
            copies: chance.pick(&[0, 20, 100]),
            flips: chance.pick(&[0, 10, 50]),
            delay: chance.pick(&[WAY, 2_000, 80_000, 600_000]),
            wire: BinaryHeap::new(),
            carried: 0,
            cuts: vec![],
            kept: vec![],
            print: DefaultHasher::new(),
        }
    }

    /// Puts a frame on the network, towards all of these.
    pub(super) fn send(
        &mut self,
        chance: &mut Chance,
        now: u64,
        from: usize,
        towards: impl Iterator<Item = usize>,
        octets: &[u8],
    ) {
        (now, from, octets).hash(&mut self.print);
        let octets: Rc<[u8]> = octets.into();
        if self.kept.len() < KEPT {
            self.kept.push((from, Rc::clone(&octets)));
        } else {
            let at = chance.below(KEPT as u64) as usize;
            self.kept[at] = (from, Rc::clone(&octets));
        }
        for to in towards {
            self.carry(chance, now, (from, to), &octets);
        }
    }

    fn carry(&mut self, chance: &mut Chance, now: u64, (from, to): (usize, usize), octets: &Rc<[u8]>) {
        let is_calm = now >= CALM;
        if self.is_cut(now, from, to) || (!is_calm && chance.happens(self.loss)) {
            return;
        }
        let copies = 1 + usize::from(!is_calm && chance.happens(self.copies));
        for _ in 0..copies {
            let mut octets = Rc::clone(octets);
            let changed = !is_calm && chance.happens(self.flips);
            if changed {
                let bit = chance.below(octets.len() as u64 * 8) as usize;
                Rc::make_mut(&mut octets)[bit / 8] ^= 1 << (bit % 8);
            }
            let delay = if is_calm { WAY } else { WAY + chance.below(self.delay) };
            self.push(now + delay, (from, to), octets, changed);
        }
    }

    fn push(&mut self, at: u64, (from, to): (usize, usize), octets: Rc<[u8]>, changed: bool) {
        self.carried += 1;
        self.wire.push(Reverse(Flight { at, order: self.carried, to, from, octets, changed }));
    }

    /// Nothing passes from one to the other until then.
    pub(super) fn cut(&mut self, from: usize, to: usize, until: u64) {
        self.cuts.push((from, to, until));
    }

    /// The same in both directions.
    pub(super) fn cut_both_ways(&mut self, from: usize, to: usize, until: u64) {
        self.cut(from, to, until);
        self.cut(to, from, until);
    }

    pub(super) fn is_cut(&self, now: u64, from: usize, to: usize) -> bool {
        self.cuts.iter().any(|(a, b, until)| (*a, *b) == (from, to) && now < *until)
    }

    /// Old frames come again, to anybody among so many.
    pub(super) fn replay(&mut self, chance: &mut Chance, now: u64, receivers: usize) {
        for _ in 0..chance.below(REPLAYED).min(self.kept.len() as u64) {
            let kept = chance.below(self.kept.len() as u64) as usize;
            let (from, octets) = self.kept[kept].clone();
            let to = chance.below(receivers as u64) as usize;
            self.push(now + WAY, (from, to), octets, false);
        }
    }

    /// Returns the time at which the next frame arrives.
    pub(super) fn next(&self) -> Option<u64> {
        self.wire.peek().map(|Reverse(flight)| flight.at)
    }

    /// A frame that arrives now.
    pub(super) fn take(&mut self, now: u64) -> Option<Flight> {
        if self.next()? > now {
            return None;
        }
        self.wire.pop().map(|Reverse(flight)| flight)
    }

    /// A frame whose receiver sleeps until then.
    pub(super) fn put_off(&mut self, flight: Flight, until: u64) {
        self.wire.push(Reverse(Flight { at: until, ..flight }));
    }

    /// Digest of all that was sent.
    pub(super) fn print(&self) -> u64 {
        self.print.finish()
    }
}
