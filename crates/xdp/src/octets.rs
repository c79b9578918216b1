//! Integers and times in the structures of programs, in the machine's byte order.

use std::time::Duration;

pub(crate) fn put(octets: &mut [u8], at: usize, what: &[u8]) {
    octets[at..at + what.len()].copy_from_slice(what);
}

pub(crate) fn word(octets: &[u8], at: usize) -> u32 {
    u32::from_ne_bytes(octets[at..at + 4].try_into().expect("invariant: four octets"))
}

pub(crate) fn long(octets: &[u8], at: usize) -> u64 {
    u64::from_ne_bytes(octets[at..at + 8].try_into().expect("invariant: eight octets"))
}

pub(crate) fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
