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
    /// To be restored when the link is closed.
    prepared: [Prepared; 2],
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
        let failed = |source| RunError::Open { link: link.name.clone(), source };
        let prepare = |name| Prepared::named(name, &gateway.state).map_err(|error| failed(error.into()));
        let prepared = [prepare(&link.plain)?, prepare(&link.protected)?];
        let [plain, protected] = &prepared;
        let OpenPorts { ports, fallback } = open_ports([plain, protected], io(gateway.io)).map_err(failed)?;
        // After the ports: a start that fails there burns no block.
        let last = link.suite.last_pn();
        let lease = TransmitLease { name: link.transmit.lease_name(), an: link.transmit.an, last };
        let Begin { reservation, unmarked } = leases.begin(lease.name, last, &link.transmit.key_file)?;
        let block = match reservation {
            Reservation::Block(block) => block,
            Reservation::Exhausted => return Err(RunError::PnExhausted { link: link.name }),
        };
        let kept = link.receive.iter().filter(|sa| sa.replay_floor);
        let floors = kept.map(|sa| ReceiveFloor { name: sa.lease_name(), sci: sa.sci, an: sa.an });
        let keys = StaticKeys { transmit: lease, receive: floors.collect() };
        let secy = secy(&link, mtus, block, leases).expect("invariant: a judged configuration installs");
        let Ports { pool, plain, protected } = ports;
        let about = About {
            mtus,
            plain_engine: plain.description().to_owned(),
            protected_engine: protected.description().to_owned(),
            began: (Instant::now(), block.first),
        };
        let path = Path::new(secy, &link.bypass, link.dividing);
        let forwarding = Forwarding::new(pool, plain, protected, path);
        let running = RunningLink { config: link, about, prepared, fallback, unmarked };
        Ok(Self { forwarding, keys, running })
    }
}

impl RunningLink {
    /// Puts its interfaces back; to be called when its ports are closed.
    pub(super) fn restore(self) -> Result<(), InterfaceError> {
        self.prepared.into_iter().map(Prepared::restore).fold(Ok(()), Result::and)
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
        if let Some(error) = &self.unmarked {
            tell(&format_args!(
                "warning: link {name:?}: cannot mark {} as used ({error}), so nobody notices if the state directory is lost as a whole; make a directory \"used\" beside the key and let the gateway write there",
                link.transmit.key_file.display()
            ));
        }
        for prepared in &self.prepared {
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
fn secy(link: &Link, mtus: Mtus, block: PnBlock, leases: &LeaseStore) -> Result<SecY, InstallError> {
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
    let transmit = TransmitSa::new(*an, key(link.suite, sak), *xpn, block.first, block.last)?;
    secy.install_transmit(Box::new(transmit)).map_err(|(error, _)| error)?;
    secy.enable_transmit(*an)?;
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
