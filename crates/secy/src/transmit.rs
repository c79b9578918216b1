//! Protection of frames (IEEE 802.1AE-2018 clause 10.5).
//!
//! ```text
//!  DA 6 | SA 6 |                                               SDU from its EtherType on
//!  DA 6 | SA 6 | SecTAG 8 or 16 | [extension headers 2 each] | secure data            | ICV 16
//!  └───────────────────────── AAD ───────────────────────────┴ offset ┘└── text ─────┘   integrity only: all is AAD
//! ```
//!
//! With padding, the extension header is a mark, and headers, segments and padding are encrypted together
//! ([`wire::extension::padded`]).
//!
//! A frame can hold several SDUs, and an SDU can span several frames (see [`crate::fragment`]); the caller
//! gives the layout of the secure data. The frames of one SDU form a *chain* with consecutive PNs. If the SA
//! lacks PNs for a chain, all of it is discarded, and so is the rest of a broken one.
//!
//! Work for a burst of n frames: n SecTAGs written, n seals, n counts; no frame is copied.

use crate::counters::SecYCounters;
use crate::discard::TransmitDiscard;
use crate::sa::TransmitSa;
use crate::settings::{Protection, SciInclusion, Settings};
use crate::table::SecY;
use crate::transmit_pns::{NextAction, NoPn};
use suite::antedated::CacheHit;
use suite::{ICV_OCTETS, Nonce, SealJob};
use wire::Frame;
use wire::ethernet::{ADDRESSES_OCTETS, HEADER_OCTETS};
use wire::extension::padded::{self, Contents};
use wire::{Pn, ScEncoding, Sci, SecTag, SecureData, Segments, ShortLength};

/// Proof that a frame may go to the protected side: it was protected, or `protect_frames` is false. Only
/// [`SecY::protect`] makes one, so plaintext cannot be sent by mistake.
#[derive(PartialEq, Eq, Debug)]
pub struct Protected(());

/// Layout of the secure data of a frame: its SDUs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FrameLayout {
    /// The segments; their lengths add up to the secure data.
    pub segments: Segments,
    /// Number of frames that follow in this one's chain. Not 0 if its last SDU continues in the next frame.
    pub chain: u16,
    /// Octets of padding behind the last segment, of a padded frame.
    pub padding: Option<u16>,
    /// The SDUs of a padded frame have their DA and SA inside ([`padded::COVER_MARK`]). One segment of no octets, which
    /// begins an SDU, is then padding alone.
    pub with_addresses: bool,
}

impl FrameLayout {
    /// Octets of extension headers in clear, of headers inside the secure data, and of padding behind its segments.
    const fn octets(&self) -> (usize, usize, usize) {
        match self.padding {
            None => (self.segments.header_octets(), 0, 0),
            Some(padding) => (padded::MARK.len(), padded::header_octets(&self.segments), padding as usize),
        }
    }

    /// Writes headers and padding. `behind_tag` has room for the headers, then the segments and the padding, and nothing else.
    fn encode(&self, behind_tag: &mut [u8]) {
        let Some(padding) = self.padding else { return self.segments.encode(behind_tag) };
        let (mark, secure_data) = behind_tag.split_at_mut(padded::MARK.len());
        mark.copy_from_slice(if self.with_addresses { &padded::COVER_MARK } else { &padded::MARK });
        Contents { segments: self.segments, more_fragments: self.chain > 0 }.encode(secure_data);
        // The chunk has octets of earlier frames there.
        let behind_segments = secure_data.len() - usize::from(padding);
        secure_data[behind_segments..].fill(0);
    }
}

/// A frame to be sent: one SDU, or the segments of a layout.
#[derive(Debug)]
pub struct Outgoing<'b> {
    frame: Frame<'b>,
    layout: Option<FrameLayout>,
    seal: Option<Seal>,
    outcome: Result<Protected, TransmitDiscard>,
}

/// Result of pass 1 for pass 2.
#[derive(Debug)]
struct Seal {
    pn: Pn,
    nonce: Nonce,
    aad: usize,
    text: usize,
    secure_data: usize,
}

impl<'b> Outgoing<'b> {
    /// An SDU to be protected. Its outcome is a discard until then.
    pub const fn new(frame: Frame<'b>) -> Self {
        Self { frame, layout: None, seal: None, outcome: Err(TransmitDiscard::NoSa) }
    }

    /// A frame of DA, SA and secure data with this layout. Frames of a chain follow one another.
    pub const fn with_layout(frame: Frame<'b>, layout: FrameLayout) -> Self {
        Self { frame, layout: Some(layout), seal: None, outcome: Err(TransmitDiscard::NoSa) }
    }

    /// The frame, in its present state.
    pub const fn frame(&self) -> &Frame<'b> {
        &self.frame
    }

    /// Outcome of the protection.
    ///
    /// # Errors
    /// The reason for not sending it.
    pub fn into_outcome(self) -> Result<Protected, TransmitDiscard> {
        self.outcome
    }

    fn seal_job(&mut self) -> Option<SealJob<'_>> {
        let seal = self.seal.as_ref()?;
        let (aad, text, icv) = self.frame.sections(seal.aad, seal.text)?;
        Some(SealJob { nonce: seal.nonce, aad, text, icv })
    }
}

impl SecY {
    /// Protects a burst of SDUs in place, in order. Returns the action that the next frames' PNs need.
    pub fn protect(&mut self, burst: &mut [Outgoing<'_>]) -> NextAction {
        let (sci, settings, counters, sa) = self.transmitter();
        let Some(sa) = sa.filter(|_| settings.protect_frames) else {
            for outgoing in burst {
                outgoing.outcome = send_untagged(settings, counters, &outgoing.frame);
            }
            return NextAction::Continue;
        };
        for outgoing in &mut *burst {
            let continues = outgoing.layout.is_some_and(|layout| layout.segments.continues());
            let admitted = match sa.broken_chain.filter(|_| continues) {
                Some(discard) => Err(discard),
                None => admit(sci, settings, sa, &mut outgoing.frame, outgoing.layout.as_ref()),
            };
            sa.broken_chain = admitted.as_ref().err().copied();
            match admitted {
                Ok(seal) => outgoing.seal = Some(seal),
                Err(discard) => {
                    counters.count_transmit(discard);
                    outgoing.outcome = Err(discard);
                }
            }
        }
        seal(sa, burst);
        let encrypted = matches!(sa.protection(), Protection::Encrypt(_));
        for outgoing in burst {
            if let Some(seal) = &outgoing.seal {
                outgoing.outcome = Ok(Protected(()));
                count_sent(sa, encrypted, seal.secure_data as u64);
            }
        }
        sa.pns.next_action()
    }
}

/// Pass 2.
fn seal(sa: &mut TransmitSa, burst: &mut [Outgoing<'_>]) {
    let Some(antedated) = &mut sa.antedated else {
        return sa.key.key.seal_each(burst.iter_mut().filter_map(Outgoing::seal_job));
    };
    for outgoing in burst {
        let Some(pn) = outgoing.seal.as_ref().map(|seal| seal.pn) else { continue };
        if let Some(hit) = outgoing.seal_job().and_then(|job| antedated.seal(&sa.key.key, pn, job)) {
            *match hit {
                CacheHit::Full => &mut sa.counters.out_pkts_antedated,
                CacheHit::Partial => &mut sa.counters.out_pkts_antedated_in_part,
                CacheHit::Miss => &mut sa.counters.out_pkts_not_antedated,
            } += 1;
        }
    }
}

/// Outcome of an SDU without SecTAG: it is sent unchanged if `protect_frames` is false, else discarded.
fn send_untagged(
    settings: &Settings,
    counters: &mut SecYCounters,
    frame: &Frame<'_>,
) -> Result<Protected, TransmitDiscard> {
    let fits = frame.len() <= longest(settings);
    let discard = match (settings.protect_frames, frame.len() < HEADER_OCTETS, fits) {
        (true, _, _) => TransmitDiscard::NoSa,
        (false, true, _) => TransmitDiscard::TooShort,
        (false, _, false) => TransmitDiscard::TooLong,
        (false, false, true) => {
            counters.out_pkts_untagged += 1;
            return Ok(Protected(()));
        }
    };
    counters.count_transmit(discard);
    Err(discard)
}

/// Octets of the longest frame that the protected side carries.
const fn longest(settings: &Settings) -> usize {
    settings.mtu.saturating_add(HEADER_OCTETS)
}

/// Pass 1: takes a PN and writes the SecTAG. Takes the PN last, so that no discarded frame spends one.
fn admit(
    sci: Sci,
    settings: &Settings,
    sa: &mut TransmitSa,
    frame: &mut Frame<'_>,
    layout: Option<&FrameLayout>,
) -> Result<Seal, TransmitDiscard> {
    // A segment that continues an SDU may be shorter than an EtherType.
    let shortest = match layout {
        None => HEADER_OCTETS,
        // Such a frame may hold nothing.
        Some(layout) if layout.with_addresses => ADDRESSES_OCTETS,
        Some(_) => ADDRESSES_OCTETS + 1,
    };
    if frame.len() < shortest {
        return Err(TransmitDiscard::TooShort);
    }
    let sc = match settings.sci_inclusion {
        SciInclusion::Always => ScEncoding::Explicit(sci),
        SciInclusion::Never => ScEncoding::PointToPoint,
        SciInclusion::EndStation => ScEncoding::EndStation,
    };
    let (extensions, inside, padding) = layout.map_or((0, 0, 0), FrameLayout::octets);
    let secure_data = frame.len() - ADDRESSES_OCTETS + inside + padding;
    let chain = layout.map_or(0, |layout| layout.chain);
    let headers = sc.tag_octets() + extensions;
    let fits = ADDRESSES_OCTETS + headers + secure_data + ICV_OCTETS <= longest(settings);
    if !fits || !frame.has_room(headers + inside, padding + ICV_OCTETS) {
        return Err(TransmitDiscard::TooLong);
    }
    let pn = sa.pns.take_first_of(chain.into()).map_err(|none| match none {
        NoPn::Unreserved => TransmitDiscard::PnUnreserved,
        NoPn::Exhausted => TransmitDiscard::PnExhausted,
    })?;
    frame.grow(headers + inside, padding + ICV_OCTETS);
    let (data, clear) = match sa.protection() {
        Protection::Integrity => (SecureData::Clear, secure_data),
        Protection::Encrypt(offset) => (SecureData::Encrypted, offset.octets().min(secure_data)),
    };
    let tag = SecTag {
        sc,
        data,
        an: sa.an(),
        extended: extensions > 0,
        more_fragments: chain > 0 && layout.is_some_and(|layout| layout.padding.is_none()),
        short_length: ShortLength::of(secure_data),
        pn: pn.low(),
    };
    let behind_addresses = &mut frame.octets_mut()[ADDRESSES_OCTETS..];
    tag.encode(behind_addresses);
    if let Some(layout) = layout {
        let behind_segments = behind_addresses.len() - ICV_OCTETS;
        layout.encode(&mut behind_addresses[sc.tag_octets()..behind_segments]);
    }
    let aad = ADDRESSES_OCTETS + headers + clear;
    Ok(Seal { pn, nonce: sa.key.nonce(sci, pn), aad, text: secure_data - clear, secure_data })
}

/// Pass 3.
const fn count_sent(sa: &mut TransmitSa, encrypted: bool, octets: u64) {
    if encrypted {
        sa.counters.out_pkts_encrypted += 1;
        sa.counters.out_octets_encrypted += octets;
    } else {
        sa.counters.out_pkts_protected += 1;
        sa.counters.out_octets_protected += octets;
    }
}
