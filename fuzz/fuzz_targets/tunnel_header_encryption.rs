//! Header encryption between two LANs: see [`targets::tunnel_header_encryption`].
#![no_main]

libfuzzer_sys::fuzz_target!(|octets: &[u8]| targets::tunnel_header_encryption::run(octets));
