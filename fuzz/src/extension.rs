//! Extension headers that parse encode to the same octets, cover all of the secure data, and break no rule.

use wire::extension::{self, EXTENSION_OCTETS, EXTENSIONS, SEGMENT_OCTETS};
use wire::{ExtensionError, Segments};

/// Parses `octets` behind the first two as extension headers over so much secure data as the first two say.
///
/// # Panics
/// If the parser is wrong.
pub fn run(octets: &[u8]) {
    let Some((secure_data, octets)) = octets.split_first_chunk() else { return };
    let secure_data = usize::from(u16::from_be_bytes(*secure_data));
    let headers: Vec<_> = octets
        .chunks_exact(EXTENSION_OCTETS)
        .map(|octets| u16::from_be_bytes([octets[0], octets[1]]))
        .collect();
    let last = headers.iter().position(|header| header & 1 == 0).filter(|&last| last < EXTENSIONS);
    assert_eq!(extension::count(octets).ok(), last.map(|last| last + 1));
    let Some(last) = last else { return };
    let (headers, octets) = (&headers[..=last], &octets[..(last + 1) * EXTENSION_OCTETS]);
    let reserved = headers.iter().any(|header| header & 0x1c != 0);
    let misplaced = headers.iter().skip(1).any(|header| header & 2 != 0);
    let sum: usize = headers.iter().map(|header| usize::from(header >> 5)).sum();
    let continues = headers[0] & 2 != 0;
    let lone_tail = headers.len() == 1 && headers[0] == 2;
    let lengths = || headers.iter().map(|header| header >> 5);
    match Segments::parse(octets, secure_data) {
        Ok(segments) => {
            assert!(!reserved && !misplaced);
            assert_eq!((segments.continues(), segments.headers()), (continues, headers.len()));
            assert!(lone_tail || lengths().eq(segments.lengths()[1..].iter().copied()));
            assert_eq!(
                segments.lengths().iter().map(|&octets| usize::from(octets)).sum::<usize>(),
                secure_data
            );
            let fresh = &segments.lengths()[usize::from(continues)..];
            assert!(fresh.iter().all(|&octets| octets >= 2));
            assert!(segments.lengths()[1..].iter().all(|&octets| usize::from(octets) <= SEGMENT_OCTETS));
            let mut encoded = [0xaa; EXTENSIONS * EXTENSION_OCTETS + 1];
            segments.encode(&mut encoded);
            assert_eq!(encoded[..octets.len()], *octets);
            assert_eq!(encoded[octets.len()], 0xaa, "nothing is written behind the headers");
        }
        // A frame can break several rules; the one that is named must be among them.
        Err(error) => assert!(match error {
            ExtensionError::Count => false,
            ExtensionError::ReservedBits => reserved,
            ExtensionError::Continuation => misplaced,
            ExtensionError::EmptySegment => lengths().any(|octets| octets == 0) && !lone_tail,
            ExtensionError::Sum => sum >= secure_data,
            ExtensionError::ShortSegment =>
                lengths().any(|octets| octets == 1) || (!continues && secure_data - sum < 2),
        }),
    }
}
