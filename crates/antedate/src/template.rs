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

/// Common beginning of all observed messages, up to the first unpredictable octet.
#[derive(Clone, Debug)]
pub struct LearnedTemplate<const T: usize> {
    octets: [u8; T],
    length: usize,
    messages: u32,
}

impl<const T: usize> Default for LearnedTemplate<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<const T: usize> LearnedTemplate<T> {
    /// Without observations.
    pub const fn new() -> Self {
        Self { octets: [0; T], length: 0, messages: 0 }
    }

    /// Records a message. Its first difference to earlier ones ends the template.
    pub fn observe(&mut self, message: &[u8]) {
        if self.messages == 0 {
            self.length = message.len().min(T);
            self.octets[..self.length].copy_from_slice(&message[..self.length]);
        } else {
            let alike = self.octets[..self.length].iter().zip(message).take_while(|(a, b)| a == b).count();
            self.length = alike;
        }
        self.messages = self.messages.saturating_add(1);
    }

    /// Forgets all, for a sender that changes its messages.
    pub const fn reset(&mut self) {
        (self.length, self.messages) = (0, 0);
    }

    /// The template: the common beginning of all messages; empty before the second one.
    pub fn template(&self) -> &[u8] {
        match self.messages {
            0 | 1 => &[],
            _ => &self.octets[..self.length],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_template_ends_at_the_first_octet_that_changes() {
        let mut learned = LearnedTemplate::<16>::new();
        for (message, template) in [
            (&b"cell 4: 21.5 C now"[..], &b""[..]),
            (b"cell 4: 21.7 C", b"cell 4: 21."),
            (b"cell 4: 22.0 C", b"cell 4: 2"),
            (b"cell 4: 29.9 C", b"cell 4: 2"),
            (b"cell", b"cell"),
            (b"cell 4: 21.5 C", b"cell"),
            (b"", b""),
        ] {
            learned.observe(message);
            assert_eq!(learned.template(), template, "{message:?}");
        }
        learned.reset();
        assert_eq!(learned.template(), b"");
    }
}
