//! TLVs of the Announcement parameter set (IEEE 802.1X-2020 clause 11.12), and this project's own TLV.
//!
//! ```text
//!  TLV:  type 7 bits | length 9 bits | value
//!
//!  112   MACsec Cipher Suites          (implementation capability 2 | identifier 8) ...           figure 11-24
//!  127   Organizationally Specific     OUI 3 | subtype 1 | ...                                    clause 11.12.6
//!        ours: F2-46-57 | 01 | "FWRD" | version 1 | flags 1 | largest SDU 2 | (suite 1 | nanoseconds 2) ...
//!              flags: 01 reassembles SDUs, 02 splits SDUs that share a frame, 04 misses a station under this CAK,
//!                     08 receives express SCs, 10 its network carries its longest SDU whole,
//!                     20 has programs in the kernel for whole SDUs, 40 takes padded frames
//!              suite: nn for F2-46-57-00-00-00-00-nn, and 80 + nn for 00-80-C2-00-01-00-00-nn
//!        ours: F2-46-57 | 02 | "FWRD" | name 1 to 63
//!              name: what the station calls itself, ASCII without an end mark. Rules: [`SystemName`](super::SystemName)
//! ```
//!
//! A station without a name omits the second one. A receiver that knows the first alone skips it as a TLV of somebody else.
//!
//! F2-46-57 is no registered OUI. Its U/L bit is set, so it is locally administered; "FWRD" tells it from
//! others' choice of the same OUI. A TLV that reaches beyond its set ends the parsing: the TLVs before it
//! count.

use super::{Capability, Fields, SystemName, TooLong};

const CIPHER_SUITES: u8 = 112;
const ORGANIZATIONALLY_SPECIFIC: u8 = 127;
/// First octets of our TLV: OUI, subtype, and a name in case somebody else uses that OUI.
const OURS: [u8; 8] = [0xf2, 0x46, 0x57, 1, b'F', b'W', b'R', b'D'];
/// The same of the TLV that holds the sender's name.
const NAME: [u8; 8] = [0xf2, 0x46, 0x57, 2, b'F', b'W', b'R', b'D'];
/// Written version of our TLV. Later versions are read as far as this one goes.
const VERSION: u8 = 1;
const REASSEMBLES: u8 = 0x01;
const SPLITS: u8 = 0x02;
const MISSES: u8 = 0x04;
const EXPRESS: u8 = 0x08;
const CARRIES_WHOLE: u8 = 0x10;
const IN_KERNEL: u8 = 0x20;
const TAKES_PADDED: u8 = 0x40;
const SUITE_OCTETS: usize = 10;
const FIGURE_OCTETS: usize = 3;
/// Maximum octets of a value: its length has 9 bits.
const LONGEST_VALUE: usize = 0x01ff;

/// TLVs of an announcement.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Tlvs<'f>(pub(super) &'f [u8]);

/// A TLV.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Tlv<'f> {
    /// Type 112: the sender's cipher suites.
    CipherSuites(SuiteList<'f>),
    /// Type 127, ours: capabilities of the sender beyond the standard.
    Extensions(Extensions, TimingList<'f>),
    /// Type 127, ours: what the sender calls itself, unjudged. [`SystemName::new`](super::SystemName::new) judges it.
    Name(&'f [u8]),
    /// Any other: skipped.
    Other {
        /// Its type, 0 to 127.
        kind: u8,
        /// Its value.
        value: &'f [u8],
    },
}

/// A cipher suite of a station, with its capability.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CapableSuite {
    /// The suite's identifier (IEEE 802.1AE table 14-1).
    pub identifier: [u8; 8],
    /// Capability of the implementation with this suite.
    pub capability: Capability,
}

/// The value of a MACsec Cipher Suites TLV.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SuiteList<'f>(&'f [u8]);

/// Capabilities of a station beyond the standard.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Extensions {
    /// Reassembles fragmented SDUs.
    pub reassembles: bool,
    /// Splits frames that hold several SDUs.
    pub splits: bool,
    /// Hears a member of the group under another CAK, but not under this one.
    pub misses: bool,
    /// Its network carries its machine's longest SDU in one frame: it needs no fragments.
    pub carries_whole: bool,
    /// Programs in its kernel take SAs of ChaCha20-Poly1305 under which nothing is fragmented.
    pub in_kernel: bool,
    /// Receives express SCs too ([`Sci::express`](crate::Sci::express)).
    pub express: bool,
    /// Takes padded frames ([`padded`](crate::extension::padded)), and SDUs that span them.
    pub takes_padded: bool,
    /// Octets of the longest SDU that it accepts, from the SDU's EtherType on: its secure data.
    pub largest_sdu: u16,
}

/// Measured time of a suite on a station.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TimingEntry {
    /// Suite identifier: one of the standard's, or one of ours.
    pub identifier: [u8; 8],
    /// Nanoseconds for a frame of 512 octets. 65535 stands for that and above.
    pub nanoseconds: u16,
}

/// The timings in our TLV.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TimingList<'f>(&'f [u8]);

impl<'f> Tlvs<'f> {
    /// The TLVs, in their order.
    pub fn iter(&self) -> impl Iterator<Item = Tlv<'f>> + use<'f> {
        let mut rest = self.0;
        core::iter::from_fn(move || {
            let (head, behind) = rest.split_first_chunk::<2>()?;
            let head = u16::from_be_bytes(*head);
            let (value, behind) = behind.split_at_checked(usize::from(head) & LONGEST_VALUE)?;
            rest = behind;
            Some(Tlv::decode((head >> 9) as u8, value))
        })
    }
}

impl<'f> Tlv<'f> {
    fn decode(kind: u8, value: &'f [u8]) -> Self {
        let extensions = || {
            let mut fields = Fields(value.strip_prefix(&OURS).filter(|_| kind == ORGANIZATIONALLY_SPECIFIC)?);
            let [version, flags] = fields.take()?;
            let largest_sdu = u16::from_be_bytes(fields.take()?);
            let is_set = |flag: u8| flags & flag != 0;
            let extensions = Extensions {
                reassembles: is_set(REASSEMBLES),
                splits: is_set(SPLITS),
                misses: is_set(MISSES),
                express: is_set(EXPRESS),
                carries_whole: is_set(CARRIES_WHOLE),
                in_kernel: is_set(IN_KERNEL),
                takes_padded: is_set(TAKES_PADDED),
                largest_sdu,
            };
            (version >= VERSION).then_some(Self::Extensions(extensions, TimingList(fields.0)))
        };
        match kind {
            CIPHER_SUITES => Self::CipherSuites(SuiteList(value)),
            ORGANIZATIONALLY_SPECIFIC if let Some(name) = value.strip_prefix(&NAME) => Self::Name(name),
            _ => extensions().unwrap_or(Self::Other { kind, value }),
        }
    }
}

impl<'f> SuiteList<'f> {
    /// The suites, in their order.
    pub fn iter(&self) -> impl Iterator<Item = CapableSuite> + use<'f> {
        self.0.as_chunks::<SUITE_OCTETS>().0.iter().map(|octets| {
            let [_, capability, identifier @ ..] = *octets;
            CapableSuite { identifier, capability: Capability::from_bits(capability) }
        })
    }
}

impl<'f> TimingList<'f> {
    /// The timings, in their order.
    pub fn iter(&self) -> impl Iterator<Item = TimingEntry> + use<'f> {
        self.0.as_chunks::<FIGURE_OCTETS>().0.iter().map(|octets| {
            let [number, high, low] = *octets;
            TimingEntry { identifier: identifier(number), nanoseconds: u16::from_be_bytes([high, low]) }
        })
    }
}

/// Suite identifier of this number.
const fn identifier(number: u8) -> [u8; 8] {
    match number {
        0x80.. => [0x00, 0x80, 0xc2, 0x00, 0x01, 0x00, 0x00, number & 0x7f],
        _ => [0xf2, 0x46, 0x57, 0x00, 0x00, 0x00, 0x00, number],
    }
}

/// Number of this suite identifier.
fn number(suite: [u8; 8]) -> Option<u8> {
    let nn = suite[7] & 0x7f;
    [nn, nn | 0x80].into_iter().find(|number| identifier(*number) == suite)
}

/// Writes the TLVs of an announcement.
#[derive(Debug)]
pub struct TlvWriter<'b> {
    buffer: &'b mut [u8],
    length: usize,
}

impl<'b> TlvWriter<'b> {
    /// Begins in `buffer`, which has to hold all TLVs.
    pub const fn new(buffer: &'b mut [u8]) -> Self {
        Self { buffer, length: 0 }
    }

    /// Adds a MACsec Cipher Suites TLV.
    ///
    /// # Errors
    /// [`TooLong`]; earlier TLVs stay.
    pub fn cipher_suites(&mut self, suites: impl Iterator<Item = CapableSuite>) -> Result<(), TooLong> {
        let entries = suites.map(|CapableSuite { identifier: [a, b, c, d, e, f, g, h], capability }| {
            [0, capability.bits(), a, b, c, d, e, f, g, h]
        });
        self.tlv(CIPHER_SUITES, &[], entries)
    }

    /// Adds our TLV. Leaves out timings of suites that are neither the standard's nor ours.
    ///
    /// # Errors
    /// [`TooLong`]; earlier TLVs stay.
    pub fn extensions(
        &mut self,
        extensions: &Extensions,
        figures: impl Iterator<Item = TimingEntry>,
    ) -> Result<(), TooLong> {
        let Extensions {
            reassembles,
            splits,
            misses,
            express,
            carries_whole,
            in_kernel,
            takes_padded,
            largest_sdu,
        } = *extensions;
        let flags = [
            (reassembles, REASSEMBLES),
            (splits, SPLITS),
            (misses, MISSES),
            (express, EXPRESS),
            (carries_whole, CARRIES_WHOLE),
            (in_kernel, IN_KERNEL),
            (takes_padded, TAKES_PADDED),
        ];
        let flags = flags.iter().filter(|(is_set, _)| *is_set).fold(0, |flags, (_, flag)| flags | flag);
        let [high, low] = largest_sdu.to_be_bytes();
        let mut head = [0; OURS.len() + 4];
        head[..OURS.len()].copy_from_slice(&OURS);
        head[OURS.len()..].copy_from_slice(&[VERSION, flags, high, low]);
        let entries = figures.filter_map(|TimingEntry { identifier, nanoseconds }| {
            let [high, low] = nanoseconds.to_be_bytes();
            Some([number(identifier)?, high, low])
        });
        self.tlv(ORGANIZATIONALLY_SPECIFIC, &head, entries)
    }

    /// Adds the name of this station.
    ///
    /// # Errors
    /// [`TooLong`]; earlier TLVs stay.
    pub fn name(&mut self, name: &SystemName) -> Result<(), TooLong> {
        self.tlv(ORGANIZATIONALLY_SPECIFIC, &NAME, name.as_str().bytes().map(|octet| [octet]))
    }

    /// Adds any TLV: a type of 7 bits and a value.
    ///
    /// # Errors
    /// [`TooLong`]; earlier TLVs stay.
    pub fn other(&mut self, kind: u8, value: &[u8]) -> Result<(), TooLong> {
        self.tlv(kind, value, core::iter::empty::<[u8; 0]>())
    }

    /// Ends the TLVs.
    pub fn finish(self) -> Tlvs<'b> {
        Tlvs(&self.buffer[..self.length])
    }

    fn tlv<const N: usize>(
        &mut self,
        kind: u8,
        head: &[u8],
        entries: impl Iterator<Item = [u8; N]>,
    ) -> Result<(), TooLong> {
        let room = &mut self.buffer[self.length..];
        let (type_and_length, room) = room.split_first_chunk_mut::<2>().ok_or(TooLong)?;
        room.get_mut(..head.len()).ok_or(TooLong)?.copy_from_slice(head);
        let mut length = head.len();
        for entry in entries {
            room.get_mut(length..length + N).ok_or(TooLong)?.copy_from_slice(&entry);
            length += N;
        }
        if length > LONGEST_VALUE || kind > ORGANIZATIONALLY_SPECIFIC {
            return Err(TooLong);
        }
        *type_and_length = (u16::from(kind) << 9 | length as u16).to_be_bytes();
        self.length += type_and_length.len() + length;
        Ok(())
    }
}
