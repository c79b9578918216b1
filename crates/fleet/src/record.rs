//! A record: what an operator publishes for one gateway. Signed in clear, with the secret part sealed inside.
//!
//! ```text
//!  record:  array of 2:  body (octets), signature of the body (64 octets)
//!  body:    map of 10:   0 format, 1    1 fleet: the operator's public key     2 gateway: its name    3 kind
//!                        4 version      5 valid from, 6 valid until: seconds since 1970
//!                        7 member: the gateway's public key                    8 tag              9 sealed
//!  head:    map of 9:    the body without 9; the associated data of 9
//! ```
//!
//! CBOR (RFC 8949), deterministic (4.2.1): a record has one encoding, and nothing else is read. The tag tells the operator, and
//! nobody else, whether the files are still those: an HMAC of them under a key that is derived from the signing key.

use ciborium_ll::Header as Head;
use suite::identity::{PublicKey, SIGNATURE_OCTETS};
use suite::sealing::SEALING_OVERHEAD;

use crate::cbor::{Malformed, Reader, push, push_octets, push_text};
use crate::files::{FILES_OCTETS, MOST_FILES};
use crate::name::GatewayName;

/// Format of these records.
const FORMAT: u64 = 1;
/// What the operator's signature is about.
pub(crate) const SIGNED: &[u8] = b"frameward fleet record 1\0";
/// What the files are sealed for (`info` of HPKE).
pub(crate) const SEALED: &[u8] = b"frameward fleet files 1";
/// Octets of a tag.
pub(crate) const TAG_OCTETS: usize = 32;
/// The longest record: all files with their names and heads, what sealing adds, and the head.
pub const RECORD_OCTETS: usize = FILES_OCTETS + MOST_FILES * 128 + SEALING_OVERHEAD + 512;

/// What a record is about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// A gateway's configuration and key files: 1. They are on trial first, where somebody judges that.
    Configuration,
    /// Nothing: nobody speaks with the gateway any more: 2.
    Revocation,
    /// A gateway's configuration and key files, without a trial: 3. Whoever makes links fall has nothing of it.
    ConfigurationToKeep,
}

/// Time in which a record may be accepted, in seconds since 1970: from `from` on, before `until`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Validity {
    /// The first second.
    pub from: u64,
    /// The first second that it is too late.
    pub until: u64,
}

/// What a record says in clear.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Header {
    /// The fleet: its operator's public key.
    pub fleet: PublicKey,
    /// The gateway that it is for.
    pub gateway: GatewayName,
    /// What it is about.
    pub kind: Kind,
    /// 1 at first, then ever more.
    pub version: u64,
    /// When it may be accepted.
    pub validity: Validity,
    /// The key of the gateway that it is for.
    pub member: PublicKey,
    pub(crate) tag: [u8; TAG_OCTETS],
}

/// A record as it was read. Nothing of it is verified.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Record<'a> {
    header: Header,
    body: &'a [u8],
    sealed: &'a [u8],
    signature: &'a [u8; SIGNATURE_OCTETS],
}

/// Error of octets that are no record.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum MalformedRecord {
    /// More than [`RECORD_OCTETS`].
    #[error("is longer than a record can be")]
    TooLong,
    /// A format or kind of another release.
    #[error("has a format or kind that this release does not know; it may be of a newer one")]
    Unknown,
    /// Anything else.
    #[error("is no record of a fleet, or damaged")]
    Malformed,
}

impl Kind {
    const fn number(self) -> u64 {
        match self {
            Self::Configuration => 1,
            Self::Revocation => 2,
            Self::ConfigurationToKeep => 3,
        }
    }

    const fn of(number: u64) -> Option<Self> {
        match number {
            1 => Some(Self::Configuration),
            2 => Some(Self::Revocation),
            3 => Some(Self::ConfigurationToKeep),
            _ => None,
        }
    }
}

impl Validity {
    /// True at this second.
    pub const fn contains(&self, now: u64) -> bool {
        self.from <= now && now < self.until
    }
}

impl Header {
    /// Associated data of what is sealed.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut octets = Vec::with_capacity(256);
        push(&mut octets, Head::Map(Some(9)));
        self.push_pairs(&mut octets);
        octets
    }

    fn push_pairs(&self, octets: &mut Vec<u8>) {
        let key = |octets: &mut Vec<u8>, key: u64| push(octets, Head::Positive(key));
        let numbers =
            [(3, self.kind.number()), (4, self.version), (5, self.validity.from), (6, self.validity.until)];
        push(octets, Head::Positive(0));
        push(octets, Head::Positive(FORMAT));
        key(octets, 1);
        push_octets(octets, &self.fleet.0);
        key(octets, 2);
        push_text(octets, self.gateway.as_str());
        for (at, number) in numbers {
            key(octets, at);
            push(octets, Head::Positive(number));
        }
        key(octets, 7);
        push_octets(octets, &self.member.0);
        key(octets, 8);
        push_octets(octets, &self.tag);
    }

    fn parse(reader: &mut Reader<'_>) -> Result<Self, MalformedRecord> {
        if reader.key(0)?.number()? != FORMAT {
            return Err(MalformedRecord::Unknown);
        }
        let fleet = PublicKey(*reader.key(1)?.array_of()?);
        let gateway = GatewayName::new(reader.key(2)?.text()?).ok_or(Malformed)?;
        let kind = Kind::of(reader.key(3)?.number()?).ok_or(MalformedRecord::Unknown)?;
        let version = reader.key(4)?.number()?;
        let validity = Validity { from: reader.key(5)?.number()?, until: reader.key(6)?.number()? };
        let member = PublicKey(*reader.key(7)?.array_of()?);
        let tag = *reader.key(8)?.array_of()?;
        if version == 0 {
            return Err(MalformedRecord::Malformed);
        }
        Ok(Self { fleet, gateway, kind, version, validity, member, tag })
    }
}

impl From<Malformed> for MalformedRecord {
    fn from(Malformed: Malformed) -> Self {
        Self::Malformed
    }
}

impl<'a> Record<'a> {
    /// Parses a record.
    ///
    /// # Errors
    /// [`MalformedRecord`].
    pub fn parse(octets: &'a [u8]) -> Result<Self, MalformedRecord> {
        if octets.len() > RECORD_OCTETS {
            return Err(MalformedRecord::TooLong);
        }
        let mut outer = Reader::new(octets);
        if outer.array()? != 2 {
            return Err(MalformedRecord::Malformed);
        }
        let (body, signature) = (outer.octets()?, outer.array_of()?);
        outer.end()?;
        let mut inner = Reader::new(body);
        inner.map(10)?;
        let header = Header::parse(&mut inner)?;
        let sealed = inner.key(9)?.octets()?;
        inner.end()?;
        Ok(Self { header, body, sealed, signature })
    }

    /// What it says in clear. True only if [`Record::is_signed_by`] its fleet.
    pub const fn header(&self) -> &Header {
        &self.header
    }

    /// True if the owner of this key signed it.
    pub fn is_signed_by(&self, key: PublicKey) -> bool {
        key.verifies(SIGNED, self.body, self.signature)
    }

    /// The octets that it was parsed from: a record has one encoding.
    pub fn encode(&self) -> Vec<u8> {
        signed(&body(&self.header, self.sealed), self.signature)
    }

    pub(crate) const fn sealed(&self) -> &'a [u8] {
        self.sealed
    }
}

/// Octets that are signed.
pub(crate) fn body(header: &Header, sealed: &[u8]) -> Vec<u8> {
    let mut body = Vec::with_capacity(sealed.len() + 256);
    push(&mut body, Head::Map(Some(10)));
    header.push_pairs(&mut body);
    push(&mut body, Head::Positive(9));
    push_octets(&mut body, sealed);
    body
}

/// The record of a body.
pub(crate) fn signed(body: &[u8], signature: &[u8; SIGNATURE_OCTETS]) -> Vec<u8> {
    let mut record = Vec::with_capacity(body.len() + SIGNATURE_OCTETS + 16);
    push(&mut record, Head::Array(Some(2)));
    push_octets(&mut record, body);
    push_octets(&mut record, signature);
    record
}
