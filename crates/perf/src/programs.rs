//! The two programs that demos and benches run.

use std::io;
use std::path::{Path, PathBuf};

/// Their directory.
#[derive(Clone, Debug)]
pub struct Programs {
    /// The gateway: what is shown and measured.
    pub frameward: PathBuf,
    /// This laboratory's own program: it forwards in clear where a bench compares with that.
    pub lab: PathBuf,
}

impl Programs {
    /// The running program, and the gateway beside it: both are built and installed into one directory.
    ///
    /// # Errors
    /// If the running program cannot be found, or no gateway stands beside it.
    pub fn beside_this_one() -> io::Result<Self> {
        let own = std::env::current_exe()?;
        Self::in_directory(own.parent().unwrap_or(Path::new("/")))
    }

    /// Both in a directory.
    ///
    /// # Errors
    /// If one of them is not there.
    pub fn in_directory(directory: &Path) -> io::Result<Self> {
        let program = |name: &str| {
            let path = directory.join(name);
            if path.is_file() {
                return Ok(path);
            }
            let missing = format!(
                "there is no {}: build it with `cargo build --release --package {}`, or install it there",
                path.display(),
                if name == "frameward" { "frameward" } else { "frameward-perf" }
            );
            Err(io::Error::new(io::ErrorKind::NotFound, missing))
        };
        Ok(Self { frameward: program("frameward")?, lab: program("frameward-lab")? })
    }
}
