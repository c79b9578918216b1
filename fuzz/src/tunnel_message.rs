//! Messages between sites: whatever octets come, reading them ends, and what is read encodes to itself.

use tunnel::{Message, MessageError};

/// Reads `octets` as a message.
///
/// # Panics
/// If the codec is wrong.
pub fn run(octets: &[u8]) {
    match Message::parse(octets) {
        Ok(Some(message)) => {
            let encoded = message.encode();
            assert!(encoded.len() < 100, "ours are short");
            let again =
                Message::parse(&encoded).expect("ours are messages").expect("of kinds that are known");
            assert_eq!(*again.encode(), *encoded);
        }
        Ok(None) => assert!(octets.len() > 2, "a kind has a number"),
        Err(error) => assert_eq!(error == MessageError::TooLong, octets.len() > Message::OCTETS),
    }
}
