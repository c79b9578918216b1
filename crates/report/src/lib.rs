//! Report of a running gateway: one JSON document.
//!
//! ```text
//! GatewayReport ─┬─ PrivilegeReport
//!                ├─ FleetReport                                  (fleet.rs)
//!                ├─ SiteReport ── SitePeerReport, counters       (site.rs)
//!                └─ LinkReport ─┬─ PortReport (plain, protected) ── counters     (port.rs)
//!                              ├─ MkaReport ── counters           (mka.rs)
//!                              ├─ CellReport ── RelationReport ── histograms, counters     (cell.rs)
//!                              └─ SecYReport ── counters          (secy.rs)
//!                                   ├─ TransmitScReport ── SaReport ── counters
//!                                   └─ ReceiveScReport  ── SaReport ── counters
//! ```
//!
//! Counters are objects from the standard's names to values, in the order of the tables that declare them: text,
//! JSON and whatever reads it later share one table. Only figures: no key and nothing derived from one but its
//! fingerprint.

mod baseline;
pub mod cell;
mod client;
pub mod control_socket;
mod counters;
mod fleet;
pub mod link_verdict;
pub mod mka;
mod port;
pub mod recent;
mod runtime_dir;
#[cfg(any(test, feature = "samples"))]
pub mod samples;
mod secy;
pub mod site;
pub mod table;
pub mod verdict;

use std::fmt;

use serde::{Deserialize, Serialize};

pub use baseline::{Baseline, CountedReport};
use cell::CellReport;
pub use client::{AskError, ask, is_running, parse};
use config::suite_speed::{Antedating, SuiteSpeeds};
pub use counters::Counters;
pub use fleet::{FleetReport, FleetState};
pub use port::{PortReport, WaitingReport};
pub use runtime_dir::{RUNTIME_DIR_VARIABLE, SOCKET_SUFFIX, runtime_dir, socket_path};
pub use secy::{ReceiveScReport, SaReport, SecYReport, StrangerReport, TransmitScReport};
pub use verdict::{Concern, Level, Verdict};

/// A gateway.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct GatewayReport {
    /// The gateway's name.
    pub name: String,
    /// The program's version.
    pub version: String,
    /// The file of its configuration, with its directory; none while the gateway starts or stops.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub configuration: Option<String>,
    /// Seconds since the start.
    pub uptime_seconds: u64,
    /// Grants of the operating system; none while the gateway starts or stops.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub privileges: Option<PrivilegeReport>,
    /// Speed of the cipher suites on this CPU at the start; none before that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suite_speeds: Option<SuiteSpeeds>,
    /// Whether keystreams are made ahead, and why; none before the start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub antedating: Option<Antedating>,
    /// Milliseconds since the start, when the figures were taken: rates are differences of two reports.
    #[serde(default)]
    pub uptime_ms: u64,
    /// Seconds since somebody cleared the counters; none: each counts since its part began. Metrics are never cleared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cleared_seconds: Option<u64>,
    /// Outcome of the last reload; none if there was none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reload: Option<ReloadReport>,
    /// File or interface that a reload has been waiting for for some seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reload_waits: Option<String>,
    /// Outcome of the last upgrade; none if there was none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub upgrade: Option<UpgradeReport>,
    /// State of its fleet, as its agent knows it; none without `[fleet]`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fleet: Option<FleetReport>,
    /// The links, in the order of the configuration.
    pub links: Vec<LinkReport>,
    /// The sites, in the order of the configuration.
    #[serde(default)]
    pub sites: Vec<site::SiteReport>,
}

/// Outcome of a reload of keys and configuration.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ReloadReport {
    /// Reloads since the start, this one included.
    pub count: u64,
    /// The new configuration holds. If not, the one before does, unless a line says otherwise.
    pub done: bool,
    /// Changes, or faults, a line each.
    pub lines: Vec<String>,
}

/// Outcome of an upgrade: another program in the place of the one that ran.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct UpgradeReport {
    /// Upgrades since the start, this one included.
    pub count: u64,
    /// The new program runs. If not, the one before goes on as if nothing had been.
    pub done: bool,
    /// Milliseconds for which frames waited in their ports; none if it was not done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waited_ms: Option<u64>,
    /// Why it was not done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

/// Grants of the operating system beside the interfaces.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct PrivilegeReport {
    /// Whether workers go before all ordinary threads.
    pub realtime: Grant,
    /// Whether memory, and keys in it, stay out of the swap.
    pub locked_memory: Grant,
}

impl PrivilegeReport {
    /// Each with its name for people.
    pub fn named(&self) -> [(&'static str, &Grant); 2] {
        [("real time", &self.realtime), ("locked memory", &self.locked_memory)]
    }
}

/// Something that was asked of the operating system.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Grant {
    /// Whether it was granted.
    pub granted: bool,
    /// The grant, or the reason against it and the cure.
    pub detail: String,
}

impl fmt::Display for Grant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { granted, detail } = self;
        write!(f, "{}, {detail}", if *granted { "yes" } else { "no" })
    }
}

impl GatewayReport {
    /// The document that is sent to all who ask: JSON, indented, with a line's end.
    pub fn document(&self) -> String {
        let mut document =
            serde_json::to_string_pretty(self).expect("invariant: text and figures are always JSON");
        document.push('\n');
        document
    }
}

/// Finds a counter's row by its name.
pub type Row = fn(&str) -> Option<&'static wire::Counter>;

/// A link.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct LinkReport {
    /// The link's name.
    pub name: String,
    /// Its verdict, made of recently verified frames.
    #[serde(default)]
    pub verdict: Verdict,
    /// Seconds since the last valid frame; none if none came.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_valid_seconds: Option<u64>,
    /// Its concerns, the worst first; empty if all is well.
    #[serde(default)]
    pub concerns: Vec<Concern>,
    /// The missing part, if it forwards nothing.
    #[serde(default)]
    pub waiting: Option<WaitingReport>,
    /// Its worker has not answered: the counters are those of before.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unread: bool,
    /// The side of the machine.
    pub plain: PortReport,
    /// The side of the insecure network.
    pub protected: PortReport,
    /// The SecY between them.
    pub secy: SecYReport,
    /// Its key agreement, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mka: Option<mka::MkaReport>,
    /// Its cell, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fieldbus: Option<cell::CellReport>,
}

impl LinkReport {
    /// All groups of counters, with the words for where each counts, and its rows.
    pub fn groups(&self) -> Vec<(String, &Counters, Row)> {
        let mut groups: Vec<(String, &Counters, Row)> = vec![
            (self.plain.interface.clone(), &self.plain.counters, table::counter),
            (self.protected.interface.clone(), &self.protected.counters, table::counter),
        ];
        if self.has_secy() {
            let secy = &self.secy;
            groups.push(("SecY".to_owned(), &secy.counters, table::counter));
            groups.extend(secy.transmit_scs().map(|sc| {
                let row: Row = table::counter;
                (format!("transmit SC {}", sc.sci), &sc.counters, row)
            }));
            let receive = secy.receive.iter();
            groups.extend(receive.map(|sc| {
                let row: Row = table::counter;
                (format!("receive SC {}", sc.sci), &sc.counters, row)
            }));
        }
        groups
    }

    /// An SCI with what its station calls itself, if that is known. A station's express SC has its name, too.
    pub fn named(&self, sci: &str) -> String {
        let name = |sci: &str| self.mka.as_ref().and_then(|mka| mka.name_of(sci));
        let name = name(sci).or_else(|| link_verdict::beside_express(sci).and_then(|beside| name(&beside)));
        mka::named(sci, name)
    }

    /// Whether keys are agreed on with a live peer.
    pub fn is_agreed(&self) -> bool {
        self.mka.as_ref().is_some_and(mka::MkaReport::is_agreed)
    }

    /// Whether anything reaches its SecY: not where a cell drops the rest.
    pub fn has_secy(&self) -> bool {
        self.fieldbus.as_ref().is_none_or(|cell| cell.rest != "drop")
    }
}

#[cfg(test)]
mod tests;
