//! All of a started site but what its worker owns: the LAN's interface, the management channel, the numbers of its peers.

mod peers;

use std::collections::BTreeMap;
use std::net::UdpSocket;
use std::os::fd::AsFd;
use std::sync::Arc;

use control::Gateway as Control;
use dataplane::open::{OpenLan, open_lan};
use dataplane::site::{
    DatagramConsumer, Lan, ManagerMailbox, Site as Forwarding, StandbySettings, Wan, datagrams, mailboxes,
};
use netdev::interface::{Guard, InterfaceError, LinkState};
use netdev::passed_on::PassedInterface;
use netdev::udp::UdpPort;
use sitelink::{KernelSite, Manager, ManagerSettings, ManagerStatus, PlainPeer};
use tracing::{info, warn};
use tunnel::standby::{LONGEST_TAKEOVER, Timing};
use tunnel::{Mode, PacketOctets, PeerId};

use super::super::interface_settings::{InterfaceSettings, OwnInterface};
use super::super::link::{allowed, io};
use super::super::upgrade::PassedSite;
use super::plain_peers::PlainPeers;
use super::programs::Kernel;
use config::site::settings::{
    lan_frame, manager_settings, open_wan, peer_settings, plain_port, settings, shapers,
};
use config::{Gateway, Io, Site, SitePeer};

/// All of a started site but what its worker owns.
pub(in crate::run) struct Works {
    pub(in crate::run) about: About,
    /// The LAN's interface, as far as it is there; to be restored when no port is open on it.
    prepared: Option<OwnInterface>,
    channel: Channel,
    fallback: Option<String>,
    /// The number of each peer, in the order of the configuration; and how many there were since the start.
    numbers: Vec<PeerId>,
    numbered: usize,
    /// Its programs in the kernel.
    kernel: Option<Arc<KernelSite>>,
}

/// Its ports.
pub(in crate::run) struct About {
    /// The MTU of the LAN.
    pub(in crate::run) lan_mtu: usize,
    pub(in crate::run) engine: String,
    pub(in crate::run) udp: Vec<AboutUdp>,
}

/// A UDP port of a site.
pub(in crate::run) struct AboutUdp {
    /// Its purpose.
    pub(in crate::run) what: &'static str,
    pub(in crate::run) address: String,
    /// Work of the kernel for it.
    how: String,
}

/// The thread that gives the worker the peers' addresses and keys.
enum Channel {
    Quic(Manager),
    /// All peers are plain.
    Plain(PlainPeers),
}

/// A site whose sockets are bound: the rest is a matter of threads.
struct Bound {
    forwarding: Box<Forwarding>,
    about: About,
    prepared: Option<OwnInterface>,
    fallback: Option<String>,
    mailbox: ManagerMailbox,
    datagrams: DatagramConsumer,
    socket: Option<UdpSocket>,
}

impl Works {
    pub(super) fn start(
        gateway: &Gateway,
        config: &Site,
        (lan_mtu, passed): (usize, Option<&PassedSite>),
        kernel: &Kernel,
        control: &mut Control,
        settings: &InterfaceSettings,
    ) -> Result<Self, String> {
        let kernel = match kernel {
            Err(why) if gateway.io == Io::Kernel && config.peers_in_kernel(gateway.io).is_ok() => {
                return Err(format!("io = \"kernel\", and {why}"));
            }
            other => other.as_ref().ok().cloned(),
        };
        let Bound { forwarding, about, prepared, fallback, mailbox, datagrams, socket } =
            Bound::new(gateway, config, (lan_mtu, passed), kernel.as_deref(), settings)
                .map_err(|error| error.to_string())?;
        control.add_site(config.name.clone(), forwarding).map_err(|error| error.to_string())?;
        let parts = (mailbox, datagrams, socket);
        match Channel::start(config, lan_mtu, passed.is_some(), parts, kernel.clone()) {
            Ok(channel) => {
                let numbers: Vec<_> = (0..).map(PeerId).take(config.peers.len()).collect();
                let numbered = numbers.len();
                Ok(Self { about, prepared, channel, fallback, numbers, numbered, kernel })
            }
            Err(error) => {
                // The line says why it did not start; a worker that does not answer is told by its verdict.
                let _ = control.remove_site(&config.name);
                let _ = prepared.map(OwnInterface::restore);
                Err(format!(
                    "cannot start the management channel: {error}; raise the limits of tasks and files"
                ))
            }
        }
    }

    /// Says what was chosen.
    pub(super) fn announce(&self, Site { name, lan, peers, .. }: &Site) {
        let Self { about, prepared, fallback, .. } = self;
        if let Some(reason) = fallback {
            info!(
                event = "engine-fallback",
                site = name,
                "AF_XDP is not available, so AF_PACKET is used: {reason}"
            );
        }
        let bound: Vec<_> = about
            .udp
            .iter()
            .map(|port| format!("UDP {} ({}; {})", port.address, port.what, port.how))
            .collect();
        let (engine, bound) = (&about.engine, bound.join(", "));
        info!(event = "site-started", site = name, "{lan} ({engine}), {bound}, peers: {}", peers.len());
        peers.iter().for_each(|peer| warn_if_plain(name, peer));
        let Some(prepared) = prepared else { return };
        if !prepared.interface().addresses().is_empty() {
            warn!(
                event = "port-addresses",
                site = name,
                "{lan} has addresses ({}) that nobody can reach while the gateway runs; remove them",
                prepared.interface().addresses().join(", ")
            );
        }
        if prepared.guard() == Guard::None {
            warn!(
                event = "port-unguarded",
                site = name,
                "{lan} is unguarded (unguarded = true): this box's own stack can receive and send there"
            );
        }
        for feature in prepared.remaining_offloads() {
            warn!(
                event = "port-offload",
                site = name,
                "{lan} cannot switch {feature} off; if VLAN tags or frames are lost, use another interface"
            );
        }
    }

    /// Has the manager take its leave of the peers, and does not wait.
    pub(super) fn begin_to_stop(&self) {
        if let Channel::Quic(manager) = &self.channel {
            manager.begin_to_stop();
        }
    }

    /// Stops the manager; what is returned is to be put back behind the workers.
    pub(super) fn end(self) -> Option<OwnInterface> {
        self.channel.stop();
        if let Some(kernel) = &self.kernel {
            kernel.end();
        }
        self.prepared
    }

    /// State of the management channel; none if all peers are plain.
    pub(super) fn status(&self) -> Option<ManagerStatus> {
        match &self.channel {
            Channel::Quic(manager) => Some(manager.status()),
            Channel::Plain(_) => None,
        }
    }

    /// Passes on the counted octets of each peer's packets, for the peer to hear.
    pub(super) fn tell_octets(&self, octets: BTreeMap<PeerId, PacketOctets>) {
        if let Channel::Quic(manager) = &self.channel {
            manager.tell_octets(octets);
        }
    }

    /// Notices since the last call, each with its peer if it is about one.
    pub(super) fn notices(&self) -> Vec<(Option<PeerId>, String)> {
        match &self.channel {
            Channel::Quic(manager) => {
                manager.notices().into_iter().map(|notice| (notice.peer, notice.text)).collect()
            }
            Channel::Plain(peers) => peers.notices(),
        }
    }

    /// The number of each peer, in the order of the configuration.
    pub(super) fn numbers(&self) -> &[PeerId] {
        &self.numbers
    }

    /// Frames of the LAN come to no program any more.
    pub(super) fn lan_is_closed(&self) {
        if let Some(kernel) = &self.kernel {
            let _ = kernel.set_lan(Err("its LAN has no port".into()), 0);
        }
    }

    /// Lets go of an interface that is not there any more, or is another one under the same name; no port may be open on it.
    pub(super) fn let_go(&mut self, seen: Option<LinkState>) {
        let index = seen.map(|seen| seen.index);
        let gone = self.prepared.take_if(|prepared| Some(prepared.interface().index()) != index);
        gone.into_iter().for_each(OwnInterface::let_go);
    }

    pub(super) fn stop(self, name: &str, control: &mut Control) -> Result<(), InterfaceError> {
        self.channel.stop();
        if let Some(kernel) = &self.kernel {
            kernel.end();
        }
        // Its ports are closed here, before its interface is put back. A worker that does not answer is told by its verdict.
        drop(control.remove_site(name));
        self.prepared.map_or(Ok(()), OwnInterface::restore)
    }

    /// The guard of its interface; empty while it is not prepared.
    pub(in crate::run) fn guard(&self) -> &'static str {
        self.prepared.as_ref().map_or("", |prepared| prepared.guard().name())
    }

    pub(super) fn is_on(&self, seen: Option<LinkState>) -> bool {
        let (Some(prepared), Some(seen)) = (&self.prepared, seen) else { return false };
        let interface = prepared.interface();
        (interface.index(), interface.mtu()) == (seen.index, seen.mtu)
    }

    /// Whether its interface is prepared, and is gone or another one meanwhile.
    pub(super) fn is_elsewhere(&self, seen: Option<LinkState>) -> bool {
        self.prepared.is_some() && !self.is_on(seen)
    }

    /// Its interface, as the next program of this process goes on with it; none if its link has it.
    pub(super) fn pass_on(&self) -> Option<PassedInterface> {
        Some(self.prepared.as_ref()?.pass_on())
    }

    /// Prepares the interface and opens the LAN port.
    pub(super) fn take_up(
        &mut self,
        config: &Site,
        gateway: &Gateway,
        control: &mut Control,
        settings: &InterfaceSettings,
    ) -> Result<(), String> {
        let prepared = match self.prepared.take() {
            Some(mut prepared) => prepared.renew().map(|()| prepared),
            None => {
                let allowed = allowed(gateway, config.allow_addresses);
                settings.prepare(&config.lan, allowed)
            }
        };
        let prepared = self.prepared.insert(prepared.map_err(|error| error.to_string())?);
        let OpenLan { mut lan, fallback } =
            open_lan(prepared, io(gateway.io)).map_err(|error| error.to_string())?;
        if let Some(kernel) = &self.kernel {
            give_program(kernel, &mut lan, self.about.lan_mtu, gateway.io)?;
        }
        self.about.engine = lan.port.description().to_owned();
        self.fallback = fallback;
        control.open_site(&config.name, Box::new(lan)).map_err(|error| error.to_string())
    }
}

/// Says that a peer's frames are in sight of everybody.
fn warn_if_plain(site: &str, SitePeer { name, mode, .. }: &SitePeer) {
    if let Mode::Plain { vni } = mode {
        warn!(
            event = "peer-plain",
            site,
            "peer {name:?} is plain (VNI {vni}), NOT PROTECTED: a stranger on the path reads the addresses of all frames, and can put frames of any sender into the LAN"
        );
    }
}

impl Bound {
    fn new(
        gateway: &Gateway,
        config: &Site,
        (lan_mtu, passed): (usize, Option<&PassedSite>),
        kernel: Option<&KernelSite>,
        interfaces: &InterfaceSettings,
    ) -> Result<Self, Box<dyn std::error::Error>> {
        // Before the interface is touched: a port that is in use leaves nothing to put back.
        let wan = open_wan(config)?;
        let socket = wan.socket()?;
        let udp = about_udp(&wan);
        let (worker, mailbox) = mailboxes()?;
        let (producer, datagrams) = datagrams();
        let settings = settings(config, lan_mtu)?;
        let mut forwarding = Box::new(match config.workers {
            1 => Forwarding::new(settings, wan, worker, producer, config.dscp),
            _ => Forwarding::with_sending_worker(settings, wan, worker, producer, config.dscp)?,
        });
        let (rest, of_paths) = shapers(config, lan_mtu);
        rest.into_iter().for_each(|shaper| forwarding.shape(shaper));
        of_paths.into_iter().for_each(|shaper| forwarding.shape_path(shaper));
        if config.relay {
            forwarding.relay_for_peers();
        }
        forwarding.set_express_classes(config.express);
        drop(forwarding.set_vlans(config.vlans.clone().map(Box::new)));
        join(&mut forwarding, config)?;
        if config.protect {
            // Interface and port are those of the link inside of it.
            let about = About { lan_mtu, engine: "by its SecY".to_owned(), udp };
            return Ok(Self {
                forwarding,
                about,
                prepared: None,
                fallback: None,
                mailbox,
                datagrams,
                socket,
            });
        }
        let allowed = allowed(gateway, config.allow_addresses);
        let prepared = match passed.and_then(|passed| passed.interface.as_ref()) {
            Some(interface) => interfaces.go_on(interface)?,
            None => interfaces.prepare(&config.lan, allowed)?,
        };
        let OpenLan { mut lan, fallback } = open_lan(&prepared, io(gateway.io))?;
        if let Some(kernel) = kernel {
            kernel.begin(config.dscp.of_others(), config.cells)?;
            let numbered = (0..).map(PeerId).zip(&config.peers);
            kernel.expect_plain(plain_port(config), plain_peers(config, numbered));
            give_program(kernel, &mut lan, lan_mtu, gateway.io)?;
        }
        let about = About { lan_mtu, engine: lan.port.description().to_owned(), udp };
        if let Some(ether_type) = config.cells {
            forwarding.carry_cyclic(ether_type);
        }
        drop(forwarding.open(Box::new(lan)));
        let prepared = Some(prepared);
        Ok(Self { forwarding, about, prepared, fallback, mailbox, datagrams, socket })
    }
}

/// Those of some peers that are in plain mode, as programs are told of them.
fn plain_peers<'p>(
    config: &'p Site,
    peers: impl Iterator<Item = (PeerId, &'p SitePeer)>,
) -> impl Iterator<Item = (PeerId, PlainPeer)> {
    peers.filter_map(|(number, peer)| match peer.mode {
        Mode::Plain { vni } => {
            let path_payload = peer_settings(config, peer).path_payload;
            Some((number, PlainPeer { vni, path_payload }))
        }
        Mode::Identifier | Mode::HeaderEncryption => None,
    })
}

/// Has the LAN's frames come to the site's program. If it cannot be, they stay in user space, or the kernel is demanded.
fn give_program(kernel: &KernelSite, lan: &mut Lan, lan_mtu: usize, io: Io) -> Result<(), String> {
    let side = lan.port.kernel_side().map_err(|_| "its LAN port is not on AF_XDP".to_owned());
    let program = kernel.set_lan(side.as_ref().map_err(Clone::clone), lan_frame(lan_mtu));
    let set = program.and_then(|program| {
        lan.turns = Some(kernel.turns()?);
        let set = side.as_ref().map_err(Clone::clone)?.set_program(Some(program.as_fd()));
        set.map_err(|error| format!("its LAN port refuses the program: {error}"))
    });
    match set {
        Err(why) if io == Io::Kernel => Err(format!("io = \"kernel\", and {why}")),
        Err(why) => kernel.set_lan(Err(why), 0).map(drop).or(Ok(())),
        Ok(()) => Ok(()),
    }
}

/// Tells the worker which boxes share a LAN.
fn join(forwarding: &mut Forwarding, config: &Site) -> Result<(), Box<dyn std::error::Error>> {
    let number = |name: &str| {
        let place = config.peers.iter().position(|peer| peer.name == name);
        place.map(|place| PeerId(place as u16))
    };
    for (first, second) in config.twins() {
        if let (Some(first), Some(second)) = (number(first), number(second)) {
            forwarding.join_twins(first, second);
        }
    }
    let Some(standby) = &config.standby else { return Ok(()) };
    let (Some(partner), Some(key)) = (number(&standby.peer), config.beat_key()) else {
        return Err(format!("the public key of peer {:?} is no key of a box", standby.peer).into());
    };
    let mut session = [0; 8];
    getrandom::fill(&mut session)?;
    forwarding.stand_by(StandbySettings {
        key,
        partner,
        timing: Timing { takeover: standby.takeover, longest: LONGEST_TAKEOVER },
        preferred: standby.preferred,
        // 0 is nobody's.
        session: u64::from_be_bytes(session).max(1),
    });
    Ok(())
}

fn about_udp(wan: &Wan) -> Vec<AboutUdp> {
    let ports = [("data", wan.data()), ("header encryption", wan.header()), ("plain", wan.plain())];
    let about = |(what, port): (_, Option<&UdpPort>)| {
        let port = port?;
        Some(AboutUdp { what, address: port.address().to_string(), how: port.description().to_owned() })
    };
    ports.into_iter().filter_map(about).collect()
}

impl Channel {
    fn start(
        config: &Site,
        lan_mtu: usize,
        returns: bool,
        (mailbox, datagrams, socket): (ManagerMailbox, DatagramConsumer, Option<UdpSocket>),
        kernel: Option<Arc<KernelSite>>,
    ) -> std::io::Result<Self> {
        let (Some(socket), Some(settings)) = (socket, manager_settings(config, lan_mtu)) else {
            return PlainPeers::start(config, mailbox, kernel).map(Self::Plain);
        };
        let settings = ManagerSettings { returns, ..settings };
        Manager::start(settings, mailbox, datagrams, socket, kernel).map(Self::Quic)
    }

    fn stop(self) {
        match self {
            Self::Quic(manager) => manager.stop(),
            Self::Plain(peers) => peers.stop(),
        }
    }
}
