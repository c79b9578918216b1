//! Commands and events between the two halves of a site: [`Session`](crate::Session) and
//! [`Forwarding`](crate::Forwarding).
//!
//! Everything about a peer carries a [`Generation`]. A new instance at either end begins another one, and
//! both halves ignore messages of the previous one. Both directions are bounded rings: a half that finds its
//! ring full retries later. No frame waits for anything here.

use core::time::Duration;

use suite::tunnel::EpochSecret;
use wire::tunnel::{Flow, FlowIndex};
use wire::{MacAddr, Sci};

use crate::settings::{FrameKinds, PeerId};
use crate::stations::Location;

/// One start of a site: 16 random octets.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Instance(pub [u8; 16]);

/// Octets of UDP payload of packets beside the management channel, as one end has counted them since its start.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct PacketOctets {
    /// Sent to the other end.
    pub sent: u64,
    /// Of the other end, and valid.
    pub accepted: u64,
}

/// Number of changes of the pair of instances, as this site has seen them.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub struct Generation(pub u32);

/// A request of one half to the other one, counted from its start. The answer has the same: it is about this request's flow, and not about
/// another one that has the number by then.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub struct RequestId(pub u32);

impl RequestId {
    /// The next request.
    pub(crate) const fn take(&mut self) -> Self {
        self.0 = self.0.wrapping_add(1);
        *self
    }
}

/// Command from the session to the forwarding half.
#[derive(Clone, Debug)]
pub enum Command {
    /// The peer is another instance, or a stranger again: void all keys, windows and flows of both
    /// directions. Later commands belong to this generation. Endpoint and path stay.
    Begin {
        /// The peer.
        peer: PeerId,
        /// The new generation.
        generation: Generation,
    },
    /// Kinds of frames that the peer takes; without this, none but those of the first version.
    TakesFrames {
        /// The peer.
        peer: PeerId,
        /// Its generation.
        generation: Generation,
        /// The kinds.
        frames: FrameKinds,
    },
    /// Accept packets of this epoch from the peer, besides those of the previous one. Answered by
    /// [`Event::ReceiveReady`].
    InstallReceive {
        /// The peer.
        peer: PeerId,
        /// Its generation.
        generation: Generation,
        /// The epoch: one above the previous one.
        epoch: u32,
        /// Source of its keys.
        secret: EpochSecret,
        /// Number of lanes that the peer sends on.
        lanes: u8,
    },
    /// The peer accepts packets of this epoch. Identifier mode sends with it from now on. Header encryption
    /// keeps it in reserve until an SA needs it, except for the first one, which it uses at once.
    InstallTransmit {
        /// The peer.
        peer: PeerId,
        /// Its generation.
        generation: Generation,
        /// The epoch.
        epoch: u32,
        /// Source of its keys.
        secret: EpochSecret,
    },
    /// The peer knows this flow of ours: send its packets in short form from now on. Answers [`Event::Announce`].
    Announced {
        /// The peer.
        peer: PeerId,
        /// Its generation.
        generation: Generation,
        /// Our number of the flow.
        index: FlowIndex,
        /// The request.
        request: RequestId,
    },
    /// The peer does not know this number, or takes no more flows: announce it again at its next use.
    Unknown {
        /// The peer.
        peer: PeerId,
        /// Its generation.
        generation: Generation,
        /// Our number of the flow.
        index: FlowIndex,
    },
    /// The peer announces a flow of its own. Answered by [`Event::FlowAccepted`] or [`Event::FlowRefused`]. A
    /// known index is answered again, and now means this flow.
    AddFlow {
        /// The peer.
        peer: PeerId,
        /// Its generation.
        generation: Generation,
        /// Its number of the flow.
        index: FlowIndex,
        /// The flow.
        flow: Flow,
        /// The request.
        request: RequestId,
    },
    /// The peer withdraws a flow of its own.
    WithdrawFlow {
        /// The peer.
        peer: PeerId,
        /// Its generation.
        generation: Generation,
        /// Its number of the flow.
        index: FlowIndex,
    },
    /// The peer's lane has reached this anchor: move the window there, if that is forward.
    Position {
        /// The peer.
        peer: PeerId,
        /// Its generation.
        generation: Generation,
        /// The epoch.
        epoch: u32,
        /// The lane.
        lane: u8,
        /// The anchor, divisible by half the window.
        seq: u64,
    },
    /// The peer has lost our lane: answer with [`Event::Position`].
    RequestPosition {
        /// The peer.
        peer: PeerId,
        /// Its generation.
        generation: Generation,
        /// The epoch.
        epoch: u32,
        /// The lane.
        lane: u8,
    },
    /// Somebody else forwards flows beside this half, on lanes of its own: tell of flows in use ([`Event::FlowInUse`]) and of stations behind
    /// peers in plain mode ([`Event::StationInUse`]), and ask before a station moves ([`Event::StationMoves`]).
    OfferFlows,
    /// Frames of our flow were sent elsewhere: it does not age.
    FlowUsed {
        /// The peer.
        peer: PeerId,
        /// Its generation.
        generation: Generation,
        /// Our number of the flow.
        index: FlowIndex,
    },
    /// Frames that went elsewhere came from this station: it is there, or may move there if it was not heard here either.
    StationHeard {
        /// Its address.
        address: MacAddr,
        /// Its location.
        location: Location,
    },
    /// A packet of this epoch has come elsewhere: those before it end, as behind a packet that came here.
    EpochInUse {
        /// The peer.
        peer: PeerId,
        /// Its generation.
        generation: Generation,
        /// The epoch.
        epoch: u32,
    },
    /// A station of this LAN is live in a key agreement across sites: one of another plant lists it. For 20 seconds its new flows have room of their own.
    StationLive {
        /// Its SCI.
        sci: Sci,
    },
    /// Packets of this peer may come over several paths, each twice: the second copy is told from a stranger's packet, in epochs
    /// that are installed from here on. Without effect but in identifier mode.
    ExpectCopies {
        /// The peer.
        peer: PeerId,
    },
    /// Largest UDP payload towards this peer, in octets: never fragmented by IP.
    PathPayload {
        /// The peer.
        peer: PeerId,
        /// The payload, in octets.
        octets: usize,
    },
}

/// Event from the forwarding half to the session.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Event {
    /// A flow towards this peer has a number that the peer does not know yet. Answered by [`Command::Announced`].
    Announce {
        /// The peer.
        peer: PeerId,
        /// Its generation.
        generation: Generation,
        /// Number of the flow.
        index: FlowIndex,
        /// The flow.
        flow: Flow,
        /// The request: one for each flow that gets a number, however often it is announced.
        request: RequestId,
    },
    /// A flow has aged out: the peer may forget it.
    Withdraw {
        /// The peer.
        peer: PeerId,
        /// Its generation.
        generation: Generation,
        /// Number of the flow.
        index: FlowIndex,
    },
    /// Packets of this epoch are accepted from now on: the peer may use it.
    ReceiveReady {
        /// The peer.
        peer: PeerId,
        /// Its generation.
        generation: Generation,
        /// The epoch.
        epoch: u32,
    },
    /// The peer's flow is known from now on.
    FlowAccepted {
        /// The peer.
        peer: PeerId,
        /// Its generation.
        generation: Generation,
        /// The peer's number of the flow.
        index: FlowIndex,
        /// The request.
        request: RequestId,
        /// Location of its source, if it is known.
        source: Option<Location>,
    },
    /// There is no room for the peer's flow.
    FlowRefused {
        /// The peer.
        peer: PeerId,
        /// Its generation.
        generation: Generation,
        /// The peer's number of the flow.
        index: FlowIndex,
        /// The request.
        request: RequestId,
    },
    /// A packet had an unknown number. At most once a second and peer.
    UnknownIndex {
        /// The peer.
        peer: PeerId,
        /// Its generation.
        generation: Generation,
        /// The number.
        index: FlowIndex,
    },
    /// Packets have arrived for 100 ms and none of them is known: ask the peer for its lane's position. At
    /// most once a second and peer.
    Lost {
        /// The peer.
        peer: PeerId,
        /// Its generation.
        generation: Generation,
        /// The epoch.
        epoch: u32,
        /// The lane.
        lane: u8,
    },
    /// Position of our lane, rounded up to an anchor.
    Position {
        /// The peer that asked.
        peer: PeerId,
        /// Its generation.
        generation: Generation,
        /// The epoch.
        epoch: u32,
        /// The lane.
        lane: u8,
        /// The anchor.
        seq: u64,
    },
    /// A flow of MACsec frames without VLAN tags that the peer knows, or of a peer in plain mode, has had a frame for it alone, which went in one
    /// packet. At most once a second and flow, after [`Command::OfferFlows`].
    FlowInUse {
        /// The peer.
        peer: PeerId,
        /// Its generation.
        generation: Generation,
        /// Our number of the flow.
        index: FlowIndex,
        /// The flow.
        flow: Flow,
    },
    /// A station was heard elsewhere than before, and would move. After [`Command::OfferFlows`] it moves by
    /// [`Command::StationHeard`], or without an answer a second after it was asked for first.
    StationMoves {
        /// The peer that it would move to, or away from.
        peer: PeerId,
        /// Its generation.
        generation: Generation,
        /// Its address.
        address: MacAddr,
        /// Where it was heard.
        to: Location,
    },
    /// A station behind a peer in plain mode has sent a frame without VLAN tags. At most once a second and station, after
    /// [`Command::OfferFlows`].
    StationInUse {
        /// The peer.
        peer: PeerId,
        /// Its generation.
        generation: Generation,
        /// Its address.
        address: MacAddr,
    },
    /// The first packet of the peer's newer epoch has come here: those before it end, elsewhere too. After [`Command::OfferFlows`].
    EpochInUse {
        /// The peer.
        peer: PeerId,
        /// Its generation.
        generation: Generation,
        /// The epoch.
        epoch: u32,
    },
    /// The next epoch is wanted: header encryption has none in reserve, or flow numbers or seqs run short.
    /// May be repeated: a request that `newest` shows to be met is ignored.
    EpochWanted {
        /// The peer.
        peer: PeerId,
        /// Its generation.
        generation: Generation,
        /// Newest epoch from [`Command::InstallTransmit`], in use or in reserve; 0: none.
        newest: u32,
    },
}

impl Command {
    /// True for commands that void or fill whole tables, which takes some hundred microseconds. Others take
    /// as long as a frame.
    pub const fn rebuilds_tables(&self) -> bool {
        matches!(self, Self::Begin { .. } | Self::InstallReceive { .. })
    }

    /// True for commands that concern what is sent: each half of a site that sends from several workers is given them
    /// ([`Forwarding::on_lane`](crate::Forwarding::on_lane)). The others are for the half that receives.
    pub const fn goes_to_all_lanes(&self) -> bool {
        match self {
            Self::Begin { .. }
            | Self::TakesFrames { .. }
            | Self::InstallTransmit { .. }
            | Self::Announced { .. }
            | Self::Unknown { .. }
            | Self::RequestPosition { .. }
            | Self::StationLive { .. }
            | Self::PathPayload { .. } => true,
            Self::InstallReceive { .. }
            | Self::AddFlow { .. }
            | Self::WithdrawFlow { .. }
            | Self::Position { .. }
            | Self::OfferFlows
            | Self::FlowUsed { .. }
            | Self::StationHeard { .. }
            | Self::EpochInUse { .. }
            | Self::ExpectCopies { .. } => false,
        }
    }
}

impl Event {
    /// Peer and generation of the event.
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
            | Self::FlowInUse { peer, generation, .. }
            | Self::StationMoves { peer, generation, .. }
            | Self::StationInUse { peer, generation, .. }
            | Self::EpochInUse { peer, generation, .. }
            | Self::EpochWanted { peer, generation, .. } => (peer, generation),
        }
    }
}

/// Time for which packets of the previous epoch are accepted after the first packet of the next.
pub const EPOCH_OVERLAP: Duration = Duration::from_secs(2);
