//! MKPDUs: what KaYs say to each other, in EAPOL frames (IEEE 802.1X-2020 clauses 11.3 and 11.11).
//!
//! ```text
//!  DA 6 | SA 6 | 88-8E | version 1 | type 5 | body length 2 | body
//!  body:  basic parameter set | parameter set ... | [ICV Indicator] | ICV 16
//! ```
//!
//! An MKPDU is parsed whole, before anything is decided: every length is checked once, by [`Mkpdu::parse`], and what
//! the parameter sets hold is read without another error. Whether the ICV is right is not known here: a parsed MKPDU is
//! a claim, and [`Mkpdu::authenticated`] and [`Mkpdu::icv`] are what its proof is made of. Unknown parameter sets stay
//! in the sequence as they came, and are for nobody.

use crate::id::{An, Ckn, Ki, MacAddr, Mi, Sci};

/// Octets of the ICV.
pub const ICV_OCTETS: usize = 16;

/// A participant that another one has heard: its MI and the last MN heard of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Heard {
    /// Who.
    pub mi: Mi,
    /// Its last Message Number.
    pub mn: u32,
}

/// What a station can do with MACsec (clause 11.11.3, MACsec Capability).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Capability {
    /// No MACsec.
    None,
    /// Integrity without confidentiality.
    Integrity,
    /// And confidentiality with offset 0.
    Confidentiality,
    /// And with offsets 30 and 50.
    Offsets,
}

/// How the frames of a SAK are protected (clause 11.11.3, Confidentiality Offset).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Confidentiality {
    /// Not at all confidential: 0.
    Integrity,
    /// From the first octet on: 1.
    Zero,
    /// From the 31st octet on: 2.
    Thirty,
    /// From the 51st octet on: 3.
    Fifty,
}

/// The basic parameter set: who speaks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Basic {
    /// The MKA version.
    pub version: u8,
    /// The key server priority: the lowest wins; 255 never does.
    pub priority: u8,
    /// Whether the sender is, or believes it should be, key server.
    pub key_server: bool,
    /// Whether the sender wants MACsec.
    pub macsec_desired: bool,
    /// What it can do.
    pub capability: Capability,
    /// Its SCI.
    pub sci: Sci,
    /// Its MI.
    pub mi: Mi,
    /// Its Message Number, from 1 with each MI.
    pub mn: u32,
    /// The algorithm agility: 00-80-C2-01.
    pub agility: [u8; 4],
    /// Under which CAK it speaks.
    pub ckn: Ckn,
}

/// One key in the SAK Use parameter set.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct KeyUse {
    /// Which.
    pub ki: Ki,
    /// Its AN.
    pub an: An,
    /// Whether the sender protects frames with it.
    pub tx: bool,
    /// Whether the sender accepts frames under it.
    pub rx: bool,
    /// The low 32 bits of the lowest PN that may still come of what the sender transmits under it.
    pub lowest_pn: u32,
}

/// The SAK Use parameter set: the latest and the old key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SakUse {
    /// The latest key.
    pub latest: Option<KeyUse>,
    /// The one before.
    pub old: Option<KeyUse>,
    /// The sender is not capable of MACsec, or sends in clear.
    pub plain_tx: bool,
    /// The sender accepts frames in clear.
    pub plain_rx: bool,
    /// Receivers may hold the sender to its lowest PNs.
    pub delay_protect: bool,
}

/// The Distributed SAK parameter set: a wrapped key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DistributedSak<'f> {
    /// The AN.
    pub an: An,
    /// How its frames are protected.
    pub confidentiality: Confidentiality,
    /// The Key Number.
    pub kn: u32,
    /// The cipher suite's identifier; left out for GCM-AES-128.
    pub suite: Option<[u8; 8]>,
    /// The SAK, wrapped under the KEK: 24 or 40 octets.
    pub wrapped: &'f [u8],
}

/// A parameter set behind the basic one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ParameterSet<'f> {
    /// Type 1.
    LivePeers {
        /// The low octet of the key server's SSCI, from MKA version 3 on; 0 before.
        key_server_ssci: u8,
        /// Who is heard, and has shown to hear the sender.
        peers: PeerList<'f>,
    },
    /// Type 2: who is heard.
    PotentialPeers(PeerList<'f>),
    /// Type 3.
    SakUse(SakUse),
    /// Type 4. `None`: an empty one, by which a key server says that MACsec is not to be used.
    DistributedSak(Option<DistributedSak<'f>>),
    /// Type 5: a wrapped CAK, and its CKN.
    DistributedCak {
        /// The CAK, wrapped under the KEK.
        wrapped: &'f [u8],
        /// Its name.
        ckn: &'f [u8],
    },
    /// Type 6: the Key Management Domain.
    Kmd(&'f [u8]),
    /// Type 7: TLVs.
    Announcement(Tlvs<'f>),
    /// Type 8: what XPN adds to the SAK Use.
    Xpn {
        /// MKA suspension time, in seconds.
        suspension: u8,
        /// The high 32 bits of the latest key's lowest PN.
        latest_lowest_pn_high: u32,
        /// The high 32 bits of the old key's lowest PN.
        old_lowest_pn_high: u32,
    },
    /// Any other: kept apart and skipped.
    Unknown {
        /// Its type.
        kind: u8,
        /// The second octet, and the high four bits of the third: they mean something to those who know the type.
        flags: [u8; 2],
        /// Its body.
        body: &'f [u8],
    },
}

/// A list of participants.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PeerList<'f>(&'f [u8]);

/// TLVs of an announcement (clause 11.12): 7 bits of type, 9 of length.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Tlvs<'f>(&'f [u8]);

/// An MKPDU that was parsed whole, and not verified.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Mkpdu<'f> {
    /// To whom the frame went.
    pub destination: MacAddr,
    /// Who sent the frame.
    pub source: MacAddr,
    /// The EAPOL version.
    pub eapol_version: u8,
    /// Who speaks.
    pub basic: Basic,
    /// The parameter sets behind the basic one, checked.
    sets: &'f [u8],
    /// The ICV Indicator parameter set stands before the ICV.
    pub icv_indicated: bool,
    authenticated: &'f [u8],
    icv: &'f [u8; ICV_OCTETS],
}

/// Which rule a frame broke.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MkpduError {
    /// Shorter than its lengths say.
    Truncated,
    // every rule of clause 11.11 that is checked is a variant, with the clause in its documentation
}

impl<'f> Mkpdu<'f> {
    /// Parses a frame from its destination address on; Ethernet's padding behind the body is ignored.
    ///
    /// # Errors
    /// [`MkpduError`].
    pub fn parse(_frame: &'f [u8]) -> Result<Self, MkpduError> {
        todo!()
    }

    /// The parameter sets behind the basic one, in their order; without the ICV Indicator.
    pub fn sets(&self) -> impl Iterator<Item = ParameterSet<'f>> {
        core::iter::empty()
    }

    /// What the ICV is computed over: the frame from its destination address up to the ICV.
    pub const fn authenticated(&self) -> &'f [u8] {
        self.authenticated
    }

    /// The ICV that the frame carries.
    pub const fn icv(&self) -> &'f [u8; ICV_OCTETS] {
        self.icv
    }
}

impl<'f> PeerList<'f> {
    /// The list of these participants, written to `buffer`: 16 octets each. Those that find no room are left out.
    pub fn write(_peers: impl Iterator<Item = Heard>, _buffer: &'f mut [u8]) -> Self {
        todo!()
    }

    /// The participants.
    pub fn iter(&self) -> impl Iterator<Item = Heard> + use<'f> {
        core::iter::empty()
    }
}

/// Writes an MKPDU.
#[derive(Debug)]
pub struct Writer<'b> {
    buffer: &'b mut [u8],
    length: usize,
}

/// The MKPDU does not fit the buffer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TooLong;

impl<'b> Writer<'b> {
    /// Begins an MKPDU in `buffer`.
    ///
    /// # Errors
    /// [`TooLong`].
    pub fn new(
        _buffer: &'b mut [u8],
        _destination: MacAddr,
        _source: MacAddr,
        _eapol_version: u8,
        _basic: &Basic,
    ) -> Result<Self, TooLong> {
        todo!()
    }

    /// Adds a parameter set.
    ///
    /// # Errors
    /// [`TooLong`]; what was written before stands.
    pub fn push(&mut self, _set: &ParameterSet<'_>) -> Result<(), TooLong> {
        todo!()
    }

    /// Ends it with the ICV that `icv` makes of the octets before it, and returns the frame.
    ///
    /// # Errors
    /// [`TooLong`].
    pub fn finish(
        self,
        _indicate: bool,
        _icv: impl FnOnce(&[u8]) -> [u8; ICV_OCTETS],
    ) -> Result<&'b [u8], TooLong> {
        todo!()
    }
}
