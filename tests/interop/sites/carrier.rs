//! Carriers of frames from one plant to the other: sites, or a site and a kernel.

use std::time::{Duration, Instant};

use lab::plants::{LAN, WAN};
use lab::{Plant, Plants};
use perf::demo::pair::{Scratch, Station as Gateway};
use perf::demo::sites::{Sites, SitesChoice};
use report::Counters;
use report::site::SiteReport;
use report::table::Group;

use super::super::{DEADLINE, program};

/// The VXLAN network identifier of the plain test.
const VNI: u32 = 4711;
/// Octets of UDP payload that cross the plants' internet in one packet.
const PATH_PAYLOAD: u16 = 1472;

/// Equipment of the site boxes.
pub(crate) enum Carrier {
    /// A site gateway in each.
    Sites(Sites),
    /// A site gateway in that of plant 1, in `plain` mode, and the kernel's vxlan interface in that of plant 2.
    Plain { site: Gateway, _scratch: Scratch },
}

impl Carrier {
    /// Starts two sites in this mode, and waits until they are each other's peer and know how long packets may be.
    pub(crate) fn sites(plants: &Plants, mode: &'static str) -> Carrier {
        let choice = SitesChoice { mode, ..SitesChoice::default() };
        let carrier = Carrier::Sites(Sites::start(program(), plants, &choice).unwrap());
        carrier.wait("the sites are each other's peer", |site| {
            let peer = &site.peers[0];
            let epochs = peer.transmit_epoch.is_some() && peer.receive_epoch.is_some();
            epochs && peer.state == "connected" && peer.path_payload == Some(PATH_PAYLOAD)
        });
        carrier
    }

    /// Starts a plain site in plant 1 and makes what an operator would in plant 2: a vxlan interface, bridged to the LAN.
    pub(crate) fn plain(plants: &Plants) -> Carrier {
        let [one, two] = &plants.plants[..] else { panic!("two plants") };
        vxlan(two, one);
        let scratch = Scratch::new().unwrap();
        let text = format!(
            "[gateway]\nname = \"site-1\"\nstate = \"{}\"\n\
             [[site]]\nname = \"plant-1\"\nlan = \"{LAN}\"\nbind = \"0.0.0.0:7787\"\n\
             [[site.peer]]\nname = \"plant-2\"\nmode = \"plain\"\nvni = {VNI}\nendpoint = \"{}:4789\"\n",
            scratch.path().join("state").display(),
            two.ipv4
        );
        scratch.write("site-1.toml", &text).unwrap();
        let site = Gateway::start(program(), &one.site, &scratch, "site-1").unwrap();
        Carrier::Plain { site, _scratch: scratch }
    }

    /// Stops the gateways of the stations, whose boxes are empty then.
    pub(crate) fn stop_stations(&mut self) {
        if let Carrier::Sites(sites) = self {
            sites.stations.drain(..).flatten().for_each(|gateway| drop(gateway.stop().unwrap()));
        }
    }

    /// Reports of the sites.
    pub(crate) fn reports(&self) -> Vec<SiteReport> {
        let gateways = match self {
            Carrier::Sites(sites) => sites.sites.iter().collect(),
            Carrier::Plain { site, .. } => vec![site],
        };
        gateways.into_iter().map(|gateway| gateway.report().unwrap().sites.remove(0)).collect()
    }

    /// Waits until all sites are as they should be.
    pub(crate) fn wait(&self, what: &str, is: impl Fn(&SiteReport) -> bool) {
        let end = Instant::now() + DEADLINE;
        loop {
            let reports = self.reports();
            if reports.iter().all(&is) {
                return;
            }
            assert!(Instant::now() < end, "{what}, but not within {DEADLINE:?}: {reports:#?}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// No frame and no packet was discarded but for these reasons. The channel is left out: a handshake fails while the
    /// other site is not there yet, and a newer MKPDU takes the place of one that still waits.
    pub(crate) fn has_discarded_only(&self, reasons: &[&str]) {
        for site in self.reports() {
            let groups = site.groups().into_iter();
            for (group, place, counters) in groups.filter(|(group, ..)| *group != Group::Channel) {
                for (name, value) in counters.iter() {
                    let discarded = value > 0 && group.counter(name).is_some_and(|row| row.discard);
                    let strange = discarded && !reasons.contains(&name);
                    assert!(!strange, "{}: {place}: {name} {value}", site.name);
                }
            }
        }
    }

    pub(crate) fn stop(self) {
        match self {
            Carrier::Sites(sites) => sites.stop().unwrap(),
            Carrier::Plain { site, .. } => drop(site.stop().unwrap()),
        }
    }
}

/// The kernel's end of a VXLAN: a bridge that lets EAPOL pass joins it to the LAN.
fn vxlan(own: &Plant, peer: &Plant) {
    let (vni, remote) = (VNI.to_string(), peer.ipv4.to_string());
    let site = &own.site;
    site.ip(&[
        "link", "add", "vxlan", "type", "vxlan", "id", &vni, "remote", &remote, "dstport", "4789", "dev", WAN,
    ])
    .unwrap();
    site.ip(&[
        "link",
        "add",
        "name",
        "joint",
        "type",
        "bridge",
        "stp_state",
        "0",
        "mcast_snooping",
        "0",
        "group_fwd_mask",
        "0xfff8",
    ])
    .unwrap();
    for port in ["vxlan", LAN] {
        site.ip(&["link", "set", port, "master", "joint", "up"]).unwrap();
    }
    site.ip(&["link", "set", "joint", "up"]).unwrap();
}

/// A counter of a report.
pub(crate) fn counter(counters: &Counters, name: &str) -> u64 {
    let found = counters.iter().find(|(known, _)| *known == name);
    found.unwrap_or_else(|| panic!("no counter {name}")).1
}
