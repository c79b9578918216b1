//! What a KaY is configured with.

use alloc::vec::Vec;
use core::time::Duration;

use suite::CipherSuite;
use suite::mka::Cak;
use wire::mkpdu::{Capability, Confidentiality};
use wire::{Ckn, MacAddr, Sci};

/// A CAK and its name.
pub struct CakEntry {
    /// Its name.
    pub ckn: Ckn,
    /// The key.
    pub cak: Cak,
}

/// Which suite a key server distributes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SuiteRule {
    /// This one of the standard's, if all announced it, else GCM-AES-128. SAKs of the standard's other suites are taken.
    Standard(CipherSuite),
    /// The one that is fastest for the slowest of those who announced their figures, be it none of the standard's;
    /// GCM-AES-128 with anybody else.
    Any,
    /// This one; a SAK of another suite is refused.
    Only(CipherSuite),
}

/// What becomes of the SAK when all peers have vanished.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum OnPeerLoss {
    /// It is retired: nothing passes until there is another.
    #[default]
    Block,
    /// It goes on being used.
    Hold,
}

/// How fast a suite is on this box.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SuiteTiming {
    /// The suite.
    pub suite: CipherSuite,
    /// Nanoseconds for a frame of 512 octets; `u16::MAX` and above are said as that.
    pub nanoseconds: u16,
}

/// What this station can receive beyond the standard (the project's wire formats, section 6).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Announced {
    /// It puts SDUs together again.
    pub reassembles: bool,
    /// It separates SDUs that share a frame.
    pub splits: bool,
    /// Octets of the longest SDU that it takes, from its EtherType on.
    pub largest_sdu: u16,
    /// The suites that it can use, with figures where they are known.
    pub suites: Vec<SuiteTiming>,
}

/// How a KaY behaves; may be changed while it runs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Settings {
    /// The SCI of the SecY's transmit SC.
    pub sci: Sci,
    /// The source address of MKPDUs.
    pub source: MacAddr,
    /// Where MKPDUs go.
    pub destination: MacAddr,
    /// The key server priority.
    pub priority: u8,
    /// What this station can do.
    pub capability: Capability,
    /// How a SAK that this station distributes protects.
    pub confidentiality: Confidentiality,
    /// Which suite.
    pub suite: SuiteRule,
    /// What this station receives.
    pub announced: Announced,
    /// Frames may be divided towards peers that all announced it.
    pub fragment: bool,
    /// Frames may share a frame towards peers that all announced it.
    pub concatenate: bool,
    /// Peers are held to the lowest PNs that they announce; MKPDUs every half second.
    pub delay_protect: bool,
    /// A SAK is followed by another after this time, if this station is key server.
    pub sak_lifetime: Option<Duration>,
    /// What becomes of the SAK without peers.
    pub on_peer_loss: OnPeerLoss,
    /// The SCIs of all others of the link. Empty: who was live under the preferred CAK.
    pub peers: Vec<Sci>,
    /// A SAK is taken that hides less than [`Self::confidentiality`].
    pub accept_integrity: bool,
}
