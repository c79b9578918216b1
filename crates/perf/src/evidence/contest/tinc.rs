//! tinc 1.0, which wants a directory for each box, an RSA key in it, and a file about every host.

use std::fs;
use std::time::Duration;

use crate::bench::rivals::RivalHost;
use crate::demo::pair::Scratch;
use lab::Error;

use super::daemon::{TAP, words, write};

/// Limit on the time of making a key.
const PATIENCE: Duration = Duration::from_secs(60);
/// Settings of the tunnel at both hosts: its fastest cipher and MAC, full frames, nothing done to segments.
const TUNNEL: &str =
    "Cipher = aes-128-cbc\nDigest = sha1\nMACLength = 10\nCompression = 0\nClampMSS = no\nPMTU = 1518\n";

pub(super) fn commands(scratch: &Scratch, hosts: [RivalHost<'_>; 2]) -> Result<[Vec<String>; 2], Error> {
    let failed = |error: std::io::Error| Error::Unexpected(format!("tinc's directories: {error}"));
    let directories = [1, 2].map(|number| scratch.path().join(format!("tinc-{number}")));
    for (index, directory) in directories.iter().enumerate() {
        fs::create_dir_all(directory.join("hosts")).map_err(failed)?;
        let (number, other) = (index + 1, 2 - index);
        let address = hosts[index].address;
        let name = format!("tinc-{number}/tinc.conf");
        let text = format!(
            "Name = box{number}\nMode = switch\nInterface = {TAP}\nBindToAddress = {address}\nConnectTo = box{other}\n\
             UDPRcvBuf = 2097152\nUDPSndBuf = 2097152\n"
        );
        write(scratch, &name, &text)?;
        write(
            scratch,
            &format!("tinc-{number}/hosts/box{number}"),
            &format!("Address = {address}\n{TUNNEL}"),
        )?;
        let directory = directory.display().to_string();
        // Without a terminal it writes the keys to where they belong.
        lab::program::run(&["tincd", "-c", &directory, "-K2048"], PATIENCE)?;
    }
    for (own, other) in [(0, 1), (1, 0)] {
        let host = format!("hosts/box{}", own + 1);
        fs::copy(directories[own].join(&host), directories[other].join(&host)).map_err(failed)?;
    }
    Ok(directories.map(|directory| {
        let pid = format!("--pidfile={}", directory.join("pid").display());
        words(&["tincd", "-c", &directory.display().to_string(), "-D", &pid])
    }))
}
