//! A flow: frames with the same addresses and the same identification, and how often they come.
//!
//! The cycle is found in this order:
//!
//! 1. the CycleCounter of PROFINET's frames, in units of 31.25 us, if it agrees with the intervals: exact, whatever the capture does;
//! 2. the median of the latest intervals, which lost frames and bursts do not move, rounded to a cycle that PROFINET has.

use std::fmt;
use std::time::Duration;

use wire::MacAddr;
use wire::fieldbus::{FrameId, Protocol};

/// Latest intervals that are kept.
const KEPT: usize = 256;
/// Fewest intervals that say anything.
const LEAST: usize = 16;
/// Intervals of a hundred that are between half and one and a half of the median, if frames are cyclic. Of frames that come at random it is 35.
pub const CONFIDENT_PERCENT: usize = 75;
/// PROFINET's unit of time, and the longest cycle that a cell takes.
const CLOCK: Duration = Duration::from_nanos(31_250);
const LONGEST: Duration = Duration::from_millis(512);
/// A flow has ended if nothing of it came for so long before the end, and for so many cycles.
const SILENCE: Duration = Duration::from_secs(1);
const SILENT_CYCLES: u32 = 20;

/// The fieldbus of a flow, and what names the flow there.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Stream {
    /// The fieldbus.
    pub protocol: Protocol,
    /// FrameID, APPID, or whatever else identifies its frames.
    pub id: FrameId,
}

impl fmt::Display for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self.protocol {
            Protocol::Profinet => "PROFINET",
            Protocol::Goose => "GOOSE",
            Protocol::SampledValues => "sampled values",
            Protocol::Powerlink => "POWERLINK",
            Protocol::EtherCat => "EtherCAT",
            Protocol::Sercos => "SERCOS III",
            Protocol::EtherNetIp => return f.write_str("EtherNet/IP"),
            Protocol::ModbusTcp => return f.write_str("Modbus TCP"),
        };
        write!(f, "{name} {}", self.id)
    }
}

/// The frames that belong together.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct FlowKey {
    /// Fieldbus and identification.
    pub stream: Stream,
    /// Address of their sender.
    pub source: MacAddr,
    /// Address of their receiver.
    pub destination: MacAddr,
    /// Number of the interface where they were heard.
    pub interface: usize,
}

/// Facts of one frame.
#[derive(Clone, Copy, Debug)]
pub struct Seen {
    /// Time of the frame, if it is known.
    pub time: Option<Duration>,
    /// Its octets.
    pub octets: usize,
    /// TCI of its outermost VLAN tag.
    pub tag: Option<u16>,
    /// Number of its VLAN tags.
    pub tags: usize,
    /// The CycleCounter, if it has one.
    pub counter: Option<u16>,
}

/// Between two frames.
#[derive(Clone, Copy, Debug)]
struct Step {
    time: Duration,
    /// Units of 31.25 us that the CycleCounter advanced.
    counted: Option<u16>,
}

/// A flow, as far as it is remembered.
#[derive(Clone, Debug)]
pub struct Flow {
    /// Frames.
    pub frames: u64,
    /// Octets of its shortest frame and of its longest.
    pub octets: [usize; 2],
    /// TCI of the outermost VLAN tag of its latest frame.
    pub tag: Option<u16>,
    /// Most VLAN tags of a frame.
    pub tags: usize,
    last: Option<Duration>,
    counter: Option<u16>,
    steps: Vec<Step>,
    next: usize,
}

/// Source of a cycle, the most certain last.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Origin {
    /// By the time between frames.
    Timing,
    /// By the CycleCounter in the frames.
    Counter,
    /// By what controller and device agreed on.
    Connect,
}

/// Frames that come in a cycle.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rhythm {
    /// Time between two of them.
    pub cycle: Duration,
    /// Its source.
    pub origin: Origin,
    /// Nine of ten intervals deviate from it by no more.
    pub jitter: Duration,
}

/// Reason for which frames are not cyclic.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Irregular {
    /// Too few of them.
    Few,
    /// Their intervals differ: so many of a hundred are near the median.
    Intervals(usize),
    /// Their cycle is none that a cell takes.
    Cycle(Duration),
    /// They ended so long before the end.
    Ended(Duration),
}

impl fmt::Display for Irregular {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Few => {
                write!(f, "too few to know a cycle, which takes {} with times: listen for longer", LEAST + 1)
            }
            Self::Intervals(percent) => {
                write!(
                    f,
                    "not cyclic: {percent} % of the intervals are near the median, and {CONFIDENT_PERCENT} % would have to be"
                )
            }
            Self::Cycle(cycle) => write!(f, "one each {cycle:?}: a cell takes cycles of 31.25 us to 512 ms"),
            Self::Ended(ago) => write!(f, "ended {ago:.1?} before the end"),
        }
    }
}

impl Flow {
    /// One that begins with this frame.
    pub fn new(seen: &Seen) -> Self {
        Self {
            frames: 1,
            octets: [seen.octets; 2],
            tag: seen.tag,
            tags: seen.tags,
            last: seen.time,
            counter: seen.counter,
            steps: Vec::new(),
            next: 0,
        }
    }

    /// Takes its next frame.
    pub fn take(&mut self, seen: &Seen) {
        self.frames += 1;
        self.octets = [self.octets[0].min(seen.octets), self.octets[1].max(seen.octets)];
        (self.tag, self.tags) = (seen.tag, self.tags.max(seen.tags));
        let counted = seen.counter.zip(self.counter).map(|(new, old)| new.wrapping_sub(old));
        self.counter = seen.counter;
        let Some(time) = seen.time else { return };
        // A capture whose clock was set back has no interval there.
        if let Some(interval) = self.last.and_then(|last| time.checked_sub(last)) {
            let step = Step { time: interval, counted };
            match self.steps.get_mut(self.next) {
                Some(place) => *place = step,
                None => self.steps.push(step),
            }
            self.next = (self.next + 1) % KEPT;
        }
        self.last = Some(time);
    }

    /// Its cycle, judged at the `end` of listening.
    ///
    /// # Errors
    /// [`Irregular`].
    pub fn rhythm(&self, end: Option<Duration>) -> Result<Rhythm, Irregular> {
        if self.steps.len() < LEAST {
            return Err(Irregular::Few);
        }
        let mut times: Vec<Duration> = self.steps.iter().map(|step| step.time).collect();
        times.sort_unstable();
        let median = times[times.len() / 2];
        let near = times.iter().filter(|time| **time * 2 >= median && **time * 2 <= median * 3).count();
        let percent = near * 100 / times.len();
        let counted = self.counted(median);
        if counted.is_none() && percent < CONFIDENT_PERCENT {
            return Err(Irregular::Intervals(percent));
        }
        if counted.is_none() && (median < CLOCK / 2 || median > LONGEST + LONGEST / 16) {
            return Err(Irregular::Cycle(median));
        }
        let cycle = counted.unwrap_or_else(|| rounded(median));
        let silence = end.zip(self.last).map_or(Duration::ZERO, |(end, last)| end.saturating_sub(last));
        if silence > SILENCE.max(cycle * SILENT_CYCLES) {
            return Err(Irregular::Ended(silence));
        }
        let origin = if counted.is_some() { Origin::Counter } else { Origin::Timing };
        Ok(Rhythm { cycle, origin, jitter: self.jitter(cycle) })
    }

    /// Nine of ten intervals deviate from a cycle by no more.
    pub fn jitter(&self, cycle: Duration) -> Duration {
        let mut deviations: Vec<Duration> = self.steps.iter().map(|step| step.time.abs_diff(cycle)).collect();
        deviations.sort_unstable();
        deviations.get(deviations.len() * 9 / 10).copied().unwrap_or_default()
    }

    /// The cycle by the CycleCounter, if most frames agree on it and the times do not contradict: their median, or all of them together,
    /// which a sender or capture that does its work in bursts does not move.
    fn counted(&self, median: Duration) -> Option<Duration> {
        let mut counts: Vec<u16> = self.steps.iter().filter_map(|step| step.counted).collect();
        counts.sort_unstable();
        let count = *counts.get(counts.len() / 2)?;
        let agreeing = counts.iter().filter(|other| **other == count).count();
        let cycle = CLOCK * u32::from(count);
        let timed = self.steps.iter().filter_map(|step| Some((step.time, CLOCK * u32::from(step.counted?))));
        let (elapsed, told) = timed
            .fold((Duration::ZERO, Duration::ZERO), |(elapsed, told), (time, counted)| {
                (elapsed + time, told + counted)
            });
        let agrees = cycle.abs_diff(median) <= median / 4 || told.abs_diff(elapsed) <= elapsed / 4;
        let agrees = agrees && cycle <= LONGEST;
        (agreeing * 100 >= counts.len() * CONFIDENT_PERCENT && count > 0 && agrees).then_some(cycle)
    }
}

/// The nearest cycle that PROFINET has: most are a power of two of 31.25 us, all are a multiple.
fn rounded(median: Duration) -> Duration {
    let powers = (0..15).map(|power| CLOCK * (1 << power));
    let near = powers.clone().find(|cycle| cycle.abs_diff(median) <= *cycle / 20);
    let multiple = (median.as_nanos() + CLOCK.as_nanos() / 2) / CLOCK.as_nanos();
    let multiple = u32::try_from(multiple).unwrap_or(u32::MAX).max(1);
    near.unwrap_or_else(|| CLOCK.saturating_mul(multiple).min(LONGEST))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A flow whose frames come after these intervals, with a counter that advances by so much each.
    fn flow(intervals: impl IntoIterator<Item = Duration>, advance: u16) -> Flow {
        let (mut time, mut counter) = (Duration::from_secs(1), u16::MAX - 7);
        let seen =
            |time, counter| Seen { time: Some(time), octets: 64, tag: None, tags: 0, counter: Some(counter) };
        let mut flow = Flow::new(&seen(time, counter));
        for interval in intervals {
            (time, counter) = (time + interval, counter.wrapping_add(advance));
            flow.take(&seen(time, counter));
        }
        flow
    }

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn the_counter_is_exact_where_the_times_are_not() {
        // Read in bursts of about 1 ms by a bad clock: 3 % late.
        let flow = flow((0..100).map(|_| Duration::from_micros(1283)), 40);
        let rhythm = flow.rhythm(None).unwrap();
        assert_eq!((rhythm.cycle, rhythm.origin), (Duration::from_micros(1250), Origin::Counter));
        assert_eq!(rhythm.jitter, Duration::from_micros(33));
    }

    /// On a box that is busy with other work frames come in bursts.
    #[test]
    fn the_counter_decides_where_frames_come_in_bursts() {
        let bursts = [MS / 10, MS / 10, 12 * MS, MS / 10, 3 * MS, 9 * MS - MS / 4];
        let flow = flow(bursts.into_iter().cycle().take(96), 128);
        let rhythm = flow.rhythm(None).unwrap();
        assert_eq!((rhythm.cycle, rhythm.origin), (4 * MS, Origin::Counter));
        // Of another one's cycle it says nothing.
        let other = self::flow(bursts.into_iter().cycle().take(96), 32);
        assert!(matches!(other.rhythm(None), Err(Irregular::Intervals(_))));
    }

    #[test]
    fn without_a_counter_the_median_decides() {
        for (interval, cycle) in [
            (Duration::from_micros(31), Duration::from_nanos(31_250)),
            (Duration::from_micros(1030), MS),
            (Duration::from_micros(4110), 4 * MS),
            (Duration::from_micros(3000), 3 * MS),
            (Duration::from_micros(515_000), 512 * MS),
        ] {
            // Each tenth frame is lost, and some come in a burst behind a pause.
            let lossy = (0..100).map(|at| if at % 10 == 0 { interval * 2 } else { interval });
            let rhythm = flow(lossy, 0).rhythm(None).unwrap();
            assert_eq!((rhythm.cycle, rhythm.origin), (cycle, Origin::Timing), "{interval:?}");
        }
        // A counter that contradicts the times is no counter.
        assert_eq!(flow([MS; 100], 33).rhythm(None).unwrap().origin, Origin::Counter);
        assert_eq!(flow([MS; 100], 64).rhythm(None).unwrap().origin, Origin::Timing);
    }

    #[test]
    fn what_is_not_cyclic_is_told_with_its_reason() {
        assert_eq!(flow([MS; LEAST - 1], 32).rhythm(None), Err(Irregular::Few));
        assert!(flow([MS; LEAST], 32).rhythm(None).is_ok());
        // At random: the logarithm of equal shares.
        let random = (1..=200).map(|at| MS.mul_f64(-f64::ln(f64::from((at * 89) % 201) / 201.0)));
        let Err(Irregular::Intervals(percent)) = flow(random, 0).rhythm(None) else { panic!("it is random") };
        assert!((25..45).contains(&percent), "{percent}");
        assert_eq!(
            flow([Duration::from_secs(1); 20], 0).rhythm(None),
            Err(Irregular::Cycle(Duration::from_secs(1)))
        );
        assert_eq!(flow([Duration::ZERO; 20], 0).rhythm(None), Err(Irregular::Cycle(Duration::ZERO)));
        let ended = flow([MS; 100], 32);
        assert!(ended.rhythm(Some(Duration::from_millis(2000))).is_ok());
        let silence = Duration::from_millis(1100);
        assert_eq!(ended.rhythm(Some(Duration::from_millis(2200))), Err(Irregular::Ended(silence)));
    }

    #[test]
    fn memory_is_bounded_and_the_latest_intervals_count() {
        let intervals = (0..10_000).map(|at| if at < 9_700 { MS } else { 2 * MS });
        let flow = flow(intervals, 0);
        assert_eq!((flow.steps.len(), flow.frames), (KEPT, 10_001));
        assert_eq!(flow.rhythm(None).unwrap().cycle, 2 * MS);
    }
}
