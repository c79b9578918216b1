//! Two SecYs and the wire between them, by a list of operations: see [`targets::secy`].
#![no_main]

libfuzzer_sys::fuzz_target!(|octets: &[u8]| targets::secy::run(octets));
