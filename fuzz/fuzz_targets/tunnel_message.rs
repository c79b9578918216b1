//! Messages between sites: see [`targets::tunnel_message`].
#![no_main]

libfuzzer_sys::fuzz_target!(|octets: &[u8]| targets::tunnel_message::run(octets));
