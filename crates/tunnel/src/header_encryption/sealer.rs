//! What goes to one peer: epochs, PNs, headers.
//!
//! Two packets with the same P2 under one key would show that they belong together, and a PN that comes again would
//! be refused by the receiver. So an SA that begins again takes the next epoch into use, for all SAs, and the peer's
//! acknowledgement of that epoch has come before:
//!
//! | PN of an SA in this epoch | what becomes of the frame |
//! |---|---|
//! | the first | sent; an SA has a window of its own, so a changed AN needs no epoch. No room for one more: the next epoch |
//! | not sent yet | sent |
//! | far ahead, while others keep coming and the window is full of such | not sent |
//! | below what is remembered | the next epoch, then sent |
//! | sent already, low, and far below the newest | the next epoch, then sent |
//! | sent already | not sent; at the fourth without a higher PN between, the next epoch, then sent |
//!
//! An epoch also ends after an hour.
//!
//! The last two rows are ours: both ends of an SA that restart before it has sent more PNs than the window has would
//! otherwise have nothing delivered until they come past the highest one. Copies that a network makes come soon, and
//! have higher PNs between them. One that comes late is taken for a restart only among the first PNs of an SA; it then
//! costs an epoch, which others lose nothing by, and goes to a station that refuses it. Whoever sends such copies on
//! purpose has no more of it than one who restarts: an epoch a second.

use core::ops::Range;
use core::time::Duration;

use arrayvec::ArrayVec;
use suite::tunnel::HeaderKey;
use wire::Instant;
use wire::tunnel::ParsedFrame;

use super::associations::{Association, Associations, Standing};
use super::header::{HEADER_OCTETS, PREFIX_OCTETS, SAMPLE_OCTETS, carries, compose};
use super::window::{FragmentKind, Freshness, PnWindow};
use crate::counters::OutDiscard;
use crate::packet::Packet;

/// A sender begins no two epochs in less than this.
pub(crate) const EPOCH_INTERVAL: Duration = Duration::from_secs(1);
/// The life of an epoch, if the next one is ready: whatever somebody did to its windows ends with it.
const EPOCH_LIFE: Duration = Duration::from_secs(3600);
/// So many PNs that come again, without a higher one between, are no copies but another beginning of the SA.
const REPEATS_OF_A_RESTART: u8 = 4;
/// PNs that an SA begins with: one of them that comes again ...
const FIRST_PNS: u32 = 1024;
/// ... this far below the newest is no copy either.
const FALL_OF_A_RESTART: u32 = 64;

#[derive(Debug)]
struct InUse {
    epoch: u32,
    key: HeaderKey,
    since: Instant,
    /// The end of its life.
    ends: Instant,
}

/// The sending end.
#[derive(Debug)]
pub(crate) struct Sealer {
    current: Option<InUse>,
    /// Acknowledged, and not used before it is needed.
    next: Option<(u32, HeaderKey)>,
    sent: Associations,
}

impl Sealer {
    /// Without an epoch. All memory that is ever used.
    pub(crate) fn new() -> Self {
        Self { current: None, next: None, sent: Associations::new() }
    }

    /// Another generation: forgets all epochs.
    pub(crate) fn begin(&mut self) {
        (self.current, self.next) = (None, None);
        self.sent.clear();
    }

    /// The peer has acknowledged this epoch. The first is used at once; one that is not newer than those that are known
    /// changes nothing.
    pub(crate) fn install(&mut self, now: Instant, epoch: u32, key: HeaderKey) {
        let newest = self.next.as_ref().map(|&(epoch, _)| epoch).or(self.epoch());
        if newest.is_some_and(|newest| epoch <= newest) {
            return;
        }
        if self.current.is_none() {
            self.current = Some(InUse { epoch, key, since: now, ends: now + EPOCH_LIFE });
        } else {
            self.next = Some((epoch, key));
        }
    }

    /// The epoch in use.
    pub(crate) fn epoch(&self) -> Option<u32> {
        self.current.as_ref().map(|current| current.epoch)
    }

    /// The newest epoch, if the next one is wanted: none is in readiness.
    pub(crate) fn wants_epoch_after(&self) -> Option<u32> {
        if self.next.is_none() { self.epoch() } else { None }
    }

    /// Whether the frame can be carried in this mode at all.
    ///
    /// # Errors
    /// [`OutDiscard::NoSci`], [`OutDiscard::NotEncrypted`], [`OutDiscard::Extended`], [`OutDiscard::TooShort`].
    pub(crate) fn admit(taken: &ParsedFrame, frame: &[u8]) -> Result<(), OutDiscard> {
        if carries(taken) {
            return if frame.len() < HEADER_OCTETS { Err(OutDiscard::TooShort) } else { Ok(()) };
        }
        Err(if taken.flow.sci().is_none() {
            OutDiscard::NoSci
        } else if taken.fields.extended() {
            OutDiscard::Extended
        } else {
            OutDiscard::NotEncrypted
        })
    }

    /// Uses up the PN of a frame, in the order in which frames come from the LAN, in the next epoch if it cannot be used
    /// in this one. Which epoch it was. `standing`: whether the peer knows its flow.
    ///
    /// # Errors
    /// [`OutDiscard::NoSci`], [`OutDiscard::NoEpoch`], [`OutDiscard::EpochAwaited`], [`OutDiscard::Repeated`],
    /// [`OutDiscard::Crowded`].
    pub(crate) fn take_pn(
        &mut self,
        now: Instant,
        taken: &ParsedFrame,
        standing: Standing,
    ) -> Result<u32, OutDiscard> {
        let (of, pn) = association(taken)?;
        let current = self.current.as_ref().ok_or(OutDiscard::NoEpoch)?;
        let is_old = now >= current.ends && self.next.is_some();
        let epoch = if is_old { self.start_next(now)? } else { current.epoch };
        let full = self.sent.is_full(standing);
        let epoch = match self.sent.window(of) {
            Some(window) => match window.admit(pn) {
                Freshness::New => return Ok(epoch),
                Freshness::Crowded => return Err(OutDiscard::Crowded),
                Freshness::Seen if window.repeat() < REPEATS_OF_A_RESTART && !begins_again(window, pn) => {
                    return Err(OutDiscard::Repeated);
                }
                Freshness::Seen | Freshness::Late => self.start_next(now)?,
            },
            None if full => self.start_next(now)?,
            None => epoch,
        };
        if let Some((_, window)) = self.sent.find_or_open(of, standing) {
            window.admit(pn);
        }
        Ok(epoch)
    }

    /// The packets of a frame whose flow the peer knows and whose PN was taken in `epoch`: one, or two if it exceeds
    /// `path_payload` octets. Two blocks of AES for each packet.
    ///
    /// # Errors
    /// [`OutDiscard`]: nothing is sent. [`OutDiscard::Overtaken`] only if another epoch has begun since.
    pub(crate) fn seal(
        &mut self,
        taken: &ParsedFrame,
        epoch: u32,
        frame: &[u8],
        path_payload: usize,
    ) -> Result<ArrayVec<Packet, 2>, OutDiscard> {
        let prefix = frame.first_chunk().ok_or(OutDiscard::TooShort)?;
        let fragments = split_frame(frame.len(), path_payload).ok_or(OutDiscard::TooLong)?;
        let current = self.current.as_ref().ok_or(OutDiscard::NoEpoch)?;
        if current.epoch != epoch {
            Self::take_again(&mut self.sent, taken)?;
        }
        let seal = |(kind, octets)| seal_fragment(&current.key, prefix, frame, kind, octets);
        fragments.into_iter().map(seal).collect()
    }

    /// Uses up a PN in an epoch that began after it was taken. That frame is older than those that have been sent since,
    /// so whatever its PN is, its SA does not begin again with it. A newcomer still, though its flow is known by now: else
    /// a flood of new flows would have the room of known ones when their frames are released.
    fn take_again(sent: &mut Associations, taken: &ParsedFrame) -> Result<(), OutDiscard> {
        let (of, pn) = association(taken)?;
        let (_, window) = sent.find_or_open(of, Standing::Newcomer).ok_or(OutDiscard::Overtaken)?;
        let freshness = window.admit(pn);
        if freshness == Freshness::New { Ok(()) } else { Err(OutDiscard::Overtaken) }
    }

    /// Takes the next epoch into use, in which no SA has sent anything.
    ///
    /// # Errors
    /// [`OutDiscard::EpochAwaited`].
    pub(crate) fn start_next(&mut self, now: Instant) -> Result<u32, OutDiscard> {
        let too_soon = self.current.as_ref().is_some_and(|current| now.since(current.since) < EPOCH_INTERVAL);
        if too_soon {
            return Err(OutDiscard::EpochAwaited);
        }
        let (epoch, key) = self.next.take().ok_or(OutDiscard::EpochAwaited)?;
        self.current = Some(InUse { epoch, key, since: now, ends: now + EPOCH_LIFE });
        self.sent.clear();
        Ok(epoch)
    }
}

/// Whether a PN that was sent already shows by itself that its SA begins again.
fn begins_again(window: &PnWindow, pn: u32) -> bool {
    pn < FIRST_PNS && window.below_newest(pn) >= FALL_OF_A_RESTART
}

fn association(taken: &ParsedFrame) -> Result<(Association, u32), OutDiscard> {
    let sci = taken.flow.sci().ok_or(OutDiscard::NoSci)?;
    let pn = taken.fields.pn;
    Ok((Association::new(sci, taken.fields.an(), pn), pn))
}

impl Default for Sealer {
    fn default() -> Self {
        Self::new()
    }
}

/// Which octets of a frame of so many go into which packet; `None` if it does not fit into two. The second packet
/// repeats addresses and SecTAG. Both have one size, as in identifier mode: the kernel takes a stream of them in one call.
fn split_frame(octets: usize, path_payload: usize) -> Option<ArrayVec<(FragmentKind, Range<usize>), 2>> {
    if octets <= path_payload {
        return Some(ArrayVec::from_iter([(FragmentKind::Whole, 0..octets)]));
    }
    let first = (octets + PREFIX_OCTETS).div_ceil(2);
    // A part has at least the octets that its header takes.
    if first > path_payload || octets < first + SAMPLE_OCTETS {
        return None;
    }
    Some(ArrayVec::from([(FragmentKind::First, 0..first), (FragmentKind::Second, first..octets)]))
}

/// One packet of a frame.
fn seal_fragment(
    key: &HeaderKey,
    prefix: &[u8; PREFIX_OCTETS],
    frame: &[u8],
    kind: FragmentKind,
    octets: Range<usize>,
) -> Result<Packet, OutDiscard> {
    let sample_at = octets.start.max(PREFIX_OCTETS);
    let sample = frame.get(sample_at..).and_then(<[u8]>::first_chunk).ok_or(OutDiscard::TooShort)?;
    let mut header = compose(prefix, sample, kind);
    key.encrypt(&mut header);
    Ok(Packet { header: header.into_iter().collect(), body: sample_at + SAMPLE_OCTETS..octets.end })
}
