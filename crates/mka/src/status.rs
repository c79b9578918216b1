//! What a KaY tells of itself. Nothing here is secret.

use alloc::vec::Vec;

use suite::CipherSuite;
use wire::mkpdu::Confidentiality;
use wire::{An, Ckn, Instant, Ki, Mi, Sci};

use crate::event::{Division, Reason};

/// A member of the group, as this KaY sees it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MemberStatus {
    /// Its SCI.
    pub sci: Sci,
    /// Its MI.
    pub mi: Mi,
    /// Its key server priority.
    pub priority: u8,
    /// It has shown to hear this KaY.
    pub live: bool,
    /// When it was heard last.
    pub heard: Instant,
    /// It announced what only Frameward has.
    pub announced: bool,
}

/// A SAK in use.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SakStatus {
    /// Its name.
    pub ki: Ki,
    /// Its AN.
    pub an: An,
    /// The suite.
    pub suite: CipherSuite,
    /// How frames are protected.
    pub confidentiality: Confidentiality,
    /// How SDUs may be divided.
    pub division: Division,
    /// When it was installed.
    pub since: Instant,
    /// It protects what is sent.
    pub transmits: bool,
}

/// The state of a KaY.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Status {
    /// The name of the CAK in whose group the keys are agreed on.
    pub ckn: Ckn,
    /// The own MI there.
    pub mi: Mi,
    /// This KaY is key server.
    pub is_key_server: bool,
    /// The SCI of the key server, if one is elected.
    pub key_server: Option<Sci>,
    /// The others.
    pub members: Vec<MemberStatus>,
    /// The latest SAK, and the one before as long as it is accepted.
    pub saks: Vec<SakStatus>,
    /// When the SAK is followed by another, as far as it is known.
    pub next_rekey: Option<Instant>,
    /// The last changes with their times, newest last; a few dozen.
    pub changes: Vec<(Instant, Reason)>,
    /// What stands in the way of a secured link, in words; `None` if it is secured.
    pub trouble: Option<&'static str>,
}

wire::counters! {
    /// What a KaY counts.
    KayCounters {
        /// MKPDUs sent.
        mkpdus_tx = "MkpdusTx",
        /// MKPDUs received and verified.
        mkpdus_rx = "MkpdusRx",
    }
}
