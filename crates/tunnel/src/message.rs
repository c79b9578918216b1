//! Messages of the management channel (section 3.5).
//!
//! A message is one CBOR map (RFC 8949) of at most [`Message::OCTETS`] octets. Its keys are unsigned numbers:
//! 0 is the kind, the others have one meaning each, whatever the kind:
//!
//! ```text
//!  kind           keys beside 0                    stream          answered by
//!  1  Hello       1 version, 2 instance, 3 lanes,  control         Welcome, and the peer's own Hello
//!                 4 window, 5 mode, [14 frames]
//!  2  Welcome                                      control
//!  3  Epoch       6 epoch, 7 secret, 3 lanes       control         EpochReady
//!  4  EpochReady  6 epoch                          control
//!  5  Announce    8 index, 9 flow                  announcements   Announced or Refused
//!  6  Announced   8 index                          announcements
//!  7  Refused     8 index                          announcements
//!  8  Withdraw    8 index                          announcements   Withdrawn
//!  9  Withdrawn   8 index                          announcements
//!  10 Unknown     8 index                          announcements
//!  11 WhereIs     6 epoch, 10 lane                 control         Position
//!  12 Position    6 epoch, 10 lane, 11 seq         control
//!  13 Ping        12 token                         control         Pong
//!  14 Pong        12 token                         control
//!  15 SeenAt      13 address                       control
//!  16 ReachableAt 13 address                       control
//!  17 Octets      15 sent, 16 accepted             control
//! ```
//!
//! Encoding is the core deterministic one (RFC 8949, 4.2.1). Parsing is lenient where a later version may
//! extend it: it skips unknown kinds and keys with their values. It is strict otherwise: no indefinite
//! lengths, no key twice, nothing behind the map. Parsing allocates nothing.
//!
//! Streams have no order among each other. Nothing may be sent on the stream of announcements before Welcome:
//! only then has the peer surely received the Hello.

mod fields;

use alloc::vec::Vec;
use core::fmt;
use core::net::{IpAddr, SocketAddr};

use suite::tunnel::EpochSecret;
use wire::tunnel::{Flow, FlowIndex};
use zeroize::Zeroizing;

use self::fields::{Fields, Writer};
use crate::exchange::{Instance, PacketOctets};
use crate::settings::{FrameKinds, Mode};

/// Stream of a message. The first octet of a stream identifies it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Stream {
    /// Instances, epochs, positions: 0.
    Control,
    /// Flows: 1. A flood of them keeps no epoch waiting.
    Announcements,
}

impl Stream {
    /// First octet of the stream.
    pub const fn octet(self) -> u8 {
        match self {
            Self::Control => 0,
            Self::Announcements => 1,
        }
    }
}

/// A mode in a Hello. Can hold a mode that this version does not know, so that it can be named.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct HelloMode(pub u8);

impl HelloMode {
    /// Rotating identifiers.
    pub const IDENTIFIER: Self = Self(1);
    /// Header encryption.
    pub const HEADER_ENCRYPTION: Self = Self(2);

    /// The Hello's encoding of a mode; `None` for plain, which has no management channel.
    pub const fn of(mode: Mode) -> Option<Self> {
        match mode {
            Mode::Identifier => Some(Self::IDENTIFIER),
            Mode::HeaderEncryption => Some(Self::HEADER_ENCRYPTION),
            Mode::Plain { .. } => None,
        }
    }
}

impl fmt::Display for HelloMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::IDENTIFIER => f.write_str("identifier"),
            Self::HEADER_ENCRYPTION => f.write_str("header-encryption"),
            Self(other) => write!(f, "unknown mode {other}"),
        }
    }
}

/// A message. Its Debug shows no secret.
#[derive(Clone, Debug)]
pub enum Message {
    /// The first message in each direction of a connection. Also carries [`Message::VERSION`].
    Hello {
        /// This start of the site.
        instance: Instance,
        /// Number of lanes that it sends on.
        lanes: u8,
        /// W of its windows.
        window: u64,
        /// Its header protection.
        mode: HelloMode,
        /// Kinds of frames that it takes. Not there: none of them, from a version that does not know the key.
        frames: FrameKinds,
    },
    /// Accepts the Hello: all later messages on any stream belong to this pair of instances.
    Welcome,
    /// The keys of an epoch in the sender's direction.
    Epoch {
        /// Number of the epoch: from 1, each one above the previous.
        epoch: u32,
        /// Source of its keys.
        secret: EpochSecret,
        /// Number of lanes that it is sent on.
        lanes: u8,
    },
    /// Packets of this epoch are accepted from now on.
    EpochReady {
        /// Number of the epoch.
        epoch: u32,
    },
    /// A flow of the sender's.
    Announce {
        /// The sender's number of the flow.
        index: FlowIndex,
        /// The flow.
        flow: Flow,
    },
    /// The flow is known from now on.
    Announced {
        /// The receiver's number of the flow.
        index: FlowIndex,
    },
    /// There is no room for the flow.
    Refused {
        /// The receiver's number of the flow.
        index: FlowIndex,
    },
    /// The sender does not use this number any longer.
    Withdraw {
        /// The sender's number.
        index: FlowIndex,
    },
    /// The number is forgotten, or was never known.
    Withdrawn {
        /// The receiver's number.
        index: FlowIndex,
    },
    /// A packet had this number, which is unknown.
    Unknown {
        /// The receiver's number.
        index: FlowIndex,
    },
    /// Question: the sender's packets are unknown here; where is its lane?
    WhereIs {
        /// The epoch.
        epoch: u32,
        /// The lane.
        lane: u8,
    },
    /// Answer to WhereIs.
    Position {
        /// The epoch.
        epoch: u32,
        /// The lane.
        lane: u8,
        /// An anchor: divisible by W/2.
        seq: u64,
    },
    /// Request for a Pong: proves that the peer is at its packets' source address.
    Ping {
        /// Value to be returned.
        token: u64,
    },
    /// The answer.
    Pong {
        /// The Ping's value.
        token: u64,
    },
    /// The receiver's address as seen from here: for operators behind a NAT. Changes nothing.
    SeenAt {
        /// The address. On the wire an IPv6 one, or an IPv4 one as mapped (RFC 4291, 2.5.5.2): 16 octets, and the port.
        address: SocketAddr,
    },
    /// The sender's address as a third site sees it, for a peer that is reached through that site: where the sender can be tried directly.
    ReachableAt {
        /// The address, as in [`Message::SeenAt`].
        address: SocketAddr,
    },
    /// What the sender has counted of packets beside the channel: so each end hears whether what it sends arrives. Only to a peer that takes
    /// it ([`FrameKinds::OCTETS`]).
    Octets(PacketOctets),
}

/// Error of octets that are no message. Closes the connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MessageError {
    /// More than [`Message::OCTETS`] octets.
    TooLong,
    /// The octets end inside the message.
    Truncated,
    /// No CBOR map of the form above.
    Malformed,
    /// Octets follow the message.
    Trailing,
    /// A key stands twice.
    Repeated,
    /// A key that the kind needs is missing, or its value is illegal.
    Field {
        /// The key.
        key: u8,
    },
    /// The peer uses another version of the channel.
    Version {
        /// The peer's version.
        theirs: u64,
    },
}

impl fmt::Display for MessageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLong => write!(f, "a message of more than {} octets", Message::OCTETS),
            Self::Truncated => f.write_str("a message that ends too early"),
            Self::Malformed => f.write_str("a message that is no CBOR map"),
            Self::Trailing => f.write_str("octets behind a message"),
            Self::Repeated => f.write_str("a message with a key twice"),
            Self::Field { key } => write!(f, "a message whose key {key} is missing or out of range"),
            Self::Version { theirs } => {
                write!(
                    f,
                    "the peer speaks version {theirs} of the channel, this site version {}",
                    Message::VERSION
                )
            }
        }
    }
}

impl core::error::Error for MessageError {}

/// Octets of an address with its port.
const ADDRESS_OCTETS: usize = 18;

/// The keys.
mod key {
    pub(super) const KIND: u8 = 0;
    pub(super) const VERSION: u8 = 1;
    pub(super) const INSTANCE: u8 = 2;
    pub(super) const LANES: u8 = 3;
    pub(super) const WINDOW: u8 = 4;
    pub(super) const MODE: u8 = 5;
    pub(super) const EPOCH: u8 = 6;
    pub(super) const SECRET: u8 = 7;
    pub(super) const INDEX: u8 = 8;
    pub(super) const FLOW: u8 = 9;
    pub(super) const LANE: u8 = 10;
    pub(super) const SEQ: u8 = 11;
    pub(super) const TOKEN: u8 = 12;
    pub(super) const ADDRESS: u8 = 13;
    pub(super) const FRAMES: u8 = 14;
    pub(super) const SENT: u8 = 15;
    pub(super) const ACCEPTED: u8 = 16;
    pub(super) const COUNT: usize = 17;
}

impl Message {
    /// Version of the channel, and of the packets whose keys it negotiates. Since 2, packets of identifier
    /// mode have a check, and a tag in long form.
    pub const VERSION: u64 = 2;
    /// Octets of the longest accepted message. Ours are below 100.
    pub const OCTETS: usize = 1024;

    /// The encoded octets, without the length in front of them on a stream. Wiped when dropped, since an
    /// Epoch holds a secret.
    pub fn encode(&self) -> Zeroizing<Vec<u8>> {
        let mut writer = Writer::new();
        writer.number(key::KIND, self.kind());
        match self {
            Self::Hello { instance, lanes, window, mode, frames } => {
                writer.number(key::VERSION, Self::VERSION);
                writer.octets(key::INSTANCE, &instance.0);
                writer.number(key::LANES, (*lanes).into());
                writer.number(key::WINDOW, *window);
                writer.number(key::MODE, mode.0.into());
                if *frames != FrameKinds::default() {
                    writer.number(key::FRAMES, frames.0);
                }
            }
            Self::Welcome => {}
            Self::Epoch { epoch, secret, lanes } => {
                writer.number(key::LANES, (*lanes).into());
                writer.number(key::EPOCH, (*epoch).into());
                writer.octets(key::SECRET, secret.octets());
            }
            Self::EpochReady { epoch } => writer.number(key::EPOCH, (*epoch).into()),
            Self::Announce { index, flow } => {
                writer.number(key::INDEX, index.0.into());
                if flow.tags.is_empty() {
                    writer.octets(key::FLOW, &flow.encode());
                } else {
                    writer.octets(key::FLOW, &flow.encode_tagged());
                }
            }
            Self::Announced { index }
            | Self::Refused { index }
            | Self::Withdraw { index }
            | Self::Withdrawn { index }
            | Self::Unknown { index } => writer.number(key::INDEX, index.0.into()),
            Self::WhereIs { epoch, lane } => {
                writer.number(key::EPOCH, (*epoch).into());
                writer.number(key::LANE, (*lane).into());
            }
            Self::Position { epoch, lane, seq } => {
                writer.number(key::EPOCH, (*epoch).into());
                writer.number(key::LANE, (*lane).into());
                writer.number(key::SEQ, *seq);
            }
            Self::Ping { token } | Self::Pong { token } => writer.number(key::TOKEN, *token),
            Self::Octets(PacketOctets { sent, accepted }) => {
                writer.number(key::SENT, *sent);
                writer.number(key::ACCEPTED, *accepted);
            }
            Self::SeenAt { address } | Self::ReachableAt { address } => {
                let mut octets = [0; ADDRESS_OCTETS];
                let (ip, port) = octets.split_at_mut(16);
                ip.copy_from_slice(&match address.ip() {
                    IpAddr::V4(four) => four.to_ipv6_mapped().octets(),
                    IpAddr::V6(six) => six.octets(),
                });
                port.copy_from_slice(&address.port().to_be_bytes());
                writer.octets(key::ADDRESS, &octets);
            }
        }
        writer.finish()
    }

    /// Parses a message; `None` if its kind is unknown. The caller wipes `octets`: they may hold a secret.
    ///
    /// # Errors
    /// [`MessageError`].
    pub fn parse(octets: &[u8]) -> Result<Option<Self>, MessageError> {
        if octets.len() > Self::OCTETS {
            return Err(MessageError::TooLong);
        }
        let fields = Fields::parse(octets)?;
        let index = || fields.number(key::INDEX).map(FlowIndex);
        let epoch = || fields.number(key::EPOCH);
        let lane = || fields.number(key::LANE);
        Ok(Some(match fields.number(key::KIND)? {
            1_u64 => Self::hello(&fields)?,
            2 => Self::Welcome,
            3 => Self::Epoch {
                epoch: epoch()?,
                secret: EpochSecret::new(fields.octets(key::SECRET)?),
                lanes: fields.number(key::LANES)?,
            },
            4 => Self::EpochReady { epoch: epoch()? },
            5 => Self::Announce {
                index: index()?,
                flow: Self::flow(&fields).ok_or(MessageError::Field { key: key::FLOW })?,
            },
            6 => Self::Announced { index: index()? },
            7 => Self::Refused { index: index()? },
            8 => Self::Withdraw { index: index()? },
            9 => Self::Withdrawn { index: index()? },
            10 => Self::Unknown { index: index()? },
            11 => Self::WhereIs { epoch: epoch()?, lane: lane()? },
            12 => Self::Position { epoch: epoch()?, lane: lane()?, seq: fields.number(key::SEQ)? },
            13 => Self::Ping { token: fields.number(key::TOKEN)? },
            14 => Self::Pong { token: fields.number(key::TOKEN)? },
            15 => Self::SeenAt { address: Self::address(&fields)? },
            16 => Self::ReachableAt { address: Self::address(&fields)? },
            17 => Self::Octets(PacketOctets {
                sent: fields.number(key::SENT)?,
                accepted: fields.number(key::ACCEPTED)?,
            }),
            _ => return Ok(None),
        }))
    }

    /// Checks the version first: other fields of another version's Hello have unknown meaning.
    fn hello(fields: &Fields<'_>) -> Result<Self, MessageError> {
        let theirs = fields.number(key::VERSION)?;
        if theirs != Self::VERSION {
            return Err(MessageError::Version { theirs });
        }
        Ok(Self::Hello {
            instance: Instance(*fields.octets(key::INSTANCE)?),
            lanes: fields.number(key::LANES)?,
            window: fields.number(key::WINDOW)?,
            mode: HelloMode(fields.number(key::MODE)?),
            frames: FrameKinds(if fields.has(key::FRAMES) { fields.number(key::FRAMES)? } else { 0 }),
        })
    }

    fn address(fields: &Fields<'_>) -> Result<SocketAddr, MessageError> {
        let [ip @ .., high, low] = *fields.octets::<ADDRESS_OCTETS>(key::ADDRESS)?;
        let ip = IpAddr::from(ip).to_canonical();
        Ok(SocketAddr::new(ip, u16::from_be_bytes([high, low])))
    }

    /// A flow, with VLAN tags if it is so long.
    fn flow(fields: &Fields<'_>) -> Option<Flow> {
        match fields.octets(key::FLOW) {
            Ok(flow) => Flow::parse(flow),
            Err(_) => Flow::parse_tagged(fields.octets(key::FLOW).ok()?),
        }
    }

    const fn kind(&self) -> u64 {
        match self {
            Self::Hello { .. } => 1,
            Self::Welcome => 2,
            Self::Epoch { .. } => 3,
            Self::EpochReady { .. } => 4,
            Self::Announce { .. } => 5,
            Self::Announced { .. } => 6,
            Self::Refused { .. } => 7,
            Self::Withdraw { .. } => 8,
            Self::Withdrawn { .. } => 9,
            Self::Unknown { .. } => 10,
            Self::WhereIs { .. } => 11,
            Self::Position { .. } => 12,
            Self::Ping { .. } => 13,
            Self::Pong { .. } => 14,
            Self::SeenAt { .. } => 15,
            Self::ReachableAt { .. } => 16,
            Self::Octets(..) => 17,
        }
    }
}
