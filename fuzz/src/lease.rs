//! A file of leases or floors is refused, or read and carried over whole when it is next written.
//!
//! The parser is private to the store, so the octets go through a state directory. The first octet says which file
//! it is, and whether the others are the file, or its records alone, in a frame with the right magic, number, machine
//! and checksum.

use std::fs;
use std::num::NonZeroU64;
use std::path::Path;

use pnstore::{LeaseError, LeaseName, LeaseStore, Reservation};
use sha2::{Digest as _, Sha256};
use wire::{Pn, Sci};

use crate::scratch::Scratch;

/// The files, and the octets of each in front of its records.
const FILES: [(&str, usize); 2] = [("leases", 48), ("floors", 56)];
const RECORD: usize = 40;
const CHECKSUM: usize = 32;

thread_local! {
    /// The state directory, and both files as they are without records.
    static STATE: (Scratch, [Vec<u8>; 2]) = state();
}

/// Opens a state directory one of whose files is made of `octets`.
///
/// # Panics
/// If what was read is not what stands in the file.
pub fn run(octets: &[u8]) {
    STATE.with(|(state, empty)| open(state.path(), empty, octets));
}

fn state() -> (Scratch, [Vec<u8>; 2]) {
    let state = Scratch::new("lease");
    drop(LeaseStore::open(state.path(), None).expect("invariant: an empty state directory opens"));
    let empty = FILES
        .map(|(file, _)| fs::read(state.path().join(file)).expect("invariant: opening writes both files"));
    (state, empty)
}

fn open(path: &Path, empty: &[Vec<u8>; 2], octets: &[u8]) {
    let (mode, rest) = octets.split_first().map_or((0, octets), |(mode, rest)| (*mode, rest));
    let chosen = usize::from(mode >> 1 & 1);
    let (name, header) = FILES[chosen];
    let file = if mode % 2 == 1 { framed(&empty[chosen][..header], rest) } else { rest.to_vec() };
    for ((name, _), content) in FILES.iter().zip(empty) {
        fs::write(path.join(name), content).expect("invariant: scratch files can be written");
    }
    fs::write(path.join(name), &file).expect("invariant: scratch files can be written");
    match LeaseStore::open(path, None) {
        Ok(mut store) => {
            let [sent, received] =
                [[1; 16], [3; 16]].map(|key| LeaseName::new(&key, Sci::from_octets([2; 8])));
            let mut reserve = || match store.reserve(sent, Pn::LAST_64, NonZeroU64::MIN) {
                Ok(Reservation::Block(block)) => Some(block),
                Ok(Reservation::Exhausted) => None,
                // A fuzzer finds the very name among the floors.
                Err(LeaseError::Received { .. }) if chosen == 1 => None,
                Err(error) => panic!("{error}"),
            };
            if let (Some(first), Some(second)) = (reserve(), reserve()) {
                assert!(first.first == first.last && first.last < second.first);
            }
            let floor = store.floor(received);
            store.keep_floors(&[(received, Pn::LAST_32)]).expect("invariant: scratch files can be written");
            assert!(store.floor(received) == floor.max(Pn::LAST_32));
            let next = fs::read(path.join(name)).expect("invariant: the file is there");
            assert_carried_over(&file, &next, header);
        }
        Err(LeaseError::Damaged { .. } | LeaseError::OtherMachine { .. }) => {}
        Err(error) => panic!("{error}"),
    }
}

/// `records` with what makes them a file.
fn framed(header: &[u8], records: &[u8]) -> Vec<u8> {
    let number = (records.len() / RECORD) as u32;
    let content = [&header[..12], &number.to_be_bytes(), &header[16..], records].concat();
    let checksum = Sha256::digest(&content);
    [&content[..], &checksum[..]].concat()
}

/// Every name of `before` stands in `after`, none with a lower PN, and but one record is new.
fn assert_carried_over(before: &[u8], after: &[u8], header: usize) {
    let records = |file: &[u8]| -> Vec<Vec<u8>> {
        file[header..file.len() - CHECKSUM].chunks(RECORD).map(<[u8]>::to_vec).collect()
    };
    let (before, after) = (records(before), records(after));
    for record in &before {
        let same_name = after.iter().find(|other| other[..32] == record[..32]);
        assert!(same_name >= Some(record), "a name was lost, or its PN fell");
    }
    let new = after.iter().filter(|record| !before.contains(record)).count();
    // None if a fuzzer finds the very name, with the last of all PNs.
    assert!(new <= 1 && after.len() <= before.len() + new, "one record is new");
    assert!(after.is_sorted_by(|a, b| a[..32] < b[..32]), "ascending by name");
}
