//! Headers of the tunnel between sites: see [`targets::tunnel_header`].
#![no_main]

libfuzzer_sys::fuzz_target!(|octets: &[u8]| targets::tunnel_header::run(octets));
