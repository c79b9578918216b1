//! Epochs of the peer, which draws their secrets.

use core::time::Duration;

use arrayvec::ArrayVec;
use suite::tunnel::{EpochSecret, IdentifierBlock};
use wire::time::{Instant, TokenBucket};

use super::fault::PeerFault;
use super::state::EpochAge;

/// Secrets compared with a new one: as many epochs as a receiver has windows or keys of, and one.
const REMEMBERED: usize = 4;

/// Most new epochs at once. An honest peer begins one a second, except for header encryption's second one. A
/// stalled channel may deliver a few of them together.
const AT_ONCE: u32 = 8;

/// Kind of an offered epoch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum EpochOffer {
    /// New: to be installed.
    New,
    /// Known; the forwarding half is not ready yet.
    UnderWay,
    /// Known and ready: the peer missed the answer.
    AlreadyReady,
}

#[derive(Debug)]
pub(super) struct ReceiveEpochs {
    newest: u32,
    /// Since when the newest is ready, if it is.
    ready: Option<Instant>,
    /// The newest ready epoch.
    age: Option<EpochAge>,
    /// Fingerprints of the newest secrets, the newest last.
    seen: ArrayVec<IdentifierBlock, REMEMBERED>,
    offers: TokenBucket,
}

impl ReceiveEpochs {
    pub(super) fn new() -> Self {
        Self {
            newest: 0,
            ready: None,
            age: None,
            seen: ArrayVec::new(),
            offers: TokenBucket::new(AT_ONCE, Duration::from_secs(1)),
        }
    }

    /// Forgets the epochs of the generation before. What may be offered does not grow by that.
    pub(super) fn begin_generation(&mut self) {
        *self = Self { offers: self.offers, ..Self::new() };
    }

    /// Handles the offer of an epoch.
    pub(super) fn offer(
        &mut self,
        now: Instant,
        epoch: u32,
        secret: &EpochSecret,
    ) -> Result<EpochOffer, PeerFault> {
        let print = print_of(secret);
        if epoch == self.newest && epoch != 0 {
            return match (self.seen.last() == Some(&print), self.ready) {
                (false, _) => Err(PeerFault::EpochChanged { epoch }),
                (true, None) => Ok(EpochOffer::UnderWay),
                (true, Some(_)) => Ok(EpochOffer::AlreadyReady),
            };
        }
        let in_order =
            self.newest.checked_add(1) == Some(epoch) && (self.newest == 0 || self.ready.is_some());
        if !in_order {
            return Err(PeerFault::EpochOrder { newest: self.newest, told: epoch });
        }
        if self.seen.contains(&print) {
            return Err(PeerFault::SecretRepeated { epoch });
        }
        if !self.offers.take(now) {
            return Err(PeerFault::TooManyEpochs);
        }
        if self.seen.is_full() {
            self.seen.remove(0);
        }
        self.seen.push(print);
        (self.newest, self.ready) = (epoch, None);
        Ok(EpochOffer::New)
    }

    /// Records that the forwarding half is ready for an epoch. True if that was awaited.
    pub(super) fn ready(&mut self, now: Instant, epoch: u32) -> bool {
        let awaited = epoch != 0 && epoch == self.newest && self.ready.is_none();
        if awaited {
            self.ready = Some(now);
            self.age = Some(EpochAge { epoch, since: now });
        }
        awaited
    }

    /// The newest epoch from the peer; 0: none.
    pub(super) fn newest(&self) -> u32 {
        self.newest
    }

    pub(super) fn age(&self) -> Option<EpochAge> {
        self.age
    }
}

/// Fingerprint of a secret, which reveals nothing about it: a block of a lane that no epoch has.
fn print_of(secret: &EpochSecret) -> IdentifierBlock {
    secret.lane_key(u8::MAX).block(0)
}
