//! Octets behind the EtherType of cyclic frames: see [`targets::fieldbus_codec`].
#![no_main]

libfuzzer_sys::fuzz_target!(|octets: &[u8]| targets::fieldbus_codec::run(octets));
