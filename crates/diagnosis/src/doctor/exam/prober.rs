//! The own probes, in their order: targets, a priority tag, sizes by bisection, a stream. Each but the stream's is sent
//! again until it is echoed, a bounded number of times, so that a lost frame is not taken for one that never crosses.

use std::time::Duration;

use super::super::frame::{LEAST_OCTETS, Purpose, Stage, Tag};
use super::super::targets::TARGETS;

/// Attempts before a probe counts as one that does not cross. At 10 % loss each way, six in a row are lost once in
/// 20,000.
const ATTEMPTS: u32 = 6;
/// Spacing between attempts.
const AGAIN: Duration = Duration::from_millis(150);
/// Time the last attempt's echo may take.
const ECHO_PATIENCE: Duration = Duration::from_millis(500);
/// Time the last frame may be on its way before the counters are final.
const SETTLE: Duration = Duration::from_secs(1);
/// Octets of a message in an envelope that are certain to fit: what every status has.
const CERTAIN: u16 = LEAST_OCTETS as u16;

/// The fate of priority tags on the way.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum TagFate {
    /// It was not tried to the end.
    #[default]
    Unknown = 0,
    /// They arrive.
    Kept = 1,
    /// The frame arrives without.
    TakenOff = 2,
    /// The frame does not arrive.
    Dropped = 3,
}

/// Results of the own probes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Probed {
    /// Targets tried to the end, as bits.
    pub tried: u16,
    /// Those that crossed.
    pub crossed: u16,
    /// The fate of priority tags.
    pub tag: TagFate,
    /// The largest MTU that crossed, if it is known.
    pub largest: Option<u16>,
    /// Stream probes sent; 0 until all are.
    pub sent: u32,
}

/// A probe to be sent.
#[derive(Clone, Copy, Debug)]
pub(super) struct Probe {
    pub(super) purpose: Purpose,
    pub(super) number: u32,
    /// Behind DA, SA and EtherType.
    pub(super) octets: u16,
}

#[derive(Clone, Copy, Debug)]
enum Phase {
    Waiting,
    /// All targets that are not echoed, round by round; the tag is the one behind the last.
    Targets {
        round: u32,
        index: u8,
    },
    /// `low` is known to cross; `high` is not known to.
    Sizes {
        low: u16,
        high: u16,
        trying: u16,
        attempts: u32,
    },
    Stream {
        next: u32,
    },
    Settling,
    Finished,
}

#[derive(Debug)]
pub(super) struct Prober {
    mtu: u16,
    probes: u32,
    pause: Duration,
    phase: Phase,
    due: Duration,
    /// Number of the size that is tried, so that a late echo of another size does not count.
    size_number: u32,
    probed: Probed,
}

impl Prober {
    pub(super) fn new(mtu: u16, probes: u32, pause: Duration) -> Self {
        let (phase, due) = (Phase::Waiting, Duration::ZERO);
        Self { mtu, probes, pause, phase, due, size_number: 0, probed: Probed::default() }
    }

    pub(super) fn begin(&mut self, now: Duration) {
        self.phase = Phase::Targets { round: 0, index: 0 };
        self.due = now;
    }

    pub(super) fn stage(&self) -> Stage {
        match self.phase {
            Phase::Waiting => Stage::Waiting,
            Phase::Finished => Stage::Finished,
            _ => Stage::Probing,
        }
    }

    pub(super) fn phase(&self) -> &'static str {
        match self.phase {
            Phase::Waiting => "waiting",
            Phase::Targets { .. } => "trying addresses and EtherTypes",
            Phase::Sizes { .. } => "looking for the largest frame that crosses",
            Phase::Stream { .. } | Phase::Settling => "counting lost, duplicate and reordered frames",
            Phase::Finished => "finished",
        }
    }

    pub(super) fn probed(&self) -> Probed {
        self.probed
    }

    pub(super) fn poll_timeout(&self) -> Option<Duration> {
        (!matches!(self.phase, Phase::Waiting | Phase::Finished)).then_some(self.due)
    }

    pub(super) fn handle_echo(&mut self, now: Duration, purpose: Purpose, number: u32, tag: Tag) {
        match (purpose, self.phase) {
            (Purpose::Target(index), _) if usize::from(index) < TARGETS.len() => {
                self.probed.crossed |= 1 << index;
            }
            (Purpose::Tag, _) => {
                self.probed.tag = if tag == Tag::None { TagFate::TakenOff } else { TagFate::Kept };
            }
            (Purpose::Size, Phase::Sizes { high, trying, .. }) if number == self.size_number => {
                self.bisect(now, trying, high);
            }
            _ => {}
        }
    }

    /// The next probe, if it is due.
    pub(super) fn poll_transmit(&mut self, now: Duration) -> Option<Probe> {
        // Each turn either sends a probe or goes to a later phase. There are few phases.
        while now >= self.due {
            match self.phase {
                Phase::Waiting | Phase::Finished => return None,
                Phase::Targets { round, index } => {
                    if let Some(probe) = self.next_target(now, round, index) {
                        return Some(probe);
                    }
                }
                Phase::Sizes { low, high, trying, attempts } => {
                    if attempts == ATTEMPTS {
                        // Not echoed: it does not cross.
                        self.bisect(now, low, trying.min(high).saturating_sub(1));
                        continue;
                    }
                    let last = attempts + 1 == ATTEMPTS;
                    self.phase = Phase::Sizes { low, high, trying, attempts: attempts + 1 };
                    self.due = now + if last { ECHO_PATIENCE } else { AGAIN };
                    return Some(Probe { purpose: Purpose::Size, number: self.size_number, octets: trying });
                }
                Phase::Stream { next } if next == self.probes => {
                    self.probed.sent = next;
                    self.phase = Phase::Settling;
                    self.due = now + SETTLE;
                }
                Phase::Stream { next } => {
                    self.phase = Phase::Stream { next: next + 1 };
                    self.due = now + self.pause;
                    return Some(Probe {
                        purpose: Purpose::Stream,
                        number: next,
                        octets: self.stream_octets(next),
                    });
                }
                Phase::Settling => {
                    self.phase = Phase::Finished;
                }
            }
        }
        None
    }

    /// Short, middling and full frames by turns.
    fn stream_octets(&self, number: u32) -> u16 {
        let largest = self.probed.largest.unwrap_or(CERTAIN);
        match number % 3 {
            0 => CERTAIN,
            1 => largest.min(600),
            _ => largest,
        }
    }

    fn next_target(&mut self, now: Duration, round: u32, index: u8) -> Option<Probe> {
        let tag_index = TARGETS.len() as u8;
        if index > tag_index {
            self.end_round(now, round);
            return None;
        }
        let echoed = match index == tag_index {
            true => self.probed.tag != TagFate::Unknown,
            false => self.probed.crossed & (1 << index) != 0,
        };
        self.phase = Phase::Targets { round, index: index + 1 };
        if echoed {
            return None;
        }
        self.due = now + self.pause;
        let purpose = if index == tag_index { Purpose::Tag } else { Purpose::Target(index) };
        Some(Probe { purpose, number: round, octets: CERTAIN })
    }

    fn end_round(&mut self, now: Duration, round: u32) {
        let all = ((1_u32 << TARGETS.len()) - 1) as u16;
        let missing = self.probed.crossed != all || self.probed.tag == TagFate::Unknown;
        if missing && round < ATTEMPTS {
            // The round behind the last sends nothing: it is the patience for the last echoes.
            let last = round + 1 == ATTEMPTS;
            self.due = now + if last { ECHO_PATIENCE } else { AGAIN };
            self.phase = if last {
                Phase::Targets { round: ATTEMPTS, index: u8::MAX }
            } else {
                Phase::Targets { round: round + 1, index: 0 }
            };
            return;
        }
        self.probed.tried = all;
        if self.probed.tag == TagFate::Unknown {
            self.probed.tag = TagFate::Dropped;
        }
        // The full size first: mostly it crosses, and nothing is left to look for.
        self.size_number = 1;
        let low = CERTAIN.min(self.mtu);
        self.phase = Phase::Sizes { low, high: self.mtu, trying: self.mtu, attempts: 0 };
        self.due = now;
    }

    /// Goes on between the largest size that crosses and the largest that may.
    fn bisect(&mut self, now: Duration, low: u16, high: u16) {
        self.size_number += 1;
        self.due = now;
        if low >= high {
            self.probed.largest = Some(low);
            self.phase = Phase::Stream { next: 0 };
        } else {
            let trying = low + (high - low).div_ceil(2);
            self.phase = Phase::Sizes { low, high, trying, attempts: 0 };
        }
    }
}
