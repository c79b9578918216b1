//! Ethernet headers, with and without VLAN tags: see [`targets::ethernet`].
#![no_main]

libfuzzer_sys::fuzz_target!(|octets: &[u8]| targets::ethernet::run(octets));
