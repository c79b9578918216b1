//! CBOR (RFC 8949) item by item, for encodings whose items have fixed places. Deterministic encoding (4.2.1) alone is read.

use ciborium_ll::{Decoder, Encoder, Header};

/// Remaining octets.
pub(crate) struct Reader<'a>(&'a [u8]);

/// Octets that are no such item, or not in its shortest form.
pub(crate) struct Malformed;

impl<'a> Reader<'a> {
    pub(crate) const fn new(octets: &'a [u8]) -> Self {
        Self(octets)
    }

    /// A header, in the one form that [`push`] gives it.
    fn header(&mut self) -> Result<Header, Malformed> {
        let mut decoder = Decoder::from(self.0);
        let header = decoder.pull().map_err(|_| Malformed)?;
        let (read, rest) = self.0.split_at_checked(decoder.offset()).ok_or(Malformed)?;
        if encode(header, &mut [0; 9]) != read {
            return Err(Malformed);
        }
        self.0 = rest;
        Ok(header)
    }

    fn take(&mut self, octets: usize) -> Result<&'a [u8], Malformed> {
        let (taken, rest) = self.0.split_at_checked(octets).ok_or(Malformed)?;
        self.0 = rest;
        Ok(taken)
    }

    pub(crate) fn number(&mut self) -> Result<u64, Malformed> {
        if let Header::Positive(number) = self.header()? { Ok(number) } else { Err(Malformed) }
    }

    pub(crate) fn octets(&mut self) -> Result<&'a [u8], Malformed> {
        if let Header::Bytes(Some(octets)) = self.header()? { self.take(octets) } else { Err(Malformed) }
    }

    pub(crate) fn array_of<const OCTETS: usize>(&mut self) -> Result<&'a [u8; OCTETS], Malformed> {
        self.octets()?.try_into().map_err(|_| Malformed)
    }

    pub(crate) fn text(&mut self) -> Result<&'a str, Malformed> {
        let Header::Text(Some(octets)) = self.header()? else { return Err(Malformed) };
        std::str::from_utf8(self.take(octets)?).map_err(|_| Malformed)
    }

    /// The number of items that follow as one array.
    pub(crate) fn array(&mut self) -> Result<usize, Malformed> {
        if let Header::Array(Some(items)) = self.header()? { Ok(items) } else { Err(Malformed) }
    }

    /// The number of pairs that follow as one map.
    pub(crate) fn pairs(&mut self) -> Result<usize, Malformed> {
        if let Header::Map(Some(pairs)) = self.header()? { Ok(pairs) } else { Err(Malformed) }
    }

    /// The head of a map with exactly this many pairs.
    pub(crate) fn map(&mut self, pairs: usize) -> Result<(), Malformed> {
        if self.pairs()? == pairs { Ok(()) } else { Err(Malformed) }
    }

    /// The key of the next pair, which has to be this one.
    pub(crate) fn key(&mut self, key: u8) -> Result<&mut Self, Malformed> {
        if self.number()? == u64::from(key) { Ok(self) } else { Err(Malformed) }
    }

    pub(crate) const fn end(self) -> Result<(), Malformed> {
        if self.0.is_empty() { Ok(()) } else { Err(Malformed) }
    }
}

/// Writes the head of an item.
pub(crate) fn push(octets: &mut Vec<u8>, header: Header) {
    octets.extend_from_slice(encode(header, &mut [0; 9]));
}

pub(crate) fn push_octets(octets: &mut Vec<u8>, value: &[u8]) {
    push(octets, Header::Bytes(Some(value.len())));
    octets.extend_from_slice(value);
}

pub(crate) fn push_text(octets: &mut Vec<u8>, value: &str) {
    push(octets, Header::Text(Some(value.len())));
    octets.extend_from_slice(value.as_bytes());
}

/// Encodes a header: one octet, and up to eight of its number.
fn encode(header: Header, buffer: &mut [u8; 9]) -> &[u8] {
    let mut rest = &mut buffer[..];
    // Floats alone may be refused, and nobody writes or reads those here.
    let _ = Encoder::from(&mut rest).push(header);
    let left = rest.len();
    &buffer[..9 - left]
}
