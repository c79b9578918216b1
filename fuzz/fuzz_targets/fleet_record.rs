//! Records of a fleet: see [`targets::fleet_record`].
#![no_main]

libfuzzer_sys::fuzz_target!(|octets: &[u8]| targets::fleet_record::run(octets));
