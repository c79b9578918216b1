//! Good frames at multiples of the lossless rate, one way and both ways at once.

use std::time::Duration;

use ::bench::Target;
use lab::flood::{self, Flood};
use lab::trial::{SHORTEST, Search, SearchResult, Stream};
use lab::{Error, Machine};

use super::{
    BENCH, LEAST, PAYLOAD, TIMES, TIMES_BOTH, good, good_both, lossless, offered, offered_both, slower,
};
use crate::bench::samples::Samples;
use crate::bench::{BenchError, Effort};

/// Two ends that good frames go between.
pub trait Way {
    /// Searches for the highest rate that is not lost.
    ///
    /// # Errors
    /// If sockets or threads fail.
    fn search(&mut self, search: &Search) -> Result<SearchResult, Error>;

    /// Offers so many frames a second one way.
    ///
    /// # Errors
    /// As [`Self::search`].
    fn offer(&mut self, rate: u32, time: Duration) -> Result<Flood, Error>;

    /// Offers so many frames a second from each end at once.
    ///
    /// # Errors
    /// As [`Self::search`].
    fn offer_both(&mut self, rate: u32, time: Duration) -> Result<[Flood; 2], Error>;
}

/// Machines with ordinary frames.
impl Way for [&Machine; 2] {
    fn search(&mut self, search: &Search) -> Result<SearchResult, Error> {
        search.run(self[0], self[1], &Stream::new(self[0], self[1], &SHORTEST))
    }

    fn offer(&mut self, rate: u32, time: Duration) -> Result<Flood, Error> {
        flood::flood(self[0], self[1], PAYLOAD, Some(rate), time)
    }

    fn offer_both(&mut self, rate: u32, time: Duration) -> Result<[Flood; 2], Error> {
        flood::both_ways(self[0], self[1], PAYLOAD, Some(rate), time)
    }
}

/// A sample of which nothing was sent says nothing of what stands between: it is taken again, as is a search that found
/// nothing, so often at most.
const TRIES: usize = 3;

/// Takes a sample until something was sent.
fn sent<T>(mut take: impl FnMut() -> Result<T, Error>, rate: impl Fn(&T) -> f64) -> Result<T, Error> {
    let mut tries = 1;
    loop {
        let sample = take()?;
        if rate(&sample) > 0.0 || tries == TRIES {
            return Ok(sample);
        }
        tries += 1;
    }
}

/// Frames that arrived, and those sent for them.
#[derive(Debug)]
struct Point {
    times: f64,
    arrived: Samples,
    sent: Samples,
}

/// Good frames from one machine to another, whatever stands between them: the lossless rate once, then a sample of each
/// multiple each round.
#[derive(Debug)]
pub struct Curve {
    rate: f64,
    alone: Samples,
    one_way: Vec<Point>,
    both_ways: Vec<Point>,
    /// The way of the two that fared worse; one for each of [`Self::both_ways`].
    slower: Vec<Samples>,
}

impl Curve {
    /// Searches for the lossless rate.
    ///
    /// # Errors
    /// If sockets or threads fail, or nothing arrives.
    pub fn search(case: &str, way: &mut dyn Way, effort: &Effort) -> Result<Self, BenchError> {
        let mut tries = 0;
        let rate = loop {
            let found = way.search(&Search { time: effort.time, loss: 1e-3, precision: 0.05 })?;
            // A path that loses frames at any rate still carries some.
            let first =
                found.trials.first().map_or(0.0, |trial| trial.received as f64 / trial.elapsed.as_secs_f64());
            let rate = if found.rate > 0.0 { found.rate } else { first / 2.0 };
            if rate >= 1.0 {
                break rate;
            }
            tries += 1;
            if tries == TRIES {
                return Err(BenchError::Silent(case.to_owned()));
            }
        };
        let samples = |name: fn(f64, &str) -> String, times| Samples::new(&name(times, case));
        Ok(Self {
            rate,
            alone: Samples::new(&lossless(case)),
            one_way: TIMES
                .map(|times| Point { times, arrived: samples(good, times), sent: samples(offered, times) })
                .into(),
            both_ways: TIMES_BOTH
                .map(|times| Point {
                    times,
                    arrived: samples(good_both, times),
                    sent: samples(offered_both, times),
                })
                .into(),
            slower: TIMES_BOTH.map(|times| samples(slower, times)).into(),
        })
    }

    /// Frames each second that were not lost.
    pub const fn rate(&self) -> f64 {
        self.rate
    }

    pub(super) const fn lossless(&self) -> &Samples {
        &self.alone
    }

    /// Takes a sample of each multiple.
    ///
    /// # Errors
    /// If a sender fails.
    pub fn round(&mut self, way: &mut dyn Way, time: Duration) -> Result<(), BenchError> {
        self.alone.push(self.rate);
        for point in &mut self.one_way {
            let flood = sent(|| way.offer((self.rate * point.times) as u32, time), Flood::sent_per_second)?;
            point.arrived.push(flood.delivered_per_second());
            point.sent.push(flood.sent_per_second());
        }
        for (point, slower) in self.both_ways.iter_mut().zip(&mut self.slower) {
            // As many for the boxes as one way: half of them from each end.
            let both = || way.offer_both((self.rate * point.times / 2.0) as u32, time);
            let slower_sender = |ways: &[Flood; 2]| ways[0].sent_per_second().min(ways[1].sent_per_second());
            let ways = sent(both, slower_sender)?;
            let [there, back] = ways.map(|flood| flood.delivered_per_second());
            point.arrived.push(there + back);
            point.sent.push(ways.iter().map(Flood::sent_per_second).sum());
            slower.push(2.0 * there.min(back));
        }
        Ok(())
    }

    /// Tells the figures; those with a target are ours. Beside each stands what was sent, as a ratio of the lossless rate too: the
    /// multiple that the sender really reached.
    pub fn tell(&self, judged: bool, figure: &mut dyn FnMut(::bench::Row)) {
        figure(self.alone.row(BENCH, "frames/s", None));
        let arrived = |samples: &Samples, times: f64| {
            let mut row = samples.row(BENCH, "frames/s", Some(&self.alone));
            let wanted = LEAST * times.min(1.0);
            let met = row.ratio.as_ref().is_some_and(|ratio| ratio.value >= wanted);
            row.target = judged.then(|| Target { wanted: format!("ratio at least {wanted}"), met });
            row
        };
        for point in self.one_way.iter().chain(&self.both_ways) {
            figure(arrived(&point.arrived, point.times));
            figure(point.sent.row(BENCH, "frames/s", Some(&self.alone)));
        }
        for (slower, point) in self.slower.iter().zip(&self.both_ways) {
            figure(arrived(slower, point.times));
        }
    }
}
