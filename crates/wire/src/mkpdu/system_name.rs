//! The name by which a station calls itself in its announcement (LLDP's term for it is System Name).
//!
//! Names stand in terminals, logs, metrics, JSON and pages, and whoever has the CAK writes what he likes. So a name holds nothing that
//! moves a cursor, ends a quotation, turns the digits beside it around or writes over its neighbours.

use core::fmt;

/// Letters and signs that print nothing, though their class says otherwise.
const BLANK: [char; 5] = ['\u{115f}', '\u{1160}', '\u{2800}', '\u{3164}', '\u{ffa0}'];

/// Name of a station: 1 to 63 octets of UTF-8, all of it printable.
///
/// Printable are letters, digits, punctuation and single characters of any script that is written from left to right, and spaces within.
/// Not among them: quotation marks `"` and `'`, the backslash, control and format characters, combining marks.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct SystemName {
    octets: [u8; Self::OCTETS],
    length: u8,
}

/// Broken rule of a name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BadName {
    /// No octet, or more than 63.
    Length,
    /// No UTF-8.
    Utf8,
    /// A character that is not printable, or a space at an end.
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
        let text = core::str::from_utf8(octets).map_err(|_| BadName::Utf8)?;
        let is_trimmed = !text.starts_with(' ') && !text.ends_with(' ');
        if is_trimmed && text.chars().all(is_printable) { Ok(name) } else { Err(BadName::Character) }
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        core::str::from_utf8(&self.octets[..usize::from(self.length)]).expect("invariant: checked by `new`")
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
            Self::Utf8 => "it is no UTF-8",
            Self::Character => "a character of it is not printable, or is written from right to left",
        })
    }
}

/// `char::escape_debug` escapes quotation marks, the backslash, and what Unicode calls control, format, unassigned, private, separator or
/// combining.
fn is_printable(character: char) -> bool {
    character.escape_debug().len() == 1 && !is_right_to_left(character) && !BLANK.contains(&character)
}

/// The blocks of scripts that are written from right to left.
const fn is_right_to_left(character: char) -> bool {
    matches!(character, '\u{590}'..='\u{8ff}' | '\u{fb1d}'..='\u{fdff}' | '\u{fe70}'..='\u{feff}' | '\u{10800}'..='\u{10fff}' | '\u{1e800}'..='\u{1efff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_printable_or_it_is_none() {
        let longest = core::str::from_utf8(&[b'n'; 63]).expect("ASCII");
        for good in
            ["a", "press-b", "box-b.plant.example", "Halle 3, Süd", "ворота", "転轍機 7", "a&b <i>", longest]
        {
            let name = SystemName::new(good.as_bytes());
            assert_eq!(name.as_ref().map(SystemName::as_str), Ok(good));
        }
        let rows: [(&[u8], BadName); 22] = [
            (b"", BadName::Length),
            (&[b'n'; 64], BadName::Length),
            (&[b'n'; 511], BadName::Length),
            (b"press\xff", BadName::Utf8),
            ("press-ü".as_bytes().split_last().unwrap().1, BadName::Utf8),
            (b"a\xc0\x80", BadName::Utf8),
            (b"a\0", BadName::Character),
            (b"a\nmember", BadName::Character),
            (b"a\rb", BadName::Character),
            (b"\x1b[2Ja", BadName::Character),
            (b"a\x7f", BadName::Character),
            ("a\u{9b}2J".as_bytes(), BadName::Character),
            ("a\u{202e}b".as_bytes(), BadName::Character),
            ("a\u{200b}b".as_bytes(), BadName::Character),
            ("a\u{2028}b".as_bytes(), BadName::Character),
            ("a\u{0301}".as_bytes(), BadName::Character),
            ("שער".as_bytes(), BadName::Character),
            ("\u{3164}".as_bytes(), BadName::Character),
            (b"a\" live", BadName::Character),
            (b"a\\", BadName::Character),
            (b" a", BadName::Character),
            (b"a ", BadName::Character),
        ];
        for (octets, why) in rows {
            assert_eq!(SystemName::new(octets), Err(why), "{octets:?}");
        }
    }
}
