//! Tables and properties of the codec; what wpa_supplicant sent is read in `crates/suite/tests/mka.rs`.

extern crate std;
