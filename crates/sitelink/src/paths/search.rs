//! The largest UDP payload that a path carries, found by requests with filling. Without a clock.
//!
//! All that QUIC needs is carried ([`FLOOR`]). The largest wanted one is tried first, then the middle between what is carried and
//! what is not. What was found is tried again and again: a path may come to carry less. Nothing that a router says is believed.

use std::time::Duration;

use wire::Instant;

use super::super::transport::FLOOR;

/// Requests of one length that have to be lost until the path does not carry it.
const FAILURES: u8 = 3;
/// Interval at which the payload that was found is tried.
const AGAIN: Duration = Duration::from_secs(1);
/// Interval at which a larger one is looked for.
const LARGER: Duration = Duration::from_secs(120);

/// The search on one path.
#[derive(Debug)]
pub(super) struct PayloadSearch {
    /// The largest payload that is wanted.
    most: u16,
    carried: u16,
    /// The smallest that is not carried.
    refused: u16,
    /// Length of the request under way, and how many of it were lost before.
    under_way: Option<u16>,
    failures: u8,
    /// Moment of the last outcome, and of the end of a search.
    tried: Option<Instant>,
    ended: Option<Instant>,
}

impl PayloadSearch {
    pub(super) fn new(most: u16) -> Self {
        let most = most.max(FLOOR);
        Self {
            most,
            carried: FLOOR,
            refused: most + 1,
            under_way: None,
            failures: 0,
            tried: None,
            ended: None,
        }
    }

    /// There is another connection, on which no request is under way. What was found is tried anew.
    pub(super) fn begin(&mut self) {
        (self.under_way, self.failures, self.tried) = (None, 0, None);
    }

    /// The largest payload that is known to be carried.
    pub(super) const fn carried(&self) -> u16 {
        self.carried
    }

    /// Length of the next request, if one is due; then [`Self::hear`] is to be told its outcome.
    pub(super) fn next(&mut self, now: Instant) -> Option<u16> {
        if self.under_way.is_some() {
            return None;
        }
        if self.refused <= self.carried + 1 {
            let ended = *self.ended.get_or_insert(now);
            if now.since(ended) >= LARGER && self.carried < self.most {
                (self.refused, self.ended) = (self.most + 1, None);
            } else if self.carried == FLOOR || self.tried.is_some_and(|tried| now.since(tried) < AGAIN) {
                return None;
            } else {
                self.under_way = Some(self.carried);
                return self.under_way;
            }
        }
        let whole = self.refused > self.most;
        let length = if whole { self.most } else { self.carried + (self.refused - self.carried) / 2 };
        self.under_way = Some(length);
        self.under_way
    }

    /// Outcome of a request. `alive`: short ones are answered meanwhile; if not, it says nothing.
    pub(super) fn hear(&mut self, now: Instant, length: u16, answered: bool, alive: bool) {
        if self.under_way != Some(length) {
            return;
        }
        (self.under_way, self.tried) = (None, Some(now));
        if answered {
            (self.carried, self.failures) = (self.carried.max(length), 0);
        } else if alive {
            self.failures += 1;
            if self.failures == FAILURES {
                self.failures = 0;
                if length == self.carried {
                    // The path carries less than it did.
                    (self.carried, self.ended) = (FLOOR, None);
                }
                self.refused = length;
            }
        }
    }
}
