//! Sites: MACsec frames carried between plants over UDP, with only their headers protected (tunnelling paper;
//! the project's wire formats, section 3).
//!
//! A site has two halves, which share nothing but [`Command`]s and [`Event`]s:
//!
//! ```text
//!            frames and packets                                     messages, over the management channel
//!  LAN ◀──▶ Forwarding (a worker's) ◀── Command ── Event ──▶ Session (one a peer, the manager's) ◀──▶ peer
//! ```
//!
//! [`Forwarding`] moves frames: flows, lanes, windows, fragments, stations. [`Session`] negotiates with a
//! peer what the halves at both ends need: instances, epochs, announcements. Neither has a clock or a socket;
//! the engine carries octets, commands and events, and provides the time. Packets wait for the uplink in a [`shaper`].
#![no_std]

extern crate alloc;

mod announced_flows;
mod counters;
mod exchange;
mod flows;
mod forwarding;
mod fragments;
mod hash;
mod header_encryption;
mod identifier;
mod lane;
mod live_stations;
mod message;
mod new_flow_limit;
mod packet;
mod plain;
mod receive;
mod session;
mod settings;
pub mod shaper;
mod site_state;
pub mod standby;
mod stations;
mod table;
mod window;

pub use counters::{Discard, InDiscard, PeerCounters, SiteCounters, UnknownDiscard};
pub use exchange::{Command, EPOCH_OVERLAP, Event, Generation, Instance, PacketOctets, RequestId};
pub use flows::NumberedFlow;
pub use forwarding::{Forwarding, PreparedPeer};
pub use message::{HelloMode, Message, MessageError, Stream};
pub use packet::{
    Delivery, Destination, PACKET_HEADER_OCTETS, PREFIX_OCTETS, Packet, PacketSource, Released, Route,
};
pub use session::{
    COMMANDS, ChannelState, EPOCH_LIFE, EpochAge, HeardOctets, IN_FLIGHT, OUTSTANDING, PeerFault, Session,
    SessionCounters, SessionSettings, SessionState,
};
pub use settings::{FrameKinds, LaneShare, Limits, Mode, PEERS, PeerId, PeerSettings, Settings};
pub use stations::{Location, Station};
pub use wire::tunnel::{RelayLeg, SiteName};
