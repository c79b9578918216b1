//! What a gateway reads of a directory, and an operator of a gateway: whatever octets come, reading them ends, and what is read
//! encodes to itself. The first octet says what the others are taken for.

use fleet::directory::Address;
use fleet::{Files, PublicIdentity, RECORD_OCTETS, Record};
use suite::identity::PublicKey;

/// Reads `octets` as a record, its files, a public identity or an address.
///
/// # Panics
/// If a parser is wrong.
pub fn run(octets: &[u8]) {
    let Some((what, octets)) = octets.split_first() else { return };
    let text = std::str::from_utf8(octets).ok();
    match what % 4 {
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
        _ => {
            if let Some(address) = text.and_then(|text| text.parse::<Address>().ok()) {
                assert!(!address.to_string().is_empty());
            }
        }
    }
}
