//! Parameter sets behind the basic one (IEEE 802.1X-2020 clause 11.11.3, figures 11-9 to 11-16).
//!
//! ```text
//!  1  Live Peer List        octet 2: key server's SSCI (MKA version 3)         (MI 12 | MN 4) ...
//!  2  Potential Peer List                                                      (MI 12 | MN 4) ...
//!  3  SAK Use               octet 2: latest AN 2, tx 1, rx 1, old AN 2, tx 1, rx 1
//!                           octet 3: plain tx 1, plain rx 1, - 1, delay protect 1
//!                                      nothing, or for latest and old key: MI 12 | KN 4 | lowest PN 4
//!  4  Distributed SAK       octet 2: AN 2, confidentiality offset 2
//!                                      nothing, or KN 4 | [suite 8] | wrapped SAK
//!  5  Distributed CAK                                                          wrapped CAK 24 or 40 | CKN
//!  6  KMD                                                                      text
//!  7  Announcement                                                             TLVs
//!  8  XPN                   octet 2: suspension time           high half of the latest and old lowest PN, 4 each
//! ```
//!
//! A KI of zeros stands for "no key"; KN 0 identifies it. Its lowest PN is written as 1, as wpa_supplicant
//! does: wpa_supplicant drops MKPDUs with delay protection and a lowest PN of 0, even where there is no key.

use super::announcement::Tlvs;
use super::{Confidentiality, DistributedSak, Fields, KeyUse, MkpduError, PeerEntry, SakUse};
use super::{ICV_INDICATOR, ICV_OCTETS, SET_HEADER_OCTETS, padded};
use crate::id::{An, Ckn, Ki, Mi};

/// Octets of a participant in a list.
pub(super) const PEER_OCTETS: usize = 16;
/// Octets of a SAK Use with keys.
pub(super) const SAK_USE_OCTETS: usize = 40;
/// Octets of a Distributed SAK of GCM-AES-128, which omits the suite.
const DISTRIBUTED_SAK_DEFAULT_OCTETS: usize = 28;
/// Minimum octets of a Distributed SAK that names its suite.
const DISTRIBUTED_SAK_LEAST_OCTETS: usize = 36;
/// Octets of a wrapped CAK of 16 octets, and of one of 32.
const WRAPPED_CAK_OCTETS: [usize; 2] = [24, 40];
/// Maximum octets of a Key Management Domain.
const KMD_OCTETS: usize = 253;

/// A parameter set behind the basic one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ParameterSet<'f> {
    /// Type 1.
    LivePeers {
        /// Low octet of the key server's SSCI, from MKA version 3 on; 0 before.
        key_server_ssci: u8,
        /// Participants that are heard, and have proved that they hear the sender.
        peers: PeerList<'f>,
    },
    /// Type 2: participants that are heard.
    PotentialPeers(PeerList<'f>),
    /// Type 3.
    SakUse(SakUse),
    /// Type 4. `None` for an empty one: the key server says that MACsec is not to be used.
    DistributedSak(Option<DistributedSak<'f>>),
    /// Type 5: a wrapped CAK, and its CKN.
    DistributedCak {
        /// The CAK, wrapped under the KEK: 24 or 40 octets.
        wrapped: &'f [u8],
        /// Its name.
        ckn: &'f [u8],
    },
    /// Type 6: the Key Management Domain.
    Kmd(&'f [u8]),
    /// Type 7: TLVs.
    Announcement(Tlvs<'f>),
    /// Type 8: the XPN addition to SAK Use.
    Xpn {
        /// MKA suspension time, in seconds.
        suspension: u8,
        /// The high 32 bits of the latest key's lowest PN.
        latest_lowest_pn_high: u32,
        /// The high 32 bits of the old key's lowest PN.
        old_lowest_pn_high: u32,
    },
    /// Any other type: kept apart and skipped.
    Unknown {
        /// Its type.
        kind: u8,
        /// The second octet, and the high four bits of the third, whose meaning depends on the type.
        flags: [u8; 2],
        /// Its body.
        body: &'f [u8],
    },
}

/// A list of participants.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PeerList<'f>(pub(super) &'f [u8]);

impl<'f> PeerList<'f> {
    /// Encodes these participants into `buffer`, 16 octets each. Omits those that find no room.
    pub fn write(peers: impl Iterator<Item = PeerEntry>, buffer: &'f mut [u8]) -> Self {
        let mut octets = 0;
        for (room, peer) in buffer.as_chunks_mut::<PEER_OCTETS>().0.iter_mut().zip(peers) {
            let (mi, mn) = room.split_at_mut(peer.mi.0.len());
            mi.copy_from_slice(&peer.mi.0);
            mn.copy_from_slice(&peer.mn.to_be_bytes());
            octets += PEER_OCTETS;
        }
        Self(&buffer[..octets])
    }

    /// The participants, in their order.
    pub fn iter(&self) -> impl Iterator<Item = PeerEntry> + use<'f> {
        self.0.as_chunks::<PEER_OCTETS>().0.iter().map(|octets| {
            let [mi @ .., a, b, c, d] = *octets;
            PeerEntry { mi: Mi(mi), mn: u32::from_be_bytes([a, b, c, d]) }
        })
    }

    /// Number of participants.
    pub const fn len(&self) -> usize {
        self.0.len() / PEER_OCTETS
    }

    /// True if there is none.
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// A parameter set in its encoded form.
#[derive(Clone, Copy)]
pub(super) struct RawSet<'f> {
    kind: u8,
    /// The second octet, and the high four bits of the third.
    flags: [u8; 2],
    pub(super) body: &'f [u8],
}

/// Checks the sets of an MKPDU, which end where its ICV begins. Returns them without the ICV Indicator, and
/// whether there is one.
pub(super) fn check(octets: &[u8]) -> Result<(&[u8], bool), MkpduError> {
    let mut rest = octets;
    let mut seen = [false; 9];
    while let Some(&kind) = rest.first() {
        if kind == ICV_INDICATOR {
            // Its body is the ICV, so the set ends behind the octets that are examined here.
            let last = rest.len() == SET_HEADER_OCTETS && length(rest) == Some(ICV_OCTETS);
            let sets = &octets[..octets.len() - rest.len()];
            return if last { Ok((sets, true)) } else { Err(MkpduError::IcvIndicator) };
        }
        let (set, behind) = RawSet::split(rest).ok_or(MkpduError::SetTooLong(kind))?;
        if let Some(seen) = seen.get_mut(usize::from(kind)).filter(|_| kind != 0)
            && core::mem::replace(seen, true)
        {
            return Err(MkpduError::Repeated(kind));
        }
        set.decode()?;
        rest = behind;
    }
    Ok((octets, false))
}

/// Body length that the set at the start of `octets` claims.
fn length(octets: &[u8]) -> Option<usize> {
    let [_, _, high, low] = *octets.first_chunk()?;
    Some(usize::from(u16::from_be_bytes([high & 0x0f, low])))
}

impl<'f> RawSet<'f> {
    /// The set at the start of `octets`, and the octets behind its padding.
    pub(super) fn split(octets: &'f [u8]) -> Option<(Self, &'f [u8])> {
        let length = length(octets)?;
        let [kind, second, third, _] = *octets.first_chunk()?;
        let (set, behind) = octets.split_at_checked(SET_HEADER_OCTETS + padded(length))?;
        let body = &set[SET_HEADER_OCTETS..SET_HEADER_OCTETS + length];
        Some((Self { kind, flags: [second, third & 0xf0], body }, behind))
    }

    /// Decodes the set.
    pub(super) fn decode(self) -> Result<ParameterSet<'f>, MkpduError> {
        let Self { kind, flags, body } = self;
        Ok(match kind {
            1 | 2 if !body.len().is_multiple_of(PEER_OCTETS) => return Err(MkpduError::PeerList),
            1 => ParameterSet::LivePeers { key_server_ssci: flags[0], peers: PeerList(body) },
            2 => ParameterSet::PotentialPeers(PeerList(body)),
            3 => ParameterSet::SakUse(SakUse::decode(flags, body).ok_or(MkpduError::SakUse)?),
            4 => {
                let distributed = DistributedSak::decode(flags, body).ok_or(MkpduError::DistributedSak)?;
                ParameterSet::DistributedSak(distributed)
            }
            5 => {
                let (wrapped, ckn) = split_cak(body).ok_or(MkpduError::DistributedCak)?;
                ParameterSet::DistributedCak { wrapped, ckn }
            }
            6 if body.len() > KMD_OCTETS => return Err(MkpduError::Kmd),
            6 => ParameterSet::Kmd(body),
            7 => ParameterSet::Announcement(Tlvs(body)),
            8 => {
                let mut fields = Fields(body);
                let (Some(latest), Some(old)) = (fields.take(), fields.take()) else {
                    return Err(MkpduError::Xpn);
                };
                ParameterSet::Xpn {
                    suspension: flags[0],
                    latest_lowest_pn_high: u32::from_be_bytes(latest),
                    old_lowest_pn_high: u32::from_be_bytes(old),
                }
            }
            _ => ParameterSet::Unknown { kind, flags, body },
        })
    }
}

/// Splits a body into wrapped CAK and CKN; the set gives the length of neither. A CKN has at most 32 octets: a body of
/// up to 56 octets can hold a wrapped CAK of 24, and one of more than 56 holds one of 40. An ambiguous body is taken
/// for the first, which the figure shows.
fn split_cak(body: &[u8]) -> Option<(&[u8], &[u8])> {
    let split = |wrapped| body.split_at_checked(wrapped).filter(|(_, ckn)| Ckn::new(ckn).is_some());
    WRAPPED_CAK_OCTETS.into_iter().find_map(split)
}

impl SakUse {
    fn decode([keys, plain]: [u8; 2], body: &[u8]) -> Option<Self> {
        let (latest, old) = match body.len() {
            0 => (None, None),
            1..SAK_USE_OCTETS => return None,
            _ => {
                let mut fields = Fields(body);
                (KeyUse::decode(keys >> 4, &mut fields)?, KeyUse::decode(keys, &mut fields)?)
            }
        };
        Some(Self {
            latest,
            old,
            plain_tx: plain & 0x80 != 0,
            plain_rx: plain & 0x40 != 0,
            delay_protect: plain & 0x10 != 0,
        })
    }

    /// The second octet, and the high four bits of the third.
    pub(super) fn flags(&self) -> [u8; 2] {
        let key = |key: &Option<KeyUse>| {
            key.map_or(0, |key| key.an.number() << 2 | u8::from(key.tx) << 1 | u8::from(key.rx))
        };
        let plain =
            u8::from(self.plain_tx) << 7 | u8::from(self.plain_rx) << 6 | u8::from(self.delay_protect) << 4;
        [key(&self.latest) << 4 | key(&self.old), plain]
    }
}

impl KeyUse {
    /// A key whose AN and bits are the four low ones of `bits`. `None` if the octets end; `Some(None)` if
    /// there is no key.
    fn decode(bits: u8, fields: &mut Fields<'_>) -> Option<Option<Self>> {
        let server = Mi(fields.take()?);
        let kn = u32::from_be_bytes(fields.take()?);
        let lowest_pn = u32::from_be_bytes(fields.take()?);
        let (tx, rx) = (bits & 0x02 != 0, bits & 0x01 != 0);
        let key = Self { ki: Ki { server, kn }, an: An::from_tci(bits >> 2), tx, rx, lowest_pn };
        Some((kn != 0).then_some(key))
    }
}

impl<'f> DistributedSak<'f> {
    fn decode([bits, _]: [u8; 2], body: &'f [u8]) -> Option<Option<Self>> {
        let mut fields = Fields(body);
        let suite_is_named = match body.len() {
            0 => return Some(None),
            DISTRIBUTED_SAK_DEFAULT_OCTETS => false,
            DISTRIBUTED_SAK_LEAST_OCTETS.. => true,
            _ => return None,
        };
        let kn = u32::from_be_bytes(fields.take()?);
        let suite = if suite_is_named { Some(fields.take()?) } else { None };
        Some(Some(Self {
            an: An::from_tci(bits >> 6),
            confidentiality: Confidentiality::from_bits(bits >> 4),
            kn,
            suite,
            wrapped: fields.0,
        }))
    }
}
