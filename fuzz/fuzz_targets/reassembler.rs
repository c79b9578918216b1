//! Pieces of SDUs: see [`targets::reassembler`].
#![no_main]

libfuzzer_sys::fuzz_target!(|octets: &[u8]| targets::reassembler::run(octets));
