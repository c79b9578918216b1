//! Configuration of a KaY.

use alloc::vec::Vec;
use core::time::Duration;

use serde::{Deserialize, Serialize};
use suite::CipherSuite;
use suite::mka::Cak;
use wire::mkpdu::{Capability, Confidentiality, SystemName};
use wire::{Ckn, MacAddr, Sci};

/// Priority of stations that never become key server.
pub(crate) const NEVER_KEY_SERVER: u8 = 255;

/// A CAK and its name.
#[derive(Clone)]
pub struct CakEntry {
    /// Its name.
    pub ckn: Ckn,
    /// The key.
    pub cak: Cak,
}

/// Rule for the suite that a key server distributes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum SuiteRule {
    /// This standard suite if all announced it, else GCM-AES-128. SAKs of the other standard suites are
    /// accepted.
    Standard(CipherSuite),
    /// ChaCha20-Poly1305, if all members announced that programs in their kernels take it. Else the suite that
    /// is fastest for the slowest member with announced timings, including ours. GCM-AES-128 with anybody else.
    Any,
    /// This one; SAKs of other suites are rejected.
    Only(CipherSuite),
}

/// Treatment of the SAK when all peers are gone.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub enum OnPeerLoss {
    /// Retire it: nothing passes until there is another.
    #[default]
    Block,
    /// Keep it in use.
    Hold,
}

/// Measured time of a suite on this box.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct SuiteTiming {
    /// The suite.
    pub suite: CipherSuite,
    /// Nanoseconds for a frame of 512 octets. `u16::MAX` stands for that and above.
    pub nanoseconds: u16,
}

/// Capabilities of this station beyond the standard (the project's wire formats, section 6).
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Announced {
    /// Reassembles fragmented SDUs.
    pub reassembles: bool,
    /// Splits frames that hold several SDUs.
    pub splits: bool,
    /// Its network carries its machine's longest SDU in one frame: it needs no fragments.
    pub carries_whole: bool,
    /// Programs in its kernel take SAs of ChaCha20-Poly1305 under which nothing is fragmented. Then neither
    /// [`Self::reassembles`] nor [`Self::splits`] nor [`Self::takes_padded`] is announced, unless a live peer needs fragments; with
    /// [`SuiteRule::Any`], unless a live peer has no such programs.
    pub in_kernel: bool,
    /// Receives express SCs, and wants to send on one of its own.
    pub express: bool,
    /// Takes padded frames, and SDUs that span them.
    pub takes_padded: bool,
    /// Octets of the longest SDU that it accepts, from its EtherType on.
    pub largest_sdu: u16,
    /// Name that this station announces; `None`: it announces none. MKPDUs are not encrypted.
    pub name: Option<SystemName>,
    /// Usable suites, with timings where known.
    pub suites: Vec<SuiteTiming>,
}

/// Settings of a KaY; may change while it runs.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Settings {
    /// The SCI of the SecY's transmit SC.
    pub sci: Sci,
    /// The source address of MKPDUs.
    pub source: MacAddr,
    /// Destination address of MKPDUs.
    pub destination: MacAddr,
    /// The key server priority.
    pub priority: u8,
    /// MACsec capability of this station.
    pub capability: Capability,
    /// Confidentiality of a SAK that this station distributes.
    pub confidentiality: Confidentiality,
    /// Rule for the suite.
    pub suite: SuiteRule,
    /// Announced capabilities.
    pub announced: Announced,
    /// Frames may be fragmented towards peers that all announced it.
    pub fragment: bool,
    /// Frames may share a frame towards peers that all announced it.
    pub concatenate: bool,
    /// Frames are padded towards peers that all announced it.
    pub pad: bool,
    /// Peers are held to their announced lowest PNs. MKPDUs are sent every half second.
    pub delay_protect: bool,
    /// Maximum age of a SAK if this station is key server.
    pub sak_lifetime: Option<Duration>,
    /// Treatment of the SAK without peers.
    pub on_peer_loss: OnPeerLoss,
    /// SCIs of all other stations of the link. If empty: the stations that were live under the preferred CAK.
    pub peers: Vec<Sci>,
    /// Accepts a SAK with less confidentiality than [`Self::confidentiality`].
    pub accept_integrity: bool,
}
