//! Verification of frames (IEEE 802.1AE-2018 clause 10.6).
//!
//! The clause's steps, in its order, and their passes:
//!
//! | step | pass |
//! |---|---|
//! | no SecTAG: `InPktsUntagged` or `InPktsNoTag` | 1 |
//! | a SecTAG that breaks clause 9: `InPktsBadTag` | 1 |
//! | no SC, or no SA in use: `InPktsNoSA` or `InPktsNoSAError` | 1 |
//! | PN recovered and, with replay protection, judged: `InPktsLate` | 1, and again in 3 |
//! | the cipher | 2 |
//! | ICV wrong: `InPktsInvalid` or `InPktsNotValid` | 3 |
//! | PN judged again, `lowest_pn` moved, SecTAG and ICV taken off | 3 |
//! | with MF or EXT: the secure data in segments, its fragments joined to others; padding left out | 3 |
//!
//! The PN is checked twice because one burst can hold two copies of a frame. The first check spares the
//! cipher old frames; the second decides. Only frames with a right ICV move the window. With
//! `validate_frames` disabled there is no check: anybody could move a window that everybody may write to.
//!
//! Departures from the Linux driver:
//!
//! - Padding behind the ICV of a short frame is cut off (Linux loses the frame).
//! - VLAN tags in front of the SecTAG are never delivered (Linux delivers them, unauthenticated).
//! - Duplicates inside the replay window are discarded.
//!
//! Work for a burst of n frames: n headers read, n searches among at most [`SecY::RECEIVE_SCS`] SCs, n opens,
//! n window updates of at most one write for each 64 PNs of the window.

use crate::discard::{Counter, Delivery, ReceiveDiscard, counter};
use crate::reassemble::Fragment;
use crate::replay_window::{Freshness, recover};
use crate::sa::ReceiveSa;
use crate::sdu_buffer::SduBuffer;
use crate::settings::{ClearVlan, Protection, ValidateFrames};
use crate::table::{SecY, UnmatchedFrame};
use core::ops::Range;
use suite::antedated::CacheHit;
use suite::{Nonce, OpenJob};
use wire::Frame;
use wire::ethernet::{ADDRESSES_OCTETS, Header, TruncatedHeader, VLAN_TAG_OCTETS};
use wire::extension::padded::{self, Contents};
use wire::extension::{self, ExtensionError, Segments};
use wire::{An, EtherType, Instant, Pn, Sci, SecTag, SecTagError, SecureData};

/// Proof that a frame passed reception as `validate_frames` requires. Only [`SecY::verify`] makes one, so a
/// frame cannot bypass it to the plain side.
#[derive(PartialEq, Eq, Debug)]
pub struct Verified(());

/// Delivered part of a frame.
#[derive(PartialEq, Eq, Debug)]
pub enum Delivered {
    /// The frame itself, in its present state.
    Whole(Verified),
    /// The SDUs with these numbers in the [`SduBuffer`]. None if the frame holds only a fragment that waits for its
    /// neighbour.
    Separated(Range<usize>, Verified),
}

/// A received frame under verification.
#[derive(Debug)]
pub struct Incoming<'b> {
    frame: Frame<'b>,
    open: Option<Open>,
    outcome: Result<Delivered, ReceiveDiscard>,
}

/// Result of pass 1 for the other passes.
#[derive(Debug)]
struct Open {
    sc: usize,
    an: An,
    pn: Pn,
    nonce: Nonce,
    tag: usize,
    secure_data: usize,
    aad: usize,
    text: usize,
    data: SecureData,
    /// Octets of extension headers; `None` if the frame is one whole SDU.
    extension_octets: Option<usize>,
    more_fragments: bool,
    authentic: bool,
}

impl<'b> Incoming<'b> {
    /// A frame to be verified. Its outcome is a discard until then.
    pub const fn new(frame: Frame<'b>) -> Self {
        Self { frame, open: None, outcome: Err(ReceiveDiscard::NoTag) }
    }

    /// The frame, in its present state.
    pub const fn frame(&self) -> &Frame<'b> {
        &self.frame
    }

    /// Outcome of the verification.
    ///
    /// # Errors
    /// The reason for not delivering it.
    pub fn into_outcome(self) -> Result<Delivered, ReceiveDiscard> {
        self.outcome
    }

    fn sa(&self) -> Option<(usize, An)> {
        self.open.as_ref().map(|open| (open.sc, open.an))
    }

    fn open_job(&mut self) -> Option<OpenJob<'_>> {
        let open = self.open.as_mut()?;
        let (aad, text, icv) = self.frame.sections(open.aad, open.text)?;
        Some(OpenJob { nonce: open.nonce, aad, text, icv, authentic: &mut open.authentic })
    }
}

/// Pass 2 for frames of one SA.
fn open_run(sa: &mut ReceiveSa, run: &mut [Incoming<'_>]) {
    let Some(antedated) = &mut sa.antedated else {
        return sa.key.key.open_each(run.iter_mut().filter_map(Incoming::open_job));
    };
    for incoming in run {
        let Some(pn) = incoming.open.as_ref().map(|open| open.pn) else { continue };
        if let Some(hit) = incoming.open_job().and_then(|job| antedated.open(&sa.key.key, pn, job)) {
            *match hit {
                CacheHit::Full => &mut sa.counters.in_pkts_antedated,
                CacheHit::Partial => &mut sa.counters.in_pkts_antedated_in_part,
                CacheHit::Miss => &mut sa.counters.in_pkts_not_antedated,
            } += 1;
        }
    }
}

/// Removes SecTAG, ICV and all octets behind them, and delivers the frame.
fn unprotect(frame: &mut Frame<'_>, tag: usize, secure_data: usize) -> Delivered {
    frame.shrink(tag);
    frame.truncate(ADDRESSES_OCTETS + secure_data);
    Delivered::Whole(Verified(()))
}

/// Result of pass 1.
enum Admission {
    /// To be opened.
    Open(Open),
    /// To be delivered at once, without `tag` octets behind the addresses and with `secure_data` octets of
    /// data.
    Deliver { delivery: Delivery, at: At, tag: usize, secure_data: usize },
}

/// SA that counts an outcome: index of its SC, and AN. `None` before one is found.
type At = Option<(usize, An)>;

/// A discard, and the SA that counts it.
struct Refusal {
    discard: ReceiveDiscard,
    at: At,
}

impl From<ReceiveDiscard> for Refusal {
    fn from(discard: ReceiveDiscard) -> Self {
        Self { discard, at: None }
    }
}

impl SecY {
    /// Verifies a burst of frames in place, in order. SDUs that are not a frame of their own go to `buffer`,
    /// which is emptied first. The buffer has room for bursts at least as long as this one.
    pub fn verify(&mut self, now: Instant, burst: &mut [Incoming<'_>], buffer: &mut SduBuffer) {
        buffer.clear();
        if !self.settings.replay_protect {
            self.receive.iter_mut().for_each(|sc| sc.expire_fragments(now));
        }
        for incoming in &mut *burst {
            match self.admit(&mut incoming.frame) {
                Ok(Admission::Open(open)) => incoming.open = Some(open),
                Ok(Admission::Deliver { delivery, at, tag, secure_data }) => {
                    self.count(at, Ok(delivery));
                    incoming.outcome = Ok(unprotect(&mut incoming.frame, tag, secure_data));
                }
                Err(Refusal { discard, at }) => {
                    if discard == ReceiveDiscard::NoSaError {
                        self.last_unmatched = UnmatchedFrame::of(incoming.frame.octets());
                    }
                    self.count(at, Err(discard));
                    incoming.outcome = Err(discard);
                }
            }
        }
        for run in burst.chunk_by_mut(|a, b| a.sa() == b.sa()) {
            let Some((sc, an)) = run.first().and_then(Incoming::sa) else { continue };
            if let Some(sa) = self.receive[sc].sa_mut(an) {
                open_run(sa, run);
            }
        }
        for Incoming { frame, open, outcome } in burst {
            let Some(open) = open else { continue };
            let mut settled = self.settle(open);
            *outcome = match (settled, open.extension_octets) {
                (Ok(_), None) => Ok(unprotect(frame, open.tag, open.secure_data)),
                (Ok(_), Some(_)) => {
                    let before = buffer.len();
                    let split = self.split_sdus(now, open, frame.octets(), buffer);
                    settled = split.and(settled);
                    split.map(|()| Delivered::Separated(before..buffer.len(), Verified(())))
                }
                (Err(discard), _) => Err(discard),
            };
            self.count(Some((open.sc, open.an)), settled);
            if self.settings.reassemble && self.settings.replay_protect {
                self.receive[open.sc].drop_late_fragments(open.an);
            }
        }
    }

    /// Splits a verified frame into its SDUs and its fragments of others.
    fn split_sdus(
        &mut self,
        now: Instant,
        open: &Open,
        frame: &[u8],
        buffer: &mut SduBuffer,
    ) -> Result<(), ReceiveDiscard> {
        let (addresses, behind) = frame.split_first_chunk().ok_or(ReceiveDiscard::TooShort)?;
        let (headers, data) = behind[open.tag..].split_at(open.extension_octets.unwrap_or(0));
        let with_addresses = *headers == padded::COVER_MARK;
        let (segments, continued, data) = if *headers == padded::MARK || with_addresses {
            let secure_data = data.get(..open.secure_data).unwrap_or(data);
            let Some(contents) = inside_padded(open, secure_data, with_addresses)? else {
                buffer.note_padding();
                return Ok(());
            };
            let data = &secure_data[padded::header_octets(&contents.segments)..];
            (contents.segments, contents.more_fragments, data)
        } else {
            let segments = Segments::parse(headers, open.secure_data).map_err(ReceiveDiscard::Malformed)?;
            (segments, open.more_fragments, data)
        };
        let frame = Fragment {
            an: open.an,
            pn: open.pn.number(),
            addresses: *addresses,
            with_addresses,
            continues: segments.continues(),
            continued,
            at: now,
        };
        let taken = self.receive[open.sc].take_sdus(&frame, &segments, data, buffer);
        taken.ok_or(ReceiveDiscard::NoSaError)
    }

    fn count(&mut self, at: At, outcome: Result<Delivery, ReceiveDiscard>) {
        match counter(outcome) {
            Counter::SecY(field) => *field(&mut self.counters) += 1,
            Counter::Sa(field) => {
                if let Some(sa) = at.and_then(|(sc, an)| self.receive[sc].sa_mut(an)) {
                    *field(&mut sa.counters) += 1;
                }
            }
        }
    }

    /// Pass 1.
    fn admit(&self, frame: &mut Frame<'_>) -> Result<Admission, Refusal> {
        let header = Header::parse(frame.octets()).map_err(|TruncatedHeader| ReceiveDiscard::TooShort)?;
        if header.ethertype != EtherType::MACSEC {
            if self.settings.validate_frames == ValidateFrames::Strict {
                return Err(ReceiveDiscard::NoTag.into());
            }
            let secure_data = frame.len() - ADDRESSES_OCTETS;
            return Ok(Admission::Deliver { delivery: Delivery::Untagged, at: None, tag: 0, secure_data });
        }
        if header.vlan_tags > 0 {
            match self.settings.clear_vlan {
                ClearVlan::Refuse => return Err(ReceiveDiscard::ClearVlan.into()),
                ClearVlan::Strip => frame.shrink(header.vlan_tags * VLAN_TAG_OCTETS),
            };
        }
        let behind_addresses = &frame.octets()[ADDRESSES_OCTETS..];
        let tag = SecTag::parse(behind_addresses).map_err(ReceiveDiscard::BadTag)?;
        let extension_octets =
            self.extension_octets(&tag, &behind_addresses[tag.octets()..]).map_err(ReceiveDiscard::BadTag)?;
        let behind = behind_addresses.len() - tag.octets() - extension_octets.unwrap_or(0);
        let secure_data = tag.secure_data_octets(behind).map_err(ReceiveDiscard::BadTag)?;
        self.admit_to_sa(&tag, tag.sc.sci(header.source), secure_data, extension_octets)
    }

    /// Octets of extension headers behind a SecTAG; `None` if the frame is one whole SDU. Without an
    /// agreement on MF and EXT, these are reserved bits.
    fn extension_octets(&self, tag: &SecTag, behind: &[u8]) -> Result<Option<usize>, SecTagError> {
        match (tag.extended, tag.more_fragments) {
            (false, false) => Ok(None),
            _ if !self.settings.reassemble => Err(SecTagError::ReservedBits),
            (false, true) => Ok(Some(0)),
            (true, _) => {
                let headers = extension::count(behind).map_err(|_| SecTagError::Extensions)?;
                Ok(Some(headers * extension::EXTENSION_OCTETS))
            }
        }
    }

    /// The SC of frames without an SCI. Clause 9.9: the LAN is point to point then, with only one SC; and with that of the same station's
    /// express frames, which carry their SCI.
    fn only_sc(&self) -> Option<usize> {
        match &self.receive[..] {
            [_] => Some(0),
            [one, other] if one.sci().express() == Some(other.sci()) => Some(0),
            [one, other] if other.sci().express() == Some(one.sci()) => Some(1),
            _ => None,
        }
    }

    /// Pass 1, from the SA on.
    fn admit_to_sa(
        &self,
        tag: &SecTag,
        sci: Option<Sci>,
        secure_data: usize,
        extension_octets: Option<usize>,
    ) -> Result<Admission, Refusal> {
        let settings = &self.settings;
        let index = match sci {
            Some(sci) => self.receive.iter().position(|sc| sc.sci() == sci),
            None => self.only_sc(),
        };
        let deliver = |delivery, at| Ok(Admission::Deliver { delivery, at, tag: tag.octets(), secure_data });
        let found = index.and_then(|sc| Some((sc, self.receive[sc].sci(), self.receive[sc].sa(tag.an)?)));
        let Some((sc, sci, sa)) = found else {
            if settings.validate_frames == ValidateFrames::Strict || tag.data != SecureData::Clear {
                return Err(ReceiveDiscard::NoSaError.into());
            }
            return deliver(Delivery::NoSa, None);
        };
        // An SA with an offset has no fragments: the bits are reserved there.
        if extension_octets.is_some() && sa.key.protection.has_offset() {
            return Err(ReceiveDiscard::BadTag(SecTagError::ReservedBits).into());
        }
        let pn =
            if sa.key.is_xpn() { recover(tag.pn, sa.window().highest()) } else { Pn::new(tag.pn.into()) };
        let pn = pn.ok_or(ReceiveDiscard::PnZero)?;
        let at = Some((sc, tag.an));
        if settings.validate_frames == ValidateFrames::Disabled {
            if tag.data != SecureData::Clear {
                return Err(Refusal { discard: ReceiveDiscard::NotValid, at });
            }
            return deliver(Delivery::Unchecked, at);
        }
        if settings.replay_protect {
            fresh(sa.window().classify(pn)).map_err(|discard| Refusal { discard, at })?;
        }
        let clear = clear_octets(sa.key.protection, tag.data, secure_data);
        Ok(Admission::Open(Open {
            sc,
            an: tag.an,
            pn,
            nonce: sa.key.nonce(sci, pn),
            tag: tag.octets(),
            secure_data,
            aad: ADDRESSES_OCTETS + tag.octets() + extension_octets.unwrap_or(0) + clear,
            text: secure_data - clear,
            data: tag.data,
            extension_octets,
            more_fragments: tag.more_fragments,
            authentic: false,
        }))
    }

    /// Pass 3: decides and commits.
    fn settle(&mut self, open: &Open) -> Result<Delivery, ReceiveDiscard> {
        let settings = self.settings;
        // Nothing retires an SA between the passes of a burst; if it did, the frame would be discarded.
        let sa = self.receive[open.sc].sa_mut(open.an).ok_or(ReceiveDiscard::NoSaError)?;
        if !open.authentic {
            let strict = settings.validate_frames == ValidateFrames::Strict || open.data != SecureData::Clear;
            return if strict { Err(ReceiveDiscard::NotValid) } else { Ok(Delivery::Invalid) };
        }
        let delivery = if settings.replay_protect {
            fresh(sa.window.commit(open.pn))?;
            Delivery::Ok
        } else {
            let late = open.pn.number() < sa.window.lowest();
            sa.window.advance(open.pn);
            if late { Delivery::Delayed } else { Delivery::Ok }
        };
        *match open.data {
            SecureData::Encrypted => &mut sa.counters.in_octets_decrypted,
            SecureData::Clear | SecureData::Changed => &mut sa.counters.in_octets_validated,
        } += open.secure_data as u64;
        Ok(delivery)
    }
}

/// Parses the segments of a verified padded frame; `None` if it is padding alone.
fn inside_padded(
    open: &Open,
    secure_data: &[u8],
    with_addresses: bool,
) -> Result<Option<Contents>, ReceiveDiscard> {
    // MF stands inside.
    if open.more_fragments {
        return Err(ReceiveDiscard::Malformed(ExtensionError::MoreFragments));
    }
    let contents = match Contents::parse(secure_data) {
        Ok(Some(contents)) if with_addresses => contents.with_addresses().map(Some),
        contents => contents,
    };
    contents.map_err(ReceiveDiscard::Malformed)
}

impl UnmatchedFrame {
    /// SCI and AN that a MACsec frame claims, also behind VLAN tags. Parsed again, so that frames with an SA pay nothing.
    pub fn of(frame: &[u8]) -> Option<Self> {
        let header = Header::parse(frame).ok()?;
        let behind = frame.get(ADDRESSES_OCTETS + header.vlan_tags * VLAN_TAG_OCTETS..)?;
        let tag = SecTag::parse(behind).ok()?;
        Some(Self { sci: tag.sc.sci(header.source), an: tag.an })
    }
}

/// Octets of secure data outside of the cipher's text: all without encryption, else those before the offset.
fn clear_octets(protection: Protection, data: SecureData, secure_data: usize) -> usize {
    match (data, protection) {
        (SecureData::Clear | SecureData::Changed, _) => secure_data,
        (SecureData::Encrypted, Protection::Encrypt(offset)) => offset.octets().min(secure_data),
        (SecureData::Encrypted, Protection::Integrity) => 0,
    }
}

const fn fresh(freshness: Freshness) -> Result<(), ReceiveDiscard> {
    match freshness {
        Freshness::Fresh => Ok(()),
        Freshness::Late => Err(ReceiveDiscard::Late),
        Freshness::Duplicate => Err(ReceiveDiscard::Duplicate),
    }
}
