//! Linux's own macsec, in a guest in each box, since the kernel that these namespaces run on mostly has no such driver.
//!
//! ```text
//!            box, a namespace of this machine
//!           +--------------------------------------------------------------------------------+
//!  plain ---|- bridge ── tap ──[ guest: vec1 ── bridge ── macsec0 ── vec0 ]── tap ── bridge -|--- prot
//!           +--------------------------------------------------------------------------------+
//! ```
//!
//! User-Mode Linux is a kernel that runs as a process: each of its interfaces costs system calls, and its ciphers are
//! written in C, without the CPU's instructions for them. So what it carries shows that the arrangement works and what it
//! adds to frames, and nothing about the speed of macsec in a kernel of its own.

use crate::bench::rivals::RivalHost;
use crate::demo::pair::Scratch;
use lab::guest::{MACSEC, Plan};
use lab::topology::PROTECTED;
use lab::{Error, Guest, Namespace};

/// The taps that are the guest's `vec0`, towards the network, and `vec1`, towards the machine.
const NETWORK: &str = "tap-net";
const LAN: &str = "tap-lan";
/// The kernel takes 32 octets of the interface below for SecTAG and ICV.
const MTU: u32 = 1500;
const NETWORK_MTU: u32 = MTU + 32;
/// Modules of a bridge, in the order in which it needs them.
const BRIDGE: [&str; 5] =
    ["lib/crc-ccitt", "net/ipv6/ipv6", "net/llc/llc", "net/802/stp", "net/bridge/bridge"];

/// A guest running in each box.
#[derive(Debug)]
pub(super) struct RunningKernel {
    guests: Vec<Guest>,
    // Behind the guests: their control sockets stand there.
    _scratches: Vec<Scratch>,
}

impl RunningKernel {
    /// Boots a guest in each box, one behind the other, and has it bridge the LAN to its `macsec0`.
    pub(super) fn start(hosts: [RivalHost<'_>; 2]) -> Result<Self, Error> {
        let mut running = Self { guests: Vec::new(), _scratches: Vec::new() };
        for (own, other) in [(0, 1), (1, 0)] {
            let scratch = Scratch::new().map_err(|error| Error::Unexpected(error.to_string()))?;
            let mut guest = boot(&hosts[own], &scratch)?;
            protect(&mut guest, hosts[own].number, hosts[other].number)?;
            running.guests.push(guest);
            running._scratches.push(scratch);
        }
        Ok(running)
    }

    /// All processes of the guests.
    pub(super) fn processes(&self) -> Vec<u32> {
        self.guests.iter().flat_map(Guest::processes).collect()
    }

    pub(super) fn stop(mut self) -> Result<(), Error> {
        self.guests.iter_mut().try_for_each(Guest::end)
    }
}

/// A guest whose interfaces are joined to the box's.
fn boot(host: &RivalHost<'_>, scratch: &Scratch) -> Result<Guest, Error> {
    let namespace = host.namespace;
    join(namespace, "br-net", NETWORK, PROTECTED)?;
    join(namespace, "br-lan", LAN, host.lan)?;
    let modules: Vec<&str> = MACSEC.into_iter().chain(BRIDGE).collect();
    let devices = [
        format!("vec0:transport=tap,ifname={NETWORK},depth=128,mtu={NETWORK_MTU}"),
        format!("vec1:transport=tap,ifname={LAN},depth=128,mtu={MTU}"),
    ];
    let plan = Plan {
        prefix: &["ip", "netns", "exec", namespace.name()],
        redirections: Plan::CONSOLE,
        modules: &modules,
        devices: &devices.each_ref().map(String::as_str),
        folder: scratch.path(),
    };
    Guest::boot(&plan, None, None)
}

/// Makes a tap and bridges it to an interface of the box.
fn join(namespace: &Namespace, bridge: &str, tap: &str, port: &str) -> Result<(), Error> {
    namespace.ip(&["tuntap", "add", "dev", tap, "mode", "tap"])?;
    namespace.ip(&["link", "set", tap, "mtu", &NETWORK_MTU.to_string()])?;
    namespace.ip(&["link", "add", bridge, "type", "bridge", "stp_state", "0", "mcast_snooping", "0"])?;
    for port in [tap, port] {
        namespace.ip(&["link", "set", port, "master", bridge, "up"])?;
    }
    namespace.ip(&["link", "set", bridge, "up"]).map(drop)
}

/// GCM-AES-128, encrypting, with an SA each way under a key of its own; the SCI of box N is that of its `vec0`.
fn protect(guest: &mut Guest, own: u8, other: u8) -> Result<(), Error> {
    let address = |number: u8| format!("02:00:00:00:01:{number:02x}");
    let key = |number: u8| format!("{number:02x}").repeat(16);
    let channel = format!("rx port 1 address {}", address(other));
    for line in [
        "echo 1 >/proc/sys/net/ipv6/conf/all/disable_ipv6; echo 1 >/proc/sys/net/ipv6/conf/default/disable_ipv6".into(),
        format!("ip link set vec0 address {} up", address(own)),
        "ip link add link vec0 macsec0 type macsec port 1 encrypt on replay on window 64".into(),
        format!("ip macsec add macsec0 tx sa 0 pn 1 on key 01 {}", key(own)),
        format!("ip macsec add macsec0 {channel} on"),
        format!("ip macsec add macsec0 {channel} sa 0 pn 1 on key 02 {}", key(other)),
        format!("ip link set macsec0 mtu {MTU}"),
        "ip link add br0 type bridge stp_state 0 mcast_snooping 0".into(),
        "ip link set macsec0 master br0 up && ip link set vec1 master br0 up && ip link set br0 up".into(),
    ] {
        guest.run(&line)?;
    }
    Ok(())
}
