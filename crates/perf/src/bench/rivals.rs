//! Other tunnels between two boxes, set up as well as they can be: kernel VXLAN alone and over WireGuard in user space.
//!
//! ```text
//!  lan ── bridge ── vxlan ──[ WireGuard's tun ]── wan
//! ```
//!
//! The programs are looked for on PATH, `scripts/setup.sh bench` puts them into `target/rivals`. What is missing is left
//! out, and said.

use std::fs;
use std::io;
use std::net::Ipv4Addr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use lab::plants::LAN;
use lab::{Error, Namespace, Plant, Program};

use crate::demo::pair::Scratch;

/// Time a program may take to answer, and to end.
const PATIENCE: Duration = Duration::from_secs(10);
/// WireGuard's own port.
const WIREGUARD_PORT: &str = "51820";
/// Octets that WireGuard adds to an IPv4 packet: IP 20, UDP 8, header 16, tag 16.
const WIREGUARD: u32 = 60;

/// A box with an interface to be bridged into the tunnel and an address that the other box reaches.
#[derive(Clone, Copy, Debug)]
pub struct RivalHost<'n> {
    /// Its namespace.
    pub namespace: &'n Namespace,
    /// Its interface towards the machines.
    pub lan: &'n str,
    /// Its address on the way between the boxes.
    pub address: Ipv4Addr,
    /// 1 or 2.
    pub number: u8,
}

impl<'n> From<&'n Plant> for RivalHost<'n> {
    fn from(plant: &'n Plant) -> Self {
        Self { namespace: &plant.site, lan: LAN, address: plant.ipv4, number: plant.number }
    }
}

/// A tunnel that is not ours.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Rival {
    /// Kernel VXLAN, without any protection.
    Vxlan,
    /// Kernel VXLAN over wireguard-go.
    WireguardGo,
    /// Kernel VXLAN over boringtun.
    Boringtun,
}

/// A running rival, in both boxes.
#[derive(Debug)]
pub struct RunningRival {
    programs: Vec<Program>,
    _scratch: Scratch,
}

impl Rival {
    /// All of them, the one without protection first.
    pub const ALL: [Self; 3] = [Self::Vxlan, Self::WireguardGo, Self::Boringtun];

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Vxlan => "kernel VXLAN, unprotected",
            Self::WireguardGo => "kernel VXLAN over wireguard-go",
            Self::Boringtun => "kernel VXLAN over boringtun",
        }
    }

    /// The program that it needs, by the names that it goes by.
    const fn programs(self) -> &'static [&'static str] {
        match self {
            Self::Vxlan => &[],
            // The Go proxy's tool is named after its module, the distribution's package after the program.
            Self::WireguardGo => &["wireguard", "wireguard-go"],
            Self::Boringtun => &["boringtun-cli"],
        }
    }

    /// Octets of the largest LAN payload that crosses a path of `path` octets in one packet.
    pub const fn payload(self, path: u32) -> u32 {
        // Outer IP 20, UDP 8, VXLAN 8, the frame's own header 14.
        let vxlan = path - 50;
        match self {
            Self::Vxlan => vxlan,
            Self::WireguardGo | Self::Boringtun => vxlan - WIREGUARD,
        }
    }

    /// The missing program, if any.
    pub fn missing(self) -> Option<&'static str> {
        let tool = (!self.programs().is_empty() && find("wg").is_none()).then_some("wg");
        let program = self.programs().first().filter(|_| self.program().is_none());
        program.copied().or(tool)
    }

    fn program(self) -> Option<PathBuf> {
        self.programs().iter().find_map(|name| find(name))
    }

    /// Sets it up between two boxes, for LANs of `lan_mtu` octets over a path of `path`.
    ///
    /// # Errors
    /// If a program does not run or an interface cannot be made.
    pub fn start(
        self,
        [one, two]: [RivalHost<'_>; 2],
        lan_mtu: u32,
        path: u32,
    ) -> Result<RunningRival, Error> {
        let scratch = Scratch::new().map_err(|error| Error::Unexpected(error.to_string()))?;
        let mut programs = Vec::new();
        let ends = match self.program() {
            None => [one.address, two.address].map(|address| address.to_string()),
            Some(program) => {
                let keys = [Keys::new(scratch.path(), 1)?, Keys::new(scratch.path(), 2)?];
                for (own, peer, key, other) in
                    [(one, two, &keys[0], &keys[1]), (two, one, &keys[1], &keys[0])]
                {
                    programs.push(wireguard(&program, own, peer, key, other, path)?);
                }
                [inner(one), inner(two)]
            }
        };
        for (host, local, remote) in [(one, &ends[0], &ends[1]), (two, &ends[1], &ends[0])] {
            vxlan(host, local, remote, lan_mtu)?;
        }
        Ok(RunningRival { programs, _scratch: scratch })
    }
}

impl RunningRival {
    /// The processes of both boxes.
    pub fn processes(&self) -> Vec<u32> {
        self.programs.iter().map(Program::id).collect()
    }

    /// Ends its programs; its interfaces go with their namespaces.
    ///
    /// # Errors
    /// If one does not end.
    pub fn stop(self) -> Result<(), Error> {
        self.programs.into_iter().try_for_each(|program| program.terminate(PATIENCE).map(drop))
    }
}

/// A key pair of WireGuard.
struct Keys {
    private: PathBuf,
    public: String,
}

impl Keys {
    fn new(directory: &Path, number: u8) -> Result<Self, Error> {
        let private = directory.join(format!("wireguard-{number}"));
        let failed =
            |source: io::Error| Error::System { what: format!("write {}", private.display()), source };
        let key = lab::program::run(&["wg", "genkey"], PATIENCE)?.stdout;
        fs::write(&private, key).map_err(failed)?;
        fs::set_permissions(&private, fs::Permissions::from_mode(0o600)).map_err(failed)?;
        let public = format!("wg pubkey < {}", private.display());
        let public = lab::program::run(&["sh", "-c", &public], PATIENCE)?.stdout.trim().to_owned();
        Ok(Self { private, public })
    }
}

/// Starts WireGuard at `own` and waits until its interface is up.
fn wireguard(
    program: &Path,
    own: RivalHost<'_>,
    peer: RivalHost<'_>,
    keys: &Keys,
    other: &Keys,
    path: u32,
) -> Result<Program, Error> {
    // Its socket's name is the interface's, and stands outside of the namespaces.
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let device = format!("fw{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
    let program = program.display().to_string();
    let quiet = ["env", "WG_SUDO=1", "LOG_LEVEL=error", &program, "-f", &device];
    let privileged: &[&str] =
        if program.ends_with("boringtun-cli") { &["--disable-drop-privileges"] } else { &[] };
    let running = own.namespace.spawn(&[&quiet[..], privileged].concat())?;
    let end = Instant::now() + PATIENCE;
    // Until its socket answers, `wg` takes the interface for the kernel's.
    while own.namespace.run(&["wg", "show", &device]).is_err() {
        if Instant::now() > end {
            return Err(Error::Deadline {
                what: format!("{program} to make its interface"),
                limit: PATIENCE,
            });
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    let (private, endpoint) =
        (keys.private.display().to_string(), format!("{}:{WIREGUARD_PORT}", peer.address));
    let (address, allowed) = (format!("{}/24", inner(own)), format!("{}/32", inner(peer)));
    let set = ["wg", "set", &device, "listen-port", WIREGUARD_PORT, "private-key", &private];
    let to = ["peer", &other.public, "allowed-ips", &allowed, "endpoint", &endpoint];
    own.namespace.run(&[&set[..], &to].concat())?;
    own.namespace.ip(&["addr", "add", &address, "dev", &device])?;
    own.namespace.ip(&["link", "set", &device, "mtu", &(path - WIREGUARD).to_string(), "up"])?;
    Ok(running)
}

/// The address inside of WireGuard's tunnel.
fn inner(host: RivalHost<'_>) -> String {
    format!("10.88.0.{}", host.number)
}

fn vxlan(host: RivalHost<'_>, local: &str, remote: &str, lan_mtu: u32) -> Result<(), Error> {
    let (site, mtu) = (host.namespace, lan_mtu.to_string());
    site.ip(&["link", "add", "br0", "type", "bridge", "stp_state", "0", "mcast_snooping", "0"])?;
    let tunnel =
        ["type", "vxlan", "id", "42", "local", local, "remote", remote, "dstport", "4789", "noudpcsum"];
    site.ip(&[&["link", "add", "vx0"][..], &tunnel].concat())?;
    site.ip(&["link", "set", "vx0", "mtu", &mtu])?;
    for port in ["vx0", host.lan] {
        site.ip(&["link", "set", port, "master", "br0", "up"])?;
    }
    site.ip(&["link", "set", "br0", "up"]).map(drop)
}

/// Finds a program: on PATH, or in the rivals' own place.
pub fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    let directories = std::env::split_paths(&path).chain([PathBuf::from("target/rivals/bin")]);
    directories.map(|directory| directory.join(program)).find(|file| file.is_file())
}
