//! Type-length-value fields in another order, with the constant octets in front (paper section IV-B.1, figure
//! 4).
//!
//! ```text
//!  T1 L1 V1 | T2 L2 V2 | T3 L3 V3    ──▶    T1 L1 T2 L2 T3 L3 | V1 V2 V3
//!                                           └─ the template ─┘
//! ```
//!
//! Both ends have to use it: other receivers cannot read this encoding. It adds no octet: the end of the
//! heads follows from their lengths. T has one octet; L one, or two or three behind 81 or 82 (ISO/IEC
//! 8825-1).

/// Error of octets that are no sequence of fields, or do not fit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ResortError {
    /// A field ends behind the message, or has no length.
    Malformed,
    /// The buffer is shorter than the message.
    Room,
}

/// Puts heads first. Returns their length: this many octets are a template as long as types and lengths stay.
///
/// # Errors
/// [`ResortError`].
pub fn heads_first(message: &[u8], sorted: &mut [u8]) -> Result<usize, ResortError> {
    let sorted = sorted.get_mut(..message.len()).ok_or(ResortError::Room)?;
    let mut heads = 0;
    let mut at = 0;
    while at < message.len() {
        let (head, value) = head(&message[at..])?;
        at = (at + head)
            .checked_add(value)
            .filter(|&end| end <= message.len())
            .ok_or(ResortError::Malformed)?;
        heads += head;
    }
    let (mut at, mut to_heads, mut to_values) = (0, 0, heads);
    while at < message.len() {
        let (head, value) = head(&message[at..])?;
        sorted[to_heads..to_heads + head].copy_from_slice(&message[at..at + head]);
        sorted[to_values..to_values + value].copy_from_slice(&message[at + head..at + head + value]);
        (at, to_heads, to_values) = (at + head + value, to_heads + head, to_values + value);
    }
    Ok(heads)
}

/// Puts each value behind its head again.
pub fn restore(sorted: &[u8], message: &mut [u8]) -> Result<(), ResortError> {
    let message = message.get_mut(..sorted.len()).ok_or(ResortError::Room)?;
    let (mut heads, mut values) = (0, 0_usize);
    while heads + values < sorted.len() {
        let (head, value) = head(&sorted[heads..])?;
        heads += head;
        values = values
            .checked_add(value)
            .filter(|values| heads + values <= sorted.len())
            .ok_or(ResortError::Malformed)?;
    }
    let (mut at, mut from_heads, mut from_values) = (0, 0, heads);
    while from_heads < heads {
        let (head, value) = head(&sorted[from_heads..])?;
        message[at..at + head].copy_from_slice(&sorted[from_heads..from_heads + head]);
        message[at + head..at + head + value].copy_from_slice(&sorted[from_values..from_values + value]);
        (at, from_heads, from_values) = (at + head + value, from_heads + head, from_values + value);
    }
    Ok(())
}

/// Octets of a field's head, and of its value.
fn head(field: &[u8]) -> Result<(usize, usize), ResortError> {
    match field {
        [_, length @ 0..=0x7f, ..] => Ok((2, usize::from(*length))),
        [_, 0x81, length, ..] => Ok((3, usize::from(*length))),
        [_, 0x82, high, low, ..] => Ok((4, usize::from(u16::from_be_bytes([*high, *low])))),
        _ => Err(ResortError::Malformed),
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use proptest::prelude::*;
    use std::vec::Vec;

    #[test]
    fn values_go_behind_all_heads() {
        let message = [1, 2, 0xaa, 0xbb, 2, 0, 3, 0x81, 1, 0xcc];
        let mut sorted = [0; 10];
        assert_eq!(heads_first(&message, &mut sorted), Ok(7));
        assert_eq!(sorted, [1, 2, 2, 0, 3, 0x81, 1, 0xaa, 0xbb, 0xcc]);
        assert_eq!(heads_first(&message, &mut [0; 9]), Err(ResortError::Room));
        assert_eq!(heads_first(&message[..9], &mut sorted), Err(ResortError::Malformed));
        assert_eq!(heads_first(&[1], &mut sorted), Err(ResortError::Malformed));
        assert_eq!(heads_first(&[1, 0x80], &mut sorted), Err(ResortError::Malformed));
    }

    proptest! {
        #[test]
        fn what_is_restored_is_what_was(fields in proptest::collection::vec((any::<u8>(), proptest::collection::vec(any::<u8>(), 0..300)), 0..6)) {
            let mut message = Vec::new();
            for (tag, value) in &fields {
                message.push(*tag);
                match value.len() {
                    short @ 0..=0x7f => message.push(short as u8),
                    middle @ 0x80..=0xff => message.extend([0x81, middle as u8]),
                    long => message.extend([0x82, (long >> 8) as u8, long as u8]),
                }
                message.extend(value);
            }
            let (mut sorted, mut restored) = (std::vec![0; message.len()], std::vec![0; message.len()]);
            let heads = heads_first(&message, &mut sorted).expect("fields");
            let values: Vec<u8> = fields.iter().flat_map(|(_, value)| value.clone()).collect();
            prop_assert_eq!(&sorted[heads..], &values[..]);
            restore(&sorted, &mut restored).expect("sorted fields");
            prop_assert_eq!(restored, message);
        }

        #[test]
        fn garbage_is_refused_or_sorted(octets in proptest::collection::vec(any::<u8>(), 0..64)) {
            let (mut sorted, mut restored) = (std::vec![0; octets.len()], std::vec![0; octets.len()]);
            if heads_first(&octets, &mut sorted).is_ok() {
                restore(&sorted, &mut restored).expect("sorted fields");
                prop_assert_eq!(&restored, &octets);
            }
            let _ = restore(&octets, &mut restored);
        }
    }
}
