//! Extension headers: see [`targets::extension`].
#![no_main]

libfuzzer_sys::fuzz_target!(|octets: &[u8]| targets::extension::run(octets));
