//! A session between sites: see [`targets::tunnel_session`].
#![no_main]

libfuzzer_sys::fuzz_target!(|octets: &[u8]| targets::tunnel_session::run(octets));
