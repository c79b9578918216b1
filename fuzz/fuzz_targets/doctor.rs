//! The doctor's frames and examination: see [`targets::doctor`].
#![no_main]

libfuzzer_sys::fuzz_target!(|octets: &[u8]| targets::doctor::run(octets));
