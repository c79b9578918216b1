//! Frames taken apart for a tunnel go together again; headers and flows that parse encode to the same octets.

use wire::tunnel::{Flow, HEADER_OCTETS, Header, ParseFrameError, ParsedFrame};

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
            assert_eq!(Flow::parse(&taken.flow.encode()), Some(taken.flow));
            assert_eq!(taken.flow.sci().is_some(), octets[14] & 0x20 != 0);
            assert_eq!(prefix, if octets[14] & 0x20 != 0 { 28 } else { 20 });
        }
        Err(ParseFrameError::Truncated) => assert!(octets.len() < 28),
        Err(ParseFrameError::NotMacsec) => assert_ne!(octets[12..14], [0x88, 0xe5]),
        Err(ParseFrameError::Version) => assert_ne!(octets[14] & 0x80, 0),
    }
    if let Some(header) = octets.first_chunk::<HEADER_OCTETS>() {
        match Header::parse(*header) {
            Ok(parsed) => assert_eq!(parsed.encode(), *header),
            Err(_) => assert!(header[6] >> 4 > 4),
        }
    }
    if let Some(flow) = octets.first_chunk::<{ Flow::OCTETS }>()
        && let Some(parsed) = Flow::parse(flow)
    {
        assert_eq!(parsed.encode(), *flow);
    }
}
