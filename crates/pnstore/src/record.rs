//! The octets of the files `leases` and `floors`, all numbers big-endian.
//!
//! ```text
//! magic 8 | version 4 = 1 | number of records n 4 | machine 32 | [written 8]
//! n times, ascending by name:  name 32 | PN 8, never 0
//! SHA-256 of all of the above 32
//! ```
//!
//! | file | magic | written | PN |
//! |---|---|---|---|
//! | `leases` | `FWLEASE\0` | no | the highest that was ever reserved |
//! | `floors` | `FWFLOOR\0` | yes: the heartbeat, seconds since 1970 | the lowest that is accepted after a start; 1 from the first installation on |
//!
//! `machine` is the SHA-256 of the machine-id with a label, or zero if the machine has none. The checksum is
//! against a failing disk, not against an attacker, who could put an older file back.

use std::collections::BTreeMap;

use sha2::{Digest, Sha256};

/// The most records a file holds; a rewrite stays below 2.7 MB.
pub(super) const MAX_RECORDS: usize = 65_536;

const LEASES: &[u8; 8] = b"FWLEASE\0";
const FLOORS: &[u8; 8] = b"FWFLOOR\0";
const VERSION: u32 = 1;
const RECORD_OCTETS: usize = 40;

/// Fault of a file of leases or floors.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum RecordError {
    /// The length fits no number of records.
    #[error("wrong length")]
    Length,
    /// The checksum does not match.
    #[error("wrong checksum")]
    Checksum,
    /// It is another kind of file.
    #[error("not a file of packet numbers")]
    Magic,
    /// A later release wrote it.
    #[error("format version {0}, this release reads version {VERSION}")]
    Version(u32),
    /// Records out of order, twice, or with a PN of 0.
    #[error("records in disorder")]
    Disorder,
}

/// PNs by name.
pub(super) type Pns = BTreeMap<[u8; 32], u64>;

/// The content of the file `leases`.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub(super) struct Leases {
    /// The machine that wrote it.
    pub(super) machine: [u8; 32],
    /// The highest PN ever reserved, by lease name.
    pub(super) ends: Pns,
}

impl Leases {
    pub(super) fn encode(&self) -> Vec<u8> {
        encode(LEASES, &self.machine, &self.ends)
    }

    pub(super) fn parse(octets: &[u8]) -> Result<Self, RecordError> {
        let (&machine, ends) = parse(LEASES, octets)?;
        Ok(Self { machine, ends })
    }
}

/// The content of the file `floors`.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub(super) struct Floors {
    /// The machine that wrote it.
    pub(super) machine: [u8; 32],
    /// Seconds since 1970 at which it was written.
    pub(super) written: u64,
    /// The lowest PN that is accepted after a start, by name.
    pub(super) lowest: Pns,
}

impl Floors {
    pub(super) fn encode(&self) -> Vec<u8> {
        let header = [&self.machine[..], &self.written.to_be_bytes()].concat();
        encode(FLOORS, &header, &self.lowest)
    }

    pub(super) fn parse(octets: &[u8]) -> Result<Self, RecordError> {
        let (header, lowest) = parse::<40>(FLOORS, octets)?;
        let (machine, written) = header.split_first_chunk::<32>().ok_or(RecordError::Length)?;
        let written = u64::from_be_bytes(written.try_into().map_err(|_| RecordError::Length)?);
        Ok(Self { machine: *machine, written, lowest })
    }
}

fn encode(magic: &[u8; 8], header: &[u8], pns: &Pns) -> Vec<u8> {
    let number = u32::try_from(pns.len()).expect("invariant: at most MAX_RECORDS records");
    let mut octets = Vec::with_capacity(16 + header.len() + RECORD_OCTETS * pns.len() + 32);
    octets.extend_from_slice(magic);
    octets.extend_from_slice(&VERSION.to_be_bytes());
    octets.extend_from_slice(&number.to_be_bytes());
    octets.extend_from_slice(header);
    for (name, pn) in pns {
        octets.extend_from_slice(name);
        octets.extend_from_slice(&pn.to_be_bytes());
    }
    let checksum = Sha256::digest(&octets);
    octets.extend_from_slice(&checksum);
    octets
}

/// The header of `HEADER` octets behind the number of records, and the records.
fn parse<'o, const HEADER: usize>(
    expected: &[u8; 8],
    octets: &'o [u8],
) -> Result<(&'o [u8; HEADER], Pns), RecordError> {
    let (content, checksum) = octets.split_last_chunk::<32>().ok_or(RecordError::Length)?;
    let (magic, rest) = content.split_first_chunk::<8>().ok_or(RecordError::Length)?;
    if magic != expected {
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
    let (header, rest) = rest.split_first_chunk::<HEADER>().ok_or(RecordError::Length)?;
    let (records, trailing) = rest.as_chunks::<RECORD_OCTETS>();
    if !trailing.is_empty() || usize::try_from(u32::from_be_bytes(*number)) != Ok(records.len()) {
        return Err(RecordError::Length);
    }
    Ok((header, parse_records(records)?))
}

fn parse_records(records: &[[u8; RECORD_OCTETS]]) -> Result<Pns, RecordError> {
    let mut pns = BTreeMap::new();
    for record in records {
        let (name, pn) = record.split_first_chunk::<32>().ok_or(RecordError::Length)?;
        let pn = u64::from_be_bytes(pn.try_into().map_err(|_| RecordError::Length)?);
        let ascending = pns.last_key_value().is_none_or(|(previous, _)| previous < name);
        if !ascending || pn == 0 {
            return Err(RecordError::Disorder);
        }
        pns.insert(*name, pn);
    }
    Ok(pns)
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
        [&LEASES[..], &version.to_be_bytes(), &number.to_be_bytes(), &[7; 32]].concat()
    }

    #[test]
    fn what_is_no_file_of_leases_is_named() {
        let record = |name: u8, end: u64| [&[name; 32][..], &end.to_be_bytes()].concat();
        let two = |a: Vec<u8>, b: Vec<u8>| sealed([header(1, 2), a, b].concat());
        for (octets, error) in [
            (vec![], RecordError::Length),
            (sealed(vec![]), RecordError::Length),
            (sealed(LEASES.to_vec()), RecordError::Length),
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
            assert_eq!(Leases::parse(&octets), Err(error), "{octets:02x?}");
        }
    }

    #[test]
    fn leases_and_floors_are_never_taken_for_each_other() {
        let leases = Leases { machine: [1; 32], ends: BTreeMap::new() }.encode();
        let floors = Floors { machine: [1; 32], written: 5, lowest: BTreeMap::new() }.encode();
        assert_eq!(Floors::parse(&leases), Err(RecordError::Magic));
        assert_eq!(Leases::parse(&floors), Err(RecordError::Magic));
        let short = sealed([&FLOORS[..], &1_u32.to_be_bytes(), &0_u32.to_be_bytes(), &[0; 39]].concat());
        assert_eq!(Floors::parse(&short), Err(RecordError::Length));
    }

    proptest! {
        #[test]
        fn records_read_back_as_written(
            machine: [u8; 32],
            written: u64,
            pns in prop::collection::btree_map(any::<[u8; 32]>(), 1_u64.., 0..9),
        ) {
            let leases = Leases { machine, ends: pns.clone() };
            prop_assert_eq!(Leases::parse(&leases.encode()), Ok(leases));
            let floors = Floors { machine, written, lowest: pns };
            prop_assert_eq!(Floors::parse(&floors.encode()), Ok(floors));
        }

        #[test]
        fn a_flipped_bit_or_a_lost_tail_is_noticed(
            pns in prop::collection::btree_map(any::<[u8; 32]>(), 1_u64.., 0..4),
            at: prop::sample::Index,
            bit in 0..8_u32,
        ) {
            let leases = Leases { machine: [1; 32], ends: pns.clone() }.encode();
            let floors = Floors { machine: [1; 32], written: 1 << 40, lowest: pns }.encode();
            for octets in [leases, floors] {
                let is_refused = |octets: &[u8]| Leases::parse(octets).is_err() && Floors::parse(octets).is_err();
                let mut flipped = octets.clone();
                flipped[at.index(octets.len())] ^= 1_u8 << bit;
                prop_assert!(is_refused(&flipped));
                prop_assert!(is_refused(&octets[..at.index(octets.len())]));
            }
        }
    }
}
