//! The management variables of a SecY (IEEE 802.1AE-2018 clause 10.7), in the standard's words. They are fixed for its
//! life: a change is another SecY. How frames are protected belongs to an SA, since each SAK brings its own (clauses
//! 10.7.22 and 10.7.13).

/// How many of the first octets of an encrypted frame's secure data stay in clear (clause 10.7.25).
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

/// What the frames of an SA are given.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Protection {
    /// An ICV; the data stays readable.
    Integrity,
    /// An ICV, and encryption behind the offset.
    Encrypt(ConfidentialityOffset),
}

impl Protection {
    /// Whether some octets of an encrypted frame stay in clear. Frames of such an SA must hold one whole SDU each: an
    /// offset counts per frame, and would send user data of every tail in clear.
    pub const fn has_offset(self) -> bool {
        matches!(self, Self::Encrypt(ConfidentialityOffset::Thirty | ConfidentialityOffset::Fifty))
    }
}

/// Whether transmitted frames carry their SCI (clause 10.5.3: `alwaysIncludeSCI`, `useES`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SciInclusion {
    /// In every SecTAG: 16 octets.
    Always,
    /// Never, on a point-to-point LAN: 8 octets.
    Never,
    /// Never, and ES says that the SCI is the source address with port identifier 1: 8 octets.
    EndStation,
}

/// What becomes of received frames that cannot be verified (clause 10.7.8).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ValidateFrames {
    /// They are discarded.
    Strict,
    /// They are counted, and delivered if they are not encrypted.
    Check,
    /// Nothing is verified; what is not encrypted is delivered.
    Disabled,
}

/// What becomes of received frames with VLAN tags in clear in front of the SecTAG. Such tags are not
/// authenticated, so they are never put back into what is delivered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ClearVlan {
    /// The frame is discarded.
    Refuse,
    /// The tags are thrown away, for networks whose switches add them.
    Strip,
}

/// The management variables of a SecY, fixed for its life.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Settings {
    /// False: SDUs are sent as they are (`protectFrames`, clause 10.7.17).
    pub protect_frames: bool,
    /// Whether frames carry the SCI.
    pub sci_inclusion: SciInclusion,
    /// What becomes of frames that cannot be verified.
    pub validate_frames: ValidateFrames,
    /// Whether late and duplicate frames are discarded.
    pub replay_protect: bool,
    /// The rule for VLAN tags in front of the SecTAG.
    pub clear_vlan: ClearVlan,
    /// The most octets behind DA, SA and EtherType that a frame on the protected side may have.
    pub mtu: usize,
    /// Whether MF and EXT are understood in received frames. Only with [`ValidateFrames::Strict`]; [`crate::SecY::new`]
    /// takes it for false otherwise. And only in frames of SAs without confidentiality offset
    /// ([`Protection::has_offset`]).
    pub reassemble: bool,
}
