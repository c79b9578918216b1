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
    /// All discards, by name.
    pub discards: BTreeMap<String, u64>,
    /// Frames of the machine whose checksum was unfilled, of those that were looked at.
    pub unfilled: u64,
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

    /// Who was never heard is missed at once, and who was heard once may be heard again in minutes.
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
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A link whose counters rise by so much in each second: sent, valid, not valid.
    fn after(seconds: &[(u64, u64, u64)]) -> RecentTraffic {
        let (mut lately, mut counted) = (RecentCounters::default(), Counted::default());
        counted.scs.insert("peer".into(), CountedSc::default());
        lately.look(Duration::ZERO, counted.clone());
        let mut now = Duration::ZERO;
        for (sent, valid, not_valid) in seconds {
            now += Duration::from_secs(1);
            counted.sent += sent;
            let sc = counted.scs.get_mut("peer").unwrap();
            sc.valid += valid;
            sc.not_valid += not_valid;
            *counted.discards.entry("InPktsNotValid".into()).or_default() += not_valid;
            lately.look(now, counted.clone());
        }
        lately.traffic(now)
    }

    #[test]
    fn the_last_valid_frame_is_known_to_the_next_program() {
        let (mut lately, mut counted) = (RecentCounters::default(), Counted::default());
        counted.scs.insert("peer".into(), CountedSc::default());
        lately.look(Duration::ZERO, counted.clone());
        counted.scs.get_mut("peer").unwrap().valid = 5;
        lately.look(Duration::from_secs(7), counted.clone());
        let document = serde_json::to_string(&lately.last_valid()).unwrap();
        let mut next = RecentCounters::going_on(serde_json::from_str(&document).unwrap());
        for look in 0..3 {
            let traffic = next.traffic(Duration::from_secs(9));
            assert_eq!(traffic.valid, Some(Duration::from_secs(2)), "look {look}");
            assert_eq!(traffic.scs[0].valid, Some(Duration::from_secs(2)), "look {look}");
            next.look(Duration::from_secs(9), counted.clone());
        }
        assert_eq!(RecentCounters::going_on(LastValid::default()).traffic(Duration::ZERO).valid, None);
    }

    fn repeated(times: usize, second: (u64, u64, u64)) -> Vec<(u64, u64, u64)> {
        vec![second; times]
    }

    #[test]
    fn the_end_of_a_conversation_waits_for_no_answer() {
        let talk = repeated(10, (5, 5, 0));
        let quiet = |end: &[(u64, u64, u64)]| [&talk[..], end, &repeated(20, (0, 0, 0))].concat();
        assert_eq!(after(&quiet(&[(3, 0, 0)])).unanswered, None, "the last word");
        let later = [repeated(8, (0, 0, 0)), vec![(2, 0, 0)]].concat();
        assert_eq!(after(&quiet(&later)).unanswered, Some(2), "a word into silence");
        let answered = [later, vec![(0, 1, 0)]].concat();
        assert_eq!(after(&quiet(&answered)).unanswered, None);
        assert_eq!(after(&quiet(&[])).valid, Some(Duration::from_secs(20)));
    }

    #[test]
    fn silence_is_told_after_some_seconds_and_forgotten_with_the_last_that_was_sent() {
        assert_eq!(after(&repeated(5, (1, 0, 0))).unanswered, None);
        assert_eq!(after(&repeated(6, (1, 0, 0))).unanswered, Some(6));
        let long = [repeated(6, (1, 0, 0)), repeated(301, (0, 0, 0))].concat();
        assert_eq!(after(&long).unanswered, None);
    }

    /// Each receive SC by itself: a valid frame of one peer says nothing of another.
    #[test]
    fn a_silent_peer_is_seen_beside_one_that_answers() {
        let (mut lately, mut counted) = (RecentCounters::default(), Counted::default());
        for peer in ["there", "gone", "mute", "express"] {
            counted.scs.insert(peer.into(), CountedSc { express: peer == "express", ..CountedSc::default() });
        }
        let mut now = Duration::ZERO;
        lately.look(now, counted.clone());
        let mut after = |seconds: u64, answers: &[&str], sends: bool| {
            for _ in 0..seconds {
                now += Duration::from_secs(1);
                for (name, sc) in &mut counted.scs {
                    sc.sent += u64::from(sends);
                    sc.valid += u64::from(answers.contains(&name.as_str()));
                }
                counted.sent += u64::from(sends);
                lately.look(now, counted.clone());
            }
            let traffic = lately.traffic(now);
            assert_eq!(traffic.unanswered, None, "somebody answers, or nobody is asked");
            let silent = traffic.scs.into_iter().filter(|sc| sc.unanswered.is_some());
            silent.map(|sc| (sc.sci, sc.valid.map(|ago| ago.as_secs()))).collect::<Vec<_>>()
        };
        assert_eq!(after(30, &["there", "gone"], true), []);
        let mute = ("mute".to_owned(), None);
        assert_eq!(after(1, &["there", "gone"], true), [("express".to_owned(), None), mute.clone()]);
        assert_eq!(after(270, &["there", "gone", "express"], true), [mute]);
        // Machines that say something each minute, and others that talk with each other meanwhile.
        let all = ["there", "gone", "mute", "express"];
        assert_eq!(after(1, &all, true), []);
        assert_eq!(after(34, &["there", "express"], true), []);
        assert_eq!(
            after(25, &["there", "express"], true),
            [("gone".to_owned(), Some(59))],
            "it always talked"
        );
        assert_eq!(after(1, &all, true), []);
        for _ in 0..10 {
            assert_eq!(after(59, &["there", "express"], true), [], "quiet for less than a minute");
            assert_eq!(after(1, &all, true), []);
        }
        assert_eq!(after(305, &["there", "mute", "express"], true), [("gone".to_owned(), Some(305))]);
        assert_eq!(after(1, &["there", "gone", "express"], true), [], "it is back");
        assert_eq!(after(400, &[], false), [], "nothing is sent");
    }

    #[test]
    fn what_passes_to_stations_counts_from_the_last_valid_frame_on() {
        let (mut lately, mut now) = (RecentCounters::default(), Duration::ZERO);
        let mut after = |seconds: u64, passed: u64, valid: u64| {
            now += Duration::from_secs(seconds);
            let sc = CountedSc { valid, ..CountedSc::default() };
            let scs = [("peer".to_owned(), sc)].into();
            lately.look(now, Counted { passed, scs, ..Counted::default() });
            lately.traffic(now).passed
        };
        assert_eq!(after(0, 5, 0), None, "before the first look");
        assert_eq!(after(1, 7, 0), Some(2));
        assert_eq!(after(1, 9, 1), None, "a valid frame came");
        assert_eq!(after(4, 12, 1), Some(3));
        assert_eq!(after(31, 12, 1), None, "long ago");
    }

    #[test]
    fn a_few_unfilled_checksums_are_chance_and_many_are_told_for_a_while() {
        let after = |counts: &[u64]| {
            let (mut lately, mut now) = (RecentCounters::default(), Duration::ZERO);
            for unfilled in counts {
                lately.look(now, Counted { unfilled: *unfilled, ..Counted::default() });
                now += Duration::from_secs(1);
            }
            lately.traffic(now).unfilled
        };
        assert_eq!(after(&[7, 7, 7]), None, "before the first look");
        assert_eq!(after(&[0, 1, 2, 3]), None);
        assert_eq!(after(&[0, 1, 2, 4]), Some(4));
        assert_eq!(after(&[&[0, 9][..], &[9; 25]].concat()), Some(9));
        assert_eq!(after(&[&[0, 9][..], &[9; 31]].concat()), None, "mended");
    }

    #[test]
    fn frames_fail_only_where_no_valid_one_comes_between() {
        let count = |seconds: &[(u64, u64, u64)]| {
            after(seconds).failing.first().and_then(|failing| failing.not_valid)
        };
        assert_eq!(count(&[(0, 0, 3)]), Some(3), "from the first one on");
        assert_eq!(count(&repeated(20, (0, 4, 3))), None, "both come");
        assert_eq!(count(&[(0, 1, 0), (0, 0, 2), (0, 0, 2)]), None, "a change of keys");
        assert_eq!(count(&[(0, 1, 0), (0, 0, 2), (0, 0, 2), (0, 0, 2)]), Some(6));
        assert_eq!(count(&[vec![(0, 0, 3)], repeated(30, (0, 0, 0))].concat()), None, "long ago");
        assert_eq!(after(&repeated(20, (0, 4, 3))).discards, [("InPktsNotValid".to_owned(), 33)]);
    }

    /// A peer whose lowest PN is so much in each second, and whose valid frames are so many.
    fn told(seconds: &[(u64, u64)]) -> RecentSc {
        let (mut lately, mut now) = (RecentCounters::default(), Duration::ZERO);
        for (lowest, valid) in seconds {
            let told = Some(("ki".to_owned(), *lowest));
            let sc = CountedSc { valid: *valid, told, ..CountedSc::default() };
            lately.look(now, Counted { scs: [("peer".into(), sc)].into(), ..Counted::default() });
            now += Duration::from_secs(1);
        }
        lately.traffic(now - Duration::from_secs(1)).scs.remove(0)
    }

    #[test]
    fn frames_that_a_peer_tells_of_and_that_do_not_come_are_lost() {
        let lost = |seconds: &[(u64, u64)]| {
            let RecentSc { lost, tells, .. } = told(seconds);
            (lost, tells)
        };
        let rising = |valid: fn(u64) -> u64| (0..20).map(|n| (1 + 2 * n, valid(n))).collect::<Vec<_>>();
        assert_eq!(lost(&repeated_pairs(20, (1, 0))), (None, false), "it sends nothing, or tells nothing");
        assert_eq!(lost(&repeated_pairs(20, (9, 4))), (None, true), "it sends nothing more");
        assert_eq!(lost(&rising(|n| n)), (None, true), "its frames come");
        assert_eq!(lost(&rising(|_| 0)), (Some(38), true));
        assert_eq!(lost(&rising(|n| u64::from(n >= 18))), (None, true), "one comes again");
        // Its PN shows its last frames for some seconds after they have come.
        let tail =
            [vec![(1, 0), (1, 9), (3, 9), (5, 9), (7, 9), (9, 9), (10, 9)], repeated_pairs(9, (10, 9))];
        assert_eq!(lost(&tail.concat()), (None, true));
        // A frame now and then may be lost, and PNs skipped.
        let one = [repeated_pairs(10, (5, 4)), repeated_pairs(10, (6, 4)), repeated_pairs(9, (900, 4))];
        assert_eq!(lost(&one.concat()), (None, true));
        let three = [one.concat(), repeated_pairs(2, (901, 4))].concat();
        assert_eq!(lost(&three), (Some(896), true));
        let long_ago = [three, repeated_pairs(301, (901, 4))].concat();
        assert_eq!(lost(&long_ago), (None, true), "it sends nothing more");
    }

    fn repeated_pairs(times: usize, second: (u64, u64)) -> Vec<(u64, u64)> {
        vec![second; times]
    }

    /// A KI's PNs begin anew.
    #[test]
    fn under_another_sak_a_peers_pns_begin_anew() {
        let of = |ki: &str, lowest| CountedSc { told: Some((ki.into(), lowest)), ..CountedSc::default() };
        assert_eq!(of("a", 9).told_since(&of("a", 4)), 5);
        assert_eq!(of("b", 1).told_since(&of("a", 4)), 0);
        assert_eq!(of("b", 3).told_since(&of("a", 400)), 2);
        assert_eq!(of("b", 3).told_since(&CountedSc::default()), 0, "how far it was is not known");
        assert_eq!(CountedSc::default().told_since(&of("a", 4)), 0);
    }

    /// A link that falls idle behind a change of keys is not red because of what came before.
    #[test]
    fn what_failed_under_another_key_is_forgotten() {
        let (mut lately, mut now) = (RecentCounters::default(), Duration::ZERO);
        let mut look = |key: &str, fails: u64| {
            now += Duration::from_secs(1);
            let sas = vec![(0, key.to_owned())];
            let sc = CountedSc { not_valid: fails, late: fails, sas, ..CountedSc::default() };
            let counted = Counted { no_sa: fails, scs: [("peer".into(), sc)].into(), ..Counted::default() };
            lately.look(now, counted);
            let RecentTraffic { failing, no_sa, .. } = lately.traffic(now);
            (failing.first().and_then(|failing| failing.not_valid), no_sa)
        };
        look("a", 0);
        assert_eq!(look("a", 3), (Some(3), Some(3)));
        assert_eq!(look("a", 3), (Some(3), Some(3)));
        assert_eq!(look("b", 4), (None, None), "the last of them came under the key before");
        assert_eq!(look("b", 4), (None, None));
        assert_eq!(look("b", 6), (Some(2), Some(2)), "under this one");
    }
}
