//! A file of leases is refused, or read and carried over whole when the next block is reserved.
//!
//! The parser is private to the store, so the octets go through a state directory. The first octet says whether
//! the others are the file, or its records alone, in a frame with the right magic, number, machine and checksum.

use std::fs;
use std::num::NonZeroU64;
use std::path::Path;

use engine::lease::{LeaseError, LeaseName, LeaseStore, Reservation};
use sha2::{Digest as _, Sha256};
use wire::{Pn, Sci};

use crate::scratch::Scratch;

/// Octets in front of the records: magic, version, number of records, machine.
const HEADER: usize = 48;
const RECORD: usize = 40;
const CHECKSUM: usize = 32;

thread_local! {
    /// The state directory, and the machine's own header.
    static STATE: (Scratch, Vec<u8>) = state();
}

/// Opens a state directory whose file of leases is made of `octets`.
///
/// # Panics
/// If what was read is not what stands in the file.
pub fn run(octets: &[u8]) {
    STATE.with(|(state, header)| open(state.path(), header, octets));
}

fn state() -> (Scratch, Vec<u8>) {
    let state = Scratch::new("lease");
    drop(LeaseStore::open(state.path()).expect("invariant: an empty state directory opens"));
    let file = fs::read(state.path().join("leases")).expect("invariant: opening writes the file");
    (state, file[..HEADER].to_vec())
}

fn open(path: &Path, header: &[u8], octets: &[u8]) {
    let file = match octets.split_first() {
        Some((mode, records)) if mode % 2 == 1 => framed(header, records),
        Some((_, file)) => file.to_vec(),
        None => Vec::new(),
    };
    fs::write(path.join("leases"), &file).expect("invariant: scratch files can be written");
    match LeaseStore::open(path) {
        Ok(mut store) => {
            let name = LeaseName::new(&[1; 16], Sci::from_octets([2; 8]));
            let mut reserve = || {
                let reserved = store.reserve(name, Pn::LAST_64, NonZeroU64::MIN);
                reserved.expect("invariant: scratch files can be written")
            };
            if let (Reservation::Block(first), Reservation::Block(second)) = (reserve(), reserve()) {
                assert!(first.first == first.last && first.last < second.first);
            }
            let next = fs::read(path.join("leases")).expect("invariant: the file is there");
            assert_carried_over(&file, &next);
        }
        Err(LeaseError::Damaged { .. } | LeaseError::OtherMachine { .. }) => {}
        Err(error) => panic!("{error}"),
    }
}

/// `records` with what makes them a file.
fn framed(header: &[u8], records: &[u8]) -> Vec<u8> {
    let number = (records.len() / RECORD) as u32;
    let content = [&header[..12], &number.to_be_bytes(), &header[16..HEADER], records].concat();
    let checksum = Sha256::digest(&content);
    [&content[..], &checksum[..]].concat()
}

/// Every name of `before` stands in `after`, none with a lower end, and but one record is new.
fn assert_carried_over(before: &[u8], after: &[u8]) {
    let records = |file: &[u8]| -> Vec<Vec<u8>> {
        file[HEADER..file.len() - CHECKSUM].chunks(RECORD).map(<[u8]>::to_vec).collect()
    };
    let (before, after) = (records(before), records(after));
    for record in &before {
        let same_name = after.iter().find(|other| other[..32] == record[..32]);
        assert!(same_name >= Some(record), "a name was lost, or its end fell");
    }
    let new = after.iter().filter(|record| !before.contains(record)).count();
    // None if a fuzzer finds the very name, with the last of all PNs.
    assert!(new <= 1 && after.len() <= before.len() + new, "one record is new");
    assert!(after.is_sorted_by(|a, b| a[..32] < b[..32]), "ascending by name");
}
