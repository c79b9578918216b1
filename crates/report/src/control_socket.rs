//! The control socket of a running gateway: what is asked of it, and what it answers.
//!
//! ```text
//!  {"request":"status"}\n                  ──▶ NAME.sock
//!  {"request":"reload","dry_run":true}\n
//!  {"request":"rekey","link":"press"}\n
//!  {"request":"clear"}\n
//!  {"request":"upgrade"}\n
//!                                          ◀── {"report":{...}}\n     how it is
//!                                              {"done":[...]}\n       done, and what is to be said of it, a line each
//!                                              {"refused":[...]}\n    not done, and why
//!                                              {"busy":"..."}\n       not done now, and why: ask again
//!                                              {"error":"..."}\n      no such request, or not for this user
//! ```
//!
//! One JSON value a line, one answer for each request, in their order. Who may open the socket may read: its mode is 0660,
//! and its group [`STATUS_GROUP`] where that exists. Who may change something is decided for each connection by the user
//! that opened it, as the kernel knows it (SO_PEERCRED): root and the gateway's own user, who could send it a signal, too.
//! One socket is enough for both, since readers cannot hold up others: see server.rs.

pub mod client;
pub(crate) mod exchange;
mod server;

use serde::{Deserialize, Serialize};

pub use server::{ControlSocket, ServeError};

/// The group whose members may read the status. The package makes it, and puts the gateway's user into it.
pub const STATUS_GROUP: &str = "frameward-status";

/// The longest line that a gateway reads, in octets.
const LONGEST_REQUEST: u64 = 512;

/// A request to a gateway.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(tag = "request", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Request {
    /// Its report.
    Status {},
    /// To read its configuration and keys again.
    Reload {
        /// Only to say what would be changed.
        #[serde(default)]
        dry_run: bool,
    },
    /// To agree on another SAK, or on new sessions of a cell.
    Rekey {
        /// For this link or fieldbus.
        link: String,
    },
    /// To have the other box of a site's LAN forward.
    HandOver {
        /// For this site.
        site: String,
    },
    /// To show counters from here on.
    Clear {},
    /// To become the program that is installed now.
    Upgrade {},
}

impl Request {
    /// Whether whoever may open the socket may ask this.
    const fn is_reading(&self) -> bool {
        matches!(self, Self::Status {})
    }
}

/// Outcome of a request to change something.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Outcome {
    /// It was done, or would be.
    pub done: bool,
    /// Its changes, or why it was not done, a line each.
    pub lines: Vec<String>,
}

impl<R> From<Outcome> for Reply<R> {
    fn from(Outcome { done, lines }: Outcome) -> Self {
        if done { Self::Done(lines) } else { Self::Refused(lines) }
    }
}

/// Answer of a gateway. `R` is the report: a [`crate::GatewayReport`] where it is made, and its text where it
/// is read, which may come from another release.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reply<R> {
    /// Its report.
    Report(R),
    /// It is done; what is to be said of it, a line each.
    Done(Vec<String>),
    /// It is not done; why, a line each.
    Refused(Vec<String>),
    /// It is not done for something that ends by itself; why. A release before this answer says so in [`Self::Refused`].
    Busy(String),
    /// There is no such request, or not for this user.
    Error(String),
}
