//! One link, from its configuration to a SecY between two open ports.

use std::fmt;
use std::io;
use std::time::Instant;

use engine::burst::BURST_FRAMES;
use engine::control::{ReceiveFloor, StaticKeys, TransmitLease};
use engine::interface::{InterfaceError, Prepared};
use engine::lease::{Begin, LeaseStore, PnBlock, Reservation};
use engine::link::{Link as Forwarding, Ports};
use engine::open::{self, OpenPorts, open_ports};
use engine::path::Path;
use secy::{InstallError, ReceiveSa, SecY, Settings, TransmitSa};
use suite::{CipherSuite, Key, Sak};
use wire::Pn;

use super::RunError;
use crate::check::Mtus;
use crate::config::{Gateway, Io, Link, StaticSa};

/// A link that is ready to be given to a worker.
pub(super) struct StartedLink {
    pub(super) forwarding: Forwarding,
    pub(super) keys: StaticKeys,
    /// Behind the ports: they are closed before their interfaces are put back.
    pub(super) running: RunningLink,
}

/// A link of a running gateway, without what its worker owns.
pub(super) struct RunningLink {
    pub(super) config: Link,
    pub(super) about: About,
    /// Its interfaces, while it has ports: to be restored when they are closed.
    prepared: Option<[Prepared; 2]>,
    fallback: Option<String>,
    unmarked: Option<io::Error>,
}

/// What its ports and interfaces are.
pub(super) struct About {
    pub(super) mtus: Mtus,
    pub(super) plain_engine: String,
    pub(super) protected_engine: String,
    /// When the transmit SA began, and with which PN.
    pub(super) began: (Instant, Pn),
}

impl StartedLink {
    pub(super) fn start(
        gateway: &Gateway,
        link: Link,
        mtus: Mtus,
        leases: &mut LeaseStore,
    ) -> Result<Self, RunError> {
        let Opened { ports, prepared, fallback } = Opened::open(gateway, &link)?;
        // After the ports: a start that fails there burns no block.
        let Begun { lease, block, unmarked } = Begun::new(&link, leases)?;
        let secy = secy(&link, mtus, Some(block), leases);
        let about = About::new(mtus, &ports, (Instant::now(), block.first));
        let keys = StaticKeys { transmit: lease, receive: floors(&link) };
        let Ports { pool, plain, protected } = ports;
        let path = Path::new(secy, &link.bypass, link.dividing);
        let forwarding = Forwarding::new(pool, plain, protected, path);
        let running = RunningLink { config: link, about, prepared: Some(prepared), fallback, unmarked };
        Ok(Self { forwarding, keys, running })
    }
}

/// Whose floors are kept.
pub(super) fn floors(link: &Link) -> Vec<ReceiveFloor> {
    let kept = link.receive.iter().filter(|sa| sa.replay_floor);
    kept.map(|sa| ReceiveFloor { name: sa.lease_name(), sci: sa.sci, an: sa.an }).collect()
}

/// The ports of a link with their interfaces.
struct Opened {
    ports: Ports,
    prepared: [Prepared; 2],
    fallback: Option<String>,
}

impl Opened {
    fn open(gateway: &Gateway, link: &Link) -> Result<Self, RunError> {
        let failed = |source| RunError::Open { link: link.name.clone(), source };
        let prepare = |name| Prepared::named(name, &gateway.state).map_err(|error| failed(error.into()));
        let prepared = [prepare(&link.plain)?, prepare(&link.protected)?];
        let [plain, protected] = &prepared;
        let OpenPorts { ports, fallback } = open_ports([plain, protected], io(gateway.io)).map_err(failed)?;
        Ok(Self { ports, prepared, fallback })
    }
}

impl About {
    fn new(mtus: Mtus, ports: &Ports, began: (Instant, Pn)) -> Self {
        Self {
            mtus,
            plain_engine: ports.plain.description().to_owned(),
            protected_engine: ports.protected.description().to_owned(),
            began,
        }
    }
}

/// The first PNs of a link's transmit SA.
pub(super) struct Begun {
    pub(super) lease: TransmitLease,
    pub(super) block: PnBlock,
    /// Why the key could not be marked as used.
    pub(super) unmarked: Option<io::Error>,
}

impl Begun {
    pub(super) fn new(link: &Link, leases: &mut LeaseStore) -> Result<Self, RunError> {
        let (name, last) = (link.transmit.lease_name(), link.suite.last_pn());
        let Begin { reservation, unmarked } = leases.begin(name, last, &link.transmit.key_file)?;
        let Reservation::Block(block) = reservation else {
            return Err(RunError::PnExhausted { link: link.name.clone() });
        };
        let lease = TransmitLease { name, an: link.transmit.an, last, through: block.last };
        Ok(Self { lease, block, unmarked })
    }
}

impl RunningLink {
    /// Opens interfaces and ports anew, as the configuration says; those before are put back first, so no port may be
    /// open on them. Without success there are none.
    pub(super) fn reopen(&mut self, gateway: &Gateway, mtus: Mtus) -> Result<Ports, RunError> {
        self.prepared = None;
        let Opened { ports, prepared, fallback } = Opened::open(gateway, &self.config)?;
        self.about = About::new(mtus, &ports, self.about.began);
        (self.prepared, self.fallback) = (Some(prepared), fallback);
        Ok(ports)
    }

    /// A warning, if the key of the transmit SA could not be marked as used.
    pub(super) fn unmarked_key(&self) -> Option<String> {
        let error = self.unmarked.as_ref()?;
        Some(format!(
            "warning: link {:?}: cannot mark {} as used ({error}), so nobody notices if the state directory is lost as a whole; make a directory \"used\" beside the key and let the gateway write there",
            self.config.name,
            self.config.transmit.key_file.display()
        ))
    }

    /// Its transmit SA has just begun.
    pub(super) fn has_begun(&mut self, block: PnBlock, unmarked: Option<io::Error>) {
        (self.about.began, self.unmarked) = ((Instant::now(), block.first), unmarked);
    }

    /// Whether it has ports.
    pub(super) const fn is_open(&self) -> bool {
        self.prepared.is_some()
    }

    /// Puts its interfaces back, for it is to have others; no port may be open on them.
    pub(super) fn put_back(&mut self) -> Result<(), InterfaceError> {
        let prepared = self.prepared.take();
        prepared.into_iter().flatten().map(Prepared::restore).fold(Ok(()), Result::and)
    }

    /// Puts its interfaces back; to be called when its ports are closed.
    pub(super) fn restore(mut self) -> Result<(), InterfaceError> {
        self.put_back()
    }

    /// Says what was chosen.
    pub(super) fn announce(&self, tell: &mut dyn FnMut(&dyn fmt::Display)) {
        let link = &self.config;
        let name = &link.name;
        if let Some(reason) = &self.fallback {
            tell(&format_args!("link {name:?}: AF_XDP cannot be had here, so AF_PACKET is used: {reason}"));
        }
        let About { plain_engine, protected_engine, .. } = &self.about;
        let (plain, protected, suite) = (&link.plain, &link.protected, link.suite);
        tell(&format_args!(
            "link {name:?}: {plain} ({plain_engine}) to {protected} ({protected_engine}), {suite}, bursts of {BURST_FRAMES}"
        ));
        if let Some(warning) = self.unmarked_key() {
            tell(&warning);
        }
        for prepared in self.prepared.iter().flatten() {
            let interface = prepared.interface();
            if !interface.addresses().is_empty() {
                tell(&format_args!(
                    "warning: link {name:?}: {} has addresses ({}) that nobody can reach while the gateway runs; remove them",
                    interface.name(),
                    interface.addresses().join(", ")
                ));
            }
            for feature in prepared.still_on() {
                tell(&format_args!(
                    "warning: link {name:?}: {} cannot switch {feature} off; if VLAN tags or frames are lost, use another interface",
                    interface.name()
                ));
            }
        }
    }
}

const fn io(io: Io) -> open::Io {
    match io {
        Io::Auto => open::Io::Auto,
        Io::AfXdp => open::Io::AfXdp,
        Io::AfPacket => open::Io::AfPacket,
    }
}

/// A SecY with all its static SAs enabled: the transmit SA begins at the reserved block, receive SAs at their floors.
/// Without a block there is no transmit SA: it is to be taken over from another SecY.
pub(super) fn secy(link: &Link, mtus: Mtus, block: Option<PnBlock>, leases: &LeaseStore) -> SecY {
    install(link, mtus, block, leases).expect("invariant: a judged configuration installs")
}

fn install(
    link: &Link,
    mtus: Mtus,
    block: Option<PnBlock>,
    leases: &LeaseStore,
) -> Result<SecY, InstallError> {
    let settings = Settings {
        protect_frames: link.protect_frames,
        protection: link.protection,
        sci_inclusion: link.sci_inclusion,
        validate_frames: link.validate_frames,
        replay_protect: link.replay_protect,
        clear_vlan: link.clear_vlan,
        reassemble: link.dividing.is_some(),
        mtu: mtus.protected,
    };
    let StaticSa { an, sci, key: sak, xpn, .. } = &link.transmit;
    let mut secy = SecY::new(*sci, settings);
    if let Some(block) = block {
        let transmit = TransmitSa::new(*an, key(link.suite, sak), *xpn, block.first, block.last)?;
        secy.install_transmit(Box::new(transmit)).map_err(|(error, _)| error)?;
        secy.enable_transmit(*an)?;
    }
    for sa in &link.receive {
        let StaticSa { an, sci, key: sak, xpn, .. } = sa;
        if !secy.receive_scs().any(|sc| sc.sci() == *sci) {
            secy.install_receive_sc(*sci)?;
        }
        let lowest = if sa.replay_floor { leases.floor(sa.lease_name()) } else { Pn::FIRST };
        let receive = ReceiveSa::new(*an, key(link.suite, sak), *xpn, lowest, link.replay_window)?;
        secy.install_receive(*sci, Box::new(receive)).map_err(|(error, _)| error)?;
        secy.enable_receive(*sci, *an)?;
    }
    Ok(secy)
}

fn key(suite: CipherSuite, sak: &Sak) -> Key {
    Key::prepare(suite, sak).expect("invariant: a key file was judged for the link's suite")
}
