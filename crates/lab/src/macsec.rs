//! Prepared MACsec frames between two interfaces, without stations: what a tunnel carries, and as fast as asked.
//!
//! ```text
//!  DA 6 | SA 6 | 88-E5 | TCI E C SC, AN 0 | SL | PN 4 | SCI 8 | octets that nobody can tell from ciphertext
//! ```
//!
//! PNs count up, as a station's do: a tunnel may take one that falls for a station that started anew. The octets
//! behind the SecTAG are random, and the first eight of them are others in each frame: more would cost the sender what
//! it shares with those who are measured.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::flood::{Flood, MOST_BEHIND};
use crate::histogram::{histogram, nanoseconds};
pub use crate::load::Load;
use crate::pace::Pace;
use crate::packet::Direction;
use crate::topology::Mac;
use crate::traffic::RoundTrips;
use crate::{Error, Namespace, PacketSocket};

/// Octets in front of what is encrypted: addresses and SecTAG with SCI.
pub const PREFIX: usize = 28;
/// Octets of the shortest prepared frame: 64 with the FCS that a wire adds.
pub const SHORTEST: usize = 60;
/// Time that the flood runs before arrivals are counted.
const WARM_UP: Duration = Duration::from_millis(200);
/// Time that a sender goes on at most behind its time: it is stopped before.
const GRACE: Duration = Duration::from_secs(60);
/// Limit on the time of an echo. On a busy machine a frame may be under way for a second, and is not lost.
const ECHO_WAIT: Duration = Duration::from_secs(5);

/// An interface that sends or receives frames.
#[derive(Clone, Copy, Debug)]
pub struct Port<'n> {
    /// Its namespace.
    pub namespace: &'n Namespace,
    /// Its name.
    pub ifname: &'n str,
    /// The address of the station that it plays.
    pub mac: Mac,
}

/// A sequence of prepared frames from one station to another.
#[derive(Clone, Debug)]
pub struct Prepared {
    octets: Vec<u8>,
    pn: u32,
    noise: u64,
}

impl Prepared {
    /// Frames of `octets` in all, without FCS, at least [`SHORTEST`]; the first has PN `first_pn`.
    pub fn new(from: Mac, to: Mac, octets: usize, first_pn: u32) -> Prepared {
        let octets = octets.max(SHORTEST);
        let mut frame = [&to[..], &from, &[0x88, 0xe5, 0x2c, 0, 0, 0, 0, 0], &from, &[0, 1]].concat();
        frame.resize(octets, 0);
        // Secure data below 48 octets is told by SL; 16 octets of the rest are the ICV.
        let data = octets - PREFIX - 16;
        frame[15] = if data < 48 { data as u8 } else { 0 };
        let mut prepared =
            Prepared { octets: Vec::new(), pn: first_pn, noise: 0x9e37_79b9_7f4a_7c15 ^ u64::from(first_pn) };
        for octets in frame[PREFIX..].chunks_mut(8) {
            octets.copy_from_slice(&prepared.noise().to_le_bytes()[..octets.len()]);
        }
        prepared.octets = frame;
        prepared
    }

    /// xorshift64: quick, and of no other use.
    fn noise(&mut self) -> u64 {
        self.noise ^= self.noise << 13;
        self.noise ^= self.noise >> 7;
        self.noise ^= self.noise << 17;
        self.noise
    }

    /// Writes the next frame over `frame`, which it makes as long as it has to be; returns its PN.
    pub fn next_into(&mut self, frame: &mut Vec<u8>) -> u32 {
        frame.clone_from(&self.octets);
        let pn = self.pn;
        frame[16..20].copy_from_slice(&pn.to_be_bytes());
        frame[PREFIX..PREFIX + 8].copy_from_slice(&self.noise().to_le_bytes());
        self.pn = self.pn.wrapping_add(1).max(1);
        pn
    }

    /// The next frame.
    pub fn next_frame(&mut self) -> Vec<u8> {
        let mut frame = Vec::new();
        self.next_into(&mut frame);
        frame
    }
}

impl Load {
    /// Sends whatever `next` writes over the frame that it is given, `per_second` of them or as many as go, for at most `limit`, out of
    /// an interface of a namespace.
    ///
    /// # Errors
    /// If the socket or the thread fails.
    pub fn start_with(
        from: (&Namespace, &str),
        next: impl FnMut(&mut Vec<u8>) + Send + 'static,
        per_second: Option<u32>,
        limit: Duration,
    ) -> Result<Load, Error> {
        Load::start_evenly(from, next, per_second, MOST_BEHIND, limit)
    }

    /// The same without bursts of more than `most_behind` frames when the sender was held up.
    pub(crate) fn start_evenly(
        from: (&Namespace, &str),
        mut next: impl FnMut(&mut Vec<u8>) + Send + 'static,
        per_second: Option<u32>,
        most_behind: u64,
        limit: Duration,
    ) -> Result<Load, Error> {
        let mut pace = Pace::new(per_second, most_behind);
        let mut batch = Batch::new();
        let send = move |socket: &PacketSocket| pace.keep(|count| batch.send(socket, &mut next, count));
        Load::spawn(from, send, limit)
    }
}

/// Sends frames of `octets` from one interface, and counts for `time` how many arrive at the other.
///
/// # Errors
/// If the sender fails or does not end, or the counters cannot be read. A lost frame is not an error.
pub fn flood(
    from: Port<'_>,
    to: Port<'_>,
    octets: usize,
    first_pn: u32,
    per_second: Option<u32>,
    time: Duration,
) -> Result<Flood, Error> {
    let mut frames = Prepared::new(from.mac, to.mac, octets, first_pn);
    let next = move |frame: &mut Vec<u8>| {
        frames.next_into(frame);
    };
    flood_with([(from.namespace, from.ifname), (to.namespace, to.ifname)], next, per_second, time)
}

/// The same with whatever `next` writes, out of an interface of a namespace to another.
///
/// # Errors
/// As [`flood`].
pub fn flood_with(
    [from, (namespace, ifname)]: [(&Namespace, &str); 2],
    next: impl FnMut(&mut Vec<u8>) + Send + 'static,
    per_second: Option<u32>,
    time: Duration,
) -> Result<Flood, Error> {
    let load = Load::start_with(from, next, per_second, WARM_UP + time + GRACE)?;
    let counted = crate::flood::count([(&load, namespace, ifname)], time);
    load.stop()?;
    counted.map(|[flood]| flood)
}

/// The same from both at once, `per_second` from each: what arrives of the first one's, then of the second one's.
///
/// # Errors
/// As [`flood`].
pub fn both_ways(
    [one, other]: [Port<'_>; 2],
    octets: usize,
    first_pn: u32,
    per_second: Option<u32>,
    time: Duration,
) -> Result<[Flood; 2], Error> {
    let frames = |from: Port<'_>, to: Port<'_>| {
        let mut frames = Prepared::new(from.mac, to.mac, octets, first_pn);
        move |frame: &mut Vec<u8>| {
            frames.next_into(frame);
        }
    };
    let ends = [one, other].map(|port| (port.namespace, port.ifname));
    both_ways_with(ends, [frames(one, other), frames(other, one)], per_second, time)
}

/// The same with whatever `next` of each end writes.
///
/// # Errors
/// As [`flood`].
pub fn both_ways_with(
    [one, other]: [(&Namespace, &str); 2],
    [there, back]: [impl FnMut(&mut Vec<u8>) + Send + 'static; 2],
    per_second: Option<u32>,
    time: Duration,
) -> Result<[Flood; 2], Error> {
    let limit = WARM_UP + time + GRACE;
    let there = Load::start_with(one, there, per_second, limit)?;
    let back = Load::start_with(other, back, per_second, limit)?;
    let counted = crate::flood::count([(&there, other.0, other.1), (&back, one.0, one.1)], time);
    there.stop()?;
    back.stop()?;
    counted
}

/// Frames that are written and sent together.
struct Batch {
    frames: Vec<Vec<u8>>,
    /// Those in front that the interface did not take: they go first the next time, so no PN is left out.
    waiting: usize,
}

impl Batch {
    fn new() -> Self {
        Self { frames: vec![Vec::new(); PacketSocket::BATCH], waiting: 0 }
    }

    /// Sends up to `count` frames, which `next` writes, and returns how many were taken.
    fn send(
        &mut self,
        socket: &PacketSocket,
        next: &mut impl FnMut(&mut Vec<u8>),
        count: usize,
    ) -> Result<usize, Error> {
        let Self { frames, waiting } = self;
        let count = count.min(frames.len());
        frames.iter_mut().take(count).skip(*waiting).for_each(next);
        let ready = count.max(*waiting);
        let taken = socket.send_all(&frames[..ready])?;
        frames[..ready].rotate_left(taken);
        *waiting = ready - taken;
        Ok(taken)
    }
}

/// Sends frames of `octets` one after the other, each behind a `pause`, to a station that sends them back with their
/// addresses exchanged, and waits for each.
///
/// # Errors
/// If the sockets fail. A lost frame is not an error.
pub fn round_trips(
    from: Port<'_>,
    to: Port<'_>,
    octets: usize,
    first_pn: u32,
    count: u64,
    pause: Duration,
) -> Result<RoundTrips, Error> {
    let mut echo = PacketSocket::open(to.namespace, to.ifname)?;
    let mut socket = PacketSocket::open(from.namespace, from.ifname)?;
    let stop = AtomicBool::new(false);
    let mut frames = Prepared::new(from.mac, to.mac, octets, first_pn);
    let mut trips = RoundTrips { sent: 0, times: histogram() };
    std::thread::scope(|scope| {
        let echoing = scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                let Some(frame) = echo.receive()? else { continue };
                if frame.direction == Direction::In && frame.octets.starts_with(&to.mac) {
                    let back = [&from.mac[..], &to.mac, &frame.octets[12..20], &to.mac, &frame.octets[26..]];
                    echo.send(&back.concat())?;
                }
            }
            Ok::<_, Error>(())
        });
        let measured = (0..count).try_for_each(|_| {
            std::thread::sleep(pause);
            let frame = frames.next_frame();
            let start = Instant::now();
            socket.send(&frame)?;
            trips.sent += 1;
            while start.elapsed() < ECHO_WAIT {
                let Some(answer) = socket.receive()? else { continue };
                let back = answer.direction == Direction::In && answer.octets.starts_with(&from.mac);
                if back && answer.octets.get(16..20) == Some(&frame[16..20]) {
                    trips.times.saturating_record(nanoseconds(start.elapsed()));
                    break;
                }
            }
            Ok(())
        });
        stop.store(true, Ordering::Relaxed);
        let echoed = echoing.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        measured.and(echoed)
    })?;
    Ok(trips)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prepared_frames_are_what_a_station_would_send() {
        let (from, to) = ([2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2]);
        for octets in [SHORTEST, 91, 92, 1514] {
            let mut frames = Prepared::new(from, to, octets, 7);
            let [first, second] = [frames.next_frame(), frames.next_frame()];
            assert_eq!((first.len(), second.len()), (octets, octets));
            assert_eq!([&first[..6], &first[6..12]], [&to, &from]);
            assert_eq!(first[12..20], [0x88, 0xe5, 0x2c, first[15], 0, 0, 0, 7]);
            assert_eq!(second[16..20], [0, 0, 0, 8]);
            let short = octets - PREFIX - 16;
            assert_eq!(usize::from(first[15]), if short < 48 { short } else { 0 });
            assert_ne!(first[PREFIX..], second[PREFIX..]);
        }
        let mut last = Prepared::new(from, to, 60, u32::MAX);
        assert_eq!(
            [last.next_frame()[16..20].to_vec(), last.next_frame()[16..20].to_vec()].concat(),
            [255, 255, 255, 255, 0, 0, 0, 1]
        );
    }
}
