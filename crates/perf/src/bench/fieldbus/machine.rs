//! The machine's part in a p99.9 of cells: without it nobody can tell a slow gateway from a CPU that was away, or slower for a
//! while.
//!
//! | figure | what it shows |
//! |---|---|
//! | an empty loop ([`EmptyLoop`]) | interruptions, by timers, the hypervisor and others |
//! | slow frames, and how many stand together ([`SlowFrames`]) | spells in which the CPU itself is slower |
//! | stolen time | how much of all CPU time the hypervisor gave to others |

use std::time::Duration;

use ::bench::Row;
use hdrhistogram::Histogram;
use lab::MachineTimes;

use super::{BENCH, Extent, Figure};
use speed::frame_times::{Clock, SlowFrames, empty_loop};

/// Lengths of the loops that do nothing, in nanoseconds: those of single frames, from the shortest cipher to the whole path.
pub const LOOPS: [u64; 5] = [100, 200, 400, 800, 1600];

/// State of the machine meanwhile.
#[derive(Debug)]
pub struct Meanwhile {
    pub(super) loops: [EmptyLoop; LOOPS.len()],
    pub(super) slow: [(Extent, SlowFrames); Extent::ALL.len()],
    begin: Option<MachineTimes>,
    /// Percent; none where it is not told.
    pub(super) stolen: Option<f64>,
}

impl Meanwhile {
    /// From here on.
    pub(super) fn begin(clock: Clock, time: Duration) -> Self {
        let empty = |nanoseconds| empty_loop(clock, Duration::from_nanos(nanoseconds), time);
        Self {
            loops: LOOPS.map(|nanoseconds| EmptyLoop { nanoseconds, taken: empty(nanoseconds) }),
            slow: Extent::ALL.map(|extent| (extent, SlowFrames::default())),
            begin: MachineTimes::now().ok(),
            stolen: None,
        }
    }

    /// Takes in how a figure's frames stood.
    pub(super) fn saw(&mut self, figure: &Figure) {
        for (extent, slow) in &mut self.slow {
            if *extent == figure.extent {
                slow.add(figure.slow);
            }
        }
    }

    /// Runs the loops again, and looks at the time that was stolen up to now.
    pub(super) fn look(&mut self, clock: Clock, time: Duration) {
        for EmptyLoop { nanoseconds, taken } in &mut self.loops {
            let more = empty_loop(clock, Duration::from_nanos(*nanoseconds), time);
            taken.add(more).expect("invariant: all histograms have the same bounds");
        }
        let passed = self.begin.zip(MachineTimes::now().ok());
        self.stolen = passed.map(|(begin, now)| now.stolen_since(begin));
    }

    /// The rows.
    pub fn rows(&self) -> Vec<Row> {
        let mut rows: Vec<_> = self.loops.iter().flat_map(EmptyLoop::rows).collect();
        for (extent, slow) in &self.slow {
            let row = |what: &str, value, samples| {
                Row::new(BENCH, &format!("{what}, {}", extent.name()), value, "percent", samples)
            };
            rows.push(row("slow single frames", slow.percent(), slow.frames));
            rows.push(row("slow single frames beside a slow one", slow.percent_together(), slow.slow));
            rows.push(row(
                "slow single frames beside a slow one by chance",
                slow.percent_by_chance(),
                slow.slow,
            ));
        }
        let stolen = self
            .stolen
            .map(|percent| Row::new(BENCH, "CPU time stolen from this machine", percent, "percent", 1));
        rows.extend(stolen);
        rows
    }
}

/// Times of an idle loop ([`empty_loop`]), in turns with all that was measured.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct EmptyLoop {
    pub(super) nanoseconds: u64,
    taken: Histogram<u64>,
}

impl EmptyLoop {
    pub(super) fn p99_9(&self) -> u64 {
        self.taken.value_at_quantile(0.999)
    }

    pub(super) fn worst(&self) -> u64 {
        self.taken.max()
    }

    /// The rows: p99.9 and worst.
    fn rows(&self) -> [Row; 2] {
        let samples = self.taken.len();
        let row = |what: &str, value: u64| {
            let case = format!("an empty loop of {} ns {what}", self.nanoseconds);
            Row::new(BENCH, &case, value as f64, "ns", samples)
        };
        [row("p99.9", self.p99_9()), row("worst", self.worst())]
    }
}
