//! Parts of a frame that show without its key: Ethernet, VLAN tags in clear, SecTAG, extension headers, lengths.
//!
//! Nothing is judged here that the SecY judges when there is a key. What is read of the extension headers is not
//! authenticated then, and a frame that breaks their rules is told all the same.

use wire::ethernet::{ADDRESSES_OCTETS, Header};
use wire::extension::padded::{COVER_MARK, MARK};
use wire::extension::{self, EXTENSION_OCTETS};
use wire::{EtherType, ExtensionError, SecTag, SecTagError, Segments};

/// A frame, taken apart.
#[derive(Debug)]
pub struct Anatomy {
    /// Addresses, VLAN tags and EtherType; `None` for a frame that ends before.
    pub header: Option<Header>,
    /// TPID and TCI of the VLAN tags in clear.
    pub vlans: Vec<(u16, u16)>,
    /// The part behind EtherType 0x88E5.
    pub macsec: Option<Result<Macsec, SecTagError>>,
}

/// The part of a frame that MACsec made.
#[derive(Debug)]
pub struct Macsec {
    /// The SecTAG.
    pub tag: SecTag,
    /// The extension headers as they stand.
    pub extensions: Vec<u16>,
    /// Segments of the secure data; of a padded frame one, with all of it.
    pub segments: Result<Segments, ExtensionError>,
    /// Octets of secure data.
    pub secure_data: Result<usize, SecTagError>,
    /// Octets behind the ICV.
    pub padding: usize,
}

impl Anatomy {
    /// Takes a frame apart that had `original` octets on the wire, of which `octets` were kept.
    pub fn new(octets: &[u8], original: usize) -> Self {
        let Ok(header) = Header::parse(octets) else {
            return Self { header: None, vlans: Vec::new(), macsec: None };
        };
        let tags = octets[ADDRESSES_OCTETS..].chunks_exact(4).take(header.vlan_tags);
        let vlans =
            tags.map(|tag| (u16::from_be_bytes([tag[0], tag[1]]), u16::from_be_bytes([tag[2], tag[3]])));
        let vlans = vlans.collect();
        let from_tag = &octets[header.octets() - 2..];
        let macsec = (header.ethertype == EtherType::MACSEC)
            .then(|| Macsec::new(from_tag, original.saturating_sub(header.octets() - 2)));
        Self { header: Some(header), vlans, macsec }
    }

    /// The SecTAG, if it breaks no rule.
    pub fn tag(&self) -> Option<&SecTag> {
        match &self.macsec {
            Some(Ok(macsec)) => Some(&macsec.tag),
            _ => None,
        }
    }
}

impl Macsec {
    fn new(octets: &[u8], original: usize) -> Result<Self, SecTagError> {
        let tag = SecTag::parse(octets)?;
        let behind = &octets[tag.octets()..];
        let count =
            if tag.extended { extension::count(behind).map_err(|_| SecTagError::Extensions)? } else { 0 };
        let (headers, _) = behind.split_at(count * EXTENSION_OCTETS);
        let from_data = original.saturating_sub(tag.octets() + headers.len());
        let secure_data = tag.secure_data_octets(from_data);
        let segments = secure_data.map_or(Err(ExtensionError::Sum), |octets| {
            match headers == MARK || headers == COVER_MARK {
                // Beginnings and ends of its SDUs are encrypted.
                true => Ok(Segments::one(octets as u16, false)),
                false => Segments::parse(headers, octets),
            }
        });
        let padding = secure_data.map_or(0, |octets| from_data - octets - wire::sectag::ICV_OCTETS);
        let extensions = headers.chunks_exact(2).map(|h| u16::from_be_bytes([h[0], h[1]])).collect();
        Ok(Self { tag, extensions, segments, secure_data, padding })
    }

    /// The frame uses what the standard reserves.
    pub const fn is_fragmented(&self) -> bool {
        self.tag.extended || self.tag.more_fragments
    }
}

/// SEGL, the reserved bits, CF and EXT of an extension header.
pub const fn extension_fields(header: u16) -> (u16, u16, bool, bool) {
    (header >> 5, header >> 2 & 7, header & 2 != 0, header & 1 != 0)
}
