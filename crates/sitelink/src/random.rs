//! Random values from the operating system: for tokens, connection IDs and secrets, and so that sites do not knock in step.

use std::time::Duration;

/// Octets that nobody can foretell.
pub(super) fn octets<const OCTETS: usize>() -> [u8; OCTETS] {
    let mut octets = [0; OCTETS];
    getrandom::fill(&mut octets).expect("invariant: the operating system has random numbers");
    octets
}

/// A number that nobody can foretell.
pub(super) fn number() -> u64 {
    u64::from_le_bytes(octets())
}

/// Some time between these two, to the millisecond.
pub(super) fn between(least: Duration, most: Duration) -> Duration {
    let span = most.saturating_sub(least).as_millis() as u64;
    least + Duration::from_millis(number() % (span + 1))
}
