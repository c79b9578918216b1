//! What an examination has found.

use wire::Sci;

use super::super::frame::{ReceiveRecord, Status};
use super::prober::Probed;

/// How an examination ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    /// Both have finished.
    Examined,
    /// The other one answered and then fell silent.
    Lost,
    /// Nobody who is believed answered.
    Unanswered,
}

/// What was seen of those who are not believed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Rejections {
    /// Frames that say they come from a peer, and whose MAC does not fit; and that peer.
    pub misfits: u32,
    /// The last of them.
    pub misfit: Option<Sci>,
    /// Somebody's SCI that is no peer's.
    pub stranger: Option<Sci>,
    /// Somebody else uses this end's SCI; whether with the same key.
    pub own_sci: Option<bool>,
    /// A believable peer speaks, but never names this session: it does not hear this end.
    pub deaf: Option<Sci>,
    /// That peer says that what it hears does not fit its key.
    pub refused: bool,
    /// Doctors of another release.
    pub other_release: u32,
}

/// What an examination has found.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// How it ended.
    pub end: End,
    /// Who answered.
    pub peer: Option<Sci>,
    /// What the other one says of itself and has seen.
    pub theirs: Status,
    /// What the own probes have found.
    pub probed: Probed,
    /// What was counted of the other one's.
    pub record: ReceiveRecord,
    /// What else was seen.
    pub rejections: Rejections,
}
