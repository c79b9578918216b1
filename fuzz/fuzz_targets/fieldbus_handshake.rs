//! Two handshakes by lists of operations: see [`targets::fieldbus_handshake`].
#![no_main]

libfuzzer_sys::fuzz_target!(|octets: &[u8]| targets::fieldbus_handshake::run(octets));
