//! Recent events: from counters, read once a second, to the time of each last event.
//!
//! There is no clock here: times come in, as since the start. A frame that is valid ends what was seen before it: all that
//! is kept of failures came after it. So a link on which valid frames and others come is not one on which nothing fits, and a
//! verdict does not flap with each of them. So does another key: what failed under the one before says nothing of it.
//!
//! **Frames that were lost.** A live peer of key agreement tells the lowest PN that it used in the last two seconds (IEEE 802.1X-2020 clause
//! 9.10.1). If that rises and nothing valid comes of it, its frames do not arrive. If it stands still, there was nothing to arrive: frames may
//! go one way alone.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Time a discard stays in the verdict.
pub const RECENT: Duration = Duration::from_secs(10);
/// Time a peer's failing frames count after the last of them.
const FAILING: Duration = Duration::from_secs(30);
/// Time after a valid frame in which failures do not count: those of a change of keys do for a moment.
const SETTLED: Duration = Duration::from_secs(3);
/// A frame that is sent so long after the last valid one is not the end of a conversation, and waits for an answer.
const ALONE: Duration = Duration::from_secs(5);
/// Time to wait for an answer.
const ANSWER: Duration = Duration::from_secs(5);
/// Time until a frame that came shows in its sender's lowest PN: two seconds, and the interval of MKPDUs, of which one may be lost.
const TOLD_AFTER: Duration = Duration::from_secs(6);
/// Rises of a lowest PN that are no chance: a frame may be lost, and PNs may be skipped.
const ENOUGH_RISES: u32 = 3;
/// Without a frame sent for so long nobody waits for an answer any more.
const FORGOTTEN: Duration = Duration::from_secs(300);
/// Time an unfilled checksum stays in the verdict.
const UNFILLED: Duration = Duration::from_secs(30);
/// Unfilled checksums that are no chance: of frames with a wrong one, one in 65,536 looks like it.
const ENOUGH_UNFILLED: u64 = 4;
/// Time after which a peer counts as silent while others answer, at the least, and of express frames, which come in cycles.
const PATIENCE: Duration = Duration::from_secs(30);
/// The same at the most. What was sent may be for the others alone, and a peer's machines may have nothing to say for minutes.
const LONGEST_PATIENCE: Duration = Duration::from_secs(300);
/// Pauses as long as the longest one so far that a peer has before it counts as silent.
const PAUSES: u32 = 5;
/// Time over which ticks of cover are counted.
const COVERED: Duration = Duration::from_secs(60);
/// Interval between two looks, and some more.
const LOOKED_EVERY: Duration = Duration::from_secs(2);
/// Ticks without a frame that are no chance.
const ENOUGH_MISSED: u64 = 10;
/// For how long valid frames are news.
pub(crate) const FRESH: Duration = Duration::from_secs(60);

/// Counters of a link or a peer.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Counted {
    /// Protected frames that were sent.
    pub sent: u64,
    /// By the SC's SCI.
    pub scs: BTreeMap<String, CountedSc>,
    /// Frames that came in clear and were discarded.
    pub clear: u64,
    /// Frames for which there is no SA.
    pub no_sa: u64,
    /// MACsec frames of unknown SCIs that passed to stations.
    pub passed: u64,
    /// All discards, by name; of a cell also the twins among them ([`super::cell::CLEAR_TWIN`]).
    pub discards: BTreeMap<String, u64>,
    /// Frames of the machine whose checksum was unfilled, of those that were looked at.
    pub unfilled: u64,
    /// Ticks of cover.
    pub cover: CountedCover,
}

/// Counters of cover at a constant rate.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CountedCover {
    /// Frames that left at their tick.
    pub sent: u64,
    /// Ticks without a frame.
    pub missed: u64,
    /// Frames that came and held nothing.
    pub empty: u64,
}

impl CountedCover {
    fn since(self, before: Self) -> Self {
        Self {
            sent: self.sent.saturating_sub(before.sent),
            missed: self.missed.saturating_sub(before.missed),
            empty: self.empty.saturating_sub(before.empty),
        }
    }

    fn and(self, other: Self) -> Self {
        Self {
            sent: self.sent + other.sent,
            missed: self.missed + other.missed,
            empty: self.empty + other.empty,
        }
    }
}

impl Counted {
    /// The SAs of all SCs.
    fn sas(&self) -> impl Iterator<Item = (&String, &Vec<(u8, String)>)> {
        self.scs.iter().map(|(sci, sc)| (sci, &sc.sas))
    }
}

/// Counters of an SC.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct CountedSc {
    /// Verified.
    pub valid: u64,
    /// Their ICV was wrong.
    pub not_valid: u64,
    /// Late, or received before.
    pub late: u64,
    /// Frames that were sent on the own SC of its kind, express or not; 0 where nobody is to answer.
    pub sent: u64,
    /// Of express frames.
    pub express: bool,
    /// Its SAs: AN and key.
    pub sas: Vec<(u8, String)>,
    /// The SAK that its station protects with and the lowest PN that it tells, if it does.
    pub told: Option<(String, u64)>,
}

impl CountedSc {
    /// Frames that its station has sent since, as far as it tells.
    fn told_since(&self, was: &Self) -> u64 {
        match (&was.told, &self.told) {
            (Some((ki, before)), Some((same, now))) if ki == same => now.saturating_sub(*before),
            (Some(_), Some((_, now))) => now.saturating_sub(1),
            _ => 0,
        }
    }
}

/// Frames that did not fit, since the last one that did.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Misfits {
    count: u64,
    last: Option<Duration>,
}

impl Misfits {
    fn add(&mut self, now: Duration, count: u64) {
        if count > 0 {
            self.count += count;
            self.last = Some(now);
        }
    }

    /// Their number, if they count: the last came not long ago, and well after the last valid frame.
    fn of(self, now: Duration, valid: Option<Duration>) -> Option<u64> {
        let last = self.last.filter(|last| now.saturating_sub(*last) < FAILING)?;
        let settled = valid.is_none_or(|valid| last >= valid + SETTLED);
        settled.then_some(self.count)
    }
}

/// Frames that a station has sent, by its word, and that did not come.
#[derive(Clone, Copy, Debug, Default)]
struct Lost {
    /// The first and the last rise of its lowest PN.
    times: Option<(Duration, Duration)>,
    rises: u32,
    frames: u64,
}

impl Lost {
    fn add(&mut self, now: Duration, frames: u64) {
        if frames > 0 {
            self.times = Some((self.times.map_or(now, |(first, _)| first), now));
            self.rises = self.rises.saturating_add(1);
            self.frames = self.frames.saturating_add(frames);
        }
    }

    /// Their number, if they are no chance.
    fn of(self, now: Duration) -> Option<u64> {
        let (first, last) = self.times?;
        let ago = |then: Duration| now.saturating_sub(then);
        let counts = self.rises >= ENOUGH_RISES && ago(first) >= ANSWER && ago(last) < FORGOTTEN;
        counts.then_some(self.frames)
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct Sc {
    valid: Option<Duration>,
    /// The longest time between two valid frames.
    pause: Option<Duration>,
    not_valid: Misfits,
    late: Misfits,
    sent: Option<Duration>,
    unanswered: Option<(Duration, u64)>,
    /// Its station has told a lowest PN that is not the first.
    tells: bool,
    lost: Lost,
}

impl Sc {
    /// Takes what is counted by now. True if valid frames came.
    fn look(&mut self, now: Duration, was: &CountedSc, is: &CountedSc) -> bool {
        let came = is.valid > was.valid;
        self.tells |= is.told.as_ref().is_some_and(|(_, lowest)| *lowest > 1);
        if came {
            let pause = self.valid.map(|valid| now.saturating_sub(valid)).max(self.pause);
            let Self { sent, tells, .. } = *self;
            *self = Self { valid: Some(now), pause, sent, tells, ..Self::default() };
        } else if is.sas != was.sas {
            (self.not_valid, self.late, self.lost) = Default::default();
        } else {
            self.not_valid.add(now, is.not_valid.saturating_sub(was.not_valid));
            self.late.add(now, is.late.saturating_sub(was.late));
            if self.valid.is_none_or(|valid| now >= valid + TOLD_AFTER) {
                self.lost.add(now, is.told_since(was));
            }
        }
        let sent = is.sent.saturating_sub(was.sent);
        if sent > 0 {
            self.sent = Some(now);
            if self.valid.is_none_or(|valid| now >= valid + ALONE) {
                self.unanswered.get_or_insert((now, 0)).1 += sent;
            }
        }
        came
    }

    /// Returns the longest wait for valid frames. An SC that was never heard is missed at once; one that was heard once may be heard
    /// again in minutes.
    fn patience(&self) -> Duration {
        match (self.valid, self.pause) {
            (None, _) => PATIENCE,
            (Some(_), None) => LONGEST_PATIENCE,
            (Some(_), Some(pause)) => (PAUSES * pause).clamp(PATIENCE, LONGEST_PATIENCE),
        }
    }

    fn recent(&self, sci: &str, express: bool, now: Duration) -> RecentSc {
        let patience = if express { PATIENCE } else { self.patience() };
        let ago = |then: Duration| now.saturating_sub(then);
        let is_waited_for = self.sent.is_some_and(|sent| ago(sent) < FORGOTTEN);
        let unanswered = self.unanswered.filter(|(first, _)| ago(*first) >= patience && is_waited_for);
        RecentSc {
            sci: sci.to_owned(),
            valid: self.valid.map(ago),
            unanswered: unanswered.map(|(_, count)| count),
            tells: self.tells,
            lost: self.lost.of(now),
            may_lack: self.lost.rises > 0,
        }
    }
}

/// Moments of the last valid frames.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct LastValid {
    any: Option<Duration>,
    /// By the SC's SCI.
    scs: BTreeMap<String, Duration>,
}

/// Recent activity of a link, or of a peer of a site.
#[derive(Clone, Debug, Default)]
pub struct RecentCounters {
    began: Option<Duration>,
    before: Counted,
    scs: BTreeMap<String, Sc>,
    valid: Option<Duration>,
    sent: Option<Duration>,
    /// The first frame that was sent with nobody there, and how many.
    unanswered: Option<(Duration, u64)>,
    clear: Misfits,
    no_sa: Misfits,
    passed: Misfits,
    /// Discards of each second.
    discards: VecDeque<(Duration, BTreeMap<String, u64>)>,
    /// Unfilled checksums in each second.
    unfilled: VecDeque<(Duration, u64)>,
    /// Cover in each second, since it is on.
    cover: VecDeque<(Duration, CountedCover)>,
}

/// Failures of one SC's frames.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FailingSc {
    /// Its SCI.
    pub sci: String,
    /// Frames with a wrong ICV since its last valid frame; none if others failed.
    pub not_valid: Option<u64>,
    /// Late frames.
    pub late: Option<u64>,
}

/// Silence of one SC.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct RecentSc {
    /// Its SCI.
    pub sci: String,
    /// Time since its last valid frame; none if none came.
    pub valid: Option<Duration>,
    /// Number of frames sent without a valid frame of this SC since, the first of them half a minute ago, or up to five minutes if it has had
    /// long pauses before.
    pub unanswered: Option<u64>,
    /// Its station is known to tell its lowest PN.
    pub tells: bool,
    /// Its lowest PN has risen since, at least once: a frame may be under way, or lost.
    pub may_lack: bool,
    /// Number of frames that its station has sent since, by the lowest PN that it tells, and none of which came.
    pub lost: Option<u64>,
}

/// Traffic until now, as a verdict is made of it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct RecentTraffic {
    /// For how long it has been looked at.
    pub watched: Duration,
    /// Time since the last valid frame; none if none came.
    pub valid: Option<Duration>,
    /// Number of frames sent, the first of them long enough ago, without a valid frame since.
    pub unanswered: Option<u64>,
    /// SCs of which nothing but failing frames comes.
    pub failing: Vec<FailingSc>,
    /// Each SC by itself.
    pub scs: Vec<RecentSc>,
    /// Frames in clear since the last valid one.
    pub clear: Option<u64>,
    /// Frames without an SA since the last valid one.
    pub no_sa: Option<u64>,
    /// MACsec frames of unknown SCIs that passed to stations since the last valid one.
    pub passed: Option<u64>,
    /// Discards of the last ten seconds, the most first.
    pub discards: Vec<(String, u64)>,
    /// Unfilled checksums of the last half minute, if they are no chance.
    pub unfilled: Option<u64>,
    /// Ticks without a frame of those of the last minute, and all of them, if more than one in a hundred is missed.
    pub ticks_missed: Option<(u64, u64)>,
    /// Cover has left for a minute, and no frame has come that held nothing.
    pub is_cover_alone: bool,
}

impl RecentTraffic {
    /// Valid frames came in the last minute.
    pub fn is_fresh(&self) -> bool {
        self.valid.is_some_and(|ago| ago < FRESH)
    }
}

impl RecentCounters {
    /// Takes what is counted by now. What is there at the first look is no news.
    pub fn look(&mut self, now: Duration, counted: Counted) {
        let before = std::mem::replace(&mut self.before, counted);
        if self.began.is_none() {
            self.began = Some(now);
            return;
        }
        let counted = &self.before;
        let mut any_valid = false;
        self.scs.retain(|sci, _| counted.scs.contains_key(sci));
        for (sci, is) in &counted.scs {
            let new = CountedSc::default();
            let was = before.scs.get(sci).unwrap_or(&new);
            any_valid |= self.scs.entry(sci.clone()).or_default().look(now, was, is);
        }
        let sent = counted.sent.saturating_sub(before.sent);
        if sent > 0 {
            self.sent = Some(now);
        }
        if any_valid {
            self.valid = Some(now);
            self.unanswered = None;
            (self.clear, self.no_sa, self.passed) = Default::default();
        } else {
            self.clear.add(now, counted.clear.saturating_sub(before.clear));
            if counted.sas().eq(before.sas()) {
                self.no_sa.add(now, counted.no_sa.saturating_sub(before.no_sa));
            } else {
                self.no_sa = Misfits::default();
            }
            self.passed.add(now, counted.passed.saturating_sub(before.passed));
            let alone = self.valid.is_none_or(|valid| now >= valid + ALONE);
            if sent > 0 && alone {
                self.unanswered.get_or_insert((now, 0)).1 += sent;
            }
        }
        let more = |(name, count): (&String, &u64)| {
            let more = count.saturating_sub(before.discards.get(name).copied().unwrap_or(0));
            (more > 0).then(|| (name.clone(), more))
        };
        let discards: BTreeMap<_, _> = counted.discards.iter().filter_map(more).collect();
        if !discards.is_empty() {
            self.discards.push_back((now, discards));
        }
        let unfilled = counted.unfilled.saturating_sub(before.unfilled);
        if unfilled > 0 {
            self.unfilled.push_back((now, unfilled));
        }
        // Ticks without any frame are those of a link that has no key, or no cover any more.
        let cover = counted.cover.since(before.cover);
        match cover.sent {
            0 => self.cover.clear(),
            _ => self.cover.push_back((now, cover)),
        }
        while self.cover.front().is_some_and(|(at, _)| now.saturating_sub(*at) > COVERED) {
            self.cover.pop_front();
        }
        while self.unfilled.front().is_some_and(|(at, _)| now.saturating_sub(*at) > UNFILLED) {
            self.unfilled.pop_front();
        }
        while self.discards.front().is_some_and(|(at, _)| now.saturating_sub(*at) > RECENT) {
            self.discards.pop_front();
        }
    }

    /// Moments of the last valid frames, for a program that goes on counting.
    pub fn last_valid(&self) -> LastValid {
        let scs = self.scs.iter().filter_map(|(sci, sc)| Some((sci.clone(), sc.valid?)));
        LastValid { any: self.valid, scs: scs.collect() }
    }

    /// Begins where a program before has counted. Its time goes on.
    pub fn going_on(last: LastValid) -> Self {
        let sc = |(sci, valid)| (sci, Sc { valid: Some(valid), ..Sc::default() });
        Self { valid: last.any, scs: last.scs.into_iter().map(sc).collect(), ..Self::default() }
    }

    fn is_express(&self, sci: &str) -> bool {
        self.before.scs.get(sci).is_some_and(|counted| counted.express)
    }

    /// Figures that a verdict is made of.
    pub fn traffic(&self, now: Duration) -> RecentTraffic {
        let ago = |then: Duration| now.saturating_sub(then);
        let is_waited_for = self.sent.is_some_and(|sent| ago(sent) < FORGOTTEN);
        let unanswered = self.unanswered.filter(|(first, _)| ago(*first) >= ANSWER && is_waited_for);
        let failing = self.scs.iter().filter_map(|(sci, sc)| {
            let [not_valid, late] = [sc.not_valid, sc.late].map(|misfits| misfits.of(now, sc.valid));
            (not_valid.is_some() || late.is_some()).then(|| FailingSc { sci: sci.clone(), not_valid, late })
        });
        let mut discards: BTreeMap<&String, u64> = BTreeMap::new();
        let recent = self.discards.iter().filter(|(at, _)| ago(*at) <= RECENT);
        for (name, count) in recent.flat_map(|(_, discards)| discards) {
            *discards.entry(name).or_default() += count;
        }
        let mut discards: Vec<_> = discards.into_iter().map(|(name, count)| (name.clone(), count)).collect();
        discards.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        let unfilled =
            self.unfilled.iter().filter(|(at, _)| ago(*at) <= UNFILLED).map(|(_, count)| count).sum();
        let cover = self.cover.iter().fold(CountedCover::default(), |sum, (_, cover)| sum.and(*cover));
        let ticks = cover.sent + cover.missed;
        let is_gappy = cover.missed >= ENOUGH_MISSED && 100 * cover.missed > ticks;
        let is_whole = self.cover.front().is_some_and(|(at, _)| ago(*at) + LOOKED_EVERY >= COVERED);
        RecentTraffic {
            watched: self.began.map(ago).unwrap_or_default(),
            valid: self.valid.map(ago),
            unanswered: unanswered.map(|(_, count)| count),
            failing: failing.collect(),
            scs: self.scs.iter().map(|(sci, sc)| sc.recent(sci, self.is_express(sci), now)).collect(),
            clear: self.clear.of(now, self.valid),
            no_sa: self.no_sa.of(now, self.valid),
            passed: self.passed.of(now, self.valid),
            discards,
            unfilled: Some(unfilled).filter(|unfilled| *unfilled >= ENOUGH_UNFILLED),
            ticks_missed: is_gappy.then_some((cover.missed, ticks)),
            is_cover_alone: is_whole && cover.empty == 0,
        }
    }
}

#[cfg(test)]
mod tests;
