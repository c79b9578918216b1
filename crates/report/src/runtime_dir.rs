//! Directory of the control sockets, and the socket of a gateway in it.

use std::path::{Path, PathBuf};

/// The environment variable that names another directory for control sockets.
pub const RUNTIME_DIR_VARIABLE: &str = "FRAMEWARD_RUNTIME_DIR";

const DEFAULT_RUNTIME_DIR: &str = "/run/frameward";
/// Behind the name of a gateway.
pub const SOCKET_SUFFIX: &str = ".sock";

/// The directory of the control sockets.
pub fn runtime_dir() -> PathBuf {
    std::env::var_os(RUNTIME_DIR_VARIABLE)
        .filter(|directory| !directory.is_empty())
        .map_or_else(|| DEFAULT_RUNTIME_DIR.into(), PathBuf::from)
}

/// The socket of a gateway.
pub fn socket_path(directory: &Path, name: &str) -> PathBuf {
    directory.join(format!("{name}{SOCKET_SUFFIX}"))
}

/// The lock beside a gateway's socket: its holder lives.
pub(crate) fn lock_path(socket: &Path) -> PathBuf {
    let mut lock = socket.as_os_str().to_owned();
    lock.push(".lock");
    lock.into()
}
