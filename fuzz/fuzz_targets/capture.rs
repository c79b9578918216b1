//! Captures: see [`targets::capture`].
#![no_main]

libfuzzer_sys::fuzz_target!(|octets: &[u8]| targets::capture::run(octets));
