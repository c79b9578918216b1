//! What the two halves of a site tell each other.
//!
//! Everything about a peer carries a [`Generation`]: a new instance at either end begins another one, and whatever is
//! still under way from the one before is not heeded by anybody. Both directions are bounded rings: a half that finds
//! the ring full keeps what it has to say and says it later, and nothing here has to come in time for a frame to pass.

use core::time::Duration;

use suite::tunnel::EpochSecret;
use wire::tunnel::{Flow, FlowIndex};

use crate::settings::PeerId;

/// A start of a site: 16 octets that were drawn for it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Instance(pub [u8; 16]);

/// How often a pair of instances has changed, as this site has seen it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub struct Generation(pub u32);

/// What the managing half tells the forwarding half.
#[derive(Clone, Debug)]
pub enum Command {
    /// The peer is another instance, or a stranger again: void all keys, windows and flows of both directions. What
    /// follows belongs to this generation. Endpoint and path stay.
    Begin {
        /// Whose.
        peer: PeerId,
        /// From here on.
        generation: Generation,
    },
    /// Accept packets of this epoch from the peer, beside those of the one before; told ready by
    /// [`Event::ReceiveReady`].
    InstallReceive {
        /// From whom.
        peer: PeerId,
        /// Under which generation.
        generation: Generation,
        /// Which epoch; each is one above the one before.
        epoch: u32,
        /// What its keys are derived from.
        secret: EpochSecret,
        /// Lanes that the peer sends on, from 0.
        lanes: u8,
    },
    /// The peer accepts packets of this epoch. Identifier mode sends with it from here on; header encryption keeps it
    /// in readiness until an SA needs it, but for the first, which it uses at once.
    InstallTransmit {
        /// To whom.
        peer: PeerId,
        /// Under which generation.
        generation: Generation,
        /// Which epoch.
        epoch: u32,
        /// What its keys are derived from.
        secret: EpochSecret,
    },
    /// The peer knows this flow of ours: from here on its packets are in short form.
    Announced {
        /// Who.
        peer: PeerId,
        /// Under which generation.
        generation: Generation,
        /// Our number of it.
        index: FlowIndex,
    },
    /// The peer does not know this number, or takes no more flows: announce it again when it is used next.
    Unknown {
        /// Who.
        peer: PeerId,
        /// Under which generation.
        generation: Generation,
        /// Our number of it.
        index: FlowIndex,
    },
    /// The peer announces a flow of its own; answered by [`Event::FlowAccepted`] or [`Event::FlowRefused`]. An index
    /// that is known already is answered again, and has this flow from here on.
    AddFlow {
        /// Who.
        peer: PeerId,
        /// Under which generation.
        generation: Generation,
        /// Its number of it.
        index: FlowIndex,
        /// The flow.
        flow: Flow,
    },
    /// The peer forgets a flow of its own.
    WithdrawFlow {
        /// Who.
        peer: PeerId,
        /// Under which generation.
        generation: Generation,
        /// Its number of it.
        index: FlowIndex,
    },
    /// The peer's lane stands at this anchor: move the window there, if that is forward.
    Position {
        /// Whose.
        peer: PeerId,
        /// Under which generation.
        generation: Generation,
        /// Of which epoch.
        epoch: u32,
        /// Which lane.
        lane: u8,
        /// Divisible by half the window.
        seq: u64,
    },
    /// The peer has lost our lane: answer with [`Event::Position`].
    RequestPosition {
        /// Who.
        peer: PeerId,
        /// Under which generation.
        generation: Generation,
        /// Of which epoch.
        epoch: u32,
        /// Which lane.
        lane: u8,
    },
    /// The largest UDP payload towards this peer, in octets: never fragmented.
    PathPayload {
        /// Towards whom.
        peer: PeerId,
        /// Octets.
        octets: usize,
    },
}

/// What the forwarding half tells the managing half.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Event {
    /// A flow towards this peer has a number that the peer does not know yet.
    Announce {
        /// To whom.
        peer: PeerId,
        /// Under which generation.
        generation: Generation,
        /// Its number.
        index: FlowIndex,
        /// The flow.
        flow: Flow,
    },
    /// A flow has grown old: the peer may forget it.
    Withdraw {
        /// To whom.
        peer: PeerId,
        /// Under which generation.
        generation: Generation,
        /// Its number.
        index: FlowIndex,
    },
    /// Packets of this epoch are accepted from here on: the peer may use it.
    ReceiveReady {
        /// From whom.
        peer: PeerId,
        /// Under which generation.
        generation: Generation,
        /// Which epoch.
        epoch: u32,
    },
    /// The peer's flow is known from here on.
    FlowAccepted {
        /// Whose.
        peer: PeerId,
        /// Under which generation.
        generation: Generation,
        /// Its number at the peer.
        index: FlowIndex,
    },
    /// There is no room for the peer's flow.
    FlowRefused {
        /// Whose.
        peer: PeerId,
        /// Under which generation.
        generation: Generation,
        /// Its number at the peer.
        index: FlowIndex,
    },
    /// A packet came with a number that is unknown; told at most once a second and peer.
    UnknownIndex {
        /// From whom.
        peer: PeerId,
        /// Under which generation.
        generation: Generation,
        /// The number.
        index: FlowIndex,
    },
    /// Packets come and none of them is known, for 100 ms: ask the peer where its lane stands. At most once a second
    /// and peer.
    Lost {
        /// Whose lane.
        peer: PeerId,
        /// Under which generation.
        generation: Generation,
        /// Of which epoch.
        epoch: u32,
        /// Which lane.
        lane: u8,
    },
    /// Where our lane stands, rounded up to an anchor.
    Position {
        /// Who asked.
        peer: PeerId,
        /// Under which generation.
        generation: Generation,
        /// Of which epoch.
        epoch: u32,
        /// Which lane.
        lane: u8,
        /// The anchor.
        seq: u64,
    },
    /// The next epoch is wanted: header encryption has none in readiness, or numbers of flows or seqs run short. May
    /// be told again: what was met meanwhile, as `newest` shows, is not heeded.
    EpochWanted {
        /// Towards whom.
        peer: PeerId,
        /// Under which generation.
        generation: Generation,
        /// The newest epoch that [`Command::InstallTransmit`] has brought, in use or in readiness; 0: none.
        newest: u32,
    },
}

impl Command {
    /// Whether it voids or fills tables as a whole, which takes some hundred microseconds; others take as long as a
    /// frame.
    pub const fn rebuilds_tables(&self) -> bool {
        matches!(self, Self::Begin { .. } | Self::InstallReceive { .. })
    }
}

impl Event {
    /// Whom it is about, and under which generation.
    pub const fn subject(&self) -> (PeerId, Generation) {
        match *self {
            Self::Announce { peer, generation, .. }
            | Self::Withdraw { peer, generation, .. }
            | Self::ReceiveReady { peer, generation, .. }
            | Self::FlowAccepted { peer, generation, .. }
            | Self::FlowRefused { peer, generation, .. }
            | Self::UnknownIndex { peer, generation, .. }
            | Self::Lost { peer, generation, .. }
            | Self::Position { peer, generation, .. }
            | Self::EpochWanted { peer, generation, .. } => (peer, generation),
        }
    }
}

/// How long packets of the epoch before are accepted after the first one of the next.
pub const EPOCH_OVERLAP: Duration = Duration::from_secs(2);
