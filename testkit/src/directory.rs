//! A directory of its own for one test, removed at its end.

use std::path::{Path, PathBuf};

/// A directory of its own for one test.
#[derive(Debug)]
pub struct TestDirectory(PathBuf);

impl TestDirectory {
    /// Makes the directory; `test` is in its name.
    ///
    /// # Panics
    ///
    /// If it cannot be made.
    pub fn new(test: &str) -> Self {
        let path = std::env::temp_dir().join(format!("frameward-{test}-{}", std::process::id()));
        std::fs::create_dir_all(&path).expect("a directory for a test");
        Self(path)
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for TestDirectory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
