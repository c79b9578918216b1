//! The bodies of the fuzz targets: one function from octets to a panic, or to nothing.
//!
//! A fuzzer calls them by way of `fuzz_targets/`, built with `--cfg fuzzing` and a sanitizer; the ordinary tests
//! compile the same files again (`tests/corpus` at the root) and run the committed corpus through them, with real
//! cipher suites where the fuzzer has the null suite.

pub mod capture;
pub mod config;
pub mod doctor;
pub mod ethernet;
pub mod extension;
pub mod fieldbus_cell;
pub mod fieldbus_codec;
pub mod fieldbus_handshake;
pub mod fleet_directory;
pub mod fleet_record;
pub mod inventory;
pub mod kay;
mod key;
pub mod key_file;
pub mod learn;
pub mod lease;
pub mod mkpdu;
pub mod path;
pub mod profinet;
pub mod reassembler;
pub mod sa_file;
mod scratch;
pub mod sectag;
pub mod secy;
pub mod sites;
pub mod tunnel;
pub mod tunnel_header;
pub mod tunnel_header_encryption;
pub mod tunnel_message;
pub mod tunnel_session;

/// A target: its name, and its body.
pub type Target = (&'static str, fn(&[u8]));

/// All targets.
pub const TARGETS: [Target; 28] = [
    ("capture", capture::run),
    ("config", config::run),
    ("doctor", doctor::run),
    ("ethernet", ethernet::run),
    ("extension", extension::run),
    ("fieldbus_cell", fieldbus_cell::run),
    ("fieldbus_codec", fieldbus_codec::run),
    ("fieldbus_handshake", fieldbus_handshake::run),
    ("fleet_directory", fleet_directory::run),
    ("fleet_record", fleet_record::run),
    ("inventory", self::inventory::run),
    ("kay", kay::run),
    ("key_file", key_file::run),
    ("learn", learn::run),
    ("lease", lease::run),
    ("mkpdu", mkpdu::run),
    ("path", path::run),
    ("profinet", profinet::run),
    ("reassembler", reassembler::run),
    ("sa_file", sa_file::run),
    ("sectag", sectag::run),
    ("secy", self::secy::run),
    ("sites", sites::run),
    ("tunnel", self::tunnel::run),
    ("tunnel_header", tunnel_header::run),
    ("tunnel_header_encryption", tunnel_header_encryption::run),
    ("tunnel_message", tunnel_message::run),
    ("tunnel_session", tunnel_session::run),
];
