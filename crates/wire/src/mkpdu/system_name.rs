//! The name by which a station calls itself in its announcement (LLDP's term for it is System Name).
//!
//! Names stand in terminals, logs, metrics, JSON and pages, and whoever has the CAK writes what he likes. So a name is printable ASCII that
//! ends no quotation: its letters look like no others, move no cursor and turn no digits beside them around.

use core::fmt;

use serde::de::{self, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Name of a station: 1 to 63 octets of printable ASCII (20 to 7E) without quotation mark, apostrophe and backslash, no space at an end.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct SystemName {
    octets: [u8; Self::OCTETS],
    length: u8,
}

/// Broken rule of a name.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum BadName {
    /// No octet, or more than 63.
    Length,
    /// An octet that is not printable ASCII, or is a quotation mark, an apostrophe or a backslash, or a space at an end.
    Character,
}

impl SystemName {
    /// Octets of the longest name.
    pub const OCTETS: usize = 63;

    /// The name of these octets.
    ///
    /// # Errors
    /// The broken rule.
    pub fn new(octets: &[u8]) -> Result<Self, BadName> {
        let mut name = Self { octets: [0; Self::OCTETS], length: octets.len() as u8 };
        let room = name.octets.get_mut(..octets.len()).filter(|room| !room.is_empty());
        room.ok_or(BadName::Length)?.copy_from_slice(octets);
        let is_trimmed = !octets.starts_with(b" ") && !octets.ends_with(b" ");
        if is_trimmed && octets.iter().copied().all(is_allowed) { Ok(name) } else { Err(BadName::Character) }
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        core::str::from_utf8(&self.octets[..usize::from(self.length)]).expect("invariant: checked by `new`")
    }
}

impl Serialize for SystemName {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for SystemName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Name;

        impl Visitor<'_> for Name {
            type Value = SystemName;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("the name of a station")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<SystemName, E> {
                SystemName::new(text.as_bytes())
                    .map_err(|_| E::invalid_value(de::Unexpected::Str(text), &self))
            }
        }

        deserializer.deserialize_str(Name)
    }
}

impl fmt::Display for SystemName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_str().fmt(f)
    }
}

impl fmt::Debug for SystemName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_str().fmt(f)
    }
}

impl fmt::Display for BadName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Length => "it does not have 1 to 63 octets",
            Self::Character => {
                "it has more than printable ASCII, or a quotation mark, an apostrophe, a backslash, or a space at an end"
            }
        })
    }
}

const fn is_allowed(octet: u8) -> bool {
    matches!(octet, b' '..=b'~') && !matches!(octet, b'"' | b'\'' | b'\\')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_printable_or_it_is_none() {
        let longest = core::str::from_utf8(&[b'n'; 63]).expect("ASCII");
        for good in ["a", "~", "press-b", "box-b.plant.example", "Halle 3, Nord", "a&b <i>", longest] {
            let name = SystemName::new(good.as_bytes());
            assert_eq!(name.as_ref().map(SystemName::as_str), Ok(good));
        }
        let rows: [(&[u8], BadName); 18] = [
            (b"", BadName::Length),
            (&[b'n'; 64], BadName::Length),
            (&[b'n'; 511], BadName::Length),
            (b"press\xff", BadName::Character),
            ("press-ü".as_bytes(), BadName::Character),
            ("рress-b".as_bytes(), BadName::Character),
            ("a”".as_bytes(), BadName::Character),
            ("a\u{202e}b".as_bytes(), BadName::Character),
            (b"a\0", BadName::Character),
            (b"a\nmember", BadName::Character),
            (b"\x1b[2Ja", BadName::Character),
            (b"a\x7f", BadName::Character),
            (b"a\x9b2J", BadName::Character),
            (b"a\" live", BadName::Character),
            (b"O'Brien", BadName::Character),
            (b"a\\", BadName::Character),
            (b" a", BadName::Character),
            (b"a ", BadName::Character),
        ];
        for (octets, why) in rows {
            assert_eq!(SystemName::new(octets), Err(why), "{octets:?}");
        }
    }

    /// Each octet, within a name.
    #[test]
    fn ninety_two_octets_make_names() {
        let good: [u8; 256] = core::array::from_fn(|octet| octet as u8);
        let good = good.iter().filter(|octet| SystemName::new(&[b'a', **octet, b'z']).is_ok());
        assert_eq!(good.count(), 0x7f - 0x20 - 3);
    }
}
