//! The print of a state that does not depend on the values of random names: each counts by its first appearance.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use wire::Instant;

/// An age beyond which no timer looks.
const OLDEST: Duration = Duration::from_secs(4);

/// A part of what an object says of itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Part {
    /// Octets that count as they are.
    Plain(u64),
    /// A random name, or a digest of one.
    Name(u64),
    /// A time, which counts from now.
    Time(Instant),
}

/// Digest of anything.
pub(crate) fn digest(of: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    of.hash(&mut hasher);
    hasher.finish()
}

impl Part {
    /// Something that counts as it is.
    pub(crate) fn plain(of: impl Hash) -> Self {
        Self::Plain(digest(of))
    }
}

/// The parts of an object's text (`Debug`). What stands in brackets behind one of the `names` is a name; in those behind one of
/// `left_out` it does not count. A mark ends with its bracket.
pub(crate) fn parts(text: &str, names: &[&str], left_out: &[&str]) -> Vec<Part> {
    const TIME: &str = "Instant(";
    let marks: Vec<&str> = names.iter().chain(left_out).copied().chain([TIME]).collect();
    let mut parts = Vec::new();
    let mut rest = text;
    let first = |rest: &str| marks.iter().filter_map(|mark| Some((rest.find(mark)?, *mark))).min();
    while let Some((at, mark)) = first(rest) {
        parts.push(Part::plain(&rest[..at]));
        let behind = &rest[at + mark.len()..];
        let closing = match mark.as_bytes().last() {
            Some(b'{') => '}',
            Some(b'[') => ']',
            _ => ')',
        };
        let end = behind.find(closing).unwrap_or(behind.len());
        if mark == TIME {
            let micros = behind[..end].parse().unwrap_or_default();
            parts.push(Part::Time(Instant::after_start(Duration::from_micros(micros))));
        } else if names.contains(&mark) {
            parts.push(Part::Name(digest(&behind[..end])));
        }
        rest = &behind[end..];
    }
    parts.push(Part::plain(rest));
    parts
}

/// The print of parts at a moment.
pub(crate) fn print<'p>(now: Instant, parts: impl Iterator<Item = &'p Part>) -> u64 {
    let mut names: HashMap<u64, usize> = HashMap::new();
    let mut hasher = DefaultHasher::new();
    for part in parts {
        match part {
            Part::Plain(text) => (0, *text).hash(&mut hasher),
            Part::Name(name) => {
                let count = names.len();
                (1, *names.entry(*name).or_insert(count)).hash(&mut hasher);
            }
            Part::Time(at) => (2, at.since(now), now.since(*at).min(OLDEST)).hash(&mut hasher),
        }
    }
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_count_by_their_first_appearance_and_all_else_by_its_text() {
        let of = |text: &str| print(Instant::START, parts(text, &["Nonce(["], &["KeyId("]).iter());
        let one = "a: Nonce([1, 2]), b: Nonce([1, 2]), id: KeyId(7), c: Nonce([3])";
        assert_eq!(of(one), of("a: Nonce([9]), b: Nonce([9]), id: KeyId(8), c: Nonce([1, 2])"));
        assert_ne!(of(one), of("a: Nonce([9]), b: Nonce([8]), id: KeyId(8), c: Nonce([8])"));
        assert_ne!(of(one), of("a: Nonce([1, 2]), b: Nonce([1, 2]), ie: KeyId(7), c: Nonce([3])"));
    }
}
