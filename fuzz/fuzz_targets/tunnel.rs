//! The forwarding halves of two sites: see [`targets::tunnel`].
#![no_main]

libfuzzer_sys::fuzz_target!(|octets: &[u8]| targets::tunnel::run(octets));
