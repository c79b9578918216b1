//! Files of an inventory: see [`targets::inventory`].
#![no_main]

libfuzzer_sys::fuzz_target!(|octets: &[u8]| targets::inventory::run(octets));
