//! The doctor's frames: what two doctors say to each other on the protected side. All numbers are big-endian.
//!
//! ```text
//!  DA 6 | SA 6 | [VLAN tag 4] | envelope | message
//!
//!  envelope  88B5                 local experimental EtherType (IEEE 802): nearly all frames
//!            888E | 03 05 octets  EAPOL of type MKA, to see whether EAPOL crosses
//!            88E5 | 80 00         MACsec of a version that no SecY takes, to see whether MACsec crosses
//!
//!  message   0  signature  8   "FwDoctor"
//!            8  version    1   1
//!            9  kind       1   1 status, 2 probe, 3 echo
//!           10  octets     2   of the message, from the signature to the MAC; what follows is the wire's padding
//!           12  sender     8   SCI
//!           20  session    8   drawn by the sender at its start
//!           28  receiver   8   session of the receiver, 0 as long as it is not known
//!           36  number     4
//!           40  body           status: see [`Status`]; probe: purpose 2; echo: purpose 2, tag 1
//!            …  padding        zeros
//!         -20  check      4   first octets of SHA-256 over DA, SA and the message up to here
//!         -16  MAC       16   HMAC-SHA-256, cut, over the same and the check; see [`super::keys`]
//! ```
//!
//! The check is no secret: it tells a frame that was damaged on its way from one that was made with another key. Both
//! leave the envelope and VLAN tags out, since these are what a network may change.
//!
//! Parsing looks at octets from the network: it is bounded by the frame, allocates nothing, and believes nothing
//! before [`Received::fits`].

mod body;

use sha2::{Digest as _, Sha256};
use wire::ethernet::{ADDRESSES_OCTETS, ETHERTYPE_OCTETS, Header, VLAN_TAG_OCTETS};
use wire::{EtherType, MacAddr, Sci};

use super::keys::{MAC_OCTETS, MacKey};
use body::take;
pub use body::{Body, Purpose, ReceiveRecord, Stage, Status, Tag};

const SIGNATURE: &[u8; 8] = b"FwDoctor";
const VERSION: u8 = 1;
const HEAD_OCTETS: usize = 40;
const CHECK_OCTETS: usize = 4;
const FOOT_OCTETS: usize = CHECK_OCTETS + MAC_OCTETS;
/// The shortest message that holds any body: below it a size cannot be asked for.
pub const LEAST_OCTETS: usize = HEAD_OCTETS + body::LONGEST + FOOT_OCTETS;

/// The local experimental EtherType.
pub const EXPERIMENT: EtherType = EtherType(0x88b5);

/// Envelope of a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Envelope {
    /// EtherType 0x88B5.
    Experiment,
    /// EtherType 0x888E.
    Eapol,
    /// EtherType 0x88E5.
    Macsec,
}

impl Envelope {
    const fn ethertype(self) -> EtherType {
        match self {
            Self::Experiment => EXPERIMENT,
            Self::Eapol => EtherType::EAPOL,
            Self::Macsec => EtherType::MACSEC,
        }
    }

    /// Octets between EtherType and message.
    const fn octets(self) -> usize {
        match self {
            Self::Experiment => 0,
            Self::Eapol => 4,
            Self::Macsec => 2,
        }
    }
}

/// A message with its addresses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Frame {
    /// DA.
    pub to: MacAddr,
    /// SA.
    pub from: MacAddr,
    /// Its envelope.
    pub envelope: Envelope,
    /// Its sender.
    pub sender: Sci,
    /// The sender's session.
    pub session: u64,
    /// The receiver's, or 0.
    pub receiver: u64,
    /// Counts probes of one purpose; an echo repeats it.
    pub number: u32,
    /// Its content.
    pub body: Body,
}

/// Why a frame is no message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reject {
    /// Not the doctor's.
    Foreign,
    /// The doctor's, but not as it was sent.
    Damaged,
    /// The doctor's, of another release.
    Version,
}

/// A message whose check is right. Whether it comes from who it says is not yet known.
#[derive(Clone, Copy, Debug)]
pub struct Received<'f> {
    /// Its content.
    pub frame: Frame,
    /// The tag that it came with.
    pub tag: Tag,
    addresses: &'f [u8],
    message: &'f [u8],
}

impl Received<'_> {
    /// Whether it was made with this key.
    pub fn fits(&self, key: &MacKey) -> bool {
        let (signed, mac) = self.message.split_at(self.message.len() - MAC_OCTETS);
        key.verify(&[self.addresses, signed], mac)
    }

    /// Octets of the message, as it was asked for in [`Frame::encode`].
    pub fn octets(&self) -> usize {
        self.message.len() + self.frame.envelope.octets()
    }
}

impl Frame {
    /// The frame with so many octets behind DA, SA and EtherType (more if the body needs more), and if wanted with a
    /// VLAN tag.
    pub fn encode(&self, octets: usize, tci: Option<u16>, key: &MacKey) -> Vec<u8> {
        let message =
            octets.saturating_sub(self.envelope.octets()).clamp(LEAST_OCTETS, usize::from(u16::MAX));
        let mut out = Vec::with_capacity(ADDRESSES_OCTETS + VLAN_TAG_OCTETS + 6 + message);
        out.extend([self.to.0, self.from.0].concat());
        if let Some(tci) = tci {
            out.extend(EtherType::VLAN.0.to_be_bytes());
            out.extend(tci.to_be_bytes());
        }
        out.extend(self.envelope.ethertype().0.to_be_bytes());
        match self.envelope {
            Envelope::Experiment => {}
            Envelope::Eapol => out.extend([&[3, 5][..], &(message as u16).to_be_bytes()].concat()),
            Envelope::Macsec => out.extend([0x80, 0]),
        }
        let start = out.len();
        let (kind, body) = self.body.encode();
        out.extend(SIGNATURE);
        out.extend([VERSION, kind]);
        out.extend((message as u16).to_be_bytes());
        out.extend(self.sender.octets());
        out.extend(self.session.to_be_bytes());
        out.extend(self.receiver.to_be_bytes());
        out.extend(self.number.to_be_bytes());
        out.extend(body);
        out.resize(start + message - FOOT_OCTETS, 0);
        let check = check(&out[..ADDRESSES_OCTETS], &out[start..]);
        out.extend(check);
        let mac = key.mac(&[&out[..ADDRESSES_OCTETS], &out[start..]]);
        out.extend(mac);
        out
    }

    /// Reads a frame from the network.
    ///
    /// # Errors
    /// [`Reject`] if it is no whole message of a doctor.
    pub fn parse(octets: &[u8]) -> Result<Received<'_>, Reject> {
        let header = Header::parse(octets).map_err(|_| Reject::Foreign)?;
        let envelope = match header.ethertype {
            EXPERIMENT => Envelope::Experiment,
            EtherType::EAPOL => Envelope::Eapol,
            EtherType::MACSEC => Envelope::Macsec,
            _ => return Err(Reject::Foreign),
        };
        let behind = octets.get(header.octets() + envelope.octets()..).ok_or(Reject::Foreign)?;
        if !behind.starts_with(SIGNATURE) {
            return Err(Reject::Foreign);
        }
        let length = behind.get(10..12).and_then(number).ok_or(Reject::Damaged)?;
        let message = behind.get(..length as usize).ok_or(Reject::Damaged)?;
        let foot = message.len().checked_sub(FOOT_OCTETS).filter(|foot| *foot >= HEAD_OCTETS);
        let (signed, foot) = message.split_at(foot.ok_or(Reject::Damaged)?);
        let addresses = octets.get(..ADDRESSES_OCTETS).ok_or(Reject::Foreign)?;
        if foot.get(..CHECK_OCTETS) != Some(&check(addresses, signed)) {
            return Err(Reject::Damaged);
        }
        if signed.get(8) != Some(&VERSION) {
            return Err(Reject::Version);
        }
        let tag =
            match octets.get(ADDRESSES_OCTETS + ETHERTYPE_OCTETS..).and_then(|tci| number(tci.get(..2)?)) {
                _ if header.vlan_tags == 0 => Tag::None,
                Some(tci) if header.vlan_tags == 1 && tci & 0x0fff == 0 => Tag::Priority,
                _ => Tag::Vlan,
            };
        let frame = Self::of(&header, envelope, signed).ok_or(Reject::Version)?;
        Ok(Received { frame, tag, addresses, message })
    }

    fn of(header: &Header, envelope: Envelope, signed: &[u8]) -> Option<Self> {
        let mut rest = signed.get(12..)?;
        let sender = Sci::from_octets(take(&mut rest)?);
        let session = u64::from_be_bytes(take(&mut rest)?);
        let receiver = u64::from_be_bytes(take(&mut rest)?);
        let number = u32::from_be_bytes(take(&mut rest)?);
        let body = Body::parse(*signed.get(9)?, rest)?;
        let (to, from) = (header.destination, header.source);
        Some(Self { to, from, envelope, sender, session, receiver, number, body })
    }
}

fn check(addresses: &[u8], signed: &[u8]) -> [u8; CHECK_OCTETS] {
    let digest = Sha256::new().chain_update(addresses).chain_update(signed).finalize();
    let mut check = [0; CHECK_OCTETS];
    check.copy_from_slice(&digest[..CHECK_OCTETS]);
    check
}

fn number(octets: &[u8]) -> Option<u16> {
    Some(u16::from_be_bytes(octets.try_into().ok()?))
}

#[cfg(test)]
mod tests;
