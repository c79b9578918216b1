//! Headers of protected cyclic frames, and HELLOs.
//!
//! Promises: no panic; octets that are read and written again are the same; nothing is read behind a HELLO.

use wire::fieldbus::{HELLO_AUTHENTICATED_OCTETS, Header, Hello};

/// Reads `octets` as what stands behind the EtherType.
///
/// # Panics
/// If what was read is not written as it was.
pub fn run(octets: &[u8]) {
    let header = Header::parse(octets);
    if let Ok(header) = header {
        assert_eq!(header.encode(), octets[..wire::fieldbus::HEADER_OCTETS]);
    }
    let Ok((hello, authenticated, mac)) = Hello::parse(octets) else { return };
    let length = authenticated.len() + mac.len();
    assert_eq!(octets[..length], [authenticated, &mac[..]].concat());
    let mut buffer = [0; HELLO_AUTHENTICATED_OCTETS];
    let said = hello.encode(&mut buffer);
    // A HELLO is found by its Seq: what is written has none.
    let mut expected = authenticated.to_vec();
    expected[3..7].fill(0);
    assert_eq!(said, expected);
    assert_eq!(Header::parse(said).map(|header| header.seq), Ok(None));
    let again = [said, &mac[..]].concat();
    assert_eq!(Hello::parse(&again), Ok((hello, said, mac)));
    assert_eq!(Hello::parse(octets), Hello::parse(&octets[..length]));
}
