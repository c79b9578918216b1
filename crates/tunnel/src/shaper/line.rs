//! The line as a clock: the moment at which all that was sent has left it (the generic cell rate algorithm).

use core::time::Duration;

use wire::Instant;

/// A line of some rate. Moments are nanoseconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Line {
    bits_per_second: u64,
    /// When all that was sent has left.
    free_at: u64,
}

impl Line {
    pub(super) const fn new(bits_per_second: u64) -> Self {
        let bits_per_second = if bits_per_second == 0 { 1 } else { bits_per_second };
        Self { bits_per_second, free_at: 0 }
    }

    /// Nanoseconds that so many octets take. Rounded up: the rate is never exceeded.
    pub(super) const fn time(&self, octets: usize) -> u64 {
        (octets as u64).saturating_mul(8_000_000_000).div_ceil(self.bits_per_second)
    }

    /// Octets that leave in this time.
    pub(super) const fn octets(&self, time: Duration) -> usize {
        let octets = time.as_nanos().saturating_mul(self.bits_per_second as u128) / 8_000_000_000;
        if octets > usize::MAX as u128 { usize::MAX } else { octets as usize }
    }

    /// Sends octets. An idle line saves up nothing.
    pub(super) fn charge(&mut self, now: u64, octets: usize) {
        self.charge_time(now, self.time(octets));
    }

    /// Sends for so many nanoseconds.
    pub(super) fn charge_time(&mut self, now: u64, time: u64) {
        self.free_at = self.free_at.max(now).saturating_add(time);
    }

    /// Sends what leaves the line no further ahead than `most` nanoseconds. Returns the time that this takes.
    pub(super) fn charge_at_most(&mut self, now: u64, octets: u64, most: u64) -> u64 {
        let before = self.free_at.max(now);
        self.charge(now, usize::try_from(octets).unwrap_or(usize::MAX));
        self.free_at = self.free_at.min(before.max(now.saturating_add(most)));
        self.free_at - before
    }

    /// Whether no more was sent than leaves within this time from now.
    pub(super) fn is_within(&self, now: u64, ahead: Duration) -> bool {
        self.free_at <= now.saturating_add(as_nanoseconds(ahead))
    }

    /// The moment from which on it is.
    pub(super) fn due(&self, ahead: Duration) -> u64 {
        self.free_at.saturating_sub(as_nanoseconds(ahead))
    }
}

/// Nanoseconds of a time, which is short.
pub(super) const fn as_nanoseconds(time: Duration) -> u64 {
    time.as_nanos() as u64
}

/// A moment in nanoseconds.
pub(super) const fn nanoseconds(moment: Instant) -> u64 {
    (moment.since(Instant::START).as_micros() as u64).saturating_mul(1000)
}

/// The first moment that is not before so many nanoseconds.
pub(super) const fn instant(nanoseconds: u64) -> Instant {
    Instant::after_start(Duration::from_micros(nanoseconds.div_ceil(1000)))
}
