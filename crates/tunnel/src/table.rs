//! A hash table whose keys are random already: identifiers, and keyed hashes of addresses and flows.
//!
//! Open addressing, linear probing, at least twice as many places as entries; what is taken out is closed up by moving
//! back what comes behind it, so there are no tombstones, and no call but [`Table::reserve`] ever allocates or moves
//! everything. Nobody outside can make it slow: who chooses addresses does not know the key of their hash, and who
//! sees identifiers sees only those that are used up.

use alloc::vec;
use alloc::vec::Vec;

/// A place: key and value. A value of 0 means that it is empty.
type Entry = [u64; 2];

/// Numbers that nobody can choose, each with a value that is not 0.
#[derive(Debug)]
pub(crate) struct Table {
    /// Zeros are empty places, so that a large table costs no time at the start.
    slots: Vec<Entry>,
    entries: usize,
}

impl Table {
    /// Room for so many entries.
    pub(crate) fn new(entries: usize) -> Self {
        Self { slots: vec![[0; 2]; Self::slots_for(entries)], entries: 0 }
    }

    const fn slots_for(entries: usize) -> usize {
        2 * entries + 8
    }

    /// Makes room for so many entries in all. The only call that allocates; not for the frame path.
    pub(crate) fn reserve(&mut self, entries: usize) {
        if Self::slots_for(entries) <= self.slots.len() {
            return;
        }
        let old = core::mem::replace(&mut self.slots, vec![[0; 2]; Self::slots_for(entries)]);
        self.entries = 0;
        for [key, value] in old {
            if value != 0 {
                self.insert(key, value);
            }
        }
    }

    /// Entries that are there.
    #[cfg(test)]
    pub(crate) const fn len(&self) -> usize {
        self.entries
    }

    /// Where a key would like to stand: its low half scaled to the number of places. Identifiers have a bit in their
    /// high half that is always clear.
    const fn home(&self, key: u64) -> usize {
        (((key & 0xffff_ffff) * self.slots.len() as u64) >> 32) as usize
    }

    const fn next(&self, slot: usize) -> usize {
        if slot + 1 == self.slots.len() { 0 } else { slot + 1 }
    }

    /// The place that holds the key, or else the empty one where it would go.
    fn slot(&self, key: u64) -> usize {
        let mut slot = self.home(key);
        while self.slots[slot][1] != 0 && self.slots[slot][0] != key {
            slot = self.next(slot);
        }
        slot
    }

    /// The value of a key.
    pub(crate) fn find(&self, key: u64) -> Option<u64> {
        match self.slots[self.slot(key)][1] {
            0 => None,
            value => Some(value),
        }
    }

    /// The value of a key, to be changed to another one that is not 0.
    pub(crate) fn find_mut(&mut self, key: u64) -> Option<&mut u64> {
        let slot = self.slot(key);
        let value = &mut self.slots[slot][1];
        if *value == 0 { None } else { Some(value) }
    }

    /// Adds an entry; false if there is no room, or the key is there already.
    pub(crate) fn insert(&mut self, key: u64, value: u64) -> bool {
        debug_assert!(value != 0, "0 means empty");
        if 2 * (self.entries + 1) > self.slots.len() {
            return false;
        }
        let slot = self.slot(key);
        if self.slots[slot][1] != 0 {
            return false;
        }
        self.slots[slot] = [key, value];
        self.entries += 1;
        true
    }

    /// Takes an entry out.
    pub(crate) fn remove(&mut self, key: u64) -> Option<u64> {
        let mut hole = self.slot(key);
        let value = self.slots[hole][1];
        if value == 0 {
            return None;
        }
        self.entries -= 1;
        let mut slot = self.next(hole);
        while self.slots[slot][1] != 0 {
            // An entry may move back to the hole unless its home lies behind the hole.
            let home = self.home(self.slots[slot][0]);
            if self.distance(home, slot) >= self.distance(hole, slot) {
                self.slots[hole] = self.slots[slot];
                hole = slot;
            }
            slot = self.next(slot);
        }
        self.slots[hole] = [0; 2];
        Some(value)
    }

    /// Forgets all entries.
    pub(crate) fn clear(&mut self) {
        self.slots.fill([0; 2]);
        self.entries = 0;
    }

    /// Steps from one place forward to another.
    const fn distance(&self, from: usize, to: usize) -> usize {
        if to >= from { to - from } else { to + self.slots.len() - from }
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        /// Few keys of few homes, so that chains are long and wrap around.
        #[test]
        fn it_is_a_map(operations in vec((0..3_u8, 0..24_u64, 1..100_u64), 0..400)) {
            let mut table = Table::new(12);
            let mut model = BTreeMap::new();
            for (operation, number, value) in operations {
                let key = (number % 3) * 0x5555_5555 + (number << 32);
                match operation {
                    0 => {
                        let fits = model.len() < 16 && !model.contains_key(&key);
                        prop_assert_eq!(table.insert(key, value), fits);
                        if fits {
                            model.insert(key, value);
                        }
                    }
                    1 => prop_assert_eq!(table.remove(key), model.remove(&key)),
                    _ => {
                        if let Some(found) = table.find_mut(key) {
                            *found = value;
                            model.insert(key, value);
                        }
                    }
                }
                prop_assert_eq!(table.len(), model.len());
                for number in 0..24 {
                    let key = (number % 3) * 0x5555_5555 + (number << 32);
                    prop_assert_eq!(table.find(key), model.get(&key).copied());
                }
            }
            table.reserve(100);
            prop_assert!(model.iter().all(|(&key, &value)| table.find(key) == Some(value)));
            prop_assert_eq!(table.len(), model.len());
        }
    }
}
