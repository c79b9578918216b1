//! MKPDUs that wpa_supplicant sent, with their keys: `tests/vectors/mka`.

use std::collections::BTreeMap;
use std::fs;

use serde::Deserialize;

use crate::fixture::{pcap_frames, vectors};

/// One recorded run of one or two participants.
#[derive(Debug, Deserialize)]
pub struct MkaCase {
    /// The file's name without its ending.
    pub name: String,
    /// Participants, by a letter: `a` has 02:00:00:00:00:0a.
    pub participants: BTreeMap<String, Participant>,
    /// The SAKs that were distributed.
    pub saks: Vec<DistributedSak>,
    /// Description of each frame, in the order of the capture.
    pub frames: Vec<MkaFrame>,
    /// The frames.
    #[serde(skip)]
    pub octets: Vec<Vec<u8>>,
}

/// A participant's keys.
#[derive(Debug, Deserialize)]
pub struct Participant {
    /// The CAK.
    #[serde(with = "hex")]
    pub cak: Vec<u8>,
    /// Its name.
    #[serde(with = "hex")]
    pub ckn: Vec<u8>,
    /// The ICK, derived by an independent reader and found in wpa_supplicant's log.
    #[serde(with = "hex")]
    pub ick: Vec<u8>,
    /// The KEK, derived by an independent reader and found in wpa_supplicant's log.
    #[serde(with = "hex")]
    pub kek: Vec<u8>,
}

/// A SAK that a key server distributed.
#[derive(Debug, Deserialize)]
pub struct DistributedSak {
    /// The key server's MI.
    #[serde(with = "hex")]
    pub key_server_mi: Vec<u8>,
    /// The Key Number.
    pub kn: u32,
    /// The AN.
    pub an: u8,
    /// The two bits of the confidentiality offset.
    pub confidentiality_offset: u8,
    /// The suite's identifier in hexadecimal; `(implied)` behind it if it was left out.
    pub cipher_suite: String,
    /// The key, unwrapped by an independent reader and found in wpa_supplicant's log.
    #[serde(with = "hex")]
    pub sak: Vec<u8>,
}

/// An independent reader's description of a frame.
#[derive(Debug, Deserialize)]
pub struct MkaFrame {
    /// `mkpdu` or `macsec`.
    pub kind: String,
    /// The source address, in hexadecimal.
    pub src: Option<String>,
    /// The Message Number.
    pub mn: Option<u32>,
    /// The key server priority.
    pub key_server_priority: Option<u8>,
    /// The key server bit.
    pub key_server: Option<u8>,
    /// The MACsec Capability.
    pub macsec_capability: Option<u8>,
    /// The SCI, in hexadecimal.
    pub sci: Option<String>,
    /// The MI, in hexadecimal.
    pub mi: Option<String>,
    /// The CKN, in hexadecimal.
    pub ckn: Option<String>,
    /// The parameter sets behind the basic one.
    #[serde(default)]
    pub sets: Vec<serde_json::Map<String, serde_json::Value>>,
    /// A MACsec frame's SAK, in hexadecimal.
    pub sak: Option<String>,
    /// A MACsec frame's clear text, in hexadecimal.
    pub clear: Option<String>,
}

/// All runs, by name.
///
/// # Panics
/// If the folder or a file in it cannot be read.
pub fn mka_cases() -> Vec<MkaCase> {
    let folder = vectors().join("mka");
    let entries = fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut paths: Vec<_> = entries.map(|entry| entry.expect("a readable folder").path()).collect();
    paths.retain(|path| path.extension().is_some_and(|ending| ending == "json"));
    paths.sort();
    let case = |path: &std::path::PathBuf| {
        let text = fs::read_to_string(path).expect("a readable fixture");
        let case: MkaCase =
            serde_json::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let octets = pcap_frames(&path.with_extension("pcap"));
        assert_eq!(octets.len(), case.frames.len(), "{}", case.name);
        MkaCase { octets, ..case }
    };
    paths.iter().map(case).collect()
}
