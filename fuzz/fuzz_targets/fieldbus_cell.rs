//! Two data paths of cyclic frames by lists of operations: see [`targets::fieldbus_cell`].
#![no_main]

libfuzzer_sys::fuzz_target!(|octets: &[u8]| targets::fieldbus_cell::run(octets));
