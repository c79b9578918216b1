//! Gateways of one group, and waits for what they report of their key agreement.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use frameward::keygen::{self, KeyLength};
use lab::topology::{PLAIN, PROTECTED};
use lab::traffic::{self, Ip};
use lab::{Namespace, Program, Shape, Topology};
use perf::demo::pair::{Scratch, Station};
use report::mka::MkaReport;
use report::{GatewayReport, table};
use wire::Ckn;

use crate::{DEADLINE, program};

/// A network of 1500 octets: full-size frames pass only while they are fragmented.
pub(crate) const NARROW: Shape = Shape {
    plain_mtu: 1500,
    protected_mtu: 1500,
    gateway_queues: 1,
    ipv6: false,
    static_neighbours: true,
    cable: false,
};

/// Gateways of one topology, and their files.
pub(crate) struct Group {
    pub(crate) topology: Topology,
    pub(crate) scratch: Scratch,
    /// Further lines of [[link]].
    pub(crate) link: &'static str,
}

impl Group {
    pub(crate) fn new() -> Self {
        Self { topology: Topology::build(&NARROW).unwrap(), scratch: Scratch::new().unwrap(), link: "" }
    }

    pub(crate) fn cak(&self, file: &str, ckn: &str) {
        let ckn = Ckn::new(ckn.as_bytes());
        keygen::cak(KeyLength::Bits128, ckn, &self.scratch.path().join(file)).unwrap();
    }

    /// Writes the configuration of a gateway; `mka` are the lines of its [link.mka].
    pub(crate) fn configure(&self, name: &str, mka: &str) {
        self.configure_with("", name, mka);
    }

    /// The same with further lines of [gateway].
    pub(crate) fn configure_with(&self, gateway: &str, name: &str, mka: &str) {
        let state = self.scratch.path().join(format!("state-{name}"));
        let text = format!(
            "[gateway]\nname = \"{name}\"\nstate = \"{}\"\n{gateway}\n[[link]]\nname = \"press\"\n\
             plain = \"{PLAIN}\"\nprotected = \"{PROTECTED}\"\nreplay_window = 64\n{}\n[link.mka]\n{mka}\n",
            state.display(),
            self.link
        );
        self.scratch.write(&format!("{name}.toml"), &text).unwrap();
    }

    pub(crate) fn namespace(&self, name: &str) -> &Namespace {
        if name == "a" { &self.topology.gateway_a.namespace } else { &self.topology.gateway_b.namespace }
    }

    pub(crate) fn start(&self, name: &str) -> Station {
        Station::start(program(), self.namespace(name), &self.scratch, name).unwrap()
    }

    /// Both with the same lines, running and secured.
    pub(crate) fn pair(&self, mka: &str) -> [Station; 2] {
        self.pair_with("", mka)
    }

    /// The same with further lines of [gateway].
    pub(crate) fn pair_with(&self, gateway: &str, mka: &str) -> [Station; 2] {
        let pair = ["a", "b"].map(|name| {
            self.configure_with(gateway, name, mka);
            self.start(name)
        });
        self.secured(&[&pair[0], &pair[1]]);
        pair
    }

    /// Waits until two have agreed on keys with each other.
    pub(crate) fn secured(&self, stations: &[&Station; 2]) {
        all(*stations, "it is secured", secured_with(1));
    }

    /// `frameward` with arguments that begin with a command.
    pub(crate) fn command(&self, arguments: &[&str]) -> lab::program::Output {
        self.command_within(DEADLINE, arguments)
    }

    pub(crate) fn command_within(&self, deadline: Duration, arguments: &[&str]) -> lab::program::Output {
        let variable = format!("FRAMEWARD_RUNTIME_DIR={}", self.scratch.path().join("run").display());
        let command = [&["env", &variable, program().to_str().unwrap()], arguments].concat();
        Program::spawn(&command).unwrap().wait(deadline).unwrap()
    }

    pub(crate) fn ping(&self) {
        let (a, b) = (&self.topology.machine_a, &self.topology.machine_b);
        if let Err(error) = traffic::ping(a, b, Ip::V4, 3, 1472) {
            let status = ["a", "b"].map(|name| self.command(&["status", name]).stdout);
            panic!("{error}\n{}\n{}", status[0], status[1]);
        }
    }
}

pub(crate) fn mka(report: &GatewayReport) -> &MkaReport {
    report.links[0].mka.as_ref().unwrap()
}

pub(crate) fn secured_with(peers: usize) -> impl Fn(&MkaReport) -> bool {
    move |mka| mka.secured && mka.live_peers() == peers
}

/// Waits until a gateway's key agreement is as it should be.
pub(crate) fn until(station: &Station, what: &str, is_so: impl Fn(&MkaReport) -> bool) {
    let end = Instant::now() + DEADLINE;
    loop {
        let report = station.report().unwrap();
        // A worker that gets no CPU for a second is left out.
        let mka = report.links.first().and_then(|link| link.mka.as_ref());
        if mka.is_some_and(&is_so) {
            return;
        }
        assert!(Instant::now() < end, "{what}: {mka:#?}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

pub(crate) fn all<const N: usize>(stations: [&Station; N], what: &str, is_so: impl Fn(&MkaReport) -> bool) {
    stations.iter().for_each(|station| until(station, what, &is_so));
}

pub(crate) fn stop<const N: usize>(stations: [Station; N]) {
    stations.into_iter().for_each(|station| drop(station.stop().unwrap()));
}

pub(crate) fn ki(station: &Station) -> String {
    mka(&station.report().unwrap()).sak().unwrap().ki.clone()
}

/// All counters of the first link that count discards.
pub(crate) fn discards(report: &GatewayReport) -> Vec<(String, u64)> {
    let link = &report.links[0];
    let secy = link.secy.counters.iter().chain(link.secy.transmit.counters.iter());
    let receive = link.secy.receive.iter().flat_map(|sc| sc.counters.iter());
    let ports = [&link.plain, &link.protected].into_iter().flat_map(|port| port.counters.iter());
    secy.chain(receive)
        .chain(ports)
        .filter(|(name, value)| *value > 0 && table::counter(name).is_some_and(|row| row.discard))
        .map(|(name, value)| (name.to_owned(), value))
        .collect()
}

pub(crate) fn path(group: &Group, file: &str) -> String {
    let path: PathBuf = group.scratch.path().join(file);
    Path::new(&path).display().to_string()
}

/// A third gateway's box on the same network.
pub(crate) fn third(topology: &Topology) -> Namespace {
    let c = Namespace::new("gateway-c").unwrap();
    let middle = &topology.middle;
    for (ifname, mac, peer, to) in [
        (PROTECTED, "02:00:00:00:00:d3", "third", middle.name()),
        (PLAIN, "02:00:00:00:00:d2", "machine", c.name()),
    ] {
        c.ip(&[
            "link", "add", "name", ifname, "address", mac, "type", "veth", "peer", "name", peer, "netns", to,
        ])
        .unwrap();
        c.ip(&["link", "set", ifname, "up"]).unwrap();
    }
    c.ip(&["link", "set", "machine", "up"]).unwrap();
    middle.ip(&["link", "set", "third", "master", "wire", "up"]).unwrap();
    let slave = ["type", "bridge_slave", "learning", "off", "group_fwd_mask", "0xfffd"];
    middle.ip(&[&["link", "set", "third"][..], &slave].concat()).unwrap();
    c
}
