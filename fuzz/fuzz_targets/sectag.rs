//! SecTAGs: see [`targets::sectag`].
#![no_main]

libfuzzer_sys::fuzz_target!(|octets: &[u8]| targets::sectag::run(octets));
