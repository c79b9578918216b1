//! The path of a link over a pool of chunks, by a list of operations: see [`targets::path`].
#![no_main]

libfuzzer_sys::fuzz_target!(|octets: &[u8]| targets::path::run(octets));
