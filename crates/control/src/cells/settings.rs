//! Settings of a cell, what it shows, and why it is refused.

use std::io;

use dataplane::cell::{CellCounters, OtherFrames};
use fieldbus::handshake::HelloCounters;
use fieldbus::{RelationSettings, RelationStatus, Relations, RelationsError};
use suite::fieldbus::MasterKeys;
use wire::fieldbus::MasterKeyId;

use super::kernel::CellPlace;
use crate::WorkerUnresponsive;
use crate::kernel_ports::PlaceWanted;

/// Settings of a cell.
pub struct CellSettings {
    /// The cell's name, which notices have.
    pub name: String,
    /// Master keys, which both gateways have.
    pub master_keys: MasterKeys,
    /// Protection of frames. `mtu` is that of the link's protected side.
    pub settings: fieldbus::Settings,
    /// The relations; a relation's number is its place here.
    pub relations: Vec<RelationSettings>,
    /// Treatment of other frames.
    pub rest: OtherFrames,
    /// Place of protection and verification that is wanted.
    pub place: PlaceWanted,
}

/// The state of a cell at one moment; each relation's figures are of one moment, and those of all are of few milliseconds.
#[derive(Clone, Debug)]
pub struct CellStatus {
    /// The cell's name.
    pub name: String,
    /// Treatment of other frames.
    pub rest: OtherFrames,
    /// Place of protection and verification.
    pub place: CellPlace,
    /// Counters of frames of no relation, and of HELLOs on their way.
    pub counters: CellCounters,
    /// Counters of its handshakes.
    pub hello: HelloCounters,
    /// The same, of the last five to ten seconds.
    pub hello_lately: HelloCounters,
    /// The relations, by number.
    pub relations: Vec<RelationStatus>,
    /// By relation, the master key that its session rests on; `None` without a session.
    pub session_keys: Vec<Option<MasterKeyId>>,
    /// Faults of the kernel: for how many relations, what it does not do, why, and what to do.
    pub kernel_faults: Option<String>,
}

/// Why a cell was not added or changed.
#[derive(Debug, thiserror::Error)]
pub enum CellError {
    /// There is no such link.
    #[error("there is no link of that name")]
    NoLink,
    /// The link has a cell already, or has none to be changed.
    #[error("the link has a cell already, or none that could be changed")]
    NotSo,
    /// Its relations cannot be.
    #[error("{}", describe(.0))]
    Relations(RelationsError),
    /// The kernel was demanded, and does not take it.
    #[error("io = \"kernel\" is not possible: {0}")]
    Kernel(#[from] xdp::XdpError),
    /// No random values.
    #[error("no random values: {0}")]
    Random(io::Error),
    /// Its worker does not answer.
    #[error(transparent)]
    WorkerUnresponsive(#[from] WorkerUnresponsive),
}

fn describe(error: &RelationsError) -> String {
    match error {
        RelationsError::TooMany => format!("a cell has at most {} relations", Relations::MAX),
        RelationsError::Same(one, other) => format!(
            "relations {} and {} have the same addresses and FrameID in one direction, and protected frames do not show their protocol",
            one + 1,
            other + 1
        ),
        RelationsError::NoTable => "no table of these addresses can be made".into(),
    }
}
