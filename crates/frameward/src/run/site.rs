//! One site, from its configuration to a worker's slot and a manager's thread.
//!
//! ```text
//!  fw-worker-N    moves the frames: dataplane::site::Site
//!  fw-site-NAME   the management channel: sitelink::Manager
//!  main thread    this file: starts and stops both, looks after the LAN's interface, logs their notices
//! ```
//!
//! The LAN's interface is prepared and put back as a link's are. While it is not there the site goes on without it: the
//! management channel stays up, so frames pass at once when the interface is back. Another MTU is another size of all
//! buffers, so it restarts the site. What cannot be started again is tried each second.

mod peers;
mod plain_peers;

use std::net::UdpSocket;
use std::path::Path;
use std::time::Instant;

use control::Gateway as Control;
use dataplane::open::{OpenLan, open_lan};
use dataplane::site::{ManagerEnd, Site as Forwarding, Wan, ends};
use netdev::interface::{Guard, InterfaceError, LinkState, Prepared, link_state};
use netdev::udp::UdpPort;
use sitelink::{Manager, ManagerStatus};
use tracing::{info, warn};
use tunnel::{Mode, PeerId};

use super::link::{Waiting, allowed, io};
use super::link_monitor::{Passage, RETRY};
use config::check::site::lan_mtu;
use config::site::settings::{manager_settings, open_wan, settings};
use config::{Gateway, Site, SitePeer};
use plain_peers::PlainPeers;

/// A site of a running gateway.
pub(super) struct RunningSite {
    pub(super) config: Site,
    /// None: it could not be started again, which is tried each second.
    pub(super) works: Option<Works>,
    /// Why no frame passes, if none does.
    pub(super) waiting: Option<Waiting>,
}

/// All of a started site but what its worker owns.
pub(super) struct Works {
    pub(super) about: About,
    /// The LAN's interface, as far as it is there; to be restored when no port is open on it.
    prepared: Option<Prepared>,
    channel: Channel,
    fallback: Option<String>,
    /// The number of each peer, in the order of the configuration; and how many there were since the start.
    numbers: Vec<PeerId>,
    numbered: usize,
}

/// Its ports.
pub(super) struct About {
    /// The MTU of the LAN.
    pub(super) lan_mtu: usize,
    pub(super) engine: String,
    pub(super) udp: Vec<AboutUdp>,
}

/// A UDP port of a site.
pub(super) struct AboutUdp {
    /// Its purpose.
    pub(super) what: &'static str,
    pub(super) address: String,
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
    prepared: Prepared,
    fallback: Option<String>,
    end: ManagerEnd,
    socket: Option<UdpSocket>,
}

impl RunningSite {
    /// Prepares the LAN's interface, binds the sockets, and gives the site to a worker and a manager. If that fails the
    /// site has [`fallen`](Self::fallen), and is started by [`attend`](Self::attend) as soon as that can be done.
    /// Without the MTU of the LAN its interface is missing, and it waits for that.
    pub(super) fn start(
        gateway: &Gateway,
        config: Site,
        lan_mtu: Option<usize>,
        control: &mut Control,
    ) -> Self {
        let works = match lan_mtu {
            Some(lan_mtu) => Works::start(gateway, &config, lan_mtu, control),
            None => Err(missing(&config)),
        };
        match works {
            Ok(works) => Self { config, works: Some(works), waiting: None },
            Err(why) => {
                let since = Instant::now();
                Self { config, works: None, waiting: Some(Waiting { since, why, try_at: since + RETRY }) }
            }
        }
    }

    /// Why it could not be started.
    pub(super) fn fallen(&self) -> Option<&str> {
        let waiting = self.waiting.as_ref().filter(|_| self.works.is_none())?;
        Some(&waiting.why)
    }

    /// Takes it away from worker and manager, and puts the interface back. The peers are told. Takes up to a second.
    pub(super) fn stop(self, control: &mut Control) -> Result<(), InterfaceError> {
        self.works.map_or(Ok(()), |works| works.stop(&self.config.name, control))
    }

    /// Has the manager take its leave of the peers, and does not wait.
    pub(super) fn begin_to_end(&self) {
        if let Some(Works { channel: Channel::Quic(manager), .. }) = &self.works {
            manager.begin_to_stop();
        }
    }

    /// Stops the manager, before workers end; what is returned is to be put back behind them.
    pub(super) fn end(self) -> Option<Prepared> {
        let Works { channel, prepared, .. } = self.works?;
        channel.stop();
        prepared
    }

    /// The MTU of its LAN, as it was when it was last started.
    pub(super) fn lan_mtu(&self) -> Option<usize> {
        self.works.as_ref().map(|works| works.about.lan_mtu)
    }

    /// State of the management channel; none if all peers are plain.
    pub(super) fn status(&self) -> Option<ManagerStatus> {
        match &self.works.as_ref()?.channel {
            Channel::Quic(manager) => Some(manager.status()),
            Channel::Plain(_) => None,
        }
    }

    /// Logs what there is to be said since the last time.
    pub(super) fn log_notices(&self) {
        let told = match self.works.as_ref().map(|works| &works.channel) {
            Some(Channel::Quic(manager)) => {
                manager.notices().into_iter().map(|notice| (notice.peer, notice.text)).collect()
            }
            Some(Channel::Plain(peers)) => peers.notices(),
            None => Vec::new(),
        };
        let site = &self.config.name;
        for (peer, text) in told {
            match peer.map(|peer| self.peer(peer)) {
                Some(Some(SitePeer { name, .. })) => info!(event = "site-peer", site, peer = name, "{text}"),
                // It has left.
                Some(None) => {}
                None => info!(event = "site-channel", site, "{text}"),
            }
        }
    }

    /// The peer of this number, if it has not left.
    pub(super) fn peer(&self, number: PeerId) -> Option<&SitePeer> {
        let numbers = &self.works.as_ref()?.numbers;
        self.config.peers.get(numbers.iter().position(|known| *known == number)?)
    }

    /// The peers with their numbers; those of a site that could not be started have none.
    pub(super) fn numbered_peers(&self) -> impl Iterator<Item = (&SitePeer, Option<PeerId>)> {
        let numbers = self.works.iter().flat_map(|works| works.numbers.iter().copied().map(Some));
        self.config.peers.iter().zip(numbers.chain(std::iter::repeat(None)))
    }

    /// Says what was chosen.
    pub(super) fn announce(&self) {
        let Site { name, lan, peers, .. } = &self.config;
        let Some(Works { about, prepared, fallback, .. }) = &self.works else { return };
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

    /// Looks at the LAN's interface, and does what it needs. Returns what a person should know, if that has changed.
    pub(super) fn poll_interfaces(
        &mut self,
        file: &Path,
        gateway: &Gateway,
        control: &mut Control,
        now: Instant,
    ) -> Option<Passage> {
        // If the kernel does not tell, nothing is known to have changed.
        let seen = link_state(&self.config.lan).ok()?;
        if self.waiting.is_none() {
            if self.works.as_ref().is_some_and(|works| works.is_on(seen)) {
                return None;
            }
            // A worker that does not answer has its own notice.
            control.close_site(&self.config.name).ok()?;
            self.wait(String::new(), now);
        }
        if let Some(works) = &mut self.works {
            let index = seen.map(|seen| seen.index);
            works.prepared.take_if(|prepared| Some(prepared.interface().index()) != index);
        }
        if self.waiting.as_ref().is_some_and(|waiting| now < waiting.try_at) {
            return None;
        }
        let taken_up = match seen {
            // The interface's original settings are recorded on disk.
            Some(seen) => control
                .probe_disk()
                .map_err(|error| error.to_string())
                .and_then(|()| self.take_up(file, gateway, control, seen)),
            None => Err(missing(&self.config)),
        };
        let (why, try_at) = match taken_up {
            Ok(()) => {
                self.waiting = None;
                let engine = self.works.as_ref().map_or("", |works| &works.about.engine);
                return Some(Passage::goes_on(format_args!("{} ({engine})", self.config.lan)));
            }
            Err(why) => (why, if seen.is_some() { now + RETRY } else { now }),
        };
        let known = self.waiting.as_ref().is_some_and(|waiting| waiting.why == why);
        let news = (!known).then(|| Passage::ends(&why));
        self.wait(why, try_at);
        news
    }

    /// Opens the LAN port on the interface, which is there; starts the site anew if its MTU is another.
    fn take_up(
        &mut self,
        file: &Path,
        gateway: &Gateway,
        control: &mut Control,
        seen: LinkState,
    ) -> Result<(), String> {
        let name = &self.config.name;
        let mtu =
            lan_mtu(file, &self.config, &|_| Ok(seen.mtu as usize)).map_err(|found| found.to_string())?;
        if let Some(works) = self.works.take_if(|works| works.about.lan_mtu != mtu) {
            works.stop(name, control).map_err(|error| error.to_string())?;
        }
        match &mut self.works {
            Some(works) => works.take_up(&self.config, gateway, control),
            None => {
                self.works = Some(Works::start(gateway, &self.config, mtu, control)?);
                Ok(())
            }
        }
    }

    fn wait(&mut self, why: String, try_at: Instant) {
        let since = self.waiting.as_ref().map_or_else(Instant::now, |before| before.since);
        self.waiting = Some(Waiting { since, why, try_at });
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

fn missing(site: &Site) -> String {
    format!("interface {} is missing; the site goes on when it is back", site.lan)
}

impl Works {
    fn start(
        gateway: &Gateway,
        config: &Site,
        lan_mtu: usize,
        control: &mut Control,
    ) -> Result<Self, String> {
        let Bound { forwarding, about, prepared, fallback, end, socket } =
            Bound::new(gateway, config, lan_mtu).map_err(|error| error.to_string())?;
        control.add_site(config.name.clone(), forwarding).map_err(|error| error.to_string())?;
        match Channel::start(config, lan_mtu, end, socket) {
            Ok(channel) => {
                let numbers: Vec<_> = (0..).map(PeerId).take(config.peers.len()).collect();
                let numbered = numbers.len();
                Ok(Self { about, prepared: Some(prepared), channel, fallback, numbers, numbered })
            }
            Err(error) => {
                // The line says why it did not start; a worker that does not answer has its own notice.
                let _ = control.remove_site(&config.name);
                let _ = prepared.restore();
                Err(format!(
                    "cannot start the management channel: {error}; raise the limits of tasks and files"
                ))
            }
        }
    }

    fn stop(self, name: &str, control: &mut Control) -> Result<(), InterfaceError> {
        self.channel.stop();
        // Its ports are closed here, before its interface is put back. A worker that does not answer has its own notice.
        drop(control.remove_site(name));
        self.prepared.map_or(Ok(()), Prepared::restore)
    }

    /// The guard of its interface; empty while it is not prepared.
    pub(super) fn guard(&self) -> &'static str {
        self.prepared.as_ref().map_or("", |prepared| prepared.guard().name())
    }

    fn is_on(&self, seen: Option<LinkState>) -> bool {
        let (Some(prepared), Some(seen)) = (&self.prepared, seen) else { return false };
        let interface = prepared.interface();
        (interface.index(), interface.mtu()) == (seen.index, seen.mtu)
    }

    /// Prepares the interface and opens the LAN port.
    fn take_up(&mut self, config: &Site, gateway: &Gateway, control: &mut Control) -> Result<(), String> {
        let prepared = match self.prepared.take() {
            Some(mut prepared) => prepared.renew().map(|()| prepared),
            None => {
                let allowed = allowed(gateway, config.allow_addresses);
                Prepared::named(&config.lan, &gateway.state, allowed)
            }
        };
        let prepared = self.prepared.insert(prepared.map_err(|error| error.to_string())?);
        let OpenLan { lan, fallback } =
            open_lan(prepared, io(gateway.io)).map_err(|error| error.to_string())?;
        self.about.engine = lan.port.description().to_owned();
        self.fallback = fallback;
        control.open_site(&config.name, Box::new(lan)).map_err(|error| error.to_string())
    }
}

impl Bound {
    fn new(gateway: &Gateway, config: &Site, lan_mtu: usize) -> Result<Self, Box<dyn std::error::Error>> {
        // Before the interface is touched: a port that is in use leaves nothing to put back.
        let wan = open_wan(config)?;
        let socket = wan.socket()?;
        let udp = about_udp(&wan);
        let (site_end, end) = ends()?;
        let allowed = allowed(gateway, config.allow_addresses);
        let prepared = Prepared::named(&config.lan, &gateway.state, allowed)?;
        let OpenLan { lan, fallback } = open_lan(&prepared, io(gateway.io))?;
        let about = About { lan_mtu, engine: lan.port.description().to_owned(), udp };
        let mut forwarding =
            Box::new(Forwarding::new(settings(config, lan_mtu)?, wan, site_end, config.dscp));
        drop(forwarding.open(Box::new(lan)));
        Ok(Self { forwarding, about, prepared, fallback, end, socket })
    }
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
        end: ManagerEnd,
        socket: Option<UdpSocket>,
    ) -> std::io::Result<Self> {
        let (Some(socket), Some(settings)) = (socket, manager_settings(config, lan_mtu)) else {
            return PlainPeers::start(config, end).map(Self::Plain);
        };
        Manager::start(settings, end, socket).map(Self::Quic)
    }

    fn stop(self) {
        match self {
            Self::Quic(manager) => manager.stop(),
            Self::Plain(peers) => peers.stop(),
        }
    }
}
