//! Programs that make a TAP interface and carry its frames to each other, each with its fastest authenticated cipher and
//! an MTU of 1500 on the TAP.
//!
//! ```text
//!  lan ── bridge ── tap [program] ── wan
//! ```
//!
//! They log nothing per packet, compress nothing, and clamp no segment sizes.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use crate::bench::rivals::{RivalHost, find};
use crate::demo::pair::Scratch;
use lab::{Error, Program};

use super::tinc;

/// Limit on the time that a program takes to answer, to make its interface, and to end.
const PATIENCE: Duration = Duration::from_secs(20);
/// The interface that a program makes.
pub(super) const TAP: &str = "tap0";

/// A program of that kind.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Daemon {
    /// fastd 22, method `aes128-ctr+umac`, which takes less CPU time here than its `aes128-gcm`.
    Fastd,
    /// tinc 1.0 in mode `switch`, AES-128 in CBC with HMAC-SHA-1: it has no AEAD.
    Tinc,
    /// OpenVPN 2.6 with a TAP, AES-128-GCM, without the kernel's part, which knows no TAP.
    OpenVpn,
    /// vpncloud 2.3 in mode `switch`, AES-128-GCM.
    Vpncloud,
}

/// A program running in both boxes.
#[derive(Debug)]
pub(super) struct RunningDaemon {
    programs: Vec<Program>,
    _scratch: Scratch,
}

impl Daemon {
    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Fastd => "fastd",
            Self::Tinc => "tinc",
            Self::OpenVpn => "OpenVPN",
            Self::Vpncloud => "vpncloud",
        }
    }

    /// Its settings.
    pub const fn setting(self) -> &'static str {
        match self {
            Self::Fastd => "aes128-ctr+umac",
            Self::Tinc => {
                "AES-128-CBC with HMAC-SHA-1, MAC of 10 octets: version 1.0 has no AEAD; no compression"
            }
            Self::OpenVpn => "TAP over UDP, AES-128-GCM, socket buffers of 2 MiB, fast-io, no compression",
            Self::Vpncloud => "TAP, AES-128-GCM",
        }
    }

    /// The programs that it takes.
    pub const fn programs(self) -> &'static [&'static str] {
        match self {
            Self::Fastd => &["fastd"],
            Self::Tinc => &["tincd"],
            Self::OpenVpn => &["openvpn", "openssl"],
            Self::Vpncloud => &["vpncloud"],
        }
    }

    /// Starts it in both boxes and bridges its interfaces.
    pub(super) fn start(self, hosts: [RivalHost<'_>; 2]) -> Result<RunningDaemon, Error> {
        let scratch = Scratch::new().map_err(|error| Error::Unexpected(error.to_string()))?;
        let commands = match self {
            Self::Fastd => fastd(&scratch, hosts)?,
            Self::Tinc => tinc::commands(&scratch, hosts)?,
            Self::OpenVpn => openvpn(&scratch, hosts)?,
            Self::Vpncloud => vpncloud(hosts),
        };
        let mut programs = Vec::new();
        for (host, command) in hosts.iter().zip(&commands) {
            let command: Vec<&str> = command.iter().map(String::as_str).collect();
            programs.push(host.namespace.spawn(&command)?);
        }
        for (host, program) in hosts.iter().zip(&mut programs) {
            bridge(*host, program)?;
        }
        Ok(RunningDaemon { programs, _scratch: scratch })
    }
}

impl RunningDaemon {
    pub(super) fn processes(&self) -> Vec<u32> {
        self.programs.iter().map(Program::id).collect()
    }

    pub(super) fn stop(self) -> Result<(), Error> {
        self.programs.into_iter().try_for_each(|program| program.terminate(PATIENCE).map(drop))
    }
}

/// Waits for the interface of a program, and bridges it to the LAN.
fn bridge(host: RivalHost<'_>, program: &mut Program) -> Result<(), Error> {
    let (site, end) = (host.namespace, Instant::now() + PATIENCE);
    while let Err(error) = site.ip(&["link", "show", TAP]) {
        if !program.is_running() || Instant::now() > end {
            let output = [program.stderr(), program.stdout()].concat();
            let last = output.lines().last().unwrap_or_default().to_owned();
            return Err(Error::Unexpected(format!("a rival makes no interface: {error}; it says: {last}")));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    site.ip(&["link", "add", "br0", "type", "bridge", "stp_state", "0", "mcast_snooping", "0"])?;
    site.ip(&["link", "set", TAP, "mtu", "1500"])?;
    for port in [TAP, host.lan] {
        site.ip(&["link", "set", port, "master", "br0", "up"])?;
    }
    site.ip(&["link", "set", "br0", "up"]).map(drop)
}

/// Writes a file that programs of this scratch directory read.
pub(super) fn write(scratch: &Scratch, name: &str, text: &str) -> Result<String, Error> {
    let written = scratch.write(name, text).map_err(|error| Error::Unexpected(error.to_string()))?;
    Ok(written.display().to_string())
}

pub(super) fn words(command: &[&str]) -> Vec<String> {
    command.iter().map(|word| (*word).to_owned()).collect()
}

fn run(command: &[&str]) -> Result<String, Error> {
    lab::program::run(command, PATIENCE).map(|output| output.stdout)
}

fn fastd(scratch: &Scratch, hosts: [RivalHost<'_>; 2]) -> Result<[Vec<String>; 2], Error> {
    let keys = [(); 2].map(|()| run(&["fastd", "--generate-key"]));
    let [one, two] = keys;
    let keys = [one?, two?];
    let part = |index: usize, which: &str| {
        let line = keys[index].lines().find_map(|line| line.strip_prefix(which));
        line.map(str::trim).unwrap_or_default().to_owned()
    };
    let mut commands = Vec::new();
    for (own, other) in [(0, 1), (1, 0)] {
        let text = format!(
            "log level error;\ninterface \"{TAP}\";\nmode tap;\nmethod \"aes128-ctr+umac\";\nmtu 1500;\n\
             bind {}:10000;\nsecret \"{}\";\npeer \"other\" {{ key \"{}\"; remote {}:10000; }}\n",
            hosts[own].address,
            part(own, "Secret:"),
            part(other, "Public:"),
            hosts[other].address
        );
        let file = write(scratch, &format!("fastd-{own}.conf"), &text)?;
        commands.push(words(&["fastd", "--config", &file]));
    }
    Ok(commands.try_into().expect("invariant: a command for each box"))
}

fn openvpn(scratch: &Scratch, hosts: [RivalHost<'_>; 2]) -> Result<[Vec<String>; 2], Error> {
    let file = |index: usize, kind: &str| -> String {
        let file: PathBuf = scratch.path().join(format!("openvpn-{index}.{kind}"));
        file.display().to_string()
    };
    let mut prints = Vec::new();
    for index in [0, 1] {
        let (key, certificate) = (file(index, "key"), file(index, "crt"));
        let new = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"];
        let to = ["-nodes", "-days", "30", "-subj", "/CN=box", "-keyout", &key, "-out", &certificate];
        run(&[&new[..], &to].concat())?;
        let print = run(&["openssl", "x509", "-in", &certificate, "-noout", "-fingerprint", "-sha256"])?;
        prints.push(print.trim().rsplit('=').next().unwrap_or_default().to_owned());
    }
    let mut commands = Vec::new();
    for (own, other) in [(0, 1), (1, 0)] {
        let (local, remote) = (hosts[own].address.to_string(), hosts[other].address.to_string());
        let mut command = words(&["openvpn", "--dev", TAP, "--dev-type", "tap", "--proto", "udp"]);
        command.extend(words(&["--local", &local, "--remote", &remote, "--port", "1194", "--verb", "1"]));
        command.extend(words(&["--data-ciphers", "AES-128-GCM", "--disable-dco", "--fast-io"]));
        command.extend(words(&["--tun-mtu", "1500", "--mssfix", "0", "--txqueuelen", "1000"]));
        command.extend(words(&["--sndbuf", "2097152", "--rcvbuf", "2097152", "--auth-nocache"]));
        command.extend(words(&["--cert", &file(own, "crt"), "--key", &file(own, "key")]));
        command.extend(words(&["--peer-fingerprint", &prints[other]]));
        command.extend(match own {
            0 => words(&["--tls-server", "--dh", "none"]),
            _ => words(&["--tls-client"]),
        });
        commands.push(command);
    }
    Ok(commands.try_into().expect("invariant: a command for each box"))
}

fn vpncloud(hosts: [RivalHost<'_>; 2]) -> [Vec<String>; 2] {
    let program = find("vpncloud").map_or("vpncloud".into(), |path| path.display().to_string());
    [(0, 1), (1, 0)].map(|(own, other): (usize, usize)| {
        let [listen, peer] = [own, other].map(|index| format!("{}:3210", hosts[index].address));
        let mut command = words(&[&program, "--type", "tap", "--mode", "switch", "--device", TAP, "--quiet"]);
        command.extend(words(&["--listen", &listen, "--peer", &peer, "--password", "of this bench"]));
        command.extend(words(&["--algorithm", "aes128", "--no-port-forwarding"]));
        command
    })
}
