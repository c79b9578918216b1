//! The highest rate at which next to nothing is lost, searched for as RFC 2544 does (clause 26.1): trials of a fixed
//! length, a higher rate after one that passed, a lower one after one that did not.
//!
//! Departures, since sender, boxes and receiver share one machine: a rate fails only if it fails twice, because others
//! may hold the machine up for a moment; the rate of a trial is what was sent, not what was asked for; the trials
//! of a search end when two rates are within a few per cent of each other; and where to search is found with trials of a
//! quarter of the length. What is found has passed a trial of the full length.

use std::net::{Ipv4Addr, UdpSocket};
use std::time::{Duration, Instant};

use crate::macsec::Load;
use crate::packet::InterfaceCounters;
use crate::topology::Machine;
use crate::{Error, Namespace};

/// Frames that a sender which was held up makes up for at once: about what the smallest queue on the way holds.
const MOST_BEHIND: u64 = 64;
/// The port that datagrams go to, where nobody reads them.
const DISCARD: u16 = 9;
/// Silence after which all that is still under way counts as lost, and the limit on the wait for it.
const QUIET: Duration = Duration::from_millis(60);
const MOST_QUIET: Duration = Duration::from_secs(2);
/// Trials that only tell where to look are so many times shorter.
const BRIEF: u32 = 4;
/// Time that a sender may take beyond its trial.
const GRACE: Duration = Duration::from_secs(60);
/// Octets of Ethernet, IPv4 and UDP headers.
const HEADERS: usize = 14 + 20 + 8;

/// Octets of the shortest Ethernet frame, without FCS.
pub const SHORTEST: [usize; 1] = [60];
/// The simple Internet mix, 7 : 4 : 1: IP packets of 40, 576 and 1500 octets, as Ethernet frames without FCS.
pub const IMIX: [usize; 12] = [60, 590, 60, 60, 590, 60, 1514, 60, 590, 60, 590, 60];

/// UDP datagrams from one machine to another, whose frames have these lengths in turn.
#[derive(Clone, Debug)]
pub struct Stream {
    frames: Vec<Vec<u8>>,
}

impl Stream {
    /// Frames of `octets` each, without FCS, at least 42.
    pub fn new(from: &Machine, to: &Machine, octets: &[usize]) -> Self {
        Self { frames: octets.iter().map(|octets| datagram(from, to, *octets)).collect() }
    }

    /// Octets of a frame, in the mean.
    pub fn mean_octets(&self) -> f64 {
        self.frames.iter().map(Vec::len).sum::<usize>() as f64 / self.frames.len() as f64
    }
}

/// Frames sent in a trial, and those that arrived.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Trial {
    /// Frames that were sent.
    pub sent: u64,
    /// Frames that arrived.
    pub received: u64,
    /// Duration of sending.
    pub elapsed: Duration,
}

impl Trial {
    /// Frames sent each second.
    pub fn rate(&self) -> f64 {
        self.sent as f64 / self.elapsed.as_secs_f64()
    }

    /// The share that was lost, from 0 to 1.
    pub fn loss(&self) -> f64 {
        if self.sent == 0 {
            return 1.0;
        }
        self.sent.saturating_sub(self.received) as f64 / self.sent as f64
    }
}

/// Settings of a search for a rate.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Search {
    /// Duration of a trial; RFC 2544 wants 60 seconds for a figure of a product, and less is usual in a search.
    pub time: Duration,
    /// The share that may be lost, from 0 to 1.
    pub loss: f64,
    /// The search ends when the rates that are left differ by less than this share.
    pub precision: f64,
}

/// Result of a search.
#[derive(Clone, PartialEq, Debug)]
pub struct SearchResult {
    /// Frames each second of the fastest trial that passed; 0 if none did.
    pub rate: f64,
    /// Octets of these frames in the mean, without FCS.
    pub mean_octets: f64,
    /// Every trial, in its order.
    pub trials: Vec<Trial>,
}

impl Search {
    /// Searches for the highest rate of `stream` at which no more than [`Search::loss`] is lost.
    ///
    /// # Errors
    /// If sockets or threads fail. Loss is not an error.
    pub fn run(&self, from: &Machine, to: &Machine, stream: &Stream) -> Result<SearchResult, Error> {
        // Datagrams that a socket takes and nobody reads are dropped in silence, where an answer would be sent else.
        let _sink = to
            .namespace
            .enter(|| UdpSocket::bind((to.ipv4, DISCARD)))?
            .map_err(Error::system("open a UDP socket"))?;
        let ends = [(&from.namespace, from.ifname), (&to.namespace, to.ifname)];
        self.by(stream.mean_octets(), |rate, time| {
            let (frames, mut next) = (stream.frames.clone(), 0);
            let write = move |frame: &mut Vec<u8>| {
                frame.clone_from(&frames[next]);
                next = (next + 1) % frames.len();
            };
            trial(ends, write, rate, time)
        })
    }

    /// The same for frames of `octets` each that `source` makes anew for each trial: from one interface of a namespace to another.
    ///
    /// # Errors
    /// As [`Self::run`].
    pub fn run_with<W: FnMut(&mut Vec<u8>) + Send + 'static>(
        &self,
        ends: [(&Namespace, &str); 2],
        octets: usize,
        mut source: impl FnMut() -> W,
    ) -> Result<SearchResult, Error> {
        self.by(octets as f64, |rate, time| trial(ends, source(), rate, time))
    }

    /// The search itself, whatever a trial is.
    fn by(
        &self,
        mean_octets: f64,
        trial: impl FnMut(Option<u32>, Duration) -> Result<Trial, Error>,
    ) -> Result<SearchResult, Error> {
        let found = SearchResult { rate: 0.0, mean_octets, trials: Vec::new() };
        let mut hunt = Hunt { search: *self, trial, found };
        let brief = self.time / BRIEF;
        // As many as go; who loses none of them has nothing to be searched for.
        if !(hunt.passes(None, brief, 1)? && hunt.passes(None, self.time, 1)?) {
            let (near, failed) = hunt.guide(brief)?;
            hunt.settle(near, failed)?;
        }
        Ok(hunt.found)
    }
}

/// A search under way.
struct Hunt<T> {
    search: Search,
    trial: T,
    found: SearchResult,
}

impl<T: FnMut(Option<u32>, Duration) -> Result<Trial, Error>> Hunt<T> {
    /// Whether a rate passes one of so many trials.
    fn passes(&mut self, rate: Option<f64>, time: Duration, chances: usize) -> Result<bool, Error> {
        for _ in 0..chances {
            let tried = (self.trial)(rate.map(|rate| rate as u32), time)?;
            self.found.trials.push(tried);
            if tried.loss() <= self.search.loss {
                if time == self.search.time {
                    self.found.rate = self.found.rate.max(tried.rate());
                }
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Halves with brief trials; returns the highest rate that passed, 0 if none did, and one close by that failed.
    fn guide(&mut self, brief: Duration) -> Result<(f64, f64), Error> {
        let flood = self.found.trials[0];
        // Of too many frames fewer may arrive than of a smaller number.
        let (mut passed, mut failed) =
            (0.0, 1.25 * flood.received as f64 / flood.elapsed.as_secs_f64().max(1e-9));
        let least = (failed / 256.0).max(1.0);
        let mut tried = false;
        loop {
            let close = failed - passed <= 2.0 * self.search.precision * failed || failed <= least;
            if (close && tried) || failed < 1.0 {
                return Ok((passed, failed));
            }
            // Every rate has passed: whether the end does is not known.
            let rate = if close { failed } else { f64::midpoint(passed, failed) };
            match (self.passes(Some(rate), brief, 2)?, close) {
                (true, false) => passed = rate,
                (true, true) => (passed, failed) = (rate, 1.5 * rate),
                (false, _) => (failed, tried) = (rate, true),
            }
        }
    }

    /// Looks with trials of the full length between what seems to pass and what fails, and below if it does not.
    fn settle(&mut self, near: f64, mut failed: f64) -> Result<(), Error> {
        let (mut sure, mut rate, mut step) = (0.0, near, 2.0 * self.search.precision);
        let least = (failed / 256.0).max(1.0);
        while failed - sure > self.search.precision * failed && rate >= least {
            if self.passes(Some(rate), self.search.time, 2)? {
                sure = rate;
            } else {
                failed = rate;
            }
            if sure > 0.0 {
                rate = f64::midpoint(sure, failed);
            } else {
                rate = failed * (1.0 - step);
                step = (2.0 * step).min(0.5);
            }
        }
        Ok(())
    }
}

/// Sends for `time`, then waits until nothing more arrives.
fn trial(
    [from, (to, ifname)]: [(&Namespace, &str); 2],
    write: impl FnMut(&mut Vec<u8>) + Send + 'static,
    per_second: Option<u32>,
    time: Duration,
) -> Result<Trial, Error> {
    let arrived = || InterfaceCounters::read(to, ifname).map(|counters| counters.rx_frames);
    let before = arrived()?;
    let start = Instant::now();
    let load = Load::start_evenly(from, write, per_second, MOST_BEHIND, time + GRACE)?;
    std::thread::sleep(time.saturating_sub(start.elapsed()));
    let sent = load.stop()?;
    let elapsed = start.elapsed();
    let (end, mut last, mut since) = (Instant::now() + MOST_QUIET, arrived()?, Instant::now());
    while since.elapsed() < QUIET && Instant::now() < end {
        std::thread::sleep(Duration::from_millis(5));
        let now = arrived()?;
        if now != last {
            (last, since) = (now, Instant::now());
        }
    }
    Ok(Trial { sent, received: last - before, elapsed })
}

/// The frame of a UDP datagram of zeros, without a UDP checksum.
fn datagram(from: &Machine, to: &Machine, octets: usize) -> Vec<u8> {
    let octets = octets.max(HEADERS);
    let ip = |address: Ipv4Addr| address.octets();
    let length = |octets: usize| (octets as u16).to_be_bytes();
    let mut header =
        [&[0x45, 0][..], &length(octets - 14), &[0, 0, 0x40, 0, 64, 17, 0, 0], &ip(from.ipv4), &ip(to.ipv4)]
            .concat();
    let sum: u32 = header.chunks(2).map(|pair| u32::from(pair[0]) << 8 | u32::from(pair[1])).sum();
    let folded = (sum & 0xffff) + (sum >> 16);
    let checksum = !(((folded & 0xffff) + (folded >> 16)) as u16);
    header[10..12].copy_from_slice(&checksum.to_be_bytes());
    let udp = [DISCARD.to_be_bytes(), DISCARD.to_be_bytes(), length(octets - 34), [0; 2]].concat();
    let mut frame = [&to.mac[..], &from.mac, &[0x08, 0x00], &header, &udp].concat();
    frame.resize(octets, 0);
    frame
}

#[cfg(test)]
mod tests {
    use super::*;

    const SEARCH: Search = Search { time: Duration::from_secs(2), loss: 1e-4, precision: 0.02 };

    /// A box that passes `capacity` frames a second, under overload only a part of that; every `flaky`th trial loses some
    /// all the same, and a brief one hides the loss of what is up to `hidden` times too much.
    fn found(capacity: f64, sender: f64, flaky: usize, [under_overload, hidden]: [f64; 2]) -> SearchResult {
        let mut number = 0;
        let trial = |rate: Option<u32>, time: Duration| {
            number += 1;
            let sent = rate.map_or(sender, |rate| f64::from(rate).min(sender));
            let queue = if time < SEARCH.time { hidden } else { 1.0 };
            let mut passed =
                if sent > 2.0 * capacity { under_overload * capacity } else { sent.min(capacity * queue) };
            if number % flaky == 0 {
                passed *= 0.99;
            }
            let count = |rate: f64| (rate * time.as_secs_f64()) as u64;
            Ok(Trial { sent: count(sent), received: count(passed), elapsed: time })
        };
        SEARCH.by(60.0, trial).unwrap()
    }

    #[test]
    fn the_rate_that_just_passes_is_found() {
        for capacity in [900.0, 50_000.0, 300_000.0] {
            for flaky in [usize::MAX, 3] {
                for box_ in [[1.0, 1.0], [0.5, 1.0], [1.0, 1.1]] {
                    let found = found(capacity, 700_000.0, flaky, box_);
                    assert!(
                        (0.96 * capacity..=capacity + 1.0).contains(&found.rate),
                        "{capacity}, {box_:?}: {}",
                        found.rate
                    );
                    let long = found.trials.iter().filter(|trial| trial.elapsed == SEARCH.time).count();
                    let most = if (flaky, box_) == (usize::MAX, [1.0, 1.0]) { (16, 5) } else { (30, 12) };
                    assert!(found.trials.len() <= most.0 && long <= most.1, "{}, {long}", found.trials.len());
                }
            }
        }
        // A path that takes more than the sender has is not searched at all.
        let all = found(500_000.0, 400_000.0, usize::MAX, [1.0, 1.0]);
        assert_eq!((all.rate, all.trials.len()), (400_000.0, 2));
    }

    #[test]
    fn what_always_loses_passes_nothing() {
        let lossy = |rate: Option<u32>, time: Duration| {
            let sent = u64::from(rate.unwrap_or(100_000));
            Ok(Trial { sent, received: sent - sent / 100 - 1, elapsed: time })
        };
        let found = SEARCH.by(60.0, lossy).unwrap();
        assert_eq!(found.rate, 0.0);
        assert!(found.trials.len() < 24, "it ends: {}", found.trials.len());
    }
}
