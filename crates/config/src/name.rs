//! Rule for the names of gateways, links, sites, fieldbuses and peers.

/// True for names of gateways, links, sites, fieldbuses and peers: 1 to 32 of `a-z 0-9 _ -`, the first a letter or a digit. They stand in
/// file names and metrics.
pub fn is_name(text: &str) -> bool {
    text.len() <= 32
        && text.starts_with(|c: char| c.is_ascii_lowercase() || c.is_ascii_digit())
        && text.bytes().all(|c| matches!(c, b'a'..=b'z' | b'0'..=b'9' | b'_' | b'-'))
}

/// Message about a name that breaks the rule.
pub(super) fn bad_name(label: &str, name: &str) -> String {
    format!(
        "{label}name = {name:?} is not a valid name; use 1 to 32 of a-z, 0-9, _ and -, a letter or digit first"
    )
}
