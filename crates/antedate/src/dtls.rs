//! Records of DTLS 1.2 with the suites AES-CCM and AES-CCM-8 (RFC 6347 section 4.1, RFC 6655 section 3).
//!
//! ```text
//!  record: type 1 | FE-FD | epoch 2 | sequence number 6 | length 2 | explicit nonce 8 | data | tag 16 or 8
//!  nonce:  salt 4 (client_write_IV or server_write_IV) | explicit nonce 8 = epoch 2 | sequence number 6
//!  AAD:    epoch 2 | sequence number 6 | type 1 | FE-FD | length of the data 2
//! ```
//!
//! The handshake is not part of this crate: it provides keys and salt.

use cipher::BlockCipherEncrypt;
use cipher::consts::U16;

use crate::ccm::{AAD_OCTETS, CacheHit, Nonce};
use crate::sender::{Numbering, SendError, Sender};

/// Octets in front of the data: the record's header and the explicit nonce.
pub const HEADER_OCTETS: usize = 13 + EXPLICIT_NONCE_OCTETS;
const EXPLICIT_NONCE_OCTETS: usize = 8;
/// Record type of application data.
pub const APPLICATION_DATA: u8 = 23;
/// The version on the wire of DTLS 1.2.
const VERSION: [u8; 2] = [0xfe, 0xfd];
/// The longest data of a record (RFC 6347 section 4.1.1, RFC 5246 section 6.2.1).
pub const LONGEST_DATA: usize = 1 << 14;

/// Records of one epoch in one direction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RecordNumbering {
    /// The sender's write_IV.
    pub salt: [u8; 4],
    /// The epoch.
    pub epoch: u16,
    /// The type of the records, mostly [`APPLICATION_DATA`].
    pub kind: u8,
}

impl RecordNumbering {
    /// Epoch and sequence number.
    fn explicit(&self, number: u64) -> [u8; EXPLICIT_NONCE_OCTETS] {
        ((u64::from(self.epoch) << 48) | number).to_be_bytes()
    }
}

impl Numbering for RecordNumbering {
    const LAST: u64 = (1 << 48) - 1;

    fn nonce(&self, number: u64) -> Nonce {
        let mut octets = [0; 12];
        octets[..4].copy_from_slice(&self.salt);
        octets[4..].copy_from_slice(&self.explicit(number));
        Nonce::new(&octets).expect("invariant: 12 octets are a nonce")
    }

    fn aad(&self, number: u64, length: usize, aad: &mut [u8; AAD_OCTETS]) -> usize {
        aad[..8].copy_from_slice(&self.explicit(number));
        aad[8] = self.kind;
        aad[9..11].copy_from_slice(&VERSION);
        aad[11..13].copy_from_slice(&(length as u16).to_be_bytes());
        13
    }
}

/// A record that was written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WrittenRecord {
    /// Its octets, from the beginning of the buffer.
    pub octets: usize,
    /// Its sequence number.
    pub number: u64,
    /// Usable share of the preparation.
    pub hit: CacheHit,
}

/// Reason for not writing a record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RecordError {
    /// The buffer is too short for header, data and tag, or the data is longer than [`LONGEST_DATA`].
    Room,
    /// All sequence numbers are used: another handshake is needed.
    Exhausted,
}

/// Writes the next record. `buffer` holds `length` octets of data behind [`HEADER_OCTETS`] free ones, and has
/// room for the tag.
///
/// # Errors
/// [`RecordError`]; then no sequence number is used.
pub fn write<C, const N: usize, const T: usize, const SLOTS: usize>(
    sender: &mut Sender<'_, C, RecordNumbering, N, T, SLOTS>,
    buffer: &mut [u8],
    length: usize,
) -> Result<WrittenRecord, RecordError>
where
    C: BlockCipherEncrypt<BlockSize = U16>,
{
    let tag_octets = sender.ccm().tag_length().octets();
    let octets = HEADER_OCTETS + length + tag_octets;
    if length > LONGEST_DATA || buffer.len() < octets {
        return Err(RecordError::Room);
    }
    let (header, rest) = buffer.split_at_mut(HEADER_OCTETS);
    let (data, rest) = rest.split_at_mut(length);
    let sent = sender.send(data).map_err(|error| match error {
        SendError::Exhausted => RecordError::Exhausted,
        SendError::TooLong => RecordError::Room,
    })?;
    rest[..tag_octets].copy_from_slice(sent.tag.octets());
    let records = sender.numbering();
    let explicit = records.explicit(sent.number);
    header[0] = records.kind;
    header[1..3].copy_from_slice(&VERSION);
    header[3..11].copy_from_slice(&explicit);
    header[11..13].copy_from_slice(&((EXPLICIT_NONCE_OCTETS + length + tag_octets) as u16).to_be_bytes());
    header[13..].copy_from_slice(&explicit);
    Ok(WrittenRecord { octets, number: sent.number, hit: sent.hit })
}
