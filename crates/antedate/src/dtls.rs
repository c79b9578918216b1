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

use crate::ccm::{AAD_OCTETS, CacheHit, Ccm, Nonce};
use crate::sender::{Numbering, SendError, Sender};
use crate::window::Window;

/// Octets in front of the data: the record's header and the explicit nonce.
pub const HEADER_OCTETS: usize = RECORD_HEADER_OCTETS + EXPLICIT_NONCE_OCTETS;
const RECORD_HEADER_OCTETS: usize = 13;
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

    fn nonce_of(&self, explicit: [u8; EXPLICIT_NONCE_OCTETS]) -> Nonce {
        let mut octets = [0; 12];
        octets[..4].copy_from_slice(&self.salt);
        octets[4..].copy_from_slice(&explicit);
        Nonce::new(&octets).expect("invariant: 12 octets are a nonce")
    }
}

impl Numbering for RecordNumbering {
    const LAST: u64 = (1 << 48) - 1;

    fn nonce(&self, number: u64) -> Nonce {
        self.nonce_of(self.explicit(number))
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

/// A record that was read.
#[derive(PartialEq, Eq, Debug)]
pub struct ReadRecord<'r> {
    /// The type: [`APPLICATION_DATA`], 21 for an alert, 22 for a handshake.
    pub kind: u8,
    /// Its sequence number.
    pub number: u64,
    /// Its data, which lies [`HEADER_OCTETS`] behind the record's beginning.
    pub data: &'r mut [u8],
}

/// Reason for discarding a record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReadError {
    /// No record of this length, or not of DTLS 1.2.
    Malformed,
    /// Another epoch: it belongs to other keys.
    Epoch,
    /// Its number was taken before, or is older than the window.
    Replayed,
    /// Forged, or of another key. The data is wiped.
    NotAuthentic,
}

/// Octets of the first record in a datagram, which may hold several. `None` if there is no whole one.
pub fn record_octets(datagram: &[u8]) -> Option<usize> {
    let length = datagram.get(11..RECORD_HEADER_OCTETS)?;
    let octets = RECORD_HEADER_OCTETS + usize::from(u16::from_be_bytes([length[0], length[1]]));
    (octets <= datagram.len()).then_some(octets)
}

/// Reads the records of one epoch in one direction, each once.
#[derive(Debug)]
pub struct Reader {
    /// The other end's write_IV.
    salt: [u8; 4],
    epoch: u16,
    window: Window,
}

impl Reader {
    /// With the other end's write_IV. `first`: the lowest sequence number that is taken, mostly 0.
    pub const fn new(salt: [u8; 4], epoch: u16, first: u64) -> Self {
        Self { salt, epoch, window: Window::from(first) }
    }

    /// Opens one record in place.
    ///
    /// # Errors
    /// [`ReadError`]; then nothing was taken.
    pub fn read<'r, C>(&mut self, ccm: &Ccm<C>, record: &'r mut [u8]) -> Result<ReadRecord<'r>, ReadError>
    where
        C: BlockCipherEncrypt<BlockSize = U16>,
    {
        if record_octets(record) != Some(record.len()) || record[1..3] != VERSION {
            return Err(ReadError::Malformed);
        }
        let tag_octets = ccm.tag_length().octets();
        let length =
            record.len().checked_sub(HEADER_OCTETS + tag_octets).filter(|&length| length <= LONGEST_DATA);
        let length = length.ok_or(ReadError::Malformed)?;
        let (header, rest) = record.split_at_mut(HEADER_OCTETS);
        let (kind, counted) = (header[0], u64::from_be_bytes(array_of(&header[3..11])));
        if counted >> 48 != u64::from(self.epoch) {
            return Err(ReadError::Epoch);
        }
        let number = counted & RecordNumbering::LAST;
        if !self.window.is_new(number) {
            return Err(ReadError::Replayed);
        }
        let numbering = RecordNumbering { salt: self.salt, epoch: self.epoch, kind };
        let mut aad = [0; AAD_OCTETS];
        let aad_octets = numbering.aad(number, length, &mut aad);
        // Its sender chose the explicit nonce, which need not be epoch and sequence number (RFC 6655 section 3).
        let nonce = numbering.nonce_of(array_of(&header[RECORD_HEADER_OCTETS..]));
        let (data, tag) = rest.split_at_mut(length);
        ccm.open(&nonce, &aad[..aad_octets], data, tag).map_err(|_| ReadError::NotAuthentic)?;
        self.window.take(number);
        Ok(ReadRecord { kind, number, data })
    }
}

fn array_of(octets: &[u8]) -> [u8; EXPLICIT_NONCE_OCTETS] {
    octets.try_into().expect("invariant: eight octets")
}
