//! Two machines, two gateways and the insecure network between them, as five namespaces.
//!
//! ```text
//!  machine A        gateway A             middle             gateway B        machine B
//! +---------+    +-------------+    +----------------+    +-------------+    +---------+
//! |      a0 |----| plain  prot |----| left     right |----| prot  plain |----| b0      |
//! +---------+    +-------------+    |  \__ wire __/  |    +-------------+    +---------+
//!   :a1  10.77.0.1     :a2    :a3   +----------------+      :b3    :b2     10.77.0.2  :b1
//!        fd77::1                      :c1        :c2                       fd77::2
//! ```
//!
//! Each line is a veth pair. MAC addresses are 02:00:00:00:00:xx, xx as drawn, so tests can speak of them.
//! The middle's bridge `wire` is the insecure network: captures, rate limits and impairments stand on `left` and
//! `right`, since AF_XDP passes by tc and captures on the gateways' own interfaces.
//! A [`Relay`](crate::Relay) takes the bridge's place when frames shall be lost, doubled, damaged or overtaken.
//! With [`Shape::cable`] the gateways are joined directly, and the middle is empty.
//!
//! The middle behaves like a wire as far as the kernel lets it: no learning (a frame always goes to the other
//! port), no STP, no snooping, link-local groups forwarded (EAPOL, LLDP, LACP, STP). It still eats: MAC control
//! (01-80-C2-00-00-01), frames to the middle's own addresses, frames whose source is a group or all zeros, and
//! frames longer than the outgoing MTU + 18.
//! IPv6 is off everywhere but, if asked for, on the machines (fixed addresses, no DAD, no router solicitations).

use std::net::{Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use crate::{Error, Namespace};

/// An Ethernet address.
pub type Mac = [u8; 6];

/// Settings of a topology.
#[derive(Clone, Debug)]
pub struct Shape {
    /// MTU of the machines' interfaces and of the gateways' plain sides, in octets.
    pub plain_mtu: u32,
    /// MTU of the insecure network, in octets.
    pub protected_mtu: u32,
    /// Receive and transmit queues of the gateways' interfaces.
    pub gateway_queues: u32,
    /// Whether the machines speak IPv6.
    pub ipv6: bool,
    /// Whether the machines know each other's MAC address from the start, instead of by ARP.
    pub static_neighbours: bool,
    /// Whether a single veth pair joins the gateways, as a cable would, and nothing stands in the middle. The bridge there takes
    /// CPU time from whoever is measured.
    pub cable: bool,
}

impl Default for Shape {
    fn default() -> Shape {
        Shape {
            plain_mtu: 1500,
            protected_mtu: 1532,
            gateway_queues: 1,
            ipv6: false,
            static_neighbours: false,
            cable: false,
        }
    }
}

/// A machine: a namespace with one interface and its addresses.
#[derive(Debug)]
pub struct Machine {
    /// Its namespace.
    pub namespace: Namespace,
    /// Its interface.
    pub ifname: &'static str,
    /// The interface's MAC address.
    pub mac: Mac,
    /// Its IPv4 address, /24.
    pub ipv4: Ipv4Addr,
    /// Its IPv6 address, /64; set only with [`Shape::ipv6`].
    pub ipv6: Ipv6Addr,
}

/// A gateway's box: a namespace with the interfaces [`PLAIN`] and [`PROTECTED`], both up, nothing between them.
#[derive(Debug)]
pub struct Gateway {
    /// Its namespace.
    pub namespace: Namespace,
    /// MAC address of the plain side.
    pub plain_mac: Mac,
    /// MAC address of the protected side.
    pub protected_mac: Mac,
}

/// A gateway's interface towards its machine.
pub const PLAIN: &str = "plain";
/// A gateway's interface towards the insecure network.
pub const PROTECTED: &str = "prot";
/// The middle's port towards gateway A.
pub const LEFT: &str = "left";
/// The middle's port towards gateway B.
pub const RIGHT: &str = "right";
/// The bridge that is the wire.
pub const WIRE: &str = "wire";

/// Everything the kernel lets a bridge port forward of 01-80-C2-00-00-0x: all but MAC control (bit 1).
const PORT_FORWARD_MASK: &str = "0xfffd";
/// Off, so that what crosses a veth pair is what a wire would carry: no merged frames, checksums filled in, VLAN tags
/// inside the frame instead of beside it, where an XDP program would not see them.
const OFFLOADS: [&str; 9] =
    ["tso", "gso", "gro", "tx", "rx", "txvlan", "rxvlan", "tx-vlan-stag-hw-insert", "rx-vlan-stag-hw-parse"];

/// The five namespaces of the drawing. Dropping it removes them and kills what runs inside.
#[derive(Debug)]
pub struct Topology {
    /// Machine A, interface `a0`.
    pub machine_a: Machine,
    /// Gateway A.
    pub gateway_a: Gateway,
    /// The insecure network, ports [`LEFT`] and [`RIGHT`]; empty with [`Shape::cable`].
    pub middle: Namespace,
    /// Gateway B.
    pub gateway_b: Gateway,
    /// Machine B, interface `b0`.
    pub machine_b: Machine,
}

impl Topology {
    /// Builds it, after sweeping away what dead owners left. Needs root.
    pub fn build(shape: &Shape) -> Result<Topology, Error> {
        Namespace::sweep()?;
        let topology = Topology {
            machine_a: machine("machine-a", "a0", 1)?,
            gateway_a: gateway("gateway-a", 0xA2, 0xA3)?,
            middle: Namespace::new("middle")?,
            gateway_b: gateway("gateway-b", 0xB2, 0xB3)?,
            machine_b: machine("machine-b", "b0", 2)?,
        };
        topology.connect(shape)?;
        for (own, other) in topology.machine_pairs() {
            own.configure(other, shape)?;
        }
        topology.wait_for_carrier()?;
        if !shape.cable {
            wait_for_carrier(&[LEFT, RIGHT, WIRE].map(|ifname| (&topology.middle, ifname)))?;
        }
        Ok(topology)
    }

    fn machine_pairs(&self) -> [(&Machine, &Machine); 2] {
        [(&self.machine_a, &self.machine_b), (&self.machine_b, &self.machine_a)]
    }

    fn connect(&self, shape: &Shape) -> Result<(), Error> {
        let sides =
            [(&self.machine_a, &self.gateway_a, LEFT, 0xC1), (&self.machine_b, &self.gateway_b, RIGHT, 0xC2)];
        for (machine, gateway, port, port_mac) in sides {
            gateway.connect_plain(machine, shape)?;
            if !shape.cable {
                self.connect_protected(gateway, port, port_mac, shape)?;
            }
        }
        if shape.cable {
            let [a, b] = [&self.gateway_a, &self.gateway_b].map(Gateway::protected);
            return veth(&a, &b, shape.protected_mtu, shape.gateway_queues);
        }
        bridge(&self.middle, WIRE, [LEFT, RIGHT])
    }

    fn connect_protected(
        &self,
        gateway: &Gateway,
        port: &str,
        port_mac: u8,
        shape: &Shape,
    ) -> Result<(), Error> {
        let protected = gateway.protected();
        let middle = End { ns: &self.middle, ifname: port, mac: mac(port_mac) };
        veth(&protected, &middle, shape.protected_mtu, shape.gateway_queues)?;
        offloads_off(&self.middle, port)
    }

    /// Makes gateway A's protected interface again, which was deleted, and joins it to the wire as before.
    ///
    /// # Errors
    /// If it is there, or cannot be made.
    pub fn remake_protected(&self, shape: &Shape) -> Result<(), Error> {
        self.connect_protected(&self.gateway_a, LEFT, 0xC1, shape)?;
        bridge_port(&self.middle, WIRE, LEFT)?;
        self.wait_for_carrier()?;
        wait_for_carrier(&[(&self.middle, LEFT)])
    }

    /// Makes gateway A's plain interface again, which was deleted, and that of its machine, without addresses.
    ///
    /// # Errors
    /// If it is there, or cannot be made.
    pub fn remake_plain(&self, shape: &Shape) -> Result<(), Error> {
        self.gateway_a.connect_plain(&self.machine_a, shape)?;
        self.wait_for_carrier()
    }

    fn wait_for_carrier(&self) -> Result<(), Error> {
        wait_for_carrier(&[
            (&self.machine_a.namespace, self.machine_a.ifname),
            (&self.gateway_a.namespace, PLAIN),
            (&self.gateway_a.namespace, PROTECTED),
            (&self.gateway_b.namespace, PROTECTED),
            (&self.gateway_b.namespace, PLAIN),
            (&self.machine_b.namespace, self.machine_b.ifname),
        ])
    }

    /// Puts a plain Linux bridge into both gateways: what a network without Frameward does.
    pub fn bridge_gateways(&self) -> Result<(), Error> {
        self.gateway_a.bridge()?;
        self.gateway_b.bridge()
    }

    /// Limits the insecure network to `bits_per_second` each way, counted as on a real wire: with preamble, frame
    /// check sequence and gap (24 octets a frame). `queue` is how long a frame may wait before the rest is dropped.
    pub fn limit_rate(&self, bits_per_second: u64, queue: Duration) -> Result<(), Error> {
        [LEFT, RIGHT].iter().try_for_each(|port| limit_rate(&self.middle, port, bits_per_second, queue))
    }

    /// Takes the rate limit away again.
    pub fn unlimit_rate(&self) -> Result<(), Error> {
        for port in [LEFT, RIGHT] {
            self.tc(&["qdisc", "del", "dev", port, "root"])?;
        }
        Ok(())
    }

    fn tc(&self, args: &[&str]) -> Result<(), Error> {
        let mut all = vec!["tc"];
        all.extend_from_slice(args);
        self.middle.run(&all).map(drop)
    }
}

/// Limits what a port sends: see [`Topology::limit_rate`].
pub(crate) fn limit_rate(
    namespace: &Namespace,
    port: &str,
    bits_per_second: u64,
    queue: Duration,
) -> Result<(), Error> {
    let rate = format!("{bits_per_second}bit");
    // Enough for one wake-up of the timer each millisecond, and for several full frames.
    let burst = (bits_per_second / 8 / 1000).max(16_384).to_string();
    let latency = format!("{}us", queue.as_micros());
    let tbf = ["tc", "qdisc", "replace", "dev", port, "root", "tbf"];
    let limits = ["rate", &rate, "burst", &burst, "latency", &latency, "overhead", "24"];
    namespace.run(&[&tbf[..], &limits].concat()).map(drop)
}

impl Gateway {
    fn protected(&self) -> End<'_> {
        End { ns: &self.namespace, ifname: PROTECTED, mac: self.protected_mac }
    }

    pub(crate) fn connect_plain(&self, machine: &Machine, shape: &Shape) -> Result<(), Error> {
        let plain = End { ns: &self.namespace, ifname: PLAIN, mac: self.plain_mac };
        let own = End { ns: &machine.namespace, ifname: machine.ifname, mac: machine.mac };
        veth(&plain, &own, shape.plain_mtu, shape.gateway_queues)?;
        offloads_off(&machine.namespace, machine.ifname)
    }

    /// Puts a plain Linux bridge into it.
    ///
    /// # Errors
    /// If the bridge cannot be made.
    pub fn bridge(&self) -> Result<(), Error> {
        for port in [PLAIN, PROTECTED] {
            offloads_off(&self.namespace, port)?;
        }
        bridge(&self.namespace, WIRE, [PLAIN, PROTECTED])
    }
}

impl Machine {
    /// Its IPv4 address.
    pub(crate) fn address(&self) -> Result<(), Error> {
        self.namespace.ip(&["addr", "add", &format!("{}/24", self.ipv4), "dev", self.ifname]).map(drop)
    }

    fn configure(&self, other: &Machine, shape: &Shape) -> Result<(), Error> {
        let device = self.ifname;
        self.address()?;
        let mac = text(other.mac);
        let neighbour = |ip: String| {
            self.namespace.ip(&["neigh", "replace", &ip, "lladdr", &mac, "dev", device, "nud", "permanent"])
        };
        if shape.static_neighbours {
            neighbour(other.ipv4.to_string())?;
        }
        if shape.ipv6 {
            for (key, value) in [
                ("router_solicitations", "0"),
                ("accept_ra", "0"),
                ("accept_dad", "0"),
                ("addr_gen_mode", "1"),
                ("disable_ipv6", "0"),
            ] {
                self.namespace.sysctl(&format!("net/ipv6/conf/{device}/{key}"), value)?;
            }
            self.namespace.ip(&["addr", "add", &format!("{}/64", self.ipv6), "dev", device, "nodad"])?;
            if shape.static_neighbours {
                neighbour(other.ipv6.to_string())?;
            }
        }
        Ok(())
    }
}

fn machine(label: &str, ifname: &'static str, number: u8) -> Result<Machine, Error> {
    let side = if number == 1 { 0xA1 } else { 0xB1 };
    Ok(Machine {
        namespace: Namespace::new(label)?,
        ifname,
        mac: mac(side),
        ipv4: Ipv4Addr::new(10, 77, 0, number),
        ipv6: Ipv6Addr::new(0xFD77, 0, 0, 0, 0, 0, 0, u16::from(number)),
    })
}

fn gateway(label: &str, plain: u8, protected: u8) -> Result<Gateway, Error> {
    Ok(Gateway { namespace: Namespace::new(label)?, plain_mac: mac(plain), protected_mac: mac(protected) })
}

pub(crate) struct End<'a> {
    pub(crate) ns: &'a Namespace,
    pub(crate) ifname: &'a str,
    pub(crate) mac: Mac,
}

/// A veth pair is usable only when both ends know that the other is up; the kernel tells them a moment later.
pub(crate) fn wait_for_carrier(interfaces: &[(&Namespace, &str)]) -> Result<(), Error> {
    let limit = Duration::from_secs(20);
    let end = std::time::Instant::now() + limit;
    for (namespace, ifname) in interfaces {
        while !namespace.ip(&["-o", "link", "show", ifname])?.stdout.contains("state UP") {
            if std::time::Instant::now() >= end {
                return Err(Error::Deadline { what: format!("{ifname} to come up"), limit });
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }
    Ok(())
}

/// Makes a pair, with `queues` queues on both ends, and takes it up.
pub(crate) fn veth(one: &End<'_>, other: &End<'_>, mtu: u32, queues: u32) -> Result<(), Error> {
    let (mtu, queues) = (mtu.to_string(), queues.to_string());
    let (one_mac, other_mac) = (text(one.mac), text(other.mac));
    let mut args = vec!["link", "add", "name", one.ifname, "address", &one_mac, "mtu", &mtu];
    args.extend([
        "numrxqueues",
        &queues,
        "numtxqueues",
        &queues,
        "type",
        "veth",
        "peer",
        "name",
        other.ifname,
    ]);
    args.extend(["netns", other.ns.name(), "address", &other_mac, "mtu", &mtu]);
    args.extend(["numrxqueues", &queues, "numtxqueues", &queues]);
    one.ns.ip(&args)?;
    for end in [one, other] {
        end.ns.ip(&["link", "set", end.ifname, "up"])?;
    }
    Ok(())
}

/// A bridge that is as near to a wire as the kernel lets it be: see the module's doc.
pub(crate) fn bridge(namespace: &Namespace, name: &str, ports: [&str; 2]) -> Result<(), Error> {
    namespace.ip(&[
        "link",
        "add",
        "name",
        name,
        "type",
        "bridge",
        "stp_state",
        "0",
        "mcast_snooping",
        "0",
    ])?;
    for port in ports {
        bridge_port(namespace, name, port)?;
    }
    namespace.ip(&["link", "set", name, "up"]).map(drop)
}

fn bridge_port(namespace: &Namespace, bridge: &str, port: &str) -> Result<(), Error> {
    namespace.ip(&["link", "set", port, "master", bridge])?;
    let slave = ["type", "bridge_slave", "learning", "off", "group_fwd_mask", PORT_FORWARD_MASK];
    namespace.ip(&[&["link", "set", port][..], &slave].concat()).map(drop)
}

pub(crate) fn offloads_off(namespace: &Namespace, ifname: &str) -> Result<(), Error> {
    let mut args = vec!["ethtool", "-K", ifname];
    args.extend(OFFLOADS.iter().flat_map(|offload| [*offload, "off"]));
    namespace.run(&args).map(drop)
}

const fn mac(last: u8) -> Mac {
    [0x02, 0, 0, 0, 0, last]
}

/// The usual spelling: `02:00:00:00:00:a1`.
fn text(mac: Mac) -> String {
    mac.map(|octet| format!("{octet:02x}")).join(":")
}
