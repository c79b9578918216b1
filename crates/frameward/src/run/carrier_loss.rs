//! Link-loss forwarding: a side that has lost its carrier takes the other side down, as one cable would.
//!
//! ```text
//!  carrier of the protected side lost ──▶ plain side held down        (forward, both)
//!  carrier of the plain side lost     ──▶ protected side held down    (both)
//!  carrier back                       ──▶ the side that is held down comes up again
//! ```
//!
//! A side that is held down has no carrier of its own, and says nothing by it. So at most one side is held down, and
//! what it waits for is always the other one's carrier, never its own: two gateways in a row, or at the two ends of a
//! network, cannot wait for each other. A side that has just been brought up needs time to find its neighbour, during
//! which its missing carrier is no loss; without that, two gateways would take each other down for ever.
//!
//! There is no clock here: times come in.

use std::time::{Duration, Instant};

use config::LinkLoss;

/// Time a carrier must be away before it counts as lost.
const LOST_AFTER: Duration = Duration::from_millis(40);
/// Time a carrier must be there before it counts as back. Longer: a cable that is being plugged in comes and goes.
const BACK_AFTER: Duration = Duration::from_millis(500);
/// Time a side that was brought up may be without a carrier: copper negotiates for some seconds.
const SETTLE: Duration = Duration::from_secs(6);

/// A side of a link.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Side {
    Plain,
    Protected,
}

impl Side {
    pub(super) const BOTH: [Self; 2] = [Self::Plain, Self::Protected];

    pub(super) const fn index(self) -> usize {
        match self {
            Self::Plain => 0,
            Self::Protected => 1,
        }
    }

    pub(super) const fn other(self) -> Self {
        match self {
            Self::Plain => Self::Protected,
            Self::Protected => Self::Plain,
        }
    }
}

/// Side of a link that is to be held down.
#[derive(Debug)]
pub(super) struct LossForwarding {
    rule: LinkLoss,
    held: Option<Side>,
    held_since: Instant,
    carriers: [Carrier; 2],
}

#[derive(Clone, Copy, Debug)]
struct Carrier {
    there: bool,
    /// Since when it is there, or is not.
    since: Instant,
    /// Until then its absence is no loss.
    settles_at: Instant,
}

impl LossForwarding {
    /// Of a link whose sides have just been brought up.
    pub(super) fn new(rule: LinkLoss, now: Instant) -> Self {
        let carrier = Carrier { there: false, since: now, settles_at: now + SETTLE };
        Self { rule, held: None, held_since: now, carriers: [carrier; 2] }
    }

    /// Another rule, from now on.
    pub(super) fn set_rule(&mut self, rule: LinkLoss) {
        self.rule = rule;
    }

    /// A side has just been brought up for another reason, such as that its interface is back.
    pub(super) fn settle(&mut self, side: Side, now: Instant) {
        self.carriers[side.index()] = Carrier { there: false, since: now, settles_at: now + SETTLE };
    }

    /// The side that is held down, if one is.
    pub(super) const fn held(&self) -> Option<Side> {
        self.held
    }

    /// Since when a side is held down, or none is.
    pub(super) const fn held_since(&self) -> Instant {
        self.held_since
    }

    /// Takes what is seen of both carriers (plain, protected), and decides.
    pub(super) fn turn(&mut self, now: Instant, there: [bool; 2]) {
        for (carrier, there) in self.carriers.iter_mut().zip(there) {
            if carrier.there != there {
                (carrier.there, carrier.since) = (there, now);
            }
            if there {
                carrier.settles_at = now;
            }
        }
        let before = self.held;
        self.held = match self.held {
            Some(side) if !self.answers(side.other()) || self.is_back(side.other(), now) => {
                self.settle(side, now);
                None
            }
            Some(side) => Some(side),
            None => [Side::Protected, Side::Plain]
                .into_iter()
                .find(|&side| self.answers(side) && self.is_lost(side, now))
                .map(Side::other),
        };
        if self.held != before {
            self.held_since = now;
        }
    }

    /// Whether the loss of this side's carrier is forwarded.
    fn answers(&self, side: Side) -> bool {
        match self.rule {
            LinkLoss::Off => false,
            LinkLoss::Forward => side == Side::Protected,
            LinkLoss::Both => true,
        }
    }

    fn is_lost(&self, side: Side, now: Instant) -> bool {
        let Carrier { there, since, settles_at } = self.carriers[side.index()];
        !there && now >= settles_at && now.duration_since(since) >= LOST_AFTER
    }

    fn is_back(&self, side: Side, now: Instant) -> bool {
        let Carrier { there, since, .. } = self.carriers[side.index()];
        there && now.duration_since(since) >= BACK_AFTER
    }
}

#[cfg(test)]
mod tests;
