//! A fleet of gateways: what an operator tells each of them, by way of a directory that nobody has to trust.
//!
//! ```text
//!  operator                         directory                        gateway
//!  configuration, key files ─seal─▶ one signed record a gateway ───▶ verify, open, remember the version
//!  signing key                      (redb, etcd)                     identity, the operator's public key
//! ```
//!
//! - A fleet is named by its operator's public key. So a record of another fleet is signed by another key.
//! - A [`Record`] says in clear for whom it is, which version, and how long it is valid. Its files are sealed to the gateway's key
//!   ([`suite::sealing`]), with all of that as associated data. The operator signs both.
//! - A gateway takes a record only if it is signed, for this gateway, valid now, and newer than all that it took before
//!   ([`Acceptor`]). How far it was stands on disk before anybody sees the files.
//! - A gateway says by a [`Heartbeat`] which version it has, signed and counted. So what is withheld is noticed ([`Standing`]).
//! - So who reads the directory learns names, versions, sizes and times, and no key. Who writes it can withhold records, and
//!   nothing else.
//!
//! An operator [reads a rendering](rendering), [publishes](publish) what changed in a [`directory`], and gateways
//! [install](mod@install) what they accept.
//!
//! A box comes into a fleet by a [`Request`] in the directory, which an operator recognizes by a [`Code`] or by the token of a
//! [`Bundle`].
//!
//! What an operator's machine changed in a fleet, it writes down in an [audit log](audit).
//!
//! Left out on purpose: where renderings come from, and how a running gateway changes over.
#![forbid(unsafe_code)]

mod accept;
pub mod audit;
mod bundle;
mod cbor;
pub mod directory;
mod enrolment;
mod files;
mod heart;
mod heartbeat;
pub mod install;
mod member;
mod name;
mod operator;
pub mod publish;
mod reached;
mod record;
pub mod rendering;
mod standing;
mod token;

pub use accept::{Accepted, Member, Refusal, Span};
pub use bundle::{BUNDLE_OCTETS, Bundle, BundleRefusal, Enrolled, Machine, Machines};
pub use enrolment::{Code, MalformedRequest, NotACode, REQUEST_OCTETS, Request};
pub use files::{FILES_OCTETS, FileName, Files, FilesError, MOST_FILES};
pub use heart::{Heart, HeartError, Said};
pub use heartbeat::{
    HEARTBEAT_OCTETS, Heartbeat, HeartbeatRefusal, Known, MOST_PARTS, MOST_PEERS, Outcome, Part, PartKind,
    PartLevel, Parts, Peers,
};
pub use member::{NotAnIdentity, PublicIdentity};
pub use name::GatewayName;
pub use operator::{Draft, Operator};
pub use reached::{AcceptError, Acceptor, Reached};
pub use record::{Header, Kind, MalformedRecord, RECORD_OCTETS, Record, Validity};
pub use standing::{BEAT, STALE, Standing, published};
pub use token::{AskPin, BadTokenUri, Token, TokenError, TokenUri};
