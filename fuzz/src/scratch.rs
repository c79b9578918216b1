//! Files for parsers that stand behind a file's checks.

use std::fs;
use std::path::{Path, PathBuf};

/// A directory of this process and thread below `TMPDIR`, or in memory if none is named, removed with its thread. A fuzzer ends without that:
/// `scripts/fuzz.sh` gives it a `TMPDIR` of its own.
pub(crate) struct Scratch(PathBuf);

impl Scratch {
    /// Makes an empty one.
    ///
    /// # Panics
    /// If it cannot be made.
    pub(crate) fn new(target: &str) -> Self {
        let thread = format!("{:?}", std::thread::current().id());
        let thread: String = thread.chars().filter(char::is_ascii_digit).collect();
        let name = format!("frameward-fuzz-{target}-{}-{thread}", std::process::id());
        let memory = Path::new("/dev/shm");
        let is_named = std::env::var_os("TMPDIR").is_some();
        let place = if !is_named && memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() };
        let path = place.join(name);
        fs::create_dir_all(&path).expect("invariant: a directory for scratch files can be made");
        Self(path)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
