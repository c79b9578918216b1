//! Commit of the build, for the label of each figure. Asked when the code is built: a checkout may have moved on when the program runs.

use std::path::Path;
use std::process::Command;

/// Paths whose change makes another program.
const CODE: [&str; 4] = ["../crates", "../bench", "../Cargo.toml", "../Cargo.lock"];

fn main() {
    for code in CODE {
        println!("cargo:rerun-if-changed={code}");
    }
    let commit = commit().unwrap_or_else(|| format!("v{}", env!("CARGO_PKG_VERSION")));
    println!("cargo:rustc-env=FRAMEWARD_COMMIT={commit}");
}

/// The commit of this checkout, with a plus sign if code is changed there. A source without one is the release, as its tag is called;
/// and so is a source inside another project's checkout.
fn commit() -> Option<String> {
    git(&["ls-files", "--error-unmatch", "build.rs"])?;
    // Each commit and checkout adds a line there.
    let log = git(&["rev-parse", "--git-path", "logs/HEAD"])?;
    if Path::new(&log).exists() {
        println!("cargo:rerun-if-changed={log}");
    }
    let commit = git(&["rev-parse", "--short", "HEAD"])?;
    let mut status = vec!["status", "--porcelain", "--"];
    status.extend(CODE);
    let is_changed = git(&status).is_none_or(|changes| !changes.is_empty());
    Some(if is_changed { commit + "+" } else { commit })
}

fn git(arguments: &[&str]) -> Option<String> {
    let output =
        Command::new("git").args(arguments).output().ok().filter(|output| output.status.success())?;
    Some(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}
