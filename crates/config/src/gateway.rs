//! `[gateway]`.

mod announced_name;
mod validate;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use wire::mkpdu::SystemName;

pub(super) use validate::validate;

use super::Origin;
use crate::cpus::Cpus;

/// Default directory of leases and floors.
pub const DEFAULT_STATE: &str = "/var/lib/frameward";

/// `[gateway]`
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Gateway {
    /// Names the control socket: see [`super::is_name`].
    pub name: String,
    /// Name that it announces in its MKPDUs, if it does.
    pub announced_name: Option<SystemName>,
    /// The directory of packet-number leases and replay floors.
    pub state: PathBuf,
    /// The oldest heartbeat with which state is accepted; none: any.
    pub state_max_age: Option<Duration>,
    /// Engine that moves the frames.
    pub io: Io,
    /// Waiting mode of the workers.
    pub polling: Polling,
    /// Whether workers go before all ordinary threads.
    pub realtime: Realtime,
    /// CPUs that are kept for workers, one for each; none: they run anywhere.
    pub cpus: Option<Cpus>,
    /// Whether it runs where nothing keeps the host's own stack off its ports.
    pub unguarded: bool,
    /// Whether keystreams are made ahead.
    pub antedate: Antedate,
    /// Address of metrics and status over HTTP; `None`: they are not served.
    pub http: Option<Http>,
    /// Form of the log's lines.
    pub log: LogFormat,
}

/// `log`: what a line of the log looks like.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LogFormat {
    /// Words for people.
    Text,
    /// A JSON object.
    Json,
}

/// `http`: where metrics and status are served.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Http {
    /// The address to listen on; its port is not 0.
    pub address: SocketAddr,
    /// The line of the configuration that says so, from 1.
    pub line: Origin<usize>,
}

/// Engine that moves the frames.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Io {
    /// AF_XDP where it works, else AF_PACKET.
    Auto,
    /// AF_XDP, and cells in the kernel, or nothing.
    Kernel,
    /// AF_XDP or nothing.
    AfXdp,
    /// AF_PACKET.
    AfPacket,
}

/// Mode in which a worker waits for frames.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Polling {
    /// Spins for a short time after traffic, then sleeps.
    Adaptive,
    /// Spins.
    Busy,
    /// Sleeps.
    Interrupt,
}

/// Whether workers go before all ordinary threads.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Realtime {
    /// Yes, if it is allowed and the rest of the box keeps a CPU.
    Auto,
    /// Yes, and memory locked; else there is no start.
    On,
    /// No.
    Off,
}

/// Whether keystreams are made before their frames are there.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Antedate {
    /// Yes, if it pays on this CPU, as measured at the start.
    Auto,
    /// Yes.
    On,
    /// No.
    Off,
}
