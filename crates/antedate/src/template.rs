//! Prediction of the next message's beginning (paper sections IV-B.1 and VI-B).
//!
//! ```text
//!  messages so far:   id=7;seq=0001;v=21.5   id=7;seq=0002;v=22.0      the template ends at the first octet that changes
//!  with a protocol:   GOOSE, PPMP            and counters that are known beforehand are known
//!  re-sorted:         T L T L T L | V V V    what is constant goes to the front, so that the template is longer
//! ```

pub mod goose;
pub mod ppmp;
pub mod resort;

/// Octets that `template`, the common beginning of all messages so far, has in common with one more `message`: the
/// length of the template from then on. The first message of all is the first template.
pub fn common_beginning(template: &[u8], message: &[u8]) -> usize {
    template.iter().zip(message).take_while(|(known, found)| known == found).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_template_ends_at_the_first_octet_that_changes() {
        let mut template = &b"cell 4: 21.5 C now"[..];
        for (message, left) in [
            (&b"cell 4: 21.7 C"[..], &b"cell 4: 21."[..]),
            (b"cell 4: 22.0 C", b"cell 4: 2"),
            (b"cell 4: 29.9 C", b"cell 4: 2"),
            (b"cell", b"cell"),
            (b"cell 4: 21.5 C", b"cell"),
            (b"", b""),
            (b"cell", b""),
        ] {
            template = &template[..common_beginning(template, message)];
            assert_eq!(template, left, "{message:?}");
        }
    }
}
