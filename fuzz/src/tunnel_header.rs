//! Frames taken apart for a tunnel go together again; headers and flows that parse encode to the same octets.

use wire::ethernet::Header as EthernetHeader;
use wire::tunnel::{Flow, HEADER_OCTETS, Header, OuterTags, ParseFrameError, ParsedFrame};

/// Parses `octets` as a frame, as the header of a packet and as an encoded flow.
///
/// # Panics
/// If a parser is wrong.
pub fn run(octets: &[u8]) {
    match ParsedFrame::parse(octets) {
        Ok(taken) => {
            let prefix = taken.flow.prefix_octets();
            let mut again = vec![0xaa; prefix + 1];
            taken.encode_prefix(&mut again);
            assert_eq!(again[..prefix], octets[..prefix]);
            assert_eq!(again[prefix], 0xaa, "nothing is written behind the SecTAG");
            let tags = taken.flow.tags;
            let untagged = taken.flow.with_tags(OuterTags::default());
            assert_eq!(Flow::parse(&taken.flow.encode()), Some(untagged));
            let tagged = Flow::parse_tagged(&taken.flow.encode_tagged());
            assert_eq!(tagged, Some(taken.flow).filter(|_| !tags.is_empty()));
            let tci = octets[14 + tags.octets()];
            assert_eq!(taken.flow.sci().is_some(), tci & 0x20 != 0);
            assert_eq!(prefix, tags.octets() + if tci & 0x20 != 0 { 28 } else { 20 });
        }
        Err(ParseFrameError::Truncated) => assert!(octets.len() < 36),
        Err(ParseFrameError::NotMacsec) => assert_ne!(octets[12..14], [0x88, 0xe5]),
        Err(ParseFrameError::Version) => {
            let header = EthernetHeader::parse(octets).expect("invariant: MACsec behind at most two tags");
            assert_ne!(octets[header.octets()] & 0x80, 0);
        }
    }
    if let Ok(taken) = ParsedFrame::parse_cyclic(octets, wire::fieldbus::ETHERTYPE) {
        let prefix = taken.flow.prefix_octets();
        let mut again = vec![0xaa; prefix + 1];
        taken.encode_prefix(&mut again);
        assert_eq!((&again[..prefix], again[prefix]), (&octets[..prefix], 0xaa));
        assert_eq!((taken.flow.cyclic(), taken.flow.sci()), (Some(wire::fieldbus::ETHERTYPE), None));
        assert!(ParsedFrame::parse(octets).is_err());
    }
    if let Some(header) = octets.first_chunk::<HEADER_OCTETS>() {
        match Header::parse(*header) {
            Ok(parsed) => assert_eq!(parsed.encode(), *header),
            Err(_) => assert!(header[6] >> 4 > 6),
        }
    }
    if let Some(flow) = octets.first_chunk::<{ Flow::OCTETS }>()
        && let Some(parsed) = Flow::parse(flow)
    {
        assert_eq!(parsed.encode(), *flow);
    }
    if let Some(flow) = octets.first_chunk::<{ Flow::TAGGED_OCTETS }>()
        && let Some(parsed) = Flow::parse_tagged(flow)
    {
        assert_eq!(parsed.encode_tagged(), *flow);
    }
}
