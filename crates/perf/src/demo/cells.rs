//! A PLC and its devices, with a gateway before each: what demo and tests of cells have in common.
//!
//! ```text
//!  machine A: the PLC ── [frameward run a.toml] ~~ middle ~~ [frameward run b.toml] ── machine B: all devices
//! ```

use std::fmt::Write as _;
use std::path::Path;
use std::time::{Duration, Instant};

use lab::cyclic::Relation;
use lab::topology::{LEFT, Mac, PLAIN, PROTECTED, RIGHT};
use lab::{Shape, Topology};

use super::pair::{Pair, PairError, Scratch, Station};
use frameward::keygen::{self, KeyLength};
use report::GatewayReport;
use report::cell::CellReport;

/// Limit on the time of sessions on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// Settings of the two configurations, besides names and keys.
#[derive(Clone, Debug)]
pub struct CellChoice {
    /// `io` of the gateways.
    pub io: &'static str,
    /// `protect` of the cell.
    pub protect: &'static str,
    /// Whether the rest is dropped; if not, it goes through a link with static keys.
    pub drops: bool,
    /// Further lines of `[gateway]`.
    pub gateway: &'static str,
    /// Further lines of `[[fieldbus]]`.
    pub cell: &'static str,
    /// The relations, each with its `mode`.
    pub relations: Vec<(Relation, &'static str)>,
}

impl CellChoice {
    /// Encrypted relations of a topology's PLC with so many devices, each at `cycle`; the rest through a link.
    pub fn new(topology: &Topology, devices: u8, cycle: Duration) -> Self {
        let relations = (1..=devices).map(|device| (relation(topology, device, cycle), "protect"));
        Self {
            io: "auto",
            protect: "encrypt",
            drops: false,
            gateway: "",
            cell: "",
            relations: relations.collect(),
        }
    }

    /// The relations as machines have them.
    pub fn exchanged(&self) -> Vec<Relation> {
        self.relations.iter().map(|(relation, _)| relation.clone()).collect()
    }
}

/// A topology whose wires take redirected frames: of a veth the other end needs NAPI, which `gro` gives it.
///
/// # Errors
/// If the network cannot be made.
pub fn redirecting(shape: &Shape) -> Result<Topology, lab::Error> {
    let topology = Topology::build(shape)?;
    let Topology { machine_a, machine_b, middle, .. } = &topology;
    let machines = [machine_a, machine_b].map(|machine| (&machine.namespace, machine.ifname));
    // Over a cable the gateways are each other's ends, and their own programs see to that.
    let bridge = [LEFT, RIGHT].into_iter().filter(|_| !shape.cable).map(|port| (middle, port));
    for (namespace, interface) in machines.into_iter().chain(bridge) {
        namespace.run(&["ethtool", "-K", interface, "gro", "on"])?;
    }
    Ok(topology)
}

/// The relation of a topology's PLC with a device.
pub fn relation(topology: &Topology, device: u8, cycle: Duration) -> Relation {
    Relation {
        stations: [topology.machine_a.mac, [2, 0, 0, 0, 1, device]],
        frame_ids: [0x8000 + u16::from(device), 0xbb00 + u16::from(device)],
        cycle,
        payload_octets: 44,
    }
}

fn text(mac: Mac) -> String {
    wire::MacAddr(mac).to_string()
}

/// Makes the keys of two gateways: the cell's, and those of their link.
///
/// # Errors
/// If a file cannot be written.
pub fn keys(scratch: &Scratch) -> Result<(), PairError> {
    keygen::fieldbus(&scratch.path().join("cell.key"))?;
    for name in ["a", "b"] {
        keygen::static_key(KeyLength::Bits128, &scratch.path().join(format!("{name}.key")))?;
    }
    Ok(())
}

/// Writes the configuration of one gateway, `a.toml` or `b.toml`.
///
/// # Errors
/// If the file cannot be written.
pub fn configure(scratch: &Scratch, end: usize, choice: &CellChoice) -> Result<(), PairError> {
    let (name, other) = [("a", "b"), ("b", "a")][end];
    let mut file = format!(
        "[gateway]\nname = \"{name}\"\nstate = \"{}\"\nio = \"{}\"\n{}\n",
        scratch.path().join(format!("state-{name}")).display(),
        choice.io,
        choice.gateway,
    );
    let ports = format!("plain = \"{PLAIN}\"\nprotected = \"{PROTECTED}\"\n");
    if !choice.drops {
        let (own, peer) = (1 + end, 2 - end);
        // A string takes all that is written to it.
        let _ = write!(
            file,
            "[[link]]\nname = \"press\"\n{ports}suite = \"gcm-aes-128\"\nfragment = \"on\"\n\
             [link.static]\nan = 0\nsci = \"02:00:00:00:00:0{own}/1\"\nkey_file = \"{name}.key\"\n\
             [[link.static.peer]]\nan = 0\nsci = \"02:00:00:00:00:0{peer}/1\"\nkey_file = \"{other}.key\"\n"
        );
    }
    let rest =
        if choice.drops { format!("rest = \"drop\"\n{ports}") } else { "rest = \"press\"\n".to_owned() };
    let mut local: Vec<_> = choice.relations.iter().map(|(one, _)| text(one.stations[end])).collect();
    local.sort_unstable();
    local.dedup();
    let _ = write!(
        file,
        "[[fieldbus]]\nname = \"cell-4\"\n{rest}protect = \"{}\"\nmaster_key_file = \"cell.key\"\nlocal = {local:?}\n{}\n",
        choice.protect, choice.cell,
    );
    for (Relation { stations: [one, other], frame_ids: [sends, receives], cycle, .. }, mode) in
        &choice.relations
    {
        let _ = write!(
            file,
            "[[fieldbus.relation]]\nstations = [\"{}\", \"{}\"]\nframe_ids = [0x{sends:04x}, 0x{receives:04x}]\n\
             cycle = \"{}us\"\nmode = \"{mode}\"\n",
            text(*one),
            text(*other),
            cycle.as_micros(),
        );
    }
    scratch.write(&format!("{name}.toml"), &file)?;
    Ok(())
}

/// Keys and configurations of both gateways.
///
/// # Errors
/// If a file cannot be written.
pub fn configured(choice: &CellChoice) -> Result<Scratch, PairError> {
    let scratch = Scratch::new()?;
    keys(&scratch)?;
    (0..2).try_for_each(|end| configure(&scratch, end, choice))?;
    Ok(scratch)
}

/// Configures and starts both gateways of a topology.
///
/// # Errors
/// If one of them does not run.
pub fn start(frameward: &Path, topology: &Topology, choice: &CellChoice) -> Result<Pair, PairError> {
    let scratch = configured(choice)?;
    let a = Station::start(frameward, &topology.gateway_a.namespace, &scratch, "a")?;
    let b = Station::start(frameward, &topology.gateway_b.namespace, &scratch, "b")?;
    Ok(Pair { a, b, scratch })
}

/// The only cell of a gateway.
///
/// # Errors
/// If it reports none.
pub fn only_cell(report: &GatewayReport) -> Result<&CellReport, PairError> {
    let none = || lab::Error::Unexpected(format!("gateway {} reports no fieldbus", report.name));
    Ok(report.links.iter().find_map(|link| link.fieldbus.as_ref()).ok_or_else(none)?)
}

/// Waits until both gateways protect the frames of all relations.
///
/// # Errors
/// If that takes too long.
pub fn secured(pair: &Pair) -> Result<(), PairError> {
    let end = Instant::now() + PATIENCE;
    loop {
        let mut lacking = 0;
        for station in [&pair.a, &pair.b] {
            let report = station.report()?;
            let cell = only_cell(&report)?;
            lacking += cell.relations.iter().filter(|relation| relation.transmit_key.is_none()).count();
            lacking += usize::from(cell.relations.is_empty());
        }
        if lacking == 0 {
            return Ok(());
        }
        if Instant::now() >= end {
            let what = format!("sessions of all relations ({lacking} lack one)");
            return Err(lab::Error::Deadline { what, limit: PATIENCE }.into());
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}
