//! Files of SAs: see [`targets::sa_file`].
#![no_main]

libfuzzer_sys::fuzz_target!(|octets: &[u8]| targets::sa_file::run(octets));
