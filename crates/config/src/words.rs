//! Words of the configuration: for each enum one list, which parsing, errors, the reference, `check` and `status` share.

use dataplane::cell::OtherFrames;
use dataplane::site::Copies;
use fieldbus::Mode as RelationMode;
use mka::{OnPeerLoss, SuiteRule};
use secy::{ClearVlan, SciInclusion, ValidateFrames};
use suite::CipherSuite;
use tunnel::Mode as SiteMode;
use wire::fieldbus::{CellSuite, Protect, Protocol};

use super::{Antedate, Io, LinkLoss, LogFormat, Polling, Realtime};

/// A value that the configuration writes as a word.
pub trait Named: Copy + 'static {
    /// All values, in the order of the reference.
    const ALL: &'static [Self];

    /// Its word.
    fn name(self) -> &'static str;

    /// The value with this word.
    fn named(word: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|value| value.name() == word)
    }
}

/// The words of an enum, in their order.
pub(crate) fn words<T: Named>() -> Vec<&'static str> {
    T::ALL.iter().map(|value| value.name()).collect()
}

/// Gives each variant its word.
macro_rules! named {
    ($type:ty { $($variant:ident = $word:literal),* $(,)? }) => {
        impl $crate::words::Named for $type {
            const ALL: &'static [Self] = &[$(Self::$variant),*];

            fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $word,)*
                }
            }
        }
    };
}

/// Words of `fragment` and `concatenate`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Division {
    Auto,
    On,
    Off,
}

/// Words of `replay_floor`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReplayFloor {
    On,
    Off,
}

/// Words of `classical`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Classical {
    Refuse,
    Allow,
}

/// Rule of a link with key agreement that names no suite: one of the standard's, by the length of the CAK.
pub(crate) const UNNAMED: SuiteRule = SuiteRule::Standard(CipherSuite::GcmAes128);
/// Words of `suite` in place of a suite's name, with key agreement.
pub(crate) const AGREED: [(&str, SuiteRule); 2] = [("auto", UNNAMED), ("any", SuiteRule::Any)];

named!(Io { Auto = "auto", Kernel = "kernel", AfXdp = "af_xdp", AfPacket = "af_packet" });
named!(Polling { Adaptive = "adaptive", Busy = "busy", Interrupt = "interrupt" });
named!(Realtime { Auto = "auto", On = "on", Off = "off" });
named!(Antedate { Auto = "auto", On = "on", Off = "off" });
named!(LogFormat { Text = "text", Json = "json" });
named!(SciInclusion { Always = "always", Never = "never", EndStation = "end-station" });
named!(ValidateFrames { Strict = "strict", Check = "check", Disabled = "disabled" });
named!(ClearVlan { Refuse = "refuse", Strip = "strip" });
named!(LinkLoss { Off = "off", Forward = "forward", Both = "both" });
named!(OnPeerLoss { Block = "block", Hold = "hold" });
named!(OtherFrames { Link = "link", Drop = "drop" });
named!(Protect { Encrypt = "encrypt", Authenticate = "authenticate" });
named!(RelationMode { Protect = "protect", Shadow = "shadow" });
named!(Division { Auto = "auto", On = "on", Off = "off" });
named!(ReplayFloor { On = "on", Off = "off" });
named!(Copies { All = "all", Express = "express", None = "none" });
named!(Classical { Refuse = "refuse", Allow = "allow" });

impl Named for CellSuite {
    const ALL: &'static [Self] = &Self::ALL;

    fn name(self) -> &'static str {
        Self::name(self)
    }
}

impl Named for Protocol {
    const ALL: &'static [Self] = &Self::ALL;

    fn name(self) -> &'static str {
        Self::name(self)
    }
}

impl Named for SiteMode {
    /// The VNI of a plain peer is a key of its own.
    const ALL: &'static [Self] = &[Self::Identifier, Self::HeaderEncryption, Self::Plain { vni: 0 }];

    fn name(self) -> &'static str {
        match self {
            Self::Identifier => "identifier",
            Self::HeaderEncryption => "header-encryption",
            Self::Plain { .. } => "plain",
        }
    }
}
