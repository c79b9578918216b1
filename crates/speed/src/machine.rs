//! Machine and commit: what figures are of.

use std::path::Path;
use std::process::Command;
use std::sync::LazyLock;

/// Asked once: a run has many figures, and neither changes in it.
static NAME: LazyLock<String> = LazyLock::new(read_name);
static COMMIT: LazyLock<String> = LazyLock::new(read_commit);

/// This machine: its architecture, its CPU, and how many of them.
pub fn name() -> &'static str {
    &NAME
}

/// The commit that was built. Outside of a checkout of this project there is none to name: then it is the release, as its tag
/// is called.
pub fn commit() -> &'static str {
    &COMMIT
}

fn read_name() -> String {
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    let model = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = model.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    let model = model.map_or("unknown CPU", |(_, name)| name);
    format!("{}, {model}, {cpus} CPUs", std::env::consts::ARCH)
}

fn read_commit() -> String {
    in_checkout(Path::new(".")).unwrap_or_else(|| concat!("v", env!("CARGO_PKG_VERSION")).into())
}

/// The commit that `folder` is a checkout of, with a plus sign if something is changed there; none in another project's.
fn in_checkout(folder: &Path) -> Option<String> {
    let git = |arguments: &[&str]| {
        let output = Command::new("git").current_dir(folder).args(arguments).output();
        let output = output.ok().filter(|output| output.status.success())?;
        Some(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    git(&["ls-files", "--error-unmatch", ":/crates/frameward/Cargo.toml"])?;
    let commit = git(&["rev-parse", "--short", "HEAD"])?;
    let changed = git(&["status", "--porcelain"]).is_none_or(|changes| !changes.is_empty());
    Some(if changed { commit + "+" } else { commit })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_commit_is_that_of_a_checkout_of_ours_or_else_the_release() {
        assert_eq!(in_checkout(Path::new("/")), None);
        assert_eq!(in_checkout(&std::env::temp_dir()), None);
        let known = in_checkout(Path::new(env!("CARGO_MANIFEST_DIR"))).unwrap_or_else(read_commit);
        assert!(known.chars().all(|c| c.is_ascii_alphanumeric() || ".+".contains(c)), "{known}");
        assert_ne!(known, "unknown");
    }
}
