//! Key files: see [`targets::key_file`].
#![no_main]

libfuzzer_sys::fuzz_target!(|octets: &[u8]| targets::key_file::run(octets));
