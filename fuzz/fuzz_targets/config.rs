//! Configuration texts: see [`targets::config`].
#![no_main]

libfuzzer_sys::fuzz_target!(|octets: &[u8]| targets::config::run(octets));
