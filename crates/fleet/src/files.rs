//! Files that a gateway gets: its configuration, and the key files that this names. All of them are secret.
//!
//! ```text
//!  array of 2n items:  name, content, name, content ...   names ascending, none twice
//! ```

use std::collections::BTreeMap;
use std::fmt;

use ciborium_ll::Header;
use zeroize::Zeroizing;

use crate::cbor::{Malformed, Reader, push, push_octets, push_text};

/// The most files of a gateway.
pub const MOST_FILES: usize = 128;
/// The most octets of all files of a gateway together.
pub const FILES_OCTETS: usize = 256 * 1024;
/// The longest name of a file.
const LONGEST_NAME: usize = 100;

/// Name of a file beside others: 1 to 100 of `A-Z a-z 0-9 . _ -`, the first a letter or a digit. So it leads into no other
/// folder, and hides nothing. Not `used`: marks of used keys stand there.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct FileName(String);

/// The files of one gateway. Their contents are wiped when dropped, and never shown.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Files(BTreeMap<FileName, Zeroizing<Vec<u8>>>);

/// Why a file cannot be sent.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum FilesError {
    /// More than [`MOST_FILES`].
    #[error("has more than {MOST_FILES} files; a gateway gets its configuration and key files alone")]
    TooMany,
    /// More than [`FILES_OCTETS`].
    #[error("has more than {} KiB; a gateway gets its configuration and key files alone", FILES_OCTETS / 1024)]
    TooLong,
}

impl FileName {
    /// Name of the configuration.
    pub const CONFIGURATION: &str = "frameward.toml";

    /// Folder of marks of used keys, beside the files.
    pub(crate) const USED: &str = "used";

    /// `None` if the text breaks the rule.
    pub fn new(text: &str) -> Option<Self> {
        let is_name = text.len() <= LONGEST_NAME
            && text != Self::USED
            && text.starts_with(|c: char| c.is_ascii_alphanumeric())
            && text.bytes().all(|c| c.is_ascii_alphanumeric() || matches!(c, b'.' | b'_' | b'-'));
        is_name.then(|| Self(text.to_owned()))
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for FileName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Files {
    /// Adds a file. The content stays where it is until it is wiped.
    ///
    /// # Errors
    /// [`FilesError`]; the file is then not among them.
    pub fn insert(&mut self, name: FileName, content: Zeroizing<Vec<u8>>) -> Result<(), FilesError> {
        let others = self.0.iter().filter(|(other, _)| **other != name);
        let (count, octets) =
            others.fold((0, 0), |(count, octets), (_, content)| (count + 1, octets + content.len()));
        if count == MOST_FILES {
            return Err(FilesError::TooMany);
        }
        if octets + content.len() > FILES_OCTETS {
            return Err(FilesError::TooLong);
        }
        self.0.insert(name, content);
        Ok(())
    }

    /// Names and contents, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&FileName, &[u8])> {
        self.0.iter().map(|(name, content)| (name, content.as_slice()))
    }

    /// The configuration, if there is one.
    pub fn configuration(&self) -> Option<&[u8]> {
        self.iter().find(|(name, _)| name.as_str() == FileName::CONFIGURATION).map(|(_, content)| content)
    }

    /// The files as octets, to be sealed.
    pub fn encode(&self) -> Zeroizing<Vec<u8>> {
        // Full capacity at once: a growing vector leaves copies behind. Heads have up to 9 octets.
        let octets: usize = self.iter().map(|(name, content)| name.0.len() + content.len() + 18).sum();
        let mut encoded = Zeroizing::new(Vec::with_capacity(octets + 9));
        push(&mut encoded, Header::Array(Some(2 * self.0.len())));
        for (name, content) in self.iter() {
            push_text(&mut encoded, &name.0);
            push_octets(&mut encoded, content);
        }
        encoded
    }

    /// Parses what [`Files::encode`] made; `None` for anything else.
    pub fn parse(octets: &[u8]) -> Option<Self> {
        Self::parse_whole(octets).ok()
    }

    fn parse_whole(octets: &[u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::new(octets);
        let items = reader.array()?;
        if items % 2 != 0 || items > 2 * MOST_FILES {
            return Err(Malformed);
        }
        let mut files = Self::default();
        for _ in 0..items / 2 {
            let name = FileName::new(reader.text()?).ok_or(Malformed)?;
            let is_ascending = files.0.last_key_value().is_none_or(|(last, _)| *last < name);
            if !is_ascending {
                return Err(Malformed);
            }
            files.insert(name, Zeroizing::new(reader.octets()?.to_vec())).map_err(|_| Malformed)?;
        }
        reader.end()?;
        Ok(files)
    }
}

impl fmt::Debug for Files {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys().map(FileName::as_str)).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn name(text: &str) -> FileName {
        FileName::new(text).unwrap()
    }

    fn content(octets: &[u8]) -> Zeroizing<Vec<u8>> {
        Zeroizing::new(octets.to_vec())
    }

    #[test]
    fn names_lead_into_no_other_folder() {
        for good in ["frameward.toml", "a", "9", "Press_1.cak", "a..b", &"a".repeat(100)] {
            assert!(FileName::new(good).is_some(), "{good}");
        }
        for bad in [
            "",
            ".",
            "..",
            ".hidden",
            "-x",
            "used",
            "_x",
            "a/b",
            "../a",
            "/a",
            "a\0",
            "a b",
            "ä",
            "a\n",
            &"a".repeat(101),
        ] {
            assert!(FileName::new(bad).is_none(), "{bad:?}");
        }
    }

    #[test]
    fn limits_hold_and_contents_are_not_shown() {
        let mut files = Files::default();
        for number in 0..MOST_FILES {
            files.insert(name(&format!("f{number}")), content(b"x")).unwrap();
        }
        assert_eq!(files.insert(name("one-more"), content(b"")), Err(FilesError::TooMany));
        assert_eq!(files.insert(name("f0"), content(b"another")), Ok(()), "the same name is the same file");
        let mut files = Files::default();
        files.insert(name("a"), content(&vec![0; FILES_OCTETS - 1])).unwrap();
        assert_eq!(files.insert(name("b"), content(b"12")), Err(FilesError::TooLong));
        files.insert(name("b"), content(b"1")).unwrap();
        assert_eq!(format!("{files:?}"), r#"{"a", "b"}"#);
        assert_eq!(Files::parse(&files.encode()), Some(files));
    }

    #[test]
    fn other_encodings_are_refused() {
        let row = |text: &str| hex::decode(text.replace(' ', "")).unwrap();
        for (octets, is_read, what) in [
            ("80", true, "no file"),
            ("82 6161 4101", true, "a file"),
            ("84 6161 40 6162 40", true, "two files"),
            ("84 6162 40 6161 40", false, "descending"),
            ("84 6161 40 6161 40", false, "twice"),
            ("81 6161", false, "no content"),
            ("82 6161 4101 00", false, "more behind it"),
            ("82 6161 41", false, "truncated"),
            ("82 6161 580101", false, "a longer head than needed"),
            ("9f 6161 4101 ff", false, "indefinite length"),
            ("82 4161 4101", false, "octets as name"),
            ("82 612e 4101", false, "a bad name"),
            ("a1 6161 4101", false, "a map"),
            ("82 6161 5b7fffffffffffffff", false, "longer than memory"),
            ("9b7ffffffffffffffe", false, "more than there can be"),
        ] {
            assert_eq!(Files::parse(&row(octets)).is_some(), is_read, "{what}");
        }
    }

    proptest! {
        #[test]
        fn what_is_read_encodes_to_itself(octets in proptest::collection::vec(any::<u8>(), 0..64)) {
            if let Some(files) = Files::parse(&octets) {
                prop_assert_eq!(&*files.encode(), &octets);
            }
        }
    }
}
