//! Files of packet-number leases: see [`targets::lease`].
#![no_main]

libfuzzer_sys::fuzz_target!(|octets: &[u8]| targets::lease::run(octets));
