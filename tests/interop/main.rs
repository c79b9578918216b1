//! Frameward against an implementation that is not ours: the macsec driver of a Linux kernel, running in a guest.
//!
//! Behaviour of that kernel, and where it departs from the standard, stand in the modules that found it. Common traps:
//! its defaults are `encrypt off` and `replay off`; with static keys it begins at PN 1 whenever its interface is made,
//! so a gateway beside it needs `replay_floor = "off"`.
#![allow(clippy::unwrap_used, clippy::panic)] // a test's own set-up fails loudly

mod agreement;
mod craft;
mod echo;
mod edges;
#[path = "../../crates/secy/tests/ends/mod.rs"]
mod ends;
mod exchange;
mod guest;
mod kernel;
mod live;
mod sites;
mod supplicant;
mod verdicts;

use std::path::Path;
use std::time::Duration;

/// The program under test.
fn program() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_frameward"))
}

/// Time limit for anything, on a busy machine.
const DEADLINE: Duration = Duration::from_secs(60);
