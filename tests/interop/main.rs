//! Frameward against an implementation that is not ours: the macsec driver of a Linux kernel, running in a guest.
//!
//! Behaviour of that kernel, and where it departs from the standard, stand in the modules that found it. Common traps:
//! its defaults are `encrypt off` and `replay off`; with static keys it begins at PN 1 whenever its interface is made,
//! so a gateway beside it needs `replay_floor = "off"`.
#![allow(clippy::unwrap_used, clippy::panic)] // a test's own set-up fails loudly

/// Tests of functions that take a version of wpa_supplicant: one for each version. Version 2.11 of Debian asks for nl80211 before it does
/// anything, which no User-Mode Linux of Debian has: its stations are on this machine's kernel.
macro_rules! with_each_version {
    ($($test:ident),+) => {$(
        mod $test {
            use crate::supplicant::Version;

            #[test]
            fn v2_10() {
                super::$test(Version::V2_10);
            }

            #[test]
            #[ignore = "needs a kernel with macsec and nl80211: make test-kernels"]
            fn v2_11() {
                super::$test(Version::V2_11);
            }
        }
    )+};
}

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
