//! A link's SecY, its SCs and SAs.

use serde::{Deserialize, Serialize};

use super::Counters;

/// A SecY with its management variables, under the standard's words.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct SecYReport {
    /// The suite's name; `auto` as long as none is agreed on, `none` where nothing reaches the SecY.
    pub suite: String,
    /// Whether frames are protected.
    pub protect_frames: bool,
    /// `strict`, `check` or `disabled`.
    pub validate_frames: String,
    /// Whether late and duplicate frames are discarded.
    pub replay_protect: bool,
    /// In PNs.
    pub replay_window: u32,
    /// Place of protection and verification, both ways: `kernel`, `user space: ` and why, or `nowhere: ` and why; or `kernel for express frames, user
    /// space for all others`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Of the SecY, those of no SC.
    pub counters: Counters,
    /// Sender of the last frame that was discarded for want of an SA.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stranger: Option<StrangerReport>,
    /// The sender of the last MACsec frame that passed to stations with a SecY of their own; only inside of a site.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub passed: Option<StrangerReport>,
    /// The own SC.
    pub transmit: TransmitScReport,
    /// The own express SC, where programs in the kernel send on it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub express: Option<TransmitScReport>,
    /// The peers' SCs.
    pub receive: Vec<ReceiveScReport>,
}

impl SecYReport {
    /// The own SCs.
    pub fn transmit_scs(&self) -> impl Iterator<Item = &TransmitScReport> {
        std::iter::once(&self.transmit).chain(&self.express)
    }
}

/// A frame for which there is no SA.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct StrangerReport {
    /// The SCI that it bears, `MAC/port`; none if it bears none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sci: Option<String>,
    /// Its AN.
    pub an: u8,
}

/// The transmit SC.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct TransmitScReport {
    /// Its SCI, `MAC/port`.
    pub sci: String,
    /// Sums over all its SAs, also retired ones.
    pub counters: Counters,
    /// Its SAs, by AN.
    pub sas: Vec<SaReport>,
}

/// A receive SC.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ReceiveScReport {
    /// Its SCI, `MAC/port`.
    pub sci: String,
    /// Sums over all its SAs, also retired ones.
    pub counters: Counters,
    /// Its SAs, by AN.
    pub sas: Vec<SaReport>,
}

/// An SA.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct SaReport {
    /// Its AN, 0 to 3.
    pub an: u8,
    /// Whether it is used.
    pub in_use: bool,
    /// Its key's fingerprint, as `keygen` printed it; of a SAK that was agreed on its KI.
    pub key: String,
    /// Transmit: the next PN; none if the PNs are used up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_pn: Option<u64>,
    /// Transmit, with 32-bit PNs: how many are left before the key has to be changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pns_left: Option<u64>,
    /// Transmit, with 32-bit PNs: seconds until none is left, at the mean rate since this SA began. None before it has
    /// sent a frame.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pns_last_seconds: Option<u64>,
    /// Receive: the lowest PN that is not late.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lowest_pn: Option<u64>,
    /// Its counters.
    pub counters: Counters,
}
