//! The decrypted capture: what a receiver at the place of the capture would have delivered, as a pcapng.
//!
//! An SDU stands there with the time of the frame that completed it; a comment says which frames it came in, of which
//! SC, AN and PNs. All other frames stand there as they were, bad ones with the reason. Keys never do.

use std::borrow::Cow;
use std::io::{self, Write};
use std::time::Duration;

use pcap_file::pcapng::PcapNgWriter;
use pcap_file::pcapng::blocks::enhanced_packet::{EnhancedPacketBlock, EnhancedPacketOption};
use pcap_file::pcapng::blocks::interface_description::{
    InterfaceDescriptionBlock, InterfaceDescriptionOption,
};
use pcap_file::pcapng::blocks::section_header::{SectionHeaderBlock, SectionHeaderOption};
use pcap_file::{DataLink, Endianness, PcapError};

use super::Inspected;
use super::frame_report::{FrameReport, FrameVerdict};
use super::receiver::Sdu;

/// Nanoseconds.
const RESOLUTION: u8 = 9;

/// Writes a decrypted capture.
pub struct Decrypted<W: Write> {
    writer: PcapNgWriter<W>,
    /// The interfaces that are described, by name and link type, and their numbers in the file that is written.
    interfaces: Vec<(Option<String>, u16)>,
}

impl<W: Write> Decrypted<W> {
    /// Begins a capture.
    ///
    /// # Errors
    /// The writer's error.
    pub fn new(writer: W) -> io::Result<Self> {
        let about = concat!("frameward inspect ", env!("CARGO_PKG_VERSION"));
        let section = SectionHeaderBlock {
            endianness: Endianness::Little,
            options: vec![SectionHeaderOption::UserApplication(about.into())],
            ..SectionHeaderBlock::default()
        };
        let writer = PcapNgWriter::with_section_header(writer, section).map_err(system)?;
        Ok(Self { writer, interfaces: Vec::new() })
    }

    /// Writes what became of a frame.
    ///
    /// # Errors
    /// The writer's error.
    pub fn frame(&mut self, inspected: &Inspected<'_>) -> io::Result<()> {
        let report = &inspected.report;
        if report.verdict == FrameVerdict::Ok && report.mkpdu.is_none() {
            return inspected.sdus.iter().try_for_each(|sdu| {
                let octets = Cow::Borrowed(&sdu.octets[..]);
                self.write(inspected, octets, sdu.octets.len(), &source(sdu, report))
            });
        }
        let captured = &inspected.captured;
        self.write(inspected, Cow::Borrowed(captured.octets), captured.original, &as_it_was(report))
    }

    /// The writer, once all is written.
    pub fn into_inner(self) -> W {
        self.writer.into_inner()
    }

    fn write(
        &mut self,
        inspected: &Inspected<'_>,
        data: Cow<'_, [u8]>,
        original: usize,
        comment: &str,
    ) -> io::Result<()> {
        let interface_id = self.interface(inspected)?;
        let block = EnhancedPacketBlock {
            interface_id,
            timestamp: inspected.captured.time.unwrap_or(Duration::ZERO),
            original_len: original as u32,
            data,
            options: vec![EnhancedPacketOption::Comment(comment.into())],
        };
        self.writer.write_pcapng_block(block).map_err(system).map(|_| ())
    }

    /// The number of a frame's interface in the file that is written; described when its first frame comes.
    fn interface(&mut self, inspected: &Inspected<'_>) -> io::Result<u32> {
        let place = inspected.captured.place();
        let name = place.and_then(|place| place.name.clone());
        let linktype = place.map_or(super::ETHERNET, |place| place.linktype);
        let wanted = (name.or_else(|| Some(format!("interface {}", inspected.captured.interface))), linktype);
        if let Some(index) = self.interfaces.iter().position(|interface| *interface == wanted) {
            return Ok(index as u32);
        }
        let mut block = InterfaceDescriptionBlock::new(DataLink::from(u32::from(linktype)), 0);
        block.options.extend(wanted.0.clone().map(|name| InterfaceDescriptionOption::IfName(name.into())));
        block.options.push(InterfaceDescriptionOption::IfTsResol(RESOLUTION));
        self.writer.write_pcapng_block(block).map_err(system)?;
        self.interfaces.push(wanted);
        Ok(self.interfaces.len() as u32 - 1)
    }
}

/// Describes the origin of an SDU: its frames, SC, AN and PNs.
fn source(sdu: &Sdu, report: &FrameReport) -> String {
    let frames: Vec<_> = sdu.frames.iter().map(u64::to_string).collect();
    let plural = |one: &str, many: bool| format!("{one}{}", if many { "s" } else { "" });
    let sci = report.sci.as_deref().unwrap_or("unknown");
    let an = report.sectag.as_ref().map_or(0, |tag| tag.an);
    let pns = match sdu.pns {
        (first, last) if first == last => format!("PN {first}"),
        (first, last) => format!("PN {first} to {last}"),
    };
    let of = plural("frame", frames.len() > 1);
    format!("decrypted: {of} {}; SC {sci} AN {an} {pns}", frames.join(", "))
}

/// Why a frame stands there as it was.
fn as_it_was(report: &FrameReport) -> String {
    let verdict = match report.verdict {
        FrameVerdict::Ok if report.mkpdu.is_some() => "verified MKPDU",
        FrameVerdict::Clear => "in clear",
        FrameVerdict::Copy => "captured twice",
        FrameVerdict::Ok | FrameVerdict::Read => "not decrypted",
        FrameVerdict::Bad => "bad",
    };
    let why = [report.counter, report.reason.as_deref()];
    let notes = report.notes.iter().map(String::as_str);
    let words: Vec<_> = why.into_iter().flatten().chain(notes).collect();
    let colon = if words.is_empty() { "" } else { ": " };
    format!("{verdict}, frame {}{colon}{}", report.frame, words.join("; "))
}

fn system(error: PcapError) -> io::Error {
    match error {
        PcapError::IoError(error) => error,
        other => io::Error::other(other),
    }
}
