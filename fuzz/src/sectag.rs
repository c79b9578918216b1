//! A SecTAG that parses encodes to the same octets, and its secure data lies inside the frame.

use wire::{EtherType, SecTag};

/// Parses `octets` as what follows a frame's addresses.
///
/// # Panics
/// If the parser is wrong.
pub fn run(octets: &[u8]) {
    let Ok(tag) = SecTag::parse(octets) else { return };
    let mut encoded = [0xaa; 17];
    tag.encode(&mut encoded);
    assert_eq!(encoded[..2], EtherType::MACSEC.0.to_be_bytes());
    assert_eq!(encoded[2..tag.octets()], octets[2..tag.octets()], "the EtherType alone is not looked at");
    assert_eq!(encoded[tag.octets()], 0xaa, "nothing is written behind the tag");
    assert_eq!(SecTag::parse(&encoded[..tag.octets()]), Ok(tag));
    let (tci, length) = (octets[2], octets[3]);
    assert_eq!(tci & 0x80, 0, "version");
    assert!(tci & 0x20 == 0 || tci & 0x50 == 0, "SC with ES or SCB");
    assert!(tci & 0x0c != 0x08, "E without C");
    assert_eq!((tag.extended, tag.more_fragments), (length & 0x80 != 0, length & 0x40 != 0));
    let length = length & 0x3f;
    assert!(matches!(length, 0 | 2..=47) || (length == 1 && tag.extended), "SL {length}");
    let behind = octets.len() - tag.octets();
    match tag.secure_data_octets(behind) {
        Ok(data) if length == 0 => assert!(data >= 48 && data + 16 == behind),
        Ok(data) => assert!(data == usize::from(length) && data + 16 <= behind),
        Err(_) => assert!(behind < 16 + if length == 0 { 48 } else { usize::from(length) }),
    }
}
