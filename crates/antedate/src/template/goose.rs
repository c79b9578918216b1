//! GOOSE messages (IEC 61850-8-1 clause 18 and annex A; ISO/IEC 8825-1 for lengths and integers).
//!
//! ```text
//!  APPID 2 | length 2 | reserved 4 | 61 L | 80 gocbRef | 81 timeAllowedtoLive | 82 datSet | 83 goID | 84 t
//!                                         | 85 stNum | 86 sqNum | 87 simulation | 88 confRev | 89 ndsCom | 8A ... | AB allData
//! ```
//!
//! A message that announces a change holds its time: it is predictable up to the value of `t`. A message that
//! repeats the last state is predictable as a whole, since only `sqNum` increases.

/// Octets in front of the APDU: APPID, length and two reserved fields.
const HEADER_OCTETS: usize = 8;
const APDU: u8 = 0x61;
const TIME: u8 = 0x84;
const SQ_NUM: u8 = 0x86;

/// A field of an APDU, by its position in the message.
struct Field {
    tag: u8,
    value: usize,
    end: usize,
}

/// Predictable octets of a message like `message` that announces a change: those up to the value of `t`.
/// `message` begins behind the EtherType. `None` if it is no GOOSE message.
pub fn predictable_prefix_of_change(message: &[u8]) -> Option<usize> {
    field(message, TIME).map(|time| time.value)
}

/// Writes to `next` the message that follows `message` without a change: the same, with the next `sqNum`.
/// After the highest number comes 1: 0 is for announcing a change. Returns its length, that of `message`.
/// `None` if `message` is no GOOSE message, if `next` is too short, or if the next number needs one octet
/// more.
pub fn repetition(message: &[u8], next: &mut [u8]) -> Option<usize> {
    let number = field(message, SQ_NUM)?;
    let next = next.get_mut(..message.len())?;
    next.copy_from_slice(message);
    let octets = &mut next[number.value..number.end];
    let sign = *octets.first()?;
    let value =
        octets.iter().try_fold(0_u64, |value, octet| Some((value.checked_mul(256)?) | u64::from(*octet)))?;
    let following = if value >= u64::from(u32::MAX) { 1 } else { value + 1 };
    let written = following.to_be_bytes();
    let skipped = written.len().checked_sub(octets.len())?;
    if following >> (8 * octets.len() as u32).min(63) != 0 {
        return None;
    }
    octets.copy_from_slice(&written[skipped..]);
    // An integer whose first bit is set is negative; the positive one needs an octet more.
    (octets[0] & 0x80 == sign & 0x80).then_some(message.len())
}

fn field(message: &[u8], tag: u8) -> Option<Field> {
    let apdu = field_at(message, HEADER_OCTETS).filter(|apdu| apdu.tag == APDU)?;
    let mut at = apdu.value;
    while at < apdu.end {
        let field = field_at(message.get(..apdu.end)?, at)?;
        if field.tag == tag {
            return Some(field);
        }
        at = field.end;
    }
    None
}

/// The field at `at`: one octet of tag, a definite length of up to two octets behind the first, a value.
fn field_at(message: &[u8], at: usize) -> Option<Field> {
    let rest = message.get(at..)?;
    let (head, length) = match rest {
        [_, length @ 0..=0x7f, ..] => (2, usize::from(*length)),
        [_, 0x81, length, ..] => (3, usize::from(*length)),
        [_, 0x82, high, low, ..] => (4, usize::from(u16::from_be_bytes([*high, *low]))),
        _ => return None,
    };
    let value = at + head;
    let end = value.checked_add(length).filter(|&end| end <= message.len())?;
    Some(Field { tag: rest[0], value, end })
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::vec::Vec;

    fn message(sq_num: &[u8]) -> Vec<u8> {
        let mut fields = Vec::new();
        for (tag, value) in [
            (0x80, &b"IED1LD0/LLN0$GO$gcb1"[..]),
            (0x81, &[0x07, 0xd0]),
            (0x82, b"IED1LD0/LLN0$status"),
            (0x83, b"gcb1"),
            (0x84, &[0x5b, 0x00, 0x11, 0x22, 0x33, 0x44, 0x55, 0x0a]),
            (0x85, &[3]),
            (0x86, sq_num),
            (0x87, &[0]),
            (0x88, &[1]),
            (0x89, &[0]),
            (0x8a, &[1]),
            (0xab, &[0x83, 0x01, 0xff]),
        ] {
            fields.extend([tag, value.len() as u8]);
            fields.extend(value);
        }
        let mut message =
            std::vec![0x00, 0x01, 0, 8 + 2 + fields.len() as u8, 0, 0, 0, 0, 0x61, fields.len() as u8];
        message.extend(fields);
        message
    }

    #[test]
    fn a_change_is_foreseen_up_to_its_time() {
        let message = message(&[0]);
        let predictable_prefix = predictable_prefix_of_change(&message).expect("a GOOSE message");
        assert_eq!(message[predictable_prefix..predictable_prefix + 4], [0x5b, 0x00, 0x11, 0x22]);
        assert_eq!(predictable_prefix, 8 + 2 + 22 + 4 + 21 + 6 + 2);
    }

    #[test]
    fn a_repetition_is_foreseen_whole() {
        for (number, following) in [
            (&[0][..], Some(&[1][..])),
            (&[0x7e], Some(&[0x7f])),
            (&[0x7f], None),
            (&[0x00, 0x80], Some(&[0x00, 0x81])),
            (&[0x00, 0xff], Some(&[0x01, 0x00])),
            (&[0x7f, 0xff], None),
            (&[0x00, 0xff, 0xff, 0xff, 0xff], Some(&[0, 0, 0, 0, 1])),
        ] {
            let mut next = [0; 200];
            let length = repetition(&message(number), &mut next);
            assert_eq!(length.map(|length| next[..length].to_vec()), following.map(message), "{number:02x?}");
        }
    }

    #[test]
    fn garbage_has_no_template() {
        let whole = message(&[0]);
        for length in 0..whole.len() {
            assert_eq!(repetition(&whole[..length], &mut [0; 200]), None, "{length}");
        }
        assert_eq!(repetition(&whole, &mut [0; 20]), None, "no room");
        let mut other = whole;
        other[8] = 0x60;
        assert_eq!((predictable_prefix_of_change(&other), repetition(&other, &mut [0; 200])), (None, None));
    }
}
