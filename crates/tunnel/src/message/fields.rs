//! A message as CBOR: a map from unsigned numbers to unsigned numbers and strings of octets.

use alloc::vec::Vec;

use ciborium_ll::{Decoder, Encoder, Header};
use zeroize::Zeroizing;

use super::key::COUNT;
use super::{Message, MessageError};

/// Value of a key.
#[derive(Clone, Copy)]
enum Value<'a> {
    Number(u64),
    Octets(&'a [u8]),
    /// A value of another type, skipped.
    Other,
}

/// Values of the known keys.
pub(super) struct Fields<'a>([Option<Value<'a>>; COUNT]);

impl<'a> Fields<'a> {
    pub(super) fn parse(octets: &'a [u8]) -> Result<Self, MessageError> {
        let mut reader = Reader(octets);
        let Header::Map(Some(pairs)) = reader.header()? else { return Err(MessageError::Malformed) };
        let mut fields = Self([None; COUNT]);
        // Each round consumes two octets or ends with an error, so rounds are bounded by the octets.
        for _ in 0..pairs {
            let slot = match reader.value()? {
                Value::Number(key) => usize::try_from(key).ok().and_then(|key| fields.0.get_mut(key)),
                _ => None,
            };
            let value = reader.value()?;
            if slot.is_some_and(|slot| slot.replace(value).is_some()) {
                return Err(MessageError::Repeated);
            }
        }
        if reader.0.is_empty() { Ok(fields) } else { Err(MessageError::Trailing) }
    }

    /// True if there is a value at a key.
    pub(super) fn has(&self, key: u8) -> bool {
        self.0[usize::from(key)].is_some()
    }

    /// The number at a key, if the requested type can hold it.
    pub(super) fn number<T: TryFrom<u64>>(&self, key: u8) -> Result<T, MessageError> {
        match self.0[usize::from(key)] {
            Some(Value::Number(number)) => T::try_from(number).ok(),
            _ => None,
        }
        .ok_or(MessageError::Field { key })
    }

    /// The octets at a key, if their number is exactly `N`.
    pub(super) fn octets<const N: usize>(&self, key: u8) -> Result<&'a [u8; N], MessageError> {
        match self.0[usize::from(key)] {
            Some(Value::Octets(octets)) => octets.try_into().ok(),
            _ => None,
        }
        .ok_or(MessageError::Field { key })
    }
}

/// Remaining octets.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn header(&mut self) -> Result<Header, MessageError> {
        let mut decoder = Decoder::from(self.0);
        let header = decoder.pull().map_err(|error| match error {
            ciborium_ll::Error::Io(_) => MessageError::Truncated,
            ciborium_ll::Error::Syntax(_) => MessageError::Malformed,
        })?;
        let read = decoder.offset();
        self.0 = self.0.get(read..).ok_or(MessageError::Truncated)?;
        Ok(header)
    }

    fn take(&mut self, octets: usize) -> Result<&'a [u8], MessageError> {
        let (taken, rest) = self.0.split_at_checked(octets).ok_or(MessageError::Truncated)?;
        self.0 = rest;
        Ok(taken)
    }

    fn value(&mut self) -> Result<Value<'a>, MessageError> {
        match self.header()? {
            Header::Positive(number) => Ok(Value::Number(number)),
            Header::Bytes(Some(octets)) => self.take(octets).map(Value::Octets),
            other => self.skip(other).map(|()| Value::Other),
        }
    }

    /// Skips an item, however deep, without recursion: each item consumes an octet or ends with an error.
    fn skip(&mut self, first: Header) -> Result<(), MessageError> {
        let mut header = first;
        let mut to_come = 0_usize;
        loop {
            let inside = match header {
                Header::Bytes(Some(octets)) | Header::Text(Some(octets)) => self.take(octets).map(|_| 0)?,
                Header::Array(Some(items)) => items,
                Header::Map(Some(pairs)) => pairs.checked_mul(2).ok_or(MessageError::Truncated)?,
                Header::Tag(_) => 1,
                Header::Positive(_) | Header::Negative(_) | Header::Float(_) | Header::Simple(_) => 0,
                Header::Bytes(None)
                | Header::Text(None)
                | Header::Array(None)
                | Header::Map(None)
                | Header::Break => {
                    return Err(MessageError::Malformed);
                }
            };
            to_come = to_come.checked_add(inside).ok_or(MessageError::Truncated)?;
            if to_come == 0 {
                return Ok(());
            }
            to_come -= 1;
            header = self.header()?;
        }
    }
}

/// Writes a message. The caller gives keys in ascending order.
pub(super) struct Writer {
    /// The pairs, behind one octet for the map's own header.
    octets: Zeroizing<Vec<u8>>,
    pairs: u8,
}

impl Writer {
    pub(super) fn new() -> Self {
        // Full capacity at once: a growing vector leaves copies behind.
        let mut octets = Zeroizing::new(Vec::with_capacity(Message::OCTETS));
        octets.push(0);
        Self { octets, pairs: 0 }
    }

    pub(super) fn number(&mut self, key: u8, value: u64) {
        self.header(Header::Positive(key.into()));
        self.header(Header::Positive(value));
        self.pairs += 1;
    }

    pub(super) fn octets(&mut self, key: u8, value: &[u8]) {
        self.header(Header::Positive(key.into()));
        self.header(Header::Bytes(Some(value.len())));
        self.octets.extend_from_slice(value);
        self.pairs += 1;
    }

    fn header(&mut self, header: Header) {
        self.octets.extend_from_slice(encode(header, &mut [0; 9]));
    }

    pub(super) fn finish(mut self) -> Zeroizing<Vec<u8>> {
        let mut buffer = [0; 9];
        let map = encode(Header::Map(Some(self.pairs.into())), &mut buffer);
        debug_assert_eq!(map.len(), 1, "fewer than 24 pairs");
        self.octets[0] = map[0];
        self.octets
    }
}

/// Encodes a header: one octet, and up to eight of its number.
fn encode(header: Header, buffer: &mut [u8; 9]) -> &[u8] {
    let mut rest = &mut buffer[..];
    Encoder::from(&mut rest).push(header).expect("invariant: no header is longer than nine octets");
    let left = rest.len();
    &buffer[..9 - left]
}
