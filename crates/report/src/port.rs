//! The ports of a link or a site, and what it waits for.

use serde::{Deserialize, Serialize};

use super::Counters;

/// A link that forwards nothing: an interface is missing, or cannot be used, or has no carrier and the other one is
/// held down for it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct WaitingReport {
    /// For how long.
    pub seconds: u64,
    /// The missing part, for people.
    pub why: String,
    /// It lacks a carrier, not an interface.
    #[serde(default)]
    pub cut: bool,
}

/// A port.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct PortReport {
    /// The interface.
    pub interface: String,
    /// The kind of port, such as `af_xdp native`.
    pub engine: String,
    /// Octets behind DA, SA and EtherType.
    pub mtu: u32,
    /// The guard of the interface: `tcx`, `clsact` or `none`; empty while it is not prepared.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub guard: String,
    /// Frames and octets, and what was lost.
    pub counters: Counters,
}

impl PortReport {
    /// Text about the guard, behind other words; nothing before the interface is prepared.
    pub fn guard_words(&self) -> String {
        match self.guard.as_str() {
            "" => String::new(),
            "none" => ", NOT GUARDED: this box's own stack can receive and send here".to_owned(),
            guard => format!(", guard {guard}"),
        }
    }
}
