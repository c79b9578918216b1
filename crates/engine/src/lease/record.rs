//! The octets of the file `leases`, all numbers big-endian.
//!
//! ```text
//! magic "FWLEASE\0" 8 | version 4 = 1 | number of records n 4 | machine 32
//! n times, ascending by name:  name 32 | highest PN ever reserved 8, never 0
//! SHA-256 of all of the above 32
//! ```
//!
//! `machine` is the SHA-256 of the machine-id with a label, or zero if the machine has none. The checksum is
//! against a failing disk, not against an attacker, who could put an older file back.

use std::collections::BTreeMap;

use sha2::{Digest, Sha256};

/// The most records a file holds; a rewrite stays below 2.7 MB.
pub(super) const MAX_RECORDS: usize = 65_536;

const MAGIC: &[u8; 8] = b"FWLEASE\0";
const VERSION: u32 = 1;
const RECORD_OCTETS: usize = 40;

/// What is wrong with a file of leases.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum RecordError {
    /// The length fits no number of records.
    #[error("wrong length")]
    Length,
    /// The checksum does not match.
    #[error("wrong checksum")]
    Checksum,
    /// It is no file of leases.
    #[error("not a file of packet-number leases")]
    Magic,
    /// A later release wrote it.
    #[error("format version {0}, this release reads version {VERSION}")]
    Version(u32),
    /// Records out of order, twice, or with an end of 0.
    #[error("records in disorder")]
    Disorder,
}

/// The content of the file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Records {
    /// The machine that wrote it.
    pub(super) machine: [u8; 32],
    /// The highest PN ever reserved, by lease name.
    pub(super) ends: BTreeMap<[u8; 32], u64>,
}

impl Records {
    pub(super) fn encode(&self) -> Vec<u8> {
        let number = u32::try_from(self.ends.len()).expect("invariant: at most MAX_RECORDS records");
        let mut octets = Vec::with_capacity(48 + RECORD_OCTETS * self.ends.len() + 32);
        octets.extend_from_slice(MAGIC);
        octets.extend_from_slice(&VERSION.to_be_bytes());
        octets.extend_from_slice(&number.to_be_bytes());
        octets.extend_from_slice(&self.machine);
        for (name, end) in &self.ends {
            octets.extend_from_slice(name);
            octets.extend_from_slice(&end.to_be_bytes());
        }
        let checksum = Sha256::digest(&octets);
        octets.extend_from_slice(&checksum);
        octets
    }

    pub(super) fn parse(octets: &[u8]) -> Result<Self, RecordError> {
        let (content, checksum) = octets.split_last_chunk::<32>().ok_or(RecordError::Length)?;
        let (magic, rest) = content.split_first_chunk::<8>().ok_or(RecordError::Length)?;
        if magic != MAGIC {
            return Err(RecordError::Magic);
        }
        if Sha256::digest(content)[..] != checksum[..] {
            return Err(RecordError::Checksum);
        }
        let (version, rest) = rest.split_first_chunk::<4>().ok_or(RecordError::Length)?;
        if u32::from_be_bytes(*version) != VERSION {
            return Err(RecordError::Version(u32::from_be_bytes(*version)));
        }
        let (number, rest) = rest.split_first_chunk::<4>().ok_or(RecordError::Length)?;
        let (machine, rest) = rest.split_first_chunk::<32>().ok_or(RecordError::Length)?;
        let (records, trailing) = rest.as_chunks::<RECORD_OCTETS>();
        if !trailing.is_empty() || usize::try_from(u32::from_be_bytes(*number)) != Ok(records.len()) {
            return Err(RecordError::Length);
        }
        Ok(Self { machine: *machine, ends: parse_records(records)? })
    }
}

fn parse_records(records: &[[u8; RECORD_OCTETS]]) -> Result<BTreeMap<[u8; 32], u64>, RecordError> {
    let mut ends = BTreeMap::new();
    for record in records {
        let (name, end) = record.split_first_chunk::<32>().ok_or(RecordError::Length)?;
        let end = u64::from_be_bytes(end.try_into().map_err(|_| RecordError::Length)?);
        let ascending = ends.last_key_value().is_none_or(|(previous, _)| previous < name);
        if !ascending || end == 0 {
            return Err(RecordError::Disorder);
        }
        ends.insert(*name, end);
    }
    Ok(ends)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn sealed(mut content: Vec<u8>) -> Vec<u8> {
        let checksum = Sha256::digest(&content);
        content.extend_from_slice(&checksum);
        content
    }

    fn header(version: u32, number: u32) -> Vec<u8> {
        [&MAGIC[..], &version.to_be_bytes(), &number.to_be_bytes(), &[7; 32]].concat()
    }

    #[test]
    fn what_is_no_file_of_leases_is_named() {
        let record = |name: u8, end: u64| [&[name; 32][..], &end.to_be_bytes()].concat();
        let two = |a: Vec<u8>, b: Vec<u8>| sealed([header(1, 2), a, b].concat());
        for (octets, error) in [
            (vec![], RecordError::Length),
            (sealed(vec![]), RecordError::Length),
            (sealed(MAGIC.to_vec()), RecordError::Length),
            (sealed(b"FWLEASE1".to_vec()), RecordError::Magic),
            ([header(1, 0), vec![0; 32]].concat(), RecordError::Checksum),
            (sealed(header(2, 0)), RecordError::Version(2)),
            (sealed(header(1, 1)), RecordError::Length),
            (sealed([header(1, 0), record(1, 1)].concat()), RecordError::Length),
            (sealed([header(1, 0), vec![0]].concat()), RecordError::Length),
            (two(record(2, 1), record(1, 1)), RecordError::Disorder),
            (two(record(1, 1), record(1, 1)), RecordError::Disorder),
            (two(record(1, 0), record(2, 1)), RecordError::Disorder),
        ] {
            assert_eq!(Records::parse(&octets), Err(error), "{octets:02x?}");
        }
    }

    proptest! {
        #[test]
        fn records_read_back_as_written(
            machine: [u8; 32],
            ends in prop::collection::btree_map(any::<[u8; 32]>(), 1_u64.., 0..9),
        ) {
            let records = Records { machine, ends };
            prop_assert_eq!(Records::parse(&records.encode()), Ok(records));
        }

        #[test]
        fn a_flipped_bit_or_a_lost_tail_is_noticed(
            ends in prop::collection::btree_map(any::<[u8; 32]>(), 1_u64.., 0..4),
            at: prop::sample::Index,
            bit in 0..8_u32,
        ) {
            let octets = Records { machine: [1; 32], ends }.encode();
            let mut flipped = octets.clone();
            flipped[at.index(octets.len())] ^= 1_u8 << bit;
            prop_assert!(Records::parse(&flipped).is_err());
            prop_assert!(Records::parse(&octets[..at.index(octets.len())]).is_err());
        }
    }
}
