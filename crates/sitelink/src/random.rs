//! Random numbers from the operating system: for tokens, connection IDs, and so that sites do not knock in step.

use std::time::Duration;

/// A number that nobody can foretell.
pub(super) fn number() -> u64 {
    getrandom::u64().expect("invariant: the operating system has random numbers")
}

/// Some time between these two, to the millisecond.
pub(super) fn between(least: Duration, most: Duration) -> Duration {
    let span = most.saturating_sub(least).as_millis() as u64;
    least + Duration::from_millis(number() % (span + 1))
}
