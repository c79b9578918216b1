//! A gateway's fleet, as its agent knows it.

use serde::{Deserialize, Serialize};

/// A fleet's state on one gateway.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct FleetReport {
    /// The version that is in use; none before the first one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<u64>,
    /// State of that version, or the outcome of a newer one.
    pub state: FleetState,
    /// Why it is so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// The version that was taken back or refused, if that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unused: Option<u64>,
    /// The box's own configuration, which leads to the fleet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// Seconds since the directory answered; none: not since the start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub directory_answered_seconds: Option<u64>,
    /// Why the directory does not answer; none while it does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub directory_away: Option<String>,
}

/// State of the newest version.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FleetState {
    /// There was none yet.
    #[default]
    Waits,
    /// It is in use, and stays.
    Confirmed,
    /// It is in use, and is taken back if links or sites fall.
    OnTrial,
    /// It was taken back: the one before is in use again.
    TakenBack,
    /// It was refused: the one before stays in use.
    Refused,
    /// Nobody looks: the agent has ended.
    AgentEnded,
    /// A state of a newer release.
    #[serde(other)]
    Unknown,
}

impl FleetState {
    /// Its word.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Waits => "waits",
            Self::Confirmed => "confirmed",
            Self::OnTrial => "on trial",
            Self::TakenBack => "taken back",
            Self::Refused => "refused",
            Self::AgentEnded => "agent ended",
            Self::Unknown => "unknown",
        }
    }
}
