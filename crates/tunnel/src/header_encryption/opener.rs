//! Reception from one peer: epochs, keys, PNs.
//!
//! Up to three epochs are known: the one in use, the next one, which the peer uses when it needs it, and the
//! previous one, while its packets may be in flight. A packet is tried with their keys in this order. It is
//! the peer's if decryption yields a header of an announced flow: about 180 bits that nobody hits by chance
//! (test `random_packets_are_never_delivered`). It is delivered if its PN was not used in that epoch. A
//! failed packet changes nothing.

use arrayvec::ArrayVec;
use suite::tunnel::HeaderKey;
use wire::Instant;
use wire::tunnel::{Flow, FlowIndex, ParsedFrame};

use super::associations::{Association, Associations, Standing};
use super::header::{HEADER_OCTETS, ReadHeader, add_fold, is_folded, read};
use super::window::{FragmentKind, Freshness};
use crate::counters::InDiscard;
use crate::exchange::EPOCH_OVERLAP;

/// Most known epochs, and so most keys tried on a packet.
pub(crate) const EPOCHS: usize = 3;

/// A decrypted packet of the peer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Opened {
    /// Beginning of the fragment without VLAN tags: addresses, SecTAG, four octets. The octets behind the packet's header
    /// follow.
    pub(crate) header: [u8; HEADER_OCTETS],
    /// The same, parsed.
    pub(crate) taken: ParsedFrame,
    /// Share of the frame.
    pub(crate) kind: FragmentKind,
    /// Common number of the fragments of one frame, unique among frames in flight; not 0. 62 bits.
    pub(crate) serial: u64,
}

#[derive(Debug)]
struct KnownEpoch {
    epoch: u32,
    key: HeaderKey,
    /// Expiry time, once a newer epoch has replaced it.
    until: Option<Instant>,
    received: Associations,
}

impl KnownEpoch {
    fn is_gone(&self, now: Instant) -> bool {
        self.until.is_some_and(|until| now >= until)
    }
}

/// Receiver of header encryption.
#[derive(Debug)]
pub(crate) struct Opener {
    /// In ascending order.
    epochs: ArrayVec<KnownEpoch, EPOCHS>,
    /// Index of the epoch in use.
    current: usize,
    /// Memory for future epochs.
    spare: ArrayVec<Associations, EPOCHS>,
}

impl Opener {
    /// Without an epoch. All memory that is ever used.
    pub(crate) fn new() -> Self {
        Self {
            epochs: ArrayVec::new(),
            current: 0,
            spare: core::iter::repeat_with(Associations::new).take(EPOCHS).collect(),
        }
    }

    /// Begins a generation: forgets all epochs.
    pub(crate) fn begin(&mut self) {
        while !self.epochs.is_empty() {
            self.forget(0);
        }
    }

    /// Accepts packets of this epoch from now on. False if it is older than the newest: it would begin with
    /// an empty window.
    pub(crate) fn install(&mut self, epoch: u32, key: HeaderKey) -> bool {
        if self.epochs.iter().any(|known| known.epoch == epoch) {
            return true;
        }
        if self.epochs.last().is_some_and(|newest| epoch < newest.epoch) {
            return false;
        }
        if self.epochs.is_full() {
            // Evicts the epoch before the current one, or else one that the peer has skipped.
            self.forget(if self.current > 0 { 0 } else { 1 });
        }
        let Some(mut received) = self.spare.pop() else { return false };
        received.clear();
        self.epochs.push(KnownEpoch { epoch, key, until: None, received });
        true
    }

    /// The known epochs, the oldest first.
    pub(crate) fn epochs(&self) -> impl Iterator<Item = u32> {
        self.epochs.iter().map(|known| known.epoch)
    }

    /// The newest epoch of a received packet.
    #[cfg(test)]
    pub(crate) fn epoch(&self) -> Option<u32> {
        self.epochs.get(self.current).map(|known| known.epoch)
    }

    /// Forgets the previous epoch when its time is over.
    pub(crate) fn handle_timeout(&mut self, now: Instant) {
        while self.epochs.first().is_some_and(|known| known.is_gone(now)) {
            self.forget(0);
        }
    }

    /// Next time for [`Opener::handle_timeout`].
    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        self.epochs.first()?.until
    }

    /// Opens a packet, and uses up its PN. `is_announced` tells whether a flow is one of the peer's, `tagged` the one with
    /// VLAN tags that has a number and is this one without. At most
    /// six AES blocks and three searches.
    ///
    /// # Errors
    /// [`InDiscard`]: the packet is not delivered, and has changed nothing.
    pub(crate) fn open(
        &mut self,
        now: Instant,
        packet: &[u8],
        is_announced: impl Fn(&Flow) -> bool,
        tagged: impl Fn(&Flow, FlowIndex) -> Option<Flow>,
    ) -> Result<Opened, InDiscard> {
        let encrypted = packet.first_chunk::<HEADER_OCTETS>().ok_or(InDiscard::TooShort)?;
        let mut failure = if self.epochs.is_empty() { InDiscard::NoEpoch } else { InDiscard::NotValid };
        for place in (self.current..self.epochs.len()).chain((0..self.current).rev()) {
            let known = &mut self.epochs[place];
            if known.is_gone(now) {
                continue;
            }
            let mut header = *encrypted;
            known.key.decrypt(&mut header);
            let Some(ReadHeader { mut taken, kind, number }) = read(&mut header) else { continue };
            if is_folded(&taken, kind) {
                add_fold(&mut header, &packet[HEADER_OCTETS..]);
            }
            if let Some(number) = number {
                // Half of all results of a wrong key look like a number.
                let Some(flow) = tagged(&taken.flow, number) else { continue };
                taken.flow = flow;
            } else if !is_announced(&taken.flow) {
                failure = InDiscard::UnknownFlow;
                continue;
            }
            let serial = known.consume(&taken, kind)?;
            let opened = Opened { header, taken, kind, serial };
            self.note_epoch_used(now, place);
            return Ok(opened);
        }
        Err(failure)
    }

    /// Makes the epoch of a received packet the current one, and expires those before it.
    fn note_epoch_used(&mut self, now: Instant, place: usize) {
        if place <= self.current {
            return;
        }
        self.current = place;
        for before in &mut self.epochs[..place] {
            before.until.get_or_insert(now + EPOCH_OVERLAP);
        }
    }

    fn forget(&mut self, place: usize) {
        let known = self.epochs.remove(place);
        self.spare.push(known.received);
        if place < self.current {
            self.current -= 1;
        }
    }
}

impl KnownEpoch {
    /// Uses up a PN. Returns a number unique to this epoch, SA and PN.
    fn consume(&mut self, taken: &ParsedFrame, kind: FragmentKind) -> Result<u64, InDiscard> {
        let of = Association::of(taken).ok_or(InDiscard::NotValid)?;
        let pn = taken.fields.pn;
        let (number, window) =
            self.received.find_or_open(of, Standing::Known).ok_or(InDiscard::TooManySas)?;
        match window.commit(pn, kind) {
            Freshness::New => {
                Ok(u64::from(self.epoch & 0x000f_ffff) << 42 | (u64::from(number) + 1) << 32 | u64::from(pn))
            }
            Freshness::Seen => Err(InDiscard::Replayed),
            Freshness::Late | Freshness::Crowded => Err(InDiscard::Late),
        }
    }
}

impl Default for Opener {
    fn default() -> Self {
        Self::new()
    }
}
