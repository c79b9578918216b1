//! Expected length of an SA's next frames.
//!
//! ```text
//!  all frames   the last eight                       GOOSE 0x88b8 | APPID 2    IEC 61850-8-1
//!  streams      the last eight of each, by           SV    0x88ba | APPID 2    IEC 61850-9-2
//!               DA | SA | EtherType | identifier     PROFINET 0x8892 | FrameID 2
//! ```
//!
//! A keystream is as long as the longest of these. A stream repeats its length: GOOSE tells a state again and again, Sampled
//! Values and cyclic frames are always as long. But it may speak seldom beside others: a GOOSE message each second is
//! forgotten among 4000 shorter Sampled Values if the last eight frames are all that counts.
//!
//! Known streams: [`STREAMS`] at most. Another one takes the place of that which was silent the longest. Who invents streams
//! makes keystreams longer or shorter than need be, and nothing else.

use core::array;

use suite::LengthPredictor;
use wire::EtherType;
use wire::ethernet::{ADDRESSES_OCTETS, VLAN_TAG_OCTETS, VLAN_TAGS};

/// Streams of an SA whose lengths are known.
const STREAMS: usize = 16;
/// Octets of a SecTAG without and with SCI.
const SECTAG_OCTETS: [usize; 2] = [8, 16];

/// Knowledge of the lengths of an SA's frames.
#[derive(Debug)]
pub(super) struct ExpectedLength {
    all: LengthPredictor,
    streams: [Stream; STREAMS],
    /// Frames of streams so far.
    heard: u64,
}

/// A stream; none if nothing was heard of it.
#[derive(Default, Debug)]
struct Stream {
    id: StreamId,
    lengths: LengthPredictor,
    /// [`ExpectedLength::heard`] at its last frame; 0: there is no stream here.
    last: u64,
}

/// `DA 6 | SA 6 | EtherType 2 | APPID or FrameID 2`
type StreamId = u128;

impl ExpectedLength {
    /// Before the first frame.
    pub(super) fn new() -> Self {
        Self { all: LengthPredictor::new(), streams: array::from_fn(|_| Stream::default()), heard: 0 }
    }

    /// Records a frame: its text in clear. Work: a look at each stream.
    pub(super) fn observe(&mut self, aad: &[u8], text: &[u8]) {
        self.all.observe(text.len());
        let Some(id) = stream_of(aad, text) else { return };
        self.heard += 1;
        let known = self.streams.iter().position(|stream| stream.id == id && stream.last != 0);
        let silent = || (0..STREAMS).min_by_key(|&at| self.streams[at].last).unwrap_or(0);
        let at = known.unwrap_or_else(silent);
        let stream = &mut self.streams[at];
        if known.is_none() {
            *stream = Stream { id, ..Stream::default() };
        }
        stream.lengths.observe(text.len());
        stream.last = self.heard;
    }

    /// Length that the next frame hardly exceeds, in octets; `None` before the first.
    pub(super) fn at_most(&self) -> Option<usize> {
        let streams = self.streams.iter().map(|stream| &stream.lengths);
        streams.chain([&self.all]).filter_map(|lengths| Some(lengths.predict()?.at_most)).max()
    }
}

/// The stream of a frame, if it is of one: without a confidentiality offset, and without extension headers, since these
/// stand where there are several SDUs or parts of them.
fn stream_of(aad: &[u8], text: &[u8]) -> Option<StreamId> {
    let addresses = aad.first_chunk::<ADDRESSES_OCTETS>()?;
    if !SECTAG_OCTETS.contains(&(aad.len() - ADDRESSES_OCTETS)) {
        return None;
    }
    let mut rest = text;
    for _ in 0..=VLAN_TAGS {
        let &[high, low, first, second] = rest.first_chunk()?;
        match EtherType(u16::from_be_bytes([high, low])) {
            EtherType::GOOSE | EtherType::SAMPLED_VALUES | EtherType::PROFINET => {
                let mut id = [0; size_of::<StreamId>()];
                id[..ADDRESSES_OCTETS].copy_from_slice(addresses);
                id[ADDRESSES_OCTETS..].copy_from_slice(&[high, low, first, second]);
                return Some(StreamId::from_be_bytes(id));
            }
            tag if tag.is_vlan() => rest = rest.get(VLAN_TAG_OCTETS..)?,
            _ => return None,
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;
    use alloc::vec::Vec;

    const AAD: [u8; 28] = [3; 28];

    fn text(beginning: &[u8], octets: usize) -> Vec<u8> {
        let mut text = vec![0; octets];
        text[..beginning.len()].copy_from_slice(beginning);
        text
    }

    #[test]
    fn streams_are_told_by_addresses_ethertype_and_identifier() {
        let goose = [0x88, 0xb8, 0, 1];
        let id = stream_of(&AAD, &goose).expect("a stream");
        let tagged = [0x81, 0, 0x80, 0, 0x88, 0xb8, 0, 1];
        let twice = [0x88, 0xa8, 0, 1, 0x81, 0, 0x80, 0, 0x88, 0xb8, 0, 1];
        assert_eq!(stream_of(&AAD[..20], &goose), Some(id), "a SecTAG without SCI");
        assert_eq!([stream_of(&AAD, &tagged), stream_of(&AAD, &twice)], [Some(id); 2]);
        let mut other = AAD;
        other[11] = 4;
        for (aad, text) in [
            (&AAD, [0x88, 0xb8, 0, 2]),
            (&AAD, [0x88, 0xba, 0, 1]),
            (&AAD, [0x88, 0x92, 0, 1]),
            (&other, goose),
        ] {
            assert!(stream_of(aad, &text).is_some_and(|found| found != id), "{text:02x?}");
        }
        let thrice = [&[0x81, 0, 0, 1], &twice[..]].concat();
        for text in [&[0x08, 0, 0x45, 0][..], &goose[..3], &tagged[..7], &thrice, &[]] {
            assert_eq!(stream_of(&AAD, text), None, "{text:02x?}");
        }
        // Part of the SDU in clear; extension headers; no whole SecTAG.
        for aad in [&[3; 58][..], &[3; 30], &[3; 19], &[3; 11], &[]] {
            assert_eq!(stream_of(aad, &goose), None, "{}", aad.len());
        }
    }

    #[test]
    fn a_stream_is_remembered_until_others_take_its_place() {
        let mut expected = ExpectedLength::new();
        assert_eq!(expected.at_most(), None);
        let of = |app: u8, octets| text(&[0x88, 0xb8, 0, app], octets);
        expected.observe(&AAD, &of(0, 300));
        let short = |expected: &mut ExpectedLength| {
            (0..100).for_each(|_| expected.observe(&AAD, &text(&[0x08, 0], 60)));
            expected.at_most()
        };
        assert_eq!(short(&mut expected), Some(300));
        for app in 1..STREAMS as u8 {
            expected.observe(&AAD, &of(app, 100));
        }
        assert_eq!(short(&mut expected), Some(300), "there is room for all");
        // Heard again, so another one is the most silent.
        expected.observe(&AAD, &of(0, 290));
        expected.observe(&AAD, &of(99, 100));
        assert_eq!(short(&mut expected), Some(300));
        // Of a stream the last eight count.
        (0..8).for_each(|_| expected.observe(&AAD, &of(0, 200)));
        assert_eq!(short(&mut expected), Some(200));
        for app in 100..100 + STREAMS as u8 {
            expected.observe(&AAD, &of(app, 100));
        }
        assert_eq!(short(&mut expected), Some(100));
    }
}
