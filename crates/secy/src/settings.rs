//! Management variables of a SecY (IEEE 802.1AE-2018 clause 10.7), in the standard's words. They are fixed
//! for its life: a change makes another SecY. The protection of frames belongs to an SA, since each SAK
//! brings its own (clauses 10.7.22 and 10.7.13).

/// Number of first octets of an encrypted frame's secure data that stay in clear (clause 10.7.25).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum ConfidentialityOffset {
    /// None: all is encrypted.
    #[default]
    Zero,
    /// The first 30 octets.
    Thirty,
    /// The first 50 octets.
    Fifty,
}

impl ConfidentialityOffset {
    /// The number of octets.
    pub const fn octets(self) -> usize {
        match self {
            Self::Zero => 0,
            Self::Thirty => 30,
            Self::Fifty => 50,
        }
    }
}

/// Protection of the frames of an SA.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Protection {
    /// An ICV; the data stays readable.
    Integrity,
    /// An ICV, and encryption behind the offset.
    Encrypt(ConfidentialityOffset),
}

impl Protection {
    /// True if some octets of an encrypted frame stay in clear. Frames of such an SA must hold one whole SDU
    /// each: an offset counts per frame, and would send user data of every tail in clear.
    pub const fn has_offset(self) -> bool {
        matches!(self, Self::Encrypt(ConfidentialityOffset::Thirty | ConfidentialityOffset::Fifty))
    }
}

/// SCI in transmitted frames (clause 10.5.3: `alwaysIncludeSCI`, `useES`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SciInclusion {
    /// In every SecTAG: 16 octets.
    Always,
    /// Never, on a point-to-point LAN: 8 octets.
    Never,
    /// Never, and ES says that the SCI is the source address with port identifier 1: 8 octets.
    EndStation,
}

/// Treatment of received frames that cannot be verified (clause 10.7.8).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ValidateFrames {
    /// They are discarded.
    Strict,
    /// They are counted, and delivered if they are not encrypted.
    Check,
    /// No verification; frames that are not encrypted are delivered.
    Disabled,
}

/// Treatment of received frames with VLAN tags in clear in front of the SecTAG. Such tags are not
/// authenticated, so they are never delivered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ClearVlan {
    /// The frame is discarded.
    Refuse,
    /// The tags are removed, for networks whose switches add them.
    Strip,
}

/// Management variables of a SecY, fixed for its life.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Settings {
    /// False: SDUs are sent unchanged (`protectFrames`, clause 10.7.17).
    pub protect_frames: bool,
    /// Whether frames carry the SCI.
    pub sci_inclusion: SciInclusion,
    /// Treatment of frames that cannot be verified.
    pub validate_frames: ValidateFrames,
    /// Whether late and duplicate frames are discarded.
    pub replay_protect: bool,
    /// The rule for VLAN tags in front of the SecTAG.
    pub clear_vlan: ClearVlan,
    /// Most octets behind DA, SA and EtherType in a frame on the protected side.
    pub mtu: usize,
    /// True if received frames may have MF and EXT. Needs [`ValidateFrames::Strict`]; otherwise
    /// [`crate::SecY::new`] clears it. Frames of SAs with a confidentiality offset never have them
    /// ([`Protection::has_offset`]).
    pub reassemble: bool,
}
