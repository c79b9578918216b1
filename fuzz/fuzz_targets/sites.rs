//! Five sites with their stations: see [`targets::sites`].
#![no_main]

libfuzzer_sys::fuzz_target!(|octets: &[u8]| targets::sites::run(octets));
