//! The memory of the bundle that a box used last, so that none counts twice.

use std::io;
use std::path::Path;

use ciborium_ll::Header as Head;
use pnstore::{Directory, Disk as _};
use sha2::{Digest as _, Sha256};
use suite::identity::PublicKey;

use crate::cbor::{Malformed, Reader, push, push_octets};

/// The bundle that a box used last.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Enrolled {
    /// The fleet.
    pub fleet: PublicKey,
    pub(super) number: u64,
    pub(super) digest: [u8; 32],
}

impl Enrolled {
    /// The file in the state directory that has it.
    pub const FILE: &str = "enrolled";

    /// The bundle that this box used last, if it has used one.
    ///
    /// # Errors
    /// The system's, or if the file is damaged: taken for empty it would let a bundle count twice.
    pub fn recall(state: &Path) -> io::Result<Option<Self>> {
        let kept = Directory::open(state)?.read(Self::FILE)?;
        let damaged = || io::Error::new(io::ErrorKind::InvalidData, "it is damaged");
        kept.map(|octets| Self::parse(&octets).ok_or_else(damaged)).transpose()
    }

    /// Has this box remember it. Durable at return.
    ///
    /// # Errors
    /// The system's.
    pub fn remember(&self, state: &Path) -> io::Result<()> {
        pnstore::replace(&mut Directory::open(state)?, Self::FILE, &self.encode())
    }

    /// As it is kept: array of 4: fleet, number, SHA-256 of the bundle, SHA-256 of these.
    pub fn encode(&self) -> Vec<u8> {
        let mut octets = Vec::new();
        push(&mut octets, Head::Array(Some(4)));
        push_octets(&mut octets, &self.fleet.0);
        push(&mut octets, Head::Positive(self.number));
        push_octets(&mut octets, &self.digest);
        push_octets(&mut octets, &self.check());
        octets
    }

    /// `None` if it is damaged.
    pub fn parse(octets: &[u8]) -> Option<Self> {
        Self::parse_whole(octets).ok()
    }

    fn parse_whole(octets: &[u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::new(octets);
        let items = reader.array()?;
        let (fleet, number) = (PublicKey(*reader.array_of()?), reader.number()?);
        let read = Self { fleet, number, digest: *reader.array_of()? };
        let check: &[u8; 32] = reader.array_of()?;
        reader.end()?;
        if items == 4 && *check == read.check() { Ok(read) } else { Err(Malformed) }
    }

    /// Tells damage, not malice.
    fn check(&self) -> [u8; 32] {
        let hash = Sha256::new().chain_update(self.fleet.0).chain_update(self.number.to_be_bytes());
        hash.chain_update(self.digest).finalize().into()
    }
}
