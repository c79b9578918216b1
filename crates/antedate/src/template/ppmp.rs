//! PPMP messages (Eclipse Unide, Production Performance Management Protocol, version 2): JSON over whatever transport.
//!
//! ```text
//!  {"content-spec":"urn:spec://eclipse.org/unide/measurement-message#v2","device":{"deviceID":"..."},
//!   "measurements":[{"ts":"2018-07-21T09:30:10.123+02:00","series":{...}}]}
//!                          ▲ the first octet that cannot be foreseen
//! ```

/// The member whose value is a time, in all three kinds of messages.
const TIME: &[u8] = b"ts";

/// Predictable octets of a message like `message`: those up to the value of its first `ts`, or all if it has
/// none. `None` if a string in front of it does not end.
pub fn predictable_prefix(message: &[u8]) -> Option<usize> {
    let mut at = 0;
    while let Some(begin) = message.get(at..)?.iter().position(|&octet| octet == b'"').map(|found| at + found)
    {
        let end = end_of_string(message, begin)?;
        let name = &message[begin + 1..end];
        let behind = skip_space(message, end + 1);
        if name == TIME && message.get(behind) == Some(&b':') {
            let value = skip_space(message, behind + 1);
            return Some(value + usize::from(message.get(value) == Some(&b'"')));
        }
        at = end + 1;
    }
    Some(message.len())
}

/// Position of the closing quotation mark of the string at `begin`.
fn end_of_string(message: &[u8], begin: usize) -> Option<usize> {
    let mut at = begin + 1;
    loop {
        match message.get(at)? {
            b'"' => return Some(at),
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
}

fn skip_space(message: &[u8], at: usize) -> usize {
    let rest = message.get(at..).unwrap_or_default();
    at + rest.iter().take_while(|octet| octet.is_ascii_whitespace()).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_foreseen_up_to_its_time() {
        for (message, foreseen_text) in [
            (
                r#"{"content-spec":"urn:spec://eclipse.org/unide/measurement-message#v2","device":{"deviceID":"a4927dad"},"measurements":[{"ts":"2018-07-21T09:30:10.123+02:00","series":{"temperature":[45.4]}}]}"#,
                r#"{"content-spec":"urn:spec://eclipse.org/unide/measurement-message#v2","device":{"deviceID":"a4927dad"},"measurements":[{"ts":""#,
            ),
            ("{ \"ts\" :\n 17}", "{ \"ts\" :\n "),
            // The name of something else, in a value, and behind an escaped quotation mark.
            (r#"{"tsx":1,"note":"ts","a\"ts":2,"ts":3}"#, r#"{"tsx":1,"note":"ts","a\"ts":2,"ts":"#),
            (r#"{"device":{}}"#, r#"{"device":{}}"#),
            ("", ""),
        ] {
            assert_eq!(predictable_prefix(message.as_bytes()), Some(foreseen_text.len()), "{message}");
        }
        for torn in ["\"", "{\"ts", "{\"a\\\"", "{\"a\\"] {
            assert_eq!(predictable_prefix(torn.as_bytes()), None, "{torn}");
        }
    }
}
