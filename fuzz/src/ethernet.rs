//! A header that parses lies inside the frame, says what the frame's octets say, and is truncated at every cut.

use wire::ethernet::{Header, VLAN_TAG_OCTETS, VLAN_TAGS};

/// Parses `octets` as a frame.
///
/// # Panics
/// If the parser is wrong.
pub fn run(octets: &[u8]) {
    let Ok(header) = Header::parse(octets) else {
        assert!(octets.len() < 14 + VLAN_TAGS * VLAN_TAG_OCTETS, "a long frame has a whole header");
        return;
    };
    assert_eq!(header.octets(), 14 + header.vlan_tags * VLAN_TAG_OCTETS);
    assert_eq!(header.destination.0, octets[..6]);
    assert_eq!(header.source.0, octets[6..12]);
    let ethertype_at = |tags: usize| {
        let at = 12 + tags * VLAN_TAG_OCTETS;
        u16::from_be_bytes([octets[at], octets[at + 1]])
    };
    let is_vlan = |ethertype| matches!(ethertype, 0x8100 | 0x88a8);
    assert_eq!(header.ethertype.0, ethertype_at(header.vlan_tags));
    assert!((0..header.vlan_tags).all(|tag| is_vlan(ethertype_at(tag))));
    assert!(header.vlan_tags == VLAN_TAGS || !is_vlan(header.ethertype.0));
    for cut in 0..header.octets() {
        assert!(Header::parse(&octets[..cut]).is_err(), "cut to {cut} octets");
    }
    assert_eq!(Header::parse(&octets[..header.octets()]), Ok(header), "nothing behind it counts");
}
