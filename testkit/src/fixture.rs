//! Frames made by implementations that are not ours, with their keys: `tests/vectors/` at the root of the
//! repository, whose README names the sources.

use serde::Deserialize;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use wire::{An, Sci};

/// The folder of all vectors.
pub fn vectors() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/vectors")
}

/// One recorded run: a configuration, its SAs, and each frame in clear and on the wire.
#[derive(Debug)]
pub struct MacsecCase {
    /// The file's name without its ending.
    pub name: String,
    /// The cipher suite, spelled as in our configuration.
    pub suite: String,
    /// False for integrity only.
    pub encrypt: bool,
    /// The frames carry their SCI.
    pub send_sci: bool,
    /// The frames carry the ES bit.
    pub end_station: bool,
    /// 0, 30 or 50.
    pub confidentiality_offset: u8,
    /// One SA for each direction that has frames.
    pub sas: Vec<FixtureSa>,
    /// The frames, in the order in which they were sent.
    pub frames: Vec<FixtureFrame>,
}

/// The SA of one direction.
#[derive(Debug, Clone)]
pub struct FixtureSa {
    /// `ab` or `ba`.
    pub direction: String,
    /// The transmitter's SCI.
    pub sci: Sci,
    /// The AN.
    pub an: An,
    /// The SAK, 16 or 32 octets.
    pub key: Vec<u8>,
    /// The PN of the first frame.
    pub first_pn: u64,
    /// SSCI and salt of an XPN suite.
    pub xpn: Option<(u32, [u8; 12])>,
}

/// One frame, before and after protection.
#[derive(Debug)]
pub struct FixtureFrame {
    /// Kind of frame.
    pub label: String,
    /// `ab` or `ba`.
    pub direction: String,
    /// The frame handed to the protecting interface.
    pub clear: Vec<u8>,
    /// The frame that it sent.
    pub wire: Vec<u8>,
    /// The receiver of the recorded run delivered `clear`.
    pub delivered: bool,
}

#[derive(Deserialize)]
struct RawCase {
    name: String,
    confidentiality_offset: u8,
    config: RawConfig,
    sas: Vec<RawSa>,
    frames: Vec<RawFrame>,
}

#[derive(Deserialize)]
struct RawConfig {
    cipher: String,
    encrypt: u8,
    send_sci: u8,
    end_station: u8,
}

#[derive(Deserialize)]
struct RawSa {
    dir: String,
    sci: String,
    an: u8,
    key: String,
    first_pn: u64,
    salt: Option<String>,
    ssci: Option<u32>,
}

#[derive(Deserialize)]
struct RawFrame {
    label: String,
    dir: String,
    wire_index: usize,
    delivered: Option<bool>,
}

/// All cases of a folder below `tests/vectors`, by name.
///
/// # Panics
/// If the folder or a file in it cannot be read.
pub fn macsec_cases(folder: &str) -> Vec<MacsecCase> {
    let folder = vectors().join(folder);
    let entries = fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut paths: Vec<_> = entries.map(|entry| entry.expect("a readable folder").path()).collect();
    paths.retain(|path| path.extension().is_some_and(|ending| ending == "json"));
    paths.sort();
    paths.iter().map(|path| macsec_case(path)).collect()
}

fn macsec_case(path: &Path) -> MacsecCase {
    let text = fs::read_to_string(path).expect("a readable fixture");
    let raw: RawCase =
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let clear = pcap_frames(&path.with_extension("clear.pcap"));
    let wire = pcap_frames(&path.with_extension("wire.pcap"));
    let frames = raw.frames.into_iter().map(|frame| FixtureFrame {
        label: frame.label,
        direction: frame.dir,
        clear: clear[frame.wire_index].clone(),
        wire: wire[frame.wire_index].clone(),
        delivered: frame.delivered.unwrap_or(true),
    });
    let sas = raw.sas.into_iter().map(|sa| FixtureSa {
        direction: sa.dir,
        sci: Sci::from_octets(array(&sa.sci)),
        an: An::new(sa.an).expect("an AN"),
        key: hex::decode(sa.key).expect("hexadecimal"),
        first_pn: sa.first_pn,
        xpn: sa.ssci.zip(sa.salt).map(|(ssci, salt)| (ssci, array(&salt))),
    });
    MacsecCase {
        name: raw.name,
        suite: raw.config.cipher,
        encrypt: raw.config.encrypt == 1,
        send_sci: raw.config.send_sci == 1,
        end_station: raw.config.end_station == 1,
        confidentiality_offset: raw.confidentiality_offset,
        sas: sas.collect(),
        frames: frames.collect(),
    }
}

/// One frame of IEEE 802.1AE Annex C, or in its style.
#[derive(Debug)]
pub struct AnnexCVector {
    /// `cipher`, `integrity` or `vlan`, and a number.
    pub name: String,
    /// The cipher suite, spelled as in our configuration.
    pub suite: String,
    /// The SAK.
    pub key: Vec<u8>,
    /// SSCI, salt and the high half of the PN, of an XPN suite.
    pub xpn: Option<(u32, [u8; 12], u32)>,
    /// Before protection.
    pub clear: Vec<u8>,
    /// After it.
    pub wire: Vec<u8>,
}

#[derive(Deserialize)]
struct RawVector {
    set: String,
    idx: u32,
    alg: String,
    ssci: String,
    xpn_high: Option<String>,
    salt: String,
    key: String,
    plain: String,
    secure: String,
}

/// The vectors of `annex-c`.
///
/// # Panics
/// If the file cannot be read.
pub fn annex_c() -> Vec<AnnexCVector> {
    let text = fs::read_to_string(vectors().join("annex-c/vectors.json")).expect("a readable fixture");
    let raw: Vec<RawVector> = serde_json::from_str(&text).expect("the vectors' form");
    raw.into_iter()
        .map(|vector| AnnexCVector {
            name: format!("{}-{}", vector.set, vector.idx),
            suite: match vector.alg.as_str() {
                "GCM_128" => "gcm-aes-128",
                "GCM_256" => "gcm-aes-256",
                "GCM_XPN_128" => "gcm-aes-xpn-128",
                "GCM_XPN_256" => "gcm-aes-xpn-256",
                other => panic!("unknown algorithm {other}"),
            }
            .into(),
            key: hex::decode(vector.key).expect("hexadecimal"),
            xpn: vector.alg.contains("XPN").then(|| {
                let high = vector.xpn_high.as_deref().expect("an XPN vector has the high half");
                (number(&vector.ssci), array(&vector.salt), number(high))
            }),
            clear: hex::decode(vector.plain).expect("hexadecimal"),
            wire: hex::decode(vector.secure).expect("hexadecimal"),
        })
        .collect()
}

/// The frames of a classic pcap file.
///
/// # Panics
/// If the file cannot be read.
pub fn pcap_frames(path: &Path) -> Vec<Vec<u8>> {
    let file = File::open(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let mut reader = pcap_file::pcap::PcapReader::new(file).expect("a pcap header");
    let mut frames = Vec::new();
    while let Some(packet) = reader.next_packet() {
        frames.push(packet.expect("a whole packet").data.into_owned());
    }
    frames
}

fn array<const N: usize>(text: &str) -> [u8; N] {
    hex::decode(text).expect("hexadecimal").try_into().expect("the right length")
}

fn number(text: &str) -> u32 {
    u32::from_str_radix(text.trim_start_matches("0x"), 16).expect("a hexadecimal number")
}
