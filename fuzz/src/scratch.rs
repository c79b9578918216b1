//! Files for parsers that stand behind a file's checks: a directory of this process in memory, if there is one.

use std::fs;
use std::path::PathBuf;

/// An empty directory of this process and thread, in memory where the system has `/dev/shm`.
///
/// # Panics
/// If it cannot be made.
pub(crate) fn directory(target: &str) -> PathBuf {
    let memory = PathBuf::from("/dev/shm");
    let base = if memory.is_dir() { memory } else { std::env::temp_dir() };
    let thread =
        format!("{:?}", std::thread::current().id()).replace(|c: char| !c.is_ascii_alphanumeric(), "");
    let path = base.join(format!("frameward-fuzz-{target}-{}-{thread}", std::process::id()));
    fs::create_dir_all(&path).expect("invariant: a directory for scratch files can be made");
    path
}
