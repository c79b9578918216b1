//! Several plants and the routed internet between them: for sites.
//!
//! ```text
//!  plant 1: LAN                                              line 1
//!  machine 1 ── station 1 ──┐                          +----------------+
//!  machine 2 ── station 2 ──┤ switch ── lan SITE wan ──| left ~~ right  |── to1 ┐
//!               (link gateways)  │                     +----------------+        │ internet ── line 2 ── plant 2 …
//!                       outlet ── probe                 captures, relays         │  (router)
//! ```
//!
//! Each line is a veth pair, each box a namespace of its own; SITE and the stations are empty boxes, up and with
//! nothing between their interfaces. All machines are in one IPv4 subnet, 10.77.0.0/24: their plants are one LAN once
//! the sites carry frames. MAC addresses are 02:00:00:00:NN:xx, NN the plant's number.
//!
//! The line is where an eavesdropper sits: [`Capture`](crate::Capture) on [`LEFT`] or [`RIGHT`], a
//! [`Relay`](crate::Relay) across it. Segmentation offload is off on the whole way from a site to the internet:
//! otherwise packets would cross a veth pair as merged ones that exceed the path's MTU. A relay needs
//! [`Plants::fill_checksums`] as well.
//! `probe` is a free end on the LAN's switch: what is sent there enters the LAN, and it hears what the switch floods.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use crate::topology::{
    End, Gateway, LEFT, Mac, Machine, PLAIN, PROTECTED, RIGHT, Shape, WIRE, bridge, limit_rate, offloads_off,
    veth, wait_for_carrier,
};
use crate::{Error, Namespace};

/// A site's interface towards its LAN.
pub const LAN: &str = "lan";
/// A site's interface towards the internet.
pub const WAN: &str = "wan";
/// The free end on a LAN's switch.
pub const PROBE: &str = "probe";
/// The LAN's end of a site's [`LAN`].
pub const BARE: &str = "to-site";
/// The switch of a LAN: a bridge that learns, and lets EAPOL pass as MACsec-aware switches do.
pub const SWITCH: &str = "switch";

/// Settings of plants.
#[derive(Clone, Debug)]
pub struct PlantsShape {
    /// Number of plants, 2 to 9.
    pub plants: u8,
    /// Stations in each LAN, each with its machine, 0 to 9.
    pub stations: u8,
    /// MTU of the machines' interfaces, in octets.
    pub machine_mtu: u32,
    /// MTU of the LANs, in octets.
    pub lan_mtu: u32,
    /// MTU of everything between a site and the internet, in octets.
    pub wan_mtu: u32,
    /// Whether the LANs have switches, with stations and probe; else a site's `lan` ends at [`BARE`], for whoever wants
    /// nothing but the site measured.
    pub switches: bool,
    /// Whether there is a line, where captures and relays can stand; else a site's `wan` is a router's neighbour.
    pub lines: bool,
    /// Whether the sites have IPv6 addresses as well.
    pub ipv6: bool,
    /// Whether a single veth pair joins the two sites' WANs, as a cable would, and there is neither line nor router. IPv4 alone.
    pub cable: bool,
}

impl Default for PlantsShape {
    fn default() -> PlantsShape {
        PlantsShape {
            plants: 2,
            stations: 1,
            machine_mtu: 1438,
            lan_mtu: 1470,
            wan_mtu: 1500,
            switches: true,
            lines: true,
            ipv6: false,
            cable: false,
        }
    }
}

/// A station: a link gateway's empty box with its machine behind it.
#[derive(Debug)]
pub struct Station {
    /// The gateway's box: `plain` towards its machine, `prot` towards the LAN.
    pub gateway: Gateway,
    /// The machine.
    pub machine: Machine,
}

/// A plant.
#[derive(Debug)]
pub struct Plant {
    /// Its number, from 1.
    pub number: u8,
    /// The site gateway's empty box, with [`LAN`] and [`WAN`], and a default route.
    pub site: Namespace,
    /// MAC address of the site's [`LAN`].
    pub lan_mac: Mac,
    /// MAC address of the site's [`WAN`].
    pub wan_mac: Mac,
    /// The LAN: [`SWITCH`] and [`PROBE`].
    pub lan: Namespace,
    /// The line to the internet, ports [`LEFT`] towards the site and [`RIGHT`].
    pub line: Option<Namespace>,
    /// Its stations.
    pub stations: Vec<Station>,
    /// The site's address.
    pub ipv4: Ipv4Addr,
    /// The site's other address, with [`PlantsShape::ipv6`].
    pub ipv6: Ipv6Addr,
}

impl Plant {
    /// Limits what goes from the site to the internet to `bits_per_second`, as [`Topology::limit_rate`](crate::Topology::limit_rate)
    /// does: `queue` is one queue for all, as in a modem. The plant needs a line.
    ///
    /// # Errors
    /// If there is no line, or the kernel has no tbf.
    pub fn limit_uplink(&self, bits_per_second: u64, queue: Duration) -> Result<(), Error> {
        let line = self.line.as_ref().ok_or_else(|| Error::Unexpected("a plant without a line".into()))?;
        limit_rate(line, RIGHT, bits_per_second, queue)
    }
}

/// All plants and the internet. Dropping it removes them and kills what runs inside.
#[derive(Debug)]
pub struct Plants {
    /// The plants, by number.
    pub plants: Vec<Plant>,
    /// The router: interface `to1` towards plant 1, and so on. Empty with [`PlantsShape::cable`].
    pub internet: Namespace,
}

impl Plants {
    /// Builds them, after sweeping away what dead owners left. Needs root.
    ///
    /// # Errors
    /// If a namespace or an interface cannot be made.
    pub fn build(shape: &PlantsShape) -> Result<Plants, Error> {
        Namespace::sweep()?;
        let internet = Namespace::new("internet")?;
        internet.sysctl("net/ipv4/ip_forward", "1")?;
        let plants: Result<Vec<_>, _> =
            (1..=shape.plants).map(|number| Plant::build(number, shape)).collect();
        let plants = Plants { plants: plants?, internet };
        if shape.cable {
            plants.join_by_cable(shape)?;
        }
        for plant in &plants.plants {
            plant.connect(&plants.internet, shape)?;
        }
        if shape.ipv6 {
            plants.internet.sysctl("net/ipv6/conf/all/forwarding", "1")?;
        }
        Ok(plants)
    }

    fn join_by_cable(&self, shape: &PlantsShape) -> Result<(), Error> {
        let [one, two] = self.plants.as_slice() else {
            return Err(Error::Unexpected("a cable joins two plants".into()));
        };
        let [first, second] =
            [one, two].map(|plant| End { ns: &plant.site, ifname: WAN, mac: plant.wan_mac });
        veth(&first, &second, shape.wan_mtu, 1)?;
        for plant in [one, two] {
            segmentation_off(&plant.site, WAN)?;
            plant.site.ip(&["addr", "add", &format!("{}/24", plant.ipv4), "dev", WAN])?;
        }
        Ok(())
    }

    /// Changes the MTU of the way between a plant and the internet beyond the site's own interface: a path that is
    /// narrower than it looks from the site.
    ///
    /// # Errors
    /// If the interface does not take it.
    pub fn narrow(&self, plant: &Plant, mtu: u32) -> Result<(), Error> {
        let device = to(plant.number);
        self.internet.ip(&["link", "set", &device, "mtu", &mtu.to_string()]).map(drop)
    }

    /// Has checksums filled in before packets come to a plant's line: a veth pair passes them on unfilled, and what a
    /// relay sends again would be thrown away at the other end.
    ///
    /// # Errors
    /// If an interface does not take it.
    pub fn fill_checksums(&self, plant: &Plant) -> Result<(), Error> {
        let device = to(plant.number);
        for (namespace, ifname) in [(&plant.site, WAN), (&self.internet, device.as_str())] {
            namespace.run(&["ethtool", "-K", ifname, "tx", "off"])?;
        }
        Ok(())
    }
}

impl Plant {
    /// Has a bridge join LAN and WAN instead of a site, as near to a wire as the kernel lets it be.
    ///
    /// # Errors
    /// If it cannot be made.
    pub fn bridge(&self) -> Result<(), Error> {
        bridge(&self.site, WIRE, [LAN, WAN])
    }

    fn build(number: u8, shape: &PlantsShape) -> Result<Plant, Error> {
        let stations: Result<Vec<_>, Error> =
            (1..=shape.stations).map(|station| Station::build(number, station)).collect();
        Ok(Plant {
            number,
            site: Namespace::new(&format!("site-{number}"))?,
            lan_mac: mac(number, 0xd0),
            wan_mac: mac(number, 0xe0),
            lan: Namespace::new(&format!("lan-{number}"))?,
            line: shape.lines.then(|| Namespace::new(&format!("line-{number}"))).transpose()?,
            stations: stations?,
            ipv4: Ipv4Addr::new(198, 51, 100, number * 4 + 2),
            ipv6: Ipv6Addr::new(0xfd51, number.into(), 0, 0, 0, 0, 0, 2),
        })
    }

    fn connect(&self, internet: &Namespace, shape: &PlantsShape) -> Result<(), Error> {
        self.connect_lan(shape)?;
        if !shape.cable {
            self.connect_wan(internet, shape)?;
        }
        let mut interfaces = vec![(&self.site, LAN), (&self.site, WAN)];
        if shape.switches {
            interfaces.extend([(&self.lan, SWITCH), (&self.lan, PROBE)]);
        }
        for station in &self.stations {
            interfaces.push((&station.gateway.namespace, PLAIN));
            interfaces.push((&station.gateway.namespace, PROTECTED));
            interfaces.push((&station.machine.namespace, station.machine.ifname));
        }
        if let Some(line) = &self.line {
            interfaces.extend([(line, LEFT), (line, RIGHT), (line, WIRE)]);
        }
        wait_for_carrier(&interfaces)
    }

    /// Makes the site's [`LAN`] again, which was deleted, and joins it to the switch.
    ///
    /// # Errors
    /// If it is there, or cannot be made.
    pub fn remake_lan(&self, shape: &PlantsShape) -> Result<(), Error> {
        self.connect_site(shape)?;
        offloads_off(&self.lan, BARE)?;
        self.lan.ip(&["link", "set", BARE, "master", SWITCH]).map(drop)
    }

    fn connect_site(&self, shape: &PlantsShape) -> Result<(), Error> {
        let lan = End { ns: &self.site, ifname: LAN, mac: self.lan_mac };
        veth(&lan, &self.lan_port(BARE, 0xd1), shape.lan_mtu, 1)
    }

    fn connect_lan(&self, shape: &PlantsShape) -> Result<(), Error> {
        self.connect_site(shape)?;
        if !shape.switches {
            return offloads_off(&self.lan, BARE);
        }
        self.lan.ip(&[
            "link",
            "add",
            "name",
            SWITCH,
            "mtu",
            &shape.lan_mtu.to_string(),
            "type",
            "bridge",
            "stp_state",
            "0",
            "mcast_snooping",
            "0",
            "group_fwd_mask",
            "0xfff8",
        ])?;
        veth(&self.lan_port(PROBE, 0xf0), &self.lan_port("outlet", 0xf1), shape.lan_mtu, 1)?;
        offloads_off(&self.lan, PROBE)?;
        let mut ports = vec![BARE.to_owned(), "outlet".to_owned()];
        for (index, station) in (1..).zip(&self.stations) {
            let name = format!("to-{index}");
            let protected =
                End { ns: &station.gateway.namespace, ifname: PROTECTED, mac: station.gateway.protected_mac };
            veth(&protected, &self.lan_port(&name, 0x80 + index), shape.lan_mtu, 1)?;
            let plain = Shape { plain_mtu: shape.machine_mtu, ..Shape::default() };
            station.gateway.connect_plain(&station.machine, &plain)?;
            station.machine.address()?;
            ports.push(name);
        }
        for name in ports {
            offloads_off(&self.lan, &name)?;
            self.lan.ip(&["link", "set", &name, "master", SWITCH])?;
        }
        self.lan.ip(&["link", "set", SWITCH, "up"]).map(drop)
    }

    fn lan_port<'a>(&'a self, name: &'a str, last: u8) -> End<'a> {
        End { ns: &self.lan, ifname: name, mac: mac(self.number, last) }
    }

    fn connect_wan(&self, internet: &Namespace, shape: &PlantsShape) -> Result<(), Error> {
        let device = to(self.number);
        let wan = End { ns: &self.site, ifname: WAN, mac: self.wan_mac };
        let router = End { ns: internet, ifname: &device, mac: mac(self.number, 0xe1) };
        match &self.line {
            None => veth(&wan, &router, shape.wan_mtu, 1)?,
            Some(line) => {
                veth(&wan, &End { ns: line, ifname: LEFT, mac: mac(self.number, 0xe2) }, shape.wan_mtu, 1)?;
                veth(
                    &End { ns: line, ifname: RIGHT, mac: mac(self.number, 0xe3) },
                    &router,
                    shape.wan_mtu,
                    1,
                )?;
                for port in [LEFT, RIGHT] {
                    offloads_off(line, port)?;
                }
                bridge(line, WIRE, [LEFT, RIGHT])?;
            }
        }
        segmentation_off(&self.site, WAN)?;
        segmentation_off(internet, &device)?;
        let router_ipv4 = Ipv4Addr::new(198, 51, 100, self.number * 4 + 1);
        self.site.ip(&["addr", "add", &format!("{}/30", self.ipv4), "dev", WAN])?;
        internet.ip(&["addr", "add", &format!("{router_ipv4}/30"), "dev", &device])?;
        self.site.ip(&["route", "add", "default", "via", &router_ipv4.to_string()])?;
        if shape.ipv6 {
            let router = Ipv6Addr::new(0xfd51, self.number.into(), 0, 0, 0, 0, 0, 1);
            for (namespace, device, address) in [(&self.site, WAN, self.ipv6), (internet, &*device, router)] {
                namespace.sysctl(&format!("net/ipv6/conf/{device}/disable_ipv6"), "0")?;
                namespace.ip(&["addr", "add", &format!("{address}/64"), "dev", device, "nodad"])?;
            }
            self.site.ip(&["-6", "route", "add", "default", "via", &router.to_string()])?;
        }
        Ok(())
    }
}

impl Station {
    fn build(plant: u8, station: u8) -> Result<Station, Error> {
        let name = |what| format!("{what}-{plant}-{station}");
        Ok(Station {
            gateway: Gateway {
                namespace: Namespace::new(&name("station"))?,
                plain_mac: mac(plant, 0xb0 + station),
                protected_mac: mac(plant, 0xc0 + station),
            },
            machine: Machine {
                namespace: Namespace::new(&name("machine"))?,
                ifname: "m0",
                mac: mac(plant, 0xa0 + station),
                ipv4: Ipv4Addr::new(10, 77, 0, plant * 10 + station),
                ipv6: Ipv6Addr::new(0xfd77, 0, 0, 0, 0, 0, plant.into(), station.into()),
            },
        })
    }
}

fn segmentation_off(namespace: &Namespace, ifname: &str) -> Result<(), Error> {
    namespace.run(&["ethtool", "-K", ifname, "tx-udp-segmentation", "off", "tso", "off"]).map(drop)
}

/// The router's interface towards a plant.
pub fn to(plant: u8) -> String {
    format!("to{plant}")
}

const fn mac(plant: u8, last: u8) -> Mac {
    [0x02, 0, 0, 0, plant, last]
}
