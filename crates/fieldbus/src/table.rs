//! Look-up of a frame's relation by exactly (DA, SA, FrameID), in one cache line.
//!
//! All keys are known when the table is made, and never change. It tries hash functions until no bucket has
//! more than four keys. A look-up is a hash and four comparisons, whatever the frame.
//!
//! ```text
//!  bucket, 64 octets:  4 times  DA 6 | SA 6 | FrameID 2 | number of the relation 2
//! ```

use alloc::boxed::Box;
use alloc::vec;

use wire::MacAddr;
use wire::ethernet::ADDRESSES_OCTETS;
use wire::fieldbus::FrameId;

/// Bits of a relation's number.
const NUMBER_BITS: u32 = 16;
/// Hash functions that are tried before the table doubles.
const TRIES: u64 = 64;
/// Buckets of the largest table, many times what any set of keys needs.
const MOST_BUCKETS: usize = 1 << 20;

/// Key of a frame: eight octets of the addresses; the other four with the FrameID behind them, and room for a
/// number.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Debug)]
pub(crate) struct Address {
    high: u64,
    low: u64,
}

impl Address {
    pub(crate) fn new(destination: MacAddr, source: MacAddr, frame_id: FrameId) -> Self {
        let mut addresses = [0; ADDRESSES_OCTETS];
        addresses[..6].copy_from_slice(&destination.0);
        addresses[6..].copy_from_slice(&source.0);
        Self::of(&addresses, frame_id)
    }

    /// Key of a frame that begins with these octets.
    #[inline]
    pub(crate) fn of(addresses: &[u8; ADDRESSES_OCTETS], frame_id: FrameId) -> Self {
        let [a, b, c, d, e, f, g, h, i, j, k, l] = *addresses;
        let low = u64::from(u32::from_be_bytes([i, j, k, l])) << 32 | u64::from(frame_id.0) << NUMBER_BITS;
        Self { high: u64::from_be_bytes([a, b, c, d, e, f, g, h]), low }
    }

    const fn is_zero(self) -> bool {
        self.high == 0 && self.low == 0
    }
}

/// Empty entries are 0: no relation has both stations at address 0.
#[derive(Clone, Default)]
#[repr(align(64))]
struct Bucket([Address; 4]);

/// Relations by the keys of their frames.
pub(crate) struct Table {
    buckets: Box<[Bucket]>,
    seed: u64,
}

impl Table {
    /// A table that maps each address to its relation. The addresses differ, and are at most 2^16. `None`
    /// if there is no such table, which takes addresses chosen against it.
    pub(crate) fn new(addresses: impl Iterator<Item = (Address, usize)> + Clone) -> Option<Self> {
        let mut size = addresses.clone().count().next_power_of_two();
        while size <= MOST_BUCKETS {
            for seed in 0..TRIES {
                let seed = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(0x2545_f491_4f6c_dd1d);
                let mut table = Self { buckets: vec![Bucket::default(); size].into(), seed };
                if addresses.clone().all(|(address, number)| table.insert(address, number)) {
                    return Some(table);
                }
            }
            size *= 2;
        }
        None
    }

    /// Relation of this address. Reads one bucket.
    pub(crate) fn find(&self, address: Address) -> Option<usize> {
        // Compares all four without a branch: no CPU can predict which one matches, and a misprediction would
        // delay the following look-ups.
        let one_more = self.buckets[self.bucket(address)].0.iter().fold(0, |found, place| {
            // The matching entry leaves its number, others leave more.
            let differs = place.low ^ address.low;
            let is_it = (place.high ^ address.high) | (differs >> NUMBER_BITS) == 0;
            if is_it { differs + 1 } else { found }
        });
        if address.is_zero() { None } else { one_more.checked_sub(1).map(|number| number as usize) }
    }

    fn insert(&mut self, address: Address, number: usize) -> bool {
        let bucket = self.bucket(address);
        match self.buckets[bucket].0.iter_mut().find(|place| place.is_zero()) {
            Some(place) => {
                *place = Address { low: address.low | number as u64, ..address };
                true
            }
            None => false,
        }
    }

    fn bucket(&self, Address { high, low }: Address) -> usize {
        let product = u128::from(high ^ self.seed) * u128::from(low ^ self.seed.rotate_left(32));
        let hash = (product >> 64) as u64 ^ product as u64;
        hash as usize & (self.buckets.len() - 1)
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use proptest::prelude::*;
    use std::collections::{BTreeMap, BTreeSet};
    use std::vec::Vec;

    use super::*;

    fn address(destination: u64, source: u64, frame_id: u16) -> Address {
        let mac = |number: u64| MacAddr(*number.to_be_bytes().last_chunk().unwrap());
        Address::new(mac(destination), mac(source), FrameId(frame_id))
    }

    fn holds(addresses: &[Address]) {
        let table = Table::new(addresses.iter().copied().zip(0..)).unwrap();
        let known: BTreeMap<Address, usize> = addresses.iter().copied().zip(0..).collect();
        for (number, address) in addresses.iter().enumerate() {
            assert_eq!(table.find(*address), Some(number));
        }
        for address in addresses.iter().take(64) {
            for bit in NUMBER_BITS..128 {
                let other = if bit < 64 {
                    Address { low: address.low ^ 1 << bit, ..*address }
                } else {
                    Address { high: address.high ^ 1 << (bit - 64), ..*address }
                };
                assert_eq!(table.find(other), known.get(&other).copied());
            }
        }
        assert!(table.buckets.len() <= 4 * addresses.len().next_power_of_two(), "{}", table.buckets.len());
    }

    #[test]
    fn plants_with_many_stations_fit() {
        const PLC: u64 = 0x0200_0000_0001;
        for count in [1, 2, 57, 1024, 4096] {
            // One PLC and many devices; one device and many FrameIDs; addresses that differ in their highest octet.
            holds(&(0..count).map(|n| address(PLC, 0x0200_0000_1000 + n, 0x8000)).collect::<Vec<_>>());
            holds(&(0..count).map(|n| address(PLC, PLC + 1, n as u16)).collect::<Vec<_>>());
            holds(&(0..count.min(256)).map(|n| address(n << 40, PLC, 0x8000)).collect::<Vec<_>>());
        }
        assert_eq!(Table::new(core::iter::empty()).unwrap().find(address(0, 0, 0)), None);
    }

    proptest! {
        #[test]
        fn what_was_put_in_is_found_and_nothing_else(
            addresses: BTreeSet<(u64, u64, u16)>, others in prop::collection::vec(any::<(u64, u64, u16)>(), 0..50),
        ) {
            let of = |(destination, source, frame_id): (u64, u64, u16)| address(destination, source, frame_id);
            let mut all: Vec<Address> = addresses.into_iter().map(of).filter(|address| !address.is_zero()).collect();
            all.sort_unstable();
            all.dedup();
            holds(&all);
            let table = Table::new(all.iter().copied().zip(0..)).unwrap();
            for other in others.into_iter().map(of) {
                prop_assert_eq!(table.find(other), all.iter().position(|known| *known == other));
            }
        }
    }
}
