//! What probes tell of one path: whether it carries packets both ways, where the peer is on it, how long a round trip takes, how many
//! probes are lost. Without a clock or a socket.
//!
//! **Where the peer is.** At an address that has answered a probe which was sent there and nowhere else. A request of the peer that
//! comes from elsewhere only has that address tried. So nobody moves a path by sending a recorded probe from his own address: each
//! request is taken once, and he would have to pass ours on to the peer and its answer back.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::Duration;

use wire::Instant;

use crate::status::RoundTrips;

/// Interval between two requests on a path.
pub(super) const INTERVAL: Duration = Duration::from_millis(200);
/// A path without an answer for so long, and a round trip, does not carry packets any more.
const DEAD: Duration = Duration::from_secs(1);
/// An answer that is not there by then is lost, on a path with short round trips.
const LOST: Duration = Duration::from_secs(1);
/// Requests of which the share of lost ones is told: 50 seconds. Of fewer, chance alone makes one of two equal paths the worse one.
const SAMPLES: usize = 250;
/// Requests that are remembered: those of the samples, and as many with filling or to a second address.
const REMEMBERED: usize = 3 * SAMPLES;

/// A request to be sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Request {
    pub(crate) seq: u64,
    pub(crate) to: SocketAddr,
    /// Octets of UDP payload; 0: no filling.
    pub(super) octets: u16,
}

#[derive(Clone, Copy, Debug)]
struct Sent {
    request: Request,
    at: Instant,
    /// Time until its answer came.
    took: Option<Duration>,
    /// The outcome of one with filling was told.
    told: bool,
}

/// What an answer has brought.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Answered {
    /// Nothing: nobody asked there, or it was answered already.
    Nothing,
    /// The peer is where it was.
    Known,
    /// The peer is proved to be at another address than before.
    Moved,
}

/// Figures of a path that carries packets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Figures {
    pub(super) round_trip: Duration,
    /// Of a thousand requests.
    pub(super) loss_per_mille: u16,
}

/// One path.
#[derive(Debug, Default)]
pub(crate) struct Meter {
    next_seq: u64,
    asked: Option<Instant>,
    sent: VecDeque<Sent>,
    /// Smoothed round-trip time and its variation (RFC 6298).
    round_trip: Option<(Duration, Duration)>,
    /// Address at which the peer is proved to be, and the last answer from there.
    proved: Option<(SocketAddr, Instant)>,
    /// Source of the peer's last request.
    heard: Option<SocketAddr>,
    /// The peer's last word that this site is proved to be at this end.
    proved_here: Option<Instant>,
}

impl Meter {
    /// One whose requests have later numbers than this: those of a path that was there before with the same keys.
    pub(super) fn after(seq: u64) -> Self {
        Self { next_seq: seq, ..Self::default() }
    }

    /// Number of the last request.
    pub(crate) const fn last_seq(&self) -> u64 {
        self.next_seq
    }

    /// Whether requests are due.
    pub(super) fn is_due(&self, now: Instant) -> bool {
        self.asked.is_none_or(|asked| now.since(asked) >= INTERVAL)
    }

    /// Requests that are due: to the peer's proved address or, if there is none, to `endpoint`; and to where else the peer was
    /// heard. `octets`: of one more with filling, to the proved address.
    pub(crate) fn requests(
        &mut self,
        now: Instant,
        endpoint: Option<SocketAddr>,
        octets: Option<u16>,
    ) -> Vec<Request> {
        let mut requests = Vec::new();
        if !self.is_due(now) {
            return requests;
        }
        self.asked = Some(now);
        let proved = self.proved.map(|(address, _)| address);
        // One that does not answer may be back at its endpoint.
        let endpoint = endpoint.filter(|_| !self.answers(now));
        let mut to: Vec<SocketAddr> = Vec::new();
        for address in [proved, endpoint, self.heard].into_iter().flatten() {
            if !to.contains(&address) {
                to.push(address);
            }
        }
        requests.extend(to.into_iter().map(|to| self.request(now, to, 0)));
        if let (Some(to), Some(octets)) = (proved, octets) {
            requests.push(self.request(now, to, octets));
        }
        requests
    }

    fn request(&mut self, at: Instant, to: SocketAddr, octets: u16) -> Request {
        self.next_seq += 1;
        let request = Request { seq: self.next_seq, to, octets };
        if self.sent.len() == REMEMBERED {
            self.sent.pop_front();
        }
        self.sent.push_back(Sent { request, at, took: None, told: false });
        request
    }

    /// A request of the peer has come from here. `proved`: it says that this site is proved to be at its end.
    pub(super) fn hear_request(&mut self, now: Instant, from: SocketAddr, proved: bool) {
        self.heard = Some(from);
        self.hear_proved(now, proved);
    }

    /// An answer of the peer has come from here.
    pub(crate) fn hear_answer(&mut self, now: Instant, from: SocketAddr, seq: u64, proved: bool) -> Answered {
        let of = |sent: &&mut Sent| sent.request.seq == seq && sent.request.to == from && sent.took.is_none();
        let Some(sent) = self.sent.iter_mut().find(of) else { return Answered::Nothing };
        let (took, filled) = (now.since(sent.at), sent.request.octets > 0);
        sent.took = Some(took);
        self.hear_proved(now, proved);
        if !filled {
            self.smooth(took);
        }
        match self.proved.replace((from, now)) {
            Some((before, _)) if before == from => Answered::Known,
            _ => Answered::Moved,
        }
    }

    fn hear_proved(&mut self, now: Instant, proved: bool) {
        self.proved_here = if proved { Some(now) } else { None };
    }

    fn smooth(&mut self, took: Duration) {
        self.round_trip = Some(match self.round_trip {
            None => (took, took / 2),
            Some((mean, variation)) => {
                let apart = took.abs_diff(mean);
                (mean * 7 / 8 + took / 8, variation * 3 / 4 + apart / 4)
            }
        });
    }

    /// Outcomes of requests with filling: octets, and whether an answer came.
    pub(super) fn poll_filled(&mut self, now: Instant) -> Option<(u16, bool)> {
        let lost = self.lost_after();
        let sent = self.sent.iter_mut().find(|sent| {
            sent.request.octets > 0 && !sent.told && (sent.took.is_some() || now.since(sent.at) > lost)
        })?;
        sent.told = true;
        Some((sent.request.octets, sent.took.is_some()))
    }

    /// An answer later than this counts as lost.
    fn lost_after(&self) -> Duration {
        self.round_trip.map_or(LOST, |(mean, variation)| LOST.max(mean + 4 * variation))
    }

    /// Whether answers come.
    pub(super) fn answers(&self, now: Instant) -> bool {
        let mean = self.round_trip.map_or(Duration::ZERO, |(mean, _)| mean);
        self.proved.is_some_and(|(_, last)| now.since(last) <= DEAD + mean)
    }

    /// Whether the peer has said of late that this site is proved to be at this end.
    fn is_proved_here(&self, now: Instant) -> bool {
        let mean = self.round_trip.map_or(Duration::ZERO, |(mean, _)| mean);
        self.proved_here.is_some_and(|last| now.since(last) <= DEAD + mean)
    }

    /// Where the peer is proved to be.
    pub(super) fn proved(&self) -> Option<SocketAddr> {
        self.proved.map(|(address, _)| address)
    }

    /// Where the peer was heard.
    pub(super) const fn heard(&self) -> Option<SocketAddr> {
        self.heard
    }

    /// Figures of a path that carries packets both ways, as both ends know; `None` of another.
    pub(super) fn figures(&self, now: Instant) -> Option<Figures> {
        if !self.answers(now) || !self.is_proved_here(now) {
            return None;
        }
        let (round_trip, _) = self.round_trip?;
        Some(Figures { round_trip, loss_per_mille: self.loss_per_mille(now) })
    }

    /// The last requests without filling to where the peer is. Those that may still be answered do not count.
    fn last(&self, now: Instant) -> impl Iterator<Item = &Sent> {
        let (lost_after, proved) = (self.lost_after(), self.proved());
        let counts = move |sent: &&Sent| {
            sent.request.octets == 0
                && Some(sent.request.to) == proved
                && (sent.took.is_some() || now.since(sent.at) > lost_after)
        };
        self.sent.iter().rev().filter(counts).take(SAMPLES)
    }

    /// Share of the last requests without an answer.
    fn loss_per_mille(&self, now: Instant) -> u16 {
        let (mut all, mut lost) = (0_u32, 0_u32);
        for sent in self.last(now) {
            (all, lost) = (all + 1, lost + u32::from(sent.took.is_none()));
        }
        (1000 * lost).checked_div(all).unwrap_or(0) as u16
    }

    /// Round trips of those of the last requests that were answered, late answers included. `None`: of none.
    pub(crate) fn round_trips(&self, now: Instant) -> Option<RoundTrips> {
        let mut took = self.last(now).filter_map(|sent| sent.took);
        let first = took.next()?;
        let first = RoundTrips { count: 1, least: first, most: first };
        Some(took.fold(first, |all, took| RoundTrips {
            count: all.count + 1,
            least: all.least.min(took),
            most: all.most.max(took),
        }))
    }
}
