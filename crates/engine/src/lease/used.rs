//! A mark beside a key file: this key has been used for sending.
//!
//! A state directory that is gone as a whole takes all its own marks with it, and a box that was replaced starts with
//! the configuration and the keys of the old one, but without its state: both would begin again at PN 1. So the mark
//! stands where the key is, and goes where the key goes.
//!
//! ```text
//! KEYS/FILE         the key
//! KEYS/used/FILE    lines "sent NAME", the lease's name in hexadecimal, once for each SCI the key was used with
//! ```
//!
//! A directory of its own, so that the keys' can stay read-only for the gateway. The mark is made after the first block
//! is on disk: a crash between the two leaves a key without its mark, which the next start makes good, and never a mark
//! without its lease. Another key in the same file has another name and finds no mark. Where nothing can be written
//! there is no mark, and the start says so: then nothing but the state directory remembers.

use std::fmt::Write as _;
use std::io;
use std::path::{Path, PathBuf};

use super::LeaseName;
use super::disk::{Directory, Disk};

const EXPLANATION: &str = "\
# The key in the file of this name, one directory up, has been used for sending. The gateway's state directory says up
# to which packet number. Where that is lost, a new key has to be made, under a new name.
";

/// The mark of one lease beside one key file.
pub(super) struct UsedMark {
    directory: PathBuf,
    file: String,
    line: String,
}

impl UsedMark {
    pub(super) fn new(key_file: &Path, name: LeaseName) -> io::Result<Self> {
        let directory = key_file.parent().unwrap_or(Path::new("")).join("used");
        let file = key_file.file_name().and_then(|file| file.to_str());
        let file = file.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "no file name"))?;
        let mut line = String::from("sent ");
        for octet in name.0 {
            let _ = write!(line, "{octet:02x}");
        }
        Ok(Self { directory, file: file.to_owned(), line })
    }

    /// The file that marks are in.
    pub(super) fn path(&self) -> PathBuf {
        self.directory.join(&self.file)
    }

    /// Whether the lease was ever begun, as far as the mark tells.
    pub(super) fn is_set(&self) -> io::Result<bool> {
        Ok(self.text()?.lines().any(|line| line == self.line))
    }

    /// Sets the mark; durable at return.
    pub(super) fn set(&self) -> io::Result<()> {
        let text = self.text()?;
        let text = if text.is_empty() { EXPLANATION } else { &text };
        let next = format!("{}.new", self.file);
        let mut directory = Directory::open(&self.directory)?;
        directory.write_synced(&next, format!("{text}{}\n", self.line).as_bytes())?;
        directory.rename(&next, &self.file)?;
        directory.sync_directory()
    }

    fn text(&self) -> io::Result<String> {
        match std::fs::read(self.path()) {
            Ok(octets) => Ok(String::from_utf8_lossy(&octets).into_owned()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(String::new()),
            Err(error) => Err(error),
        }
    }
}
