//! Three KaYs by lists of operations: see [`targets::kay`].
#![no_main]

libfuzzer_sys::fuzz_target!(|octets: &[u8]| targets::kay::run(octets));
