//! Result of an examination.

use wire::Sci;

use super::super::frame::{ReceiveRecord, Status};
use super::prober::Probed;

/// End of an examination.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    /// Both have finished.
    Examined,
    /// The other one answered and then fell silent.
    Lost,
    /// Nobody who is believed answered.
    Unanswered,
}

/// Observations of senders that are not believed.
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

/// Result of an examination.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Its end.
    pub end: End,
    /// The peer that answered.
    pub peer: Option<Sci>,
    /// The peer's own status.
    pub theirs: Status,
    /// Results of the own probes.
    pub probed: Probed,
    /// Record of the peer's stream.
    pub record: ReceiveRecord,
    /// Other observations.
    pub rejections: Rejections,
}
