//! Frames that are learned from: see [`targets::learn`].
#![no_main]

libfuzzer_sys::fuzz_target!(|octets: &[u8]| targets::learn::run(octets));
