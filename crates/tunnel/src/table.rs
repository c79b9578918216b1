//! A hash table for keys that are random already: identifiers, and keyed hashes of addresses and flows.
//!
//! Open addressing, linear probing, at least twice as many slots as entries. Removal moves later entries
//! back, so there are no tombstones. Only [`Table::reserve`] allocates or moves everything. No outsider can
//! make it slow: an attacker who chooses addresses does not know the key of their hash, and an observer of
//! identifiers sees only used ones.

use alloc::vec;
use alloc::vec::Vec;

/// An entry: key and value. Value 0 marks an empty slot.
type Entry = [u64; 2];

/// Unpredictable numbers, each with a value other than 0.
#[derive(Debug)]
#[cfg_attr(test, derive(Clone))]
pub(crate) struct Table {
    /// Empty slots are zeros, so a large table costs no time at the start.
    slots: Vec<Entry>,
    entries: usize,
}

impl Table {
    /// Room for `entries` entries.
    pub(crate) fn new(entries: usize) -> Self {
        Self { slots: vec![[0; 2]; Self::slots_for(entries)], entries: 0 }
    }

    const fn slots_for(entries: usize) -> usize {
        2 * entries + 8
    }

    /// Makes room for `entries` entries in all. The only call that allocates; not for the frame path.
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

    /// Number of entries.
    #[cfg(test)]
    pub(crate) const fn len(&self) -> usize {
        self.entries
    }

    /// Home slot of a key: its low half scaled to the number of slots. Identifiers have a bit in their high
    /// half that is always clear.
    const fn home(&self, key: u64) -> usize {
        (((key & 0xffff_ffff) * self.slots.len() as u64) >> 32) as usize
    }

    const fn next(&self, slot: usize) -> usize {
        if slot + 1 == self.slots.len() { 0 } else { slot + 1 }
    }

    /// Slot of the key, or the empty slot for it.
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

    /// The value of a key, for a change to another value other than 0.
    pub(crate) fn find_mut(&mut self, key: u64) -> Option<&mut u64> {
        let slot = self.slot(key);
        let value = &mut self.slots[slot][1];
        if *value == 0 { None } else { Some(value) }
    }

    /// Adds an entry. False if there is no room, or the key exists.
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

    /// Removes an entry.
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

    /// Removes all entries.
    pub(crate) fn clear(&mut self) {
        self.slots.fill([0; 2]);
        self.entries = 0;
    }

    /// Steps from one slot forward to another.
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
