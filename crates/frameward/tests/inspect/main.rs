//! `frameward inspect` over captures: those of other implementations, those of our own gateways, and broken ones.
#![expect(clippy::unwrap_used, reason = "the helpers of tests are tests too")]

#[path = "../../../secy/tests/ends/mod.rs"]
mod ends;

mod captures;
mod command;
mod fixtures;
mod key_agreement;
mod reasons;
mod wireshark;

use std::io::Cursor;
use std::path::Path;
use std::time::Duration;

use config::sa_file;
use diagnosis::inspect::frame_report::{FrameReport, FrameVerdict};
use diagnosis::inspect::keys::{self, KeyedSa, Keyring, Overrides};
use diagnosis::inspect::trail::Summary;
use diagnosis::inspect::{Inspector, Options};
use pcap_file::pcap::{PcapHeader, PcapPacket, PcapWriter};
use pcap_file::pcapng::PcapNgWriter;
use pcap_file::pcapng::blocks::enhanced_packet::EnhancedPacketBlock;
use pcap_file::pcapng::blocks::interface_description::{
    InterfaceDescriptionBlock, InterfaceDescriptionOption,
};
use pcap_file::{DataLink, Endianness, TsResolution};

/// A frame to be captured: microseconds, and its octets.
type Timed = (u64, Vec<u8>);

/// Frames, one each millisecond.
fn timed(frames: &[Vec<u8>]) -> Vec<Timed> {
    frames.iter().enumerate().map(|(index, frame)| (index as u64 * 1000, frame.clone())).collect()
}

fn pcap(frames: &[Timed]) -> Vec<u8> {
    pcap_as(frames, Endianness::Little, TsResolution::MicroSecond)
}

fn pcap_as(frames: &[Timed], endianness: Endianness, ts_resolution: TsResolution) -> Vec<u8> {
    let header =
        PcapHeader { endianness, ts_resolution, datalink: DataLink::ETHERNET, ..PcapHeader::default() };
    let mut writer = PcapWriter::with_header(Vec::new(), header).unwrap();
    for (microseconds, octets) in frames {
        let time = Duration::from_micros(1_700_000_000_000_000 + microseconds);
        writer.write_packet(&PcapPacket::new(time, octets.len() as u32, octets)).unwrap();
    }
    writer.into_writer()
}

/// A pcapng with two interfaces of different resolution; frames come in turn from the interface that `on` says.
fn pcapng(frames: &[Timed], endianness: Endianness, on: impl Fn(usize) -> u32) -> Vec<u8> {
    let mut writer = PcapNgWriter::with_endianness(Vec::new(), endianness).unwrap();
    for (name, resolution) in [("here", 6), ("there", 9)] {
        let mut block = InterfaceDescriptionBlock::new(DataLink::ETHERNET, 0);
        block.options.push(InterfaceDescriptionOption::IfName(name.into()));
        block.options.push(InterfaceDescriptionOption::IfTsResol(resolution));
        writer.write_pcapng_block(block).unwrap();
    }
    for (index, (microseconds, octets)) in frames.iter().enumerate() {
        let interface_id = on(index);
        let units = 1_700_000_000_000_000 + microseconds;
        writer
            .write_pcapng_block(EnhancedPacketBlock {
                interface_id,
                // The crate writes nanoseconds as units.
                timestamp: Duration::from_nanos(if interface_id == 0 { units } else { units * 1000 }),
                original_len: octets.len() as u32,
                data: octets.into(),
                options: Vec::new(),
            })
            .unwrap();
    }
    writer.into_inner()
}

/// The SAs of a file with this text.
fn sas(text: &str) -> Vec<KeyedSa> {
    let read = |path: &Path, _| panic!("no key file is read: {}", path.display());
    let files = config::KeyFiles {
        key: &read,
        cak: &config::key_file::read_cak,
        identity: &config::key_file::read_identity,
        master_key: &config::key_file::read_master_key,
    };
    keys::keyed(sa_file::parse(Path::new("keys.toml"), text, files).unwrap(), Overrides::default()).sas
}

/// The SA that `ends` sends with: A's, AN 0, a key of zeros.
const ENDS: &str = r#"
    [[sa]]
    suite = "gcm-aes-128"
    sci = "02:00:00:00:00:0a/1"
    an = 0
    key = "00000000000000000000000000000000"
"#;

/// Result of an inspection: the report of each frame, its SDUs, and the summary.
struct Told {
    frames: Vec<(FrameReport, Vec<Vec<u8>>)>,
    summary: Summary,
}

impl Told {
    fn verdicts(&self) -> Vec<FrameVerdict> {
        self.frames.iter().map(|(report, _)| report.verdict).collect()
    }

    fn sdus(&self) -> Vec<Vec<u8>> {
        self.frames.iter().flat_map(|(_, sdus)| sdus.clone()).collect()
    }

    /// Counter, reason and notes of a frame, counted from 0.
    fn why(&self, frame: usize) -> String {
        let FrameReport { counter, reason, notes, .. } = &self.frames[frame].0;
        let reason = reason.as_deref().unwrap_or("fine");
        [&[format!("{}: {reason}", counter.unwrap_or("-"))], &notes[..]].concat().join("; ")
    }
}

fn inspect(capture: &[u8], keys: Option<Vec<KeyedSa>>) -> Told {
    inspect_with(capture, keys.map(|sas| Keyring { sas, ..Keyring::default() }))
}

fn inspect_with(capture: &[u8], keys: Option<Keyring>) -> Told {
    let mut frames = Vec::new();
    let options = Options { keys, copies: Duration::from_millis(5), fcs: false };
    let summary = Inspector::new(options)
        .run(Cursor::new(capture), |inspected| {
            frames.push((
                inspected.report.clone(),
                inspected.sdus.iter().map(|sdu| sdu.octets.clone()).collect(),
            ));
            true
        })
        .unwrap();
    Told { frames, summary }
}
