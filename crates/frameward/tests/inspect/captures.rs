//! Captures as files: both formats and byte orders, cut, broken, and anything at all.

use diagnosis::inspect::capture::{CaptureError, CaptureReader};
use diagnosis::inspect::frame_report::FrameVerdict;
use pcap_file::{Endianness, TsResolution};
use proptest::prelude::*;

use super::ends::{A, SETTINGS, protected, sdus, sender};
use super::{ENDS, inspect, pcap, pcap_as, pcapng, sas, timed};

fn frames() -> Vec<Vec<u8>> {
    protected(&mut sender(A, SETTINGS, suite::CipherSuite::GcmAes128, 1), &sdus(3, 100))
}

/// Number, interface, nanoseconds since 1970 and octets of a frame.
type Read = (u64, usize, u128, Vec<u8>);

/// The frames, and how the capture ends.
fn read(capture: &[u8]) -> (Vec<Read>, Option<String>) {
    let mut frames = Vec::new();
    let mut reader = match CaptureReader::new(capture) {
        Ok(reader) => reader,
        Err(error) => return (frames, Some(error.to_string())),
    };
    loop {
        match reader.next_frame() {
            Ok(Some(frame)) => {
                let time = frame.time.map_or(0, |time| time.as_nanos());
                frames.push((frame.number, frame.interface, time, frame.octets.to_vec()));
            }
            Ok(None) => return (frames, None),
            Err(error) => return (frames, Some(error.to_string())),
        }
    }
}

#[test]
fn every_form_reads_alike() {
    let frames = timed(&frames());
    let expected: Vec<_> = frames
        .iter()
        .enumerate()
        .map(|(index, (at, octets))| {
            (index as u64 + 1, (1_700_000_000_000_000 + u128::from(*at)) * 1000, octets.clone())
        })
        .collect();
    for endianness in [Endianness::Little, Endianness::Big] {
        for capture in [
            pcap_as(&frames, endianness, TsResolution::MicroSecond),
            pcap_as(&frames, endianness, TsResolution::NanoSecond),
            pcapng(&frames, endianness, |index| index as u32 % 2),
        ] {
            let (read, end) = read(&capture);
            assert_eq!(end, None);
            let read: Vec<_> =
                read.into_iter().map(|(number, _, time, octets)| (number, time, octets)).collect();
            assert_eq!(read, expected);
        }
    }
}

#[test]
fn a_capture_that_is_cut_shows_what_stands_before() {
    let frames = timed(&frames());
    for whole in [pcap(&frames), pcapng(&frames, Endianness::Big, |_| 0)] {
        let all = read(&whole).0;
        for end in 0..whole.len() {
            let (before, told) = read(&whole[..end]);
            assert_eq!(before[..], all[..before.len()], "{end}");
            let Some(told) = told else { continue };
            assert!(
                told.starts_with("ends in the middle of a record") || told.starts_with("is not a capture"),
                "{end}: {told}"
            );
        }
    }
    let whole = pcap(&frames);
    let (before, told) = read(&whole[..whole.len() - 1]);
    let offset = whole.len() - 16 - frames[2].1.len();
    assert_eq!(before.len(), 2);
    assert_eq!(
        told.unwrap(),
        format!(
            "ends in the middle of a record at octet {offset}, behind frame 2; the frames before it were read"
        )
    );
    assert_eq!(inspect(&whole[..whole.len() - 1], None).summary.frames, 2);
}

#[test]
fn a_broken_capture_names_the_octet() {
    let frames = timed(&frames());
    let mut capture = pcap(&frames);
    let second = 24 + 16 + frames[0].1.len();
    capture[second + 8..second + 12].copy_from_slice(&u32::MAX.to_le_bytes());
    let (before, told) = read(&capture);
    assert_eq!(before.len(), 1);
    assert_eq!(
        told.unwrap(),
        format!(
            "is broken at octet {second}, behind frame 1: a record of 4294967295 octets; the frames before it were read"
        )
    );
    let whole = pcapng(&frames, Endianness::Little, |_| 1);
    let last = u32::from_le_bytes(*whole.last_chunk().unwrap()) as usize;
    let mut capture = whole.clone();
    capture[whole.len() - 4] ^= 4;
    assert!(read(&capture).1.unwrap().contains("behind frame 2: a block whose two lengths differ"));
    let mut capture = whole.clone();
    capture[whole.len() - last + 8] = 7;
    assert!(read(&capture).1.unwrap().contains("a frame of interface 7, which is not described"));
    for (octets, hint) in [
        (&b""[..], " (it is empty)"),
        (&[0x1f, 0x8b, 8, 0, 0, 0], " (it is compressed: unpack it with gunzip)"),
        (&[b'x'; 100], ""),
    ] {
        let expected = format!(
            "is not a capture: it begins with neither a pcap nor a pcapng header{hint}; name a capture"
        );
        assert_eq!(read(octets).1.unwrap(), expected);
    }
}

#[test]
fn a_section_header_that_is_too_short_ends_it() {
    let mut capture = pcapng(&timed(&frames()), Endianness::Little, |_| 0);
    capture[4..8].copy_from_slice(&12_u32.to_le_bytes());
    assert!(matches!(
        CaptureReader::new(&capture[..]).unwrap().next_frame(),
        Err(CaptureError::Broken { offset: 0, frames: 0, .. })
    ));
}

#[test]
fn frames_that_a_snaplen_cut_are_said_to_be() {
    let frames = timed(&frames());
    let mut capture = Vec::new();
    {
        use pcap_file::pcap::{PcapHeader, PcapWriter, RawPcapPacket};
        let mut writer = PcapWriter::with_header(&mut capture, PcapHeader::default()).unwrap();
        for (_, octets) in &frames {
            let data = std::borrow::Cow::Borrowed(&octets[..60]);
            let packet =
                RawPcapPacket { ts_sec: 1, ts_frac: 0, incl_len: 60, orig_len: octets.len() as u32, data };
            writer.write_raw_packet(&packet).unwrap();
        }
    }
    let told = inspect(&capture, None);
    assert_eq!((told.verdicts(), told.summary.cut), (vec![FrameVerdict::Read; 3], 3));
    assert!(told.why(0).ends_with("the capture kept only 60 of its 144 octets"), "{}", told.why(0));
    assert_eq!(told.frames[0].0.secure_data, Some(100));
    let told = inspect(&capture, Some(sas(ENDS)));
    assert!(told.why(0).starts_with("-: cannot be verified: capture whole frames"), "{}", told.why(0));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    /// Whatever stands in a capture: no panic, nothing invented, an end.
    #[test]
    fn anything_may_stand_in_a_capture(
        form in 0..3,
        changes in proptest::collection::vec((any::<proptest::sample::Index>(), any::<u8>()), 0..12),
        end in any::<proptest::sample::Index>(),
    ) {
        let frames = timed(&frames());
        let mut capture = match form {
            0 => pcap(&frames),
            1 => pcapng(&frames, Endianness::Little, |index| index as u32 % 2),
            _ => pcapng(&frames, Endianness::Big, |_| 0),
        };
        for (at, octet) in changes {
            let at = at.index(capture.len());
            capture[at] = octet;
        }
        capture.truncate(capture.len() - end.index(64));
        if CaptureReader::new(&capture[..]).is_ok() {
            let told = inspect(&capture, Some(sas(ENDS)));
            prop_assert!(told.summary.octets <= capture.len() as u64);
            prop_assert_eq!(told.summary.frames, told.frames.len() as u64);
            for (report, sdus) in &told.frames {
                prop_assert_eq!(sdus.is_empty(), report.verdict != FrameVerdict::Ok);
            }
        }
    }
}
