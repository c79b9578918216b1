//! tshark on captures of a test, with the dissector for cells or without.

#![allow(clippy::unwrap_used, clippy::panic)] // a test's own set-up fails loudly

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use pcap_file::pcap::{PcapPacket, PcapWriter};

/// A directory for captures, which goes with the test.
pub(crate) struct Scratch(pub(crate) PathBuf);

impl Scratch {
    pub(crate) fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("frameward-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    pub(crate) fn capture(&self, name: &str, frames: &[Vec<u8>]) -> PathBuf {
        let path = self.0.join(name);
        let mut writer = PcapWriter::new(fs::File::create(&path).unwrap()).unwrap();
        for frame in frames {
            writer.write_packet(&PcapPacket::new(Duration::ZERO, frame.len() as u32, frame)).unwrap();
        }
        path
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// tshark's reading of these fields, frame by frame.
pub(crate) fn tshark(capture: &Path, script: bool, fields: &[&str]) -> Vec<String> {
    let lua = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tools/wireshark/fieldbus.lua");
    let mut command = Command::new("tshark");
    if script {
        command.args(["-X", &format!("lua_script:{}", lua.display())]);
    }
    command.args(["-T", "fields", "-E", "separator=|", "-r"]).arg(capture);
    command.args(fields.iter().flat_map(|field| ["-e", field]));
    let output = command
        .output()
        .unwrap_or_else(|error| panic!("tshark: {error}; install it with scripts/setup.sh test"));
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && !errors.contains("Lua"), "{errors}");
    String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
}
