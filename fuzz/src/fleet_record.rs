//! What a gateway reads of a directory, and an operator of a gateway: whatever octets come, reading them ends, and what is read
//! encodes to itself. The first octet says what the others are taken for.

use fleet::directory::Address;
use fleet::{Bundle, Code, Enrolled, Files, PublicIdentity, RECORD_OCTETS, REQUEST_OCTETS, Record, Request};
use suite::identity::PublicKey;

/// Reads `octets` as a record, its files, a public identity, an address, a request, a bundle, the memory of one or a code.
///
/// # Panics
/// If a parser is wrong.
pub fn run(octets: &[u8]) {
    let Some((what, octets)) = octets.split_first() else { return };
    let text = std::str::from_utf8(octets).ok();
    match what % 8 {
        0 => {
            if let Ok(record) = Record::parse(octets) {
                assert!(octets.len() <= RECORD_OCTETS);
                assert_eq!(record.encode(), octets);
                assert!(!record.is_signed_by(PublicKey([1; 32])), "a key that nobody has");
            }
        }
        1 => {
            if let Some(files) = Files::parse(octets) {
                assert_eq!(*files.encode(), octets);
            }
        }
        2 => {
            if let Some(identity) = text.and_then(|text| text.parse::<PublicIdentity>().ok()) {
                assert_eq!(identity.to_string().parse(), Ok(identity));
            }
        }
        4 => {
            if let Ok(request) = Request::parse(octets) {
                assert!(octets.len() <= REQUEST_OCTETS);
                assert_eq!(request.encode(), octets);
                assert!(!request.has_token(PublicKey([1; 32])), "a token that nobody has");
            }
        }
        5 => {
            if let Some(bundle) = text.and_then(|text| Bundle::parse(text).ok()) {
                assert_eq!(Bundle::parse(&bundle.text()).as_ref(), Ok(&bundle));
            }
        }
        6 => {
            if let Some(used) = Enrolled::parse(octets) {
                assert_eq!(used.encode(), octets);
            }
        }
        7 => {
            if let Some(code) = text.and_then(|text| text.parse::<Code>().ok()) {
                assert_eq!(code.to_string().parse(), Ok(code));
            }
        }
        _ => {
            if let Some(address) = text.and_then(|text| text.parse::<Address>().ok()) {
                assert!(!address.to_string().is_empty());
            }
        }
    }
}
