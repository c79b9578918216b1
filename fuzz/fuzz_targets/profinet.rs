//! Connects and names of PROFINET: see [`targets::profinet`].
#![no_main]

libfuzzer_sys::fuzz_target!(|octets: &[u8]| targets::profinet::run(octets));
