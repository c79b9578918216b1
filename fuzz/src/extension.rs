//! Extension headers that parse encode to the same octets, cover all of the secure data, and break no rule; and so do those inside
//! padded frames, whose segments lie inside the secure data.

use wire::extension::padded::{self, Contents};
use wire::extension::{self, EXTENSION_OCTETS, EXTENSIONS, SEGMENT_OCTETS, SEGMENTS};
use wire::{ExtensionError, Segments};

/// Parses `octets` behind the first two as extension headers over so much secure data as the first two say.
///
/// # Panics
/// If the parser is wrong.
pub fn run(octets: &[u8]) {
    let Some((secure_data, octets)) = octets.split_first_chunk() else { return };
    run_padded(octets);
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
            ExtensionError::Count | ExtensionError::MoreFragments => false,
            ExtensionError::ReservedBits => reserved,
            ExtensionError::Continuation => misplaced,
            ExtensionError::EmptySegment => lengths().any(|octets| octets == 0) && !lone_tail,
            ExtensionError::Sum => sum >= secure_data,
            ExtensionError::ShortSegment =>
                lengths().any(|octets| octets == 1) || (!continues && secure_data - sum < 2),
        }),
    }
}

/// Parses `octets` as the secure data of a padded frame.
fn run_padded(octets: &[u8]) {
    let headers: Vec<_> =
        octets.as_chunks().0.iter().map(|octets: &[u8; 2]| u16::from_be_bytes(*octets)).collect();
    let last = headers.iter().position(|header| header & 1 == 0).filter(|&last| last < SEGMENTS);
    let read = &headers[..last.map_or(headers.len().min(SEGMENTS), |last| last + 1)];
    let (first, others) = read.split_first().unwrap_or((&0, &[]));
    let sum: usize = read.iter().map(|header| usize::from(header >> 3)).sum();
    let continues = first & 2 != 0;
    let misplaced = others.iter().any(|header| header & 2 != 0);
    let is_early = read.iter().any(|header| header & 4 != 0 && header & 1 != 0);
    match Contents::parse(octets) {
        Ok(None) => assert_eq!(headers.first(), Some(&0)),
        Ok(Some(contents)) => {
            let Contents { segments, more_fragments } = contents;
            assert!(last.is_some() && !misplaced && !is_early);
            assert!(sum + padded::header_octets(&segments) <= octets.len(), "all lies inside");
            assert!(segments.lengths().iter().copied().eq(read.iter().map(|header| header >> 3)));
            assert_eq!((segments.continues(), more_fragments), (continues, read[read.len() - 1] & 4 != 0));
            assert!(segments.lengths()[usize::from(continues)..].iter().all(|&octets| octets >= 2));
            let mut encoded = [0xaa; SEGMENTS * EXTENSION_OCTETS + 1];
            contents.encode(&mut encoded);
            let length = padded::header_octets(&segments);
            assert_eq!(encoded[..length], octets[..length]);
            assert_eq!(encoded[length], 0xaa, "nothing is written behind the headers");
        }
        // A frame can break several rules; the one that is named must be among them.
        Err(error) => assert!(match error {
            ExtensionError::Count => last.is_none(),
            ExtensionError::ReservedBits => false,
            ExtensionError::Continuation => misplaced,
            ExtensionError::MoreFragments => is_early,
            ExtensionError::EmptySegment => read.iter().any(|header| header >> 3 == 0),
            ExtensionError::ShortSegment => read.iter().any(|header| header >> 3 == 1),
            ExtensionError::Sum => sum + 2 * read.len() > octets.len(),
        }),
    }
}
