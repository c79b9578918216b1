//! A gateway and its operator before a directory that lies: see [`targets::fleet_directory`].
#![no_main]

libfuzzer_sys::fuzz_target!(|octets: &[u8]| targets::fleet_directory::run(octets));
