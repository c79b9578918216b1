//! MKPDUs: see [`targets::mkpdu`].
#![no_main]

libfuzzer_sys::fuzz_target!(|octets: &[u8]| targets::mkpdu::run(octets));
