//! The management channel of two sites, as QUIC gives it: messages arrive in the order of their stream, and late rather than not; a
//! connection of which an end hears nothing for some time is lost for that end, whatever the other one believes.

use std::collections::VecDeque;

/// Time without a word after which an end gives its connection up, in microseconds, and time between two attempts.
const IDLE: u64 = 5_000_000;
const RETRY: u64 = 1_000_000;

/// News of a connection for one end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Told {
    Connected,
    Disconnected,
}

/// The streams of a session, and one for MKPDUs.
const STREAMS: usize = 3;
/// The stream of MKPDUs.
pub(super) const MKPDUS: usize = 2;

/// A message on its way: when it arrives.
type Message = (u64, Vec<u8>);

#[derive(Default)]
pub(super) struct Channel {
    /// The connection that each end has.
    ends: [Option<u64>; 2],
    /// Time at which each end has last heard something of its connection.
    heard: [u64; 2],
    /// By sender and stream.
    sent: [[VecDeque<Message>; STREAMS]; 2],
    retry: u64,
    made: u64,
}

impl Channel {
    fn is_whole(&self) -> bool {
        self.ends[0].is_some() && self.ends[0] == self.ends[1]
    }

    /// An end begins anew, or closes its connection without a word.
    pub(super) fn drop_end(&mut self, end: usize) {
        self.ends[end] = None;
        self.sent = Default::default();
    }

    /// Looks at the connection; `reaches`: whether each end reaches the other one. What the ends are told.
    pub(super) fn look(&mut self, now: u64, reaches: [bool; 2]) -> Vec<(usize, Told)> {
        let mut told = Vec::new();
        for end in 0..2 {
            let Some(own) = self.ends[end] else { continue };
            let is_there = self.ends[1 - end] == Some(own);
            if reaches[1 - end] && is_there {
                self.heard[end] = now;
            }
            // An end without this connection answers with a reset.
            let is_reset = reaches == [true; 2] && !is_there;
            if is_reset || now - self.heard[end] >= IDLE {
                self.drop_end(end);
                told.push((end, Told::Disconnected));
            }
        }
        let is_caller_free = self.ends[0].is_none() || !self.is_whole() && self.ends[1].is_none();
        if is_caller_free && reaches == [true; 2] && now >= self.retry {
            self.made += 1;
            (self.ends, self.heard, self.retry) = ([Some(self.made); 2], [now; 2], now + RETRY);
            self.sent = Default::default();
            told.extend([(0, Told::Connected), (1, Told::Connected)]);
        }
        told
    }

    /// An end sends a message on a stream. Without a connection it is lost.
    pub(super) fn send(&mut self, from: usize, stream: usize, at: u64, octets: Vec<u8>) {
        if self.is_whole() {
            let at = self.sent[from][stream].back().map_or(at, |(before, _)| at.max(*before));
            self.sent[from][stream].push_back((at, octets));
        }
    }

    /// Returns the time at which the next message arrives.
    pub(super) fn next(&self) -> Option<u64> {
        self.sent.iter().flatten().filter_map(|stream| stream.front()).map(|(at, _)| *at).min()
    }

    /// A message that arrives now from this end, and its stream.
    pub(super) fn take(&mut self, now: u64, from: usize) -> Option<(usize, Vec<u8>)> {
        let mut streams = self.sent[from].iter_mut().enumerate();
        let is_due = |stream: &VecDeque<Message>| stream.front().is_some_and(|(at, _)| *at <= now);
        let (number, stream) = streams.find(|(_, stream)| is_due(stream))?;
        stream.pop_front().map(|(_, octets)| (number, octets))
    }

    /// Messages of this end come later: nothing passes now.
    pub(super) fn put_off(&mut self, now: u64, from: usize, until: u64) {
        for (at, _) in self.sent[from].iter_mut().flatten().filter(|(at, _)| *at <= now) {
            *at = until;
        }
    }
}
