//! Capture files: pcap and pcapng, octet by octet from a stream, one frame at a time.
//!
//! ```text
//! pcap     header 24 | { seconds 4 | fraction 4 | captured 4 | original 4 | octets }*         either byte order
//! pcapng   { type 4 | length 4 | body | length 4 }*                    byte order told by each section header
//! ```
//!
//! A file is not trusted: a record is read by the length that it claims, bounded by [`LONGEST_RECORD`], and parsed
//! only when it is there as a whole. So memory is bounded, and a file that is cut can be told from one that is
//! broken. The records' fields are parsed by the crate pcap-parser.

use std::io::{self, Read};
use std::time::Duration;

use pcap_parser::nom::IResult;
use pcap_parser::pcap::{
    LegacyPcapBlock, PcapHeader, parse_pcap_frame, parse_pcap_frame_be, parse_pcap_frame_modified,
    parse_pcap_header,
};
use pcap_parser::pcapng::{
    EnhancedPacketBlock, InterfaceDescriptionBlock, OptionCode, SimplePacketBlock,
    parse_enhancedpacketblock_be, parse_enhancedpacketblock_le, parse_interfacedescriptionblock_be,
    parse_interfacedescriptionblock_le, parse_simplepacketblock_be, parse_simplepacketblock_le,
};
use pcap_parser::traits::PcapNGPacketBlock as _;

/// The longest record that is read, in octets. Frames of a real network are at most 64 KiB.
pub const LONGEST_RECORD: u64 = 16 << 20;
/// The most interfaces of a section.
const INTERFACES: usize = 4096;
/// LINKTYPE_ETHERNET.
pub const ETHERNET: u16 = 1;

const PCAPNG: [u8; 4] = [0x0a, 0x0d, 0x0d, 0x0a];
const INTERFACE_DESCRIPTION: u32 = 1;
const SIMPLE_PACKET: u32 = 3;
const ENHANCED_PACKET: u32 = 6;

/// Why nothing more can be read from a capture.
#[derive(Debug, thiserror::Error)]
pub enum CaptureError {
    /// The file cannot be read on.
    #[error("cannot be read at octet {offset}: {source}")]
    Unreadable {
        /// Offset in the file, in octets.
        offset: u64,
        /// The system's error.
        source: io::Error,
    },
    /// The file is of another kind.
    #[error("is not a capture: it begins with neither a pcap nor a pcapng header{hint}; name a capture")]
    NoCapture {
        /// Its kind, if known.
        hint: &'static str,
    },
    /// The file ends inside a record.
    #[error(
        "ends in the middle of a record at octet {offset}, behind frame {frames}; the frames before it were read"
    )]
    Cut {
        /// Offset of the record, in octets.
        offset: u64,
        /// The last whole frame.
        frames: u64,
    },
    /// A record cannot be what it claims.
    #[error("is broken at octet {offset}, behind frame {frames}: {what}; the frames before it were read")]
    Broken {
        /// Offset of the record, in octets.
        offset: u64,
        /// The last whole frame.
        frames: u64,
        /// The fault.
        what: String,
    },
}

/// Interface on which frames were captured.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Interface {
    /// Its name, if the file tells it.
    pub name: Option<String>,
    /// LINKTYPE of its frames: see [`ETHERNET`].
    pub linktype: u16,
    /// The most octets of a frame that were kept; 0 for all.
    snaplen: u32,
    /// Octets of FCS at the end of each frame.
    pub fcs: usize,
    /// Units of a second; `None` if the file's are not to be computed with.
    resolution: Option<u128>,
    /// Seconds to be added to each time.
    seconds: i64,
}

/// One frame of a capture.
#[derive(Clone, Copy, Debug)]
pub struct Captured<'c> {
    /// Its number, from 1, as Wireshark counts.
    pub number: u64,
    /// The number of its interface, from 0; sections of a pcapng file begin anew.
    pub interface: usize,
    /// Time of capture, since 1970; `None` if the file does not say.
    pub time: Option<Duration>,
    /// Octets that it had on the wire.
    pub original: usize,
    /// The octets that were kept.
    pub octets: &'c [u8],
    /// The interfaces of its section.
    pub interfaces: &'c [Interface],
}

#[derive(Clone, Copy, Debug)]
enum Format {
    Pcap { parse: ParsePcap, header: u64, nanoseconds: bool, big_endian: bool },
    Pcapng { big_endian: bool },
}

type ParsePcap = fn(&[u8]) -> IResult<&[u8], LegacyPcapBlock<'_>, pcap_parser::PcapError<&[u8]>>;

/// A frame's record, without its octets, which stay in the reader's buffer.
struct Found {
    interface: usize,
    time: Option<Duration>,
    original: usize,
    octets: std::ops::Range<usize>,
}

/// Reads a capture.
#[derive(Debug)]
pub struct CaptureReader<R> {
    source: R,
    format: Format,
    interfaces: Vec<Interface>,
    /// The record in work, and where it begins.
    record: Vec<u8>,
    offset: u64,
    frames: u64,
}

impl<R: Read> CaptureReader<R> {
    /// Reads the header of a capture.
    ///
    /// # Errors
    /// [`CaptureError::NoCapture`], [`CaptureError::Unreadable`].
    pub fn new(mut source: R) -> Result<Self, CaptureError> {
        let mut record = Vec::with_capacity(1 << 16);
        let unreadable = |source| CaptureError::Unreadable { offset: 0, source };
        source.by_ref().take(24).read_to_end(&mut record).map_err(unreadable)?;
        let hint = match record[..] {
            [] => " (it is empty)",
            [0x1f, 0x8b, ..] => " (it is compressed: unpack it with gunzip)",
            [0x28, 0xb5, 0x2f, 0xfd, ..] => " (it is compressed: unpack it with unzstd)",
            _ => "",
        };
        let (format, interfaces) = if record.starts_with(&PCAPNG) {
            (Format::Pcapng { big_endian: false }, Vec::new())
        } else {
            let (_, header) = parse_pcap_header(&record).map_err(|_| CaptureError::NoCapture { hint })?;
            (pcap_format(&header), vec![pcap_interface(&header)])
        };
        let mut reader = Self { source, format, interfaces, record, offset: 0, frames: 0 };
        if matches!(reader.format, Format::Pcap { .. }) {
            reader.next_record();
        }
        Ok(reader)
    }

    /// Octets that have been read.
    pub const fn offset(&self) -> u64 {
        self.offset
    }

    /// The next frame, `None` at the end.
    ///
    /// # Errors
    /// [`CaptureError`]: nothing can be read behind it.
    pub fn next_frame(&mut self) -> Result<Option<Captured<'_>>, CaptureError> {
        let found = match self.format {
            Format::Pcap { parse, header, nanoseconds, big_endian } => {
                self.pcap_record(parse, header, nanoseconds, big_endian)?
            }
            Format::Pcapng { .. } => self.pcapng_blocks()?,
        };
        let Some(Found { interface, time, original, octets }) = found else { return Ok(None) };
        self.frames += 1;
        let octets = &self.record[octets];
        Ok(Some(Captured {
            number: self.frames,
            interface,
            time,
            original,
            octets,
            interfaces: &self.interfaces,
        }))
    }

    fn broken(&self, what: impl Into<String>) -> CaptureError {
        CaptureError::Broken { offset: self.offset, frames: self.frames, what: what.into() }
    }

    /// Puts the record in work behind itself.
    fn next_record(&mut self) {
        self.offset += self.record.len() as u64;
        self.record.clear();
    }

    /// Reads until the record in work has so many octets; false if the file ends before its first one.
    fn fill(&mut self, octets: u64) -> Result<bool, CaptureError> {
        let missing = octets.saturating_sub(self.record.len() as u64);
        let unreadable = |source| CaptureError::Unreadable { offset: self.offset, source };
        self.source.by_ref().take(missing).read_to_end(&mut self.record).map_err(unreadable)?;
        match self.record.len() as u64 {
            0 => Ok(octets == 0),
            there if there < octets => Err(CaptureError::Cut { offset: self.offset, frames: self.frames }),
            _ => Ok(true),
        }
    }

    fn pcap_record(
        &mut self,
        parse: ParsePcap,
        header: u64,
        nanoseconds: bool,
        big_endian: bool,
    ) -> Result<Option<Found>, CaptureError> {
        self.next_record();
        if !self.fill(header)? {
            return Ok(None);
        }
        let captured = number(&self.record, 8, big_endian).unwrap_or(u32::MAX);
        self.bounded(u64::from(captured))?;
        self.fill(header + u64::from(captured))?;
        let (_, block) = parse(&self.record).map_err(|_| self.broken("a record that contradicts itself"))?;
        let scale = if nanoseconds { 1 } else { 1000 };
        let fraction = Duration::from_nanos(u64::from(block.ts_usec) * scale);
        let time = Duration::from_secs(block.ts_sec.into()) + fraction;
        let original = (block.origlen as usize).max(block.data.len());
        let octets = self.record.len() - block.data.len()..self.record.len();
        Ok(Some(Found { interface: 0, time: Some(time), original, octets }))
    }

    fn bounded(&self, octets: u64) -> Result<(), CaptureError> {
        if octets > LONGEST_RECORD {
            return Err(self.broken(format!("a record of {octets} octets")));
        }
        Ok(())
    }

    /// Reads blocks up to the next one with a frame.
    fn pcapng_blocks(&mut self) -> Result<Option<Found>, CaptureError> {
        loop {
            // The first block's beginning has been read to know the format by.
            if self.offset > 0 || self.record.len() > 24 {
                self.next_record();
            }
            if !self.fill(12)? {
                return Ok(None);
            }
            let Format::Pcapng { big_endian } = &mut self.format else { return Ok(None) };
            if self.record.starts_with(&PCAPNG) {
                match self.record[8..12] {
                    [0x1a, 0x2b, 0x3c, 0x4d] => *big_endian = true,
                    [0x4d, 0x3c, 0x2b, 0x1a] => *big_endian = false,
                    _ => return Err(self.broken("a section header without byte order")),
                }
                self.interfaces.clear();
            }
            let big_endian = *big_endian;
            let least = if self.record.starts_with(&PCAPNG) { 28 } else { 12 };
            let kind = number(&self.record, 0, big_endian).unwrap_or_default();
            let length = number(&self.record, 4, big_endian).unwrap_or_default();
            if length < least || !length.is_multiple_of(4) {
                return Err(self.broken(format!("a block of {length} octets")));
            }
            self.bounded(length.into())?;
            self.fill(length.into())?;
            if number(&self.record, length as usize - 4, big_endian) != Some(length) {
                return Err(self.broken("a block whose two lengths differ"));
            }
            match kind {
                INTERFACE_DESCRIPTION => self.interface(big_endian)?,
                ENHANCED_PACKET => return self.enhanced_packet(big_endian).map(Some),
                SIMPLE_PACKET => return self.simple_packet(big_endian).map(Some),
                _ => {}
            }
        }
    }

    fn interface(&mut self, big_endian: bool) -> Result<(), CaptureError> {
        let parse =
            if big_endian { parse_interfacedescriptionblock_be } else { parse_interfacedescriptionblock_le };
        let (_, block) = parse(&self.record).map_err(|_| self.broken("a wrong interface description"))?;
        let interface = pcapng_interface(&block, big_endian);
        if self.interfaces.len() == INTERFACES {
            return Err(self.broken(format!("more than {INTERFACES} interfaces")));
        }
        self.interfaces.push(interface);
        Ok(())
    }

    fn enhanced_packet(&self, big_endian: bool) -> Result<Found, CaptureError> {
        let parse = if big_endian { parse_enhancedpacketblock_be } else { parse_enhancedpacketblock_le };
        let (_, block) = parse(&self.record).map_err(|_| self.broken("a wrong packet block"))?;
        let EnhancedPacketBlock { if_id, ts_high, ts_low, origlen, .. } = block;
        let Some(interface) = self.interfaces.get(if_id as usize) else {
            return Err(self.broken(format!("a frame of interface {if_id}, which is not described")));
        };
        let units = u64::from(ts_high) << 32 | u64::from(ts_low);
        let captured = block.packet_data().len();
        Ok(Found {
            interface: if_id as usize,
            time: interface.time(units),
            original: captured.max(origlen as usize),
            octets: 28..28 + captured,
        })
    }

    fn simple_packet(&self, big_endian: bool) -> Result<Found, CaptureError> {
        let parse = if big_endian { parse_simplepacketblock_be } else { parse_simplepacketblock_le };
        let (_, block) = parse(&self.record).map_err(|_| self.broken("a wrong packet block"))?;
        let Some(interface) = self.interfaces.first() else {
            return Err(self.broken("a frame before any interface is described"));
        };
        let SimplePacketBlock { origlen, data, .. } = block;
        let kept = if interface.snaplen == 0 { u32::MAX } else { interface.snaplen };
        let captured = data.len().min(origlen.min(kept) as usize);
        Ok(Found { interface: 0, time: None, original: origlen as usize, octets: 12..12 + captured })
    }
}

impl Captured<'_> {
    /// Returns the interface on which it was captured.
    pub fn place(&self) -> Option<&Interface> {
        self.interfaces.get(self.interface)
    }
}

impl Interface {
    /// The time that so many units are, if it can be.
    fn time(&self, units: u64) -> Option<Duration> {
        let per_second = self.resolution?;
        let nanoseconds = u128::from(units).checked_mul(1_000_000_000)? / per_second;
        let offset = i128::from(self.seconds).checked_mul(1_000_000_000)?;
        let nanoseconds = i128::try_from(nanoseconds).ok()?.checked_add(offset)?;
        Some(Duration::from_nanos(u64::try_from(nanoseconds).ok()?))
    }
}

fn number(octets: &[u8], at: usize, big_endian: bool) -> Option<u32> {
    let octets = *octets.get(at..)?.first_chunk()?;
    Some(if big_endian { u32::from_be_bytes(octets) } else { u32::from_le_bytes(octets) })
}

fn pcap_format(header: &PcapHeader) -> Format {
    let (nanoseconds, big_endian) = (header.is_nanosecond_precision(), header.is_bigendian());
    let (parse, header): (ParsePcap, _) = if header.is_modified_format() {
        (parse_pcap_frame_modified, 24)
    } else if big_endian {
        (parse_pcap_frame_be, 16)
    } else {
        (parse_pcap_frame, 16)
    };
    Format::Pcap { parse, header, nanoseconds, big_endian }
}

fn pcap_interface(header: &PcapHeader) -> Interface {
    // Bit 26: the topmost four bits count the FCS in units of 16 bits.
    let network = header.network.0 as u32;
    let fcs = if network & 1 << 26 != 0 { (network >> 28) as usize * 2 } else { 0 };
    Interface { name: None, linktype: network as u16, snaplen: 0, fcs, resolution: None, seconds: 0 }
}

fn pcapng_interface(block: &InterfaceDescriptionBlock<'_>, big_endian: bool) -> Interface {
    let option = |code| block.options.iter().find(|option| option.code == OptionCode(code));
    let octet = |code| option(code).and_then(|option| option.value().first().copied());
    let resolution = match octet(9) {
        None => Some(1_000_000),
        Some(power @ 0x80..) => 1_u128.checked_shl((power & 0x7f).into()),
        Some(power) => 10_u128.checked_pow(power.into()),
    };
    let seconds = option(14)
        .and_then(|option| option.value().first_chunk().copied())
        .map(|octets| if big_endian { i64::from_be_bytes(octets) } else { i64::from_le_bytes(octets) });
    let name = block.if_name().and_then(Result::ok).map(|name| name.trim_end_matches('\0').to_owned());
    Interface {
        name: name.filter(|name| !name.is_empty()),
        linktype: block.linktype.0 as u16,
        snaplen: block.snaplen,
        // Octets in most files, bits in the words of the format's draft.
        fcs: if matches!(octet(13), Some(4 | 32)) { 4 } else { 0 },
        resolution,
        seconds: seconds.unwrap_or(0),
    }
}
